"""Mailboxes: bounded, decoded late, and honest about what nobody read."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, strategies as st

from endpoint.pubsub.mailbox import QUEUE_BYTES_MAX, STALL_SECONDS, Mailbox
from endpoint.pubsub.messages import MISSED_TOPIC, Missed
from wire.encoding import encode
from wire.topics import is_reserved


def put(mailbox: Mailbox, *numbers: int, size: int = 10) -> None:
    payloads = [number.to_bytes(4) for number in numbers]
    mailbox.put(("/t",), b"\1", b"", payloads, size)


def take(mailbox: Mailbox) -> list:
    ready: deque = deque()
    while not mailbox.is_empty():
        mailbox.take(ready)
    return list(ready)


def numbers(messages: list) -> list[int]:
    return [int.from_bytes(data) for _, data in messages]


def test_a_queue_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Mailbox(0)


def test_messages_come_out_as_they_went_in_bytes_as_they_are_and_values_decoded() -> None:
    mailbox = Mailbox()
    put(mailbox, 1, 2)
    mailbox.put(("/v",), b"\0", b"", [encode((1, "a")), encode(None)], 20)
    assert mailbox.waiting == 4
    assert mailbox.waiting_bytes == 30
    assert take(mailbox) == [
        ("/t", b"\0\0\0\1"),
        ("/t", b"\0\0\0\2"),
        ("/v", (1, "a")),
        ("/v", None),
    ]
    assert mailbox.waiting == mailbox.waiting_bytes == 0


@given(st.lists(st.integers(0, 2), min_size=2, max_size=300))
def test_messages_of_many_topics_come_out_in_order_each_on_its_own(numbers: list[int]) -> None:
    mailbox, topics = Mailbox(), ("/raw", "/value", "/other")
    for raw in (b"\1\1\1", b"\1\0\1"):
        payloads = [encode(place) for place, _ in enumerate(numbers)]
        mailbox.put(topics, raw, bytes(numbers), payloads, 10)
        expected = [
            (topics[number], payloads[place] if raw[number] else place)
            for place, number in enumerate(numbers)
        ]
        assert take(mailbox) == expected
        assert mailbox.waiting == mailbox.waiting_bytes == 0


def test_of_many_topics_only_what_cannot_be_decoded_is_skipped() -> None:
    mailbox = Mailbox()
    mailbox.put(("/v", "/r"), b"\0\1", b"\0\1\0", [b"\xff", b"\xff", encode(2)], 40)
    assert take(mailbox) == [("/r", b"\xff"), ("/v", 2)]
    assert mailbox.malformed == 1


def test_what_cannot_be_decoded_is_skipped_and_counted() -> None:
    mailbox = Mailbox()
    mailbox.put(("/v",), b"\0", b"", [encode(1), b"\xff", b"\x81" * 50_000, encode(2)], 40)
    assert take(mailbox) == [("/v", 1), ("/v", 2)]
    assert mailbox.malformed == 2


@pytest.mark.parametrize(("capacity", "size"), [(4, 1), (1_000, QUEUE_BYTES_MAX // 4)])
def test_it_is_full_by_messages_or_by_bytes_and_has_room_at_half(capacity: int, size: int) -> None:
    mailbox, ready = Mailbox(capacity), deque()
    for number in range(4):
        assert not mailbox.is_full
        put(mailbox, number, size=size)
    assert mailbox.is_full
    assert not mailbox.has_room
    mailbox.take(ready)
    assert not mailbox.is_full
    assert not mailbox.has_room
    mailbox.take(ready)
    assert mailbox.has_room


def test_who_reads_however_slowly_loses_nothing() -> None:
    mailbox, ready = Mailbox(4), deque()
    for second in range(100):
        put(mailbox, second)
        if second >= 10:
            mailbox.take(ready)
        if second >= 5:
            assert mailbox.is_full
        if second >= 9:
            assert not mailbox.check(float(second), 0)
    assert mailbox.dropped == 0
    assert numbers([*ready, *take(mailbox)]) == list(range(100))


def test_handing_out_what_was_taken_before_counts_as_reading() -> None:
    mailbox, ready = Mailbox(4), deque()
    put(mailbox, *range(200))
    mailbox.take(ready)
    put(mailbox, *range(10))
    for second in range(100):
        assert not mailbox.check(float(second), len(ready))
        ready.popleft()
    assert mailbox.dropped == 0


def stalled(*, capacity: int = 4) -> Mailbox:
    mailbox = Mailbox(capacity)
    for number in range(6):
        put(mailbox, number)
    assert not mailbox.check(0.0, 0)
    assert not mailbox.check(STALL_SECONDS - 0.1, 0)
    assert mailbox.check(STALL_SECONDS, 0)
    return mailbox


def test_one_that_nobody_reads_drops_its_oldest_and_says_how_many() -> None:
    mailbox = stalled()
    assert mailbox.dropped == 3
    for number in range(6, 10):
        put(mailbox, number)
    assert mailbox.dropped == 7
    messages = take(mailbox)
    assert messages[0] == (MISSED_TOPIC, Missed(7))
    assert numbers(messages[1:]) == [7, 8, 9]
    assert is_reserved(MISSED_TOPIC), "nobody else can publish on it"


def test_it_stalls_once_until_somebody_reads() -> None:
    mailbox = stalled()
    for second in range(100):
        put(mailbox, second)
        assert not mailbox.check(STALL_SECONDS + second, 0)
        assert mailbox.is_stalled, "it holds up nobody again"
    take(mailbox)
    assert not mailbox.check(200.0, 0)
    assert not mailbox.is_stalled
    for number in range(6):
        put(mailbox, number)
    assert not mailbox.check(201.0, 0)
    assert not mailbox.check(204.0, 0)
    assert mailbox.check(205.0, 0)


def test_one_that_is_not_full_never_stalls() -> None:
    mailbox = Mailbox(4)
    put(mailbox, 1)
    assert not any(mailbox.check(float(second), 0) for second in range(100))


@given(st.lists(st.sampled_from(["put", "take", "second"]), max_size=200))
def test_every_message_is_read_or_counted_as_missed(steps: list[str]) -> None:
    mailbox, now, published = Mailbox(3), 0.0, 0
    ready: deque = deque()
    for step in steps:
        if step == "put":
            put(mailbox, published, published + 1)
            published += 2
        elif step == "second":
            now += 1
            mailbox.check(now, len(ready))
        elif not mailbox.is_empty():
            mailbox.take(ready)
        assert mailbox.waiting <= 3 + 2 or not mailbox.is_stalled
    messages = [*ready, *take(mailbox)]
    missed = sum(data.count for _, data in messages if isinstance(data, Missed))
    read = [int.from_bytes(data) for _, data in messages if not isinstance(data, Missed)]
    assert missed == mailbox.dropped
    assert len(read) + missed == published
    assert read == sorted(read)
