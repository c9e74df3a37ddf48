"""The journal: positions, what two of them share, what is durable, truncation and compaction."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.group import journal as journals
from stores.group.clock import NO_TIMES
from stores.group.effects import Persist, Snapshot
from stores.group.entries import ActionEntry, LeadEntry, VotersEntry
from stores.group.journal import Journal
from stores.group.positions import START, MemberId, Position

A, B, C = (MemberId(name, 0) for name in "abc")


def journal_of(*terms, floor=START):
    return Journal(floor, (A,), [ActionEntry(term, number) for number, term in enumerate(terms)])


def test_positions_are_terms_and_indexes():
    journal = journal_of(1, 1, 3, 3, 4)
    assert journal.end == Position(4, 5)
    assert [journal.term_at(index) for index in range(6)] == [0, 1, 1, 3, 3, 4]
    assert journal.ends() == (START, Position(1, 2), Position(3, 4), Position(4, 5))
    assert (journal.floor, journal.first_sequence, journal.durable) == (START, 1, 5)


def test_a_member_is_shown_by_its_name_and_the_end_of_its_life():
    assert str(MemberId("a", 0x1ABCD)) == "a.abcd"


@pytest.mark.parametrize("index", [-1, 6])
def test_what_is_not_there_has_no_term(index):
    with pytest.raises(AssertionError):
        journal_of(1, 1, 3, 3, 4).term_at(index)


def test_terms_do_not_go_back():
    with pytest.raises(AssertionError):
        journal_of(2, 1)


@pytest.mark.parametrize(
    ("mine", "theirs", "agreed"),
    [
        ((1, 1, 1), (1, 1), 2),
        ((1, 1), (1, 1, 1), 2),
        ((1, 1, 2), (1, 1, 1, 1), 2),
        ((1, 1, 3, 3), (1, 1, 2, 2, 2), 2),
        ((2, 2), (1, 1), 0),
        ((), (1, 1), 0),
        ((1, 1), (), 0),
        ((1, 4, 4, 5), (1, 4), 2),
    ],
)
def test_journals_agree_up_to_the_latest_common_term(mine, theirs, agreed):
    assert journal_of(*mine).agreed(journal_of(*theirs).ends()) == agreed


@st.composite
def histories(draw):
    """Draw journals as leaders of rising terms make them: each goes on from a prefix of another."""
    journals = [()]
    for term in range(1, draw(st.integers(1, 6))):
        base = draw(st.sampled_from(journals))
        kept = base[: draw(st.integers(0, len(base)))]
        grown = kept + tuple((term, number) for number in range(draw(st.integers(1, 4))))
        journals += [grown[:end] for end in range(len(kept) + 1, len(grown) + 1)]
    return draw(st.sampled_from(journals)), draw(st.sampled_from(journals))


@given(histories())
def test_what_is_agreed_is_the_common_beginning(pair):
    mine, theirs = pair
    common = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
    common = min(len(mine), len(theirs)) if common is None else common
    ends = journal_of(*(term for term, _ in theirs)).ends()
    assert journal_of(*(term for term, _ in mine)).agreed(ends) == common


@given(histories(), st.data())
def test_a_floor_changes_no_agreement_above_it(pair, data):
    mine, theirs = ([term for term, _ in each] for each in pair)
    agreed = journal_of(*mine).agreed(journal_of(*theirs).ends())
    compacted = journal_of(*mine)
    compacted.compact(data.draw(st.integers(0, len(mine))))
    found = compacted.agreed(journal_of(*theirs).ends())
    if found >= compacted.floor.index or agreed >= compacted.floor.index:
        assert found == agreed


class Measures:
    """Says how much an action is: a number changes so much, and a text has so many bytes."""

    def changes_of(self, body):
        return body if isinstance(body, int) else 1

    def size_of(self, body):
        return len(body) if isinstance(body, str) else 1


MEASURES = Measures()


def write(journal):
    effect = journal.next_write(MEASURES)
    assert effect is not None
    return effect


def test_one_write_is_under_way_and_all_that_comes_meanwhile_is_the_next():
    journal = journal_of()
    assert journal.next_write(MEASURES) is None
    entries = [ActionEntry(1, number) for number in range(3)]
    journal.append(entries[0])
    assert write(journal) == Persist(1, None, 0, (entries[0],))
    journal.append(entries[1])
    journal.append(entries[2])
    assert journal.next_write(MEASURES) is None
    assert (journal.writing, journal.durable) == (1, 0)
    journal.persisted(1)
    assert journal.durable == 1
    assert write(journal) == Persist(2, None, 1, (entries[1], entries[2]))
    journal.persisted(2)
    assert (journal.writing, journal.durable) == (None, 3)
    assert journal.next_write(MEASURES) is None


def test_what_is_cut_while_it_is_written_is_not_durable():
    journal = journal_of(1, 1)
    journal.append(ActionEntry(1, "x"))
    journal.append(ActionEntry(1, "y"))
    write(journal)
    journal.truncate(1)
    journal.append(ActionEntry(2, "z"))
    journal.persisted(1)
    assert journal.durable == 1
    assert write(journal) == Persist(2, None, 1, (ActionEntry(2, "z"),))
    journal.persisted(2)
    assert journal.durable == 2


def test_a_cut_alone_is_written_too():
    journal = journal_of(1, 1, 1)
    journal.truncate(2)
    assert write(journal) == Persist(1, None, 2, ())
    journal.persisted(1)
    assert (journal.durable, journal.end) == (2, Position(1, 2))


def test_the_word_of_another_write_counts_for_nothing():
    journal = journal_of()
    journal.append(ActionEntry(1, "x"))
    write(journal)
    with pytest.raises(AssertionError):
        journal.persisted(2)


def test_a_snapshot_replaces_all_and_is_durable_once_it_is_written():
    journal = journal_of(1, 1)
    journal.append(ActionEntry(2, "x"))
    write(journal)
    snapshot = Snapshot(Position(4, 9), (B, C), NO_TIMES, (), dismissed=("d",))
    journal.install(snapshot)
    journal.append(ActionEntry(4, "y"))
    assert (journal.floor, journal.end, journal.voters.current) == (
        Position(4, 9),
        Position(4, 10),
        (B, C),
    )
    assert (journal.voters.changed_at, journal.voters.at(10)) == (9, ((B, C), ("d",)))
    journal.persisted(1)
    assert journal.durable == 0
    assert write(journal) == Persist(2, snapshot, 9, (ActionEntry(4, "y"),))
    journal.persisted(2)
    assert journal.durable == 10


def test_compaction_keeps_positions_and_entries_above_it():
    journal = journal_of(1, 1, 3, 3, 4)
    journal.compact(3)
    assert (journal.floor, journal.end) == (Position(3, 3), Position(4, 5))
    assert journal.ends() == (Position(3, 4), Position(4, 5))
    assert journal.payloads(4, 5) == [ActionEntry(3, 3), ActionEntry(4, 4)]
    assert journal.entry(4) == ActionEntry(3, 3)
    for index in (2, 6):
        with pytest.raises(AssertionError):
            journal.compact(index)
    with pytest.raises(AssertionError):
        journal.payloads(3, 4)
    with pytest.raises(AssertionError):
        journal.entry(3)


def test_a_journal_that_begins_later_is_read_compacted_and_cut_at_its_indexes():
    journal = journal_of(1, 1, 1, 1, 1, 1)
    journal.compact(2)
    assert journal.payloads(3, 3) == [ActionEntry(1, 2)]
    journal.compact(3)
    assert journal.payloads(4, 6) == [ActionEntry(1, number) for number in (3, 4, 5)]
    journal.truncate(4)
    assert journal.end == Position(1, 4)
    journal.truncate(3)
    assert journal.end == journal.floor == Position(1, 3)
    with pytest.raises(AssertionError):
        journal.truncate(2)


def test_a_long_journal_is_written_in_pieces(monkeypatch):
    monkeypatch.setattr(journals, "WRITE_ENTRIES", 3)
    journal = Journal(Position(1, 5), (A,))
    entries = [ActionEntry(1, number) for number in range(7)]
    for entry in entries:
        journal.append(entry)
    for token, (begin, end) in enumerate([(0, 3), (3, 6), (6, 7)], 1):
        assert write(journal) == Persist(token, None, 5 + begin, tuple(entries[begin:end]))
        journal.persisted(token)
        assert journal.durable == 5 + end


def test_what_shares_a_write_changes_so_much_at_most_but_for_a_single_action(monkeypatch):
    monkeypatch.setattr(journals, "WRITE_CHANGES", 10)
    counts, journal = (4, 6, 1, 11, 9, 1, 1), Journal(START, (A,))
    for count in counts:
        journal.append(ActionEntry(1, count))
    written = []
    while (effect := journal.next_write(MEASURES)) is not None:
        written.append([entry.body for entry in effect.entries])
        journal.persisted(effect.token)
        assert journal.durable == sum(map(len, written))
    assert written == [[4, 6], [1], [11], [9, 1], [1]]
    journal.append(LeadEntry(2, NO_TIMES))
    journal.append(ActionEntry(2, 10))
    assert len(write(journal).entries) == 2, "a leader's word changes nothing"


def test_what_shares_a_write_has_so_many_bytes_at_most_but_for_a_single_action(monkeypatch):
    monkeypatch.setattr(journals, "WRITE_SIZE", 10)
    journal = Journal(START, (A,))
    for count in (4, 6, 1, 11, 9, 1, 1):
        journal.append(ActionEntry(1, "x" * count))
    written = []
    while (effect := journal.next_write(MEASURES)) is not None:
        written.append([len(entry.body) for entry in effect.entries])
        journal.persisted(effect.token)
    assert written == [[4, 6], [1], [11], [9, 1], [1]]


def test_without_a_disk_all_that_is_new_counts_as_durable_at_once():
    journal = Journal(START, (A,), is_volatile=True)
    assert not journal.keep()
    journal.append(ActionEntry(1, "x"))
    assert journal.durable == 0
    assert journal.keep()
    assert (journal.durable, journal.keep(), journal.next_write(MEASURES)) == (1, False, None)
    journal.install(Snapshot(Position(4, 1), (B,), NO_TIMES, ()))
    assert journal.keep(), "the snapshot is new, though the journal ends where it did"
    assert not journal.keep()


def test_with_a_disk_nothing_is_durable_before_its_word():
    journal = journal_of(1)
    journal.append(ActionEntry(1, "x"))
    assert not journal.keep()
    assert journal.durable == 1


def test_what_is_not_durable_is_not_compacted():
    journal = journal_of(1)
    journal.append(ActionEntry(1, "x"))
    with pytest.raises(AssertionError):
        journal.compact(2)


def test_a_cut_leaves_the_terms_before_it():
    journal = journal_of(1, 2, 3, 3)
    journal.truncate(2)
    assert journal.ends() == (START, Position(1, 1), Position(2, 2))
    assert [journal.term_at(index) for index in range(3)] == [0, 1, 2]


def test_an_entry_that_nobody_follows_is_passed_over():
    journal = Journal(START, (A,), [], is_volatile=True)
    journal.append(VotersEntry(1, (A, B)))
    journal.keep()
    journal.pass_over(Position(2, 2))
    assert journal.floor == journal.end == Position(2, 2)
    assert (journal.end_index, journal.durable, journal.payloads(3, 2)) == (2, 2, [])
    assert (journal.voters.current, journal.voters.changed_at) == ((A, B), 1)
    assert not journal.keep()
    with pytest.raises(AssertionError):
        journal.pass_over(Position(2, 2))
    with pytest.raises(AssertionError):
        journal_of().pass_over(Position(1, 1))


def test_voters_are_in_force_when_appended_and_no_more_when_cut():
    journal = journal_of(1)
    journal.append(VotersEntry(1, (A, B)))
    journal.append(VotersEntry(2, (A, C), ("b",)))
    history = journal.voters
    assert (history.current, history.dismissed, history.changed_at) == ((A, C), ("b",), 3)
    changes = [((A,), ()), ((A, B), ()), ((A, C), ("b",))]
    assert [history.at(index) for index in (1, 2, 3)] == changes
    journal.truncate(2)
    assert (history.current, history.dismissed, history.changed_at) == ((A, B), (), 2)
    journal.persisted(write(journal).token)
    for index in (1, 2):
        journal.compact(index)
        assert history.at(2) == ((A, B), ())
    assert (history.current, history.changed_at) == ((A, B), 2)
