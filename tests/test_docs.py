"""What the documents show, works: README.md and docs/ are run like any other code.

Each ``python`` block runs alone, in a fresh interpreter and an empty folder, unless its document
says that they run from top to bottom: then they share these, and a namespace. A ``text`` block
right below is what the block prints, where "…" stands for anything. In ``console`` blocks, lines
that begin with ``$ peermesh`` or ``$ make`` have to name commands, options and targets that exist.
A block that is meant to be read only says ``text``; no other way leads around this test.
"""

from __future__ import annotations

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

ROOT = Path(__file__).parent.parent
LANGUAGES = {"python", "console", "text", "toml", "json", "mermaid", "ini", "dockerfile"}
TOP_TO_BOTTOM = "The blocks of Python run from top to bottom"
"""What a document says whose blocks need those before them."""
RUN_SECONDS_MAX = 280  # below the limit of such a test, so that the document is named
SPARK_MARKS = [pytest.mark.spark, pytest.mark.timeout(300)]
EXAMPLE_LINES_MAX = 60

FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\s`]*)")
SEPARATOR = "\x1e"
RUNNER = f"""
import json, sys
namespace = {{"__name__": "__main__"}}
for name, line, source in json.load(sys.stdin):
    exec(compile("\\n" * line + source, name, "exec"), namespace)
    print({SEPARATOR!r}, end="", flush=True)
"""
"""The empty lines in front make a traceback point into the document."""


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    line: int
    """The line of the opening fence, counted from one."""
    text: str
    shown: str | None = None
    """What stands right below, as what the block prints."""

    def says(self, printed: str) -> bool:
        """Tell whether this is what the document shows, which may show nothing."""
        if self.shown is None:
            return True
        parts = (re.escape(part) for part in self.shown.strip().split("…"))
        return re.fullmatch(".*".join(parts), printed.strip(), re.S) is not None


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
    readme = ROOT / "README.md"
    return [readme] * readme.is_file() + sorted((ROOT / "docs").rglob("*.md"))


def of_language(path: Path, language: str) -> list[Block]:
    """Give the blocks in a language, with the text that stands right below as what they print."""
    found = list(blocks(path.read_text("utf-8")))
    lines = path.read_text("utf-8").splitlines()
    for position, block in enumerate(found[:-1]):
        below = found[position + 1]
        between = lines[block.line + block.text.count("\n") + 1 : below.line - 1]
        if below.language == "text" and not any(line.strip() for line in between):
            found[position] = block._replace(shown=below.text)
    return [block for block in found if block.language == language]


def programs(path: Path) -> list[list[Block]]:
    """Give the blocks of Python that run together: each alone, or all of a document."""
    found = of_language(path, "python")
    is_one = TOP_TO_BOTTOM in " ".join(path.read_text("utf-8").split())
    return [found] * bool(found) if is_one else [[block] for block in found]


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


def run(path: Path, program: list[Block], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of a document with an empty folder as its own."""
    script = [(path.name, block.line, block.text) for block in program]
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
        timeout=RUN_SECONDS_MAX,
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
