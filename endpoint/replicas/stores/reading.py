"""Reading a store: at once, not before a write of one's own, or as fresh as the master itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from typing import Protocol

import trio

from endpoint import arguments
from endpoint.bound import Bound
from endpoint.replicas.attaching import READ_SECONDS
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.part import TablePart
from stores import scanning
from stores.lives import instant_of, session_of
from stores.operations import look_up
from stores.requests import encode_key
from stores.scanning import LATEST, PAGE_COUNT, PAGE_COUNT_MAX, Span, make_span
from stores.table import Entry as Stored
from stores.work import SLICE_COUNT
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData, NoSuchKey, RevisionGone, StaleData, TypeClash
from wire.public import public
from wire.values import Timestamp, Value


@public
@dataclass(frozen=True, slots=True)
class Entry:
    """What is stored under a key."""

    key: Value
    value: Value
    revision: int
    """Which mutation set it: what ``compare_and_set`` and ``Batch.if_revision`` ask for."""
    expires_at: datetime | Timestamp | None
    """When the master removes it, by the master's clock."""
    session: int | None = None
    """The session that it lives with, if it was put in one."""


@public
@dataclass(frozen=True, slots=True)
class Page:
    """Neighbours in the order of keys, all as of one revision."""

    entries: tuple[Entry, ...]
    revision: int
    continuation: bytes | None
    """For ``scan(…, after=…)``, to get the next page; ``None`` if there is none."""

    def __iter__(self) -> Iterator[Entry]:
        """Go through the entries."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.entries)


def decode_entry(key: bytes, stored: Stored, epoch_ns: int = 0) -> Entry:
    """Give an entry in the user's own values; its expiry is counted from ``epoch_ns``."""
    at_ns = instant_of(stored.expires_at_ns, epoch_ns)
    return Entry(
        decode(key),
        decode(stored.value),
        stored.revision,
        None if at_ns is None else Timestamp.of(at_ns),
        session_of(stored.expires_at_ns),
    )


def span_of(start: Value, stop: Value, prefix: Value) -> Span:
    """Make a span of the user's own values; raises ``InvalidData`` for what begins nothing."""
    start_key, stop_key, prefix_key = (
        None if value is None else encode(value) for value in (start, stop, prefix)
    )
    return make_span(start_key, stop_key, prefix_key)


def page_span(start: Value, stop: Value, prefix: Value, after: bytes | None) -> Span:
    """Make the span of a page: what is left of a scan after a ``continuation``."""
    span = span_of(start, stop, prefix)
    if after is None:
        return span
    if not isinstance(after, bytes):
        raise TypeError(f"after={after!r}: give the continuation of a page of the same scan")
    return span.after(after)


class Source(Protocol):
    """Where to read: in the copy that is here, or elsewhere. Keys and values are encoded."""

    @property
    def name(self) -> str:
        """The name of the store."""

    async def entry(self, key: bytes, *, has_value: bool = True) -> Stored | None:
        """Give a value with its revision and expiry; an empty one, unless it ``has_value``."""

    async def keys(self) -> Sequence[bytes]:
        """Give all keys."""

    async def items(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Give all keys, and their values in the same order."""

    async def scan(
        self, span: Span, limit: int, revision: int | None, step: int = 1
    ) -> scanning.Page:
        """Give the first entries of a span in the order of keys, of now or of a kept revision."""


class CopySource:
    """The copy of a master, a clone, or a group's replica."""

    def __init__(self, part: TablePart, freshness: Callable[[], Awaitable[None]]) -> None:
        """Wait for ``freshness`` before each read."""
        self._part = part
        self._freshness = freshness

    @property
    def name(self) -> str:
        """Give the name of the store."""
        return self._part.runner.name

    async def entry(self, key: bytes, *, has_value: bool = True) -> Stored | None:
        """Look it up."""
        await self._freshness()
        stored = self._part.table.entry(key)
        return None if stored is None else stored.dated(self._part.core.epoch_ns)

    async def keys(self) -> Sequence[bytes]:
        """Copy them, as of one moment."""
        await self._freshness()
        return self._part.table.keys()

    async def items(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Copy them, as of one moment."""
        await self._freshness()
        values = self._part.table.snapshot().values
        return list(values), list(values.values())

    async def scan(
        self, span: Span, limit: int, revision: int | None, step: int = 1
    ) -> scanning.Page:
        """Put the keys in order, and read on in them; what is kept is as fresh as it was."""
        if revision:
            self._part.runner.check()
        else:
            await self._freshness()
        await self._part.prepare_scan()
        try:
            page = self._part.table.scan(span, limit, revision, step)
        except RevisionGone as error:
            raise RevisionGone(f"{self._part.what}: {error}") from None
        if page.continuation is not None:  # Other tasks have a turn before the next one.
            await trio.lowlevel.checkpoint()
        return replace(page, rows=page.rows.dated(self._part.core.epoch_ns))


@public
class Reader(Bound):
    """Reads of a store. At a copy each is of one moment; a proxy's is, if it is of one page.

    A ``Store`` itself reads at once. ``Store.not_before`` and ``Store.at_master`` give readers that
    wait for what they promise; all of them have the same methods. A proxy asks the nearest replica
    that is far enough, or the master.
    """

    def __init__(self, source: Source) -> None:
        """Read from ``source``."""
        self._source = source

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing.

        Raises ``StaleData`` if a clone has not found its master, or got as far as it has to, in
        ``READ_SECONDS``; at a proxy if no replica answers in that time, or all that can be reached
        are out of touch; ``InvalidData`` for a key of more than 64 KiB, which no store has; and
        ``StoreClosed``.
        """
        stored = await self._source.entry(encode_key(key))
        return default if stored is None else decode(stored.value)

    async def get_index_from_value(self, key: Value, index: Value) -> Value:
        """Look into the value of a key, as Broker does: what is there depends on its type.

        An element of a vector by its position, whether a set holds the index, a table's value
        of that key; of any other type the value itself. Raises ``NoSuchKey`` if the key, the
        position or the table's key is missing, ``TypeClash`` if the position is no number. To a
        proxy the value travels as a whole.
        """
        stored = await self._source.entry(encode_key(key))
        if stored is None:
            raise NoSuchKey(f"store {self._source.name} has no key {key!r}")
        try:
            return look_up(decode(stored.value), index)
        except (NoSuchKey, TypeClash) as error:
            raise type(error)(f"store {self._source.name}, key {key!r}: {error}") from None

    async def entry(self, key: Value) -> Entry | None:
        """Give the value of a key with its revision and expiry; ``None`` if it is missing."""
        encoded = encode_key(key)
        stored = await self._source.entry(encoded)
        return None if stored is None else decode_entry(encoded, stored)

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there; at a proxy its value stays where it is."""
        return await self._source.entry(encode_key(key), has_value=False) is not None

    async def keys(self) -> list[Value]:
        """Give all keys, in no order; at a proxy page by page, in their order."""
        keys = await self._source.keys()
        return [decode(key) async for _, part in _slices(keys) for key in part]

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, in no order; at a proxy page by page, in their order."""
        keys, values = await self._source.items()
        pairs: list[tuple[Value, Value]] = []
        async for start, part in _slices(keys):
            part_values = values[start : start + len(part)]
            pairs += zip(map(decode, part), map(decode, part_values), strict=True)
        return pairs

    async def scan(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
        after: bytes | None = None,
        revision: int | None = None,
    ) -> Page:
        """Give a page of entries in the order of keys (``stores.order``).

        From ``start`` on, up to ``stop`` and without it; none is the least of all keys, and as a
        ``stop`` it means the end. ``prefix`` is text, bytes or a vector. The ``continuation`` of a
        page, given as ``after`` to the same scan, gets the next one. A key that is there from the
        first page to the last is in exactly one, whatever is written meanwhile. A proxy's page may
        end earlier than ``limit``, as an answer has up to 256 KiB; only a page without a
        ``continuation`` is the last.

        With ``revision=0`` the replica that is read keeps what there is for the pages after this
        one, unless this is the last. Give them its ``revision``: they are as of that, as are scans
        of other spans, and of other readers. Raises ``RevisionGone`` where no replica in reach
        keeps it any more; see ``pages``, which does all this.
        """
        page = await self.scan_encoded(
            start, stop, prefix=prefix, limit=limit, after=after, revision=revision
        )
        return decode_page(page)

    async def scan_encoded(  # noqa: PLR0913 - what a scan takes, and one more
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
        after: bytes | None = None,
        revision: int | None = None,
        step: int = 1,
    ) -> scanning.Page:
        """Give a page as ``scan`` does, and decode nothing: its ``rows`` are columns of bytes.

        With a ``step`` it is only every so many-th entry: their keys cut the store into parts of as
        many entries, which several readers can go through at once, all of one revision.
        """
        span = page_span(start, stop, prefix, after)
        limit = arguments.count("limit", limit, most=PAGE_COUNT_MAX)
        if revision is not None:
            revision = arguments.number("revision", revision)
        return await self._source.scan(span, limit, revision, arguments.count("step", step))

    async def pages(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
    ) -> AsyncIterator[Page]:
        """Go through a scan page by page, all as of one revision, whatever is written meanwhile.

        A page has up to ``limit`` entries, and there is at least one page. Raises ``RevisionGone``
        where the revision was let go: after a pause of a minute, with the replica that was read, or
        for changes of 64 MiB, or for 16 readers that were not idle for as long. Read from the start
        again then.
        """
        page = await self.scan(start, stop, prefix=prefix, limit=limit, revision=LATEST)
        yield page
        while page.continuation is not None:
            after, revision = page.continuation, page.revision
            page = await self.scan(
                start, stop, prefix=prefix, limit=limit, after=after, revision=revision
            )
            yield page

    async def entries(
        self, start: Value = None, stop: Value = None, *, prefix: Value = None
    ) -> AsyncIterator[Entry]:
        """Go through all entries of a scan, page after page; each page is of its own moment."""
        after: bytes | None = None
        while True:
            page = await self.scan(start, stop, prefix=prefix, after=after)
            for entry in page:
                yield entry
            after = page.continuation
            if after is None:
                return


# What reads of a copy wait for.


async def readable(part: TablePart) -> None:
    """Wait for what a read needs: a first snapshot, and at a master one's own writes."""
    runner = part.runner
    if not runner.is_synced and runner.error is None:
        await runner.await_synced(READ_SECONDS)
        if not runner.is_synced:
            raise runner.error or StaleData(
                f"store {runner.name}: no master answered within {READ_SECONDS:g} s; "
                f"{part.core.explain_idle()}"
            )
    runner.check()
    if runner.is_master:
        last = part.core.requests.last_request
        while runner.resolved_request < last and runner.error is None:
            await runner.changed.park()


async def reached(part: TablePart, since: Receipt | int) -> None:
    """Wait for a revision; or for the one of a receipt, whose error is raised."""
    await readable(part)
    runner = part.runner
    revision: int | None = None
    with trio.move_on_after(READ_SECONDS):
        revision = since if isinstance(since, int) else await since.applied()
        await part.await_revision(revision)
        runner.check()
        return
    wanted = "that write" if revision is None else f"revision {revision}"
    why = part.core.explain_idle() or "ask again, or see whether its master is busy"
    raise StaleData(
        f"store {runner.name} has not seen {wanted} in {READ_SECONDS:g} s: it is at revision "
        f"{part.core.revision}; {why}"
    )


async def current(part: TablePart) -> None:
    """Wait until everything is here that the master had after this was called."""
    await readable(part)
    runner = part.runner
    if runner.is_master:
        return
    with trio.move_on_after(READ_SECONDS):
        await part.await_current()
        runner.check()
        return
    raise StaleData(
        f"store {runner.name}: its master did not say within {READ_SECONDS:g} s how far it is; "
        f"{part.core.explain_idle()}"
    )


async def _slices(keys: Sequence[bytes]) -> AsyncIterator[tuple[int, Sequence[bytes]]]:
    """Cut a long list, with the place of each part, so that others have their turn in between."""
    for start in range(0, len(keys), SLICE_COUNT):
        yield start, keys[start : start + SLICE_COUNT]
        await trio.lowlevel.checkpoint()


def decode_page(page: scanning.Page) -> Page:
    """Give a page in the user's own values: column by column where nothing expires."""
    rows = page.rows
    if rows.expiries:
        entries = tuple(decode_entry(key, stored) for key, stored in page.entries)
    else:
        keys, values = map(decode, rows.keys), map(decode, rows.values)
        entries = tuple(map(Entry, keys, values, rows.revisions, repeat(None)))
    return Page(entries, page.revision, page.continuation)


def check_revision(since: Receipt | int) -> None:
    """Raise ``InvalidData`` for what is neither a receipt nor a revision."""
    is_number = isinstance(since, int) and not isinstance(since, bool) and since >= 0
    if not (isinstance(since, Receipt) or is_number):
        raise InvalidData(f"not_before takes a receipt or a revision, not {since!r}")
