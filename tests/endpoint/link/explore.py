"""``python -m tests.endpoint.link.explore``: all that can happen to flow control, in every order.

Each scenario is a small mesh, and all of its states are visited. Looked at in each state: order, at
most once, credit, charges, bounds of places, no loss where none is allowed, no peer removed that
lives. Looked at in the whole graph: no message with a reader that reads may wait for ever.

    python -m tests.endpoint.link.explore             all scenarios and changes, in ten minutes
    python -m tests.endpoint.link.explore relay ring  those with such a word in their names
    python -m tests.endpoint.link.explore --quick     what the suite runs

A *change* is a safeguard that is switched off in the product's source; its scenario has to notice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from tests.endpoint.link.product import Product, load
from tests.endpoint.link.world import PENDING, SLOW, Bad, Key, Plan, Scenario, World
from tests.safeguards.table_link import LINK
from wire.errors import RemoteProtocolError


class Result(NamedTuple):
    """What an exploration has found."""

    states: int
    fullest: int
    wrong: str | None
    """What must never happen, and did; ``None`` if nothing did."""


def moves(world: World) -> Iterator[tuple[bool, World]]:
    """Give all that can happen next, and whether time may pass before."""
    yield from _publish(world)
    yield from _travel(world)
    yield from _read(world)
    yield from _hear(world)
    scenario = world.plan.scenario
    if scenario.may_stop is not None and world.stopped < 0:
        after = world.copy()
        after.set("stopped", scenario.may_stop)
        yield False, after


def _publish(world: World) -> Iterator[tuple[bool, World]]:
    scenario = world.plan.scenario
    for flow, path in enumerate(scenario.paths):
        if world.has_stopped(path[0]) or world.is_later(flow):
            continue
        looking = world.copy()
        waits, total = looking.waits(flow), looking.total(flow)
        if scenario.has_threads:
            yield from _publish_from_thread(world, flow, waits in ("hop", "hold"), total)
        elif total < scenario.messages[flow] and waits in ("", "forced"):
            after = world.copy()
            after.send(flow, forced=waits == "forced")
            yield True, after


def _publish_from_thread(
    world: World, flow: int, is_blocked: bool, total: int
) -> Iterator[tuple[bool, World]]:
    """A thread puts in, the pump takes out or parks, and releases what is parked."""
    scenario = world.plan.scenario
    source = scenario.paths[flow][0]
    may_put = len(world.pending) < PENDING and not world.copy().parking(source).is_full(flow)
    if total < scenario.messages[flow] and may_put:
        after = world.copy()
        after.set("pending", (*world.pending, flow))
        yield True, after
    after = world.copy()
    if not is_blocked and _release(after.parking(source), flow):
        after.send(flow, forced=False)
        yield True, after
    if world.pending[:1] == (flow,):
        after = world.copy()
        after.set("pending", world.pending[1:])
        passed, _ = after.parking(source).pass_by([flow], [b""], lambda way: is_blocked, 0)
        if passed:
            after.send(flow, forced=False)
        yield True, after


def _release(parking: Any, flow: int) -> bool:
    """Release the first message of a flow as the pump does: its batch, or out of its lane."""
    batch = parking.first_batch()
    if batch is not None and list(batch.ways) == [flow]:
        parking.release_batch()
        return True
    if flow in parking.ways_in_batches():
        parking.divide()
    is_there = flow in parking.lanes()
    if is_there:
        parking.release(flow)
    return is_there


def _travel(world: World) -> Iterator[tuple[bool, World]]:
    for (at, to), index in world.plan.link_index.items():
        frames, _, _, credit, *_ = world.parts[index]
        if frames and credit > 0 and not world.has_stopped(at):
            after = world.copy()
            after.move(at, to)
            yield True, after


def _read(world: World) -> Iterator[tuple[bool, World]]:
    scenario = world.plan.scenario
    for flow, kind in enumerate(scenario.reader_kinds):
        has_some = world.parts[world.plan.box_index[flow]][0]
        if kind == "dead" or not has_some or world.has_stopped(scenario.paths[flow][-1]):
            continue
        if kind == "slow" and world.reads[flow] < SLOW:
            continue
        after = world.copy()
        after.read(flow)
        yield kind == "slow" or not world.reads[flow], after


def _hear(world: World) -> Iterator[tuple[bool, World]]:
    for at, to, key in world.words():
        is_overdue = (at, to, key) in world.aged
        if world.has_stopped(at):
            continue
        after = world.copy()
        after.hear(at, to, key, is_lost=False)
        yield is_overdue, after
        if world.losses:
            after = world.copy()
            after.hear(at, to, key, is_lost=True)
            yield False, after


def check(world: World) -> None:
    """Look at what is true in every state; raises ``Bad``."""
    scenario = world.plan.scenario
    for (at, to), index in world.plan.link_index.items():
        frames, _, _, credit, *_ = world.parts[index]
        back = world.parts[world.plan.link_index[to, at]]
        if credit < 0:
            raise Bad(f"the link from {at} to {to}: more was sent than there was credit for")
        is_whole = (at, to) not in world.removed and not {at, to} & {world.stopped}
        if is_whole and back[4] != credit:
            raise Bad(f"the link from {at} to {to}: its ends count credit differently")
        if scenario.at_once and back[6]:
            raise Bad(f"the link from {at} to {to} is withheld, which other topics wait for")
        if any(world.plan.at[place] in scenario.no_hold for place in back[6]):
            raise Bad(f"the link from {at} to {to} is withheld without the right to hold")
    for flow, path in enumerate(scenario.paths):
        if world.stopped in path:
            continue
        waiting = len(world.parts[world.plan.box_index[flow]][0])
        for end in pairwise(path):
            frames = world.parts[world.plan.link_index[end]][0]
            waiting += sum(piece[0] == flow for piece, _ in frames)
        known = waiting + world.gone[flow]
        if scenario.reader_kinds[flow] == "dead" and world.sent[flow] != known:
            raise Bad(f"flow {flow}: {world.sent[flow]} were sent, {known} are known")


def is_done(world: World) -> bool:
    """Tell whether all that has a reader that reads has arrived."""
    scenario = world.plan.scenario
    for flow, path in enumerate(scenario.paths):
        is_dead = scenario.reader_kinds[flow] == "dead"
        if (is_dead and flow in scenario.never) or world.stopped in path:
            continue
        if world.sent[flow] < scenario.messages[flow]:
            return False
        on_the_way = world.parts[world.plan.box_index[flow]][0] or any(
            piece[0] == flow
            for index in world.plan.link_index.values()
            for piece, _ in world.parts[index][0]
        )
        if not is_dead and on_the_way:
            return False
    return True


def explore(product: Product, scenario: Scenario, most: int = 1_000_000) -> Result:
    """Visit all states; stop at the first thing that is wrong, or after so many states."""
    plan = Plan(product, scenario)
    index: dict[Key, int] = {}
    states: list[Key] = []
    cores: dict[Any, Any] = {}

    def number(state: Key) -> int:
        # Equal parts of states are one object: that saves most of the memory.
        state = tuple(cores.setdefault(part, part) for part in state)
        found = index.setdefault(state, len(states))
        if found == len(states):
            states.append(state)
        return found

    number(plan.start)
    edges: list[tuple[int, ...]] = []
    try:
        while len(edges) < len(states):
            if len(edges) >= most:
                return Result(len(edges), plan.fullest, "too many states")
            world = World(plan, states[len(edges)])
            check(world)
            done, is_urgent, after = is_done(world), False, []
            for urgent, each in moves(world):
                is_urgent |= urgent
                after.append(number(each.key()))
            if not is_urgent:
                after += [number(each.key()) for each in world.copy().tick()]
            edges.append(() if done else tuple(after))
    except (Bad, AssertionError, RemoteProtocolError) as error:
        return Result(len(edges), plan.fullest, f"{type(error).__name__}: {error}")
    left = _endless(edges)
    wrong = f"{left} states from which something may wait for ever" if left else None
    return Result(len(edges), plan.fullest, wrong)


def _endless(edges: list[tuple[int, ...]]) -> int:
    """Cut away what surely ends; count what stays: circles of unfinished states, and ways there."""
    into: list[list[int]] = [[] for _ in edges]
    counts = [len(after) for after in edges]
    for state, after in enumerate(edges):
        for each in after:
            into[each].append(state)
    ready = [state for state, count in enumerate(counts) if not count]
    left = len(edges)
    while ready:
        left -= 1
        for before in into[ready.pop()]:
            counts[before] -= 1
            if not counts[before]:
                ready.append(before)
    return left


LINE = ((0, 1, 2, 3), (0, 1))
RING = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
STAR = ((0, 2, 3), (1, 2, 4))
SHORT = ((0, 1, 2), (0, 1))
"""Through one relay, and another topic to the relay."""
SHARED = ((0, 1, 2), (0, 1, 2))
"""Two subscribers behind the same relay: both topics pass the same place."""
TWO = ((0, 1), (0, 1))
"""Two subscribers at one endpoint, by one link."""
APART = ((0, 1), (0, 2))
"""One publisher, two next hops."""
DEAD, SLOWLY = ("dead", "live"), ("slow", "live")

SCENARIOS: dict[str, Scenario] = {
    "line, all read": Scenario(LINE, (2, 2), lossless=(0, 1)),
    "line, slow reader, a word lost": Scenario(LINE, (4, 1), SLOWLY, losses=1, lossless=(0, 1)),
    "line, slow reader, no reserve": Scenario(LINE, (2, 1), SLOWLY, reserve=0, lossless=(0, 1)),
    "line, dead reader": Scenario(LINE, (5, 1), DEAD, lossless=(1,)),
    "line, dead reader, stall None, no reserve": Scenario(
        LINE, (6, 1), DEAD, reserve=0, never=(0,), lossless=(1,)
    ),
    "relay, a slow reader slows its own topic": Scenario(
        SHARED, (5, 2), SLOWLY, reserve=3, at_once=True, lossless=(0, 1)
    ),
    "relay, two topics pass one place": Scenario(
        SHARED, (4, 4), ("slow", "slow"), reserve=4, at_once=True, lossless=(0, 1)
    ),
    "two subscribers, a dead reader stops its own topic": Scenario(
        TWO, (6, 2), DEAD, reserve=2, never=(0,), at_once=True, lossless=(0, 1)
    ),
    "a relay publishes, too": Scenario(
        ((0, 1, 2), (1, 2)), (4, 2), reserve=1, at_once=True, lossless=(0, 1)
    ),
    "ring, one dead, words at once": Scenario(
        RING,
        (6, 2, 2),
        ("dead", "live", "live"),
        reserve=3,
        never=(0,),
        at_once=True,
        lossless=(0, 1, 2),
    ),
    "relay, slow reader, words lost": Scenario(
        SHORT, (5, 2), SLOWLY, reserve=0, losses=2, lossless=(0, 1)
    ),
    "relay, dead reader, words lost": Scenario(
        SHORT, (6, 2), DEAD, reserve=0, losses=2, lossless=(1,)
    ),
    "relay, dead reader, stall None, words lost": Scenario(
        SHORT, (6, 2), DEAD, reserve=0, never=(0,), losses=2, lossless=(1,)
    ),
    "relay, one of two subscribers dead, stall None": Scenario(
        SHARED, (6, 1), DEAD, reserve=0, never=(0,), lossless=(1,)
    ),
    "one slow reader, a word lost": Scenario(((0, 1),), (3,), ("slow",), losses=1, lossless=(0,)),
    "two subscribers, one dead, stall None, nothing lost": Scenario(
        TWO, (4, 4), DEAD, reserve=0, never=(0,), lossless=(1,)
    ),
    "two subscribers, one dead, stall None": Scenario(
        TWO, (5, 5), DEAD, reserve=0, never=(0,), losses=2, lossless=(1,)
    ),
    "two subscribers dead one after the other": Scenario(
        TWO, (5, 5), ("dead", "dead"), reserve=0, losses=2, never=(0, 1), later=(1,)
    ),
    "ring, all read": Scenario(RING, (2, 1, 1), lossless=(0, 1, 2)),
    "ring, all read, no reserve": Scenario(RING, (2, 1, 1), reserve=0, lossless=(0, 1, 2)),
    "ring, one dead": Scenario(RING, (2, 1, 1), ("dead", "live", "live"), reserve=0),
    "star, one dead": Scenario(STAR, (4, 1), DEAD, lossless=(1,)),
    "line, relay stops": Scenario(LINE, (3, 1), DEAD, reserve=0, may_stop=2, lossless=(1,)),
    "relay, the slow reader's process stops, a word lost": Scenario(
        SHORT, (4, 1), SLOWLY, reserve=0, may_stop=2, losses=1, lossless=(1,)
    ),
    "forced past a dead reader": Scenario(TWO, (6, 2), DEAD, never=(0,), force=(0,), lossless=(1,)),
    "forced through a relay": Scenario(SHORT, (5, 1), DEAD, never=(0,), force=(0,), lossless=(1,)),
    "without may_hold, slow and quick reader": Scenario(TWO, (5, 5), SLOWLY, no_hold=(1,)),
    "without may_hold, dead reader, behind a relay": Scenario(
        SHORT, (5, 2), DEAD, no_hold=(2,), never=(0,), lossless=(1,)
    ),
    "relay without may_hold, dead reader": Scenario(
        SHORT, (6, 2), DEAD, no_hold=(1,), never=(0,), reserve=0
    ),
    "threads, one way held": Scenario(
        APART, (4, 4), DEAD, never=(0,), has_threads=True, lossless=(1,)
    ),
    "threads, one next hop full": Scenario(
        APART, (6, 3), DEAD, never=(0,), has_threads=True, reserve=0, losses=1, lossless=(1,)
    ),
    "threads, one next hop stops": Scenario(
        APART, (4, 3), has_threads=True, may_stop=1, lossless=(1,)
    ),
}


def report(name: str, product: Product, scenario: Scenario, most: int) -> Result:
    """Explore, and tell."""
    began = time.process_time()
    result = explore(product, scenario, most)
    seconds = time.process_time() - began
    wrong = result.wrong or "ok"
    print(
        f"{name}: {result.states} states, fullest place {result.fullest}, {wrong}, {seconds:.0f} s",
        flush=True,
    )
    return result


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only what has one of these words in its name")
    parser.add_argument("--most", type=int, default=1_000_000, help="states of a scenario")
    parser.add_argument("--quick", action="store_true", help="only what the suite runs")
    options = parser.parse_args()

    def is_chosen(name: str) -> bool:
        return not options.words or any(word in name for word in options.words)

    failed = 0
    product = load()
    for name, scenario in SCENARIOS.items():
        if is_chosen(name) and (name in QUICK or not options.quick):
            failed += report(name, product, scenario, options.most).wrong is not None
    changes = {change.name: change for change in LINK}
    for change, scenario_name in CHANGES:
        name = f"without {change!r}, {scenario_name}"
        if is_chosen(name) and not options.quick:
            world = load(changes[change]), SCENARIOS[scenario_name]
            failed += report(name, *world, options.most).wrong is None
    return 1 if failed else 0


CHANGES = [
    ("holds: a full place says so", "two subscribers, a dead reader stops its own topic"),
    ("holds: a word is the whole state", "relay, two topics pass one place"),
    ("holds: a word has a lease", "one slow reader, a word lost"),
    (
        "link: what held for too long gives way",
        "two subscribers, one dead, stall None, nothing lost",
    ),
    ("outbox: the reserve is for what passes", "a relay publishes, too"),
    (
        "link: a mailbox gives way before an outbox",
        "relay, one of two subscribers dead, stall None",
    ),
    ("link: a hold has one clock", "two subscribers dead one after the other"),
    (
        "link: what is withheld is said every second",
        "two subscribers, one dead, stall None, nothing lost",
    ),
    ("link: withheld excuses a peer", "two subscribers, one dead, stall None, nothing lost"),
    (
        "link: withheld excuses a peer long enough",
        "two subscribers, one dead, stall None, nothing lost",
    ),
    ("mailbox: a forced message enlarges no full queue", "forced past a dead reader"),
    ("outbox: a forced message enlarges no full place", "forced through a relay"),
    ("mailbox: without the right to hold the oldest go", "without may_hold, slow and quick reader"),
    ("outbox: without the right to hold the oldest go", "relay without may_hold, dead reader"),
    ("parking: each way has room of its own", "threads, one way held"),
    ("parking: a way that is blocked holds up no other", "threads, one next hop full"),
]
"""Safeguards, and the scenarios that miss them."""

QUICK = (
    "line, slow reader, no reserve",
    "relay, a slow reader slows its own topic",
    "relay, two topics pass one place",
    "two subscribers, a dead reader stops its own topic",
    "a relay publishes, too",
    "ring, one dead, words at once",
    "one slow reader, a word lost",
    "two subscribers, one dead, stall None, nothing lost",
    "relay, one of two subscribers dead, stall None",
    "star, one dead",
    "forced past a dead reader",
    "without may_hold, slow and quick reader",
    "without may_hold, dead reader, behind a relay",
    "relay without may_hold, dead reader",
)
"""What the suite runs, beside all changes: ten seconds of one core."""

if __name__ == "__main__":
    sys.exit(main())
