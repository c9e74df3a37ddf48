"""Pinned revisions: pages of one moment, whatever is written meanwhile, within limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from stores.order import order_of
from stores.scanning import EVERYTHING, LATEST, Span
from stores.table import pins
from stores.table.pins import PIN_TICKS
from tests.stores.table.lab import SECOND_NS, Handle, Lab, shown
from tests.stores.table.test_machine_property import EVENTS, WRITES, Program
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData, RevisionGone


@pytest.fixture
def lab():
    return Lab()


@pytest.fixture
def handle(lab):
    return Handle(lab)


def pinned(machine):
    """Have the revision of now kept."""
    machine.scan(EVERYTHING, 1, machine.revision)
    return machine.revision


def pages(machine, revision, limit=2):
    """Go through a pinned revision page by page."""
    entries, span = [], EVERYTHING
    while True:
        page = machine.scan(span, limit, revision)
        assert page.revision == revision
        entries += page.entries
        if page.continuation is None:
            assert len(dict(entries)) == len(entries)
            return entries
        span = span.after(page.continuation)


def test_a_reader_goes_through_one_revision(lab, handle):
    handle.put_all((number, number) for number in range(6))
    lab.commit()
    machine = lab.leader
    revision = pinned(machine)
    first = machine.scan(EVERYTHING, 2, revision)
    handle.erase(4)
    handle.put(3, "new")
    handle.put(9, 9)
    lab.commit()
    handle.put(4, "again")
    lab.commit()
    handle.erase(5)
    handle.increment("staged")
    rest = machine.scan(EVERYTHING.after(first.continuation), 9, revision)
    found = [(decode(key), decode(entry.value)) for key, entry in first.entries + rest.entries]
    assert found == [(number, number) for number in range(6)]
    handle.clear()
    handle.put(1, "after")
    lab.commit()
    assert pages(machine, revision) == first.entries + rest.entries
    with pytest.raises(InvalidData):
        machine.scan(EVERYTHING, 0, revision)


def test_a_revision_that_was_not_pinned_or_is_let_go_is_gone(lab, handle):
    machine = lab.leader
    handle.put(1, 1)
    lab.commit()
    with pytest.raises(RevisionGone, match="revision 5 is not kept here: read from the start"):
        machine.scan(EVERYTHING, 1, 5)
    revision = pinned(machine)
    handle.put(1, 2)
    lab.commit()
    for _ in range(PIN_TICKS):
        machine.tick()
    machine.scan(EVERYTHING, 1, revision)
    for _ in range(PIN_TICKS + 1):
        machine.tick()
    with pytest.raises(RevisionGone):
        machine.scan(EVERYTHING, 1, revision)


def test_a_first_page_keeps_its_revision_if_there_are_more(lab, handle):
    machine = lab.leader
    handle.put_all((number, number) for number in range(3))
    lab.commit()
    revision = machine.revision
    assert machine.scan(EVERYTHING, 3, LATEST).continuation is None
    assert "pins=0" in repr(machine), "a page that is all keeps nothing"
    assert machine.scan(EVERYTHING, 2, LATEST).revision == revision
    handle.erase(2)
    lab.commit()
    assert [decode(key) for key, _ in pages(machine, revision)] == [0, 1, 2]
    assert len(machine.scan(EVERYTHING, 9, LATEST).entries) == 2


def test_a_page_of_every_second_entry_keeps_its_revision(lab, handle):
    machine = lab.leader
    handle.put_all((number, number) for number in range(3))
    lab.commit()
    assert machine.scan(EVERYTHING, 3, LATEST, 2).continuation is None
    assert "pins=1" in repr(machine), "the entries between are read later"


def test_what_is_staged_after_a_clear_is_nothing_to_a_revision_before_it(lab, handle):
    machine = lab.leader
    handle.put(1, "before")
    lab.commit()
    revision = pinned(machine)
    handle.clear()
    handle.put(1, "after")
    lab.commit()
    handle.put(1, "staged")
    handle.increment("staged")  # It is done in the table, with what was staged before it.
    assert [decode(entry.value) for _, entry in pages(machine, revision)] == ["before"]


def test_reading_on_keeps_a_revision(lab, handle, monkeypatch):
    monkeypatch.setattr(pins, "PINS_MAX", 2)
    machine, found = lab.leader, []
    for number in range(6):
        handle.put(number, number)
        lab.commit()
        found.append(pinned(machine))
        machine.tick()
        assert len(pages(machine, found[0])) == 1
    with pytest.raises(RevisionGone):
        pages(machine, found[-2])


def test_the_number_of_pins_is_limited(lab, handle, monkeypatch):
    monkeypatch.setattr(pins, "PINS_MAX", 2)
    found = []
    for number in range(3):
        handle.put(number, number)
        lab.commit()
        found += [pinned(lab.leader), pinned(lab.leader)]
    assert found == [1, 1, 2, 2, 3, 3]
    with pytest.raises(RevisionGone):
        pages(lab.leader, 1)
    assert len(pages(lab.leader, 2)) == 2


@pytest.mark.parametrize("what", ["put", "clear"])
def test_what_pins_remember_is_limited(lab, handle, monkeypatch, what):
    monkeypatch.setattr(pins, "PINS_SIZE_MAX", 5_000)
    handle.put_all((number, "x" * 2_000) for number in range(3))
    lab.commit()
    revision = pinned(lab.leader)
    handle.put(0, 0)
    handle.put(1, 1)
    lab.commit()
    assert len(pages(lab.leader, revision)) == 3
    handle.put(2, 2) if what == "put" else handle.clear()
    lab.commit()
    with pytest.raises(RevisionGone):
        pages(lab.leader, revision)
    handle.put(0, "x" * 2_000)
    lab.commit()
    revision = pinned(lab.leader)
    handle.put(0, 0)
    lab.commit()
    assert pages(lab.leader, revision)


def test_a_snapshot_ends_all_pins(lab, handle):
    handle.put(1, 1)
    lab.commit()
    revision = pinned(lab.leader)
    handle.put(2, 2)
    lab.commit()
    lab.leader.install(lab.followers[0].freeze())
    with pytest.raises(RevisionGone):
        pages(lab.leader, revision)


class Pinned(Program):
    """A program whose leader and a follower pin revisions now and then."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def pin(self):
        for machine in (self.lab.leader, self.lab.followers[0]):
            if not machine.revision:
                continue  # There is nothing to keep.
            self.kept.append((machine, pinned(machine), shown(machine)[0]))

    def check(self):
        super().check()
        for machine, revision, entries in self.kept:
            assert dict(pages(machine, revision)) == entries


@settings(deadline=None, max_examples=200)
@given(st.lists(WRITES | EVENTS | st.tuples(st.just("pin")), max_size=25))
def test_a_pinned_revision_stays_as_it_was(program):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pins, "PINS_MAX", 1_000)
        Pinned().run(program)


def test_pins_cost_nothing_to_expiry(lab, handle):
    handle.put("short", 1, SECOND_NS)
    lab.commit()
    revision = pinned(lab.leader)
    lab.now_ns = SECOND_NS
    lab.expire()
    lab.commit()
    assert len(lab.leader) == 0
    assert len(pages(lab.leader, revision)) == 1


# -- what is kept, exactly -------------------------------------------------------------------------


def test_each_pin_remembers_what_it_takes_and_no_more(lab, handle, monkeypatch):
    """The limit is met, byte by byte: a byte less lets go of the pin."""
    key, value = encode("key"), encode("x" * 500)
    size = 2 * pins.REMEMBERED_SIZE + len(key) + len(value) + len(encode("new"))
    for room, is_kept in ((size, True), (size - 1, False)):
        own = Lab()
        writer = Handle(own)
        writer.put("key", "x" * 500)
        own.commit()
        revision = pinned(own.leader)
        monkeypatch.setattr(pins, "PINS_SIZE_MAX", room)
        writer.put("key", 2)
        writer.put("new", 1)
        writer.put("key", 3)
        own.commit()
        assert (len(own.leader._pins) == 1) is is_kept
        if is_kept:
            assert len(pages(own.leader, revision)) == 1


def test_a_table_of_before_a_clear_is_counted_once(lab, handle, monkeypatch):
    handle.put_all([("a", 1), ("b", 1)])
    lab.commit()
    size = lab.leader.size
    revision = pinned(lab.leader)
    monkeypatch.setattr(pins, "PINS_SIZE_MAX", size)
    handle.clear()
    handle.clear()
    handle.put("a", 2)
    handle.erase("b")
    lab.commit()
    assert len(pages(lab.leader, revision)) == 2
    monkeypatch.setattr(pins, "PINS_SIZE_MAX", size + lab.leader.size)
    second = pinned(lab.leader)
    handle.clear()
    lab.commit()
    assert len(pages(lab.leader, second)) == 1
    assert len(pages(lab.leader, revision)) == 2
    for _ in range(PIN_TICKS + 1):
        lab.leader.tick()
    assert len(lab.leader._pins) == 0
    handle.put("a", 2)
    lab.commit()
    pinned(lab.leader)
    monkeypatch.setattr(pins, "PINS_SIZE_MAX", lab.leader.size)
    handle.clear()
    lab.commit()
    assert len(lab.leader._pins) == 1, "what is let go takes no room"


def test_a_page_of_a_pinned_revision_has_what_was_removed_within_its_span(lab, handle):
    handle.put_all((number, number) for number in range(20))
    lab.commit()
    machine = lab.leader
    revision = pinned(machine)
    machine.scan(EVERYTHING, 9)
    before = machine.scan(EVERYTHING, 20, revision).entries
    for number in (0, 3, 4, 5, 6, 9, 9, 19):
        handle.erase(number)
    handle.put(5, "again")
    handle.erase(5)
    lab.commit()
    handle.erase(7)
    handle.increment("n")
    for limit in (1, 2, 3, 7, 20):
        assert pages(machine, revision, limit) == before
    span = Span(order_of(encode(3)), order_of(encode(9)))
    assert machine.scan(span, 20, revision).entries == before[3:9]
    found = machine.scan(EVERYTHING, 20, revision, 3).entries
    assert [decode(key) for key, _ in found] == [1, 10, 13, 16], "of those that are there now"


def test_a_scan_by_steps_keeps_its_revision(lab, handle):
    handle.put_all((number, number) for number in range(6))
    lab.commit()
    machine = lab.leader
    assert [decode(key) for key, _ in machine.scan(EVERYTHING, 9, LATEST, 3).entries] == [0, 3]
    assert len(machine._pins) == 1
    handle.clear()
    lab.commit()
    assert len(pages(machine, 6)) == 6


def test_a_pin_that_is_asked_for_again_is_not_idle(lab, handle):
    handle.put(1, 1)
    lab.commit()
    machine = lab.leader
    for _ in range(PIN_TICKS):
        machine.tick()
    revision = pinned(machine)
    for _ in range(PIN_TICKS):
        machine.tick()
    machine._pins.pin()
    for _ in range(PIN_TICKS):
        machine.tick()
    assert len(machine._pins) == 1
    machine.tick()
    assert len(machine._pins) == 0
    assert machine.scan(EVERYTHING, 1, revision).revision == revision, "that of now needs no pin"
    said = f"without a pause of {PIN_TICKS // 10} s between pages"
    with pytest.raises(RevisionGone, match=said):
        machine.scan(EVERYTHING, 1, 99)


def test_pins_of_several_tables_are_told_of_what_is_theirs(lab, handle):
    handle.put("a", 1)
    lab.commit()
    machine = lab.leader
    first = pinned(machine)
    handle.clear()
    handle.put("a", 2)
    lab.commit()
    second = pinned(machine)
    handle.put("a", 3)
    lab.commit()
    handle.increment("a")
    assert [decode(entry.value) for _, entry in pages(machine, first)] == [1]
    assert [decode(entry.value) for _, entry in pages(machine, second)] == [2]
    with pytest.raises(RevisionGone):
        machine.scan(EVERYTHING, 1, 99)
    assert len(machine._pins) == 2, "what is gone is not kept"


def test_what_was_never_there_hides_nothing_that_was(lab, handle):
    handle.put(9, 1)
    lab.commit()
    revision = pinned(lab.leader)
    for number in range(5):
        handle.put(number, 1)
        handle.erase(number)
        lab.commit()
        handle.erase(number)
    handle.erase(9)
    lab.commit()
    assert [decode(key) for key, _ in pages(lab.leader, revision, 1)] == [9]


def test_what_all_pins_remember_is_counted_together(lab, handle, monkeypatch):
    handle.put("a", 1)
    lab.commit()
    pinned(lab.leader)
    handle.put("b", 1)
    lab.commit()
    pinned(lab.leader)
    each = pins.REMEMBERED_SIZE + len(encode("a")) + len(encode(1))
    monkeypatch.setattr(pins, "PINS_SIZE_MAX", lab.leader._pins._size + 2 * each - 1)
    handle.put("a", 2)
    lab.commit()
    assert len(lab.leader._pins) == 1
