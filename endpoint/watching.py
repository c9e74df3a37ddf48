"""Following the changes of a store, one by one, in the order of its master."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import trio

from endpoint.store_runner import StoreRunner
from stores.effects import Changed
from stores.table import ChangeKind, Entry
from wire.decoding import decode
from wire.errors import StoreClosed
from wire.values import Value

CHANGES_MAX: Final = 100_000
"""Changes kept for a reader that is behind; then the watch ends with an error instead of lying."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key changed."""

    kind: ChangeKind
    key: Value
    before: Value
    """The value that was there; ``None`` for an insertion."""
    after: Value
    """The value that is there now; ``None`` if the key is gone."""
    revision: int | None
    """The mutation that set the value; ``None`` if the key is gone."""


class Watch:
    """The changes of a store since the watch began: ``async for change in store.watch()``."""

    def __init__(self, runner: StoreRunner) -> None:
        """Use ``Store.watch``."""
        self._runner = runner
        self._changes: deque[Changed] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_closed = False
        runner.observe(self)

    def push(self, change: Changed) -> None:
        """Take in one change; for the store's driver."""
        self._changes.append(change)
        if len(self._changes) > CHANGES_MAX:
            self.close()
        self._waiting.unpark_all()

    async def get(self, timeout: float | None = None) -> Change:
        """Wait for the next change, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``StoreClosed`` when no more changes can come.
        """
        if timeout is not None:
            with trio.move_on_after(timeout):
                return await self.get()
            raise TimeoutError(f"no change within {timeout} s")
        while not self._changes:
            if self._is_closed or self._runner.error is not None:
                raise StoreClosed("the watch, or its store, is closed")
            await self._waiting.park()
        return self._decode(self._changes.popleft())

    def poll(self) -> list[Change]:
        """Take all changes that are there."""
        changes, self._changes = self._changes, deque()
        return [self._decode(change) for change in changes]

    @staticmethod
    def _decode(change: Changed) -> Change:
        def value(entry: Entry | None) -> Value:
            return None if entry is None else decode(entry.value)

        return Change(
            kind=change.kind,
            key=decode(change.key),
            before=value(change.before),
            after=value(change.after),
            revision=None if change.after is None else change.after.revision,
        )

    def end(self) -> None:
        """Nothing comes any more; for the store's driver."""
        self._waiting.unpark_all()

    def close(self) -> None:
        """Follow no longer."""
        self._is_closed = True
        self._runner.unobserve(self)
        self._waiting.unpark_all()

    def __aiter__(self) -> Self:
        """Iterate until the store is closed."""
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None

    def __enter__(self) -> Self:
        """Follow within the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Follow no longer."""
        self.close()
