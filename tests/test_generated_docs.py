"""What the documents say of the code, is so: drawings are fresh, names and links lead somewhere.

``python docs/generate.py`` renews the drawings.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "docs" / "generate.py"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = "wire|handshake|channels|stores|endpoint|peermesh"
NAME = re.compile(rf"`((?:{PACKAGES})(?:\.\w+)+)(?:\(\))?`")
README_LINES_MAX = 150  # what is read before a choice is made
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)

by_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)


def generate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, GENERATOR, *arguments],
        capture_output=True,
        text=True,
        timeout=limit(60),
        check=False,
    )


def is_module(name: str) -> bool:
    """Look a module up without running it: a ``__main__`` would do what it is for."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def does_exist(name: str) -> bool:
    """Take as much of a dotted name as is a module, and look the rest up."""
    parts = name.split(".")
    end = max(end for end in range(1, len(parts) + 1) if is_module(".".join(parts[:end])))
    if end == len(parts):
        return True
    thing: object = importlib.import_module(".".join(parts[:end]))
    for part in parts[end:]:
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


def anchors(path: Path) -> set[str]:
    """Give the anchors that the headings of a document make."""
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(path.read_text()))
    return {title.replace(" ", "-") for title in plain}


def test_every_drawing_is_up_to_date():
    done = generate("--check")
    assert done.returncode == 0, f"run python docs/generate.py\n{done.stdout}{done.stderr}"


@by_document
def test_the_names_in_a_document_exist(path):
    names = dict.fromkeys(NAME.findall(path.read_text("utf-8")))
    assert not [name for name in names if not does_exist(name)]


@by_document
def test_the_links_in_a_document_lead_somewhere(path):
    broken = []
    for target, anchor in LINK.findall(path.read_text("utf-8")):
        goal = path.parent / target if target else path
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            broken.append((target, anchor))
    assert not broken


def test_the_first_page_is_short():
    assert len(DOCUMENTS[0].read_text("utf-8").splitlines()) <= README_LINES_MAX


# The generator itself, on documents of which we know what is wrong.


def document(folder: Path, name: str = "overflow-policies", end: str = "<!-- end -->") -> Path:
    path = folder / "page.md"
    path.write_text(f"before\n<!-- generated: {name} -->\nold\n{end}\nafter\n", "utf-8")
    return path


def test_a_stale_drawing_is_found_and_renewed_and_nothing_else_is_touched(tmp_path):
    path = document(tmp_path)
    stale = path.read_text("utf-8")
    found = generate("--check", path)
    assert (found.returncode, path.read_text("utf-8")) == (1, stale)
    assert "-old" in found.stdout
    assert generate(path).returncode == 0
    fresh = path.read_text("utf-8")
    assert fresh.startswith("before\n<!-- generated: overflow-policies -->\n`disconnect`")
    assert fresh.endswith("\n<!-- end -->\nafter\n")
    assert generate("--check", path).returncode == 0


@pytest.mark.parametrize(
    ("page", "complaint"),
    [({"name": "weather"}, "nobody draws 'weather'"), ({"end": ""}, "does not end")],
)
def test_a_bad_marker_is_refused(tmp_path, page, complaint):
    done = generate("--check", document(tmp_path, **page))
    assert done.returncode != 0
    assert complaint in done.stderr


def test_a_name_that_does_not_exist_is_found():
    assert does_exist("endpoint.Endpoint.publish_nowait")
    assert not does_exist("endpoint.Endpoint.sing")
    assert not does_exist("endpoint.weather")


def test_ratios_are_read_from_the_benchmarks_and_times_become_rates(monkeypatch):
    monkeypatch.syspath_prepend(GENERATOR.parent)
    figures = importlib.import_module("drawing.figures")
    page = "| a / b | 0.50 | 0.40..0.80 |  |\n| a | 5 | 4..6 |\n| c / d | 1.15 | 0.75..1.23 |\n"
    known = dict(figures.comparisons(page))
    assert list(known) == ["a / b", "c / d"]
    assert str(known["a / b"]) == "**0.50**"
    assert str(known["a / b"].inverse()) == "2.00"
    assert str(known["c / d"]) == "1.15 (0.75 to 1.23)"
    assert tuple(known["a / b"].inverse()) == (2.0, 1.25, 2.5)
