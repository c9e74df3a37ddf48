"""Stretches of the key order, and the pages that they are read in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from stores.index import KeyIndex
from stores.order import order_of, prefix_range
from stores.table.rows import Rows
from stores.work import SLICE_COUNT
from wire.errors import InvalidData

if TYPE_CHECKING:
    from stores.table import Entry

PAGE_COUNT_MAX: Final = SLICE_COUNT
"""Entries in a page: one step's work, so that no other caller waits for longer."""

PAGE_COUNT: Final = 1_000
"""Entries in a page unless the caller wants another number: what a page costs of its own is lost
among them."""


LATEST: Final = 0
# As the revision of a first page: the one of now, which is kept for the pages after it.


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the key order, as places (``stores.order``)."""

    start: bytes = b""
    stop: bytes | None = None
    """The first place that does not belong to it; ``None`` if it goes on to the end."""

    @property
    def is_everything(self) -> bool:
        """True if every key belongs to it."""
        return not self.start and self.stop is None

    def __contains__(self, key: bytes) -> bool:
        """Tell whether an encoded key belongs to it."""
        if self.is_everything:
            return True
        place = order_of(key)
        return self.start <= place and (self.stop is None or place < self.stop)

    def after(self, continuation: bytes) -> Span:
        """Give what is left after a page; raises ``InvalidData`` if it is not of this span."""
        is_beyond = self.stop is not None and continuation > self.stop
        if continuation < self.start or is_beyond:
            raise InvalidData("the continuation belongs to another scan: keep start, stop, prefix")
        return Span(continuation, self.stop)


EVERYTHING: Final = Span()


def make_span(
    start: bytes | None = None, stop: bytes | None = None, prefix: bytes | None = None
) -> Span:
    """Make a span of encoded values; what is ``None`` bounds nothing."""
    first = b"" if start is None else order_of(start)
    end = None if stop is None else order_of(stop)
    if prefix is not None:
        prefix_first, prefix_end = prefix_range(prefix)
        first = max(first, prefix_first)
        end = prefix_end if end is None else min(end, prefix_end)
    return Span(first, end)


@dataclass(frozen=True, slots=True)
class Page:
    """Neighbours in the key order, all as of one revision."""

    rows: Rows
    revision: int
    continuation: bytes | None
    """Where the next page starts; ``None`` if this is the last one."""

    @property
    def entries(self) -> list[tuple[bytes, Entry]]:
        """The keys with what is stored there, for readers that are in no hurry."""
        return self.rows.entries()


class Entries(Protocol):
    """Whose entries are read: a clone, or what a master shows."""

    def rows(self, keys: Iterable[bytes]) -> Rows:
        """Give the entries of those keys that are there, in the order of the keys."""


def scan(  # noqa: PLR0913 - two of them can be left out
    index: KeyIndex,
    entries: Entries,
    revision: int,
    span: Span,
    limit: int,
    hidden: Iterable[bytes] = (),
    step: int = 1,
) -> Page:
    """Give the first entries of a span, all that there are as of the revision.

    ``hidden`` are keys that readers still see, though the index no longer has them. With a ``step``
    it is only every so many-th of the keys in the index, which cut the span into equal parts.
    """
    if not 1 <= limit <= PAGE_COUNT_MAX:
        raise InvalidData(f"a page of {limit} entries: 1 to {PAGE_COUNT_MAX} are possible")
    parts, count = list[Rows](), 0
    for keys in _candidates(index, span, () if step > 1 else hidden, limit + 1, step):
        parts.append(entries.rows(keys))
        count += len(parts[-1])
        if count > limit:
            break
    found = Rows.joined(parts)
    more = order_of(found.keys[limit]) if count > limit else None
    return Page(found.first(limit), revision, more)


def _candidates(
    index: KeyIndex, span: Span, hidden: Iterable[bytes], count: int, step: int
) -> Iterator[Iterable[bytes]]:
    """Give keys in their order, in parts of about ``count``."""
    others = {order_of(key): key for key in hidden if key in span}
    if not others:
        yield from (keys for _, keys in index.parts(span.start, span.stop, count, step))
        return
    waiting, at = sorted(others), 0
    for places, found in index.parts(span.start, span.stop, count):
        end = bisect_right(waiting, places[-1], at)
        keys = dict(zip(places, found, strict=True))
        keys.update((place, others[place]) for place in waiting[at:end])
        yield [keys[place] for place in sorted(keys)]
        at = end
    yield [others[place] for place in waiting[at:]]
