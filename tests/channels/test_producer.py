"""The producer's rules, one by one."""

from __future__ import annotations

import pytest

from channels import (
    ChannelConfig,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Heartbeat,
    Nack,
    PathStatistics,
    Producer,
    ProducerStatistics,
    RetransmitFailed,
    UnknownConsumer,
)
from channels.config import NACK_COUNT_MAX, RETRANSMIT_COUNT_MAX
from wire.errors import ErrorCode, LocalProtocolError


@pytest.fixture
def producer(producer_backend):
    """Give a producer of events 2 to 5, whose consumer A acknowledged its handshake."""
    producer = Producer(producer_backend, epoch=7)
    producer.add("A")
    producer.receive("A", CumulativeAck(7, 1))
    producer.produce_run("abcd")
    producer_backend.take()
    return producer


def tick(producer, count):
    for _ in range(count):
        producer.tick()


def test_without_consumers_nothing_is_produced(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    producer.produce("a")
    producer.produce_run("bc")
    assert producer.sequence == 1
    assert producer.unacknowledged == 0
    assert producer_backend.sent == []


def test_a_run_is_one_message(producer, producer_backend):
    producer.produce_run(("e", "f", "g"))
    assert producer_backend.take() == [(None, Event(7, 6, ("e", "f", "g")))]
    assert producer.sequence == 8
    assert producer.unacknowledged == 7


def test_an_empty_run_is_none(producer, producer_backend):
    producer.produce_run(())
    assert producer_backend.take() == []


def test_a_producer_can_stand_at_any_sequence(producer_backend):
    producer = Producer(producer_backend, epoch=1, sequence=0)
    producer.add("A")
    producer.produce("a")
    assert producer_backend.sent == [("A", Handshake(1, 0, 5)), (None, Event(1, 1, ("a",)))]


def test_adding_a_consumer_twice_is_an_error(producer):
    with pytest.raises(LocalProtocolError, match="'A' is a consumer already"):
        producer.add("A")


def test_the_first_ack_completes_the_handshake(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    producer.add("A")
    assert producer.has_pending_consumers
    assert not producer.is_idle
    assert producer.acknowledged("A") is None
    producer.receive("A", CumulativeAck(1, 1))
    producer.receive("A", CumulativeAck(1, 1))
    assert producer_backend.completed == ["A"]
    assert producer.acknowledged("A") == 1
    assert producer.is_idle


def test_a_nack_completes_the_handshake_too(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    producer.add("A")
    producer.produce("a")
    producer.receive("A", Nack(1, (2,)))
    assert producer_backend.completed == ["A"]


def test_a_consumer_that_never_acknowledged_pins_what_came_since_it_was_added(producer):
    producer.add("B")
    producer.produce_run("ef")
    producer.receive("A", CumulativeAck(7, 7))
    assert producer.unacknowledged == 2
    producer.receive("B", CumulativeAck(7, 7))
    assert producer.unacknowledged == 0


def test_an_ack_that_was_overtaken_changes_nothing(producer):
    producer.receive("A", CumulativeAck(7, 4))
    tick(producer, 3)
    producer.receive("A", CumulativeAck(7, 3))
    assert producer.acknowledged("A") == 4
    assert producer.statistics().consumers == (PathStatistics("A", 4, silent_ticks=3),)


def test_an_ack_for_a_future_event_is_refused(producer):
    producer.receive("A", CumulativeAck(7, 6))
    assert producer.acknowledged("A") == 1
    assert producer.unacknowledged == 4
    assert producer.statistics().refused_count == 1


def test_a_nack_for_a_future_event_is_refused_and_not_reported_as_failed(
    producer, producer_backend
):
    producer.receive("A", Nack(7, (5, 6)))
    assert producer_backend.take() == [("A", Event(7, 5, ["d"]))]
    assert producer.statistics().refused_count == 1
    producer.receive("A", Nack(7, (9,)))
    assert producer_backend.take() == []
    assert producer.acknowledged("A") == 4


def test_a_nack_acknowledges_everything_before_its_first_number(producer):
    producer.receive("A", Nack(7, (4,)))
    assert producer.acknowledged("A") == 3
    assert producer.unacknowledged == 2


def test_an_empty_nack_is_ignored(producer, producer_backend):
    tick(producer, 3)
    producer.receive("A", Nack(7, ()))
    assert producer_backend.take() == []
    assert producer.statistics().consumers[0].silent_ticks == 3


def test_a_nack_gets_neighbours_as_one_run(producer, producer_backend):
    producer.produce_run("efg")
    producer_backend.take()
    producer.receive("A", Nack(7, (2, 3, 5, 7, 8)))
    assert producer_backend.take() == [
        ("A", Event(7, 2, ["a", "b"])),
        ("A", Event(7, 5, ["d"])),
        ("A", Event(7, 7, ["f", "g"])),
    ]
    assert producer.statistics().retransmitted_count == 5


def test_retransmitted_runs_have_a_limit(producer, producer_backend):
    producer.produce_run(range(RETRANSMIT_COUNT_MAX))
    producer_backend.take()
    producer.receive("A", Nack(7, tuple(range(4, 4 + RETRANSMIT_COUNT_MAX + 1))))
    lengths = [len(message.payloads) for _, message in producer_backend.take()]
    assert lengths == [RETRANSMIT_COUNT_MAX, 1]


def test_a_nack_for_a_pruned_event_reports_retransmit_failed(producer, producer_backend):
    producer.receive("A", CumulativeAck(7, 4))
    producer.receive("A", Nack(7, (3, 4, 5)))
    assert producer_backend.take() == [
        ("A", RetransmitFailed(7, 3)),
        ("A", RetransmitFailed(7, 4)),
        ("A", Event(7, 5, ["d"])),
    ]
    assert producer.statistics().retransmit_failed_count == 2


@pytest.mark.parametrize("sequences", [(3, 2), (2, 2), (2, 4, 3)])
def test_a_nack_out_of_order_drops_the_consumer(producer, producer_backend, sequences):
    producer.receive("A", Nack(7, sequences))
    assert producer_backend.dropped == [("A", ErrorCode.INVALID_DATA)]
    assert producer_backend.take() == []
    assert producer.handles == ()
    assert producer.unacknowledged == 0


def test_a_nack_beyond_the_limit_drops_the_consumer(producer, producer_backend):
    producer.receive("A", Nack(7, tuple(range(2, NACK_COUNT_MAX + 3))))
    assert producer_backend.dropped == [("A", ErrorCode.LIMIT_EXCEEDED)]


def test_a_request_from_a_stranger_adds_it(producer, producer_backend):
    producer.receive("B", HandshakeRequest(None))
    assert producer_backend.take() == [("B", Handshake(7, 5, 5))]
    assert producer.handles == ("A", "B")


def test_a_lost_handshake_is_repeated_with_the_offset_it_had(producer, producer_backend):
    producer.add("B")
    producer.produce("e")
    producer_backend.take()
    producer.receive("B", HandshakeRequest(7))
    assert producer_backend.take() == [("B", Handshake(7, 5, 5))]


def test_a_handshake_that_carries_a_snapshot_is_repeated_with_the_current_number(producer_backend):
    config = ChannelConfig(carries_snapshot=True)
    producer = Producer(producer_backend, epoch=1, config=config)
    producer.add("A")
    producer.produce_run("ab")
    producer.receive("A", HandshakeRequest(None))
    assert producer_backend.take()[-1] == ("A", Handshake(1, 3, 5))
    # The consumer may take either of the two handshakes.
    assert producer.unacknowledged == 2
    producer.receive("A", CumulativeAck(1, 1))
    assert producer.unacknowledged == 2


def test_a_consumer_that_lost_its_state_goes_on_where_its_acks_ended(producer, producer_backend):
    producer.receive("A", CumulativeAck(7, 3))
    producer.receive("A", HandshakeRequest(None))
    assert producer_backend.take() == [("A", Handshake(7, 3, 5))]
    assert producer.has_pending_consumers
    assert producer.acknowledged("A") is None
    assert producer.unacknowledged == 2
    producer.receive("A", CumulativeAck(7, 5))
    assert producer_backend.completed == ["A", "A"]
    assert producer.is_idle


@pytest.mark.parametrize("message", [CumulativeAck(7, 3), Nack(7, (3,)), Nack(7, ())])
def test_a_stranger_is_told_that_it_is_unknown(producer, producer_backend, message):
    producer.receive("B", message)
    assert producer_backend.take() == [("B", UnknownConsumer(7))]
    assert producer.handles == ("A",)
    assert producer.statistics().unknown_count == 1


def test_a_consumer_of_the_producer_before_is_told_the_new_epoch(producer, producer_backend):
    producer.receive("B", CumulativeAck(6, 3))
    assert producer_backend.take() == [("B", UnknownConsumer(7))]


@pytest.mark.parametrize("message", [CumulativeAck(6, 3), Nack(6, (3,))])
def test_late_messages_of_an_earlier_epoch_are_ignored(producer, producer_backend, message):
    producer.receive("A", message)
    assert producer_backend.take() == []
    assert producer.acknowledged("A") == 1
    assert producer.statistics().stale_count == 1


@pytest.mark.parametrize("handle", ["A", "B"])
@pytest.mark.parametrize("message", [CumulativeAck(8, 3), Nack(8, (3,)), HandshakeRequest(8)])
def test_messages_for_a_successor_are_refused(producer, producer_backend, handle, message):
    producer.receive(handle, message)
    assert producer_backend.take() == []
    assert producer.handles == ("A",)
    assert producer.statistics().refused_count == 1


def test_a_heartbeat_follows_an_interval_without_broadcasts(producer, producer_backend):
    tick(producer, 3)
    producer.produce("e")
    producer_backend.take()
    tick(producer, 4)
    assert producer_backend.take() == []
    tick(producer, 1)
    assert producer_backend.take() == [(None, Heartbeat(7, 6))]
    tick(producer, 5)
    assert producer_backend.take() == [(None, Heartbeat(7, 6))]


def test_heartbeats_go_out_without_consumers_too(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    tick(producer, 5)
    assert producer_backend.sent == [(None, Heartbeat(1, 1))]


def test_a_silent_consumer_is_dropped_and_pins_the_buffer_no_more(producer, producer_backend):
    producer.add("B")
    tick(producer, 10)
    producer.receive("A", CumulativeAck(7, 4))
    tick(producer, 9)
    assert producer_backend.dropped == []
    producer.produce("e")
    assert producer.unacknowledged == 2
    tick(producer, 1)
    assert producer_backend.dropped == [("B", ErrorCode.CONNECTION_TIMEOUT)]
    assert producer.unacknowledged == 2
    tick(producer, 10)
    assert producer_backend.dropped[1:] == [("A", ErrorCode.CONNECTION_TIMEOUT)]
    assert producer.unacknowledged == 0
    assert producer.statistics().dropped_count == 2


@pytest.mark.parametrize(
    "message", [CumulativeAck(7, 1), Nack(7, (2,)), HandshakeRequest(None), HandshakeRequest(7)]
)
def test_every_message_of_a_consumer_is_a_sign_of_life(producer, producer_backend, message):
    tick(producer, 19)
    producer.receive("A", message)
    tick(producer, 19)
    assert producer_backend.dropped == []
    tick(producer, 1)
    assert producer_backend.dropped == [("A", ErrorCode.CONNECTION_TIMEOUT)]


def test_heartbeat_interval_zero_means_no_heartbeats_and_no_timeouts(producer_backend):
    config = ChannelConfig(heartbeat_interval_ticks=0)
    producer = Producer(producer_backend, epoch=1, config=config)
    producer.add("A")
    producer_backend.take()
    tick(producer, 1000)
    assert producer_backend.take() == []
    assert producer.handles == ("A",)


def test_a_discarded_consumer_pins_the_buffer_no_more(producer, producer_backend):
    producer.add("B")
    producer.receive("B", CumulativeAck(7, 5))
    producer.produce("e")
    producer.discard("A")
    producer.discard("nobody")
    assert producer_backend.dropped == []
    assert producer.unacknowledged == 1
    producer.discard("B")
    assert producer.unacknowledged == 0
    assert producer.sequence == 6


def test_a_backend_may_discard_others_while_one_is_dropped(producer, producer_backend):
    producer.add("B")
    producer_backend.drop = lambda producer, handle, reason: [
        producer.discard(other) for other in producer.handles
    ]
    tick(producer, 20)
    assert producer.handles == ()
    assert producer.statistics().dropped_count == 1


def test_a_backend_may_answer_from_inside_of_send(producer_backend):
    class Prompt(type(producer_backend)):
        def send(self, producer, handle, message):
            producer.receive(handle, CumulativeAck(message.epoch, message.offset))

    producer = Producer(Prompt(), epoch=1)
    producer.add("A")
    assert producer.is_idle


@pytest.fixture
def journal(journal_type):
    journal = journal_type(first_sequence=11)
    journal.events += "abcdef"
    return journal


@pytest.fixture
def lender(producer_backend, journal):
    """Give a producer whose journal holds 11 to 16, of which it stands at the last."""
    return Producer(producer_backend, epoch=7, sequence=16, backlog=journal)


def test_with_a_backlog_the_sequence_advances_without_consumers(lender, journal, producer_backend):
    journal.events += "ghi"
    lender.produce("g")
    lender.produce_run("hi")
    assert lender.sequence == 19
    assert lender.unacknowledged == 0
    assert lender.is_idle
    assert producer_backend.sent == []


def test_a_consumer_with_the_beginning_gets_the_rest_out_of_the_backlog(lender, producer_backend):
    lender.add("A", after=13)
    assert producer_backend.take() == [("A", Handshake(7, 13, 5))]
    assert lender.unacknowledged == 3
    lender.receive("A", Nack(7, (14, 15, 16)))
    assert producer_backend.take() == [("A", Event(7, 14, ["d", "e", "f"]))]
    lender.receive("A", CumulativeAck(7, 16))
    assert lender.is_idle


def test_a_backlog_is_the_owners_to_forget(lender, journal, producer_backend):
    lender.add("A", after=10)
    lender.receive("A", CumulativeAck(7, 16))
    lender.add("B", after=10)
    assert (lender.unacknowledged, len(journal.events)) == (6, 6)
    journal.compact(2)
    producer_backend.take()
    lender.receive("B", Nack(7, (11, 12, 13)))
    assert producer_backend.take() == [
        ("B", RetransmitFailed(7, 11)),
        ("B", RetransmitFailed(7, 12)),
        ("B", Event(7, 13, ["c"])),
    ]


@pytest.mark.parametrize("after", [9, 17])
def test_a_consumer_begins_within_the_backlog(lender, after):
    with pytest.raises(LocalProtocolError, match=f"no events after {after}: 11 to 16 are kept"):
        lender.add("A", after)
    assert lender.handles == ()


def test_an_empty_backlog_is_one(producer_backend, journal_type):
    producer = Producer(producer_backend, epoch=1, sequence=0, backlog=journal_type(1))
    producer.produce("a")
    assert producer.sequence == 1


def test_without_a_backlog_a_consumer_begins_with_what_is_kept(producer, producer_backend):
    producer.receive("A", CumulativeAck(7, 3))
    with pytest.raises(LocalProtocolError, match="no events after 2: 4 to 5 are kept"):
        producer.add("B", after=2)
    producer.add("B", after=3)
    producer.receive("A", CumulativeAck(7, 5))
    assert producer.unacknowledged == 2
    producer.receive("B", Nack(7, (4, 5)))
    assert producer_backend.take()[-1] == ("B", Event(7, 4, ["c", "d"]))


def test_the_message_union_is_closed(producer):
    with pytest.raises(AssertionError):
        producer.receive("A", Heartbeat(7, 1))


def test_the_repr_is_one_line_that_tells_who_acknowledged_what(producer):
    producer.add("B")
    producer.tick()
    assert repr(producer) == (
        "<Producer epoch=7 sequence=5 unacknowledged=4 tick=1 consumers={'A': 1, 'B': None}>"
    )


def test_statistics_are_a_snapshot(producer):
    before = producer.statistics()
    producer.receive("A", CumulativeAck(7, 5))
    assert before == ProducerStatistics(
        epoch=7,
        sequence=5,
        unacknowledged=4,
        tick=0,
        consumers=(PathStatistics("A", acknowledged=1, silent_ticks=0),),
        retransmitted_count=0,
        retransmit_failed_count=0,
        refused_count=0,
        stale_count=0,
        unknown_count=0,
        dropped_count=0,
    )


def test_who_is_unknown_has_acknowledged_nothing(producer):
    assert producer.acknowledged("nobody") is None
    assert producer.epoch == 7
