"""The play: six processes, the deaths of three of them, and the comparison at the end."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import trio

from handshake.private_files import make_directory
from peermesh.demo.actor import Actor
from peermesh.demo.errors import DemoError
from peermesh.demo.events import LOG_NAME
from peermesh.demo.kills import Kills
from peermesh.demo.link import Assignment, Message
from peermesh.demo.mesh import COUNTS, LOCAL, TABLE_FILE
from peermesh.demo.plan import VOTERS, Input, Plan, Ports, Victim
from peermesh.demo.record import Record
from peermesh.demo.tally import Cell
from peermesh.demo.verdict import Outage, Verdict

STDOUT: Final = 1

QUIET_SECONDS_MAX: Final = 600.0
"""How long nothing may get on, though everybody is alive: longer than Spark takes to start
on the busiest machine."""


def free_ports() -> Ports:
    """Find ports for processes that have to come back where they were."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server((LOCAL, 0))) for _ in range(2 * len(VOTERS))
        ]
        ports: list[int] = [server.getsockname()[1] for server in servers]
    return Ports.of({"members": ports[: len(VOTERS)], "gateways": ports[len(VOTERS) :]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What is to be done, and where."""

    what: Input
    plan: Plan
    directory: Path
    """Where logs, stores and Spark's files go."""
    victims: tuple[Victim, ...]
    draws: bool
    """Whether the viewer writes to stdout."""


class Stage:
    """Performs the play once."""

    def __init__(self, play: Play, tell: Callable[[Message], None]) -> None:
        """Perform ``play``; ``tell`` gets everything that happens."""
        self._play = play
        self._tell = tell
        self._ports = free_ports()
        self._total = play.plan.total(play.what.copies)
        self.record = Record(self._total)
        self._kills = Kills(play.victims, self._total)
        self._leaders = {LOG_NAME: 0, COUNTS: 0}
        self._began = time.monotonic()
        self._progressed = self._began
        self._outages: list[Outage] = []
        self._killed = (Victim.DRIVER, 0.0)
        self._processed = self._shown = self._late = 0
        self._is_done = False
        self._is_told = trio.Event()
        self._members = [
            Actor(name, self._assign_to(member), self._hear_of(member), module="member")
            for member, name in enumerate(VOTERS)
        ]
        self._sensor = Actor("sensor", self._assign, self._on_sensor)
        self._driver = Actor("driver", self._assign, self._on_driver)
        self._viewer = Actor("viewer", self._assign, self._on_viewer, output=STDOUT)

    async def perform(self, recount: Counter[Cell]) -> Verdict:
        """Count, kill, count on, and compare; raises ``DemoError``."""
        make_directory(self._play.directory / "spark")
        below = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            copies = (*self._members, self._viewer)
            nursery.start_soon(self._play_all, copies, below)
            try:
                async with trio.open_nursery() as others:
                    others.start_soon(self._watch)
                    others.start_soon(self._play_all, (self._sensor, self._driver), None)
                    await self._is_told.wait()
                    seconds = self._now()
                    others.cancel_scope.cancel()
            finally:
                # Those above end first, whatever ends them: they have something to say to these.
                below.cancel()
        return self._judge(recount, seconds)

    async def _play_all(self, actors: Iterable[Actor], scope: trio.CancelScope | None) -> None:
        with scope or trio.CancelScope():
            async with trio.open_nursery() as nursery:
                for actor in actors:
                    nursery.start_soon(actor.play)

    async def _watch(self) -> None:
        while True:
            quiet = time.monotonic() - self._progressed
            if quiet >= QUIET_SECONDS_MAX:
                raise DemoError(f"nothing got on for {quiet:.0f} s")
            await trio.sleep(QUIET_SECONDS_MAX - quiet)

    def _assign(self, reports: int) -> Assignment:
        return Assignment(
            reports=reports,
            directory=str(self._play.directory),
            what=self._play.what,
            plan=self._play.plan,
            ports=self._ports,
            draws=self._play.draws,
        )

    def _assign_to(self, member: int) -> Callable[[int], Assignment]:
        def assign(reports: int) -> Assignment:
            return replace(self._assign(reports), draws=False, member=member)

        return assign

    def _judge(self, recount: Counter[Cell], seconds: float) -> Verdict:
        found = json.loads(self._play.directory.joinpath(TABLE_FILE).read_text())
        return Verdict(
            recount=recount,
            table={(window, key): count for window, key, count in found["counts"]},
            appended=found["appended"],
            outages=tuple(self._outages),
            late=self._late,
            seconds=seconds,
        )

    # What the roles report.

    def _hear_of(self, member: int) -> Callable[[Message], None]:
        return lambda report: self._on_member(member, report)

    def _on_member(self, member: int, report: Message) -> None:
        actor = self._members[member]
        self._on_any(actor, report)
        if report["event"] == "leading":
            what = report["what"]
            self._leaders[what] = member
            self.record.lead(self._now(), what, member + 1)
            self._mark(f"{actor.name} leads {what} now, as two of three have elected it")

    def _on_sensor(self, report: Message) -> None:
        self._on_any(self._sensor, report)
        if report["event"] in {"appending", "appended"}:
            self._progressed = time.monotonic()
            self.record.append(self._now(), report["lines"])

    def _on_viewer(self, report: Message) -> None:
        self._on_any(self._viewer, report)
        if report["event"] == "progress":
            self._shown = report["lines"]
        elif report["event"] == "table":
            self._is_told.set()

    def _on_driver(self, report: Message) -> None:
        self._on_any(self._driver, report)
        match report["event"]:
            case "counting":
                victim = self._kills.on_counting(report["batch"], self._processed)
                if victim is not None:
                    self._kill(victim, report["batch"])
            case "batch":
                self._on_batch(report)
            case "idle" if self._shown >= self._total:
                # It was killed after it had counted all, and before Spark told of the last batch.
                self._processed = self._total
        if self._processed >= self._total:
            self._finish()

    def _on_batch(self, report: Message) -> None:
        self._progressed = time.monotonic()
        if self._kills.on_batch(report["batch"]):
            self._recover()
        self._processed = max(self._processed, report["lines"])
        self._late += report["late"]
        self.record.process(self._now(), self._processed)

    def _recover(self) -> None:
        (victim, at), now = self._killed, self._now()
        self._outages.append(Outage(victim, now - at))
        self.record.mark(now, f"+{now - at:.1f} s", is_kill=False)

    def _finish(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._viewer.order("finish", stands=True)

    def _kill(self, victim: Victim, batch: int) -> None:
        actor = {
            Victim.LOG_LEADER: self._members[self._leaders[LOG_NAME]],
            Victim.DRIVER: self._driver,
            Victim.STORE_LEADER: self._members[self._leaders[COUNTS]],
        }[victim]
        actor.kill()
        at = self._now()
        self._killed = victim, at
        self.record.mark(at, f"{victim} killed", is_kill=True)
        killing = {"event": "killing", "at": round(at, 3), "victim": victim, "batch": batch}
        self._tell({"role": actor.name, **killing})
        self._mark(f"SIGKILL for the {victim} ({actor.name}), in the middle of batch {batch}")

    def _on_any(self, actor: Actor, report: Message) -> None:
        self._tell({"role": actor.name, "at": round(self._now(), 3), **report})
        match report:
            case {"event": "started", "pid": pid}:
                again = "" if actor.lives == 1 else ", again"
                self._mark(f"{actor.name} is started{again}: process {pid}")
            case {"event": "died", "code": code, "reason": reason}:
                self._mark(f"{actor.name} failed with code {code} ({reason}): see {actor.log}")
            case {"event": "died", "code": code}:
                self._mark(f"{actor.name} was killed by signal {-code}")
            case {"event": "failing", "reason": reason}:
                self._mark(f"the query failed, and is started again: {reason}")
            case {"event": "failed", "reason": reason}:
                raise DemoError(f"the {actor.name} gave up: {reason}")
            case _:
                pass

    def _mark(self, text: str) -> None:
        self._viewer.order("mark", text=f"{self._now():5.1f} s  {text}")

    def _now(self) -> float:
        return time.monotonic() - self._began
