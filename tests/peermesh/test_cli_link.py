"""``peermesh link``, as its users meet it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from peermesh.cli.exits import ExitCode

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "peermesh.cli", "link", "127.0.0.1:0"]


@pytest.fixture
def target():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@contextmanager
def link(target, *options):
    """A running command, and a function that gives its next event of a kind."""
    address = f"127.0.0.1:{target.getsockname()[1]}"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [*COMMAND, address, "--json", *options]
    with subprocess.Popen(command, **pipes, text=True, cwd=ROOT, env=os.environ) as process:

        def event(kind):
            for line in process.stdout:
                found = json.loads(line)
                if found["event"] == kind:
                    return found
            raise AssertionError(process.stderr.read())

        try:
            yield process, event
        finally:
            process.kill()


def order(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def run(*arguments):
    command = [*COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_a_link_leads_connections_and_obeys_while_it_runs(target):
    with link(target, "--delay", "0.01", "--jitter", "0.005") as (process, event):
        port = event("listening")["port"]
        with socket.create_connection(("127.0.0.1", port)) as near, target.accept()[0] as far:
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            order(process, "status")
            status = event("status")
            assert status["faults"]["both"] == ["Delay(seconds=0.01, jitter=0.005)"]
            assert (status["accepted"], status["bytes_forth"]) == (1, 1)
            order(process, "partition forth")
            assert event("applied")["direction"] == "forth"
            near.sendall(b"y")
            order(process, "heal")
            assert event("healed")["direction"] == "both"
            assert far.recv(1) == b"y"
            order(process, "explode")
            order(process, "reset")
            assert event("reset")["connection"] == 1
            with pytest.raises(ConnectionResetError):
                far.recv(1)
        process.stdin.close()  # The link stays.
        with socket.create_connection(("127.0.0.1", port)) as near, target.accept()[0] as far:
            far.sendall(b"z")
            assert near.recv(1) == b"z"
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED
        assert process.stderr.read() == (
            "peermesh: 'explode' is no order: write help for those that are\n"
        )


def test_every_fault_can_stand_from_the_beginning(target):
    options = "--rate 1000 --loss 0.5 --slow-close 2 --reset-after 60 --partition back"
    with link(target, *options.split(), "--direction", "forth") as (process, event):
        event("listening")
        order(process, "status")
        assert event("status")["faults"] == {
            "forth": [
                "Loss(probability=0.5)",
                "RateLimit(bytes_per_second=1000)",
                "SlowClose(seconds=2.0)",
            ],
            "back": ["Partition()"],
            "both": ["Reset(after_seconds=60.0)"],
        }


def test_a_target_that_is_not_there_is_told(target):
    with link(target) as (_, event):
        port = event("listening")["port"]
        target.close()
        with socket.create_connection(("127.0.0.1", port)):
            assert "failed" in event("refused")["reason"]


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ("nowhere", "HOST:PORT"),
        ("127.0.0.1:1 --jitter 1", "--delay too"),
        ("127.0.0.1:1 --loss 2", "a probability is between 0 and 1"),
        ("127.0.0.1:1 --rate 0", "Partition"),
    ],
)
def test_a_link_given_wrongly_says_what_to_give(arguments, advice):
    failed = run(*arguments.split())
    assert (failed.returncode, failed.stdout) == (ExitCode.USAGE, "")
    assert advice in failed.stderr


def test_a_port_that_is_taken_is_one_sentence(target):
    taken = f"127.0.0.1:{target.getsockname()[1]}"
    command = [*COMMAND[:-1], taken, "127.0.0.1:1"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (failed.returncode, failed.stdout) == (ExitCode.FAILED, "")
    assert failed.stderr == f"peermesh: cannot listen on {taken}: Address already in use\n"
