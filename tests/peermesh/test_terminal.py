"""No command, traceback or report writes what a terminal obeys, or hides what stands there."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
import pytest

from endpoint.flight import FlightRecorder
from endpoint.mesh.status import StatusCode, StatusEvent
from peermesh.blocking import Endpoint
from peermesh.cli import application as commands
from peermesh.cli.application import application, commands_below, run
from peermesh.cli.output import Output, say
from peermesh.cli.qos2 import _as_text, _members
from peermesh.demo.display import LineDisplay, _draw
from peermesh.demo.view import View
from peermesh.spark.progress import RESERVED
from peermesh.testing.report import NodeFacts, Snapshot, report
from peermesh.testing.time_limits import limit
from peermesh.testing.timeline import page
from tests.hostile_text import ENCODABLE, HOSTILE, chunks, found_in
from wire.errors import ErrorCode, MeshError
from wire.identifiers import EndpointId

ROOT = Path(__file__).parent.parent.parent
COMMANDS = dict(commands_below(application, "peermesh"))
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}

READERS = {
    "store get": ("store", "get", "hostile", json.dumps(ENCODABLE)),
    "store keys": ("store", "keys", "hostile"),
    "store scan": ("store", "scan", "hostile"),
    "store watch": ("store", "watch", "hostile", "--from-revision", "1", "--count", "20"),
    "store verify": ("store", "verify", "hostile"),
    "log read": ("log", "read", "hostile"),
    "log watch": ("log", "watch", "hostile", "--earliest", "--count", "20"),
    "log consumers": ("log", "consumers", "hostile"),
    "log offsets": ("log", "offsets", "hostile"),
    "describe": ("describe",),
    "spark jobs": ("spark", "jobs", "hostile"),
    "store cas": ("store", "cas", "hostile", json.dumps(ENCODABLE), "1", "--if-missing"),
    "store increment": ("store", "increment", "hostile", json.dumps(ENCODABLE), "1"),
    "store delete": ("store", "delete", "hostile", json.dumps([ENCODABLE])),
    "store put": ("store", "put", "hostile", '["own"]', json.dumps(ENCODABLE)),
    "store promote": ("store", "promote", ENCODABLE),
    "store members": ("store", "members", ENCODABLE),
    "store add": ("store", "add", ENCODABLE, ENCODABLE),
    "store remove": ("store", "remove", ENCODABLE, ENCODABLE),
    "store quota": ("store", "quota", "hostile"),
    "log quota": ("log", "quota", "hostile"),
    "log members": ("log", "members", ENCODABLE),
    "log add": ("log", "add", ENCODABLE, ENCODABLE),
    "log remove": ("log", "remove", ENCODABLE, ENCODABLE),
    "log replay": ("log", "replay", "hostile", "--skip-others"),
    "log transfer": ("log", "transfer", ENCODABLE, ENCODABLE),
    "store transfer": ("store", "transfer", ENCODABLE, ENCODABLE),
    "store lock": ("store", "lock", ENCODABLE, ENCODABLE, ENCODABLE),
    "log promote": ("log", "promote", ENCODABLE),
    "log append": ("log", "append", "hostile", json.dumps(ENCODABLE)),
    "pub": ("pub", ENCODABLE, json.dumps(ENCODABLE)),
}
"""What these commands write comes from the mesh: they are run at one that others have filled."""

ELSEWHERE = {
    "sub": "test_messages_of_others",
    "store events": "test_messages_of_others",
    "broker edge-sub": "test_messages_of_others: it writes as sub does",
    "dlq list": "test_dead_letters",
    "dlq replay": "test_dead_letters",
    "dlq show": "test_dead_letters; bytes as they are, but not to a terminal: test_cli_qos2",
    "topic list": "test_topics",
    "topic show": "test_topics",
    "topic consumers": "test_topics",
    "spark watch": "test_progress_of_jobs",
    "node": "test_status_events",
    "check": "test_histories",
    "demo": "test_the_demo",
}
"""Those that are driven in a test of their own."""

OWN_WORDS = {
    *("access remove", "access show", "access token", "access user"),
    *("broker edge", "broker edge-pub", "broker modules", "broker qos2"),
    *("certs init", "certs issue", "certs show", "completion"),
    *("context add", "context ls", "context rm", "context use", "dlq purge", "help"),
    *("link tcp", "link zeek", "serve websocket"),
    *("log follow", "log keep", "log replica", "secret new", "secret show", "serve webhdfs"),
    *("store dump", "store load", "store new-key", "store rekey", "ticket new", "ticket show"),
    *("topic delete", "topic forget"),
}
"""Those that write their own words, their arguments, and errors: all through ``say``."""


def test_every_command_is_entered() -> None:
    entered = {f"peermesh {name}" for name in (*READERS, *ELSEWHERE, *OWN_WORDS)}
    assert entered == set(COMMANDS)
    tests = {name.partition(":")[0].partition(";")[0] for name in ELSEWHERE.values()}
    assert tests <= {name for name in globals() if name.startswith("test_")}


# Whatever is written.


def test_every_code_point_of_a_line(capsys) -> None:
    for text in chunks():
        Output(as_json=False).tell([text])
    say(HOSTILE, err=True)
    Output(as_json=True).tell(None, text=HOSTILE, **{HOSTILE: [HOSTILE]})
    shown = capsys.readouterr()
    assert not found_in(shown.out + shown.err)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_of_every_command(name: str, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEERMESH_CONFIG_DIR", str(tmp_path))
    # No argument has a NUL; bytes that are no UTF-8 come as these surrogates.
    hostile = ENCODABLE.replace("\0", "") + "".join(map(chr, range(0xDC80, 0xDD00)))
    command = COMMANDS[name]
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            continue
        for value in (hostile, f"{hostile}:1", "1" + hostile):
            context = click.Context(command, info_name=name)
            given: Any = value
            if parameter.multiple or parameter.nargs != 1:
                given = (value,) * max(1, parameter.nargs)
            try:
                parameter.handle_parse_result(context, {str(parameter.name): given}, [])
            except (click.ClickException, MeshError, OSError) as error:
                commands._tell(error, as_json=False)
                commands._tell(error, as_json=True)
    for arguments in ((f"--{hostile}",), (hostile, hostile, f"--wait={hostile}")):
        assert run([*name.split()[1:], *arguments]) != 0
    shown = capsys.readouterr()
    assert not found_in(shown.out + shown.err)


# What comes from the mesh.


@pytest.fixture(scope="module")
def mesh() -> Iterator[tuple[Endpoint, Any, str]]:
    with (
        Endpoint() as endpoint,
        Endpoint() as other,
        endpoint.attach_master("hostile") as store,
        other.attach_clone("hostile") as clone,
        endpoint.attach_log("hostile", partitions=1) as log,
        endpoint.attach_master(f"named {ENCODABLE}"),
        endpoint.subscribe(f"topic {ENCODABLE}"),
    ):
        address = f"127.0.0.1:{endpoint.listen()}"
        # A master that is followed keeps what was done, for those who watch from earlier on.
        assert other.peer("127.0.0.1", int(address.rpartition(":")[2]))
        assert clone.await_idle(timeout=limit(30))
        store.put(ENCODABLE, {ENCODABLE: [ENCODABLE]}).result(timeout=limit(30))
        store.put((RESERVED, "sink", ENCODABLE), (1,)).result(timeout=limit(30))
        store.put((RESERVED, "job", ENCODABLE), {"began": datetime.now(UTC)}).result()
        store.put((RESERVED, "unit", ENCODABLE, ENCODABLE, 1), 1).result(timeout=limit(30))
        for number, text in enumerate(chunks()):
            encodable = re.sub("[\ud800-\udfff]", "", text)
            store.put(number, encodable).result(timeout=limit(30))
            log.append(encodable).result(timeout=limit(30))
        with log.consume(ENCODABLE[-255:]) as consumer:
            consumer.commit().result(timeout=limit(30))
        yield endpoint, store, address


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", READERS)
def test_what_others_have_written(mesh, name: str, capsys, *, as_json: bool) -> None:
    code = run([*READERS[name], "--peer", mesh[2], *(["--json"] if as_json else [])])
    shown = capsys.readouterr()
    assert code in {0, 1}, shown.err
    assert not found_in(shown.out + shown.err)
    if name in {"store scan", "store watch", "log read", "log watch"}:
        assert len(shown.out) > 100_000
    if as_json:
        for line in shown.out.splitlines():
            json.loads(line)


@pytest.mark.parametrize(
    "arguments",
    [("sub", "hostile/", "--count", "1"), ("store", "events", "hostile", "--count", "1")],
)
def test_messages_of_others(mesh, arguments: tuple[str, ...]) -> None:
    endpoint, store, address = mesh
    with subprocess.Popen(
        [sys.executable, "-m", "peermesh", *arguments, "--peer", address],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert re.match("subscribed|following", process.stderr.readline())
        if arguments[0] == "sub":
            endpoint.publish(f"hostile/{ENCODABLE}", {ENCODABLE: ENCODABLE})
        else:
            store.put("event", ENCODABLE).result(timeout=limit(30))
        out, err = process.communicate(timeout=limit(60))
    assert process.returncode == 0, err
    assert r"\u202e" in out
    assert not found_in(out + err)


def test_dead_letters(capsys) -> None:
    from peermesh.brokers.qos2.entries import Letter

    letter = Letter(1, HOSTILE, HOSTILE, 1, HOSTILE, 1, ENCODABLE.encode(), 0)
    for as_json in (False, True):
        Output(as_json=as_json).tell(_as_text(letter), **_members(letter))
    assert not found_in(capsys.readouterr().out)


def test_topics(capsys) -> None:
    from peermesh.brokers.qos2 import Topic, TopicContent
    from peermesh.brokers.qos2.names import ConsumerName
    from peermesh.cli.topics import as_lines, as_name, as_text

    topic = Topic(HOSTILE, HOSTILE, (HOSTILE,))
    content = TopicContent(HOSTILE, HOSTILE, 1, 1, {HOSTILE: 1})
    name = ConsumerName(HOSTILE, HOSTILE, (HOSTILE,))
    for as_json in (False, True):
        Output(as_json=as_json).tell(as_text(topic), **asdict(topic))
        Output(as_json=as_json).tell(as_lines(content), **asdict(content))
        Output(as_json=as_json).tell(as_name(name), **asdict(name))
    assert not found_in(capsys.readouterr().out)


def test_progress_of_jobs(capsys) -> None:
    from peermesh.cli.spark import _printable
    from peermesh.spark.progress import Progress

    progress = Progress(HOSTILE, HOSTILE, "failed", reason=HOSTILE)
    Output(as_json=False).tell(_printable(progress).line())
    assert not found_in(capsys.readouterr().out)


def test_status_events() -> None:
    for text in chunks():
        event = StatusEvent(StatusCode.PEER_LOST, None, None, ErrorCode.NONE, text)
        assert not found_in(str(event), kept="")


def test_histories(capsys, tmp_path) -> None:
    from peermesh.testing.history import History
    from peermesh.testing.history_files import write_history

    history = History()
    history.end(history.begin(ENCODABLE, "put", ENCODABLE, 1, at=0.0), at=1.0)
    history.end(history.begin(ENCODABLE, "get", ENCODABLE, at=2.0), 2, at=3.0)
    write_history(history, tmp_path / "history.jsonl")
    assert run(["check", str(tmp_path / "history.jsonl"), "--promise", "linearizable"]) == 1
    shown = capsys.readouterr()
    assert r"\u202e" in shown.out
    assert not found_in(shown.out + shown.err)


def test_the_demo(capsys) -> None:
    from rich.console import Console

    view = View(1, 2, 0, 0, 1, 1, ((HOSTILE, 1),), 0.0)
    LineDisplay().show(view, 0.0)
    LineDisplay().mark(HOSTILE)
    Console(file=sys.stdout, width=100_000).print(_draw(view))
    assert not found_in(capsys.readouterr().out)


# Tracebacks and reports.

RAISES = """
import sys, threading
from peermesh.cli import application, main
hostile = "\\x9b2J\\u202e\\u3164\\x1b]0;title\\x07"
def run(arguments):
    thread = threading.Thread(target=fail, name=hostile)
    thread.start()
    thread.join()
    class Unraisable:
        def __del__(self): fail()
    Unraisable()
    fail()
def fail(): raise ExceptionGroup(hostile, [KeyError(hostile), ValueError(hostile)])
application.run = run
main()
"""


def test_an_error_that_no_command_expected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RAISES], capture_output=True, cwd=ROOT, env=ENVIRONMENT, check=False
    )
    shown = done.stderr.decode()
    assert done.returncode == 1
    assert shown.count("ExceptionGroup: ") == 3
    assert shown.count("ValueError: ") == 3
    assert not found_in(shown)


def test_the_report_of_a_cluster_and_its_page() -> None:
    node = EndpointId(bytes(range(16)))
    recorder = FlightRecorder(node)
    for number, text in enumerate((*islice(chunks(), 4), HOSTILE)):
        recorder.note(float(number), "error", text, about=node)
    records = tuple(recorder.records())
    facts = NodeFacts(HOSTILE, (node,), ("127.0.0.1", 1), HOSTILE, None, (records,))
    links = ((HOSTILE, HOSTILE, ()),)
    snapshot = Snapshot(HOSTILE, (facts,), links, (EndpointId(bytes(16)), ()))
    shown = page(snapshot, HOSTILE)
    assert not found_in(shown)
    (data,) = re.findall('id="data">(.*)</script>', shown)
    events = [event["text"] for event in json.loads(data)["events"]]
    assert not found_in("".join([*json.loads(data)["lanes"], *events]))
    assert html.escape(report(snapshot)) in shown


def test_a_command_that_fails_in_the_mesh_escapes_the_words_of_its_master(mesh, capsys) -> None:
    with suppress(MeshError):
        run(["store", "increment", "hostile", json.dumps(ENCODABLE), "1", "--peer", mesh[2]])
    assert not found_in(capsys.readouterr().err)
