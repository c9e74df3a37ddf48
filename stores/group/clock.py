"""The group's two clocks: time elapsed under a leader, and a stamp that never goes back.

A member's own clocks come in as a moment with each tick. Only a leader's clock runs; followers take
its times from keepalives and entries, so that the next leader goes on where it stood.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SECOND_NS: Final = 1_000_000_000

STEP_NS_MAX: Final = SECOND_NS
"""A wall clock that steps by more is not believed at once."""

JITTER_NS: Final = SECOND_NS // 1_000
"""Two clocks are read one after the other: so small a difference between two looks means nothing.
If it counted, what is dated by both clocks would have another date at every look."""

STANDING_NS: Final = 60 * SECOND_NS
"""For so long a step has to stand before it counts: by then a wrong look at the clock is over."""

TICK_NS_MAX: Final = 2 * SECOND_NS
"""Elapsed time in one tick, at most: after a longer pause a leader is deposed."""


class Moment(NamedTuple):
    """A member's own clocks, in ns."""

    monotonic_ns: int
    wall_ns: int


class Times(NamedTuple):
    """The group's clocks, in ns."""

    elapsed_ns: int = 0
    """Runs only while a leader leads: expiry and sessions are late, never early."""
    stamp_ns: int = 0
    """Wall time: stands in entries."""


NO_TIMES: Final = Times()
"""The clocks of a group that never had a leader."""


class GroupClock:
    """The group's clocks as one member knows them."""

    def __init__(self, times: Times = NO_TIMES) -> None:
        """Stand at the times that the journal or the machine tells."""
        self.times = times
        self._moment: Moment | None = None
        # The first moment sets these.
        self._offset_ns: int
        self._seen_ns: int
        self._seen_since_ns: int

    def hear(self, times: Times) -> None:
        """Take over what a leader says; neither clock goes back."""
        elapsed_ns = max(self.times.elapsed_ns, times.elapsed_ns)
        self.times = Times(elapsed_ns, max(self.times.stamp_ns, times.stamp_ns))

    def stop(self) -> None:
        """Stand still: this member does not lead."""
        self._moment = None

    def run_to(self, moment: Moment) -> Times:
        """Let the clocks of a leader run; the first moment starts them."""
        monotonic_ns, wall_ns = moment
        seen_ns = wall_ns - monotonic_ns
        if self._moment is None:
            # The stamp goes on from what the group knows; a new group believes its first leader.
            stamp_ns = self.times.stamp_ns or wall_ns
            self._offset_ns, self._seen_ns = stamp_ns - monotonic_ns, seen_ns
            self._seen_since_ns, step_ns = monotonic_ns, 0
        else:
            step_ns = min(max(0, monotonic_ns - self._moment.monotonic_ns), TICK_NS_MAX)
        self._moment = moment
        if abs(seen_ns - self._seen_ns) > STEP_NS_MAX:
            self._seen_since_ns = monotonic_ns
        self._seen_ns = seen_ns
        gap_ns = abs(seen_ns - self._offset_ns)
        is_standing = monotonic_ns - self._seen_since_ns >= STANDING_NS
        if gap_ns > JITTER_NS and (gap_ns <= STEP_NS_MAX or is_standing):
            self._offset_ns = seen_ns
        stamp_ns = max(self.times.stamp_ns, monotonic_ns + self._offset_ns)
        self.times = Times(self.times.elapsed_ns + step_ns, stamp_ns)
        return self.times
