"""Mistakes at the command line: each is told at once, with what to do next."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module

import click
import pytest

from peermesh.blocking import Endpoint
from peermesh.cli import arriving
from peermesh.cli.application import application, commands_below
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.wording import HINTS, told
from peermesh.errors import (
    BackendFailure,
    InvalidData,
    KeeperUnreachable,
    MasterExists,
    MeshError,
    NoSuchMaster,
    PeerUnavailable,
    TypeClash,
)

COMMAND = [sys.executable, "-m", "peermesh"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}
NOWHERE = "127.0.0.1:1"
"""A port at which no program of this machine listens."""

Run = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path) -> None:
    for name in ("PEER", "CONTEXT", "SECRET", "SECRET_FILE"):
        monkeypatch.delenv(f"PEERMESH_{name}", raising=False)
    monkeypatch.setenv("PEERMESH_CONFIG_DIR", str(tmp_path / "contexts"))


@pytest.fixture(scope="module")
def mesh() -> Iterator[str]:
    with Endpoint() as endpoint, endpoint.attach_log("events", partitions=1) as events:
        for each in range(5_000):
            events.append("x" * 100, key=each)
        events.append("last").result(timeout=60)
        yield f"127.0.0.1:{endpoint.listen()}"


# Addresses.


def test_a_registry_that_refuses_is_told_at_once(tell: Run) -> None:
    words = ("broker", "edge-pub", "topic", "value", "--registry", NOWHERE)
    _, err = tell(*words, "--json", code=ExitCode.TIMEOUT)
    found = json.loads(err)
    assert found["error"] == "peer_unavailable", "it did not wait for the time to end"
    assert found["message"] == f"no registry: {NOWHERE}: connection refused"
    assert "--wait" in found["hint"]


def test_a_registry_that_is_waited_for_is_told_of(tell: Run) -> None:
    words = ("broker", "edge-sub", "t", "--registry", NOWHERE, "--wait", "2.5")
    _, err = tell(*words, code=ExitCode.TIMEOUT)
    assert f"still trying registry {NOWHERE}: connection refused" in err
    assert "no registry within 2.5 s" in err


def test_a_client_of_an_edge_broker_is_not_given_a_peer(tell: Run) -> None:
    words = ("broker", "edge-pub", "t", "v", "--peer", NOWHERE)
    assert "--registry" in tell(*words, code=ExitCode.USAGE)[1]


def test_a_store_that_is_waited_for_is_told_of(tell: Run, mesh: str) -> None:
    words = ("store", "get", "cities", "k", "--peer", mesh, "--wait", "2.5")
    _, err = tell(*words, code=ExitCode.TIMEOUT)
    assert "still trying store cities" in err


def test_a_node_that_does_not_answer_is_told_of(tell: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "TELL_SECONDS", 0.1)
    with Endpoint(admin=False, name="silent") as silent:
        at = f"127.0.0.1:{silent.listen()}"
        words = ("store", "promote", "cities", "--peer", at, "--wait", "1")
        _, err = tell(*words, code=ExitCode.TIMEOUT)
    assert re.search(r"still trying node silent \([0-9a-f-]{36}\): no answer yet", err)
    assert "did not answer within 1 s: it may wait for its group, or its settings" in err


def test_a_node_without_clones_says_so_to_a_request_for_promotion(tell: Run) -> None:
    words = ("node", "--listen", "127.0.0.1:0", "--json")
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as node:
        try:
            events = [json.loads(node.stdout.readline()) for _ in range(2)]
            assert [each["event"] for each in events] == ["node", "listening"]
            at = f"127.0.0.1:{events[1]['port']}"
            _, err = tell("store", "promote", "cities", "--peer", at, code=ExitCode.FAILED)
            assert "offers no copy of the store cities to lead; name one that has a copy" in err
        finally:
            node.kill()


def test_a_node_that_cannot_listen_writes_its_error_alone(tell: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        out, err = tell("node", "--listen", where, "--master", "cities", code=ExitCode.FAILED)
    assert out == ""
    assert where in err


@pytest.mark.parametrize("text", ["127.0.0.1:99999", "99999", "[::1]:65536"])
def test_a_port_that_is_too_high_is_told_as_that(tell: Run, monkeypatch, text: str) -> None:
    assert "ports go up to 65535" in tell("pub", "t", "v", "--peer", text, code=2)[1]
    monkeypatch.setenv("PEERMESH_PEER", text)
    assert "ports go up to 65535" in tell("pub", "t", "v", code=2)[1]


# Words and numbers.


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("stroe get", "did you mean store?"),
        ("store gte", "did you mean get?"),
        ("help store gte", "did you mean get?"),
        ("qwertz", "there is no command peermesh qwertz"),
    ],
)
def test_a_misspelt_command_is_told_which_may_be_meant(tell: Run, words: str, meant: str) -> None:
    assert meant in tell(*words.split(), code=ExitCode.USAGE)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pub t v --wait abc", "'abc' is no time: write seconds, as in 2.5"),
        ("dlq show abc", "'abc' is no whole number"),
        ("pub t 99999999999999999999999", "use --text"),
        ('pub t {"a":[-99999999999999999999999]}', "use --text"),
    ],
)
def test_a_number_that_is_none_is_told_in_words(tell: Run, words: str, said: str) -> None:
    assert said in tell(*words.split(), "--peer", NOWHERE, code=ExitCode.USAGE)[1]


def test_a_context_that_cannot_be_forgotten_is_not_to_be_added(tell: Run) -> None:
    found = json.loads(tell("context", "rm", "nope", "--json", code=ExitCode.USAGE)[1])
    assert "context ls" in found["hint"]
    assert "context add" not in found["hint"]


@pytest.mark.parametrize("name", ["joining", "trust"])
def test_where_a_secret_comes_from_is_said_in_full(tell: Run, name: str) -> None:
    words = {"joining": ("secret", "show"), "trust": ("broker", "qos2", "--tls", "--memory")}[name]
    assert "PEERMESH_SECRET_FILE" in tell(*words, code=ExitCode.USAGE)[1]


def test_the_demo_reads_its_input_from_stdin() -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--input", "-"],
        input='{"ts": 1, "colour": "red"}\n',
        capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE
    assert "the first event has ts, colour" in done.stderr


# JSON.


def groups(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        yield path
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from groups(below, (*path, name))


@pytest.mark.parametrize(
    "words", list(groups(application)), ids=lambda words: " ".join(words) or "root"
)
def test_every_group_takes_json(tell: Run, words: tuple[str, ...]) -> None:
    found = json.loads(tell(*words, "--json")[0])
    assert found["v"] == 1
    assert "Usage: " in found["help"]


def test_json_before_a_command_is_for_the_command(tell: Run) -> None:
    for words in ("--json secret new", "secret --json new", "secret new --json"):
        assert json.loads(tell(*words.split())[0])["secret"]


def test_the_version_is_json_if_asked_for(tell: Run) -> None:
    for words in ("--version --json", "--json --version"):
        assert set(json.loads(tell(*words.split())[0])) == {"v", "version"}


def test_an_error_of_the_library_comes_with_what_to_do() -> None:
    refused = told(PeerUnavailable("nobody answers at h (refused): check the address"))
    assert (refused.message, refused.hint) == (
        "nobody answers at h (refused)",
        "check the address",
    )
    failed = told(CommandFailed("cannot write x: full; name another file"))
    assert (failed.message, failed.hint) == ("cannot write x: full", "name another file")
    assert told(CommandFailed("a; use b", hint="c")).message == "a; use b"
    refused = BackendFailure("it is of another store")
    assert told(refused).hint is None
    refused.__cause__ = OSError("the disk is full")
    assert told(refused).hint == HINTS[BackendFailure]
    for kind in (KeeperUnreachable, MasterExists, NoSuchMaster, TypeClash):
        assert told(kind("it failed")).hint == HINTS[kind]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no group was heard, and one of them has to be given found=True", "be given --found"),
        ("this one has none of its own: give Endpoint(name=...)", "; give --name"),
        ("it is a keeper's: attach it with attach_log, or give", 'with "peermesh log keep", or'),
    ],
)
def test_what_is_said_to_programmers_is_said_in_options(text: str, words: str) -> None:
    assert words in told(InvalidData(text)).text()


def test_every_command_that_a_hint_names_exists() -> None:
    known = {path for path, _ in commands_below(application, "peermesh")}
    for hint in HINTS.values():
        for found in re.finditer(r"(peermesh \w+)( [\w-]+)?", hint):
            assert {found[1], found[0]} & known, hint
    assert MeshError not in HINTS, "a hint that fits every error helps with none"


SAY_IT_THEMSELVES = {
    "peermesh.cli.exits": "each is raised with a hint of its own",
    "peermesh.demo.errors": "their texts are written for the command",
    "peermesh.brokers.edge.errors": "their texts are written for the command",
    "peermesh.brokers.qos2.errors": "their texts are written for the command",
    "peermesh.brokers.modules.errors": "their texts are written for the command",
    "peermesh.brokers.modules.layout": "their texts are written for the command",
    "peermesh.gateways.refusals": "it is told to a client of HTTP, by no command",
    "peermesh.gateways.http": "it is told to a client of HTTP, by no command",
    "peermesh.gateways.webhdfs.errors": "it is told to a client of HTTP, by no command",
    "peermesh.spark.configuration": "their texts are written for the command",
    "peermesh.spark.reading": "it is told to a query of Spark, by no command",
    "peermesh.spark.records": "it is told to a job of Spark, by no command",
    "peermesh.testing": "tests raise them",
}
"""Errors outside of the core, by module, and why no hint is theirs."""

WITHOUT_A_HINT = {
    "BackendFailure": "it says in its text what to do, but for what the system says",
    "StoreError": "it is raised with what to do in its text",
}


def test_every_error_has_a_hint_or_a_reason_why_not() -> None:
    for name in ("brokers.edge", "brokers.qos2", "brokers.modules", "gateways.webhdfs", "demo"):
        import_module(f"peermesh.{name}.errors")
    left = [MeshError]
    for kind in left:
        left += kind.__subclasses__()
    unknown = [
        kind.__qualname__
        for kind in left[1:]
        if not kind.__module__.startswith((*SAY_IT_THEMSELVES, "tests."))
        and kind.__name__ not in WITHOUT_A_HINT
        and told(kind.__new__(kind)).hint is None
    ]
    assert unknown == []


# A reader that has enough.


@pytest.mark.parametrize("words", ["log read events", "log read events --json", "--help"])
def test_a_reader_that_closes_ends_a_command_as_sigpipe_does(mesh: str, words: str) -> None:
    ours, theirs = os.pipe()
    arguments = words.split()
    if words.startswith("log"):
        arguments += ["--peer", mesh]
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        os.close(ours)
        os.close(theirs)
        assert process.stderr.read() == b""
    assert process.returncode == 141
