"""Histories: what may be recorded, what is read again, and what is no history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from peermesh.testing.history import NEVER, Began, Ending, History, HistoryError, Seen, merge
from peermesh.testing.history_files import GrowingHistory, read_history, write_history
from peermesh.testing.history_lines import from_lines, to_lines
from peermesh.testing.observations import (
    OBSERVATIONS,
    Bookmark,
    Commit,
    Crossed,
    Delivered,
    Peered,
    Position,
    Published,
    Unpeered,
    WatchBegun,
    Watched,
)
from wire.encoding import encode
from wire.values import Count, Port, Set, Table

SEEN = [
    Commit(1, "k", (), "erase"),
    WatchBegun("w", 3),
    Watched("w", 1, 4, Count(1), (None,)),
    Bookmark("w", 4),
    Delivered({"a": 1}),
    Position("log/0", 17),
    Peered("b", "c1"),
    Unpeered("b", "c1"),
    Published(b"m", 16),
    Crossed(b"m", "a"),
]
VALUES = [None, 1, True, 1.0, Count(1), -0.0, "1", b"1", Port(1), (1, True), Set([1, True, 1.0]),
          Table([(1, 2), (True, 2.0)])]  # fmt: skip


def recorded() -> History:
    history = History()
    first = history.begin("p", "put", "k", Count(7), at=0.25, node="n")
    second = history.begin("q", "get", "k", at=0.25)
    history.end(second, at=0.5)
    history.lose(first, at=1.0, reason="timed out")
    history.fail(history.begin("p", "increment", "k", at=2.0), at=3.0, reason="TypeClash")
    for value in VALUES:
        history.end(history.begin("p", "get", value, at=4.0), value, at=5.0)
    for seen in SEEN:
        history.see("p", seen, at=6.0)
    history.begin("p", "put", "k", 1, at=7.0)
    return history


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert {type(seen) for seen in SEEN} == set(OBSERVATIONS.values())
    write_history(recorded(), tmp_path / "history.jsonl")
    found = read_history(tmp_path / "history.jsonl")
    # Equal is not enough: 1 and True are equal to Python.
    assert list(map(repr, found.events)) == list(map(repr, frozen(recorded()).events))
    assert [list(map(encode, each.arguments)) for each in found.operations()] == [
        list(map(encode, each.arguments)) for each in recorded().operations()
    ]


def frozen(history: History) -> History:
    """What is read has the containers of the wire."""
    events = [
        replace(event, what=Delivered(Table({"a": 1})))
        if isinstance(event, Seen) and isinstance(event.what, Delivered)
        else event
        for event in history.events
    ]
    return History(events)


def test_operations_have_their_intervals() -> None:
    put, get, *_, last = recorded().operations()
    assert (put.first, put.last, put.ending, put.node) == (0, NEVER, Ending.UNKNOWN, "n")
    assert (get.first, get.last, get.ending, get.node) == (1, 2, Ending.OK, "q")
    assert last.ending is Ending.UNKNOWN
    assert last.last == NEVER
    assert str(get) == "#2 q: get('k') -> nothing [0.25 s to 0.5 s]"
    assert "unknown outcome" in str(put)


def test_a_history_grows_in_its_file_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with GrowingHistory(path) as history:
        number = history.begin("p", "put", "k", 1, at=0)
        assert len(read_history(path).operations()) == 1
        history.end(number, at=1)
    with path.open("a") as file:
        file.write('{"at": 2, "process": "p", "ev')  # here its recorder was killed
    assert len(read_history(path)) == 2


def test_text_with_other_line_ends_stays_in_its_line(tmp_path: Path) -> None:
    history = History()
    history.see("p", Delivered("a\u2028b\x85c\rd\ne"), at=0)
    write_history(history, tmp_path / "history.jsonl")
    assert read_history(tmp_path / "history.jsonl").events == history.events


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "line 2: Expecting value"),
        ("[]", "JSON object"),
        ("[" * 100_000, "nested too deep"),
        ('{"process": "p", "event": "ok", "operation": 1}', '"at" is the time'),
        ('{"at": true, "process": "p", "event": "ok", "operation": 1}', '"at" is the time'),
        ('{"at": 1, "event": "ok", "operation": 1}', '"process" is text'),
        ('{"at": 1, "process": "p", "event": "sing"}', "no event 'sing'; there are begin, ok"),
        ('{"at": 1, "process": "p", "event": "ok", "operation": 9}', "not under way"),
        ('{"at": 1, "process": "p", "event": "ok", "operation": "1"}', "whole number"),
        ('{"at": 1, "process": "p", "event": "ok", "operation": 1, "result": [1, 2]}', "of none"),
        ('{"at": 1, "process": "p", "event": "ok", "operation": 1, "result": 1}', "an array"),
        ('{"at": 1, "process": "p", "event": "ok", "operation": 1, "x": 1}', "x has no place"),
        ('{"at": 1, "process": "p", "event": "begin", "operation": 1, "name": "a"}', "twice"),
        ('{"at": 1, "process": "p", "event": "delivered"}', '"message" is missing'),
        ('{"at": 1, "process": "p", "event": "delivered", "message": {"@data-type": "x", '
         '"data": 1}}', "no type 'x'"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_refused_with_the_line_and_the_reason(line: str, reason: str) -> None:
    first = '{"at": 0, "process": "p", "event": "begin", "operation": 1, "name": "a"}\n'
    with pytest.raises(HistoryError, match="line 2") as caught:
        from_lines([first, line + "\n"])
    assert reason in str(caught.value)


def test_an_operation_ends_once() -> None:
    history = History()
    number = history.begin("p", "a", at=0)
    history.end(number, at=1)
    with pytest.raises(HistoryError, match="not under way"):
        history.lose(number, at=2)


def test_histories_are_merged_by_their_times_and_get_new_numbers() -> None:
    left, right = History(), History()
    left.end(left.begin("l", "a", at=1), at=4)
    right.end(right.begin("r", "b", at=2), at=3)
    right.see("r", Bookmark("w", 1), at=9)
    merged = merge([left, right])
    assert [event.at for event in merged.events] == [1, 2, 3, 4, 9]
    outer, inner = merged.operations()
    assert (outer.number, inner.number) == (1, 2)
    assert outer.first < inner.first < inner.last < outer.last


def test_operations_that_may_have_overlapped_are_merged_so_that_they_do() -> None:
    left, right = History(), History()
    left.end(left.begin("l", "a", at=1), at=2)
    right.end(right.begin("r", "b", at=2), at=3)
    for order in ([left, right], [right, left]):
        first, second = merge(order).operations()
        assert second.first < first.last


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=20))
def test_merging_keeps_each_recorders_own_order(steps: list[Any]) -> None:
    histories = [History() for _ in range(3)]
    for number, (source, at) in enumerate(steps):
        histories[source].see(str(source), Position("x", number), at=at)
    merged = merge(histories)
    assert len(merged) == len(steps)
    for source in range(3):
        own = [event for event in merged.events if event.process == str(source)]
        assert own == histories[source].events


def test_a_line_says_all_of_an_event() -> None:
    history = History([Began(0.5, "p", 3, "put", ("k", Count(1)))])
    (line,) = to_lines(history)
    assert line == (
        '{"at": 0.5, "process": "p", "event": "begin", "operation": 3, "name": "put", '
        '"arguments": ["k", {"@data-type": "count", "data": 1}]}\n'
    )
