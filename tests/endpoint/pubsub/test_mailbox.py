"""Mailboxes: bounded, decoded late, of many topics, and exact about what was not read."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from hypothesis import given, settings, strategies as st

from endpoint.pubsub.mailbox import (
    DECODE_COUNT,
    MESSAGE_CHARGE,
    Mailbox,
    Missed,
    Overflow,
    Queueing,
    Trouble,
)
from endpoint.pubsub.messages import MISSED_TOPIC
from wire.encoding import encode
from wire.errors import SubscriberOverflow
from wire.limits import MIB
from wire.topics import is_reserved

RAW, VALUE = b"\1", b"\0"
ALL_RAW = b""
"""As the core says it of frames whose messages are all bytes."""


def small(overflow: str = "wait", *, size: int = 4, may_hold: bool = True, **more) -> Mailbox:
    usual = {"queue_bytes": 1_000, "reserve": 4 * (MESSAGE_CHARGE + 10)}
    queueing = Queueing(Overflow(overflow), queue_size=size, **{**usual, **more})
    return Mailbox(queueing, may_hold=may_hold)


def put(mailbox: Mailbox, *numbers: int, size: int | None = None, forced: bool = False) -> bool:
    payloads = [number.to_bytes(4) for number in numbers]
    size = 10 * len(payloads) if size is None else size
    return mailbox.put(("/t",), ALL_RAW, b"", payloads, size, forced)


def take(mailbox: Mailbox) -> list:
    ready: deque = deque()
    while not mailbox.is_empty():
        mailbox.take(ready)
    return list(ready)


def numbers(messages: list) -> list[int | Missed]:
    return [data if isinstance(data, Missed) else int.from_bytes(data) for _, data in messages]


@pytest.mark.parametrize(
    ("wrong", "size"),
    [
        ({"queue_size": 0, "queue_bytes": 9}, "0 messages and 9 bytes"),
        ({"queue_size": 9, "queue_bytes": 0}, "9 messages and 0 bytes"),
    ],
)
def test_a_queue_without_room_is_refused(wrong, size) -> None:
    with pytest.raises(ValueError, match=f"a queue of {size}; it needs room for at least one"):
        Queueing(**wrong)
    Queueing(queue_size=1, queue_bytes=1)


# Many topics.


def test_messages_come_out_as_they_went_in_each_with_its_topic() -> None:
    mailbox = Mailbox()
    put(mailbox, 1, 2)
    mailbox.put(("/v",), VALUE, b"", [encode((1, "a")), encode(None)], 20, False)
    mailbox.put(("/a", "/b"), RAW * 2, b"\1\0\1", [b"x", b"y", b"z"], 30, False)
    mailbox.put(("/r", "/v"), RAW + VALUE, b"\1\0\1", [encode(7), encode(7), encode(8)], 30, False)
    mailbox.put(("/r", "/t"), ALL_RAW, b"\1\0", [b"x", b"y"], 20, False)
    put(mailbox, 3)
    assert (mailbox.waiting, mailbox.waiting_bytes) == (13, 130)
    assert take(mailbox) == [
        ("/t", b"\0\0\0\1"),
        ("/t", b"\0\0\0\2"),
        ("/v", (1, "a")),
        ("/v", None),
        ("/b", b"x"),
        ("/a", b"y"),
        ("/b", b"z"),
        ("/v", 7),
        ("/r", encode(7)),
        ("/v", 8),
        ("/t", b"x"),
        ("/r", b"y"),
        ("/t", b"\0\0\0\3"),
    ]
    assert (mailbox.waiting, mailbox.waiting_bytes) == (0, 0)


@given(st.data())
def test_any_mix_of_topics_and_kinds_reads_back(data) -> None:
    mailbox, expected, ready = Mailbox(Queueing(queue_size=10_000)), [], deque()
    for _ in range(data.draw(st.integers(1, 4))):
        kinds = data.draw(
            st.binary(min_size=1, max_size=256).map(lambda b: bytes(x & 1 for x in b))
        )
        topics = [f"/{number}" for number in range(len(kinds))]
        if len(kinds) == 1:
            used, count = b"", data.draw(st.integers(1, 300))
        else:
            used = data.draw(st.binary(min_size=1, max_size=300))
            used = bytes(number % len(kinds) for number in used)
            count = len(used)
        values = [data.draw(st.integers(0, 9)) if number < 3 else number for number in range(count)]
        payloads = [encode(value) for value in values]
        raw = ALL_RAW if VALUE not in kinds and data.draw(st.booleans()) else kinds
        mailbox.put(topics, raw, used, payloads, 10 * count, False)
        for number, value in zip(used or bytes(count), values, strict=True):
            expected.append((topics[number], encode(value) if kinds[number] else value))
        if data.draw(st.booleans()):
            mailbox.take(ready)
    assert [*ready, *take(mailbox)] == expected
    assert mailbox.waiting == mailbox.waiting_bytes == 0


def test_values_are_decoded_a_few_at_a_time() -> None:
    mailbox, ready = Mailbox(), deque()
    mailbox.put(("/v", "/w"), VALUE * 2, b"\0\1" * 150, [encode(1)] * 300, 300, False)
    mailbox.take(ready)
    assert (len(ready), mailbox.waiting) == (DECODE_COUNT, 300 - DECODE_COUNT)
    assert len(take(mailbox)) == 300 - DECODE_COUNT


def test_what_cannot_be_decoded_is_skipped_and_counted() -> None:
    mailbox = Mailbox()
    mailbox.put(("/v",), VALUE, b"", [encode(1), b"\xff", b"\x81" * 50_000, encode(2)], 40, False)
    mixed = [b"\xff", b"\xff", encode(3)]
    mailbox.put(("/r", "/v"), RAW + VALUE, b"\0\1\1", mixed, 40, False)
    assert take(mailbox) == [("/v", 1), ("/v", 2), ("/r", b"\xff"), ("/v", 3)]
    assert mailbox.malformed == 3


def test_values_beyond_the_shape_are_malformed() -> None:
    mailbox = Mailbox(shape=(1, 3))
    mailbox.put(("/v",), VALUE, b"", [encode((1, 2)), encode((1, 2, 3))], 40, False)
    assert take(mailbox) == [("/v", (1, 2))]
    assert mailbox.malformed == 1


# Full queues: their publishers wait.


@pytest.mark.parametrize(("size", "queue_bytes"), [(4, 10**9), (1_000, 40)])
def test_it_is_full_by_messages_or_by_bytes_and_has_room_at_half(size: int, queue_bytes) -> None:
    mailbox, ready = small(size=size, queue_bytes=queue_bytes), deque()
    assert [put(mailbox, number) for number in range(5)] == [False, False, False, True, True]
    assert mailbox.is_holding
    assert mailbox.release() is False
    for is_full, is_released in [(True, False), (False, False), (False, True), (False, False)]:
        mailbox.take(ready)
        assert mailbox.is_full == is_full
        assert mailbox.release() == is_released, "once, when it is half empty"


def test_what_is_under_way_goes_into_the_reserve_and_only_then_links_are_withheld() -> None:
    mailbox, seen = small(size=4, queue_bytes=40), []
    for number in range(10):
        put(mailbox, number)
        seen.append(mailbox.is_exhausted)
    assert seen == [False] * 7 + [True] * 3
    assert mailbox.dropped == 0
    assert numbers(take(mailbox)) == list(range(10))


def test_links_are_restored_as_soon_as_the_reserve_has_room() -> None:
    mailbox, ready, seen = small(size=4, queue_bytes=40), deque(), []
    for number in range(8):
        put(mailbox, number)
    while not mailbox.is_empty():
        mailbox.take(ready)
        seen.append((mailbox.release(), mailbox.is_withholding, mailbox.is_holding))
    half = [(False, False, True)] * 4 + [(True, False, False)] + [(False, False, False)] * 2
    assert seen == [(True, False, True), *half]


def test_the_usual_limits_are_those_of_the_documents() -> None:
    queueing = Queueing()
    assert (queueing.queue_size, queueing.queue_bytes) == (4_096, 4 * MIB)
    assert (queueing.stall_seconds, queueing.hold_seconds_max) == (30.0, 30.0)
    assert queueing.overflow is Overflow.WAIT
    mailbox = Mailbox()
    while not mailbox.is_exhausted:
        put(mailbox, *range(1_000), size=1 * MIB)
    assert 16 * MIB <= mailbox.waiting_bytes < 22 * MIB


def test_a_new_one_holds_and_drops_nothing() -> None:
    for may_hold in (True, False):
        mailbox = small(size=2, may_hold=may_hold, hold_seconds_max=7.0)
        assert mailbox.hold_seconds_max == 7.0
        assert Mailbox(label="reader").label == "reader"
        assert mailbox.is_holding is mailbox.is_withholding is mailbox.is_lossy is False
        assert [put(mailbox, number) for number in range(2)] == [False, may_hold]


@pytest.mark.parametrize("parcels", [1, 2, 3])
def test_the_latest_parcel_stays_though_it_is_larger_than_the_queue(parcels) -> None:
    mailbox = small(size=10)
    for _ in range(parcels):
        put(mailbox, *range(30))
    mailbox.become_lossy()
    assert (mailbox.waiting, mailbox.dropped) == (30, 30 * (parcels - 1))


def test_what_was_read_or_dropped_makes_no_queue_full() -> None:
    mailbox = small(size=10, queue_bytes=100)
    for number in range(100):
        assert not put(mailbox, number)
        take(mailbox)
    put(mailbox, *range(30))
    mailbox.become_lossy()
    put(mailbox, *range(15))
    take(mailbox)
    assert mailbox.dropped > 20
    mailbox.check(0.0, 0)
    assert not mailbox.is_lossy
    assert [put(mailbox, number) for number in range(10)] == [False] * 9 + [True]


def test_a_slow_reader_loses_nothing() -> None:
    mailbox, ready = small(size=4, queue_bytes=10**9), deque()
    for second in range(100):
        put(mailbox, second)
        if second >= 10:
            mailbox.take(ready)
        assert mailbox.check(float(second), 0) is not Trouble.LOSSY
    assert mailbox.dropped == 0
    assert numbers([*ready, *take(mailbox)]) == list(range(100))


def test_handing_out_what_was_taken_before_counts_as_reading() -> None:
    mailbox, ready = small(queue_bytes=10**9), deque()
    put(mailbox, *range(200))
    mailbox.take(ready)
    put(mailbox, *range(10))
    for second in range(100):
        assert mailbox.check(float(second), len(ready)) is not Trouble.LOSSY
        ready.popleft()
    assert mailbox.dropped == 0


def test_one_that_takes_and_hands_nothing_out_does_not_read() -> None:
    mailbox, ready = small(queue_bytes=10**9), deque()
    for number in range(100):
        put(mailbox, number)
    seen = {}
    for second in range(31):
        mailbox.take(ready)
        seen[second] = mailbox.check(float(second), len(ready))
    assert seen[30] is Trouble.LOSSY


def test_a_hold_that_is_over_makes_no_reader_slow() -> None:
    mailbox = small()
    put(mailbox, *range(4))
    mailbox.check(0.0, 0)
    take(mailbox)
    assert mailbox.release()
    assert troubles(mailbox, range(1, 30)) == {}


def troubles(mailbox: Mailbox, seconds: range) -> dict[int, Trouble]:
    found = {second: mailbox.check(float(second), 0) for second in seconds}
    return {second: trouble for second, trouble in found.items() if trouble is not None}


def stalled() -> Mailbox:
    mailbox = small()
    for number in range(7):
        put(mailbox, number)
    assert troubles(mailbox, range(31)) == {5: Trouble.SLOW, 30: Trouble.LOSSY}
    return mailbox


def test_one_that_is_not_read_drops_its_oldest_and_says_how_many() -> None:
    mailbox = stalled()
    assert mailbox.dropped == 3
    assert mailbox.is_holding is mailbox.is_withholding is False
    for number in range(7, 11):
        assert not put(mailbox, number), "it makes no publisher wait"
    assert mailbox.dropped == 7
    assert not mailbox.is_exhausted
    messages = take(mailbox)
    assert messages[0] == (MISSED_TOPIC, Missed(7))
    assert numbers(messages[1:]) == [7, 8, 9, 10]
    assert is_reserved(MISSED_TOPIC), "no endpoint can publish on it"


def test_it_is_lossy_until_it_is_read() -> None:
    mailbox = stalled()
    for second in range(31, 100):
        put(mailbox, second)
        assert mailbox.check(float(second), 0) is None
        assert mailbox.is_lossy
    take(mailbox)
    assert mailbox.check(100.0, 0) is None
    assert mailbox.is_lossy is False
    assert [put(mailbox, number) for number in range(4)][-1]
    assert troubles(mailbox, range(101, 140)) == {106: Trouble.SLOW, 130: Trouble.LOSSY}


def test_the_time_can_be_set_and_none_is_for_ever() -> None:
    mailbox = small(stall_seconds=7.0)
    put(mailbox, *range(9))
    assert troubles(mailbox, range(30)) == {5: Trouble.SLOW, 7: Trouble.LOSSY}
    mailbox = small(stall_seconds=None)
    put(mailbox, *range(9))
    assert troubles(mailbox, range(1_000)) == {5: Trouble.SLOW}
    assert mailbox.dropped == 0


def test_one_that_withheld_a_link_for_too_long_gives_way_though_it_waits_for_ever() -> None:
    mailbox = small(stall_seconds=None, queue_bytes=40)
    for number in range(9):
        put(mailbox, number)
    assert mailbox.is_exhausted
    mailbox.become_lossy()
    assert (mailbox.waiting, mailbox.dropped) == (4, 5)
    assert not mailbox.is_exhausted
    assert not put(mailbox, 9)
    mailbox.take(deque())
    assert mailbox.check(1.0, 0) is Trouble.LOSSY, "though it is read again"
    assert not mailbox.is_lossy


def test_a_suspended_process_finds_its_mailboxes_as_they_were() -> None:
    mailbox = small()
    put(mailbox, *range(9))
    mailbox.check(1.0, 0)
    assert mailbox.check(1_000.0, 0) is None
    assert mailbox.dropped == 0


def test_a_reader_that_frees_its_publishers_in_time_is_not_slow() -> None:
    mailbox = small()
    for second in range(40):
        assert put(mailbox, 1, 2, 3, 4)
        assert mailbox.check(float(second), 0) is None
        take(mailbox)
        assert mailbox.release()


def test_one_that_is_not_full_is_in_no_trouble() -> None:
    mailbox = small()
    put(mailbox, 1)
    assert troubles(mailbox, range(100)) == {}


# Forced messages, and endpoints without the right to hold.


def test_a_forced_message_never_enlarges_a_full_queue() -> None:
    mailbox = small(size=4)
    put(mailbox, 0, 1, 2)
    assert put(mailbox, 3, forced=True), "it is full now"
    assert mailbox.waiting == 4, "there was room"
    put(mailbox, 4)
    assert not put(mailbox, 5, forced=True), "there is room again"
    assert (mailbox.waiting, mailbox.dropped) == (3, 3), "what came at once goes at once"
    put(mailbox, *range(6, 12))
    before = mailbox.waiting
    put(mailbox, *range(12, 30), forced=True)
    assert mailbox.waiting <= before
    assert mailbox.waiting_bytes <= 10 * before
    messages = numbers(take(mailbox))
    assert messages[-1] == 29
    assert isinstance(messages[0], Missed)


def test_without_the_right_to_hold_the_oldest_go_beyond_the_reserve() -> None:
    mailbox = small(may_hold=False, queue_bytes=40)
    for number in range(20):
        assert not put(mailbox, number)
        assert not mailbox.is_exhausted
    assert mailbox.dropped > 0
    assert mailbox.waiting == 8, "the mark and the reserve"
    messages = numbers(take(mailbox))
    assert messages == [Missed(mailbox.dropped), *range(mailbox.dropped, 20)]
    put(mailbox, *range(9))
    assert troubles(mailbox, range(100)) == {}
    for size in (5_000, 6_000):
        put(mailbox, 1, size=size)
        assert (mailbox.waiting, mailbox.waiting_bytes) == (1, size), "the latest has its place"


def test_the_right_to_hold_can_be_taken_and_given_back() -> None:
    mailbox = small(queue_bytes=40)
    for number in range(8):
        put(mailbox, number)
    assert mailbox.is_holding
    assert mailbox.is_withholding
    mailbox.permit_holding(may_hold=False)
    assert mailbox.release(), "nothing waits for it any more"
    assert (mailbox.is_holding, mailbox.is_withholding) == (False, False)
    assert not put(mailbox, 8)
    assert troubles(mailbox, range(100)) == {}
    mailbox.permit_holding(may_hold=True)
    assert put(mailbox, 9)
    assert mailbox.is_holding


def test_a_lossy_reader_holds_nothing_when_the_right_is_given_back() -> None:
    mailbox = stalled()
    mailbox.permit_holding(may_hold=True)
    assert not put(mailbox, *range(100))
    assert not mailbox.is_holding


# Queues that drop.


def test_drop_oldest_keeps_the_latest() -> None:
    mailbox = small("drop_oldest")
    for number in range(10):
        assert not put(mailbox, number)
        assert not mailbox.is_exhausted
    assert numbers(take(mailbox)) == [Missed(6), 6, 7, 8, 9]
    assert mailbox.dropped == 6
    put(mailbox, *range(100))
    assert numbers(take(mailbox)) == [Missed(96), 96, 97, 98, 99], "a parcel larger than the queue"


def test_a_small_queue_that_drops_its_oldest_drops_no_more_than_it_must() -> None:
    mailbox = small("drop_oldest", size=3)
    put(mailbox, *range(4))
    assert numbers(take(mailbox)) == [Missed(1), 1, 2, 3]


def test_a_parcel_that_is_dropped_in_parts_gives_back_its_bytes_to_the_last() -> None:
    mailbox = small("drop_oldest", size=3)
    put(mailbox, 0, 1, 2, size=35)
    assert mailbox.waiting_bytes == 35
    put(mailbox, 3, size=10)
    assert mailbox.waiting_bytes == 24 + 10, "a third of it, rounded, is gone"
    take(mailbox)
    assert mailbox.waiting_bytes == 0


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
def test_each_message_keeps_its_topic_though_some_are_dropped(overflow) -> None:
    mailbox = small(overflow)
    payloads = [number.to_bytes(4) for number in range(10)]
    mailbox.put(("/a", "/b"), RAW * 2, b"\0\1\1\0\1\0\0\1\1\0", payloads, 100, False)
    ready = take(mailbox)
    if overflow == "drop_oldest":
        assert [topic for topic, _ in ready] == [MISSED_TOPIC, "/a", "/b", "/b", "/a"]
        assert numbers(ready)[1:] == [6, 7, 8, 9]
    else:
        assert [topic for topic, _ in ready] == ["/a", "/b", "/b", "/a", MISSED_TOPIC]
        assert numbers(ready)[:-1] == [0, 1, 2, 3]


def test_drop_newest_keeps_the_oldest_and_tells_of_the_gap_where_it_is() -> None:
    mailbox = small("drop_newest")
    assert not put(mailbox, 0, 1, 2)
    assert not put(mailbox, 3, 4, 5)
    assert not put(mailbox, 6)
    ready: deque = deque()
    mailbox.take(ready)
    put(mailbox, 7)
    assert numbers([*ready, *take(mailbox)]) == [0, 1, 2, 3, Missed(3), 7]
    put(mailbox, *range(8, 20))
    assert numbers(take(mailbox)) == [8, 9, 10, 11, Missed(8)], "at the end, too"
    assert mailbox.is_empty()
    assert mailbox.dropped == 11
    assert (mailbox.waiting, mailbox.waiting_bytes) == (0, 0)


def test_drop_newest_by_bytes() -> None:
    mailbox = small("drop_newest", size=100, queue_bytes=100)
    mailbox.put(("/t",), RAW, b"", [bytes(60), bytes(30), bytes(30), bytes(1)], 131, False)
    mailbox.put(("/t",), RAW, b"", [bytes(50)], 60, False)
    assert [len(data) for _, data in take(mailbox)[:2]] == [60, 30]
    assert mailbox.dropped == 3, "what waits has taken the room"
    mailbox.put(("/t",), RAW, b"", [bytes(1_000), bytes(1)], 1_020, False)
    (_, first), (_, missed) = take(mailbox)
    assert (len(first), missed) == (1_000, Missed(1)), "an empty queue takes one of any size"
    assert mailbox.waiting_bytes == 0


def test_error_ends_the_subscription_at_the_next_read() -> None:
    mailbox, ready = small("error"), deque()
    assert not put(mailbox, 0, 1, 2)
    mailbox.take(ready)
    assert not put(mailbox, 3, 4, 5, 6)
    assert not put(mailbox, 7)
    assert not put(mailbox, 8)
    assert not mailbox.is_empty()
    with pytest.raises(SubscriberOverflow, match="6 messages were not read") as raised:
        mailbox.take(ready)
    assert (raised.value.count, raised.value.queue_size) == (6, 4)
    assert numbers(list(ready)) == [0, 1, 2]
    assert mailbox.waiting == mailbox.waiting_bytes == 0, "what waited takes no memory"
    put(mailbox, 9)
    with pytest.raises(SubscriberOverflow):
        mailbox.take(ready)


def test_error_counts_what_was_taken_in_hand_and_not_read() -> None:
    mailbox, ready = small("error", size=200), deque()
    mailbox.put(("/v",), VALUE, b"", [encode(1)] * 200, 200, False)
    mailbox.take(ready)
    put(mailbox, *range(1_000))
    with pytest.raises(SubscriberOverflow) as raised:
        mailbox.take(ready)
    assert raised.value.count == 1_200 - DECODE_COUNT


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest", "error"])
def test_queues_that_drop_are_in_no_trouble(overflow) -> None:
    mailbox = small(overflow)
    put(mailbox, *range(9))
    assert troubles(mailbox, range(100)) == {}


def test_statistics() -> None:
    mailbox = small("drop_newest")
    put(mailbox, *range(9))
    seen = mailbox.statistics()
    assert (seen.put, seen.waiting, seen.capacity, seen.dropped) == (9, 4, 4, 5)
    assert seen.waiting_bytes == mailbox.waiting_bytes > 0
    assert seen.is_lossy is False
    assert stalled().statistics().is_lossy


def check_numbers(messages: list, published: int) -> int:
    """Find all numbers in order, read or missed; count those that were missed."""
    position = missed = 0
    for _, data in messages:
        if isinstance(data, Missed):
            assert data.count > 0
            position += data.count
            missed += data.count
        else:
            assert int.from_bytes(data) == position
            position += 1
    assert position == published
    return missed


@given(
    st.sampled_from(["wait", "drop_oldest", "drop_newest"]),
    st.booleans(),
    st.lists(
        st.sampled_from(["put", "many", "forced", "take", "second", "deadline", "role"]),
        max_size=99,
    ),
)
@settings(max_examples=300)
def test_every_message_is_read_or_missed_at_its_place(overflow, may_hold, steps) -> None:
    mailbox, now, published = small(overflow, size=3, may_hold=may_hold), 0.0, 0
    ready: deque = deque()
    for step in steps:
        before = mailbox.waiting
        match step:
            case "second":
                now += 10
                mailbox.check(now, len(ready))
            case "deadline":
                mailbox.become_lossy()
            case "take":
                mailbox.take(ready)
            case "role":
                may_hold = not may_hold
                mailbox.permit_holding(may_hold=may_hold)
                mailbox.release()
                assert not mailbox.is_holding or may_hold
            case _:
                count = 7 if step == "many" else 2
                put(mailbox, *range(published, published + count), forced=step == "forced")
                published += count
                is_bounded = step == "forced" or overflow != "wait" or mailbox.is_lossy
                assert not is_bounded or mailbox.waiting <= max(before, 3)
        assert mailbox.waiting >= 0
        assert mailbox.waiting_bytes == 10 * mailbox.waiting
    assert check_numbers([*ready, *take(mailbox)], published) == mailbox.dropped


@pytest.mark.parametrize("overflow", ["wait", "drop_oldest", "drop_newest"])
def test_a_reader_in_another_thread_finds_all_in_order(overflow) -> None:
    mailbox, count = small(overflow, size=64, queue_bytes=10**9), 30_000
    messages: list = []
    is_done = threading.Event()

    def read() -> None:
        while not (is_done.is_set() and mailbox.is_empty()):
            mailbox.take(messages)
            mailbox.release()

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(0, count, 3):
        mailbox.put(
            ("/t",), ALL_RAW, b"", [n.to_bytes(4) for n in range(number, number + 3)], 30, False
        )
    is_done.set()
    reader.join(60)
    assert not reader.is_alive()
    assert check_numbers(messages, count) == mailbox.dropped
    if overflow == "wait":
        assert mailbox.dropped == 0
