"""What is done to a small mesh, round by round, and what has to hold afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from peermesh.testing.disks import FailingSync, disturb, fill_disk, open_small_disk
from peermesh.testing.faults import Delay, Direction, Loss, Partition
from peermesh.testing.namespaces import Network, open_network
from peermesh.testing.real.fleet import Fleet, Violation, Worker, open_fleet, patience

BURST: Final = 40
"""Puts in a round that are acknowledged before, or while, something happens: some dozens, so that
it strikes at a different moment each time."""

LONG_PROBABILITY: Final = 0.05
"""How often a one-way partition lasts until a peer is given up: it takes the time-out of silence,
15 seconds, and there is much to see in short ones."""

DISK_SIZE: Final = 4 * 1024 * 1024
"""Of the disk that gets full: room for a log of SQLite, and soon no more."""

BIG_SIZE: Final = 20_000
"""Bytes of a value that fills a disk."""


@dataclass(slots=True)
class Tally:
    """What a scenario has seen so far."""

    rounds: int = 0
    acknowledged: int = 0
    unsure: int = 0
    """Puts of which nobody knew; they were there or not, and neither is wrong."""
    refused: int = 0
    """Puts that were refused with a clear error, as they had to be."""

    def count(self, fleet: Fleet) -> None:
        """Take in the record of a fleet after a round."""
        self.rounds += 1
        self.acknowledged = len(fleet.record.acknowledged)
        self.unsure = len(fleet.record.unsure)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a scenario."""

    rounds: int
    chance: Random
    directory: Path
    """Empty, for the files of masters."""
    tally: Tally
    notice: Callable[[Tally], None]
    """Called after each round."""

    def done(self, fleet: Fleet) -> None:
        """End a round."""
        self.tally.count(fleet)
        self.notice(self.tally)


async def kill(run: Run) -> None:
    """Kill masters and clones with SIGKILL while all of them write, and start them again."""
    async with open_fleet(run.directory / "store.db") as fleet:
        for _ in range(run.rounds):
            fleet.write()
            await fleet.acknowledged(run.chance.randint(1, BURST))
            # Now and then two at once, the master among them or not.
            victims = run.chance.sample("abc", run.chance.choice([1, 1, 2]))
            for victim in victims:
                await fleet.kill(victim)
            for victim in victims:
                await fleet.start(victim)
            await fleet.acknowledged(run.chance.randint(1, BURST))
            await fleet.check()
            run.done(fleet)


async def pause(run: Run) -> None:
    """Stop one with SIGSTOP until its peers give it up; clones go on, and it comes back."""
    async with open_fleet(run.directory / "store.db") as fleet:
        for _ in range(run.rounds):
            fleet.write()
            await fleet.acknowledged(BURST)
            victim, other = run.chance.sample("abc", 2)
            stopped, watcher = fleet.workers[victim], fleet.workers[other]
            past = len(watcher.statuses)
            await stopped.program.pause()
            if victim != "a":
                await fleet.acknowledged(BURST, at=other)
            with patience(f"{other} does not notice that {victim} is silent"):
                await watcher.until(partial(_has_lost, watcher, stopped, past))
            if victim != "a":
                await fleet.acknowledged(BURST, at=other)
            await stopped.program.resume()
            await fleet.acknowledged(1, at=victim)
            await fleet.check()
            run.done(fleet)


def _has_lost(worker: Worker, other: Worker, past: int) -> bool:
    """Say whether a worker has given up a peer, since so many events."""
    lost = {("peer_lost", other.endpoint_id), ("peer_removed", other.endpoint_id)}
    return not lost.isdisjoint(worker.statuses[past:])


async def sync(run: Run) -> None:
    """Have fsync fail under a master: it acknowledges nothing more, and has lost nothing."""
    async with open_fleet(run.directory / "store.db") as fleet:
        for _ in range(run.rounds):
            fleet.write()
            await fleet.acknowledged(run.chance.randint(1, BURST))
            await fleet.rest()
            async with disturb(fleet.workers["a"].program.pid, FailingSync()):
                await _refuse(run, fleet, advice="start the replica anew")
            await _start_anew(run, fleet)


async def disk(run: Run) -> None:
    """Fill the disk under a master: it acknowledges nothing more, and has lost nothing."""
    with open_small_disk(DISK_SIZE) as directory:
        async with open_fleet(directory / "store.db") as fleet:
            for _ in range(run.rounds):
                fleet.write()
                await fleet.acknowledged(run.chance.randint(1, BURST))
                await fleet.rest()
                ballast = fill_disk(directory)
                await _refuse(run, fleet, advice="the disk is full")
                ballast.unlink()
                await _start_anew(run, fleet)


async def _refuse(run: Run, fleet: Fleet, *, advice: str) -> None:
    """Put until it is refused, and a little longer: a store that has failed stays so."""
    error: str | None = None
    with patience("puts are acknowledged though the disk fails"):
        while error is None:
            error = await fleet.put("a", size=BIG_SIZE)
    if error is None or advice not in error:
        raise Violation(f"the error does not say what to do ({advice!r}): {error}")
    run.tally.refused += 1
    for _ in range(3):
        if await fleet.put("a") is None:
            raise Violation("a store whose disk has failed acknowledges again")
        run.tally.refused += 1


async def _start_anew(run: Run, fleet: Fleet) -> None:
    await fleet.kill("a")
    await fleet.start("a")
    fleet.write()
    await fleet.acknowledged(1)
    await fleet.check()
    run.done(fleet)


async def network(run: Run) -> None:
    """Lose packets between hosts, cut one way between two of them, and heal."""
    async with open_network("abc", seed=run.chance.randrange(1 << 32)) as net:
        hosts = {name: net.host(name).address for name in "abc"}
        wraps = {
            name: lambda command, name=name: net.host(name).command(*command) for name in "abc"
        }
        async with open_fleet(run.directory / "store.db", hosts=hosts, wraps=wraps) as fleet:
            for _ in range(run.rounds):
                await _disturb_network(run, net, fleet)
                run.done(fleet)


async def _disturb_network(run: Run, net: Network, fleet: Fleet) -> None:
    for here, there in ("ab", "bc", "ca"):
        await net.link(here, there).apply(Loss(run.chance.uniform(0, 0.1)))
        await net.link(here, there).apply(Delay(0.003, jitter=0.002))
    fleet.write()
    await fleet.acknowledged(BURST)
    here, there = run.chance.sample("abc", 2)
    deaf, mute = fleet.workers[there], fleet.workers[here]
    past = len(deaf.statuses)
    await net.link(here, there).apply(Partition(), direction=Direction.FORTH)
    # Those at the master go on, whoever does not hear whom.
    await fleet.acknowledged(BURST, at="a")
    if run.chance.random() < LONG_PROBABILITY:
        with patience(f"{there} does not notice that it hears nothing of {here}"):
            await deaf.until(partial(_has_lost, deaf, mute, past))
    await net.heal()
    await fleet.acknowledged(BURST)
    await fleet.check()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of fault, and its loop."""

    run: Callable[[Run], Awaitable[None]]
    """Raises ``Violation``, and ``Unsupported`` where the machine cannot."""
    rounds_few: int
    """Rounds that show the thing, in the seconds that a test has."""

    @property
    def text(self) -> str:
        """What is done, and what has to hold."""
        return (self.run.__doc__ or "").strip()


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "kill": Scenario(kill, 3),
    "pause": Scenario(pause, 1),
    "sync": Scenario(sync, 2),
    "disk": Scenario(disk, 2),
    "network": Scenario(network, 2),
}
"""By their names on the command line."""
