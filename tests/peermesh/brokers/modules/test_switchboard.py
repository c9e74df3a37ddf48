"""The decisions of the module broker: who gets what, and who may wait for whom."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, strategies as st

from peermesh.brokers.modules import switchboard
from peermesh.brokers.modules.errors import BrokerError, InboxFull
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.seat import LinkPolicy, Seat
from peermesh.brokers.modules.switchboard import Switchboard, Verdict
from peermesh.brokers.modules.worker import ThreadInbox
from tests.peermesh.brokers.modules.requirements import requirement


def add(board: Switchboard, name: str | None, size: int = 1) -> Seat:
    return board.add_module(name, size, ThreadInbox(), threading.Lock())


def seats(board: Switchboard, count: int, size: int = 1) -> list[Seat]:
    return [add(board, None, size) for _ in range(count)]


def offer(board: Switchboard, source: Seat, worker: Seat | None = None) -> list[Verdict]:
    """Publish, and give what became of the message at each link."""
    late = source.deliver(Message())
    return [
        board.offer(link, Message(), worker) if link in late else Verdict.DELIVERED
        for link in source.links
    ]


def test_a_worker_waits_for_room_but_not_for_one_that_waits_for_it() -> None:
    board = Switchboard()
    a, b, c = seats(board, 3)
    for source, sink in ((a, b), (b, c), (c, a)):
        board.add_link(source.number, sink.number, LinkPolicy.WAIT)
        assert offer(board, source, source) == [Verdict.DELIVERED]
    assert offer(board, a, a) == [Verdict.WAIT]
    assert offer(board, b, b) == [Verdict.WAIT]
    assert offer(board, c, c) == [Verdict.DELIVERED]  # beyond a's size
    assert a.inbox.qsize() == 2
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


@requirement("SRS_BROKER_13_052")
def test_a_removed_module_gets_nothing_more_and_still_sends() -> None:
    board = Switchboard()
    a, b, c = seats(board, 3)
    board.add_link(a.number, b.number, LinkPolicy.WAIT)
    board.add_link(b.number, c.number, LinkPolicy.WAIT)
    (link,) = a.links
    board.remove_module(b.number)
    assert board.offer(link, Message(), None) is Verdict.GONE
    assert offer(board, b, b) == [Verdict.DELIVERED]
    assert board.finish(b) == [c]
    with pytest.raises(BrokerError, match="publish no more"):
        b.deliver(Message())
    with pytest.raises(BrokerError):
        board.seat(b.number)


@requirement("SRS_BROKER_17_002")
def test_a_name_is_free_again_and_an_id_is_not() -> None:
    board = Switchboard()
    first = add(board, "a")
    board.remove_module("a")
    assert add(board, "a").number != first.number


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


def test_limits_hold(monkeypatch) -> None:
    monkeypatch.setattr(switchboard, "MODULES_MAX", 2)
    monkeypatch.setattr(switchboard, "LINKS_MAX", 1)
    board = Switchboard()
    a, b = seats(board, 2)
    with pytest.raises(BrokerError, match="2 modules already"):
        add(board, "c")
    board.add_link(a.number, b.number, LinkPolicy.WAIT)
    with pytest.raises(BrokerError, match="1 links already"):
        board.add_link(b.number, a.number, LinkPolicy.WAIT)
    board.remove_link(a.number, b.number)
    board.add_link(b.number, a.number, LinkPolicy.WAIT)
    board.remove_module(a.number)
    board.add_link(b.number, b.number, LinkPolicy.WAIT)
    add(board, "c")


def test_those_that_wait_are_not_passed_for_ever_by_others_that_find_room() -> None:
    board = Switchboard()
    a, b, c = seats(board, 3, size=4)
    for source in (a, b):
        board.add_link(source.number, c.number, LinkPolicy.WAIT)
    for _ in range(4):
        assert offer(board, a) == [Verdict.DELIVERED]
    assert offer(board, a) == [Verdict.WAIT]
    c.inbox.take()
    assert not c.reopen()
    assert offer(board, b) == [Verdict.WAIT]  # there is room, and another one waits for it
    c.inbox.take()
    assert c.reopen()
    assert offer(board, a) == offer(board, b) == [Verdict.DELIVERED]


def test_an_inbox_that_was_emptied_while_it_was_found_full_has_room() -> None:
    board = Switchboard()
    a, b = seats(board, 2)
    board.add_link(a.number, b.number, LinkPolicy.WAIT)
    assert offer(board, a) == [Verdict.DELIVERED]
    (late,) = a.deliver(Message())
    b.inbox.take()  # by a worker that saw no need to open it
    assert board.offer(late, Message(), None) is Verdict.DELIVERED


def test_a_worker_that_empties_an_inbox_while_it_is_being_shut_is_not_waited_for() -> None:
    class Emptied(ThreadInbox):
        """Is full when it is asked first, and empty afterwards."""

        def qsize(self) -> int:
            sizes.append(1)
            return 1 if len(sizes) == 1 else 0

    board, sizes = Switchboard(), []
    a = add(board, "a")
    b = board.add_module("b", 1, Emptied(), threading.Lock())
    board.add_link(a.number, b.number, LinkPolicy.WAIT)
    assert board.offer(a.links[0], Message(), None) is Verdict.DELIVERED
