"""What the documents show, works: README.md and docs/ are run like any other code.

Each ``python`` block runs alone, in a fresh interpreter and an empty folder, unless its document
says that they run from top to bottom: then they share these, and a namespace. A ``text`` block
right below is what the block prints, where "…" stands for anything. In ``console`` blocks, lines
that begin with ``$ peermesh`` or ``$ make`` have to name commands, options and targets that exist.
A block that is meant to be read only says ``text``; no other way leads around this test.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.documents import (
    LANGUAGES,
    ROOT,
    SEPARATOR,
    TOP_TO_BOTTOM,
    Block,
    blocks,
    documents,
    of_language,
    programs,
    run,
)
from tools.relocate import MOVED

SPARK_MARKS = [pytest.mark.spark]
EXAMPLE_LINES_MAX = 60
IS_CI = os.environ.get("CI") == "true"


def python_cases() -> list[object]:
    """Give a case for each program of a document; those with PySpark need Java."""
    return [
        pytest.param(
            path,
            program,
            id=f"{path.relative_to(ROOT).as_posix()}:{program[0].line}",
            marks=SPARK_MARKS * any("pyspark" in block.text for block in program),
        )
        for path in documents()
        for program in programs(path)
    ]


def console_cases() -> list[object]:
    return [
        pytest.param(path, id=path.relative_to(ROOT).as_posix())
        for path in documents()
        if of_language(path, "console")
    ]


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


@pytest.mark.parametrize(("path", "program"), python_cases())
def test_the_python_of_a_document_runs_and_prints_what_it_shows(path, program, tmp_path):
    done = run(path, program, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for block, printed in zip(program, done.stdout.split(SEPARATOR), strict=False):
        assert block.says(printed), f"line {block.line} prints\n{printed}"


@pytest.mark.parametrize("path", console_cases())
def test_the_commands_of_a_document_exist(path):
    lines = [words for block in of_language(path, "console") for words in commands(block.text)]
    problems = {" ".join(words): problem_of(words) for words in lines}
    assert not {line: problem for line, problem in problems.items() if problem}


def test_the_unit_of_systemd_passes_its_verification(tmp_path):
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        (pytest.fail if IS_CI else pytest.skip)("there is no systemd-analyze: install systemd")
    (unit,) = of_language(ROOT / "docs" / "howto.md", "ini")
    assert problems_of_unit(verifier, unit.text, tmp_path) == ""
    assert "Unknown key" in problems_of_unit(verifier, unit.text.replace("Dyn", "Din"), tmp_path)


def problems_of_unit(verifier: str, unit: str, folder: Path) -> str:
    """Let systemd judge a unit, whose program is one that is here; a fault need not be an error."""
    path = folder / "peermesh.service"
    path.write_text(unit.replace("/opt/peermesh/bin/peermesh", sys.executable), "utf-8")
    done = subprocess.run(
        [verifier, "verify", path], capture_output=True, text=True, timeout=60, check=False
    )
    return f"{done.stdout}{done.stderr}" or ("" if done.returncode == 0 else "it fails")


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_of_a_document_says_what_it_is(path):
    unknown = [block[:2] for block in blocks(path.read_text("utf-8")) if block[0] not in LANGUAGES]
    assert not unknown, f"a block is one of {sorted(LANGUAGES)}"


def test_an_example_is_short_and_in_a_document_which_is_run():
    shown = [block.text for path in documents() for block in of_language(path, "python")]
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


TWO_BLOCKS = "```python\none = 1\n```\nprose\n```python\nassert one == {}\n```\n"


def test_a_block_runs_alone_unless_its_document_says_otherwise(tmp_path):
    path = tmp_path / "guide.md"
    path.write_text(TWO_BLOCKS.format(1))
    first, second = programs(path)
    assert run(path, first, tmp_path).returncode == 0
    assert "name 'one' is not defined" in run(path, second, tmp_path).stderr
    path.write_text(TOP_TO_BOTTOM.replace(" from ", "\nfrom ") + ".\n" + TWO_BLOCKS.format(1))
    (both,) = programs(path)
    assert run(path, both, tmp_path).returncode == 0


def test_a_failure_names_its_line(tmp_path):
    path = tmp_path / "guide.md"
    path.write_text(f"{TOP_TO_BOTTOM}\n{TWO_BLOCKS.format(2)}")
    failed = run(path, *programs(path), tmp_path)
    assert failed.returncode != 0
    assert 'File "guide.md", line 7' in failed.stderr


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [("6 x\n", True), ("6 …\n", True), ("6\n", False), ("66 x\n", False), ("6 x\n…7\n", False)],
)
def test_what_a_block_prints_is_compared_with_the_text_right_below(tmp_path, shown, is_right):
    path = tmp_path / "guide.md"
    path.write_text(f"```python\nprint(6, 'x')\n```\n\n```text\n{shown}```\n")
    ((block,),) = programs(path)
    printed, _ = run(path, [block], tmp_path).stdout.split(SEPARATOR)
    assert (block.shown, block.says(printed)) == (shown, is_right)


def test_a_text_below_prose_is_not_what_a_block_prints(tmp_path):
    path = tmp_path / "guide.md"
    path.write_text("```python\nprint(6)\n```\nnot so:\n```text\n7\n```\n")
    ((block,),) = programs(path)
    assert block.shown is None


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
