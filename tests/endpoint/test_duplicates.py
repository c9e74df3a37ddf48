"""Duplicate suppression: exact against a plain set, and bounded."""

from hypothesis import given, strategies as st

from endpoint.duplicates import RUNS_MAX, SequenceWindow, SequenceWindows
from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType


@given(st.lists(st.integers(0, 60), max_size=200))
def test_it_admits_each_number_once_whatever_the_order(numbers: list[int]) -> None:
    window, seen = SequenceWindow(), set()
    for number in numbers:
        assert window.admit(number) == (number not in seen)
        seen.add(number)


@given(st.permutations(range(40)))
def test_any_order_of_a_run_ends_as_one_run(numbers: list[int]) -> None:
    window = SequenceWindow()
    assert all(window.admit(number) for number in numbers)
    assert len(window._starts) == 1
    assert window.end == 39


def test_gaps_are_normal_and_cost_bounded_memory() -> None:
    window = SequenceWindow()
    for number in range(0, 20 * RUNS_MAX, 2):
        assert window.admit(number)
    assert len(window._starts) <= RUNS_MAX
    assert len(window._starts) == len(window._ends)


def test_numbers_that_come_backwards_cost_bounded_memory_too() -> None:
    window = SequenceWindow()
    for number in range(20 * RUNS_MAX, 0, -2):
        window.admit(number)
    assert len(window._starts) <= RUNS_MAX
    assert len(window._starts) == len(window._ends)


def test_what_is_too_old_to_tell_counts_as_seen() -> None:
    window = SequenceWindow()
    for number in range(0, 20 * RUNS_MAX, 2):
        window.admit(number)
    assert not window.admit(1)
    recent = 20 * RUNS_MAX - 3
    assert window.admit(recent)
    assert not window.admit(recent)


def header(number: int, kind: PackedType = PackedType.DATA) -> NodeHeader:
    return NodeHeader(kind, EndpointId(number.to_bytes(16)), None, "/")


def test_windows_of_many_who_come_and_go_do_not_drive_out_those_in_use() -> None:
    windows = SequenceWindows(EndpointId(bytes(16)), endpoints_max=10)
    lasting = windows.of(header(1))
    assert lasting.admit(5)
    for number in range(2, 1_000):
        windows.of(header(number)).admit(number)
        assert windows.of(header(1)) is lasting
    assert windows.of(header(1, PackedType.COMMAND)) is not lasting
    assert len(windows._windows) == 22
    assert not windows.of(header(0)).admit(1), "nothing of ours comes back"
