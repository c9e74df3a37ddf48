"""Knows what was asked here when it comes back in the journal, by its bytes: it is not read twice.

A plain put or erasure is what the leader makes of it. To read it again takes a replica longer than
all else that it does with it, and its keys and values would be in memory twice meanwhile. Pure.
"""

from __future__ import annotations

from typing import Final

from stores.actions import ClearCommand, EraseCommand, PutCommand
from stores.table.bodies import Performed, Write

EXPECTED_MAX: Final = 256
"""Bodies that are waited for: as many parcels as an outbox has under way. What never comes, as its
leader was lost, makes room for others, and goes at the next that does come."""

PREFIX_SIZE: Final = 64
"""Bytes by which bodies are looked up: the writer and the number of its request are among them."""


class Recognition:
    """What one replica has asked for, and expects in its journal."""

    def __init__(self) -> None:
        """Expect nothing."""
        self._expected: dict[bytes, Performed] | None = None
        """``None`` where no entry has come, as to a proxy, which has no journal."""

    def is_possible(self, write: Write) -> bool:
        """Tell whether a body of just what is asked may come.

        Spans of time become instants, and what depends on the table becomes what it came to.
        """
        if self._expected is None:
            return False
        for request in write.requests:
            if isinstance(request, PutCommand):
                if request.expiry_ns is not None:
                    return False
            elif not isinstance(request, (EraseCommand, ClearCommand)):
                return False
        return True

    def expect(self, body: Performed, encoded: bytes) -> None:
        """Expect a body, as these bytes, where it is possible."""
        assert self._expected is not None, body
        if len(self._expected) >= EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]
        self._expected[encoded[:PREFIX_SIZE]] = body

    def find(self, encoded: bytes) -> Performed | None:
        """Give the body with these bytes if it is expected; what was before it comes no more."""
        if self._expected is None:
            self._expected = {}
        prefix = encoded[:PREFIX_SIZE]
        found = self._expected.get(prefix)
        if found is None or found.encoded != encoded:
            return None
        for known in list(self._expected):
            del self._expected[known]
            if known == prefix:
                break
        return found
