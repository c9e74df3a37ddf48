"""The demo as a whole, in real processes: exact whoever is killed, and nothing stays behind."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from peermesh import Backend, blocking
from peermesh.demo.keys import DEPTH_MAX
from peermesh.demo.protocol import STORE_NAME, read_table
from peermesh.demo.reading import read_lines
from peermesh.demo.sessions import PROCESSES, session_members
from peermesh.demo.tally import tally_events

ROOT = Path(__file__).parent.parent.parent
GONE_SECONDS_MAX = 60

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


@pytest.fixture
def events(tmp_path) -> Path:
    """Four batches of events with everything in them that is hard to count."""
    lines = [*GOOD * 500, *BAD, *GOOD * 100]
    path = tmp_path / "events.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    return path


@contextmanager
def demo(events: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "peermesh.cli", "demo", "--input", str(events), *options]
    process = subprocess.Popen(
        [*command, "--key", "k.x"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def messages(process: subprocess.Popen[str]) -> Iterator[dict[str, object]]:
    for line in process.stdout:
        yield json.loads(line)


def test_counts_are_exact_though_the_job_is_killed_and_lines_are_bad(events):
    with demo(events) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    total = f"{len(GOOD) * 600:,} events under {len(GOOD)} keys, {len(BAD)} bad lines"
    assert f"recount: {total}" in output
    assert f"clone:   {total}" in output
    assert "0 lost, 0 double" in output
    assert "SIGKILL for the Spark job, in the middle of lines" in output
    assert "the job is started, again" in output
    assert f"line {len(GOOD) * 500 + 2}: not JSON" in output
    assert errors == ""


def test_counts_are_exact_whichever_process_is_killed(events):
    victims = {"committed": "sensor", "ready": "viewer"}
    pids: dict[str, int] = {}
    killed: dict[str, int] = {}
    verdict = {}
    with demo(events, "--json") as process:
        for message in messages(process):
            event = message["event"]
            if event == "started":
                pids[message["role"]] = message["pid"]
            elif event in victims:
                role = victims.pop(event)
                killed[role] = pids[role]
                os.kill(pids[role], signal.SIGKILL)
            elif event == "verdict":
                verdict = message
        errors = process.stderr.read()
    assert set(killed) == {"sensor", "viewer"}
    assert all(pids[role] != killed[role] for role in killed), "they were not started again"
    assert verdict["is_exact"], errors
    assert (verdict["lost"], verdict["double"]) == (0, 0)
    assert verdict["events_on_clone"] == len(GOOD) * 600
    assert verdict["bad"] == len(BAD)


def roles_at_work(process: subprocess.Popen[str]) -> list[int]:
    """Wait until Spark counts, and give the sessions of the roles."""
    sessions = []
    for message in messages(process):
        if message["event"] == "started":
            sessions.append(message["pid"])
        if message["event"] == "counting":
            break
    assert len(sessions) == 3, process.stderr.read()
    return sessions


def wait_until_gone(descriptors: list[int]) -> bool:
    """Wait for the ends of processes; false if one of them is still there after a minute."""
    return all(select.select([each], [], [], GONE_SECONDS_MAX)[0] for each in descriptors)


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_when_the_demo_is_stopped(events, tmp_path, kill):
    with demo(events, "--json", "--directory", str(tmp_path / "work")) as process:
        sessions = roles_at_work(process)
        members = [pid for session in sessions for pid in session_members(session)]
        assert len(members) > len(sessions), "Spark has processes of its own"
        descriptors = [os.pidfd_open(pid) for pid in members]
        try:
            process.send_signal(kill)
            process.stdout.read()
            code, errors = process.wait(), process.stderr.read()
            if kill == signal.SIGKILL:
                # Nobody is there to look after them: they notice by themselves.
                assert wait_until_gone(descriptors)
        finally:
            for each in descriptors:
                os.close(each)
    assert code == (-kill if kill == signal.SIGKILL else 128 + kill)
    assert errors == ""
    assert [session_members(session) for session in sessions] == [[], [], []]


def test_what_was_acknowledged_is_there_after_all_were_killed(events, tmp_path):
    work, pids, acknowledged = tmp_path / "work", {}, 0
    with demo(events, "--json", "--directory", str(work)) as process:
        for message in messages(process):
            if message["event"] == "started":
                pids[message["role"]] = message["pid"]
            if message["event"] == "committed":
                acknowledged = message["lines"]
                break
        gone = []
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):  # It was just killed, as the demo does.
                gone.append(os.pidfd_open(pid))
        # The supervisor first, who would start the others again; without it they end, too.
        process.kill()
        for each in gone:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(each, signal.SIGKILL)
        assert wait_until_gone(gone)
        for each in gone:
            os.close(each)
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master(STORE_NAME, Backend.SQLite, path=work / "counts.sqlite") as store,
    ):
        counts, checkpoint = read_table(store.items())
    assert checkpoint.lines >= acknowledged > 0
    (expected,) = tally_events("k.x", islice(read_lines(events), checkpoint.lines))
    assert (counts, checkpoint.bad) == (expected.counts, expected.bad)
