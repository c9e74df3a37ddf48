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


WINDOWS_PER_ENDPOINT: Final = 2
"""Sequence windows remembered for each endpoint that may be known: one for each kind of messages.
Those of who left are among them, as what they sent may still be on the way."""


class SequenceWindow:
    """The sequence numbers of one sender that came in, as runs: exact, and small.

    An endpoint sees only those frames of a sender that are routed through it, so that gaps are
    normal and mean nothing.
    """

    __slots__ = ("_ends", "_starts", "end")

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.end = -1
        self._starts: list[int] = []
        self._ends: list[int] = []

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

    def __init__(self, local: EndpointId, endpoints_max: int) -> None:
        """Admit nothing of ``local``: what comes back to its own sender was seen, whoever says."""
        self._local = local
        self._count_max = WINDOWS_PER_ENDPOINT * (endpoints_max + 1)
        self._windows: dict[tuple[EndpointId, bool], SequenceWindow] = {}

    def of(self, header: NodeHeader) -> SequenceWindow:
        """Give the window that messages with this header count in.

        Beyond the limit the one goes that nobody has asked for longest: who made up endpoints could
        otherwise have those of the living forgotten, and repeat what they sent.
        """
        key = (header.sender, header.type is PackedType.COMMAND)
        window = self._windows.pop(key, None)
        if window is None:
            if len(self._windows) >= self._count_max:
                del self._windows[next(iter(self._windows))]
            is_own = header.sender == self._local
            window = SequenceWindow.closed() if is_own else SequenceWindow()
        self._windows[key] = window
        return window
