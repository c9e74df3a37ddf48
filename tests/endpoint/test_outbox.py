"""Outboxes: three classes in their order, a bound for each, and credit in both directions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from endpoint.outbox import (
    COMMANDS_SIZE_MAX,
    DATA_FRAMES_MAX,
    DATA_SIZE_MAX,
    LOCAL_SIZE_MIN,
    TRANSIT_FRAMES_MAX,
    TRANSIT_SIZE_MAX,
    URGENT_SIZE_MAX,
    WINDOW_SIZE,
    WRITE_SIZE,
    Inflow,
    Outbox,
    Outgoing,
    OverflowPolicy,
)
from hypothesis import given, strategies as st

from wire.errors import ErrorCode, RemoteProtocolError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    FrameDecoder,
    NodeFrame,
    encode_node,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX, GROUP_SIZE, KIB
from wire.messages import Preamble

SENDER, HEADER = bytes(16), b"header"


def frame(*payloads: bytes, first: int = 0) -> Outgoing:
    """Give a frame of this endpoint's own messages."""
    pieces, size = encode_node(SENDER, 16, first, (HEADER,), b"", payloads)
    return Outgoing(pieces, size, len(payloads))


def transit(size: int, count: int = 1) -> Outgoing:
    return Outgoing([bytes(size)], size, count, is_own=False)


def written(outbox: Outbox) -> bytes:
    return b"".join(outbox.take())


def frames(data: bytes) -> list[NodeFrame]:
    decoder = FrameDecoder(FRAME_SIZE_MAX)
    decoder.feed(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)) + data)
    decoder.next_frame()
    return list(iter(decoder.next_frame, None))


def test_a_shared_frame_is_counted_in_every_outbox() -> None:
    first, second = Outbox(), Outbox()
    shared = frame(b"x" * 1_000)
    for outbox in (first, second):
        outbox.put_data(shared)
    assert written(first) == b"".join(shared.pieces)
    assert (first.data_bytes, second.data_bytes) == (0, shared.size)
    assert first.sent == shared.size
    assert written(second) == b"".join(shared.pieces)


# Order.


def test_urgent_messages_leave_first_and_commands_beside_data() -> None:
    outbox = Outbox()
    command = frame(b"command")
    outbox.put_data(frame(b"data"))
    outbox.put_command(command)
    outbox.put_urgent(b"urgent")
    data = written(outbox)
    assert data.startswith(b"urgent")
    assert data.index(b"command") < data.index(b"data")
    assert not outbox.has_backlog


def test_neither_commands_nor_data_wait_behind_the_other() -> None:
    outbox = Outbox()
    for number in range(40):
        for put in (outbox.put_data, outbox.put_command):
            made = frame(bytes(60 * KIB), first=number)
            put(made)
    commands, data = outbox.command_bytes, outbox.data_bytes
    pieces = outbox.take()
    assert outbox.command_bytes < commands
    assert outbox.data_bytes < data
    assert sum(map(len, pieces)) <= 2 * (WRITE_SIZE + GROUP_SIZE)


def test_data_leaves_in_order_and_waits_for_credit_while_the_rest_does_not() -> None:
    outbox = Outbox()
    for number in range(100):
        outbox.put_data(frame(bytes(60 * KIB), first=number))
    sequences = []
    while outbox.is_sendable:
        sequences += [each.first for each in frames(written(outbox))]
    assert sequences == list(range(len(sequences)))
    assert WINDOW_SIZE <= outbox.sent < WINDOW_SIZE + GROUP_SIZE
    outbox.put_urgent(b"urgent")
    assert outbox.is_sendable
    assert written(outbox) == b"urgent"
    assert not outbox.is_sendable
    assert outbox.has_backlog
    outbox.grant(WINDOW_SIZE - 1)
    assert not outbox.is_sendable, "credit is never taken back, and this is less"
    outbox.grant(2 * WINDOW_SIZE)
    while outbox.is_sendable:
        sequences += [each.first for each in frames(written(outbox))]
    assert sequences == list(range(100))
    assert outbox.statistics().credit_bytes == 2 * WINDOW_SIZE - outbox.sent


def test_the_rest_of_a_frame_follows_its_beginning_and_counts_nowhere() -> None:
    outbox = Outbox()
    outbox.put_rest(bytes(URGENT_SIZE_MAX + 1))
    assert not outbox.is_overrun
    outbox.put_urgent(b"urgent")
    assert written(outbox).endswith(b"urgent")
    outbox.put_data(frame(b"x"))
    with pytest.raises(AssertionError):
        outbox.put_rest(b"no place for it")


# Bounds.


def test_a_peer_that_makes_us_queue_too_much_is_overrun() -> None:
    outbox = Outbox()
    outbox.put_urgent(bytes(URGENT_SIZE_MAX))
    assert not outbox.is_overrun
    outbox.put_urgent(b"x")
    assert outbox.is_overrun
    outbox.take()
    assert not outbox.is_overrun


def test_commands_beyond_their_bound_are_dropped_and_counted() -> None:
    outbox = Outbox()
    large = frame(bytes(COMMANDS_SIZE_MAX))
    for _ in range(3):
        outbox.put_command(large)
    assert outbox.statistics().dropped_commands == 2


@pytest.mark.parametrize(("size", "count"), [(60 * KIB, 17), (100, DATA_FRAMES_MAX)])
def test_publishers_wait_for_bytes_and_for_frames_and_go_on_at_half(size: int, count: int) -> None:
    outbox = Outbox()
    put = 0
    while not outbox.is_full:
        assert put <= count + 1
        made = frame(bytes(size), first=put)
        outbox.put_data(made)
        put += 1
    assert outbox.data_bytes < DATA_SIZE_MAX + GROUP_SIZE or put == DATA_FRAMES_MAX
    assert not outbox.has_room
    while not outbox.has_room:
        outbox.grant(outbox.sent + 1)
        outbox.take()
    assert outbox.data_bytes * 2 < DATA_SIZE_MAX
    assert not outbox.is_full


def test_who_relays_much_can_still_speak() -> None:
    outbox = Outbox()
    while not outbox.is_crowded:
        outbox.put_data(transit(60 * KIB))
    assert not outbox.is_full
    assert outbox.has_room
    while not outbox.is_full:
        outbox.put_data(frame(bytes(GROUP_SIZE)))
    assert LOCAL_SIZE_MIN <= outbox.local_bytes < LOCAL_SIZE_MIN + 2 * GROUP_SIZE


def test_links_wait_much_later_than_publishers_and_go_on_at_half() -> None:
    outbox = Outbox()
    while not outbox.is_full:
        outbox.put_data(frame(bytes(GROUP_SIZE)))
    assert not outbox.is_crowded
    while not outbox.is_crowded:
        assert outbox.data_bytes < TRANSIT_SIZE_MAX
        outbox.put_data(transit(60 * KIB))
    assert not outbox.is_passable
    outbox.grant(2**60)
    while not outbox.is_passable:
        outbox.take()
    assert outbox.data_bytes * 2 < TRANSIT_SIZE_MAX
    tiny = Outbox()
    for _ in range(TRANSIT_FRAMES_MAX):
        tiny.put_data(transit(1))
    assert tiny.is_crowded


@given(
    st.sampled_from([OverflowPolicy.DROP_OLDEST, OverflowPolicy.DROP_NEWEST]),
    st.lists(st.tuples(st.integers(1, 200_000), st.booleans()), max_size=60),
)
def test_a_lossy_outbox_stays_bounded_counts_every_drop_and_keeps_the_order(policy, steps) -> None:
    outbox = Outbox(policy)
    outbox.is_lossy = True
    outbox.grant(2**60)
    put = came = 0
    sequences: list[int] = []
    for size, takes in steps:
        outbox.put_data(frame(bytes(size), first=put))
        put += 1
        assert outbox.data_bytes < DATA_SIZE_MAX + 2 * 200_100
        if takes:
            sequences += [each.first for each in frames(written(outbox))]
    while outbox.is_sendable:
        sequences += [each.first for each in frames(written(outbox))]
    came = len(sequences)
    assert came + outbox.dropped_messages == put
    assert all(before < after for before, after in pairwise(sequences))
    assert outbox.data_bytes == outbox.local_bytes == 0
    if put and policy is OverflowPolicy.DROP_OLDEST:
        assert sequences[-1] == put - 1


def test_what_a_lost_peer_did_not_get_is_counted() -> None:
    outbox = Outbox()
    outbox.put_data(frame(b"a", b"b"))
    outbox.put_command(frame(b"c"))
    outbox.discard()
    statistics = outbox.statistics()
    assert (statistics.dropped_messages, statistics.dropped_commands) == (2, 1)
    assert statistics.data_bytes == statistics.command_bytes == outbox.local_bytes == 0
    assert not outbox.has_backlog


# Credit, seen from the receiving end.


@given(st.lists(st.one_of(st.integers(1, 100_000), st.sampled_from("ab")), max_size=200))
def test_credit_is_never_exceeded_nor_withheld_without_reason(steps) -> None:
    outbox, inflow, blocked = Outbox(), Inflow(), set()
    for step in steps:
        if isinstance(step, str):
            (inflow.unblock if step in blocked else inflow.block)(step)
            blocked ^= {step}
        else:
            outbox.put_data(frame(bytes(step)))
        while outbox.is_sendable:
            for each in frames(written(outbox)):
                inflow.admit(each.size)
        total = inflow.due()
        if total is not None:
            assert not blocked
            outbox.grant(total)
        assert inflow.is_blocked == bool(blocked)
        assert outbox.credit == inflow.granted
        if not blocked:
            assert outbox.credit - outbox.sent > WINDOW_SIZE // 2


def test_data_without_credit_is_a_breach_of_the_protocol() -> None:
    inflow = Inflow()
    inflow.block("a subscriber that is full")
    inflow.admit(WINDOW_SIZE - 1)
    inflow.admit(1_000)  # sent while there was a byte of credit left
    with pytest.raises(RemoteProtocolError, match="beyond") as raised:
        inflow.admit(1)
    assert raised.value.code is ErrorCode.LIMIT_EXCEEDED


def test_a_target_blocks_once() -> None:
    inflow = Inflow()
    assert inflow.block("target")
    assert not inflow.block("target")
    inflow.unblock("target")
    inflow.unblock("target")
    assert not inflow.is_blocked
