"""What a log's handle asks: numbered one by one, handed over in runs, refused if too large."""

from __future__ import annotations

import pytest

from stores.log import requests
from stores.log.limits import APPEND_COUNT_MAX, APPEND_SIZE_MAX, NAME_SIZE_MAX, OFFSET_END
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Trim
from stores.log.requests import LogRequests, check_name
from stores.log.runs import ENTRY_SIZE
from wire.errors import InvalidData

ENTRY = (None, b"v")


class Handed(list):
    """What was handed over: the first number, and the requests."""

    def __call__(self, first, asked):
        self.append((first, asked))


@pytest.fixture
def handed():
    return Handed()


def test_requests_are_numbered_and_handed_over_together_when_they_are_sealed(handed):
    made = LogRequests(handed)
    assert (made.is_sealed, made.size) == (True, 0)
    numbers = [
        made.append(1, ENTRY, "till", 7),
        made.append(0, ENTRY),
        made.move_cursor("c", ((0, 3), (1, 0))),
    ]
    assert (numbers, made.last_request, made.is_sealed, handed) == ([1, 2, 3], 3, False, [])
    made.seal()
    made.seal()
    first = (
        Append(1, "till", 7, ENTRY),
        Append(0, None, 0, ENTRY),
        MoveCursor("c", ((0, 3), (1, 0))),
    )
    assert handed == [(1, first)]
    assert (made.is_sealed, made.size) == (True, 2 * (1 + ENTRY_SIZE) + 2 * 32)
    assert [made.forget_consumer("c"), made.trim(1, 5)] == [4, 5]
    made.seal()
    assert handed[1:] == [(4, (ForgetConsumer("c"), Trim(1, 5)))]
    assert made.size == 0


def test_what_is_gathered_goes_to_another_owner(handed):
    made, other = LogRequests(handed), Handed()
    made.append(0, ENTRY)
    made.serve(other)
    made.seal()
    assert (handed, other) == ([], [(1, (Append(0, None, 0, ENTRY),))])


def test_a_run_is_handed_over_before_it_would_be_too_large_or_too_long(handed, monkeypatch):
    monkeypatch.setattr(requests, "RUN_SIZE_MAX", 3 * (1 + ENTRY_SIZE))
    made = LogRequests(handed)
    for _ in range(4):
        made.append(0, ENTRY)
    assert [(first, len(asked)) for first, asked in handed] == [(1, 3)]
    assert made.size == 3 * (1 + ENTRY_SIZE)
    monkeypatch.setattr(requests, "RUN_COUNT_MAX", 2)
    made.trim(0, 1)
    assert len(handed) == 1
    made.trim(0, 2)
    assert [(first, len(asked)) for first, asked in handed] == [(1, 3), (4, 2)]


def test_an_append_has_one_entry_at_least_and_as_many_and_as_large_as_there_may_be(handed):
    made = LogRequests(handed)
    largest = (None, bytes(APPEND_SIZE_MAX - ENTRY_SIZE))
    for entries in (ENTRY, (None, b"") * APPEND_COUNT_MAX, largest):
        made.append(0, entries)
    for entries, size in (
        ((), 0),
        ((None, b"") * (APPEND_COUNT_MAX + 1), (APPEND_COUNT_MAX + 1) * ENTRY_SIZE),
        ((b"k", largest[1]), APPEND_SIZE_MAX + 1),
    ):
        with pytest.raises(InvalidData) as caught:
            made.append(0, entries)
        assert str(caught.value) == (
            f"{len(entries) // 2} entries of {size} bytes: an append takes 1 to"
            f" {APPEND_COUNT_MAX} of at most {APPEND_SIZE_MAX} bytes together"
        )
    assert made.last_request == 3, "what is refused has no number"


@pytest.mark.parametrize("name", ["", "n" * (NAME_SIZE_MAX + 1), 7, None])
def test_a_name_has_some_characters_and_not_too_many(handed, name):
    made = LogRequests(handed)
    assert [check_name(good) for good in ("n", "n" * NAME_SIZE_MAX)] == ["n", "n" * NAME_SIZE_MAX]
    asks = [lambda: made.forget_consumer(name), lambda: made.move_cursor(name, ())]
    if name is not None:
        asks.append(lambda: made.append(0, ENTRY, name, 1))
    for ask in asks:
        with pytest.raises(InvalidData) as caught:
            ask()
        assert str(caught.value) == f"a name has 1 to 255 characters: {name!r:.40}"
    assert made.last_request == 0


@pytest.mark.parametrize("offset", [-1, OFFSET_END])
def test_an_offset_is_one_that_a_log_may_come_to(handed, offset):
    made = LogRequests(handed)
    for good in (0, OFFSET_END - 1):
        made.trim(0, good)
        made.move_cursor("c", ((0, good),))
    for ask in (
        lambda: made.trim(0, offset),
        lambda: made.move_cursor("c", ((0, 1), (1, offset))),
    ):
        with pytest.raises(InvalidData, match=f"an offset is between 0 and 2..52, not {offset}"):
            ask()
    assert made.last_request == 4
