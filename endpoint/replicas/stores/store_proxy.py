"""A store without a copy: its part, its handle, and reads and writes that all ask elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import trio

from endpoint.replicas.attaching import READ_SECONDS
from endpoint.replicas.parts import AnyEffect, Kind
from endpoint.replicas.proxying import ProxyPart
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.reading import Reader, check_revision
from endpoint.replicas.stores.store_handle import StoreHandle
from stores import scanning
from stores.effects import ReadAnswered
from stores.questions import (
    LookUpCommand,
    Question,
    ReadAnswerCommand,
    ReadRefusedCommand,
    ScanCommand,
)
from stores.replica.tables.outside import TableProxy
from stores.scanning import EVERYTHING, PAGE_COUNT_MAX, Span
from stores.table import Entry as Stored
from stores.table.rows import Rows
from wire.errors import NotAllowed, RevisionGone, StaleData
from wire.public import public


class StoreProxyPart(ProxyPart[TableProxy, ReadAnswered]):
    """The questions of a store's proxy."""

    kind: ClassVar[Kind] = "store"

    def take(self, effect: AnyEffect) -> tuple[int, ReadAnswered]:
        """Give the number of a question with its answer, out of what a core of this kind asks."""
        assert isinstance(effect, ReadAnswered), effect
        return effect.token, effect

    # -- for handles -----------------------------------------------------------------------------

    async def read(
        self, make: Callable[[int], Question], *, is_for_master: bool
    ) -> tuple[ReadAnswerCommand, int]:
        """Ask what ``make`` makes of a number, and give the answer with its revision.

        Raises ``StaleData`` if none comes in time, and ``RevisionGone``.
        """
        if self.runner.error is not None:
            raise self.runner.error
        with self._questions.ask(self.core.cancel) as question:
            with trio.move_on_after(READ_SECONDS):
                asked = make(question.number)
                self.runner.carry_out(self.core.ask(asked, is_for_master=is_for_master))
                await question.wait()
            reason = self.core.explain(question.number)
        return self._take(question.answer, reason)

    def _take(self, found: ReadAnswered | None, reason: str) -> tuple[ReadAnswerCommand, int]:
        name = self.runner.name
        match found:
            case ReadAnswered(_, ReadAnswerCommand() as answer, revision):
                return answer, revision
            case ReadAnswered(_, ReadRefusedCommand(_, _, text, True)):
                raise NotAllowed(f"store {name}: {text}")
            case ReadAnswered(_, ReadRefusedCommand(text=text, is_gone=True)):
                raise RevisionGone(f"store {name}: {text}")
            case ReadAnswered(_, ReadRefusedCommand(_, _, text)):
                raise StaleData(f"store {name}: no replica in reach could answer: {text}")
            case _:
                pass
        raise self.runner.error or StaleData(
            f"store {name}: no answer within {READ_SECONDS:g} s: {reason}"
        )


class RemoteSource:
    """The replicas of a store, wherever they are: each page or value is one question."""

    def __init__(
        self, part: StoreProxyPart, *, is_for_master: bool = False, since: Receipt | int = 0
    ) -> None:
        """Ask the nearest replica that has what came ``since``, or the master."""
        self._part = part
        self._is_for_master = is_for_master
        self._since = since

    @property
    def name(self) -> str:
        """Give the name of the store."""
        return self._part.runner.name

    async def entry(self, key: bytes, *, has_value: bool = True) -> Stored | None:
        """Ask for it."""
        since = await self._revision_min()
        ask = partial(LookUpCommand, revision_min=since, key=key, has_value=has_value)
        answer, _ = await self._part.read(ask, is_for_master=self._is_for_master)
        found = answer.rows.entries()
        return found[0][1] if found else None

    async def keys(self) -> Sequence[bytes]:
        """Ask for page after page."""
        return (await self._everything(has_values=False)).keys

    async def items(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Ask for page after page: each is of one moment."""
        found = await self._everything(has_values=True)
        return found.keys, found.values

    async def scan(
        self, span: Span, limit: int, revision: int | None, step: int = 1
    ) -> scanning.Page:
        """Ask for a page, of now or of a kept revision."""
        return await self._scan(span, limit, revision, step, has_values=True)

    async def _everything(self, *, has_values: bool) -> Rows:
        parts: list[Rows] = []
        span = EVERYTHING
        while True:
            page = await self._scan(span, PAGE_COUNT_MAX, None, has_values=has_values)
            parts.append(page.rows)
            if page.continuation is None:
                return Rows.joined(parts)
            span = span.after(page.continuation)

    async def _scan(
        self, span: Span, limit: int, revision: int | None, step: int = 1, *, has_values: bool
    ) -> scanning.Page:
        ask = partial(
            ScanCommand,
            revision_min=0 if revision else await self._revision_min(),
            start=span.start,
            stop=span.stop,
            limit=limit,
            has_values=has_values,
            revision=revision,
            step=step,
        )
        # Any replica may have kept a revision.
        is_for_master = self._is_for_master and not revision
        answer, found = await self._part.read(ask, is_for_master=is_for_master)
        return scanning.Page(answer.rows, revision or found, answer.continuation)

    async def _revision_min(self) -> int:
        if isinstance(self._since, int):
            return self._since
        with trio.move_on_after(READ_SECONDS):
            return await self._since.applied()
        raise StaleData(
            f"store {self.name}: that write has no receipt after {READ_SECONDS:g} s:"
            f" {self._part.core.explain_idle()}"
        )


@public
class StoreProxy(StoreHandle, Reader):
    """A store without a copy: for a program that comes, reads or writes a little, and goes.

    Reads ask the nearest replica, and never go back; they see every write whose receipt this handle
    has. Mutations go to the master, and are applied once.
    """

    def __init__(self, part: StoreProxyPart) -> None:
        """Use ``Endpoint.attach_proxy``."""
        self.part = part
        Reader.__init__(self, RemoteSource(part))
        StoreHandle.__init__(self, part)

    def __repr__(self) -> str:
        """Show the store's name, and whether the handle is closed."""
        state = "closed" if self.runner.error is not None else "open"
        return f"<StoreProxy {self.name()} {state}>"

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write; see ``Store.not_before``."""
        check_revision(since)
        return Reader(RemoteSource(self.part, since=since))

    def at_master(self) -> Reader:
        """Read at the master itself: what has every write that anybody had a receipt for."""
        return Reader(RemoteSource(self.part, is_for_master=True))
