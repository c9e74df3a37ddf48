"""Which frames of a sender were seen already: at most once, whatever path they come by."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType

RUNS_MAX: Final = 1024
"""Runs of consecutive numbers remembered. A sender's frames come in order while its path stands, so
that this covers the reordering of a thousand frames while the mesh finds new paths; what is older
counts as seen, since a late message is a smaller evil than a double one."""


SEQUENCE_MAX: Final = 2**64 - 1
"""The largest number that fits into the front of a frame."""


WINDOWS_MAX: Final = 20_000
"""Sequence windows remembered: both kinds of messages of every endpoint."""


class SequenceWindow:
    """The sequence numbers of one sender that came in, as runs: exact, and small.

    An endpoint sees only those frames of a sender that are routed through it, so that gaps are
    normal and mean nothing.

    A sender that is a direct peer sends each frame by its own link as long as that stands. So what
    comes by it is new, in order; and what others bring in its name from then on is made up.
    """

    __slots__ = ("_ends", "_own_first", "_own_last", "_starts", "end")

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.end = -1
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._own_first: int | None = None
        """The number of the first frame that came by the sender's own link."""
        self._own_last: int | None = None

    @classmethod
    def closed(cls) -> SequenceWindow:
        """Give a window that admits nothing, for what cannot be right."""
        window = cls()
        window.end = SEQUENCE_MAX
        window._starts, window._ends = [0], [SEQUENCE_MAX]
        return window

    def has(self, sequence: int) -> bool:
        """Tell whether ``admit`` would say no, without taking note of anything."""
        if sequence > self.end:
            return False
        run = bisect_right(self._starts, sequence) - 1
        return run >= 0 and sequence <= self._ends[run]

    def admit(self, sequence: int) -> bool:
        """Take note of a frame; false if it was seen before, or is too old to tell."""
        end = self.end
        if sequence == end + 1 and self._ends:
            self._ends[-1] = self.end = sequence
            return True
        if sequence > end:
            self._append(sequence)
            return True
        return self._admit_late(sequence)

    def admit_first_hand(self, sequence: int) -> bool:
        """Take note of a frame by the sender's own link; false if it was repeated there.

        Numbers beyond this one, said by others in the sender's name, are forgotten: enough of them
        would make all that it says itself too old to tell.
        """
        if self._own_last is not None and sequence <= self._own_last:
            return False
        self._own_last = sequence
        if self._own_first is None:
            self._own_first = sequence
        if self.end > sequence:
            self._forget_after(sequence)
        self.admit(sequence)
        return True

    def admit_hearsay(self, sequence: int) -> bool:
        """Take note of a frame by another link than the sender's own, which stands."""
        is_made_up = self._own_first is not None and sequence >= self._own_first
        return not is_made_up and self.admit(sequence)

    def begin_first_hand(self) -> None:
        """A link to the sender stands, from now on."""
        self._own_first = self._own_last = None

    def _forget_after(self, sequence: int) -> None:
        run = bisect_right(self._starts, sequence)
        del self._starts[run:], self._ends[run:]
        if run:
            self._ends[-1] = min(self._ends[-1], sequence)
        self.end = self._ends[-1] if run else -1

    def _append(self, sequence: int) -> None:
        self._starts.append(sequence)
        self._ends.append(sequence)
        self.end = sequence
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        if len(self._starts) > RUNS_MAX:
            # What is forgotten counts as seen, so the oldest runs become one down to 0.
            half = RUNS_MAX // 2
            del self._starts[1 : half + 1]
            del self._ends[:half]
            self._starts[0] = 0

    def _admit_late(self, sequence: int) -> bool:
        run = bisect_right(self._starts, sequence) - 1
        if run >= 0 and sequence <= self._ends[run]:
            return False
        joins_before = run >= 0 and self._ends[run] == sequence - 1
        joins_after = self._starts[run + 1] == sequence + 1
        if joins_before and joins_after:
            self._ends[run] = self._ends[run + 1]
            del self._starts[run + 1], self._ends[run + 1]
        elif joins_before:
            self._ends[run] = sequence
        elif joins_after:
            self._starts[run + 1] = sequence
        else:
            self._starts.insert(run + 1, sequence)
            self._ends.insert(run + 1, sequence)
            self._forget_oldest()
        return True


class SequenceWindows:
    """What was seen of everybody, commands and data apart: commands overtake in the outboxes."""

    def __init__(self, local: EndpointId) -> None:
        """Admit nothing of ``local``: what comes back to its own sender was seen, whoever says."""
        self._local = local
        self._windows: dict[tuple[EndpointId, bool], SequenceWindow] = {}

    def of(self, header: NodeHeader) -> SequenceWindow:
        """Give the window that messages with this header count in."""
        key = (header.sender, header.type is PackedType.COMMAND)
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= WINDOWS_MAX:
                del self._windows[next(iter(self._windows))]
            is_own = header.sender == self._local
            window = SequenceWindow.closed() if is_own else SequenceWindow()
            self._windows[key] = window
        return window

    def begin_first_hand(self, peer: EndpointId) -> None:
        """From now on what is the peer's own comes from the peer itself."""
        for is_command in (False, True):
            window = self._windows.get((peer, is_command))
            if window is not None:
                window.begin_first_hand()
