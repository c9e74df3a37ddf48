"""``peermesh log``, as its users meet it: processes, their output, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peermesh.cli.exits import ExitCode
from tests.peermesh import commands

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "peermesh.cli", "log"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.run("log", *arguments)


@pytest.fixture
def log(tmp_path) -> Iterator[Run]:
    """Keep a log, and give what runs a command on it."""
    keep = ["keep", "ev", "--partitions", "2", "--path", str(tmp_path / "log.db")]
    arguments = [*COMMAND, *keep, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        arguments, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        try:
            address = process.stderr.readline().split()[-1]
            assert process.stderr.readline() == "keeping ev in 2 partitions\n"
            yield lambda command, *rest: run(command, "ev", *rest, "--peer", address)
            process.send_signal(signal.SIGINT)
            assert process.wait() == ExitCode.INTERRUPTED
        finally:
            process.kill()


def test_a_log_on_the_command_line(log):
    assert log("append", '{"a": 1}', "--partition", "1").stdout == "1 0\n"
    repeated = (
        "append",
        "again",
        "--raw",
        "--producer",
        "p",
        "--sequence",
        "3",
        "--partition",
        "1",
    )
    assert [log(*repeated).stdout for _ in range(2)] == ["1 1\n", "1 1\n"]
    assert log("read", "--partition", "1").stdout == '0 {"a": 1}\n1 "again"\n'
    line = json.loads(log("read", "--partition", "1", "--offset", "1", "--json").stdout)
    assert (line["partition"], line["offset"], line["value"]) == (1, 1, "again")
    watched = log("watch", "--consumer", "c", "--earliest", "--count", "1")
    assert watched.stdout == '1 0 {"a": 1}\n'
    assert log("consumers").stdout == "1 c\n"
    found = json.loads(log("consumers", "--json").stdout)
    assert found == {"v": 1, "consumer": "c", "lag": 1, "cursors": {"0": 0, "1": 1}}
    log("watch", "--consumer", "c\x1b[2J", "--earliest", "--count", "1")
    assert log("consumers").stdout.splitlines() == ["1 c", '1 "c\\u001b[2J"']
    assert log("offsets").stdout == "0 0 0\n1 0 2\n"
    lines = log("offsets", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"v": 1, "partition": 0, "start": 0, "end": 0},
        {"v": 1, "partition": 1, "start": 0, "end": 2},
    ]


def test_what_goes_wrong_is_said_in_a_line(log):
    missing = log("read", "--partition", "7")
    assert (missing.returncode, missing.stdout) == (ExitCode.FAILED, "")
    assert "no partition 7" in missing.stderr
    late = log("read", "--timeout", "0.1")
    assert late.returncode == ExitCode.TIMEOUT
    assert "no entry within 0.1 s" in late.stderr


@pytest.mark.parametrize(
    "command",
    [
        *("keep", "follow", "promote", "replica", "append", "read", "watch", "offsets"),
        *("consumers", "members", "add", "remove", "transfer"),
    ],
)
def test_every_command_explains_itself(command):
    shown = run(command, "--help")
    assert shown.returncode == 0
    assert len(shown.stdout.split("\n\n")) >= 3, "usage, what it does, and the options"


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ("append ev 1", "--peer HOST:PORT"),
        ("read ev", "--peer HOST:PORT"),
        ("append ev 1 --producer p -p h:1", "--producer and --sequence belong together"),
    ],
)
def test_a_command_given_wrongly_says_what_to_give(arguments, advice):
    failed = run(*arguments.split())
    assert failed.returncode == ExitCode.USAGE
    assert advice in failed.stderr


@contextmanager
def node(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Keep a log or follow it, and give where."""
    command = [*COMMAND, *arguments, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr.readline().split()[-1]
        finally:
            process.kill()


def test_a_follower_is_promoted_when_its_keeper_is_gone(tmp_path):
    path = str(tmp_path / "copy.db")
    with node("keep", "ev") as (keeper, address):
        with node("follow", "ev", "--path", path, "--peer", address) as (follower, other):
            appended = run("append", "ev", "1", "--peer", address)
            assert appended.stdout == "0 0\n"
            while "had a snapshot" in (refused := run("promote", "ev", "--peer", other)).stderr:
                continue  # It follows only since a moment ago.
            assert refused.returncode == ExitCode.FAILED
            assert "its keeper is alive" in refused.stderr
            keeper.kill()
            keeper.wait()
            promoted = run("promote", "ev", "--peer", other, "--force")
            assert "leads ev in term 1, from 1 entry;" in promoted.stdout
            assert run("append", "ev", "2", "--peer", other).stdout == "0 1\n"
            assert run("read", "ev", "--peer", other).stdout == "0 1\n1 2\n"
            follower.send_signal(signal.SIGINT)
            assert follower.wait() == ExitCode.INTERRUPTED


def test_a_watch_goes_on_where_retention_has_overtaken_its_consumer():
    with node("keep", "ev", "--keep-count", "2") as (_, address):
        mesh = ("--peer", address)
        assert run("append", "ev", "0", *mesh).returncode == 0
        watch = ("watch", "ev", "--consumer", "bill", "--earliest", *mesh)
        assert run(*watch, "--count", "1").stdout == "0 0 0\n"
        for number in range(1, 6):
            assert run("append", "ev", str(number), *mesh).returncode == 0
        while run("offsets", "ev", *mesh).stdout != "0 4 6\n":
            continue  # Retention looks twice a second.
        found = run(*watch, "--count", "2")
        assert found.stdout == "0 4 4\n0 5 5\n"
        assert "the entries 1 to 3 are gone for good; read on from 4" in found.stderr
        assert run("consumers", "ev", *mesh).stdout == "0 bill\n"
