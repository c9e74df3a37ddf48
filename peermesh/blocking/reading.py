"""Reading a store from threads: each read of ``peermesh.Reader`` as one call across the thread."""

from __future__ import annotations

from collections.abc import Iterator

from endpoint.bound import Bound
from endpoint.replicas.stores.reading import Entry, Page, Reader as Core
from peermesh.blocking.living import Passage
from stores.scanning import PAGE_COUNT
from wire.values import Value


class Reader(Bound):
    """Reads of a store, all as of one moment each; see ``peermesh.Reader``."""

    def __init__(self, passage: Passage, core: Core) -> None:
        """Use ``Store.not_before`` or ``Store.at_master``."""
        self._passage = passage
        self._reader = core

    def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing."""
        return self._passage.call(self._reader.get, key, default)

    def get_index_from_value(self, key: Value, index: Value) -> Value:
        """Look into the value of a key, as Broker does: what is there depends on its type.

        An element of a vector by its position, whether a set holds the index, a table's value
        of that key; of any other type the value itself. Raises ``NoSuchKey`` if the key, the
        position or the table's key is missing, ``TypeClash`` if the position is no number.
        """
        return self._passage.call(self._reader.get_index_from_value, key, index)

    def entry(self, key: Value) -> Entry | None:
        """Give the value of a key with its revision and expiry; ``None`` if it is missing."""
        return self._passage.call(self._reader.entry, key)

    def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        return self._passage.call(self._reader.exists, key)

    def keys(self) -> list[Value]:
        """Give all keys, in no order."""
        return self._passage.call(self._reader.keys)

    def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, as of one moment, in no order."""
        return self._passage.call(self._reader.items)

    def scan(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
        after: bytes | None = None,
    ) -> Page:
        """Give a page of entries in the order of keys; see ``peermesh.Store.scan``."""

        async def scan() -> Page:
            return await self._reader.scan(start, stop, prefix=prefix, limit=limit, after=after)

        return self._passage.call(scan)

    def entries(
        self, start: Value = None, stop: Value = None, *, prefix: Value = None
    ) -> Iterator[Entry]:
        """Go through all entries of a scan, page after page."""
        after: bytes | None = None
        while True:
            page = self.scan(start, stop, prefix=prefix, after=after)
            yield from page
            after = page.continuation
            if after is None:
                return
