"""The data that wait for one peer: what was published here, and what passes through. Pure.

Own data make publishers wait at their mark. Data that pass through are a place, as a mailbox is: at
their mark the senders are told (``is_crowded``), what is under way then goes into a reserve, and
only when that ``is_exhausted`` the links that feed this one are withheld. Each mark counts its own
kind only, so that relaying never waits for publishing.

Invariant: ``own`` and ``transit`` are the sums of the charges that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from endpoint.link.limits import LinkLimits
from wire.public import public

Piece = bytes | memoryview


@public
class OverflowPolicy(StrEnum):
    """What to do with a peer that has taken nothing for the stall time."""

    DISCONNECT = "disconnect"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"


class Outgoing:
    """One encoded frame; the links that it goes to share it."""

    __slots__ = ("charge", "count", "own", "pieces", "size")

    def __init__(
        self,
        pieces: list[Piece],
        size: int,
        count: int,
        charge: int,
        own: bool,  # noqa: FBT001 - made for each frame: an argument by name costs more
    ) -> None:
        """Hold ``size`` bytes of ``count`` messages, which take ``charge`` of a queue's room.

        ``own`` tells what was published here from what passes through. A frame of no messages is a
        control frame that has to stay behind the data before it; it is never dropped.
        """
        self.pieces = pieces
        self.size = size
        self.count = count
        self.charge = charge
        self.own = own


class DataQueue:
    """Frames of data in their order, with two marks and the policies of dropping."""

    __slots__ = (
        "dropped",
        "frames",
        "hold_seconds_max",
        "is_lossy",
        "is_yielding",
        "limits",
        "may_hold",
        "own",
        "policy",
        "transit",
    )

    def __init__(self, policy: OverflowPolicy, limits: LinkLimits, *, may_hold: bool) -> None:
        """Hold nothing yet; without ``may_hold``, what passes through makes no sender wait."""
        self.policy = policy
        self.limits = limits
        self.may_hold = may_hold
        self.hold_seconds_max = limits.hold_seconds_max
        self.frames: deque[Outgoing] = deque()
        self.own = self.transit = 0
        self.dropped = 0
        """Messages dropped since the beginning."""
        self.is_lossy = False
        """Whether the policy for a stalled peer is at work: then nothing waits for room."""
        self.is_yielding = False
        """Whether what passes through is dropped at its mark: it held a link for too long."""

    def put(self, frame: Outgoing, *, forced: bool) -> None:
        """Queue a frame; one that is ``forced`` past a hold never enlarges a full place."""
        self.frames.append(frame)
        if frame.own:
            self.own += frame.charge
        else:
            before, self.transit = self.transit, self.transit + frame.charge
            high = self.limits.transit.high
            if self.is_yielding:
                self._shrink_transit(high)
            elif forced:
                self._shrink_transit(max(before, high))
            elif not self.may_hold:
                self._shrink_transit(high + self.limits.reserve)
        if self.is_lossy:
            self.apply_policy()

    def take(self) -> Outgoing:
        """Take the oldest frame; there has to be one."""
        frame = self.frames.popleft()
        self._forget(frame)
        if self.is_yielding and self.transit < self.limits.transit.low:
            self.is_yielding = False
        return frame

    # Marks.

    @property
    def is_full(self) -> bool:
        """Tell whether publishers have to wait."""
        return self.own >= self.limits.own.high and not self.is_lossy

    @property
    def has_room(self) -> bool:
        """Tell whether publishers that wait may go on."""
        return self.own < self.limits.own.low or self.is_lossy

    @property
    def is_crowded(self) -> bool:
        """Tell whether the senders of what passes through have to be told."""
        return self.transit >= self.limits.transit.high and self._may_hold

    @property
    def is_passable(self) -> bool:
        """Tell whether those senders may go on."""
        return self.transit < self.limits.transit.low or not self._may_hold

    @property
    def is_exhausted(self) -> bool:
        """Tell whether the reserve is used up: the links that feed it have to be withheld."""
        limit = self.limits.transit.high + self.limits.reserve
        return self.transit >= limit and self._may_hold

    @property
    def _may_hold(self) -> bool:
        return self.may_hold and not (self.is_yielding or self.is_lossy)

    # Dropping.

    def become_lossy(self) -> None:
        """Drop the oldest of what passes through, from now until there is room again."""
        self.is_yielding = True
        self._shrink_transit(self.limits.transit.high)

    def apply_policy(self) -> None:
        """Drop data of all kinds by the policy, down to the mark of own data."""
        while self.own + self.transit >= self.limits.own.high and self._drop(self._order()):
            pass

    def _order(self) -> range:
        last = len(self.frames) - 1
        is_oldest = self.policy is OverflowPolicy.DROP_OLDEST
        return range(last) if is_oldest else range(last, 0, -1)

    def _shrink_transit(self, limit: int) -> None:
        while self.transit > limit and self._drop(range(len(self.frames) - 1), only_transit=True):
            pass

    def _drop(self, order: Iterable[int], *, only_transit: bool = False) -> bool:
        """Drop the first frame in this order that may be dropped; false if there is none."""
        for index in order:
            frame = self.frames[index]
            if frame.count and not (only_transit and frame.own):
                del self.frames[index]
                self._forget(frame)
                self.dropped += frame.count
                return True
        return False

    def _forget(self, frame: Outgoing) -> None:
        if frame.own:
            self.own -= frame.charge
        else:
            self.transit -= frame.charge

    def discard(self) -> None:
        """Drop everything, and count it: the peer is gone."""
        self.dropped += sum(frame.count for frame in self.frames)
        self.frames.clear()
        self.own = self.transit = 0

    def check(self) -> None:
        """Assert the invariant; for tests, since it looks at everything that waits."""
        assert self.own == sum(frame.charge for frame in self.frames if frame.own)
        assert self.transit == sum(frame.charge for frame in self.frames if not frame.own)
