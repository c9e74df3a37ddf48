"""What a member has promised, and that it is on the disk before a word of it leaves.

Term and vote are one record. The *mark* says how far the journal was durable. It lies apart, in
slots of its own, and is written far more often than it is synced. A journal that ends before its
mark was cut, rolled back or replaced by an older file: its member is *regressed*. It has
acknowledged what it does not have, so it neither votes nor counts until it has all of it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from stores.group.effects import (
    Broadcast,
    Effect,
    Failed,
    Persist,
    Promises,
    Readable,
    Replied,
    SavePromises,
    Send,
    SyncMarks,
    WholenessChanged,
    WriteMark,
)
from stores.group.messages import Echo, Join, PreVote
from stores.group.positions import START, MemberId, Position

SYNC_TICKS: Final = 10
"""Ticks between two syncs of the mark: after a power cut it is a second behind at most."""

SLOT_COUNT: Final = 3
"""One was synced last, one is being synced, one is written meanwhile."""

WORDS: Final = (Send, Broadcast, Replied, Failed, Readable)

LATEST: Final = (Echo, Join, PreVote)
"""Messages of which the latest one stands for all before it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A mark as it is read from the disk."""

    number: int
    mark: Position


Slots = Sequence[Slot | None]
"""All slots; ``None`` is one that cannot be read."""


class Marks:
    """Slots for marks. One of them can be read after any power cut.

    Neither the slot that was synced last nor one that is being synced is written.
    """

    def __init__(self, slots: Slots) -> None:
        """Take what was read after a sync: ``None`` is a slot that cannot be read."""
        latest = _latest(slots)
        self.mark = latest.mark if latest is not None else None
        self.number = latest.number if latest is not None else 0
        self.synced_number = self.number
        """All marks up to this one survive a power cut."""
        self._safe = slots.index(latest)
        self._open = _other(self._safe)
        self._syncing: int | None = None

    def write(self, mark: Position) -> list[Effect]:
        """Write a mark, without a sync."""
        self.mark = mark
        self.number += 1
        return [WriteMark(self._open, self.number, mark)]

    def sync(self) -> list[Effect]:
        """Start a sync, if there is something to sync and none is under way."""
        if self._syncing is not None or self.mark is None or self.number == self.synced_number:
            return []
        self._syncing = self.number
        self._open = _other(self._safe, self._open)
        return [SyncMarks(self.number)]

    def synced(self, number: int) -> None:
        """Learn that a sync is over."""
        assert self._syncing == number, (number, self._syncing)
        self._syncing = None
        self.synced_number = number
        self._safe = _other(self._safe, self._open)


def latest_mark(slots: Slots) -> Position | None:
    """Give the mark that counts: ``START`` if nothing was noted, ``None`` if none can be read."""
    latest = _latest(slots)
    return None if latest is None else latest.mark


def _latest(slots: Slots) -> Slot | None:
    readable = [slot for slot in slots if slot is not None]
    return max(readable, key=lambda slot: slot.number, default=None)


def _other(*slots: int) -> int:
    """Give the first slot that is none of these."""
    return next(slot for slot in range(SLOT_COUNT) if slot not in slots)


class Ballot:
    """Term, vote and mark of one member, and the words that wait for them."""

    def __init__(
        self,
        promises: Promises,
        slots: Slots,
        end: Position,
    ) -> None:
        """Open a ballot beside a journal that ends at ``end``.

        The file was synced before it was read. A member without a ballot gets a new identity, and
        begins with ``new_promises``.
        """
        self._marks = Marks(slots)
        mark = self._marks.mark
        is_whole = promises.is_whole and mark is not None and mark <= end
        term = max(promises.term, end.term)
        vote = promises.vote if term == promises.term else None
        self._promises = replace(
            promises, starts=promises.starts + 1, term=term, vote=vote, is_whole=is_whole
        )
        self.member = promises.member
        """The member whose ballot it is."""
        self.term = term
        """The latest term."""
        self.is_whole = is_whole
        """False while the member lacks something that it may have acknowledged."""
        self._is_dirty = True
        self._saving: int | None = None
        self._token = 0
        self._awaited_number = 0
        self._words: list[Effect] = []
        self._ticks = 0

    # -- what is promised ------------------------------------------------------------------------

    @property
    def promises(self) -> Promises:
        """What may never be forgotten."""
        return self._promises

    @property
    def starts(self) -> int:
        """How often the ballot was opened, this time included."""
        return self._promises.starts

    @property
    def vote(self) -> MemberId | None:
        """The candidate that has this member's vote in the term."""
        return self._promises.vote

    @property
    def mark(self) -> Position | None:
        """How far the journal was durable; ``None`` if no slot can be read."""
        return self._marks.mark

    @property
    def is_settled(self) -> bool:
        """True if no word waits: all that is promised is on the disk."""
        is_saved = not self._is_dirty and self._saving is None and not self._words
        return is_saved and self._marks.synced_number >= self._awaited_number

    def start(self, end: Position) -> list[Effect]:
        """Start: a whole member has its journal's end as mark, synced."""
        if not self.is_whole:
            return [WholenessChanged(is_whole=False)]
        return self._await_mark(end)

    def follow(self, term: int) -> None:
        """Enter a later term; no candidate has the vote in it."""
        assert term > self.term, (term, self._promises)
        self._promise(replace(self._promises, term=term, vote=None))

    def cast(self, candidate: MemberId) -> None:
        """Give the term's only vote."""
        assert self.vote in (None, candidate), (candidate, self._promises)
        self._promise(replace(self._promises, vote=candidate))

    def _promise(self, promises: Promises) -> None:
        self._is_dirty = self._is_dirty or promises != self._promises
        self._promises = promises
        self.term, self.is_whole = promises.term, promises.is_whole

    # -- the mark --------------------------------------------------------------------------------

    def raise_mark(self, durable: Position) -> list[Effect]:
        """Note how far the journal is durable; a term's first mark is synced before its ack."""
        mark = self._marks.mark or START
        if not self.is_whole or durable <= mark:
            return []
        if durable.term > mark.term:
            return self._await_mark(durable)
        return self._marks.write(durable)

    def lower_mark(self, position: Position) -> list[Effect]:
        """Note that the journal is about to be cut after a position.

        Synced before it is: a power cut that left the higher mark beside the shorter journal would
        have the member count as regressed, though it lacks nothing.
        """
        mark = self._marks.mark or START
        if not self.is_whole or mark <= position:
            return []
        return self._await_mark(position)

    def doubt(self) -> None:
        """Count as regressed from now on: other members have what this one lacks."""
        self._promise(replace(self._promises, is_whole=False))

    def make_whole(self, durable: Position) -> list[Effect]:
        """Count again: all that this member may ever have acknowledged is durable now."""
        self._promise(replace(self._promises, is_whole=True))
        return [*self._await_mark(durable), WholenessChanged(is_whole=True)]

    def _await_mark(self, mark: Position) -> list[Effect]:
        effects = self._marks.write(mark)
        self._awaited_number = self._marks.number
        return effects

    # -- the disk --------------------------------------------------------------------------------

    def tick(self) -> list[Effect]:
        """Let a tick pass: the mark is synced now and then."""
        self._ticks += 1
        return self._marks.sync() if self._ticks % SYNC_TICKS == 0 else []

    def settle(self, effects: list[Effect]) -> list[Effect]:
        """End a step: hold its words back until all that they promise is on the disk.

        There is no need to ask while the ballot ``is_settled``.
        """
        done: list[Effect] = []
        for effect in effects:
            if isinstance(effect, WORDS):
                self._hold(effect)
            else:
                done.append(effect)
        if self._is_dirty and self._saving is None:
            self._token += 1
            self._saving, self._is_dirty = self._token, False
            done.append(SavePromises(self._token, self._promises))
        is_awaited = self._marks.synced_number < self._awaited_number
        if is_awaited:
            kinds = [type(effect) for effect in done]
            at = kinds.index(Persist) if Persist in kinds else len(done)
            done[at:at] = self._marks.sync()
        if not is_awaited and not self._is_dirty and self._saving is None:
            done += self._words
            self._words.clear()
        return done

    def _hold(self, word: Effect) -> None:
        """Hold a word back; what it stands for, too, is not said any more.

        A disk may take nothing for hours: each wish to join that waited for it would be answered
        with entries, or a snapshot, and all of them at once.
        """
        if isinstance(word, Send) and isinstance(word.message, LATEST):
            kind, words = type(word.message), self._words
            self._words = [
                each
                for each in words
                if not (
                    isinstance(each, Send) and each.to == word.to and type(each.message) is kind
                )
            ]
        self._words.append(word)

    def promises_saved(self, token: int) -> None:
        """Learn that the record is on the disk."""
        assert self._saving == token, (token, self._saving)
        self._saving = None

    def marks_synced(self, number: int) -> None:
        """Learn that the slots are on the disk."""
        self._marks.synced(number)


def new_promises(member: MemberId) -> Promises:
    """Give what a member has promised that never ran: nothing."""
    return Promises(member, starts=0, term=0, vote=None, is_whole=True)


NEW_SLOTS: Final = (Slot(0, START),) * SLOT_COUNT
"""What a new ballot's file has in its slots: readable ones, so that a torn file is no new one."""
