"""What is remembered of one named producer: as a list of tuples, in a twelfth of the room."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given, strategies as st

from stores.log import producers, windows
from stores.log.producers import ProducerRow, Producers
from stores.log.windows import Appends, Window, encoded

Appended = tuple[int, int, int]


def appended(count: int, step: int = 1) -> list[Appended]:
    """Give appends whose numbers take all widths."""
    return [(at * step, at % 1_024, at * 2**41) for at in range(count)]


def filled(found: list[Appended]) -> Window:
    window = Window()
    for each in found:
        window.add(*each)
    return window


def check(window: Window, known: list[Appended]) -> None:
    """Compare a window, and what is made of it, with what it should have."""
    frozen = window.frozen()
    for each in (frozen, frozen.thawed().frozen(), Appends.of(known), Appends.of(iter(known))):
        assert list(each) == known
        assert (each, len(each)) == (tuple(known), len(known))
        assert each.encoded() == encoded(each) == encoded(tuple(known)) == cbor2.dumps(known)
        assert (repr(each), hash(each)) == (repr(tuple(known)), hash(tuple(known)))
    for each in (window, frozen.thawed()):
        assert len(each) == len(known)
        if known:
            assert (each.first, each.last) == (known[0][0], known[-1][0])
        for sequence in {
            -1,
            *range(0, 40, 7),
            *(seq + more for seq, *_ in known for more in (0, 1)),
        }:
            places = {number: tuple(place) for number, *place in known}
            assert each.place(sequence) == places.get(sequence), sequence


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 127, 128, 129, 300])
@pytest.mark.parametrize("dropped", [0, 1, 63, 64, 65, 128])
def test_a_window_is_what_it_has_taken(count: int, dropped: int) -> None:
    known, window = appended(count, 3), filled(appended(count, 3))
    for _ in range(min(dropped, count)):
        window.drop()
    check(window, known[dropped:])


@given(st.lists(st.sampled_from(["add", "drop", "thaw"]), max_size=60), st.integers(1, 4))
def test_a_window_is_what_it_has_taken_in_any_order(steps: list[str], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "BLOCK_COUNT", block)
        window, known, frozen = Window(), list[Appended](), list[tuple[Appends, list[Appended]]]()
        for number, step in enumerate(steps):
            if step == "add":
                known.append((5 * number, number % 3, 1_000 * number))
                window.add(*known[-1])
            elif step == "thaw":
                window = window.frozen().thawed()
            elif known:
                window.drop()
                del known[0]
            frozen.append((window.frozen(), list(known)))
        check(window, known)
        for found, expected in frozen:
            assert list(found) == expected, "what was given does not change"


def test_numbers_have_all_64_bits() -> None:
    known = [(2**64 - 200 + at, 1_023, 2**52 - 200 + at) for at in range(199)]
    window = filled(known)
    for _ in range(70):
        window.drop()
    check(window, known[70:])


def test_appends_are_a_sequence() -> None:
    found = filled(appended(130)).frozen()
    assert (found[0], found[-1], found[64:66]) == (
        appended(1)[0], appended(130)[-1], tuple(appended(130)[64:66]),
    )  # fmt: skip
    assert found != appended(129)
    assert found != 7
    assert Appends.of(found) is found, "it is not encoded twice"
    assert ProducerRow("p", found, 0) == ProducerRow("p", tuple(appended(130)), 0)


def test_a_block_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    window = filled(appended(1_000))
    blocks = window.frozen()._blocks
    assert len(blocks) == 1_000 // windows.BLOCK_COUNT
    window.add(10**6, 0, 0)
    assert all(one is other for one, other in zip(window.frozen()._blocks, blocks, strict=True))
    again = window.frozen().thawed().frozen()._blocks
    assert all(one is other for one, other in zip(again, blocks, strict=True))


# What a file is told.


def known_by_file(changes: list[producers.ProducerChange], rows: dict[str, ProducerRow]) -> None:
    """Do what a file does: those that changed are behind all others."""
    for name, row in changes:
        rows.pop(name, None)
        if row is not None:
            rows[name] = row


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=80))
def test_changes_add_up_to_what_is_known(steps: list[tuple[int, bool]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "PRODUCERS_MAX", 3)
        patch.setattr(producers, "RETIRED_PRODUCERS_MAX", 2)
        patch.setattr(producers, "PRODUCER_WINDOW", 3)
        patch.setattr(windows, "BLOCK_COUNT", 2)
        known, rows = Producers(), dict[str, ProducerRow]()
        known.follow()
        for number, (name, is_taken) in enumerate(steps):
            known.add(f"p{name}", number, 0, number)
            if is_taken:
                known_by_file(known.take_changes(), rows)
                known.follow()
        known_by_file(known.take_changes(), rows)
        assert list(Producers(rows.values()).rows()) == list(known.rows())
        assert known.take_changes() == []


def test_a_file_is_told_of_those_alone_that_changed() -> None:
    known = Producers([ProducerRow(name, ((1, 0, 0),), 1) for name in "abc"])
    known.add("a", 2, 0, 1)
    known.follow()
    for name in "cbc":
        known.add(name, 9, 0, 9) if known.numbers(name) == (1, 1) else known.add(name, 10, 0, 10)
    assert [name for name, _ in known.take_changes()] == ["b", "c"]
    known.add("a", 3, 0, 1)
    assert known.take_changes() == [("a", ProducerRow("a", ((1, 0, 0), (2, 0, 1), (3, 0, 1)), 1))]


def test_of_a_retired_producer_a_file_is_told_its_last_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 1)
    known = Producers()
    known.follow()
    known.add("a", 7, 1, 5)
    known.add("b", 9, 0, 6)
    assert known.take_changes() == [
        ("b", ProducerRow("b", ((9, 0, 6),), 9)),
        ("a", ProducerRow("a", (), 8)),
    ]


def test_where_there_is_no_file_nothing_is_noted() -> None:
    known = Producers()
    known.add("a", 1, 0, 0)
    assert known.take_changes() == []
