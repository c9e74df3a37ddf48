"""What the documents show, works: README.md and its like, and docs/, are run like any other code.

The ``python`` blocks of a document are run from top to bottom, in one namespace and one fresh
interpreter. In ``console`` blocks, lines that begin with ``$ peermesh`` or ``$ make`` have to name
commands, options and targets that exist. A block that is meant to be read only says ``text``; no
other way leads around this test.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from peermesh.testing.time_limits import limit
from tools.relocate import MOVED

ROOT = Path(__file__).parent.parent
LANGUAGES = {"python", "console", "text", "toml", "json", "mermaid"}
RUN_SECONDS_MAX = 280  # below the net, so that the document is named
EXAMPLE_LINES_MAX = 60

FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\s`]*)")
RUNNER = """
import json, sys
namespace = {"__name__": "__main__"}
for name, line, source in json.load(sys.stdin):
    exec(compile("\\n" * line + source, name, "exec"), namespace)
"""
"""The empty lines in front make a traceback point into the document."""


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    line: int
    """The line of the opening fence, counted from one."""
    text: str


def blocks(text: str) -> Iterator[Block]:
    """Give the fenced blocks of a document, and raise ``ValueError`` if the last one is open."""
    opening: re.Match[str] | None = None
    start, body = 0, []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        fence = FENCE.match(line)
        if opening is None:
            opening, start, body = fence, number, []
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["language"]:
            yield Block(opening["language"], start, dedent("".join(body)))
            opening = None
        else:
            body.append(line)
    if opening is not None:
        raise ValueError(f"the block that begins in line {start} does not end")


def documents() -> list[Path]:
    return sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


def of_language(path: Path, language: str) -> list[Block]:
    return [block for block in blocks(path.read_text("utf-8")) if block.language == language]


def cases(language: str) -> list[object]:
    """Give a case for each document with such blocks; those with PySpark need Java."""
    found = [(path, of_language(path, language)) for path in documents()]
    return [
        pytest.param(
            path,
            id=path.relative_to(ROOT).as_posix(),
            marks=[pytest.mark.spark] * any("pyspark" in block.text for block in some),
        )
        for path, some in found
        if some
    ]


def run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the Python of a document with an empty folder as its own."""
    script = [(path.name, block.line, block.text) for block in of_language(path, "python")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PEERMESH_")}
    if any("pyspark" in text for _, _, text in script):
        local = importlib.import_module("peermesh.spark.local")
        clean["SPARK_HOME"] = str(local.link_home(folder.parent / "spark-home"))
        clean["SPARK_SUBMIT_OPTS"] = " ".join(local.JVM_OPTIONS)
    return subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(script),
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=limit(RUN_SECONDS_MAX),
        check=False,
    )


def commands(text: str) -> Iterator[list[str]]:
    """Give the words of each command line; one that ends in a backslash goes on."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
            words.whitespace_split = True
            yield first_command(list(words))


def first_command(words: list[str]) -> list[str]:
    """Leave away what follows a pipe, a redirection or an ampersand, and leading variables."""
    end = next((at for at, word in enumerate(words) if set(word) <= set("|&;<>()")), len(words))
    start = next((at for at, word in enumerate(words[:end]) if "=" not in word), end)
    return words[start:end]


def problem_of(words: list[str]) -> str | None:
    """Say what does not exist of a command line; other programs are not ours to judge."""
    match words:
        case ["peermesh", *arguments]:
            return problem_of_peermesh(arguments)
        case ["make", *arguments]:
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
            unknown = [word for word in arguments if "=" not in word and word not in targets]
            return f"make has no target {unknown[0]}" if unknown else None
        case _:
            return None


def problem_of_peermesh(arguments: list[str]) -> str | None:
    """Follow the subcommands, and look up each option on the way, without running anything."""
    click = importlib.import_module("click")
    command = importlib.import_module("peermesh.cli.application").application
    known = {"--help", "--version"}
    for word in arguments:
        known |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        if word.startswith("-") and word != "-":
            if word.partition("=")[0] not in known:
                return f"{command.name} has no option {word}"
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"{command.name} has no command {word}"
            command = found
    return None


@pytest.mark.parametrize("path", cases("python"))
def test_the_python_of_a_document_runs(path, tmp_path):
    done = run(path, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("path", cases("console"))
def test_the_commands_of_a_document_exist(path):
    lines = [words for block in of_language(path, "console") for words in commands(block.text)]
    problems = {" ".join(words): problem_of(words) for words in lines}
    assert not {line: problem for line, problem in problems.items() if problem}


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_of_a_document_says_what_it_is(path):
    unknown = [block[:2] for block in blocks(path.read_text("utf-8")) if block[0] not in LANGUAGES]
    assert not unknown, f"a block is one of {sorted(LANGUAGES)}"


def test_an_example_is_short_and_in_the_readme_which_is_run():
    shown = [block.text for block in of_language(ROOT / "README.md", "python")]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text("utf-8")
        assert text.count("\n") < EXAMPLE_LINES_MAX, path
        assert text in shown, path


def imported(text: str) -> set[str]:
    """Give the top-level packages that a piece of Python imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def pages() -> list[Path]:
    return documents() + sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_imports_of_ours_only_what_the_wheel_has(path):
    """The layers are packages of the checkout alone: users import ``peermesh``."""
    text = path.read_text("utf-8")
    shown = [block.text for block in blocks(text) if block.language == "python"]
    for piece in [text] if path.suffix == ".py" else shown:
        assert imported(piece).isdisjoint(MOVED)


# The test itself, on documents of which we know what is wrong.


def test_a_block_is_found_wherever_it_stands(tmp_path):
    text = dedent(
        """\
        ```python
        one = 1
        ```
        1. In a list:
           ```console
           $ make test
           ```
        ~~~~text
        ```python
        ~~~~
        """
    )
    assert list(blocks(text)) == [
        Block("python", 1, "one = 1\n"),
        Block("console", 5, "$ make test\n"),
        Block("text", 8, "```python\n"),
    ]
    with pytest.raises(ValueError, match="line 1 does not end"):
        list(blocks("```python\n"))


def test_blocks_share_a_namespace_and_a_failure_names_its_line(tmp_path):
    path = tmp_path / "guide.md"
    path.write_text("```python\none = 1\n```\nprose\n```python\nassert one == 1\n```\n")
    assert run(path, tmp_path).returncode == 0
    path.write_text("```python\none = 1\n```\nprose\n```python\nassert one == 2\n```\n")
    failed = run(path, tmp_path)
    assert failed.returncode != 0
    assert 'File "guide.md", line 6' in failed.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("$ peermesh demo | tee log", ["peermesh", "demo"]),
        ("$ PEERMESH_SECRET=abc peermesh run > out 2>&1 &", ["peermesh", "run"]),
        ("$ make test ARGS='-k wire'", ["make", "test", "ARGS=-k wire"]),
        ("$ peermesh \\\n  demo", ["peermesh", "demo"]),
    ],
)
def test_a_command_line_is_taken_apart(line, words):
    (found,) = commands(line)
    assert found == words


def test_a_target_that_does_not_exist_is_found():
    assert problem_of(["make", "test"]) is None
    assert problem_of(["make", "coffee"]) == "make has no target coffee"
    assert problem_of(["ls", "--coffee"]) is None


def test_a_command_that_does_not_exist_is_found(monkeypatch):
    click = pytest.importorskip("click")

    @click.group()
    def main(): ...

    @main.command()
    @click.option("--port", "-p")
    @click.argument("host")
    def listen(): ...

    cli = type(sys)("peermesh.cli.application")
    cli.application = main
    monkeypatch.setitem(sys.modules, "peermesh.cli.application", cli)
    assert problem_of(["peermesh", "listen", "example.org", "--port=1", "--help"]) is None
    assert problem_of(["peermesh", "sing"]) == "main has no command sing"
    assert problem_of(["peermesh", "listen", "--loud"]) == "listen has no option --loud"
    assert problem_of(["peermesh", "--port", "listen"]) == "main has no option --port"


def test_an_import_of_a_layer_is_found():
    assert imported("import trio\nasync def f():\n    from wire.errors import MeshError") == {
        "trio",
        "wire",
    }
