"""Messages of threads that cannot go yet, each in the lane of its topic. Pure.

The pump hands over what threads published, and never waits. A message that is blocked, since its
topic is held or a next hop is full, is parked; so is what comes after it in the same lane, which
keeps the order. What is let go together leaves in the order in which it came, whatever its lane.
Each lane has room of its own (``is_full``), so that a thread waits for its own topic, and for no
other.

While nothing that was handed over may go, as where one link is full, it waits in whole batches, and
is divided into lanes only when some of it may go and some may not: a lane for each of many topics
costs as much as to publish them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, compress
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

from endpoint.pubsub.journal import distinct
from wire.limits import MIB

PARKED_MAX: Final = 8_192
"""Messages that are parked in one lane before threads that publish there wait: some milliseconds at
full speed."""

PARKED_BYTES_MAX: Final = 8 * MIB
"""Bytes of them, for large messages: as many as the same number of small ones may have."""

PARKED_TOTAL_MAX: Final = 64 * MIB
"""What all lanes are charged together before all that are parked count as full. Only topics that
are blocked anyway wait for it; eight lanes may have all the room there is for one."""

MESSAGE_CHARGE: Final = 128
"""Bytes that a parked message counts as in the total besides its own: what Python needs for it."""

Way = TypeVar("Way", bound=Hashable)


class Parcel(NamedTuple, Generic[Way]):
    """What was parked together: of one way, at one time."""

    way: Way
    since: float
    numbers: Sequence[int]
    """When each came, among all that came."""
    payloads: Sequence[bytes]
    size: int
    """Bytes of all payloads."""


class Batch(NamedTuple, Generic[Way]):
    """What was handed over together, and all of it has to wait."""

    since: float
    ways: Sequence[Way]
    payloads: Sequence[bytes]
    size: int
    """Bytes of all payloads."""


class _Lane(Generic[Way]):
    """What is parked for one topic and receiver."""

    __slots__ = ("count", "parcels", "size")

    def __init__(self) -> None:
        self.parcels: deque[Parcel[Way]] = deque()
        self.count = self.size = 0

    def take(self, count: int) -> None:
        """Let the first messages of the first parcel go."""
        way, since, numbers, payloads, size = self.parcels.popleft()
        left = payloads[count:]
        size_left = sum(map(len, left))
        self.count -= count
        self.size -= size - size_left
        if left:
            self.parcels.appendleft(Parcel(way, since, numbers[count:], left, size_left))

    @property
    def charge(self) -> int:
        return self.size + self.count * MESSAGE_CHARGE


class Parking(Generic[Way]):
    """What is parked: in whole batches, or in lanes."""

    __slots__ = (
        "_batches", "_charge", "_count", "_lane_of", "_lanes", "_next", "_size", "_together",
        "_ways", "bytes_max", "parked", "room", "total_max",
    )  # fmt: skip

    def __init__(
        self,
        lane_of: Callable[[Way], Hashable],
        room: int = PARKED_MAX,
        bytes_max: int = PARKED_BYTES_MAX,
        total_max: int = PARKED_TOTAL_MAX,
    ) -> None:
        """Keep the order among ways of one lane; have room for so much in each lane, and in all.

        What waits in batches has the room of one lane: all of it waits for the same, most likely.
        """
        self._lane_of = lane_of
        self._batches: deque[Batch[Way]] = deque()
        self._together: set[Hashable] = set()
        """The lanes of what is in batches; no lane has anything while there are any."""
        self._ways: dict[Way, None] = {}
        """The ways of what is in batches."""
        self._count = self._size = 0
        """Messages, and bytes, in batches."""
        self._lanes: dict[Hashable, _Lane[Way]] = {}
        self._charge = self._next = 0
        self.parked = 0
        """Messages that were parked so far."""
        self.room, self.bytes_max, self.total_max = room, bytes_max, total_max

    def pass_by(
        self,
        ways: Sequence[Way],
        payloads: Sequence[bytes],
        is_blocked: Callable[[Way], bool],
        now: float,
    ) -> tuple[Sequence[Way], Sequence[bytes]]:
        """Park what cannot go, and give the rest in its order. Asks once for each way."""
        lane_of, lanes, together = self._lane_of, self._lanes, self._together
        lanes_of = {way: lane_of(way) for way in distinct(ways)}
        blocked = {
            lane
            for way, lane in lanes_of.items()
            if lane in lanes or lane in together or is_blocked(way)
        }
        if not blocked:
            return ways, payloads
        stays = {way: lane for way, lane in lanes_of.items() if lane in blocked}
        goes = [way not in stays for way in ways] if len(stays) < len(lanes_of) else []
        self.parked += len(ways) - sum(goes)
        if len(stays) == len(lanes_of) and not lanes:
            self._batches.append(Batch(now, ways, payloads, sum(map(len, payloads))))
            self._together |= blocked
            self._ways |= dict.fromkeys(stays)
            self._count += len(payloads)
            self._size += self._batches[-1].size
            return [], []
        self.divide()
        self._park(stays, ways, payloads, now)
        return list(compress(ways, goes)), list(compress(payloads, goes))

    def _park(
        self,
        stays: Mapping[Way, Hashable],
        ways: Sequence[Way],
        payloads: Sequence[bytes],
        now: float,
    ) -> None:
        """Park what stays, each in its lane."""
        for way, numbers, some in self._runs(stays, ways, payloads):
            lane = self._lanes.setdefault(stays[way], _Lane())
            self._charge -= lane.charge
            lane.parcels.append(Parcel(way, now, numbers, some, sum(map(len, some))))
            lane.count += len(some)
            lane.size += lane.parcels[-1].size
            self._charge += lane.charge
        self._next += len(ways)

    def _runs(
        self, stays: Mapping[Way, Hashable], ways: Sequence[Way], payloads: Sequence[bytes]
    ) -> Iterable[tuple[Way, Sequence[int], Sequence[bytes]]]:
        """Give what stays, each run of one way in its lane, with its numbers."""
        numbers = range(self._next, self._next + len(ways))
        if len(stays) == 1 and ways.count(ways[0]) == len(ways):
            return [(ways[0], numbers, payloads)]
        runs: list[tuple[Way, list[int], list[bytes]]] = []
        latest: dict[Hashable, tuple[Way, list[int], list[bytes]]] = {}
        for number, way, payload in zip(numbers, ways, payloads, strict=True):
            if way in stays:
                run = latest.get(stays[way])
                if run is None or run[0] != way:
                    run = latest[stays[way]] = way, [], []
                    runs.append(run)
                run[1].append(number)
                run[2].append(payload)
        return runs

    def first_batch(self) -> Batch[Way] | None:
        """Look at the batch that came first, if what is parked waits in batches."""
        return self._batches[0] if self._batches else None

    def ways_in_batches(self) -> list[Way]:
        """List the ways that some batch has messages of, or had."""
        return list(self._ways)

    def release_batch(self) -> Batch[Way]:
        """Take the batch that came first."""
        batch = self._batches.popleft()
        self._count -= len(batch.payloads)
        self._size -= batch.size
        if not self._batches:
            self._together.clear()
            self._ways.clear()
        return batch

    def divide(self) -> None:
        """Park all that waits in batches in lanes: some of it may go."""
        while self._batches:
            batch = self.release_batch()
            stays = {way: self._lane_of(way) for way in distinct(batch.ways)}
            self._park(stays, batch.ways, batch.payloads, batch.since)

    def lanes(self) -> list[Hashable]:
        """List the lanes that have something parked, once that is divided."""
        return list(self._lanes)

    def first(self, lane: Hashable) -> Parcel[Way] | None:
        """Look at what was parked first in a lane."""
        found = self._lanes.get(lane)
        return None if found is None else found.parcels[0]

    def release(self, lane: Hashable) -> Parcel[Way]:
        """Take what was parked first in a lane."""
        parcel = self._lanes[lane].parcels[0]
        self._take(lane, len(parcel.payloads))
        return parcel

    def take(
        self, lanes: Iterable[Hashable], count: int, size: int
    ) -> tuple[list[Way], list[bytes]]:
        """Take what came first in these lanes, in the order in which it came.

        At most ``count`` messages of ``size`` bytes, but one in any case; of each lane only what
        ``first`` gives: another way may not go yet.
        """
        heads = {lane: self._lanes[lane].parcels[0] for lane in lanes}
        # What comes behind a lane's first parcel must not be overtaken by what other lanes have.
        behind = [self._lanes[lane].parcels[1].numbers[0] for lane in heads if self._has_two(lane)]
        end = min(behind, default=inf)
        numbers: list[int] = []
        ways: list[Way] = []
        payloads: list[bytes] = []
        for parcel in heads.values():
            some = parcel.numbers[: min(count, bisect_left(parcel.numbers, end))]
            numbers += some
            ways += [parcel.way] * len(some)
            payloads += parcel.payloads[: len(some)]
        if len(heads) > 1:  # Of one lane, they are in order.
            order = sorted(range(len(numbers)), key=numbers.__getitem__)[:count]
            numbers = [numbers[place] for place in order]
            ways = [ways[place] for place in order]
            payloads = [payloads[place] for place in order]
        if sum(parcel.size for parcel in heads.values()) > size:
            taken = max(1, bisect_right(list(accumulate(map(len, payloads))), size))
            del numbers[taken:], ways[taken:], payloads[taken:]
        for lane, parcel in heads.items():
            if gone := bisect_right(parcel.numbers, numbers[-1]):
                self._take(lane, gone)
        return ways, payloads

    def _has_two(self, lane: Hashable) -> bool:
        return len(self._lanes[lane].parcels) > 1

    def _take(self, name: Hashable, count: int) -> None:
        lane = self._lanes[name]
        self._charge -= lane.charge
        lane.take(count)
        self._charge += lane.charge
        if not lane.parcels:
            del self._lanes[name]

    def is_full(self, lane: Hashable) -> bool:
        """Tell whether threads that publish there have to wait."""
        return self._is_over(lane, 1)

    def has_room(self, lane: Hashable) -> bool:
        """Tell whether threads that wait may go on: half empty, so that they do not flutter."""
        return not self._is_over(lane, 2)

    def _is_over(self, lane: Hashable, parts: int) -> bool:
        """Tell whether a lane has reached a limit, or one of so many parts of it."""
        if lane in self._together:
            count, size = self._count, self._size
        elif lane in self._lanes:
            count, size = self._lanes[lane].count, self._lanes[lane].size
        else:
            return False
        return (
            count * parts >= self.room
            or size * parts >= self.bytes_max
            or self._charge * parts >= self.total_max
        )

    def __len__(self) -> int:
        """Count what is parked."""
        return self._count + sum(lane.count for lane in self._lanes.values())

    def __bool__(self) -> bool:
        """Tell whether anything is parked."""
        return bool(self._batches or self._lanes)
