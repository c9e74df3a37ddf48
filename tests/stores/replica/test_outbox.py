"""What a handle has asked for, by itself: how much is under way, and what becomes known of it."""

from __future__ import annotations

import pytest

from stores.limits import OUTCOMES_MAX
from stores.log.limits import OFFSET_END
from stores.log.messages import Append, ForgetConsumer, MoveCursor
from stores.outcomes import Applied, Outcome
from stores.replica.asked.outbox import PARCEL_COUNT
from stores.replica.logs.outbox import LogOutbox
from stores.replica.tables.outbox import TableOutbox
from stores.table.bodies import Registration
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId


class Asking:
    """An outbox, and what it has sent."""

    def __init__(self):
        self.outbox = TableOutbox(EntityId(EndpointId(bytes(16)), 1), 5)
        self.sent = []
        self.put()
        ((ticket, _),) = self.pump()
        self.outbox.answered(ticket, Registration(3, 0))

    def put(self, count=1):
        for _ in range(count):
            self.outbox.requests.put(encode("a"), encode(1))

    def pump(self):
        sent = []
        self.outbox.pump(lambda *each: sent.append(each), is_local=False)
        return sent


@pytest.fixture
def asking():
    return Asking()


def test_no_more_is_under_way_than_has_outcomes_that_are_remembered(asking):
    asking.put(2 * OUTCOMES_MAX - 1)
    sent = asking.pump()
    writes = [write for _, write in sent]
    assert writes[0].asked[0] == 1
    last = writes[-1].asked[1]
    assert OUTCOMES_MAX - PARCEL_COUNT < last <= OUTCOMES_MAX
    assert asking.pump() == []
    ticket, write = sent[0]
    asking.outbox.answered(ticket, (Outcome(*write.asked, Applied(1)),))
    (following,) = asking.pump()
    assert following[1].asked == (last + 1, last + PARCEL_COUNT)


def test_an_answer_that_overtook_what_was_asked_before_is_told_with_it(asking):
    asking.pump()
    asking.put()
    ((ticket, _),) = asking.pump()
    later = Outcome(2, 2, Applied(8))
    assert asking.outbox.answered(ticket, (later,)) == []
    first = Outcome(1, 1, Applied(7))
    assert list(asking.outbox.look_up(lambda *_: [first])) == [first, later]
    assert len(asking.outbox) == 0


def test_another_log_is_asked_for_appends_and_for_no_place_in_the_last_one():
    outbox = LogOutbox(EntityId(EndpointId(bytes(16)), 1), 5)
    flat = (None, encode("it"))
    outbox.requests.append(1, flat)
    outbox.requests.move_cursor("c", ((0, 3), (1, 4)))
    outbox.seal()
    outbox.requests.forget_consumer("d")
    outbox.register_anew()
    outbox.resume()
    sent = []
    outbox.pump(lambda *each: sent.append(each), is_local=False)
    ((ticket, _),) = sent
    outbox.answered(ticket, Registration(3, 0))
    outbox.requests.move_cursor("c", ((0, 1),))
    outbox.pump(lambda *each: sent.append(each), is_local=False)
    asked = [request for _, write in sent[1:] for request in write.asked.requests]
    nowhere = OFFSET_END - 1
    assert asked == [
        Append(1, None, 0, flat),
        MoveCursor("c", ((0, nowhere), (1, nowhere))),
        ForgetConsumer("d"),
        MoveCursor("c", ((0, 1),)),
    ]
