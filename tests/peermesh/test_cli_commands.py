"""The group of all commands: each is there, and none waits for the modules of the others."""

from __future__ import annotations

import logging
import subprocess
import sys

import click
import pytest

from peermesh.cli.application import MODULES, application, run

SCRIPT = """
import sys
from peermesh.cli.application import run
assert run(["store", "get", "--help"]) == 0
others = {"peermesh.blocking", "peermesh.cli.broker", "peermesh.cli.demo", "peermesh.cli.qos2"}
print(*sorted(others & sys.modules.keys()))
"""


@pytest.mark.parametrize("name", MODULES)
def test_a_command_is_found_under_its_name(name: str) -> None:
    command = application.get_command(click.Context(application), name)
    assert command is not None
    assert command.name == name


def test_no_other_command_is_known() -> None:
    assert application.get_command(click.Context(application), "exits") is None


def test_a_command_imports_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == ""


def test_a_command_leaves_the_log_of_its_process_as_it_was() -> None:
    before = list(logging.getLogger("peermesh.endpoint").filters)
    assert run(["store", "get", "--help"]) == 0
    assert logging.getLogger("peermesh.endpoint").filters == before
