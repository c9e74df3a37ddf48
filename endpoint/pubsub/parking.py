"""Messages of threads that cannot go yet, each in the lane of its topic. Pure.

The pump hands over what threads published, and never waits. A message that is blocked, since its
topic is held or a next hop is full, is parked; so is what comes after it in the same lane, which
keeps the order. Each lane has room of its own (``is_full``), so that a thread waits for its own
topic, and for no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

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
    payloads: list[bytes]


class _Lane(Generic[Way]):
    """What is parked for one topic and receiver."""

    __slots__ = ("count", "parcels", "size")

    def __init__(self) -> None:
        self.parcels: deque[Parcel[Way]] = deque()
        self.count = self.size = 0

    def add(self, parcel: Parcel[Way]) -> None:
        self.parcels.append(parcel)
        self.count += len(parcel.payloads)
        self.size += sum(map(len, parcel.payloads))

    @property
    def charge(self) -> int:
        return self.size + self.count * MESSAGE_CHARGE


class Parking(Generic[Way]):
    """What is parked in each lane."""

    __slots__ = ("_charge", "_lane_of", "_lanes", "bytes_max", "room", "total_max")

    def __init__(
        self,
        lane_of: Callable[[Way], Hashable],
        room: int = PARKED_MAX,
        bytes_max: int = PARKED_BYTES_MAX,
        total_max: int = PARKED_TOTAL_MAX,
    ) -> None:
        """Keep the order among ways of one lane; have room for so much in each lane, and in all."""
        self._lane_of = lane_of
        self._lanes: dict[Hashable, _Lane[Way]] = {}
        self._charge = 0
        self.room, self.bytes_max, self.total_max = room, bytes_max, total_max

    def pass_by(
        self,
        ways: Sequence[Way],
        payloads: Sequence[bytes],
        is_blocked: Callable[[Way], bool],
        now: float,
    ) -> tuple[Sequence[Way], Sequence[bytes]]:
        """Park what cannot go, and give the rest in its order. Asks once for each way."""
        lane_of, lanes = self._lane_of, self._lanes
        distinct = {way: lane_of(way) for way in dict.fromkeys(ways)}
        blocked = dict.fromkeys(
            [lane for way, lane in distinct.items() if lane in lanes or is_blocked(way)]
        )
        if not blocked:
            return ways, payloads
        for lane in blocked:
            self._charge -= lanes.setdefault(lane, _Lane()).charge
        stays = {way: lanes[lane] for way, lane in distinct.items() if lane in blocked}
        gathered: dict[Way, list[bytes]] = {way: [] for way in stays}
        runs: Iterable[tuple[Way, list[bytes]]] = gathered.items()
        if len(stays) == len(blocked):
            for way, payload in zip(ways, payloads, strict=True):
                if way in gathered:
                    gathered[way].append(payload)
        else:  # Several ways share a lane, and have to keep the order among them.
            runs = _runs(ways, payloads)
        for way, some in runs:
            if way in stays:
                stays[way].add(Parcel(way, now, some))
        self._charge += sum(lanes[lane].charge for lane in blocked)
        goes = [way not in stays for way in ways]
        return list(compress(ways, goes)), list(compress(payloads, goes))

    def lanes(self) -> list[Hashable]:
        """List what has something parked; what was released last comes last."""
        return list(self._lanes)

    def first(self, lane: Hashable) -> Parcel[Way] | None:
        """Look at what was parked first in a lane."""
        found = self._lanes.get(lane)
        return None if found is None else found.parcels[0]

    def release(self, lane: Hashable) -> Parcel[Way]:
        """Take what was parked first in a lane."""
        found = self._lanes.pop(lane)
        parcel = found.parcels.popleft()
        self._charge -= found.charge
        found.count -= len(parcel.payloads)
        found.size -= sum(map(len, parcel.payloads))
        self._charge += found.charge
        if found.parcels:
            self._lanes[lane] = found
        return parcel

    def is_full(self, lane: Hashable) -> bool:
        """Tell whether threads that publish there have to wait."""
        return self._is_over(lane, 1)

    def has_room(self, lane: Hashable) -> bool:
        """Tell whether threads that wait may go on: half empty, so that they do not flutter."""
        return not self._is_over(lane, 2)

    def _is_over(self, lane: Hashable, parts: int) -> bool:
        """Tell whether a lane has reached a limit, or one of so many parts of it."""
        found = self._lanes.get(lane)
        return found is not None and (
            found.count * parts >= self.room
            or found.size * parts >= self.bytes_max
            or self._charge * parts >= self.total_max
        )

    def __len__(self) -> int:
        """Count what is parked."""
        return sum(lane.count for lane in self._lanes.values())

    def __bool__(self) -> bool:
        """Tell whether anything is parked."""
        return bool(self._lanes)


def _runs(ways: Sequence[Way], payloads: Sequence[bytes]) -> Iterator[tuple[Way, list[bytes]]]:
    """Gather what goes the same way without another between."""
    for way, run in groupby(zip(ways, payloads, strict=True), itemgetter(0)):
        yield way, [payload for _, payload in run]
