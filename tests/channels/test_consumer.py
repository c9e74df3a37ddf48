"""The consumer's rules, one by one."""

from __future__ import annotations

import pytest

from channels import (
    ChannelConfig,
    ConsumeEach,
    Consumer,
    ConsumerStatistics,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Heartbeat,
    Nack,
    RetransmitFailed,
    UnknownConsumer,
    consumer as consumer_module,
)
from channels.config import NACK_COUNT_MAX
from wire.errors import ErrorCode


@pytest.fixture
def waiting(consumer_backend):
    """Give a consumer without a handshake."""
    return Consumer(consumer_backend, config=ChannelConfig(nack_timeout_ticks=2))


@pytest.fixture
def consumer(waiting, consumer_backend):
    """Give a consumer that starts at event 2 of epoch 7."""
    waiting.receive(Handshake(7, 1, 5))
    waiting.tick()
    consumer_backend.take()
    return waiting


def tick(consumer, count):
    for _ in range(count):
        consumer.tick()


def run(first_sequence, payloads, epoch=7):
    return Event(epoch, first_sequence, tuple(payloads))


# -- before the handshake ------------------------------------------------------------------------


def test_without_a_handshake_it_asks_for_one_again_and_again(waiting, consumer_backend):
    tick(waiting, 1)
    assert consumer_backend.take() == []
    tick(waiting, 1)
    assert consumer_backend.take() == [HandshakeRequest(None)]
    waiting.receive(Heartbeat(7, 4))
    tick(waiting, 4)
    assert consumer_backend.take() == [HandshakeRequest(7), HandshakeRequest(7)]


def test_start_asks_at_once_unless_there_was_a_handshake(waiting, consumer_backend):
    waiting.start()
    assert consumer_backend.take() == [HandshakeRequest(None)]
    waiting.receive(Handshake(7, 1, 5))
    consumer_backend.take()
    waiting.start()
    assert consumer_backend.take() == []


def test_it_never_acknowledges_before_the_handshake(waiting, consumer_backend):
    waiting.acknowledge()
    assert consumer_backend.take() == []


def test_the_handshake_is_acknowledged_at_once(waiting, consumer_backend):
    waiting.receive(Handshake(7, 4, 5))
    assert consumer_backend.take() == [CumulativeAck(7, 4)]
    assert waiting.next_sequence == 5
    assert waiting.is_idle


def test_the_handshake_does_not_forget_a_gap_below_events_that_came_before(
    waiting, consumer_backend
):
    waiting.receive(run(4, "cd"))
    waiting.receive(Handshake(7, 1, 5))
    assert not waiting.is_idle
    tick(waiting, 3)
    assert consumer_backend.sent == [CumulativeAck(7, 1), Nack(7, (2, 3))]


def test_the_handshake_does_not_forget_what_a_heartbeat_before_it_told(waiting, consumer_backend):
    waiting.receive(Heartbeat(7, 3))
    waiting.receive(Handshake(7, 1, 5))
    tick(waiting, 3)
    assert consumer_backend.sent[-1] == Nack(7, (2, 3))


def test_events_before_the_offset_are_discarded(waiting, consumer_backend):
    waiting.receive(run(2, "abcd"))
    waiting.receive(Handshake(7, 3, 5))
    assert consumer_backend.consumed == ["c", "d"]
    assert waiting.statistics().buffered == 0


def test_no_event_is_consumed_before_the_handshake_whatever_its_number(waiting, consumer_backend):
    waiting.receive(run(0, "ab"))
    waiting.receive(run(3, "c"))
    waiting.receive(run(0, "abc"))
    assert consumer_backend.consumed == []


def test_a_loss_reported_before_the_handshake_is_remembered(waiting, consumer_backend):
    waiting.receive(RetransmitFailed(7, 2))
    waiting.receive(run(3, "b"))
    waiting.receive(Handshake(7, 1, 5))
    assert consumer_backend.consumed == ["?", "b"]


def test_a_handshake_that_leads_to_a_fatal_loss_is_not_acknowledged(waiting, consumer_backend):
    consumer_backend.nil_error = ErrorCode.BROKEN_CLONE
    waiting.receive(RetransmitFailed(7, 2))
    waiting.receive(Handshake(7, 1, 5))
    assert consumer_backend.closed == [ErrorCode.BROKEN_CLONE]
    assert consumer_backend.sent == []


def test_being_unknown_says_nothing_to_who_has_no_handshake(waiting, consumer_backend):
    waiting.receive(UnknownConsumer(7))
    assert consumer_backend.closed == []


def test_it_waits_for_its_handshake_for_ever(waiting, consumer_backend):
    tick(waiting, 1000)
    assert consumer_backend.closed == []


def test_a_repeated_handshake_is_acknowledged_and_otherwise_ignored(consumer, consumer_backend):
    consumer.receive(run(2, "ab"))
    consumer.receive(Handshake(7, 1, 9))
    consumer.receive(Handshake(7, 8, 9))
    assert consumer_backend.take() == [CumulativeAck(7, 3), CumulativeAck(7, 3)]
    assert consumer.is_idle


# -- events --------------------------------------------------------------------------------------


def test_a_run_is_consumed_in_order(consumer, consumer_backend):
    consumer.receive(run(2, "abc"))
    assert consumer_backend.consumed == ["a", "b", "c"]
    assert consumer.next_sequence == 5


def test_a_run_that_overlaps_gives_only_what_is_new(consumer, consumer_backend):
    consumer.receive(run(2, "abc"))
    consumer.receive(run(3, "bcde"))
    assert consumer_backend.consumed == list("abcde")
    assert consumer.statistics().duplicate_count == 2


def test_old_and_repeated_events_are_dropped(consumer, consumer_backend):
    for _ in range(2):
        consumer.receive(run(2, "abc"))
        consumer.receive(run(1, "-"))
    assert consumer_backend.consumed == list("abc")
    assert consumer.statistics().duplicate_count == 5


def test_a_late_run_swallows_what_is_buffered_inside_of_it(consumer, consumer_backend):
    consumer.receive(run(3, "b"))
    consumer.receive(run(5, "de"))
    consumer.receive(run(2, "abcd"))
    assert consumer_backend.consumed == list("abcde")
    assert consumer.statistics().buffered == 0


def test_a_late_run_swallows_a_buffered_last_payload_too(consumer, consumer_backend):
    consumer.receive(run(3, "b"))
    consumer.receive(run(2, "ab"))
    assert consumer_backend.consumed == ["a", "b"]
    assert consumer.statistics().buffered == 0


def test_a_late_run_leaves_what_is_buffered_behind_a_gap(consumer, consumer_backend):
    consumer.receive(run(5, "d"))
    consumer.receive(run(2, "ab"))
    assert consumer_backend.consumed == list("ab")
    consumer.receive(run(4, "c"))
    assert consumer_backend.consumed == list("abcd")


def test_none_is_a_payload_like_any_other(consumer, consumer_backend):
    consumer.receive(run(3, [None]))
    consumer.receive(run(2, [None]))
    assert consumer_backend.consumed == [None, None]


def test_a_full_buffer_drops_what_comes_and_asks_for_it_later(
    consumer, consumer_backend, monkeypatch
):
    monkeypatch.setattr(consumer_module, "CONSUMER_BUFFER_MAX", 3)
    consumer.receive(run(3, "bc"))
    consumer.receive(run(4, "cdef"))
    consumer.receive(run(10, "i"))
    consumer.receive(RetransmitFailed(7, 9))
    assert consumer.statistics().overflow_count == 3
    assert consumer.statistics().buffered == 3
    tick(consumer, 3)
    assert consumer_backend.take()[-1] == Nack(7, (2, 6, 7, 8, 9, 10))
    consumer.receive(run(2, "a"))
    assert consumer_backend.consumed == list("abcd")


def test_a_full_buffer_has_room_for_the_loss_of_the_next_event(
    consumer, consumer_backend, monkeypatch
):
    monkeypatch.setattr(consumer_module, "CONSUMER_BUFFER_MAX", 1)
    consumer.receive(run(3, "b"))
    consumer.receive(RetransmitFailed(7, 2))
    assert consumer_backend.consumed == ["?", "b"]


# -- what is missing -----------------------------------------------------------------------------


def test_a_heartbeat_reveals_a_lost_tail(consumer, consumer_backend):
    consumer.receive(run(2, "a"))
    consumer.receive(Heartbeat(7, 4))
    assert not consumer.is_idle
    tick(consumer, 3)
    assert consumer_backend.take() == [Nack(7, (3, 4))]


def test_a_late_heartbeat_forgets_nothing(consumer):
    consumer.receive(Heartbeat(7, 4))
    consumer.receive(Heartbeat(7, 2))
    assert consumer.statistics().end_sequence == 5


def test_progress_puts_the_nack_off(consumer, consumer_backend):
    consumer.receive(run(2, "a"))
    consumer.receive(run(5, "d"))
    consumer.tick()
    consumer.tick()
    consumer.receive(run(3, "b"))
    consumer.tick()
    consumer.tick()
    assert [type(message) for message in consumer_backend.take()] == [CumulativeAck]
    consumer.tick()
    assert consumer_backend.take() == [Nack(7, (4,))]


def test_a_nack_is_repeated_until_it_is_answered(consumer, consumer_backend):
    consumer.receive(run(3, "b"))
    tick(consumer, 6)
    assert [m for m in consumer_backend.take() if isinstance(m, Nack)] == [Nack(7, (2,))] * 3


def test_a_nack_asks_for_no_more_than_the_limit(consumer, consumer_backend):
    consumer.receive(Heartbeat(7, 2**63))
    tick(consumer, 2)
    (nack,) = consumer_backend.take()
    assert nack.sequences == tuple(range(2, 2 + NACK_COUNT_MAX))


def test_a_lost_event_is_skipped_in_its_turn(consumer, consumer_backend):
    consumer.receive(RetransmitFailed(7, 3))
    consumer.receive(RetransmitFailed(7, 4))
    assert consumer_backend.consumed == []
    consumer.receive(run(2, "a"))
    consumer.receive(run(5, "d"))
    assert consumer_backend.consumed == ["a", "?", "?", "d"]
    assert consumer.statistics().lost_count == 2


def test_a_loss_of_what_was_consumed_or_is_buffered_is_ignored(consumer, consumer_backend):
    consumer.receive(run(2, "a"))
    consumer.receive(run(4, "c"))
    consumer.receive(RetransmitFailed(7, 2))
    consumer.receive(RetransmitFailed(7, 4))
    consumer.receive(run(3, "b"))
    assert consumer_backend.consumed == ["a", "b", "c"]


def test_an_event_that_arrives_after_all_takes_the_place_of_its_loss(consumer, consumer_backend):
    consumer.receive(RetransmitFailed(7, 3))
    consumer.receive(run(3, "b"))
    consumer.receive(run(2, "a"))
    assert consumer_backend.consumed == ["a", "b"]


def test_an_error_from_consume_nil_closes_and_stops_there(consumer, consumer_backend):
    consumer_backend.nil_error = ErrorCode.BROKEN_CLONE
    consumer.receive(run(3, "b"))
    consumer.receive(RetransmitFailed(7, 2))
    assert consumer_backend.consumed == ["?"]
    assert consumer_backend.closed == [ErrorCode.BROKEN_CLONE]


# -- acknowledgements ----------------------------------------------------------------------------


def test_acks_come_every_interval_even_if_nothing_arrived(consumer, consumer_backend):
    tick(consumer, 14)
    assert consumer_backend.take() == [CumulativeAck(7, 1)] * 3


def test_an_owner_may_acknowledge_in_between(consumer, consumer_backend):
    consumer.receive(run(2, "ab"))
    consumer.acknowledge()
    assert consumer_backend.take() == [CumulativeAck(7, 3)]


def test_without_heartbeats_every_tick_with_progress_acknowledges(waiting, consumer_backend):
    waiting.receive(Handshake(7, 1, 0))
    tick(waiting, 1)
    consumer_backend.take()
    tick(waiting, 100)
    assert consumer_backend.take() == []
    waiting.receive(run(2, "ab"))
    tick(waiting, 100)
    assert consumer_backend.take() == [CumulativeAck(7, 3)]
    assert consumer_backend.closed == []


# -- the end -------------------------------------------------------------------------------------


def test_a_silent_producer_closes_the_consumer(consumer, consumer_backend):
    tick(consumer, 10)
    consumer.receive(Heartbeat(7, 1))
    tick(consumer, 19)
    assert consumer_backend.closed == []
    tick(consumer, 1)
    assert consumer_backend.closed == [ErrorCode.CONNECTION_TIMEOUT]
    assert not consumer.is_idle


def test_messages_of_another_epoch_are_no_sign_of_life(consumer, consumer_backend):
    tick(consumer, 10)
    consumer.receive(Heartbeat(6, 1))
    tick(consumer, 9)
    assert consumer_backend.closed == [ErrorCode.CONNECTION_TIMEOUT]


def test_being_unknown_closes_the_consumer(consumer, consumer_backend):
    consumer.receive(UnknownConsumer(7))
    assert consumer_backend.closed == [ErrorCode.BROKEN_CLONE]


@pytest.mark.parametrize(
    "message",
    [
        Event(8, 2, ("x",)),
        Heartbeat(8, 1),
        Handshake(8, 1, 5),
        RetransmitFailed(8, 2),
        UnknownConsumer(8),
    ],
)
def test_a_newer_epoch_closes_the_consumer(consumer, consumer_backend, message):
    consumer.receive(message)
    assert consumer_backend.closed == [ErrorCode.BROKEN_CLONE]
    assert consumer_backend.consumed == []
    assert consumer.epoch == 8


@pytest.mark.parametrize(
    "message",
    [
        Event(6, 2, ("x",)),
        Heartbeat(6, 9),
        Handshake(6, 1, 5),
        RetransmitFailed(6, 2),
        UnknownConsumer(6),
    ],
)
def test_an_older_epoch_is_ignored(consumer, consumer_backend, message):
    consumer.receive(message)
    assert consumer_backend.closed == []
    assert consumer_backend.consumed == []
    assert consumer.is_idle
    assert consumer.statistics().stale_count == 1


def test_before_the_handshake_a_newer_epoch_replaces_what_the_older_one_sent(
    waiting, consumer_backend
):
    waiting.receive(run(2, "xyz", epoch=6))
    waiting.receive(run(3, "b", epoch=7))
    waiting.receive(Handshake(6, 1, 5))
    assert not waiting.is_connected
    waiting.receive(Handshake(7, 1, 5))
    waiting.receive(run(2, "a"))
    assert consumer_backend.consumed == ["a", "b"]
    assert waiting.is_idle


def test_a_successor_ignores_epochs_before_its_own(consumer_backend):
    successor = Consumer(consumer_backend, epoch_min=8)
    successor.start()
    assert consumer_backend.take() == [HandshakeRequest(8)]
    assert not successor.accepts(Handshake(7, 1, 5))
    assert successor.accepts(Handshake(8, 1, 5))
    assert successor.accepts(Handshake(9, 1, 5))
    successor.receive(Handshake(7, 1, 5))
    assert not successor.is_connected


def test_only_who_waits_accepts_a_handshake(waiting):
    assert waiting.accepts(Handshake(7, 1, 5))
    waiting.receive(Handshake(7, 1, 5))
    assert not waiting.accepts(Handshake(7, 1, 5))


def test_one_that_was_stopped_while_waiting_accepts_nothing(waiting):
    waiting.stop()
    assert not waiting.accepts(Handshake(7, 1, 5))


def test_after_the_end_everything_is_ignored(consumer, consumer_backend):
    consumer.receive(UnknownConsumer(7))
    consumer.receive(run(2, "a"))
    consumer.receive(UnknownConsumer(7))
    consumer.acknowledge()
    consumer.start()
    tick(consumer, 100)
    assert consumer_backend.consumed == []
    assert consumer_backend.sent == []
    assert consumer_backend.closed == [ErrorCode.BROKEN_CLONE]


def test_stopping_ends_it_without_a_callback(consumer, consumer_backend):
    consumer.receive(run(3, "b"))
    consumer.stop()
    consumer.receive(run(2, "a"))
    assert consumer.is_closed
    assert consumer_backend.closed == []
    assert consumer_backend.consumed == []


def test_stopping_inside_of_a_run_leaves_the_rest_alone(consumer, consumer_backend):
    consumer_backend.stop_at = "b"
    consumer.receive(run(5, "d"))
    consumer.receive(run(2, "abc"))
    assert consumer_backend.consumed == ["a", "b"]
    assert consumer_backend.closed == []


def test_stopping_at_a_loss_leaves_the_rest_alone(consumer, consumer_backend):
    consumer_backend.stop_at = "?"
    consumer.receive(run(3, "b"))
    consumer.receive(RetransmitFailed(7, 2))
    assert consumer_backend.consumed == ["?"]
    assert consumer_backend.closed == []


def test_feeding_a_consumer_from_inside_of_consume_is_caught(consumer, consumer_backend):
    consumer_backend.consume = lambda consumer, payload: consumer.receive(run(2, "a"))
    with pytest.raises(AssertionError, match="inside of consume"):
        consumer.receive(run(2, "a"))


def test_next_sequence_numbers_the_first_payload_of_a_run(consumer, consumer_backend):
    numbers = []
    consumer_backend.consume_run = lambda consumer, payloads: numbers.append(
        (consumer.next_sequence, list(payloads))
    )
    consumer.receive(run(4, "cd"))
    consumer.receive(run(2, "ab"))
    assert numbers == [(2, ["a", "b"]), (4, ["c", "d"])]


def test_a_message_union_is_closed(consumer):
    with pytest.raises(AssertionError):
        consumer.receive(CumulativeAck(7, 1))


def test_consume_each_has_to_be_completed(consumer):
    with pytest.raises(NotImplementedError):
        ConsumeEach().consume(consumer, "a")


# -- what it tells -------------------------------------------------------------------------------


def test_the_repr_is_one_line(waiting):
    assert repr(waiting) == "<Consumer waiting epoch=None next=0 end=0 buffered=0 tick=0>"
    waiting.receive(Handshake(7, 1, 5))
    waiting.receive(run(4, "c"))
    assert repr(waiting) == "<Consumer connected epoch=7 next=2 end=5 buffered=1 tick=0>"
    waiting.stop()
    assert repr(waiting) == "<Consumer closed epoch=7 next=2 end=5 buffered=0 tick=0>"


def test_statistics_are_a_snapshot(consumer):
    consumer.receive(run(2, "ab"))
    before = consumer.statistics()
    consumer.receive(run(4, "c"))
    assert before == ConsumerStatistics(
        epoch=7,
        next_sequence=4,
        end_sequence=4,
        buffered=0,
        is_connected=True,
        is_closed=False,
        consumed_count=2,
        lost_count=0,
        duplicate_count=0,
        overflow_count=0,
        stale_count=0,
    )
