"""What the tests of whole runs share: the command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


class Run:
    """A demo that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def messages(self) -> Iterator[dict[str, object]]:
        """Read what it says with ``--json``."""
        for line in self.process.stdout:
            yield json.loads(line)

    def verdict(self) -> dict[str, object]:
        """Read on to the end."""
        last = {}
        for last in self.messages():  # noqa: B007 - the last one is wanted
            pass
        assert last.get("event") == "verdict", self.process.stderr.read()
        return last


@pytest.fixture
def demo(tmp_path):
    """Give what starts a demo with an input, a key, options and variables, for a block's length."""

    @contextmanager
    def start(events: Path, key: str, *options: str, **variables: str) -> Iterator[Run]:
        command = [sys.executable, "-m", "peermesh.cli", "demo", "--input", str(events)]
        picture = str(tmp_path / "run.svg")
        process = subprocess.Popen(
            [*command, "--key", key, "--picture", picture, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        with process:
            try:
                yield Run(process)
            finally:
                process.kill()

    return start
