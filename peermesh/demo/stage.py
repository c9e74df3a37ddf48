"""The play: three processes, a kill in the middle, and the comparison at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from peermesh.demo.actor import Actor
from peermesh.demo.errors import DemoError
from peermesh.demo.link import Assignment, Message
from peermesh.demo.protocol import Checkpoint
from peermesh.demo.tally import Difference, Tally, compare
from peermesh.demo.viewer import TABLE_FILE

KILL_SHARE: Final = 0.5
"""The Spark job is killed in the first batch that reaches so far into the input."""

STDOUT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is counted, and where."""

    source: Path
    """The input: JSON lines, plain or gzip."""
    key: str
    """The field to count by."""
    directory: Path
    """Where logs, the store and Spark's files go."""
    draws: bool
    """Whether the viewer writes to stdout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of it."""

    recount: Tally
    table: dict[bytes, int]
    """The clone's counts by encoded key."""
    checkpoint: Checkpoint
    """The clone's checkpoint."""
    difference: Difference
    seconds: float
    """From the start of the first process to the table."""

    @property
    def is_exact(self) -> bool:
        """Tell whether the clone has exactly what the recount has."""
        expected = Checkpoint(self.recount.lines, self.recount.bad)
        return not self.difference and self.checkpoint == expected


class Stage:
    """Performs the play once."""

    def __init__(self, plan: Plan, recount: Tally, tell: Callable[[Message], None]) -> None:
        """Perform ``plan``; ``tell`` gets everything that happens."""
        self._plan = plan
        self._recount = recount
        self._tell = tell
        self._port = 0
        self._listening = trio.Event()
        self._is_killed = self._is_done = False
        self._sensor = Actor("sensor", self._assign, self._on_sensor)
        self._job = Actor("job", self._assign, self._on_job)
        self._viewer = Actor("viewer", self._assign, self._on_viewer, output=STDOUT)
        self._sensor_scope = trio.CancelScope(shield=True)

    async def perform(self) -> Verdict:
        """Count, kill, count on, and compare; raises ``DemoError``."""
        self._plan.directory.joinpath("spark").mkdir()
        began = time.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._play_sensor)
            try:
                await self._listening.wait()
                async with trio.open_nursery() as others:
                    others.start_soon(self._viewer.play)
                    others.start_soon(self._job.play)
            finally:
                # The others end first, whatever ends them: they have something to say to it.
                self._sensor_scope.cancel()
        return self._judge(time.monotonic() - began)

    async def _play_sensor(self) -> None:
        with self._sensor_scope:
            await self._sensor.play()

    def _assign(self, reports: int) -> Assignment:
        return Assignment(
            reports=reports,
            directory=str(self._plan.directory),
            source=str(self._plan.source),
            key=self._plan.key,
            lines=self._recount.lines,
            port=self._port,
            draws=self._plan.draws,
        )

    def _judge(self, seconds: float) -> Verdict:
        found = json.loads(self._plan.directory.joinpath(TABLE_FILE).read_text())
        table = {bytes.fromhex(key): count for key, count in found["counts"]}
        return Verdict(
            recount=self._recount,
            table=table,
            checkpoint=Checkpoint(found["lines"], found["bad"]),
            difference=compare(self._recount.counts, table),
            seconds=seconds,
        )

    # What the roles report.

    def _on_sensor(self, report: Message) -> None:
        self._on_any(self._sensor, report)
        if report["event"] == "listening":
            self._port = report["port"]
            self._listening.set()

    def _on_viewer(self, report: Message) -> None:
        self._on_any(self._viewer, report)

    def _on_job(self, report: Message) -> None:
        self._on_any(self._job, report)
        if report["event"] == "ready" and self._job.lives > 1:
            self._mark(f"the Spark job goes on after line {report['lines']:,}")
        if report["event"] == "done" and not self._is_done:
            self._is_done = True
            self._viewer.order("finish", stands=True)
        reaches = report["event"] == "counting" and report["last"] >= (
            KILL_SHARE * self._recount.lines
        )
        if reaches and not self._is_killed:
            self._is_killed = True
            first, last = report["first"], report["last"]
            self._job.kill()
            self._tell({"event": "killing", "role": "job", "first": first, "last": last})
            self._mark(f"SIGKILL for the Spark job, in the middle of lines {first:,} to {last:,}")

    def _on_any(self, actor: Actor, report: Message) -> None:
        self._tell({"role": actor.name, **report})
        match report:
            case {"event": "started", "pid": pid}:
                again = "" if actor.lives == 1 else ", again"
                self._mark(f"the {actor.name} is started{again}: process {pid}")
            case {"event": "died", "code": code}:
                how = f"was killed by signal {-code}" if code < 0 else f"failed with code {code}"
                self._mark(f"the {actor.name} {how}")
            case {"event": "failed", "reason": reason}:
                raise DemoError(f"the {actor.name} gave up: {reason}")
            case _:
                pass

    def _mark(self, text: str) -> None:
        self._viewer.order("mark", text=text)
