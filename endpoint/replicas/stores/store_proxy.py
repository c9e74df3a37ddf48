"""The handle of a store without a copy: every read and every write asks elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from endpoint import arguments
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.proxy_runner import ProxyRunner
from endpoint.replicas.stores.reading import (
    READ_SECONDS,
    Entry,
    Page,
    Reader,
    check_revision,
    decode_entry,
    decode_page,
    page_span,
)
from endpoint.replicas.stores.store_handle import StoreHandle
from stores import scanning
from stores.commands import LookUpCommand, ReadAnswerCommand, ScanCommand
from stores.operations import look_up
from stores.scanning import EVERYTHING, PAGE_COUNT, PAGE_COUNT_MAX, Span
from stores.table import Entry as Stored
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import NoSuchKey, StaleData
from wire.public import public
from wire.values import Value


class ProxyReader(Reader):
    """Reads of a proxy: each call but those of many pages is one question, of one moment."""

    def __init__(
        self, runner: ProxyRunner, *, is_for_master: bool = False, since: Receipt | int = 0
    ) -> None:
        """Ask the nearest replica that has what came ``since``, or the master."""
        super().__init__(runner, trio.lowlevel.checkpoint)
        self._proxy = runner
        self._is_for_master = is_for_master
        self._since = since

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing.

        Raises ``StaleData`` if no replica answers in ``READ_SECONDS``, or all that can be reached
        are out of touch; and ``StoreClosed``.
        """
        stored = await self._look_up(encode(key), has_value=True)
        return default if stored is None else decode(stored.value)

    async def get_index_from_value(self, key: Value, index: Value) -> Value:
        """Look into the value of a key, which travels here as a whole."""
        stored = await self._look_up(encode(key), has_value=True)
        if stored is None:
            raise NoSuchKey(f"store {self.runner.name} has no key {key!r}")
        return look_up(decode(stored.value), index)

    async def entry(self, key: Value) -> Entry | None:
        """Give the value of a key with its revision and expiry; ``None`` if it is missing."""
        encoded = encode(key)
        stored = await self._look_up(encoded, has_value=True)
        return None if stored is None else decode_entry(encoded, stored)

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there; its value stays where it is."""
        return await self._look_up(encode(key), has_value=False) is not None

    async def keys(self) -> list[Value]:
        """Give all keys, page by page, in their order."""
        return [decode(key) for key, _ in await self._everything(has_values=False)]

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, page by page: each page is of one moment."""
        found = await self._everything(has_values=True)
        return [(decode(key), decode(stored.value)) for key, stored in found]

    async def scan(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
        after: bytes | None = None,
    ) -> Page:
        """Give a page of entries in the order of keys, as ``Store.scan`` does.

        It may end earlier than ``limit``, as an answer has up to 256 KiB; only a page without a
        ``continuation`` is the last.
        """
        limit = arguments.count("limit", limit, most=PAGE_COUNT_MAX)
        span = page_span(start, stop, prefix, after)
        return decode_page(await self._scan(span, limit, has_values=True))

    async def _everything(self, *, has_values: bool) -> list[tuple[bytes, Stored]]:
        found: list[tuple[bytes, Stored]] = []
        span = EVERYTHING
        while True:
            page = await self._scan(span, PAGE_COUNT_MAX, has_values=has_values)
            found += page.entries
            if page.continuation is None:
                return found
            span = span.after(page.continuation)

    async def _look_up(self, key: bytes, *, has_value: bool) -> Stored | None:
        since = await self._revision_min()
        ask = partial(LookUpCommand, revision_min=since, key=key, has_value=has_value)
        answer, _ = await self._proxy.read(ask, is_for_master=self._is_for_master)
        return _entries(answer)[0][1] if answer.rows else None

    async def _scan(self, span: Span, limit: int, *, has_values: bool) -> scanning.Page:
        ask = partial(
            ScanCommand,
            revision_min=await self._revision_min(),
            start=span.start,
            stop=span.stop,
            limit=limit,
            has_values=has_values,
        )
        answer, revision = await self._proxy.read(ask, is_for_master=self._is_for_master)
        return scanning.Page(_entries(answer), revision, answer.continuation)

    async def _revision_min(self) -> int:
        if isinstance(self._since, int):
            return self._since
        with trio.move_on_after(READ_SECONDS):
            return await self._since.applied()
        raise StaleData(
            f"store {self.runner.name}: that write has no receipt after {READ_SECONDS:g} s:"
            f" {self.runner.core.explain_idle()}"
        )


def _entries(answer: ReadAnswerCommand) -> list[tuple[bytes, Stored]]:
    return [
        (key, Stored(value or b"", revision, expires_at_ns))
        for key, value, revision, expires_at_ns in answer.rows
    ]


@public
class StoreProxy(StoreHandle, ProxyReader):
    """A store without a copy: for who comes, reads or writes a little, and goes.

    Reads ask the nearest replica, and never go back; they see every write whose receipt this handle
    has. Mutations go to the master, and are applied once.
    """

    def __init__(self, runner: ProxyRunner, close: Callable[[], Awaitable[None]]) -> None:
        """Use ``Endpoint.attach_proxy``."""
        ProxyReader.__init__(self, runner)
        StoreHandle.__init__(self, runner, close)

    def __repr__(self) -> str:
        """Show the store's name, and whether the handle is closed."""
        state = "closed" if self.runner.error is not None else "open"
        return f"<StoreProxy {self.name()} {state}>"

    def not_before(self, since: Receipt | int) -> ProxyReader:
        """Read what is not older than a write; see ``Store.not_before``."""
        check_revision(since)
        return ProxyReader(self._proxy, since=since)

    def at_master(self) -> ProxyReader:
        """Read at the master itself: what has every write that anybody had a receipt for."""
        return ProxyReader(self._proxy, is_for_master=True)
