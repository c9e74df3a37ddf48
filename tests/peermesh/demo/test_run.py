"""The demo as a whole, in real processes: exact whoever is killed, and nothing stays behind."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import select
import signal
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pytest

from peermesh import Backend, blocking
from peermesh.demo.events import EventReader
from peermesh.demo.keys import DEPTH_MAX
from peermesh.demo.mesh import COUNTS
from peermesh.demo.plan import VOTERS
from peermesh.demo.reading import read_lines
from peermesh.demo.sessions import PROCESSES, session_members
from peermesh.demo.tally import Tally, compare
from peermesh.demo.times import window_of
from peermesh.demo.viewer import read_table
from peermesh.testing.time_limits import limit
from tests.secrecy.planted import plant

ROLES = {*VOTERS, "sensor", "driver", "viewer"}

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not PROCESSES.is_dir(), reason="sessions are read from /proc"),
]

GOOD = [b'{"k.x": "a"}', b'{"k.x": 1}', b'{"k.x": 1.0}', b'{"k.x": true}', b'{"k.x": "1"}', b"{}"]
BAD = [
    b"",
    b"{",
    b"[]",
    b'{"k.x": "\xff"}',
    b'{"k.x": NaN}',
    b'{"k.x": "\\ud800"}',
    b'{"k.x": ' + b"1" * 5000 + b"}",
    *(b'{"k.x": ' + b"[" * depth + b"]" * depth + b"}" for depth in (DEPTH_MAX, 300, 900, 5000)),
]
AHEAD, BACK = b'{"k.x": 1, "ts": 7000}', b'{"k.x": 1, "ts": 50}'
"""Two hours ahead, and back: all that comes then is late."""
EVENTS = len(GOOD) * 600 + 2


@pytest.fixture
def events(tmp_path) -> Path:
    """Events with everything in them that is hard to count."""
    lines = [*GOOD * 250, AHEAD, *GOOD * 250, BACK, *BAD, *GOOD * 100]
    path = tmp_path / "events.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    return path


def source_runner(driver: int) -> list[int]:
    """Find the process in which Spark plans what it reads: without it, the query fails."""
    runner = b"python_streaming_source_runner"
    found = [each for each in session_members(driver) if runner in command_of(each)]
    assert len(found) <= 1, found
    return found


def runner_and_store(pids: dict[str, int]) -> list[int]:
    """Give both, once Spark has its runner: a driver that starts again has none for a while."""
    runner = source_runner(pids["driver"])
    return [*runner, pids["store-b"]] if runner else []


def command_of(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return (PROCESSES / str(process) / "cmdline").read_bytes()
    return b""


def test_counts_are_exact_and_no_secret_told_whoever_is_killed(demo, events, tmp_path):
    """The three that the demo kills, those that it spares, and one of Spark's own processes."""
    planted, work, pids, output = plant(tmp_path), tmp_path / "work", {}, ""
    options = ("--pace", "4", "--directory", str(work))
    kills = [
        (["^0 of"], lambda: [pids["sensor"]]),
        ([r"^[1-9][\d,]* of"], lambda: runner_and_store(pids)),
        # What the viewer is told while it dies, nobody says.
        (["the query failed", "store-b is started, again"], lambda: [pids["viewer"]]),
    ]
    with demo(events, "k.x", *options, **planted.environment) as run:
        for line in run.process.stdout:
            output += line
            if found := re.search(r"([\w-]+) is started(?:, again)?: process (\d+)$", line):
                pids[found[1]] = int(found[2])
            if kills and all(re.search(word, output, re.M) for word in kills[0][0]):
                victims = kills[0][1]()
                for victim in victims:
                    os.kill(victim, signal.SIGKILL)
                del kills[: bool(victims)]
        errors = run.process.stderr.read()
    assert run.process.returncode == 0, errors
    total = f"{EVENTS:,} events under {len(GOOD)} keys in 2 windows, {len(BAD)} bad lines"
    assert f"recount: {total}" in output
    assert f"replica: {total}" in output
    assert "0 lost, 0 double" in output
    for role in ("sensor", "store-b", "viewer", "driver"):
        assert f"{role} is started, again" in output
    for victim in ("log-leader", "driver", "store-leader"):
        assert f"SIGKILL for the {victim} (" in output
    assert re.search(
        r"from each kill .*: log-leader \([\d.]+ s\), driver \([\d.]+ s\), store-leader \(", output
    )
    assert "watermark dropped: 0" in output
    assert f"line {len(GOOD) * 500 + 4}: not JSON" in output
    assert errors == ""
    ElementTree.parse(tmp_path / "run.svg")
    logs = [path.read_text() for path in work.glob("*.log")]
    assert len(logs) == len(ROLES)
    assert planted.find_in("".join([output, *logs])) == []


def roles_at_work(run, event: str) -> list[int]:
    """Wait until something happens, and give the sessions of the roles."""
    sessions: dict[str, int] = {}
    for message in run.messages():
        if message["event"] == "started":
            sessions[message["role"]] = message["pid"]
        if message["event"] == event and set(sessions) == ROLES:
            return list(sessions.values())
    raise AssertionError(run.process.stderr.read())


def wait_until_gone(descriptors: list[int]) -> bool:
    """Wait for the ends of processes; false if one of them is still there after a long time."""
    return all(select.select([each], [], [], limit(60))[0] for each in descriptors)


@pytest.mark.parametrize(
    ("end", "event"), [(signal.SIGINT, "counting"), (signal.SIGTERM, "leading")]
)
def test_no_process_is_left_when_the_demo_is_stopped(demo, events, tmp_path, end, event):
    with demo(events, "k.x", "--json", "--directory", str(tmp_path / "work")) as run:
        sessions = roles_at_work(run, event)
        run.process.send_signal(end)
        run.process.stdout.read()
        code, errors = run.process.wait(), run.process.stderr.read()
    assert code == 128 + end
    assert errors in ("", "peermesh: still ending in order; Ctrl-C again ends it at once\n")
    assert [session_members(session) for session in sessions] == [[]] * len(ROLES)


def test_when_all_is_killed_nothing_runs_on_and_what_was_counted_is_there(demo, events, tmp_path):
    """The supervisor and who has stores die at once; the others notice by themselves."""
    work, counted = tmp_path / "work", 0
    pids: dict[str, int] = {}
    options = ("--json", "--directory", str(work), "--kill", "none")
    with demo(events, "k.x", *options) as run:
        for message in run.messages():
            if message["event"] == "started":
                pids[message["role"]] = message["pid"]
            if message["event"] == "batch":
                counted = message["lines"]
                break
        members = [member for pid in pids.values() for member in session_members(pid)]
        assert len(members) > len(ROLES), "Spark has processes of its own"
        gone = []
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                gone.append(os.pidfd_open(member))
        # The supervisor first, who would start the others again.
        for pid in (run.process.pid, *(pids[voter] for voter in VOTERS)):
            os.kill(pid, signal.SIGKILL)
        assert wait_until_gone(gone)
        for each in gone:
            os.close(each)
    with blocking.Endpoint(name=VOTERS[0]) as one, blocking.Endpoint(name=VOTERS[1]) as other:
        one.peer("127.0.0.1", other.listen())
        for endpoint in (other, one):
            path = work / f"{COUNTS}-{endpoint.settings.name}.sqlite"
            store = endpoint.attach_replica(
                COUNTS, voters=VOTERS, backend=Backend.SQLite, path=path
            )
        table = read_table(store.at_master().items())
    lines = sum(table.values())
    assert lines >= counted > 0
    reader, tally = EventReader("k.x", "ts"), Tally()
    for number, line in islice(read_lines(events), lines):
        event = reader.read(number, line)
        tally.cells[window_of(event.time, 60), event.key] += 1
    assert not compare(tally.cells, table)
