"""Endpoints, links, places and readers in small: what can happen to the product's own cores.

A world has flows: each is a topic with one publisher, a path of endpoints, and a subscriber with a
mailbox of its own. Its state consists of links, holds, mailboxes, parked messages, and a few
counters; every move copies what it touches. Marks are 1, windows 2 frames, and seconds of the
product are shortened (``scaled``), so that all states can be visited.

Time passes only when everything that can go has gone, in any order: messages, overdue words, and
one read of each reader that reads. A word comes in the second in which it was said, in the next, or
(``losses`` times) never. Credit arrives at once, as does ``withheld``, or it is lost likewise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from handshake.keepalive import KeepAlive
from tests.endpoint.link.product import Product
from wire.limits import KIB

UNIT = 256 * KIB
"""Bytes of a frame on the wire: a whole write, so that ``take`` gives one at a time."""

WINDOW = 2
SLOW, FORCE = 2, 2
LINK_STALL = 2
PARKED, PENDING = 1, 2
Key = tuple[Any, ...]


def _itself(way: int) -> int:
    """Give the lane of a way: each has one of its own."""
    return way


class Bad(Exception):
    """Something that must never happen, in a state that was reached."""


def scaled(seconds: float) -> int:
    """Shorten a time of the product; the order of such times stays."""
    return round(seconds / 5)


@dataclass(frozen=True)
class Scenario:
    """What is different from a world in which all read and nothing is lost."""

    paths: tuple[tuple[int, ...], ...]
    messages: tuple[int, ...]
    readers: tuple[str, ...] = ()
    """``live`` reads each second, ``slow`` every other second at most, ``dead`` never."""
    never: tuple[int, ...] = ()
    """Flows whose subscriber has ``stall_seconds=None``."""
    no_hold: tuple[int, ...] = ()
    """Endpoints without ``may_hold``."""
    force: tuple[int, ...] = ()
    """Endpoints that wait for ``FORCE`` seconds at most."""
    later: tuple[int, ...] = ()
    """Flows that start when a link is withheld."""
    lossless: tuple[int, ...] = ()
    """Flows that must not lose anything."""
    may_stop: int | None = None
    """An endpoint whose process may stop, at any time."""
    reserve: int = 1
    losses: int = 0
    has_threads: bool = False
    at_once: bool = False
    """Whether words arrive at once. The reserve is enough then, and no link is ever withheld."""
    reader_kinds: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Have all read, unless it is said."""
        object.__setattr__(self, "reader_kinds", self.readers or ("live",) * len(self.paths))


class PlaceRef:
    """A place, as a key that does not change when the world is copied."""

    def __init__(self, name: Key, hold_seconds_max: float) -> None:
        self.name = name
        self.hold_seconds_max = hold_seconds_max

    def become_lossy(self) -> None:
        raise AssertionError("the world does it")


COUNTERS = ("sent", "taken", "gone", "waited", "reads")


class World:
    """One state, thawed as far as it is touched."""

    def __init__(self, plan: Plan, state: Key) -> None:
        self.plan = plan
        self.parts = list(state)
        self.thawed: dict[int, Any] = {}

    # State.

    def part(self, index: int) -> Any:
        """Give a core to be used: it counts as touched."""
        if index not in self.thawed:
            self.thawed[index] = self.plan.thaw(index, self.parts[index])
        return self.thawed[index]

    def link(self, at: int, to: int) -> Any:
        return self.part(self.plan.link_index[at, to])

    def holds(self, at: int) -> Any:
        return self.part(self.plan.holds_index[at])

    def box(self, flow: int) -> Any:
        return self.part(self.plan.box_index[flow])

    def parking(self, at: int) -> Any:
        return self.part(self.plan.parking_index[at])

    def place(self, name: Key) -> Any:
        return self.box(name[1]) if name[0] == "box" else self.link(name[1], name[2]).data

    def __getattr__(self, name: str) -> Any:
        return self.parts[self.plan.extra_index[name]]

    def set(self, name: str, value: Any) -> None:
        self.parts[self.plan.extra_index[name]] = value

    def count(self, name: str, flow: int, value: int) -> None:
        before = getattr(self, name)
        self.set(name, (*before[:flow], value, *before[flow + 1 :]))

    def copy(self) -> World:
        assert not self.thawed
        return World(self.plan, tuple(self.parts))

    def key(self) -> Key:
        """Freeze what was touched."""
        for index, core in self.thawed.items():
            self.parts[index] = self.plan.freeze(index, core)
        self.thawed.clear()
        return tuple(self.parts)

    # Messages.

    def has_stopped(self, at: int) -> bool:
        return at == self.stopped

    def lose(self, flow: int, count: int = 1) -> None:
        if count:
            self.count("gone", flow, self.gone[flow] + count)
            if flow in self.plan.scenario.lossless:
                raise Bad(f"flow {flow} lost a message")

    def waits(self, flow: int) -> str:
        """Say what messages of a flow wait for: nothing, a hold, or their next hop."""
        source, hop = self.plan.scenario.paths[flow][:2]
        if self.link(source, hop).is_full:
            return "hop"
        verdict = self.holds(source).verdict(self.plan.header(flow), self.waited[flow])
        return {"GO": "", "FORCED": "forced"}.get(verdict.name, "hold")

    def send(self, flow: int, *, forced: bool) -> None:
        source, hop = self.plan.scenario.paths[flow][:2]
        number = self.sent[flow]
        self.count("sent", flow, number + 1)
        self.count("waited", flow, 0)
        self.enqueue(source, hop, (flow, number, forced))

    def enqueue(self, at: int, to: int, message: Key) -> None:
        if (at, to) in self.removed:
            self.lose(message[0])
            return
        own = self.plan.scenario.paths[message[0]][0] == at
        frame = self.plan.product.Outgoing([bytes(message)], UNIT, 1, 1, own)
        data = self.link(at, to).data
        before, size = [bytes(each.pieces[0]) for each in data.frames], data.transit
        self.link(at, to).put(frame, forced=message[2])
        after = [bytes(each.pieces[0]) for each in data.frames]
        for gone in [each for each in [*before, bytes(message)] if each not in after]:
            self.lose(gone[0])
        if message[2] and not own and data.transit > max(size, 1):
            raise Bad(f"a FORCED message takes the reserve of the link from {at} to {to}")
        if not own:
            self._look_at(("out", at, to), data.transit)

    def _look_at(self, place: Key, size: int) -> None:
        scenario = self.plan.scenario
        if size > 1 + scenario.reserve + WINDOW * len(self.plan.feeds[place]):
            raise Bad(f"{place} has no bound")
        self.plan.fullest = max(self.plan.fullest, size)

    def move(self, at: int, to: int) -> None:
        """Take one frame from a link, and have the other end take it in."""
        link = self.link(at, to)
        slots, link._slots = link._slots, {}
        (piece,) = link.take()
        link._slots = slots
        flow, number, forced = piece
        if self.has_stopped(to):
            self.lose(flow)
            return
        place = ("out", at, to)
        if place in self.plan.feeds:
            self._settle(place)
        back = self.link(to, at)
        back.admit(UNIT)
        path = self.plan.scenario.paths[flow]
        if path[-1] == to:
            self._deliver(flow, number, forced=bool(forced), back=back)
        else:
            self._pass_on(at, to, (flow, number, bool(forced)), back)
        self._grant(to, at)

    def _deliver(self, flow: int, number: int, *, forced: bool, back: Any) -> None:
        box, place = self.box(flow), ("box", flow)
        before = box.waiting
        message = [bytes((flow, number))]
        is_over = box.put((f"/{flow}",), b"\1", b"", message, 1, forced)
        self.lose(flow, before + 1 - box.waiting)
        if forced and box.waiting > max(before, 1):
            raise Bad(f"a FORCED message takes the reserve of mailbox {flow}")
        self._look_at(place, box.waiting)
        if is_over:
            self._tell(place, flow)
            if box.is_withholding:
                self._withhold(back, place)

    def _pass_on(self, at: int, to: int, message: Key, back: Any) -> None:
        path = self.plan.scenario.paths[message[0]]
        hop = path[path.index(to) + 1]
        self.enqueue(to, hop, message)
        data = self.link(to, hop).data
        if data.is_crowded:
            self._tell(("out", to, hop), message[0])
        if data.is_exhausted:
            self._withhold(back, ("out", to, hop))

    def _withhold(self, back: Any, place: Key) -> None:
        if back.withhold(self.plan.refs[place]):
            self._hear_withheld(back)

    def _hear_withheld(self, back: Any) -> None:
        at, to = self.plan.ends(self, back)
        if not self.has_stopped(to) and (to, at) not in self.removed:
            self.link(to, at).hear_withheld()

    def _grant(self, at: int, to: int) -> None:
        """Grant what is due; credit arrives at once."""
        total = self.link(at, to).due()
        if total is not None and (to, at) not in self.removed:
            self.link(to, at).grant(total)

    # Places.

    def _tell(self, place: Key, flow: int) -> None:
        at, paths = self.plan.at[place], self.plan.scenario.paths
        header = self.plan.header(flow)
        word = self.holds(at).over(self.plan.number[place], paths[flow][0], (header,))
        if word is not None:
            self._say(at, word)

    def _say(self, at: int, word: Any) -> None:
        """Put a word into the slot of the link that leads to its receiver."""
        if self.plan.scenario.at_once:
            self.holds(word.sender).hear(at, word)
            return
        key = ("hold", word.sender, at, word.place)
        hop = self.plan.back[at, word.sender]
        self.link(at, hop).say(key, word)
        self.set("aged", self.aged - {(at, hop, key)})

    def _settle(self, place: Key) -> None:
        """Free senders and links of a place that has changed."""
        at, core = self.plan.at[place], self.place(place)
        if self.has_stopped(at):
            return
        if place[0] == "box":
            core.release()
            holds_on, withholds = core.is_holding, core.is_withholding
        else:
            holds_on, withholds = not core.is_passable, core.is_exhausted
        if not holds_on:
            for word in self.holds(at).free(self.plan.number[place]):
                self._say(at, word)
        if not withholds:
            for feeder in self.plan.feeds[place]:
                self.link(at, feeder).restore(self.plan.refs[place])
                self._grant(at, feeder)

    # Words and readers.

    def words(self) -> Iterator[tuple[int, int, Key]]:
        for (at, to), index in self.plan.link_index.items():
            slots = self.thawed[index]._slots if index in self.thawed else None
            keys = self.parts[index][1] if slots is None else slots.items()
            for key, _ in keys:
                yield at, to, key

    def hear(self, at: int, to: int, key: Key, *, is_lost: bool) -> None:
        """Have a word arrive at its receiver; relays between pass it on at once."""
        word = self.link(at, to)._slots.pop(key)
        self.set("aged", self.aged - {(at, to, key)})
        path = next(p for p in self.plan.scenario.paths if p[0] == word.sender and key[2] in p)
        if is_lost:
            self.set("losses", self.losses - 1)
        elif self.stopped not in path[: path.index(key[2]) + 1]:
            self.holds(word.sender).hear(key[2], word)

    def read(self, flow: int) -> None:
        ready: list[Any] = []
        box = self.box(flow)
        box.take(ready)
        kind = self.plan.scenario.reader_kinds[flow]
        for _, data in ready:
            if isinstance(data, bytes):
                number = data[1]
                if number < self.taken[flow]:
                    raise Bad(f"flow {flow}: twice, or out of order")
                if number > self.taken[flow] and not self.gone[flow]:
                    raise Bad(f"flow {flow}: a gap that was not counted")
                self.count("taken", flow, number + 1)
        self.count("reads", flow, 0 if kind == "slow" else 1)
        self._settle(("box", flow))

    # Time.

    def tick(self) -> list[World]:
        """Let a second pass; one world for each choice of words that are lost in it."""
        self._check_waits()
        self.set("aged", frozenset(self.words()))
        self._tick_holds()
        self._tick_boxes()
        self._tick_flows()
        self.key()
        choices = [self]
        for at, to in self.plan.link_index:
            choices = [after for each in choices for after in each.tick_link(at, to)]
        return choices

    def _check_waits(self) -> None:
        """Nothing more can go: so whatever waits does so for its own topic or next hop."""
        scenario = self.plan.scenario
        for flow, path in enumerate(scenario.paths):
            wants = flow in self.pending or self.total(flow) < scenario.messages[flow]
            may_publish = not self.has_stopped(path[0]) and not self.is_later(flow)
            if wants and may_publish and not self.waits(flow):
                raise Bad(f"flow {flow} waits for another one")
        self.thawed.clear()  # Only looked at.

    def total(self, flow: int) -> int:
        """Count what was published, whether or not it has left its thread."""
        source = self.plan.scenario.paths[flow][0]
        batches, lanes = self.parts[self.plan.parking_index[source]]
        parked = batches.count(flow) + dict(lanes).get(flow, 0)
        return self.sent[flow] + parked + self.pending.count(flow)

    def is_later(self, flow: int) -> bool:
        """Tell whether a flow has not begun, and has no reason to."""
        if flow not in self.plan.scenario.later or self.total(flow) or any(self.gone):
            return False
        return not any(self.parts[self.plan.link_index[end]][6] for end in self.plan.link_index)

    def _tick_holds(self) -> None:
        for at in self.plan.holds_index:
            if not self.has_stopped(at):
                self.holds(at).age(1.0)
                for word in list(self.holds(at).words()):
                    key = ("hold", word.sender, at, word.place)
                    hop = self.plan.back[at, word.sender]
                    if key not in self.link(at, hop)._slots:
                        self._say(at, word)

    def _tick_boxes(self) -> None:
        for flow, path in enumerate(self.plan.scenario.paths):
            if self.has_stopped(path[-1]):
                continue
            box = self.box(flow)
            before = box.waiting
            box.check(1.0, 0)
            self.lose(flow, before - box.waiting)
            self._settle(("box", flow))

    def _tick_flows(self) -> None:
        scenario = self.plan.scenario
        for flow, path in enumerate(scenario.paths):
            is_slow = scenario.reader_kinds[flow] == "slow"
            self.count("reads", flow, min(self.reads[flow] + 1, SLOW) if is_slow else 0)
            if path[0] in scenario.force:
                holders = self.holds(path[0]).holders(self.plan.header(flow))
                waited = min(self.waited[flow] + 1, FORCE) if holders else 0
                self.count("waited", flow, waited)

    def tick_link(self, at: int, to: int) -> Iterator[World]:
        """Tick one link; ``withheld`` may be lost, which gives a second world."""
        if self.has_stopped(at) or (at, to) in self.removed:
            yield self
            return
        link, product = self.link(at, to), self.plan.product
        says_withheld = False
        done = link.sent * UNIT
        for seen in link.tick(1.0, heard=1, written=done, acknowledged=done):
            match type(seen).__name__:
                case "SayWithheld":
                    says_withheld = True
                case "HeldTooLong":
                    for ref in seen.places:
                        self._give_way(ref.name)
                case "PeerStalled":
                    self._remove(at, to)
                case "PingDue" | "PeerSlow" | "PeerMoving":
                    pass
                case other:
                    raise Bad(f"the link from {at} to {to}: {other}, {product}")
        self.key()
        if says_withheld and not self.has_stopped(to):
            if self.losses:
                lost = self.copy()
                lost.set("losses", self.losses - 1)
                yield lost
            self._hear_withheld(self.link(at, to))
            self.key()
        yield self

    def _give_way(self, place: Key) -> None:
        core = self.place(place)
        if place[0] == "box":
            before = core.waiting
            core.become_lossy()
            self.lose(place[1], before - core.waiting)
        else:
            before = [bytes(each.pieces[0]) for each in core.frames]
            core.become_lossy()
            after = [bytes(each.pieces[0]) for each in core.frames]
            for gone in [each for each in before if each not in after]:
                self.lose(gone[0])
        self._settle(place)

    def _remove(self, at: int, to: int) -> None:
        if not self.has_stopped(to):
            raise Bad(f"the link from {at} to {to}: a peer that lives was removed")
        self.set("removed", self.removed | {(at, to)})
        data = self.link(at, to).data
        for frame in list(data.frames):
            self.lose(frame.pieces[0][0])
        self.link(at, to).discard()
        if ("out", at, to) in self.plan.feeds:
            self._settle(("out", at, to))


class Plan:
    """What a scenario makes of the product, and how its cores are copied."""

    def __init__(self, product: Product, scenario: Scenario) -> None:
        self.product = product
        self.scenario = scenario
        self.fullest = 0
        usual, queue = product.LinkLimits(), product.Queueing()
        mark = product.Mark(1, 1)
        lease = 3  # Of the word ``withheld``: the same in the product.
        self.limits = product.LinkLimits(
            own=mark,
            transit=mark,
            reserve=scenario.reserve,
            window=WINDOW * UNIT,
            hold_seconds_max=scaled(usual.hold_seconds_max),
            stall_seconds=LINK_STALL,
            stand_seconds_max=scaled(usual.stand_seconds_max - lease) + lease,
        )
        charge = 1 + product.MESSAGE_CHARGE
        self.queueings = [
            product.Queueing(
                queue_size=1,
                queue_bytes=1,
                stall_seconds=None if flow in scenario.never else scaled(queue.stall_seconds),
                reserve=scenario.reserve * charge,
                hold_seconds_max=scaled(queue.hold_seconds_max),
            )
            for flow in range(len(scenario.paths))
        ]
        paths = scenario.paths
        pairs = sorted({pair for path in paths for pair in pairwise(path)})
        ends = list(dict.fromkeys([*pairs, *((b, a) for a, b in pairs)]))
        endpoints = sorted({at for path in paths for at in path})
        # Places: what feeds them, where they are, and the numbers that words have for them.
        self.feeds: dict[Key, dict[int, None]] = {}
        self.at: dict[Key, int] = {}
        for flow, path in enumerate(paths):
            self.feeds.setdefault(("box", flow), {})[path[-2]] = None
            self.at["box", flow] = path[-1]
            for a, b, c in zip(path, path[1:], path[2:], strict=False):
                self.feeds.setdefault(("out", b, c), {})[a] = None
                self.at["out", b, c] = b
        self.number = {place: number for number, place in enumerate(self.feeds, start=1)}
        self.refs = {
            place: PlaceRef(
                place,
                self.limits.hold_seconds_max
                if place[0] == "out"
                else self.queueings[place[1]].hold_seconds_max,
            )
            for place in self.feeds
        }
        self.back: dict[tuple[int, int], int] = {}
        for path in paths:
            for hop, at in pairwise(path):
                self.back[at, path[0]] = hop
        # The parts of a state.
        names: list[Key] = [("link", *end) for end in ends]
        names += [("holds", at) for at in endpoints]
        names += [("box", flow) for flow in range(len(paths))]
        names += [("parking", at) for at in endpoints]
        self.names = names
        self.link_index = {name[1:]: i for i, name in enumerate(names) if name[0] == "link"}
        self.holds_index = {name[1]: i for i, name in enumerate(names) if name[0] == "holds"}
        self.box_index = {name[1]: i for i, name in enumerate(names) if name[0] == "box"}
        self.parking_index = {name[1]: i for i, name in enumerate(names) if name[0] == "parking"}
        zeros = (0,) * len(paths)
        extras: dict[str, Any] = dict.fromkeys(COUNTERS, zeros)
        extras |= {"pending": (), "aged": frozenset(), "removed": frozenset(), "stopped": -1}
        extras |= {"losses": scenario.losses}
        self.extra_index = {name: len(names) + i for i, name in enumerate(extras)}
        first = [self.freeze(index, self.make(index)) for index in range(len(names))]
        world = World(self, (*first, *extras.values()))
        for end in ends:
            world.link(*end).tick(0.0, heard=0, written=0, acknowledged=0)
        self.start = world.key()

    def header(self, flow: int) -> bytes:
        return bytes((flow,))

    def ends(self, world: World, link: Any) -> tuple[int, int]:
        index = next(i for i, core in world.thawed.items() if core is link)
        name = self.names[index]
        return name[1], name[2]

    # Copying.

    def make(self, index: int) -> Any:
        name, product, scenario = self.names[index], self.product, self.scenario
        match name[0]:
            case "link":
                link = product.Link(limits=self.limits, may_hold=name[1] not in scenario.no_hold)
                link.credit = link.granted = WINDOW * UNIT
                link.due_at = link._next_due()
                return link
            case "holds":
                paths = scenario.paths
                return product.Holds(
                    lambda holder, header: holder in paths[header[0]][1:],
                    lambda holder: holder not in scenario.no_hold,
                    FORCE if name[1] in scenario.force else None,
                )
            case "box":
                may_hold = scenario.paths[name[1]][-1] not in scenario.no_hold
                return product.Mailbox(self.queueings[name[1]], may_hold=may_hold)
            case _:
                return product.Parking(_itself, PARKED)

    def freeze(self, index: int, core: Any) -> Key:
        return getattr(self, f"_freeze_{self.names[index][0]}")(core)

    def thaw(self, index: int, state: Key) -> Any:
        core = self.make(index)
        getattr(self, f"_thaw_{self.names[index][0]}")(core, state)
        return core

    def _freeze_link(self, link: Any) -> Key:
        link.check()
        data, monitor = link.data, link._monitor
        watch = None
        if monitor is not None:
            last = monitor._last
            watch = (
                monitor._still,
                monitor._stood,
                min(monitor._withheld_age, 4.0),
                last.taken != link.sent,
                last.credit != link.credit,
            )
        return (
            tuple((bytes(each.pieces[0]), each.own) for each in data.frames),
            tuple(sorted(link._slots.items(), key=lambda item: item[0])),
            (data.is_lossy, data.is_yielding),
            link.credit - link.sent,
            link.granted - link.received,
            link.due_at - link.received,
            tuple(sorted(place.name for place in link._holders)),
            min(link._held_seconds, 20.0),
            watch,
        )

    def _thaw_link(self, link: Any, state: Key) -> None:
        frames, slots, flags, credit, granted, due_at, holders, held, watch = state
        data = link.data
        for piece, own in frames:
            data.frames.append(self.product.Outgoing([piece], UNIT, 1, 1, own))
        data.own = sum(own for _, own in frames)
        data.transit = len(frames) - data.own
        data.is_lossy, data.is_yielding = flags
        link._slots = dict(slots)
        link.credit, link.granted, link.due_at = credit, granted, due_at
        link._holders = {self.refs[name]: None for name in holders}
        link._held_seconds = held
        if watch is None:
            return
        still, stood, age, has_taken, has_credit = watch
        last = self.product.Progress(
            heard=0,
            written=0,
            acknowledged=0,
            taken=-1 if has_taken else 0,
            credit=credit - has_credit,
            waiting=0,
            waits=False,
            is_starved=False,
            is_writing=False,
        )
        monitor = link._monitor = self.product.PeerMonitor(
            0.0, last, self.limits.stall_seconds, self.limits.stand_seconds_max
        )
        monitor._keep_alive = KeepAlive(now=0.0)
        monitor._still, monitor._stood, monitor._withheld_age = still, stood, age
        monitor._moved = -UNIT if has_taken else 0

    def _freeze_holds(self, holds: Any) -> Key:
        told = tuple(
            sorted(
                (key, None if each is None else tuple(each)) for key, each in holds._told.items()
            )
        )
        held = sorted(
            (key, hold.word.headers, hold.word.is_all, hold.word.sender, min(hold.age, 5.0))
            for key, hold in holds._held.items()
        )
        return told, tuple(held)

    def _thaw_holds(self, holds: Any, state: Key) -> None:
        told, held = state
        holds._labels = dict.fromkeys(self.number.values(), "")
        holds._told = {key: None if each is None else dict.fromkeys(each) for key, each in told}
        for key, headers, is_all, sender, age in held:
            word = self.product.HoldWord(sender, key[1], "", headers, is_all)
            hold = holds._held[key] = self.product._Hold(word)
            hold.age = age
            holds._held_size += len(headers)

    def _freeze_box(self, box: Any) -> Key:
        monitor = box._monitor
        return (
            tuple((each[0] - box._position, each[4][0]) for each in box._parcels),
            box._put - box._position,
            (box.is_holding, box.is_withholding, box.is_lossy, box._is_lossy_told),
            box._is_dropping,
            monitor._last is None or monitor._last.mark != box._taken,
            min(monitor.silent_seconds, 9.0),
        )

    def _thaw_box(self, box: Any, state: Key) -> None:
        parcels, put, flags, is_dropping, has_moved, silent = state
        for first, payload in parcels:
            box._parcels.append((first, (f"/{payload[0]}",), b"\1", b"", (payload,), 1))
        box._put = box._put_bytes = put
        box._dropped = box._dropped_bytes = put - len(parcels)
        box.is_holding, box.is_withholding, box.is_lossy, box._is_lossy_told = flags
        box._is_dropping = is_dropping
        box._monitor._last = self.product.Look(0.0, -1 if has_moved else 0, 0)
        box._monitor.silent_seconds = silent

    def _freeze_parking(self, parking: Any) -> Key:
        batches = tuple(way for batch in parking._batches for way in batch.ways)
        return batches, tuple(sorted((way, lane.count) for way, lane in parking._lanes.items()))

    def _thaw_parking(self, parking: Any, state: Key) -> None:
        batches, lanes = state
        for way in (*batches, *(way for way, count in lanes for _ in range(count))):
            parking.pass_by([way], [b""], lambda _: True, 0)
        if lanes:
            parking.divide()
