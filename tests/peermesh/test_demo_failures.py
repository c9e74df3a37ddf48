"""When the demo cannot go on, it says why, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from peermesh import Backend, blocking
from peermesh.demo import actor, job as job_module
from peermesh.demo.actor import Actor
from peermesh.demo.errors import DemoError, StuckError
from peermesh.demo.job import Job
from peermesh.demo.link import Assignment, Reports
from peermesh.demo.protocol import EVENTS_TOPIC, STORE_NAME
from peermesh.demo.tally import Tally

ROOT = Path(__file__).parent.parent.parent


def test_a_job_that_does_not_stay_alive_ends_the_demo_with_its_last_words(tmp_path):
    pytest.importorskip("pyspark")
    events, work = tmp_path / "events", tmp_path / "work"
    events.write_text('{"a": 1}\n')
    # A Java that tells its version, and can do nothing else.
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    command = [sys.executable, "-m", "peermesh.cli", "demo", "--input", str(events), "--key", "a"]
    failed = subprocess.run(
        [*command, "--directory", str(work)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"JAVA_HOME": str(tmp_path)},
        check=False,
    )
    assert failed.returncode == 1
    assert failed.stderr.startswith("peermesh: the job does not stay alive (")
    assert failed.stderr.endswith(f": see {work}/job.log\n")
    assert failed.stderr.count("\n") == 1
    assert failed.stdout.count("the job is started") == actor.FAILURES_MAX


def test_a_job_that_gets_nowhere_gives_up(monkeypatch):
    monkeypatch.setattr(job_module, "PATIENCE_SECONDS", 0.3)
    reading, writing = os.pipe()
    with blocking.Endpoint() as mine, blocking.Endpoint() as other:
        # There is a store, but no sensor.
        other.attach_master(STORE_NAME, Backend.Memory)
        mine.peer("127.0.0.1", other.listen())
        store = mine.attach_clone(STORE_NAME)
        job = Job(
            mine, store, count=lambda _: Tally(), reports=Reports(writing), is_wanted=lambda: True
        )
        with pytest.raises(StuckError, match=r"nothing was counted for 0.3 s: no event came"):
            job.run(mine.subscribe(EVENTS_TOPIC))
    os.close(writing)
    with open(reading) as reports:
        assert '"event": "ready"' in reports.read()


def assign(directory: Path, reports: int) -> Assignment:
    return Assignment(
        reports=reports, directory=str(directory), source="", key="", lines=0, port=0, draws=False
    )


async def test_a_role_that_is_killed_is_started_again_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(actor, "KILLS_MAX", 3)
    monkeypatch.setattr(actor, "RESTART_SECONDS", 0)
    seen = []

    def hear(report):
        seen.append(report)
        if report["event"] == "listening":
            sensor.kill()

    sensor = Actor("sensor", partial(assign, tmp_path), hear)
    with pytest.raises(DemoError, match=r"the sensor does not stay alive \(it says nothing\)"):
        await sensor.play()
    assert [report.get("code") for report in seen if report["event"] == "died"] == [-9] * 3
    assert len({report["pid"] for report in seen if report["event"] == "started"}) == 3
    assert sensor.pid is None


async def test_a_role_ends_when_it_is_not_wanted_any_more(tmp_path):
    listening, seen = trio.Event(), []

    def hear(report):
        seen.append(report)
        if report["event"] == "listening":
            listening.set()

    sensor = Actor("sensor", partial(assign, tmp_path), hear)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sensor.play)
        await listening.wait()
        nursery.cancel_scope.cancel()
    pid = seen[0]["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (tmp_path / "sensor.log").read_text() == ""
