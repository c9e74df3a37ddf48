"""Receipts of logs: where an entry is, once it is there; and what came of a promotion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from endpoint.barriers import Seconds
from endpoint.bound import Bound
from endpoint.replicas.receipts import Receipt
from stores.log.runs import Position
from wire.public import public


@public
class AppendReceipt(Bound):
    """An append on its way. Not looking at it is fire and forget."""

    __slots__ = ("_receipt", "count", "partition")

    _instead = "wait for its outcome here, and hand on the position that it gives"

    def __init__(self, receipt: Receipt, partition: int, count: int) -> None:
        """Wait for the outcome that ``receipt`` gets."""
        self._receipt = receipt
        self.partition = partition
        self.count = count
        """Entries of the append."""

    def __repr__(self) -> str:
        """Show what became of it."""
        return f"<AppendReceipt partition={self.partition} count={self.count} {self._receipt!r}>"

    @property
    def is_resolved(self) -> bool:
        """Tell whether the outcome is known."""
        return self._receipt.is_resolved

    def when_resolved(self, callback: Callable[[], object]) -> None:
        """Call back once the outcome is known; see ``Receipt.when_resolved``."""
        self._receipt.when_resolved(callback)

    async def applied(self) -> Position:
        """Wait until it is appended, durably where the backend is; give the first entry's place.

        The others of a batch have the offsets that follow. Raises the keeper's error; then nothing
        was appended, unless the text says otherwise.
        """
        return Position(self.partition, await self._receipt.applied())

    def result(self, timeout: Seconds = None) -> Position:
        """Do as ``applied`` does, in a thread; raises ``RequestTimeout`` after ``timeout``."""
        return Position(self.partition, self._receipt.result(timeout))

    def is_repeated(self) -> bool:
        """Tell whether it was there already, by its producer and sequence; when it is resolved."""
        return not self._receipt.is_inserted()


@public
@dataclass(frozen=True, slots=True)
class LogPromotion:
    """What came of the promotion of a log's follower."""

    term: int
    """How many promotions the log has seen: keepers of earlier terms are fenced."""
    ends: tuple[int, ...]
    """Each partition goes on from here. What the last keeper appended beyond is lost."""
    silent_seconds: float
    """How long ago the last keeper was heard: what it did since is unknown here."""
