"""What a log remembers of writers and producers, so that a repetition is recognised.

Followers have the same memory as their keeper, event by event, and go on with it when promoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stores.actions import WriterId
from stores.log.limits import MEMORY_PAGE_SIZE_MAX
from stores.log.producers import ProducerRow, TrackedProducers
from stores.outcomes import Ledger, Outcome, Refused, WriterRecord, WriterRow

_MARK_SIZE = 24
"""Bytes that an outcome or an append takes in a message, roughly."""


@dataclass(frozen=True, slots=True)
class WriterNews:
    """What a writer asked for, and what became of it, as far as followers did not know."""

    writer: WriterId
    last_request: int
    resolved_request: int
    """The writer knows what became of all its requests up to this one."""
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is remembered of writers and producers with this commit; the last one closes it."""

    writers: tuple[WriterNews, ...] = ()
    forgotten_writers: tuple[WriterId, ...] = ()
    producers: tuple[ProducerRow, ...] = ()
    forgotten_producers: tuple[str, ...] = ()
    is_last: bool = True


def in_parts(
    writers: Iterable[WriterNews],
    producers: Iterable[ProducerRow],
    forgotten_writers: tuple[WriterId, ...] = (),
    forgotten_producers: tuple[str, ...] = (),
) -> list[Remembered]:
    """Put everything into parts that fit in a message each; there is one at least."""
    parts: list[Remembered] = []
    part_writers: list[WriterNews] = []
    part_producers: list[ProducerRow] = []
    size = 0
    rows: list[WriterNews | ProducerRow] = [*writers, *producers]
    for row in rows:
        size += _size_of(row)
        if size > MEMORY_PAGE_SIZE_MAX and (part_writers or part_producers):
            part = tuple(part_writers), (), tuple(part_producers)
            parts.append(Remembered(*part, is_last=False))
            part_writers, part_producers, size = [], [], _size_of(row)
        if isinstance(row, WriterNews):
            part_writers.append(row)
        else:
            part_producers.append(row)
    end = forgotten_writers, tuple(part_producers), forgotten_producers
    return [*parts, Remembered(tuple(part_writers), *end, is_last=True)]


def _size_of(row: WriterNews | ProducerRow) -> int:
    if isinstance(row, ProducerRow):
        return 4 * len(row.name) + _MARK_SIZE * (1 + len(row.appended))
    results = (outcome.result for outcome in row.outcomes)
    texts = sum(4 * len(each.text) for each in results if isinstance(each, Refused))
    return _MARK_SIZE * (3 + len(row.outcomes)) + texts


class Memory:
    """The ledger of writers, and the windows of producers."""

    def __init__(
        self, writers: Iterable[WriterRow] = (), producers: Iterable[ProducerRow] = ()
    ) -> None:
        """Start with what a backend kept, the least recently active first."""
        self.ledger = Ledger(writers)
        self.producers = TrackedProducers(producers)
        self._told_at: dict[WriterId | str, int] = {}
        """The event that last told followers of a writer or producer."""

    # -- what a keeper does ----------------------------------------------------------------------

    def was_told(self, sequence: int, parts: Sequence[Remembered]) -> None:
        """Take note that followers were told with the events up to this one."""
        for part in parts:
            for news in part.writers:
                self._told_at[news.writer] = sequence
                if (record := self.ledger.find(news.writer)) is not None:
                    record.published_request = news.last_request
            for row in part.producers:
                self._told_at[row.name] = sequence
            for writer in part.forgotten_writers:
                self._told_at.pop(writer, None)
            for name in part.forgotten_producers:
                self._told_at.pop(name, None)

    def since(self, sequence: int | None, ends: Sequence[int]) -> list[Remembered]:
        """Give what was told after an event, or everything; of producers what is before ``ends``.

        What waits for a commit was not told yet, and is left out.
        """
        return in_parts(self._writers_since(sequence), self._producers_since(sequence, ends))

    def _writers_since(self, sequence: int | None) -> Iterator[WriterNews]:
        for record in self.ledger.records():
            if record.published_request and self._is_after(record.writer, sequence):
                yield _news_of(record)

    def _producers_since(self, sequence: int | None, ends: Sequence[int]) -> Iterator[ProducerRow]:
        for row in self.producers.rows():
            if self._is_after(row.name, sequence):
                appended = tuple(each for each in row.appended if each[2] < ends[each[1]])
                if appended:
                    yield ProducerRow(row.name, appended, row.floor)

    def _is_after(self, name: WriterId | str, sequence: int | None) -> bool:
        return sequence is None or self._told_at.get(name, 0) > sequence

    # -- what a follower does --------------------------------------------------------------------

    def follow(self, news: Remembered) -> None:
        """Take in what the keeper remembers; what is known already changes nothing."""
        for each in news.writers:
            record = self.ledger.touch(each.writer)
            for outcome in each.outcomes:
                later = outcome.between(record.last_request, outcome.last_request)
                if later is not None:
                    record.add(later)
            record.last_request = max(record.last_request, each.last_request)
            record.forget(each.resolved_request)
        for row in news.producers:
            self.producers.follow(row)
        for writer in news.forgotten_writers:
            self.ledger.forget(writer)
        for name in news.forgotten_producers:
            self.producers.forget(name)


def _news_of(record: WriterRecord) -> WriterNews:
    outcomes = record.published(after=0)
    resolved = outcomes[0].first_request - 1 if outcomes else record.published_request
    return WriterNews(record.writer, record.published_request, resolved, outcomes)
