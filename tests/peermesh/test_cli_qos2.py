"""``peermesh broker qos2``, ``peermesh topic`` and ``peermesh dlq``, as their users meet them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peermesh.cli.exits import ExitCode
from peermesh.testing.time_limits import limit
from tests.peermesh.commands import run

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "peermesh.cli"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}


@contextmanager
def broker(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Run a broker; give where its mesh and its clients meet it."""
    arguments = [
        *COMMAND,
        "broker",
        "qos2",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--folder",
        folder,
    ]
    ports = {"PUBLISHER_PORT": "0", "CONSUMER_PORT": "0"}
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=ENVIRONMENT | ports,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        try:
            address = process.stderr.readline().split()[-1]
            found = json.loads(process.stdout.readline())
            yield address, found["publishers"], found["consumers"]
            process.send_signal(signal.SIGINT)
            assert process.wait() == ExitCode.INTERRUPTED
        finally:
            process.kill()


@contextmanager
def talk(port: int) -> Iterator[tuple[object, object]]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=limit()) as line,
        line.makefile("rw") as file,
    ):

        def say(text: str) -> None:
            file.write(text)
            file.flush()

        yield say, file.readline


@pytest.mark.parametrize("command", [["broker", "qos2"], ["dlq"], ["dlq", "replay"], ["topic"]])
def test_the_commands_explain_themselves(command):
    found = run(*command, "--help")
    assert found.returncode == ExitCode.DONE
    assert "Usage: peermesh" in found.stdout


def test_dead_letters_are_listed_shown_replayed_and_purged(tmp_path):
    with broker(tmp_path / "topics") as (address, publishers, consumers):
        with talk(publishers) as (say, hear):
            for text in ("one", "two", "three"):
                say(f"BEGIN tea\n{text}\nEND\nPUBREL\n")
                assert (hear(), hear()) == ("PUBREC\n", "PUBCOMP\n")
        with talk(consumers) as (say, hear):
            say("LOGIN billing ids\nSUBSCRIBE tea\n")
            assert (hear(), hear()) == ("OK ids\n", "OK SUBSCRIBE tea\n")
            for number in (1, 2, 3):
                assert hear() == f"BEGIN tea id=tea/{number}\n"
                assert hear() + hear() == f"{('one', 'two', 'three')[number - 1]}\nEND\n"
                say(f"NACK id=tea/{number} final not my cup of tea\n")
            say("SUBSCRIBE milk\n")
            assert hear() == "OK SUBSCRIBE milk\n"  # the last burial is done

            listed = run("dlq", "list", "--peer", address, "--json").stdout.splitlines()
            letters = [json.loads(line) for line in listed]
            assert [(each["number"], each["text"]) for each in letters] == [
                (1, "one\n"), (2, "two\n"), (3, "three\n"),
            ]  # fmt: skip
            assert letters[0]["reason"] == "not my cup of tea"
            assert (letters[0]["attempts"], letters[0]["consumer"]) == (1, "billing")
            assert run("dlq", "show", "2", "--peer", address).stdout == "two\n"

            assert run("dlq", "replay", "2", "--peer", address).stdout == "replayed 2 to tea\n"
            assert hear() == "BEGIN tea id=tea/4\n"
            assert hear() + hear() == "two\nEND\n"
        again = run("dlq", "replay", "2", "--peer", address)
        assert again.returncode == ExitCode.FAILED
        assert "there is no dead letter 2" in again.stderr
        assert run("dlq", "purge", "--all", "--peer", address).stdout == "purged 1\npurged 3\n"
        assert run("dlq", "list", "--peer", address).stdout == ""


def test_topics_are_listed_shown_and_deleted(tmp_path):
    with broker(tmp_path) as (address, publishers, consumers):
        with talk(publishers) as (say, hear):
            for text in ("one", "two"):
                say(f"BEGIN tea\n{text}\nEND\nPUBREL\n")
                assert (hear(), hear()) == ("PUBREC\n", "PUBCOMP\n")
        with talk(consumers) as (say, hear):
            say("LOGIN billing\nSUBSCRIBE tea\n")
            assert hear() + hear() + hear() == "BEGIN tea\none\nEND\n"
            say(f"PUBREC {hashlib.md5(b'one').hexdigest()}\n")
            assert hear() == "PUBREL\n"
        listed = run("topic", "list", "--peer", address).stdout
        assert listed == "dead_letter: 0 consumers\ntea: 1 consumer\n"
        shown = run("topic", "show", "tea", "--peer", address).stdout
        assert shown == "tea: 2 messages, the last one is tea/2\n  1 for billing\n"
        told = json.loads(run("topic", "show", "tea", "--json", "--peer", address).stdout)
        assert (told["messages"], told["last"], told["waiting"]) == (2, 2, {"billing": 1})
        listed = run("topic", "consumers", "--peer", address).stdout
        assert listed == "billing: 1 topic\n"
        told = run("topic", "forget", "billing", "--json", "--peer", address).stdout
        assert json.loads(told) == {"v": 1, "event": "forgotten", "consumer": "billing"}
        again = run("topic", "forget", "billing", "--peer", address)
        assert again.returncode == ExitCode.FAILED
        assert "there is no consumer billing" in again.stderr
        assert run("topic", "consumers", "--peer", address).stdout == ""
        assert run("topic", "delete", "tea", "--peer", address).stdout == "deleted tea\n"
        again = run("topic", "delete", "tea", "--peer", address)
        assert again.returncode == ExitCode.FAILED
        assert "there is no topic tea" in again.stderr
        assert run("topic", "list", "--peer", address).stdout == "dead_letter: 0 consumers\n"
    assert not list(tmp_path.glob("topic-tea*"))


def test_what_was_published_is_there_after_a_restart(tmp_path):
    with broker(tmp_path) as (_, publishers, _), talk(publishers) as (say, hear):
        say("BEGIN tea\ngreen\nEND\nPUBREL\n")
        assert (hear(), hear()) == ("PUBREC\n", "PUBCOMP\n")
    with broker(tmp_path) as (_, _, consumers), talk(consumers) as (say, hear):
        say("LOGIN billing\nSUBSCRIBE tea\n")
        assert hear() + hear() + hear() == "BEGIN tea\ngreen\nEND\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["broker", "qos2", "--host", "0.0.0.0", "--memory"], "--allow-plain"),
        (["broker", "qos2", "--follow"], "--peer HOST:PORT"),
        (["dlq", "list"], "--peer HOST:PORT"),
        (["topic", "list"], "--peer HOST:PORT"),
    ],
)
def test_what_cannot_be_is_refused_with_advice(arguments, said):
    found = run(*arguments)
    assert found.returncode != ExitCode.DONE
    assert said in found.stderr
