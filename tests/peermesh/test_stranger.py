"""A stranger's path: the wheel in an environment of its own, and then the documents, word for word.

Nothing of this checkout is on the way but the text of README.md and docs/. The environment takes
what the wheel needs from the package index.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.documents import ROOT, SEPARATOR, is_shown_as, of_language, programs, run

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
RECIPES = ROOT / "docs" / "howto.md"

WAIT_SECONDS = 60.0  # far more than anything here takes: what fails, fails with a text
INSTALL_SECONDS_MAX = 280

pytestmark = pytest.mark.timeout(300)


class Stranger(NamedTuple):
    """An environment with nothing but the wheel, and a folder that holds nothing but the wheel."""

    python: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Give the variables of a shell in which the environment is active."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PEERMESH_") and name not in {"PYTHONPATH", "VIRTUAL_ENV"}
        }
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "HOME": str(self.folder)}

    def shell(self, command: str) -> None:
        """Carry out a command to its end, in the folder."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self.environment | {"HOME": os.environ.get("HOME", "/")},  # pip's settings
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


class Terminal:
    """A shell, into which commands are typed as a document shows them."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._lines.put(line)

    def end(self) -> None:
        """Wait until all was read, before the pipe is closed; nothing in the shell writes more."""
        self._reader.join(timeout=WAIT_SECONDS)

    def enter(self, command: str, shown: str) -> str:
        """Type a command, wait until it has printed what the document shows, and give that."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\n")
        self._shell.stdin.flush()
        printed = ""
        while not is_shown_as(printed, shown):
            try:
                printed += self._lines.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                pytest.fail(f"{command} printed\n{printed}\nand not\n{shown}")
        return printed


@contextmanager
def terminal(stranger: Stranger, folder: Path) -> Iterator[Terminal]:
    """Open a terminal; what still runs in it is ended with it."""
    shell = subprocess.Popen(
        ["/bin/sh"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=stranger.environment,
        text=True,
        start_new_session=True,
    )
    with shell:
        opened = Terminal(shell)
        try:
            yield opened
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
            opened.end()


def typed(console: str) -> list[tuple[str, str]]:
    """Take a block apart: each command, and what is shown below it."""
    first, *parts = f"\n{console}".split("\n$ ")
    assert not first, "a block of a console begins with a command"
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def enter_both(stranger: Stranger, folder: Path, page: Path, title: str) -> None:
    """Type the two blocks below a title of a page into two terminals, at a port that is free."""
    line = page.read_text("utf-8").splitlines().index(title)
    one, other = [block.text for block in of_language(page, "console") if block.line > line][:2]
    with terminal(stranger, folder) as first, terminal(stranger, folder) as second:
        ((command, shown),) = typed(one)
        free = command.replace(":9999", ":0"), shown.replace(":9999", ":…")
        port = first.enter(*free).split(":")[-1].strip()
        for command, shown in typed(other):
            second.enter(command.replace(":9999", f":{port}"), shown)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """Make the wheel as the recipe for a container does, and install it as a reader would."""
    folder = tmp_path_factory.mktemp("stranger")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    found = Stranger(folder / "venv" / "bin" / "python", folder / "empty")
    found.folder.mkdir()
    commands = [each for block in of_language(RECIPES, "console") for each in typed(block.text)]
    (wheel,) = (each for each, _ in commands if each.startswith("pip wheel "))
    found.shell(wheel.replace("path/to/checkout", str(ROOT)))
    found.shell('pip install "$(echo ./peermesh-*.whl)[cli]"')
    return found


def test_the_ten_lines_print_what_the_readme_shows(stranger, tmp_path):
    ten_lines = programs(README)[0]
    done = run(README, ten_lines, tmp_path, str(stranger.python))
    assert done.returncode == 0, done.stderr
    assert ten_lines[0].shown is not None
    assert ten_lines[0].says(done.stdout.partition(SEPARATOR)[0]), done.stdout


def test_what_is_installed_is_the_wheel_and_not_this_checkout(stranger, tmp_path):
    where = [stranger.python, "-c", "import peermesh; print(peermesh.__file__)"]
    found = subprocess.run(
        where, cwd=tmp_path, env=stranger.environment, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout).is_relative_to(stranger.python.parent.parent)


def test_the_two_terminals_show_what_the_readme_shows(stranger, tmp_path):
    enter_both(stranger, tmp_path, README, "## Two terminals")


def test_the_tutorial_leads_a_stranger_to_its_end(stranger, tmp_path):
    (steps,) = programs(TUTORIAL)
    done = run(TUTORIAL, steps, tmp_path, str(stranger.python))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for step, printed in zip(steps, done.stdout.split(SEPARATOR), strict=False):
        assert step.says(printed), f"line {step.line} prints\n{printed}"
    enter_both(stranger, tmp_path, TUTORIAL, "## 9. Another process")


def test_the_commands_of_the_containers_file_run_in_an_empty_folder(stranger, tmp_path):
    (recipe,) = of_language(RECIPES, "dockerfile")
    there = str(tmp_path)

    def inside(text: str) -> str:
        return text.replace("/tmp/", f"{there}/tmp/").replace("/data", f"{there}/data")

    (tmp_path / "tmp").mkdir()
    started: list[str] = []
    for word, _, rest in (line.partition(" ") for line in recipe.text.splitlines()):
        match word:
            case "COPY":
                source, target = rest.split()
                for path in stranger.folder.glob(source):
                    shutil.copy(path, inside(target))
            case "RUN":
                stranger.shell(inside(rest))
            case "ENTRYPOINT" | "CMD":
                started += json.loads(inside(rest))
            case _:
                assert word in {"FROM", "USER", "VOLUME"}
    with terminal(stranger, tmp_path) as shell:
        made = shell.enter("peermesh secret new", "peermesh-secret-…").strip()
        shell.enter(f"export PEERMESH_SECRET={made}", "")
        shell.enter(" ".join(started).replace(":9999", ":0"), "…listening on 0.0.0.0:…")
    assert (tmp_path / "data" / "cities.db").exists()
