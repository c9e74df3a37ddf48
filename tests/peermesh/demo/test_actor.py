"""Roles live, die and live again; when the demo cannot go on, it says why, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from peermesh.demo import actor
from peermesh.demo.actor import Actor
from peermesh.demo.errors import DemoError
from peermesh.demo.link import Assignment
from peermesh.demo.plan import Input, Plan
from peermesh.demo.stage import free_ports
from tests.waiting import until

ROOT = Path(__file__).parents[3]


def test_a_driver_that_does_not_stay_alive_ends_the_demo_with_its_last_words(tmp_path):
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
    assert failed.stderr.startswith("peermesh: the driver does not stay alive (")
    assert failed.stderr.endswith(f": see {work}/driver.log\n")
    assert failed.stderr.count("\n") == 1
    assert failed.stdout.count("driver is started") == actor.FAILURES_MAX
    reason = failed.stderr.partition("alive (")[2]
    assert f"driver failed with code 1 ({reason}" in failed.stdout


def assign(directory: Path, reports: int) -> Assignment:
    return Assignment(
        reports=reports,
        directory=str(directory),
        what=Input(source="", key="", time=""),
        plan=Plan(lines=0, shift_seconds=0, watermark_ms=0, rows_max=1),
        ports=free_ports(),
        draws=False,
    )


async def test_a_role_that_is_killed_is_started_again_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(actor, "KILLS_MAX", 3)
    monkeypatch.setattr(actor, "RESTART_SECONDS", 0)
    seen = []

    def hear(report):
        seen.append(report)
        if report["event"] == "started":
            member.kill()

    member = Actor("member", partial(assign, tmp_path), hear)
    with pytest.raises(DemoError, match=r"the member does not stay alive \(it says nothing\)"):
        await member.play()
    assert [report.get("code") for report in seen if report["event"] == "died"] == [-9] * 3
    assert len({report["pid"] for report in seen if report["event"] == "started"}) == 3
    assert member.pid is None


async def test_a_role_ends_when_it_is_not_wanted_any_more(tmp_path):
    seen = []
    member = Actor("member", partial(assign, tmp_path), seen.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.play)
        # Its first file: it is in the middle of its work then.
        await until(lambda: any(tmp_path.glob("*.sqlite")))
        nursery.cancel_scope.cancel()
    pid = seen[0]["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (tmp_path / "member.log").read_text() == ""
