"""The group of all commands: each is there, and none waits for the modules of the others."""

from __future__ import annotations

import logging
import subprocess
import sys

import click
import pytest

from peermesh.cli.application import application, run
from peermesh.cli.command import LazyGroup
from peermesh.cli.groups import broker, log, store
from peermesh.cli.index import BROKERS, COMMANDS, LOGS, STORES, Entry

SCRIPT = """
import sys
from peermesh.cli.application import run
assert run(["store", "get", "--help"]) == 0
others = {"peermesh.blocking", "peermesh.cli.broker", "peermesh.cli.demo", "peermesh.cli.qos2"}
print(*sorted(others & sys.modules.keys()))
"""


GROUPS: list[tuple[LazyGroup, dict[str, Entry]]] = [
    (application, COMMANDS), (broker, BROKERS), (log, LOGS), (store, STORES),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, index in GROUPS for name in index]
)
def test_a_command_is_found_under_its_name_and_is_what_the_index_says(group, name) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name
    entry = dict(GROUPS)[group][name]
    assert command.get_short_help_str(1_000) == entry.help
    assert command.hidden == entry.is_hidden


@pytest.mark.parametrize("words", ["--help", "--version", "--json", "store --help"])
def test_to_list_commands_imports_none_of_them_and_no_loop(words) -> None:
    script = (
        "import sys\nfrom peermesh.cli.application import run\n"
        f"assert run({words.split()}) == 0\nprint(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    found = set(done.stdout.splitlines()[-1].split())
    modules = {entry.module for _, index in GROUPS for entry in index.values()} - {"groups"}
    assert not found & {"trio", "endpoint", *(f"peermesh.cli.{each}" for each in modules)}


def test_hidden_commands_are_not_listed_and_added_ones_are() -> None:
    @click.group(
        cls=LazyGroup, index={"shown": Entry("x", "Do this."), "old": Entry("x", "", True)}
    )
    def some() -> None: ...

    some.add_command(click.Command("added", help="Do that."))
    context = click.Context(some)
    lines = some.get_help(context).split("Commands:\n")[1].split("\n")
    assert [line.split(maxsplit=1) for line in lines] == [
        ["added", "Do that."], ["shown", "Do this."],
    ]  # fmt: skip
    assert [item.value for item in some.shell_complete(context, "")] == ["added", "shown"]
    assert some.list_commands(context) == ["added", "old", "shown"]


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
