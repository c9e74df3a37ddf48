"""One stretch of a run: failures among clients, and then every promise is checked."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from peermesh.testing.checkers import linearizable
from peermesh.testing.cluster import open_cluster
from peermesh.testing.history import Ending, History, Operation
from peermesh.testing.swarm.log_ledger import LogLedger
from peermesh.testing.time_limits import limit
from tests.jepsen.clients import Clients
from tests.jepsen.group import EDGES, NODES, Group
from tests.jepsen.logs import Appender, Consumer, check_the_log
from tests.jepsen.nemesis import Nemesis
from tests.jepsen.violation import Violation
from tests.jepsen.watchers import Watcher, compare

CLIENTS = 6
WATCHERS = 2
CONSUMERS = 2
CONFIGURATIONS_MAX = 5_000_000
"""Choices of the checker: half a million were once too few for the calls of one fail-over, and a
stretch that is not judged shows nothing."""


@dataclass
class Found:
    """What a run saw."""

    failures: Counter[str] = field(default_factory=Counter)
    fail_overs: Counter[str] = field(default_factory=Counter)
    """Those after which another one led."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    entries: int = 0
    """Entries of logs that were acknowledged."""

    def add(self, nemesis: Nemesis, history: History, ledger: LogLedger) -> None:
        self.failures += nemesis.done
        self.fail_overs += nemesis.fail_overs
        self.entries += ledger.acknowledged
        for name, seconds in nemesis.seconds.items():
            self.seconds.setdefault(name, []).extend(seconds)
        self.endings += Counter(each.ending.value for each in history.operations())


async def run(failures: int, seed: int, found: Found, world: str = "process") -> None:
    """Do so many failures to one group, and check what its clients saw; raises ``Violation``."""
    with TemporaryDirectory(prefix="jepsen-") as name:
        directory = Path(name)
        async with open_cluster(list(NODES), EDGES, world=world, directory=directory) as cluster:
            group = Group(cluster, directory)
            for node in NODES:
                await group.attach(node)
            clients, ledger = Clients(group, seed), LogLedger()
            appender = Appender(group, ledger, "appender", seed)
            consumers = [
                Consumer(group, ledger, f"consumer {number}", seed + number)
                for number in range(CONSUMERS)
            ]
            nemesis = Nemesis(group, clients, appender, seed)
            watchers = [Watcher(group, seed + number) for number in range(WATCHERS)]
            async with trio.open_nursery() as nursery:
                for number in range(CLIENTS):
                    nursery.start_soon(clients.live, number)
                nursery.start_soon(appender.live)
                for follower in (*watchers, *consumers):
                    nursery.start_soon(follower.live)
                await clients.await_write()
                for _ in range(failures):
                    await nemesis.strike()
                clients.is_ending = appender.is_ending = True
                group.moved.unpark_all()
                while clients.living:
                    await clients.answered.park()
                await appender.has_ended.wait()
                for follower in (*watchers, *consumers):
                    follower.end()
            await _check_the_end(group)
            await check_the_log(group, ledger, consumers)
    compare(watchers)
    found.add(nemesis, clients.history, ledger)
    check(clients.history)


async def _check_the_end(group: Group) -> None:
    """See that all replicas hold the same."""
    for name in NODES:
        outcome = await group.handles[name].await_idle(limit(60))
        if not outcome:
            raise Violation(f"{name} is not idle in the end: {outcome.reason}")
    states = {name: sorted(await group.handles[name].read("local").items()) for name in NODES}
    first = states[NODES[0]]
    for name, state in states.items():
        if state != first:
            raise Violation(f"{name} and {NODES[0]} differ in the end")


def check(history: History) -> None:
    """Raise ``Violation`` if no order of the calls explains all answers."""
    lists = [each for each in history.operations() if each.arguments[0].startswith("list")]
    shown = _without_unseen(history, lists)
    verdict = linearizable(shown, configurations_max=CONFIGURATIONS_MAX)
    if not verdict:
        raise Violation(str(verdict))
    pushed = {each.arguments[1] for each in lists if each.name == "push"}
    for each in lists:
        for values in each.result if each.name == "get" else ():
            if len(set(values)) < len(values) or not pushed.issuperset(values):
                raise Violation(f"a value is there twice, or was never pushed: {each}")


def _without_unseen(history: History, lists: list[Operation]) -> History:
    """Leave out pushes of unknown outcome that no list shows.

    They happened after all that was read, or never. Each order of half a dozen would be tried.
    """
    shown = {
        value for each in lists if each.name == "get" for some in each.result for value in some
    }
    unseen = {
        each.number
        for each in lists
        if each.ending is Ending.UNKNOWN and each.name == "push" and each.arguments[1] not in shown
    }
    return History(each for each in history.events if getattr(each, "number", 0) not in unseen)


def tell(found: Found) -> None:
    """Say what was seen."""
    for name, seconds in sorted(found.seconds.items()):
        seconds.sort()
        p50, p95 = (
            seconds[min(len(seconds) - 1, int(len(seconds) * part))] for part in (0.5, 0.95)
        )
        sys.stdout.write(
            f"{name}: {len(seconds)} times, no write for {p50:.2f} s (median), {p95:.2f} s (p95),"
            f" {seconds[-1]:.2f} s (longest)\n"
        )
    sys.stdout.write(
        f"failures: {_in_words(found.failures)}\n"
        f"of these took the lead away: {_in_words(found.fail_overs)}\n"
        f"calls: {_in_words(found.endings)}\n"
        f"entries of logs: {found.entries:,}\n"
    )


def _in_words(counts: Counter[str]) -> str:
    each = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    return f"{counts.total():,} ({each})"
