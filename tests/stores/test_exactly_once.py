"""What the machines of stores and logs promise alike: each request of a writer is done once.

A kind says how its machine is asked for something that counts, and for something that it refuses.
"""

from __future__ import annotations

import pytest

from stores.actions import PutCommand
from stores.group.machine import Answer, Staged
from stores.log.bodies import Write as LogWrite
from stores.log.messages import Append as AppendRequest, Requests
from stores.outcomes import Applied, Outcome, Refused
from stores.table import writers
from stores.table.bodies import (
    OutOfOrder,
    Register,
    Registered,
    Registration,
    UnknownWriter,
    Write as TableWrite,
)
from tests.stores.log.lab import LogHandle, LogLab, entries_of
from tests.stores.table.lab import Handle, Lab, value_of, writer_id
from wire.encoding import encode
from wire.errors import ErrorCode


class Tables:
    """A store: what counts is a number that grows."""

    lab, handle = Lab, Handle

    @staticmethod
    def act(handle):
        return handle.increment("n")

    @staticmethod
    def result(number):
        """Give what the action of this number comes to, of all that were done."""
        return Applied(number)

    @staticmethod
    def done(machine):
        """Count the actions that were done."""
        return value_of(machine, "n") or 0

    @staticmethod
    def refuse(handle):
        return handle.subtract("missing")

    @staticmethod
    def allow(handle):
        """Have what was refused be possible."""
        handle.put("missing", 5)

    @staticmethod
    def write(writer, number, request):
        """Give what a writer asks for under a request's number."""
        action = PutCommand(writer, request, None, [encode("key"), encode(1)])
        return TableWrite(number, (action,))


class Logs:
    """A log: what counts are its entries."""

    lab, handle = LogLab, LogHandle

    @staticmethod
    def act(handle):
        return handle.append("entry")

    @staticmethod
    def result(number):
        return Applied(number - 1)

    @staticmethod
    def done(machine):
        return len(entries_of(machine))

    @staticmethod
    def refuse(handle):
        return handle.move_cursor("consumer", (0, 1))

    @staticmethod
    def allow(handle):
        handle.append("entry")

    @staticmethod
    def write(writer, number, request):
        asked = AppendRequest(0, None, 0, (None, encode(1)))
        return LogWrite(number, Requests(writer, request, 0, (asked,)))


@pytest.fixture(params=[Tables, Logs], ids=["table", "log"])
def kind(request):
    return request.param


@pytest.fixture
def lab(kind):
    return kind.lab()


@pytest.fixture
def handle(kind, lab):
    return kind.handle(lab)


def test_a_writer_has_one_number_however_often_it_registers(lab):
    request = Register(writer_id(3))
    index = lab.judge(request)
    assert lab.judge(request) == Staged(index)
    lab.commit()
    assert lab.answers[index] == Registration(index, 0)
    assert lab.judge(request) == Answer(Registration(index, 0))


def test_a_repeated_request_is_answered_and_not_done_again(kind, lab, handle):
    index = kind.act(handle)
    (write,) = handle.sent
    assert lab.judge(write) == Staged(index)
    lab.commit()
    assert lab.judge(write) == Answer((Outcome(1, 1, kind.result(1)),))
    lab.swap()
    assert lab.judge(write) == Answer((Outcome(1, 1, kind.result(1)),))
    assert kind.done(lab.leader) == 1
    lab.check()


def test_a_request_whose_entry_was_lost_is_done(kind, lab, handle):
    kind.act(handle)
    lab.lose()
    assert lab.ask(handle.sent[0]) == (Outcome(1, 1, kind.result(1)),)
    assert kind.done(lab.leader) == 1


def test_a_refusal_is_repeated_too(kind, lab, handle):
    kind.refuse(handle)
    lab.commit()
    kind.allow(handle)
    lab.commit()
    before = lab.leader.digest()
    (outcome,) = lab.ask(handle.sent[0])
    assert isinstance(outcome.result, Refused)
    assert lab.leader.digest() == before


def test_requests_of_a_writer_are_done_in_order(kind, lab, handle):
    early = kind.write(handle.writer, handle.number, 3)
    assert lab.judge(early) == Answer(OutOfOrder(1))
    kind.act(handle)
    assert lab.judge(early) == Answer(OutOfOrder(2))
    lab.ask(kind.write(handle.writer, handle.number, 2))
    assert isinstance(lab.ask(early), tuple)


def test_a_write_of_a_writer_that_is_not_known_is_refused(kind, lab, handle):
    assert lab.judge(kind.write(writer_id(9), 1, 1)) == Answer(UnknownWriter(1))
    other = handle.number + 1
    assert lab.judge(kind.write(handle.writer, other, 1)) == Answer(UnknownWriter(other))


def test_an_evicted_writer_is_told_and_nothing_is_done_again(kind, lab, monkeypatch):
    monkeypatch.setattr(writers, "WRITERS_MAX", 3)
    handles = [kind.handle(lab, number) for number in range(3)]
    for handle in (handles[1], handles[0], handles[2]):
        kind.act(handle)
    index = lab.judge(Register(writer_id(9)))
    assert lab.entries[-1][1] == Registered(writer_id(9), 0, handles[1].writer)
    # Before the eviction is committed, and after it.
    assert lab.judge(handles[1].sent[0]) == Answer(UnknownWriter(handles[1].number))
    lab.commit()
    assert lab.judge(handles[1].sent[0]) == Answer(UnknownWriter(handles[1].number))
    assert lab.answers[index] == Registration(index, 0)
    assert lab.ask(handles[2].sent[0])[0].result == kind.result(3)
    assert kind.done(lab.leader) == 3
    lab.check()


def test_committed_work_keeps_a_writer(kind, lab, monkeypatch):
    monkeypatch.setattr(writers, "WRITERS_MAX", 2)
    first, second = kind.handle(lab, 1), kind.handle(lab, 2)
    kind.act(first)
    lab.commit()
    lab.judge(Register(writer_id(8)))
    assert lab.entries[-1][1].evicted == second.writer


def test_staged_work_keeps_a_writer_from_being_the_one_that_was_idle_longest(
    kind, lab, monkeypatch
):
    monkeypatch.setattr(writers, "WRITERS_MAX", 2)
    first, second = kind.handle(lab, 1), kind.handle(lab, 2)
    kind.act(first)
    lab.judge(Register(writer_id(8)))
    assert lab.entries[-1][1].evicted == second.writer
    lab.judge(Register(writer_id(9)))
    assert lab.entries[-1][1].evicted == first.writer
    lab.lose()
    lab.judge(Register(writer_id(8)))
    assert lab.entries[-1][1].evicted == first.writer


def test_a_writer_that_comes_back_goes_on_with_what_is_not_known(kind, lab, monkeypatch):
    monkeypatch.setattr(writers, "WRITERS_MAX", 1)
    handle = kind.handle(lab)
    kind.act(handle)
    kind.handle(lab, 2)
    found = lab.ask(Register(handle.writer, 1))
    assert found.last_request == 1
    assert found.number != handle.number
    assert lab.ask(handle.sent[0]) == UnknownWriter(handle.number)
    (outcome,) = lab.ask(kind.write(handle.writer, found.number, 1))
    assert outcome.result.code is ErrorCode.REQUEST_TIMEOUT
    (outcome,) = lab.ask(kind.write(handle.writer, found.number, 2))
    assert isinstance(outcome.result, Applied)


def test_a_writer_finds_what_became_of_its_requests_at_every_member(kind, lab, handle):
    """It needs no answer beside the entry."""
    for _ in range(2):
        kind.act(handle)
    assert not lab.leader.outcomes_of(handle.writer, handle.number, 1)
    lab.commit()
    for machine in lab.machines:
        found = machine.outcomes_of(handle.writer, handle.number, 2)
        assert list(found) == [Outcome(2, 2, kind.result(2))]
