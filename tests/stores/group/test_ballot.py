"""No word leaves before what it promises is on the disk; marks survive power cuts."""

from __future__ import annotations

from itertools import product

import pytest

from stores.group.ballot import NEW_SLOTS, SLOT_COUNT, SYNC_TICKS, Ballot, Marks, Slot, new_promises
from stores.group.effects import (
    Persist,
    Promises,
    SavePromises,
    Send,
    SyncMarks,
    WholenessChanged,
    WriteMark,
)
from stores.group.messages import HigherTerm
from stores.group.positions import START, MemberId, Position

A, B = MemberId("a", 1), MemberId("b", 2)
WORD = Send(B, HigherTerm(1))
END = Position(3, 7)


def slots(*marks):
    """Give slots with these marks, the last of them the latest."""
    found = [Slot(number, mark) if mark else None for number, mark in enumerate(marks, 1)]
    return (*found, *[None] * (SLOT_COUNT - len(found)))


def settled(end=END, *, found=None, promises=None):
    """Give a ballot that was opened, and has saved that."""
    ballot = Ballot(promises or Promises(A, 4, 3, B, is_whole=True), found or slots(end), end)
    effects = ballot.settle(ballot.start(end))
    finish(ballot, effects)
    return ballot


def finish(ballot, effects):
    """End the writes among these effects, and those that follow; give all words that left."""
    words = []
    while effects:
        effect, *effects = effects
        if isinstance(effect, SavePromises):
            ballot.promises_saved(effect.token)
        elif isinstance(effect, SyncMarks):
            ballot.marks_synced(effect.number)
        elif isinstance(effect, Send):
            words.append(effect)
            continue
        else:
            continue
        effects += ballot.settle([])
    return words


def test_a_word_waits_for_the_term_and_the_vote():
    ballot = settled()
    assert ballot.settle([WORD]) == [WORD]
    ballot.follow(9)
    ballot.cast(A)
    write = Persist(1, None, 0, ())
    effects = ballot.settle([WORD, write])
    assert effects == [write, SavePromises(2, Promises(A, 5, 9, A, is_whole=True))]
    assert ballot.settle([WORD]) == []
    ballot.promises_saved(2)
    assert ballot.settle([]) == [WORD, WORD]


def test_a_promise_made_while_another_is_saved_is_saved_before_the_words():
    ballot = settled()
    ballot.follow(9)
    (save,) = ballot.settle([WORD])
    ballot.cast(B)
    assert ballot.settle([]) == []
    ballot.promises_saved(save.token)
    (second,) = ballot.settle([])
    assert second.promises.vote == B
    ballot.promises_saved(second.token)
    assert ballot.settle([]) == [WORD]


def test_the_first_word_waits_for_the_opening():
    ballot = Ballot(new_promises(A), NEW_SLOTS, START)
    effects = ballot.settle([*ballot.start(START), WORD])
    assert WORD not in effects
    assert finish(ballot, effects) == [WORD]
    assert ballot.starts == 1


def test_a_vote_is_of_its_term_alone():
    ballot = settled()
    assert ballot.vote == B
    with pytest.raises(AssertionError):
        ballot.cast(A)
    ballot.follow(4)
    assert ballot.vote is None
    with pytest.raises(AssertionError):
        ballot.follow(4)


def test_a_journal_of_a_later_term_brings_its_term_and_no_vote():
    ballot = Ballot(Promises(A, 1, 3, B, is_whole=True), slots(START), Position(5, 2))
    assert (ballot.term, ballot.vote) == (5, None)


@pytest.mark.parametrize(
    ("mark", "is_whole"),
    [(END, True), (Position(2, 99), True), (Position(3, 8), False), (Position(4, 1), False)],
)
def test_a_journal_that_ends_before_its_mark_is_regressed(mark, is_whole):
    assert Ballot(new_promises(A), slots(mark), END).is_whole == is_whole


def test_without_a_readable_mark_a_member_is_regressed():
    ballot = Ballot(new_promises(A), slots(), END)
    assert not ballot.is_whole
    assert ballot.start(END) == [WholenessChanged(is_whole=False)]
    (save,) = ballot.settle([WORD])
    assert finish(ballot, [save]) == [WORD], "no mark is awaited"


def test_regression_lasts_although_the_mark_fits_again():
    assert not Ballot(Promises(A, 1, 3, None, is_whole=False), slots(START), END).is_whole


def test_a_regressed_member_moves_no_mark_until_it_is_whole():
    ballot = settled(found=slots(Position(4, 1)))
    assert ballot.raise_mark(Position(5, 5)) == []
    assert ballot.lower_mark(START) == []
    effects = ballot.make_whole(Position(5, 6))
    assert effects[-1] == WholenessChanged(is_whole=True)
    assert ballot.settle([WORD]) != [WORD]
    assert ballot.mark == Position(5, 6)


def test_a_doubt_is_saved_before_the_next_word():
    ballot = settled()
    ballot.doubt()
    assert not ballot.is_whole
    (save,) = ballot.settle([WORD])
    assert save == SavePromises(save.token, Promises(A, 5, 3, B, is_whole=False))
    assert finish(ballot, [save]) == [WORD]


def test_a_mark_is_written_at_once_and_synced_once_a_second():
    ballot = settled()
    (write,) = ballot.raise_mark(Position(3, 8))
    assert write.mark == Position(3, 8)
    assert ballot.settle([WORD]) == [WORD]
    syncs = [ballot.tick() for _ in range(SYNC_TICKS)]
    assert syncs[-1] == [SyncMarks(write.number)]
    assert not any(syncs[:-1])
    ballot.marks_synced(write.number)
    assert not any(ballot.tick() for _ in range(SYNC_TICKS)), "nothing is new"
    assert ballot.raise_mark(Position(3, 8)) == []


def test_a_terms_first_mark_is_synced_before_a_word():
    ballot = settled()
    effects = ballot.settle([*ballot.raise_mark(Position(4, 8)), WORD])
    assert [type(effect) for effect in effects] == [WriteMark, SyncMarks]
    ballot.marks_synced(effects[1].number)
    assert ballot.settle([]) == [WORD]


def test_a_sync_that_began_before_the_awaited_mark_is_not_enough():
    ballot = settled()
    ballot.raise_mark(Position(3, 8))
    (sync,) = [each for _ in range(SYNC_TICKS) for each in ballot.tick()]
    effects = ballot.settle([*ballot.raise_mark(Position(4, 9)), WORD])
    assert not any(isinstance(each, Send | SyncMarks) for each in effects)
    ballot.marks_synced(sync.number)
    (second,) = ballot.settle([])
    ballot.marks_synced(second.number)
    assert ballot.settle([]) == [WORD]


def test_a_mark_is_lowered_before_a_cut():
    ballot = settled()
    (write,) = ballot.lower_mark(Position(3, 5))
    assert (write.mark, ballot.mark) == (Position(3, 5), Position(3, 5))
    assert ballot.lower_mark(Position(3, 5)) == ballot.lower_mark(Position(3, 6)) == []
    cut = Persist(1, None, 5, ())
    effects = ballot.settle([write, cut, WORD])
    assert [type(each) for each in effects] == [WriteMark, SyncMarks, Persist]
    ballot.marks_synced(effects[1].number)
    assert ballot.settle([]) == [WORD]


def test_after_any_power_cut_a_mark_as_late_as_the_last_sync_can_be_read():
    """All orders of writes and syncs; the cut tears every slot that may have no sync behind it."""
    for choices in product(("write", "sync", "done"), repeat=7):
        _check_power_cuts(choices)


def test_the_slots_take_turns_and_none_that_is_needed_is_written():
    _check_power_cuts(("write", "sync", "done") * 3 * SLOT_COUNT)
    _check_power_cuts(("write", "sync", "write", "done") * 3 * SLOT_COUNT)


@pytest.mark.parametrize("latest", range(SLOT_COUNT))
def test_after_a_start_the_slot_of_the_latest_mark_is_kept_until_a_later_one_is_synced(latest):
    found = [Slot(number, Position(1, number)) for number in range(3, 3 + SLOT_COUNT)]
    found[latest] = Slot(9, Position(1, 9))
    _check_power_cuts(("write", "sync", "write", "done") * SLOT_COUNT, found)


def _check_power_cuts(choices, found=NEW_SLOTS):
    marks = Marks(found)
    disk, safe = list(found), list(found)
    syncing, synced_number = None, max(slot.number for slot in found)
    for at, choice in enumerate(choices, 1):
        if choice == "write":
            (effect,) = marks.write(Position(1, at))
            assert effect.number > max(slot.number for slot in disk)
            disk[effect.slot] = Slot(effect.number, effect.mark)
        elif choice == "sync" and (effects := marks.sync()):
            syncing = effects[0].number, list(disk)
        elif choice == "done" and syncing is not None:
            synced_number, then = syncing
            safe = [new if new == now else None for new, now in zip(then, disk, strict=True)]
            marks.synced(synced_number)
            syncing = None
        # A slot that changed since the last sync was over may be torn now.
        left = [slot for slot, kept in zip(disk, safe, strict=True) if slot == kept]
        assert max(slot.number for slot in left if slot) >= synced_number
