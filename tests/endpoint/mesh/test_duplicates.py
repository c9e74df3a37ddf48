"""Duplicate suppression: equal to a plain set of the last pages, and bounded."""

from __future__ import annotations

import sys
from itertools import count

import pytest
from hypothesis import given, strategies as st

from endpoint.mesh.duplicates import FULL, PAGE_SIZE, PAGES, SequenceWindow, SequenceWindows
from wire.identifiers import EndpointId
from wire.limits import SEQUENCE_MAX
from wire.messages import NodeHeader, PackedType

FRAME = 1024
ALL = (1 << FRAME) - 1
EVERY_SECOND = sum(1 << place for place in range(0, FRAME, 2))


class Model:
    """What a window does, number by number, with a plain set."""

    def __init__(self) -> None:
        self.window = SequenceWindow()
        self.seen: set[int] = set()
        self.end = -1

    def admit(self, first: int, mask: int) -> int:
        """Admit the numbers of a mask in both; give the mask of those that were new."""
        numbers = [first + place for place in range(mask.bit_length()) if mask >> place & 1]
        self.end = max(self.end, numbers[-1])
        oldest = (self.end // PAGE_SIZE - PAGES + 1) * PAGE_SIZE
        new = [number for number in numbers if number >= oldest and number not in self.seen]
        wanted = sum(1 << number - first for number in new)
        assert self.window.missing(first, mask) == wanted
        if mask & (mask + 1):
            found = self.window.admit_mask(first, mask)
        else:
            found = self.window.admit_range(first, mask.bit_length())
        assert found == (None if wanted == mask else wanted)
        assert self.window.missing(first, mask) == 0
        self.seen.update(numbers)
        return wanted


masks = st.one_of(
    st.integers(1, FRAME).map(lambda size: (1 << size) - 1),
    st.sampled_from([EVERY_SECOND, EVERY_SECOND << 1, ALL, 1]),
    st.integers(0, ALL).map(lambda bits: bits | 1),
    st.integers(0, 1 << 20).map(lambda bits: bits | 1),
)
FURTHEST = SEQUENCE_MAX - 200 * PAGE_SIZE


@given(
    st.sampled_from([0, 1, 5_000, 2**63 - 9, FURTHEST, SEQUENCE_MAX - 70_000])
    | st.integers(0, FURTHEST),
    st.lists(
        st.tuples(
            st.one_of(
                st.just(0),
                st.integers(-3, 3),
                st.integers(-2 * FRAME, 2 * FRAME),
                st.integers(-70 * PAGE_SIZE, 70 * PAGE_SIZE),
            ),
            masks,
        ),
        max_size=60,
    ),
)
def test_it_admits_what_a_set_of_the_last_pages_would(base, steps):
    model, at = Model(), base
    for shift, mask in steps:
        first = max(0, min(at + shift, SEQUENCE_MAX - mask.bit_length() + 1))
        model.admit(first, mask)
        at = first + mask.bit_length()


@given(st.lists(st.integers(0, 60), max_size=200))
def test_it_admits_each_number_once_whatever_the_order(numbers):
    window, seen = SequenceWindow(), set()
    for number in numbers:
        assert window.admit_range(number, 1) == (None if number not in seen else 0)
        seen.add(number)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_run_from_zero_is_remembered_whatever_comes_next(count):
    window = SequenceWindow()
    assert window.admit_range(0, count) is None
    assert window.admit_range(10, 1) is None
    assert window.admit_range(0, count) == 0


@given(st.integers(0, 4 * FRAME), st.permutations(range(16)), st.randoms())
def test_halves_of_frames_that_arrive_swapped_are_all_new_once(base, order, chance):
    model = Model()
    halves = [(base + frame * FRAME + half, EVERY_SECOND) for frame in order for half in (0, 1)]
    chance.shuffle(halves)
    for first, mask in halves:
        assert model.admit(first, mask) == mask
    for first, mask in halves:
        assert model.admit(first, mask) == 0
    assert model.window.missing(base, ALL) == 0


def test_a_frame_comes_by_two_paths_of_which_one_has_a_part():
    window = SequenceWindow()
    assert window.admit_range(0, FRAME) is None
    assert window.admit_mask(FRAME, EVERY_SECOND) is None
    assert window.admit_range(FRAME, FRAME) == EVERY_SECOND << 1
    assert window.admit_range(FRAME, FRAME) == 0
    assert window.admit_range(FRAME // 2, FRAME) == 0
    assert window.admit_range(2 * FRAME - 1, 3) == 0b110


def test_a_subscriber_of_every_second_topic_gets_each_message_once():
    window = SequenceWindow()
    for frame in range(3 * PAGES):
        first = frame * FRAME
        assert window.admit_mask(first, EVERY_SECOND) is None
        assert window.admit_mask(first, EVERY_SECOND) == 0
        if frame >= PAGES:
            late = first - (PAGES - 1) * FRAME
            assert window.missing(late, ALL) == EVERY_SECOND << 1
            assert window.missing(late - FRAME, ALL) == 0, "too old to tell"


@pytest.mark.parametrize("has_gap", [False, True])
def test_what_is_more_than_64_pages_back_counts_as_seen(has_gap):
    window = SequenceWindow()
    first = 100 * PAGE_SIZE
    window.admit_range(first, 1)
    if has_gap:
        window.admit_range(first + 2, 1)
    oldest = first - (PAGES - 1) * PAGE_SIZE
    assert window.missing(oldest - 2, 0b1111) == 0b1100
    assert window.admit_range(oldest - 2, 4) == 0b1100
    assert window.admit_range(oldest - 2, 2) == 0
    assert window.admit_range(oldest + 2, 4) is None, "in the oldest page"
    for page in (1, 2, 50):
        too_old = oldest - page * PAGE_SIZE
        assert window.admit_range(too_old, FRAME) == 0
        assert window.admit_range(too_old - FRAME // 2, FRAME) == 0, "in two pages"
    for page in range(1, PAGES - 1):
        assert window.missing(oldest + page * PAGE_SIZE, ALL) == ALL, "it has left no trace"
    window.admit_range(first + PAGE_SIZE, 1)
    assert window.missing(oldest, ALL) == 0, "the oldest page went"
    assert window.missing(oldest + PAGE_SIZE, ALL) == ALL


@pytest.mark.parametrize("begin", [0, 1, 100, 511, 512, 1023])
@pytest.mark.parametrize("count", [1, 824, 1024])
def test_the_first_gap_forgets_nothing_of_the_run_before_it(begin, count):
    window = SequenceWindow()
    first = 3 * PAGE_SIZE + begin
    for at in (first, first + count):
        assert window.admit_range(at, count) is None
    last = first + 2 * count - 1
    assert window.admit_range(last + 2, 1) is None
    for at in range(2 * PAGE_SIZE, 7 * PAGE_SIZE, PAGE_SIZE):
        seen = sum(1 << n - at for n in (*range(first, last + 1), last + 2) if 0 <= n - at < FRAME)
        assert window.missing(at, ALL) == ALL & ~seen


@pytest.mark.parametrize("before", [1, 100, FRAME - 1])
def test_a_frame_that_begins_before_the_run_lacks_what_is_before_it(before):
    window = SequenceWindow()
    first = 5 * PAGE_SIZE + 7
    window.admit_range(first, FRAME)
    assert window.missing(first - before, ALL) == (1 << before) - 1


def test_the_first_gap_keeps_all_pages_of_a_long_run():
    window = SequenceWindow()
    for page in range(PAGES - 1):
        window.admit_range(page * PAGE_SIZE, FRAME)
    last = (PAGES - 1) * PAGE_SIZE
    window.admit_range(last, 10)
    window.admit_range(last + 20, 1)
    for page in range(PAGES - 1):
        assert window.missing(page * PAGE_SIZE, ALL) == 0


def test_a_leap_forgets_what_lies_before_it():
    for leap in (1, PAGES - 1, PAGES, PAGES + 1, 3 * PAGES, 10**6):
        window = SequenceWindow()
        window.admit_mask(0, EVERY_SECOND)
        first = leap * PAGE_SIZE
        assert window.admit_range(first, FRAME) is None
        assert window.missing(0, ALL) == (EVERY_SECOND << 1 if leap < PAGES else 0)
        for page in range(max(1, leap - PAGES + 1), leap):
            assert window.missing(page * PAGE_SIZE, ALL) == ALL


def test_numbers_ahead_are_new_whatever_their_page_held_before():
    window = SequenceWindow()
    for page in range(PAGES + 3):
        window.admit_mask(page * PAGE_SIZE, EVERY_SECOND)
    for ahead in range(PAGES + 3, 2 * PAGES):
        assert window.missing(ahead * PAGE_SIZE, ALL) == ALL
    half = (PAGES + 3) * PAGE_SIZE - FRAME // 2
    assert window.missing(half, ALL) == ALL & ~(EVERY_SECOND & (1 << FRAME // 2) - 1)


def test_the_last_numbers_of_all_are_numbers_too():
    window = SequenceWindow()
    assert window.admit_range(SEQUENCE_MAX, 1) is None
    assert window.admit_range(SEQUENCE_MAX, 1) == 0
    assert window.admit_range(SEQUENCE_MAX - 9, 9) is None
    assert window.admit_mask(SEQUENCE_MAX - 9, 0b1000000001) == 0
    assert window.missing(0, ALL) == 0


def test_numbers_in_a_row_cost_nothing_to_remember():
    window = SequenceWindow()
    for first in range(10**12, 10**12 + 500 * FRAME, FRAME):
        assert window.admit_range(first, FRAME) is None
    last = 10**12 + 499 * FRAME
    for first in (10**12, 10**12 + 7, last):
        assert window.admit_range(first, FRAME) == 0, "a repetition is no gap"
    assert window._pages is None


@pytest.mark.parametrize("step", [1, -1])
def test_gaps_cost_bounded_memory(step):
    window = SequenceWindow()
    for number in range(0, 4 * PAGES * PAGE_SIZE, 3)[::step]:
        window.admit_range(number, 1)
    assert len(window._pages) == PAGES
    assert sum(map(sys.getsizeof, window._pages)) < 12_000


def test_a_page_that_two_frames_filled_is_the_same_object():
    window = SequenceWindow()
    window.admit_range(PAGE_SIZE + 10, PAGE_SIZE - 10)
    window.admit_range(PAGE_SIZE - 5, 15)
    assert window._pages[1] is FULL


def test_full_pages_are_one_object():
    window = SequenceWindow()
    window.admit_range(1, 2)
    window.admit_range(0, 1)
    for first in (5, 3):
        window.admit_range(first, 2)
    for number in count(7):
        if number == PAGE_SIZE:
            break
        window.admit_range(number, 1)
    assert window._pages[0] is FULL


def test_a_closed_window_admits_nothing():
    window = SequenceWindow.closed()
    for first in (0, 1, 2**32, SEQUENCE_MAX - FRAME + 1):
        assert window.missing(first, ALL) == 0
        assert window.admit_range(first, FRAME) == 0
        assert window.admit_mask(first, EVERY_SECOND) == 0


def header(number, kind=PackedType.DATA):
    return NodeHeader(kind, EndpointId(number.to_bytes(16)), None, "/")


def test_windows_of_many_who_come_and_go_do_not_drive_out_those_in_use():
    windows = SequenceWindows(EndpointId(bytes(16)), endpoints_max=10)
    lasting = windows.of(header(1))
    assert lasting.admit_range(5, 1) is None
    for number in range(2, 1_000):
        windows.of(header(number)).admit_range(number, 1)
        assert windows.of(header(1)) is lasting
    assert windows.of(header(1, PackedType.COMMAND)) is not lasting
    assert len(windows._windows) == 22
    assert windows.of(header(0)).admit_range(1, 1) == 0, "nothing of ours comes back"
