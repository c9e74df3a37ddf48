"""Hostile clients of an edge broker: whatever they do, only their own connection ends."""

from __future__ import annotations

import tracemalloc
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from net.transport import StreamTransport
from peermesh.brokers.edge import desk, embedded, line as line_module, messages, request_queue
from peermesh.brokers.edge.embedded import Session
from peermesh.brokers.edge.line import (
    FRAMES_AT_ONCE,
    GREETING_SECONDS,
    GREETING_SIZE_MAX,
    LOOKS,
    SILENCE_SECONDS,
    UNFINISHED,
    Line,
)
from peermesh.brokers.edge.messages import (
    TTL,
    Answer,
    Ask,
    Attach,
    Beat,
    Hello,
    Refused,
    Taken,
    Welcome,
)
from peermesh.brokers.edge.relay import SOURCES_MAX, WAITING_BYTES_MAX, Relay
from peermesh.brokers.edge.tree import parse_addresses
from peermesh.testing.scripted import ScriptedTransport
from peermesh.testing.time_limits import limit
from wire.errors import RemoteProtocolError
from wire.framing import (
    FRONT,
    VERSION_MAX,
    VERSION_MIN,
    FrameDecoder,
    NodeFrame,
    encode_node,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX, PAYLOAD_SIZE_MAX
from wire.messages import Preamble

CLIENT = b"\x55" * 16
PREAMBLE = encode_preamble(Preamble(VERSION_MIN, VERSION_MAX))
TAKEN = messages.write(Taken("t", "", 1))
ENDLESS = FRONT.pack(FRAME_SIZE_MAX, 64, 0, 0, 0, 0)


def data(
    first: int,
    *payloads: bytes,
    topic: str = "t",
    publisher: bytes = CLIENT,
    headers: tuple[bytes, ...] = (),
    numbers: bytes = b"",
    **said: Any,
) -> bytes:
    headers, payloads = headers or (topic.encode(),), payloads or (b"\x01",)
    return b"".join(encode_node(publisher, TTL, first, headers, numbers, payloads, **said)[0])


class Intruder:
    """A connection to a port, byte for byte."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder(FRAME_SIZE_MAX)

    async def send(self, *said: bytes) -> None:
        await self.stream.send_all(b"".join(said))

    async def hear(self, kind: type):
        """Give the next message of a kind, or ``None`` at the end."""
        while True:
            while (frame := self._decoder.next_frame()) is not None:
                if not isinstance(frame, Preamble | NodeFrame):
                    message = messages.read(frame)
                    if isinstance(message, kind):
                        return message
            try:
                chunk = await self.stream.receive_some(65_536)
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self._decoder.feed(bytes(chunk))


@asynccontextmanager
async def intruder(port: int, here: str = "", *, greets: bool = True):
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        found = Intruder(stream)
        if greets:
            await found.send(PREAMBLE, messages.write(Hello(CLIENT, here)))
            assert await found.hear(Welcome) is not None
        yield found


@asynccontextmanager
async def besieged(kit):
    """A broker whose two good clients must not notice anything."""
    async with kit.world() as world, world.publisher() as mouth, world.subscriber() as ear:
        await ear.subscribe("good")
        world.ports = parse_addresses(await world.registry.read("/topics"))
        count = 0

        async def check() -> None:
            nonlocal count
            for _ in range(3):
                count += 1
                await mouth.send("good", count)
                assert await ear.get(limit()) == ("good", count)

        world.check = check
        await check()
        yield world
        await check()


@pytest.mark.parametrize(
    "said",
    [
        data(2**64 - 200),
        data(2**63 - 1),
        data(5) + data(9),
        data(1, publisher=b"\x66" * 16),
        data(1, topic="a/<$>/b"),
        data(1, headers=(b"\xff",)),
        data(1, headers=(b"t", b"u"), numbers=b"\0"),
        data(1, b"\x01", b"\x01", mask=0b101),
        data(1, sign=lambda _: bytes(64)),
        data(1, forced=True),
        messages.write(Attach("t", is_known=False)),
        messages.write(Ask(1, "write", "/topics", "")),
        messages.write(Refused("")),
        FRONT.pack(2**32 - 1, 64, 0, 0, 0, 0),
        b"\xff" * 40,
    ],
    ids=["numbers beyond all", "the last number", "a gap", "another's name", "no topic",
         "no UTF-8", "two topics", "a gap within", "a signature", "a forced frame",
         "a subscriber", "the registry", "a refusal", "a giant", "noise"],
)  # fmt: skip
async def test_a_publisher_that_lies_loses_its_own_connection_and_nothing_else(kit, said) -> None:
    async with besieged(kit) as world:
        async with intruder(world.ports.receiver.port) as bad:
            await bad.send(said)
            assert await bad.hear(Refused) is not None
        await world.check()


async def test_a_client_of_another_version_is_told_both_ranges(kit) -> None:
    async with besieged(kit) as world:
        for port in (world.ports.receiver.port, world.ports.sender.port):
            async with intruder(port, greets=False) as bad:
                await bad.send(encode_preamble(Preamble(1, 1)), messages.write(Hello(CLIENT, "")))
                refused = await bad.hear(Refused)
                assert "one side speaks 1 to 1, the other one 2 to 2" in refused.reason
        await world.check()


@pytest.mark.parametrize(
    "said",
    [
        messages.write(Attach("", is_known=False)),
        messages.write(Attach("t", is_known=False)) + messages.write(Taken("t", "", 7)) + data(1),
        data(1),
        messages.write(Hello(CLIENT, "")),
    ],
    ids=["no topic", "data after nonsense", "data", "a second hello"],
)
async def test_a_subscriber_that_lies_loses_its_own_connection_and_nothing_else(kit, said) -> None:
    async with besieged(kit) as world:
        async with intruder(world.ports.sender.port) as bad:
            await bad.send(said)
            assert await bad.hear(Refused) is not None
        await world.check()


async def test_messages_that_were_never_sent_cannot_be_taken(kit) -> None:
    async with besieged(kit) as world:
        async with intruder(world.ports.sender.port) as bad:
            await bad.send(messages.write(Attach("good", is_known=False)))
            attached = await bad.hear(messages.Attached)
            await bad.send(messages.write(Taken("good", attached.incarnation, 2**60)))
            assert "never sent" in (await bad.hear(Refused)).reason
        await world.check()


async def test_a_giant_is_announced_to_no_avail_before_a_hello(kit) -> None:
    async with besieged(kit) as world:
        for port in (world.ports.receiver.port, world.ports.sender.port):
            async with intruder(port, greets=False) as bad:
                await bad.send(PREAMBLE, ENDLESS)
                assert str(GREETING_SIZE_MAX) in (await bad.hear(Refused)).reason


async def test_who_asks_without_reading_the_answers_is_cut_off(kit, monkeypatch) -> None:
    monkeypatch.setattr(line_module, "QUEUE_SIZE_MAX", 2**20)
    async with besieged(kit) as world:
        guests = world.broker.reception.visitors
        async with intruder(world.ports.sender.port) as bad:
            number = max(guests)
            attach = messages.write(Attach("t", is_known=False)) * 1_000
            with suppress(trio.BrokenResourceError):
                while True:
                    await bad.send(attach)
            await kit.until(lambda: number not in guests)
        await world.check()


async def test_unfinished_frames_share_a_budget_and_the_largest_makes_room(
    kit, monkeypatch
) -> None:
    monkeypatch.setattr(line_module, "UNFINISHED_SIZE_MAX", 2**20)
    async with besieged(kit) as world:
        ports = (
            (world.ports.receiver.port, ""),
            (world.ports.sender.port, ""),
            (world.host.registry_address[1], desk.HERE),
        )
        for port, here in ports:
            async with intruder(port, here) as large, intruder(port, here) as small:
                await large.send(ENDLESS, bytes(600_000))
                await small.send(ENDLESS, bytes(500_000))
                assert (await large.hear(Refused)).reason == UNFINISHED
                assert await small.hear(Beat) is not None  # and stays
        await world.check()


async def test_requests_that_wait_at_the_registry_share_the_budget(kit, monkeypatch) -> None:
    monkeypatch.setattr(line_module, "UNFINISHED_SIZE_MAX", 2**20)
    async with besieged(kit) as world:

        async def wait(*_: object) -> str:
            await trio.sleep_forever()

        ask = messages.write(Ask(1, "read", "/x", "x" * desk.NODE_SIZE_MAX))
        async with (
            intruder(world.host.registry_address[1], desk.HERE) as large,
            intruder(world.host.registry_address[1], desk.HERE) as small,
        ):
            with monkeypatch.context() as slow:
                slow.setattr(Session, "ask", wait)
                await large.send(ask * 40)
                await small.send(ask * 30)
                assert (await large.hear(Refused)).reason == UNFINISHED
        await world.check()


async def test_many_requests_at_once_to_the_registry_are_refused(kit, monkeypatch) -> None:
    monkeypatch.setattr(request_queue, "REQUESTS_SIZE_MAX", 100_000)
    async with besieged(kit) as world:
        async with intruder(world.host.registry_address[1], desk.HERE) as bad:
            with suppress(trio.BrokenResourceError):
                await bad.send(*[messages.write(Ask(1, "read", "/" + "x" * 60_000, ""))] * 50)
            assert "too much was asked at once" in (await bad.hear(Refused)).reason
        await world.check()


async def test_an_answer_that_is_too_long_is_an_error_and_not_the_end_of_the_registry(
    kit, monkeypatch
) -> None:
    async with besieged(kit) as world:

        async def too_much(*_: object) -> str:
            return "x" * 2**20 * 17

        monkeypatch.setattr(Session, "ask", too_much)
        async with intruder(world.host.registry_address[1], desk.HERE) as bad:
            await bad.send(messages.write(Ask(1, "children", "/topics", "")))
            answer = await bad.hear(Answer)
            assert str(PAYLOAD_SIZE_MAX) in answer.error


async def test_long_names_are_refused_by_the_registry_and_not_tried_for_ever(kit) -> None:
    async with besieged(kit) as world:
        async with intruder(world.host.registry_address[1], desk.HERE) as bad:
            for path, data in (("/" + "x" * 100_000, ""), ("/a", "x" * 100_000)):
                await bad.send(messages.write(Ask(1, "write", path, data)))
                assert "bytes each" in (await bad.hear(Answer)).error
        await world.check()


@pytest.mark.parametrize("operation", ["write", "register", "claim"])
async def test_nodes_without_end_are_refused_and_known_ones_are_not(
    kit, monkeypatch, operation: str
) -> None:
    async with besieged(kit) as world:
        nodes = await world.registry.children("/topics")
        async with intruder(world.host.registry_address[1], desk.HERE) as bad:
            monkeypatch.setattr(desk, "NODES_MAX", 60)
            answers = []
            for number in range(60):
                await bad.send(messages.write(Ask(number, operation, f"/topics/x{number}", "")))
                answers.append((await bad.hear(Answer)).error)
            assert not answers[0]
            assert "60 nodes already" in answers[-1]
            await bad.send(messages.write(Ask(60, operation, "/topics/x0", "more")))
            assert not (await bad.hear(Answer)).error
        assert len(await world.registry.children("/topics")) < 60 + len(nodes)
        monkeypatch.undo()
        await world.check()


@pytest.mark.parametrize(("limit", "value"), [("OWN_MAX", 10), ("OWN_SIZE_MAX", 160)])
async def test_a_client_keeps_no_nodes_without_end_where_they_cannot_be(
    kit, monkeypatch, limit: str, value: int
) -> None:
    async with besieged(kit) as world:
        async with intruder(world.host.registry_address[1], desk.HERE) as bad:
            monkeypatch.setattr(embedded, limit, value)
            answers = []
            for operation in ("register", "register", "unregister", "register"):
                for number in range(12):
                    ask = Ask(number, operation, f"/nowhere/x{number:02}", "data")
                    await bad.send(messages.write(ask))
                    answers.append((await bad.hear(Answer)).error)
            assert [place for place, error in enumerate(answers) if error] == [
                *(10, 11, 22, 23, 46, 47)
            ]
        monkeypatch.undo()
        await world.check()


async def test_a_path_of_slashes_makes_no_thousand_nodes(kit) -> None:
    async with besieged(kit) as world:
        async with intruder(world.host.registry_address[1], desk.HERE) as bad:
            await bad.send(messages.write(Ask(1, "write", "/" * desk.NODE_SIZE_MAX, "")))
            assert "names" in (await bad.hear(Answer)).error
        await world.check()


# Without a network, in virtual time.


def messages_for_ever():
    yield PREAMBLE
    while True:
        yield TAKEN


def beats():
    yield PREAMBLE
    while True:
        yield messages.write(Beat())


def bytes_of_a_hello():
    for byte in PREAMBLE + messages.write(Hello(CLIENT, "t" * 1_000)):
        yield bytes((byte,))


@pytest.mark.parametrize("pieces", [beats, messages_for_ever, bytes_of_a_hello])
async def test_who_does_not_say_who_it_is_in_time_is_cut_off(autojump_clock, pieces) -> None:
    transport = ScriptedTransport(pieces(), seconds=1.0)
    line = Line(transport, is_stranger=True)
    began = trio.current_time()
    await line.serve(lambda _message: None)
    assert trio.current_time() - began <= 2 * GREETING_SECONDS
    assert transport.is_closed


async def test_who_was_welcomed_may_stay(autojump_clock) -> None:
    line = Line(ScriptedTransport(messages_for_ever(), seconds=1.0), is_stranger=True)
    with trio.move_on_after(20 * GREETING_SECONDS) as scope:
        await line.serve(lambda _message: line.welcome())
    assert scope.cancelled_caught


class Turns(trio.abc.Instrument):
    """Counts what is dealt with between two looks at the network."""

    def __init__(self) -> None:
        self.frames = self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most, self.frames = max(self.most, self.frames), 0


async def test_thousands_of_frames_at_once_leave_turns_to_others(autojump_clock) -> None:
    count, total, turns = 5_000, 0, Turns()

    def handle(_message: object) -> None:
        nonlocal total
        turns.frames += 1
        total += 1

    trio.lowlevel.add_instrument(turns)
    line = Line(ScriptedTransport([PREAMBLE + TAKEN * count]), is_stranger=True)
    await line.serve(handle)
    trio.lowlevel.remove_instrument(turns)
    assert total == count
    assert turns.most <= FRAMES_AT_ONCE


async def test_a_process_that_was_suspended_reads_before_it_takes_a_client_for_dead(
    mock_clock,
) -> None:
    ours, theirs = memory_stream_pair()
    line = Line(StreamTransport(ours))
    heard = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.serve, heard.append)
        await theirs.send_all(PREAMBLE + TAKEN)
        await wait_all_tasks_blocked()
        mock_clock.jump(10 * SILENCE_SECONDS)
        await trio.lowlevel.checkpoint()  # The time of that wait is over; the beat is late.
        await theirs.send_all(TAKEN + messages.write(Beat()))
        await wait_all_tasks_blocked()
        assert line.error is None
        assert len(heard) == 2
        for _ in range(LOOKS):  # Now it is silent indeed.
            mock_clock.jump(SILENCE_SECONDS)
            await wait_all_tasks_blocked()
    assert "fell silent" in line.error


async def test_a_mistake_of_ours_ends_one_connection_only(autojump_clock, caplog) -> None:
    def stumble(_message: object) -> None:
        raise ZeroDivisionError

    line = Line(ScriptedTransport(messages_for_ever(), seconds=0.1), is_stranger=True)
    await line.serve(stumble)
    assert line.error
    assert "this is a bug" in caplog.text


# The core.


def frame(first: int, *payloads: bytes) -> NodeFrame:
    decoder = FrameDecoder(FRAME_SIZE_MAX)
    decoder.feed(PREAMBLE + data(first, *payloads))
    decoder.next_frame()
    return decoder.next_frame()


def full_channel() -> Relay:
    """Give a channel whose only subscriber takes nothing."""
    channel = Relay("t", "1")
    channel.attach(1, b"ear")
    channel.offer(2, b"first", frame(1, bytes(5 * 2**20)))
    return channel


def test_publishers_without_end_find_no_room_while_a_subscriber_takes_nothing() -> None:
    channel = full_channel()
    large = bytes(4 * 2**20)
    tracemalloc.start()
    for number in range(WAITING_BYTES_MAX // len(large) - 2):
        channel.offer(2, number.to_bytes(16), frame(1, large))
    for _ in range(50):
        with pytest.raises(RemoteProtocolError, match="try again"):
            channel.offer(2, b"one more", frame(1, large))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 3 * WAITING_BYTES_MAX
    assert channel.waiting_count == channel.position
    channel.take(b"ear", "1", channel.position)
    assert channel.waiting_count == 0


def test_more_publishers_than_are_remembered_are_refused_while_all_of_them_wait() -> None:
    channel = full_channel()
    small = frame(1, b"x")
    for number in range(SOURCES_MAX - 1):
        channel.offer(2, number.to_bytes(16), small)
    with pytest.raises(RemoteProtocolError, match="too many publishers"):
        channel.offer(2, b"one more", small)
    channel.detach(b"ear")
    assert channel.offer(2, b"one more", small)
    assert channel.position == SOURCES_MAX + 1
