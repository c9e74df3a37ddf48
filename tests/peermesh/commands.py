"""Runs commands of ``peermesh`` in this process: one of its own takes as long as ten of these.

What belongs to a process (stdin, signals, how it is started and ends) has tests with processes.
"""

from __future__ import annotations

import os
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from subprocess import CompletedProcess

import pytest

from peermesh.cli.application import run as run_command

PROGRAM = "cli/__main__.py"
"""What an endpoint of a command is called after, as with ``python -m peermesh.cli``."""

PREFIX = "PEERMESH_"
"""How the variables begin that commands read. Those of the tests themselves are left out."""


def run(*arguments: object, **environment: str) -> CompletedProcess[str]:
    """Run a command to its end; an error that no command expects goes to the test."""
    words = [str(each) for each in arguments]
    out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [each for each in os.environ if each.startswith(PREFIX)]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr("sys.argv", [PROGRAM, *words])
        code = run_command(words)
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return CompletedProcess(words, code, said, complained)
