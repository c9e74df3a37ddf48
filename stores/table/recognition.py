"""Knows what was asked here when it comes back in the journal, by its bytes: it is not read twice.

A plain put or erasure is what the leader makes of it. To read it again takes a replica longer than
all else that it does with it, and its keys and values would be in memory twice meanwhile. Pure.
"""

from __future__ import annotations

from typing import Final

from stores.actions import WRITER_ID_SIZE, ClearCommand, EraseCommand, PutCommand
from stores.limits import UNRESOLVED_SIZE_MAX
from stores.table.bodies import Body, Performed, Write

EXPECTED_MAX: Final = 256
"""Bodies that are waited for: as many parcels as an outbox has under way. What never comes, as its
leader was lost, makes room for others, and goes at the next of its writer that does come."""

EXPECTED_SIZE_MAX: Final = UNRESOLVED_SIZE_MAX
"""Their bytes: as many as an outbox has without an answer."""

PREFIX_SIZE: Final = 64
"""Bytes by which bodies are looked up: the writer and the number of its request are among them."""

_LIFE_START: Final = WRITER_ID_SIZE - 8
"""Where the number of a writer's life begins in its id."""


class Recognition:
    """What one replica has asked for, and expects in its journal."""

    def __init__(self) -> None:
        """Expect nothing."""
        self._expected: dict[bytes, Performed] | None = None
        """``None`` where no entry has come, as to a proxy, which has no journal."""
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of all that is expected."""
        return self._size

    def is_possible(self, write: Write) -> bool:
        """Tell whether a body of just what is asked may come.

        Spans of time become instants, and what depends on the table becomes what it came to.
        """
        if self._expected is None or not write.requests:
            return False
        for request in write.requests:
            if isinstance(request, PutCommand):
                if request.expiry_ns is not None or request.request is None:
                    return False
            elif not isinstance(request, (EraseCommand, ClearCommand)):
                return False
        return True

    def expect(self, body: Performed, encoded: bytes) -> None:
        """Expect a body, as these bytes, where it is possible."""
        expected = self._expected
        assert expected is not None, body
        if (prefix := encoded[:PREFIX_SIZE]) in expected:
            self._drop(prefix)
        expected[prefix] = body
        self._size += len(encoded)
        while len(expected) > EXPECTED_MAX or self._size > EXPECTED_SIZE_MAX:
            self._drop(next(iter(expected)))

    def find(self, encoded: bytes) -> Performed | None:
        """Give the body with these bytes if it is expected, or ``None``: then read it."""
        if self._expected is None:
            self._expected = {}
        found = self._expected.get(prefix := encoded[:PREFIX_SIZE])
        if found is None or found.encoded != encoded:
            return None
        if next(iter(self._expected)) == prefix:
            self._drop(prefix)  # The first of them, as a rule: what stands behind it comes later.
        else:
            self.came(found)
        return found

    def came(self, body: Body) -> None:
        """Expect no more what its writer asked for up to this one: it came, or never will.

        Nor what an earlier life of it asked for. What is expected is all of one writer, that of
        the handle here: so for an entry of another one the first is looked at alone.
        """
        if not self._expected or not isinstance(body, Performed):
            return
        writer, last = body.asked
        over = list[bytes]()
        for prefix, each in self._expected.items():
            known, request = each.asked
            if known[:_LIFE_START] != writer[:_LIFE_START] or (known == writer and request > last):
                break
            over.append(prefix)
        for prefix in over:
            self._drop(prefix)

    def _drop(self, prefix: bytes) -> None:
        assert self._expected is not None, prefix
        body = self._expected.pop(prefix, None)
        if body is not None and body.encoded is not None:
            self._size -= len(body.encoded)
