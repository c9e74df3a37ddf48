"""The decisions of the module broker: who gets what, and who may wait for whom."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from peermesh.brokers.modules import switchboard
from peermesh.brokers.modules.errors import BrokerError, InboxFull
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.switchboard import LinkPolicy, Seat, Switchboard, Verdict


def seats(board: Switchboard, count: int, size: int = 1) -> list[Seat]:
    return [board.add_module(None, size) for _ in range(count)]


def offer(board: Switchboard, source: Seat, worker: Seat | None = None) -> list[Verdict]:
    return [board.offer(link, Message(), worker) for link in board.begin(source)]


def test_a_worker_waits_for_room_but_not_for_one_that_waits_for_it() -> None:
    board = Switchboard()
    a, b, c = seats(board, 3)
    for source, sink in ((a, b), (b, c), (c, a)):
        board.add_link(source.number, sink.number, LinkPolicy.WAIT)
        assert offer(board, source, source) == [Verdict.DELIVERED]
    assert offer(board, a, a) == [Verdict.WAIT]
    assert offer(board, b, b) == [Verdict.WAIT]
    assert offer(board, c, c) == [Verdict.DELIVERED]  # beyond a's size
    assert len(a.inbox) == 2
    assert offer(board, c, None) == [Verdict.WAIT]  # nobody waits for a stranger


def test_what_may_not_wait_is_bounded_all_the_same(monkeypatch) -> None:
    monkeypatch.setattr(switchboard, "EXCESS_MAX", 3)
    board = Switchboard()
    (a,) = seats(board, 1)
    board.add_link(a.number, a.number, LinkPolicy.WAIT)
    for _ in range(4):
        assert offer(board, a, a) == [Verdict.DELIVERED]
    with pytest.raises(InboxFull, match="more than they receive"):
        offer(board, a, a)


def test_a_removed_module_gets_nothing_more_and_still_sends() -> None:
    board = Switchboard()
    a, b, c = seats(board, 3)
    board.add_link(a.number, b.number, LinkPolicy.WAIT)
    board.add_link(b.number, c.number, LinkPolicy.WAIT)
    (link,) = board.begin(a)
    board.remove_module(b.number)
    assert board.offer(link, Message(), None) is Verdict.GONE
    assert offer(board, b, b) == [Verdict.DELIVERED]
    assert board.finish(b) == [c]
    assert board.begin(b) == []
    with pytest.raises(BrokerError):
        board.seat(b.number)


def test_a_name_is_free_again_and_an_id_is_not() -> None:
    board = Switchboard()
    first = board.add_module("a", 1)
    board.remove_module("a")
    assert board.add_module("a", 1).number != first.number


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=60))
def test_nobody_ever_waits_in_a_circle(waits: list[tuple[int, int]]) -> None:
    board = Switchboard()
    modules = seats(board, 5)
    for worker, other in ((modules[one], modules[two]) for one, two in waits):
        worker.awaited = None
        if board.may_await(worker, other):
            worker.awaited = other
        for seat in modules:
            steps, at = 0, seat.awaited
            while at is not None:
                at, steps = at.awaited, steps + 1
                assert steps <= len(modules)
