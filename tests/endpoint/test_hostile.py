"""Hostile peers: whatever they send, only their own connection ends, with a code and an event."""

from __future__ import annotations

import os
import random
import tracemalloc
from contextlib import AsyncExitStack, asynccontextmanager

import cbor2
import pytest
import trio
import trio.testing

from endpoint import StatusCode
from endpoint.link.limits import PASSED_ON_SIZE_MAX, WINDOW_SIZE, LinkLimits
from endpoint.pubsub.queueing import Queueing
from handshake.machine import HANDSHAKE_TIMEOUT_SECONDS, OUR_VERSIONS
from wire.clocks import LamportTime, VectorTime
from wire.codec import ControlKind, encode_control
from wire.encoding import encode
from wire.errors import ErrorCode, OutboxFull
from wire.framing import (
    FRONT,
    NODE_KIND,
    encode_control as frame_control,
    encode_node,
    encode_preamble,
)
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX, FRAME_SIZE_MIN, LAMPORT_TIME_MAX
from wire.messages import (
    Announcement,
    Announcements,
    Credit,
    DropConn,
    Hello,
    Hold,
    Knowledge,
    OriginatorAck,
    OriginatorSyn,
    PackedType,
    Ping,
    Pong,
    Preamble,
    ResponderSynAck,
    Withheld,
)

STRANGER = EndpointId(b"\x77" * 16)
DEEP = b"\x81" * 100_000 + b"\x00"
"""CBOR: a list in a list in a list, deeper than any stack."""


def front(size: int = 0, kind: int = NODE_KIND, ttl: int = 1, headers: int = 0, count: int = 0):
    return FRONT.pack(size, kind, ttl, headers, count, 0)


def mixed(headers: tuple[bytes, ...], numbers: bytes, *payloads: bytes, ttl: int = 16) -> bytes:
    return b"".join(encode_node(STRANGER, ttl, 0, headers, numbers, payloads)[0])


def node(header: bytes, *payloads: bytes, ttl: int = 16) -> bytes:
    return mixed((header,), b"", *payloads, ttl=ttl)


def header(kind: int, topic: bytes, receiver: bytes = b"\0") -> bytes:
    return bytes((kind,)) + receiver + topic


def control(kind: int, *fields: object) -> bytes:
    return frame_control(kind, encode(fields))


NOISE = random.Random(7).randbytes(5_000)
HELLO = Hello(EndpointId(bytes(15) + b"\x01"), VectorTime())

DEEP_HELLO = (OUR_VERSIONS, frame_control(1, DEEP))

BEFORE_THE_HANDSHAKE = {
    "noise": (NOISE, ErrorCode.WRONG_MAGIC_NUMBER),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", ErrorCode.WRONG_MAGIC_NUMBER),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ErrorCode.WRONG_MAGIC_NUMBER),
    "another version": ((Preamble(7, 9),), ErrorCode.PEER_INCOMPATIBLE),
    "versions upside down": ((Preamble(9, 1),), ErrorCode.DESERIALIZATION_FAILED),
    "an oversized frame": ((OUR_VERSIONS, front(2**32 - 1, 1)), ErrorCode.LIMIT_EXCEEDED),
    "a message for peers": ((OUR_VERSIONS, Ping(1, 2)), ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE),
    "a node frame": (
        (OUR_VERSIONS, node(header(PackedType.BYTES, b"/t"), b"x")),
        ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE,
    ),
    "an unknown kind": ((OUR_VERSIONS, control(200)), ErrorCode.DESERIALIZATION_FAILED),
    "no CBOR": ((OUR_VERSIONS, frame_control(1, NOISE)), ErrorCode.DESERIALIZATION_FAILED),
    "deep CBOR": (DEEP_HELLO, None),
    "hello twice": ((OUR_VERSIONS, HELLO, HELLO), ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE),
    "an end before the beginning": (
        (OUR_VERSIONS, HELLO, OriginatorAck()),
        ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE,
    ),
    "a vector of nonsense": (
        (OUR_VERSIONS, control(ControlKind.HELLO, bytes(16), {b"short": 1}, FRAME_SIZE_MIN)),
        ErrorCode.DESERIALIZATION_FAILED,
    ),
    "a limit of frames that nothing fits in": (
        (OUR_VERSIONS, control(ControlKind.HELLO, bytes(16), {}, FRAME_SIZE_MIN - 1)),
        ErrorCode.DESERIALIZATION_FAILED,
    ),
}


@pytest.mark.parametrize("attack", BEFORE_THE_HANDSHAKE.values(), ids=BEFORE_THE_HANDSHAKE)
async def test_bad_bytes_instead_of_a_handshake_end_the_connection_with_a_code(kit, attack) -> None:
    said, code = attack
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port, greets=False) as raw:
            await raw.send(*((said,) if isinstance(said, bytes) else said))
            (event,) = await kit.events_until(siege.status, StatusCode.PEER_UNAVAILABLE)
            assert code is None or event.code is code
            assert event.address == raw.stream.socket.getsockname()
            assert event.reason
            drop = await raw.receive_some(DropConn)
            assert drop is not None or said is DEEP_HELLO
            assert drop is None or drop.code is event.code
            assert await raw.receive() is None
        await siege.check()


def announced(**changes: object) -> bytes:
    fields = {
        "origin": bytes(15) + b"\x01",
        "time": 5,
        "links": (),
        "subscriptions": (),
        "stores": (),
        "forwarding": True,
        "name": None,
        "label": None,
        "seal": None,
        **changes,
    }
    return control(ControlKind.ANNOUNCEMENTS, (tuple(fields.values()),))


MALFORMED = ErrorCode.DESERIALIZATION_FAILED
GOOD = header(PackedType.BYTES, b"/t")
FIRE = header(PackedType.COMMAND, b"s/<$>/data/master")

AFTER_THE_HANDSHAKE = {
    "noise": (NOISE, None),
    "an oversized frame": (front(FRAME_SIZE_MAX + 1), ErrorCode.LIMIT_EXCEEDED),
    "a frame without payloads": (front(40, headers=1) + bytes(40), MALFORMED),
    "a frame of too many": (front(8_000, headers=1, count=2_000) + bytes(8_000), MALFORMED),
    "lengths that lie": (
        front(24, headers=1, count=1) + STRANGER + b"\0\1x\xff\xff\xff\xff\xff",
        MALFORMED,
    ),
    "no header": (front(21, count=1) + STRANGER + b"\0\0\0\1x", MALFORMED),
    "too many headers": (front(8_000, headers=257, count=1) + bytes(8_000), MALFORMED),
    "an empty header": (node(b"", b"x"), MALFORMED),
    "a header that is not there": (mixed((GOOD, FIRE), b"\2", b"x"), MALFORMED),
    "flags of later versions": (front(8_000, headers=0x801, count=1) + bytes(8_000), MALFORMED),
    "commands among data": (mixed((GOOD, FIRE), b"\0\1", b"x", b"x"), MALFORMED),
    "no hops to live": (node(GOOD, b"x", ttl=0), MALFORMED),
    "a header that is noise": (node(NOISE[:40], b"x"), MALFORMED),
    "a header that is deep": (node(DEEP[:60_000], b"x"), None),
    "a reserved topic": (
        node(header(PackedType.BYTES, b"/a/<$>/b"), b"x"),
        ErrorCode.INVALID_TOPIC,
    ),
    "a command on a plain topic": (
        node(header(PackedType.COMMAND, b"/t"), b"x"),
        ErrorCode.INVALID_TOPIC,
    ),
    "a type that nobody knows": (node(header(9, b"/t"), b"x"), MALFORMED),
    "half a receiver": (node(header(PackedType.BYTES, b"", b"\1half of it"), b"x"), MALFORMED),
    "a receiver that may be": (node(header(PackedType.BYTES, b"/t", b"\2"), b"x"), MALFORMED),
    "a topic that is none": (node(header(PackedType.BYTES, b"\xff"), b"x"), MALFORMED),
    "a hello": (HELLO, ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE),
    "a proposal": (
        OriginatorSyn(HELLO.sender, VectorTime(), ()),
        ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE,
    ),
    "an agreement": (ResponderSynAck(()), ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE),
    "an unknown kind": (control(99), MALFORMED),
    "a control frame with a count": (front(0, kind=8, count=1), MALFORMED),
    "a ping of noise": (frame_control(ControlKind.PING, NOISE), MALFORMED),
    "a ping that is deep": (frame_control(ControlKind.PING, DEEP), None),
    "a ping with too much": (control(ControlKind.PING, 1, bytes(8), 3), MALFORMED),
    "negative credit": (control(ControlKind.CREDIT, -1), MALFORMED),
    "credit beyond numbers": (frame_control(ControlKind.CREDIT, cbor2.dumps([2**70])), MALFORMED),
    "the time zero": (announced(time=0), MALFORMED),
    "a time beyond the last": (announced(time=LAMPORT_TIME_MAX + 1), MALFORMED),
    "links without order": (announced(links=(b"\2" * 16, b"\1" * 16)), MALFORMED),
    "a reserved subscription": (announced(subscriptions=("<$>",)), ErrorCode.INVALID_TOPIC),
    "subscriptions twice": (announced(subscriptions=("/a", "/a/b")), MALFORMED),
    "a store that is none": (announced(stores=("/t",)), ErrorCode.INVALID_TOPIC),
    "a name without an end": (announced(name="n" * 256), MALFORMED),
    "a name of its own with a blank": (announced(label="a b"), MALFORMED),
    "a name of its own that is long": (announced(label="x" * 10_000), MALFORMED),
    "a name of its own that moves the cursor": (announced(label="\x1b[2J"), MALFORMED),
    "a name of its own like a certificate's": (announced(label="core-1*"), MALFORMED),
    "a seal of nothing": (announced(seal=()), MALFORMED),
    "a seal with half a key": (announced(seal=(b"k" * 16, (), b"", b"s" * 64)), MALFORMED),
    "too many subscriptions": (
        announced(subscriptions=tuple(sorted(f"/{n:06}" for n in range(20_000)))),
        ErrorCode.LIMIT_EXCEEDED,
    ),
}


@pytest.mark.parametrize("attack", AFTER_THE_HANDSHAKE.values(), ids=AFTER_THE_HANDSHAKE)
async def test_bad_bytes_from_a_peer_end_its_peering_with_a_code(kit, attack) -> None:
    said, code = attack
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port) as raw:
            await raw.send(said)
            events = await kit.events_until(siege.status, StatusCode.PEER_REMOVED)
            assert events[-1].endpoint == raw.local
            assert code is None or events[-1].code is code
            assert events[-1].code is not ErrorCode.NONE
            assert "broke the protocol" in events[-1].reason
            drop = await raw.receive_some(DropConn)
            # What is long is not read to its end, and then the system may cut off our last words.
            assert drop is not None or len(kit.encoded(said)) > 60_000
            assert drop is None or drop.code is events[-1].code
        await siege.check()


@pytest.mark.parametrize("is_after", [False, True], ids=["in the handshake", "as a peer"])
async def test_a_connection_cut_off_in_the_middle_of_a_frame_leaves_nothing_behind(
    kit, is_after: bool
) -> None:
    async with kit.besieged() as siege:
        whole = front(1_000_000, kind=1) + bytes(100)
        for size in (1, 7, 8, 15, 27, 100):
            async with kit.raw(siege.hub, siege.port, greets=is_after) as raw:
                await raw.send((whole if is_after else kit.encoded(OUR_VERSIONS) + whole)[:size])
            code = StatusCode.PEER_LOST if is_after else StatusCode.PEER_UNAVAILABLE
            await kit.events_until(siege.status, code)
        await siege.check()


@pytest.mark.parametrize("order", ["small", "great"])
@pytest.mark.parametrize("steps", range(5))
async def test_a_connection_lost_at_any_step_of_the_handshake_leaves_nothing_behind(
    kit, order: str, steps: int
) -> None:
    local = kit.small_id if order == "small" else kit.great_id
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port, local, greets=False) as raw:
            from_us = [OUR_VERSIONS, Hello(local, VectorTime())]
            if order == "small":
                news = (Announcement(local, LamportTime(1), (), (), (), True),)
                from_us += [OriginatorSyn(local, VectorTime(), news)]
            else:
                from_us += [ResponderSynAck(())]
            await raw.send(*from_us[:steps])
            await trio.testing.wait_all_tasks_blocked()
        await kit.until(lambda: len(siege.hub.loop._connections) == 1)
        await siege.check()


async def test_connections_leave_no_file_descriptor_behind(kit) -> None:
    async with kit.besieged() as siege:
        before = len(os.listdir("/proc/self/fd"))
        for said in (b"", NOISE, b"PMSH\0\2\0\2", b"PMSH\0\7\0\x09"):
            for _ in range(5):
                async with kit.raw(siege.hub, siege.port, greets=False) as raw:
                    await raw.send(said)
        for _ in range(5):
            async with kit.raw(siege.hub, siege.port) as raw:
                await raw.send(control(99))
                await raw.receive_some(DropConn)
        await siege.check()
        await kit.until(lambda: len(os.listdir("/proc/self/fd")) == before)


async def test_a_frame_that_comes_byte_by_byte_is_a_frame(kit) -> None:
    async with kit.besieged() as siege:
        subscriber = siege.hub.subscribe("/t")
        async with kit.raw(siege.hub, siege.port) as raw:
            for byte in raw.node("/t", b"slowly"):
                await raw.send(bytes([byte]))
            assert await subscriber.get() == ("/t", b"slowly")
        await siege.check()


# Payloads, senders, numbers.


async def test_payloads_that_are_no_values_are_skipped_and_counted(kit) -> None:
    async with kit.besieged() as siege:
        subscriber = siege.hub.subscribe("/t")
        async with kit.raw(siege.hub, siege.port) as raw:
            bad = (
                NOISE,
                DEEP,
                b"",
                b"\x9f\x01",
                b"\xd8\x1c\x80",
                b"\xbf",
                b"\xc2\x58\x20" + bytes(32),
            )
            good = [encode(number) for number in range(len(bad))]
            mixed = [each for pair in zip(good, bad, strict=True) for each in pair]
            await raw.send(raw.node("/t", *mixed, kind=PackedType.DATA))
            await raw.send(raw.node("/t", b"raw bytes need no decoding"))
            assert [(await subscriber.get())[1] for _ in good] == list(range(len(bad)))
            assert (await subscriber.get())[1] == b"raw bytes need no decoding"
            assert siege.hub.statistics().messages_malformed == len(bad)
            assert raw.local in siege.hub.loop.peerings
        await siege.check()


async def test_spoofed_senders_are_not_believed_where_they_cannot_be_right(kit) -> None:
    async with kit.besieged() as siege:
        subscriber, afar = siege.hub.subscribe("/t"), siege.friend.subscribe("/t")
        await siege.world.known()
        async with kit.raw(siege.hub, siege.port) as raw:
            for sender in (siege.hub.node_id(), STRANGER):
                await raw.send(*(raw.node("/t", b"spoofed", sender=sender) for _ in range(5)))
                await raw.send(raw.node("/t", b"x", sender=sender, sequence=2**64 - 1))
            await raw.send(raw.node("/t", b"honest"))
            assert await subscriber.get() == ("/t", b"honest")
            assert await afar.get() == ("/t", b"honest")
            # What the hub says itself is heard, whatever numbers were used up in its name.
            await siege.hub.publish("/t", b"the hub itself")
            assert await afar.get() == ("/t", b"the hub itself")
        await siege.check()


async def test_repeated_frames_are_delivered_once(kit) -> None:
    async with kit.besieged() as siege:
        subscriber = siege.hub.subscribe("/t")
        async with kit.raw(siege.hub, siege.port) as raw:
            again = raw.node("/t", b"once")
            await raw.send(again, again, raw.node("/t", b"end"), again)
            assert await subscriber.get() == ("/t", b"once")
            assert await subscriber.get() == ("/t", b"end")
            await kit.until(lambda: siege.hub.statistics().messages_duplicate == 2)
            assert subscriber.poll() == []
        await siege.check()


async def test_commands_to_stores_that_do_not_exist_go_nowhere(kit) -> None:
    async with kit.besieged() as siege:
        subscriber = siege.hub.subscribe("")
        async with kit.raw(siege.hub, siege.port) as raw:
            topic = "none/<$>/data/master"
            await raw.send(raw.node(topic, NOISE, kind=PackedType.COMMAND))
            async with siege.hub.attach_master("some") as store:
                topic = "some/<$>/data/master"
                payloads = (NOISE, DEEP, b"", encode(()), encode((1, 2, 3)), encode("no command"))
                await raw.send(raw.node(topic, *payloads, kind=PackedType.COMMAND))
                await raw.send(raw.node("/t", b"end"))
                assert await subscriber.get() == ("/t", b"end")
                assert await (await store.put("a", 1)).applied() is not None
                assert await store.get("a") == 1
        await siege.check()


async def test_commands_that_come_with_a_farewell_are_still_answered(kit) -> None:
    async with kit.besieged() as siege, siege.hub.attach_master("some"):
        async with kit.raw(siege.hub, siege.port) as raw:
            topic = "some/<$>/data/master"
            command = raw.node(topic, encode(()), kind=PackedType.COMMAND)
            await raw.send(command, DropConn(ErrorCode.NONE, "bye"))
            await kit.events_until(siege.status, StatusCode.PEER_LOST)
        assert not siege.hub.loop._dirty
        await siege.check()


# Floods.


async def test_endpoints_that_do_not_exist_are_bounded_and_forgotten(kit) -> None:
    async with kit.besieged(endpoints_max=300) as siege:
        hub, clock = siege.hub, kit.clock(siege.hub)
        known = hub.loop.core.topology.announcements
        ids = [EndpointId(b"\x55" * 8 + number.to_bytes(8)) for number in range(1_000)]
        ghosts = tuple(
            Announcement(each, LamportTime(1), (kit.small_id,), ("/check",), (), True)
            for each in ids
        )
        async with kit.raw(hub, siege.port) as raw:
            own = Announcement(
                raw.local, LamportTime(2), tuple(sorted([*ids, hub.node_id()])), (), (), True
            )
            await raw.send(Announcements((own, *ghosts)))
            await kit.until(lambda: len(known) == 1 + 300)
            for each in ids[:5]:  # what is sent to ghosts goes to whoever made them up
                await hub.publish("/check", "boo", to=each)
            await raw.send(Announcements(ghosts))
        await kit.until(lambda: len(hub.peers()) == 1)
        await clock.advance(65)
        assert len(known) == 2
        await siege.check()


async def test_a_peer_that_asks_without_reading_takes_bounded_memory_and_is_dropped(kit) -> None:
    async with kit.besieged() as siege:
        for number in range(6):
            siege.hub.subscribe(f"/{number}" + "x" * 60_000)
        clock = kit.clock(siege.hub)
        async with kit.raw(siege.hub, siege.port) as raw:
            link = siege.hub.loop.peerings[raw.local].connection.link
            question = kit.encoded(Knowledge(VectorTime()))
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            # Half as many again as there is room for.
            for number in range(200):
                pings = (kit.encoded(Ping(200 * number + at, 0)) for at in range(200))
                await raw.send(question, *pings)
            await kit.until(lambda: link.dropped_words)
            # Each answer is hundreds of kilobytes: the latest of each kind waits, and no other.
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert grown < 4 * PASSED_ON_SIZE_MAX
            while raw.local in siege.hub.loop.peerings:
                await clock.advance(1, raw.local)
            events = await kit.events_until(siege.status, StatusCode.PEER_REMOVED)
            assert events[-1].code is ErrorCode.OUTBOX_OVERFLOW
            assert "has taken nothing" in events[-1].reason
        await siege.check()


async def test_data_beyond_the_credit_is_refused_before_it_fills_the_memory(kit) -> None:
    async with kit.besieged() as siege:
        kit.clock(siege.hub)
        subscriber = siege.hub.subscribe("/t", queue_size=10)
        async with kit.raw(siege.hub, siege.port) as raw:
            frames = 0
            while raw.local in siege.hub.loop.peerings and frames < 1_000:
                try:
                    await raw.send(raw.node("/t", bytes(60_000)))
                except trio.BrokenResourceError:
                    break
                frames += 1
            events = await kit.events_until(siege.status, StatusCode.PEER_REMOVED)
            assert events[-1].code is ErrorCode.LIMIT_EXCEEDED
        waiting, usual = subscriber.poll(), Queueing()
        assert usual.reserve < len(waiting) * 60_000
        assert len(waiting) * 60_000 <= usual.queue_bytes + usual.reserve + WINDOW_SIZE + 60_000
        await siege.check()


LIMITS = LinkLimits()


@pytest.mark.parametrize(
    ("excuses", "seconds"),
    [((), LIMITS.stall_seconds), ((Withheld(),), LIMITS.stand_seconds_max + LIMITS.stall_seconds)],
    ids=["without a word", "with a reason every second"],
)
async def test_a_peer_that_never_grants_credit_is_given_up(kit, excuses, seconds) -> None:
    async with kit.besieged() as siege:
        clock = kit.clock(siege.hub)
        async with kit.raw(siege.hub, siege.port, subscriptions=("/t",)) as raw:
            # It is alive and reads, and says nothing about room.
            async def read() -> None:
                while await raw.receive() is not None:
                    pass

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                link = siege.hub.loop.peerings[raw.local].connection.link
                while not link.is_full:
                    siege.hub.publish_nowait("/t", bytes(60_000))
                    await trio.lowlevel.checkpoint()
                for second in range(100):
                    if raw.local not in siege.hub.loop.peerings:
                        break
                    await raw.send(*excuses, Ping(second, 0))
                    await trio.testing.wait_all_tasks_blocked()
                    await clock.advance(1, raw.local)
                events = await kit.events_until(siege.status, StatusCode.PEER_REMOVED)
                assert events[-1].code is ErrorCode.OUTBOX_OVERFLOW
                assert seconds - 1 <= second <= seconds + 3
                nursery.cancel_scope.cancel()
        await siege.check()


async def test_credit_without_measure_and_pongs_that_nobody_asked_for_do_no_harm(kit) -> None:
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port, subscriptions=("/t",)) as raw:
            await raw.send(Credit(2**62), Credit(0), *(Pong(number, 0) for number in range(1_000)))
            await raw.send(Ping(7, 7))
            pong = await raw.receive_some(Pong)
            assert pong.token == 7
            await siege.hub.publish("/t", b"x")
            while not kit.is_node(await raw.receive()):
                pass
        await siege.check()


async def test_holds_of_nonsense_hold_nothing_and_a_label_writes_no_lines(kit) -> None:
    async with kit.besieged() as siege:
        hub = siege.hub
        async with kit.raw(hub, siege.port, subscriptions=("/t",)) as raw:
            reserved, elsewhere = (
                header(PackedType.BYTES, topic) for topic in (b"/a/<$>/b", b"/check")
            )
            bad = (NOISE[:40], DEEP[:1_000], header(9, b"/t"), FIRE, reserved, elsewhere)
            await raw.send(
                Hold(hub.node_id(), raw.local, 1, "box", bad, is_all=False),
                Hold(hub.node_id(), STRANGER, 1, "box", (GOOD,), is_all=True),
                Hold(STRANGER, raw.local, 1, "box", (GOOD,), is_all=True),
                Ping(1, 0),
            )
            assert await raw.receive_some(Pong) is not None
            assert not kit.is_held(hub, "/check")
            assert not kit.is_held(hub, "/t")
            label = "bye\n2026-01-01 ERROR all is lost\x1b[2J"
            await raw.send(
                Hold(hub.node_id(), raw.local, 2, label, (GOOD,), is_all=False), Ping(2, 0)
            )
            assert await raw.receive_some(Pong) is not None
            with pytest.raises(OutboxFull, match="all is lost") as refused:
                hub.publish_nowait("/t", b"x")
            assert str(refused.value).isprintable()
        await siege.check()


async def test_silent_strangers_make_room_for_others_and_are_ended_in_time(kit) -> None:
    async with kit.besieged(handshakes_max=8) as siege, trio.open_nursery() as nursery:
        clock, opened, verdicts = kit.clock(siege.hub), [], []

        async def be_silent() -> None:
            async with kit.raw(siege.hub, siege.port, greets=False) as raw:
                opened.append(raw)
                verdicts.append(await raw.receive_some(DropConn))

        for number in range(20):
            nursery.start_soon(be_silent)
            await kit.until(lambda n=number: len(opened) == n + 1)
        await kit.until(lambda: len(verdicts) >= 12)
        assert len(siege.hub.loop.greeter) <= 8
        assert {verdict.code for verdict in verdicts} == {ErrorCode.LIMIT_EXCEEDED}
        newcomer = await siege.world.add()
        assert await newcomer.peer(kit.host, siege.port, retry=0)
        await newcomer.shutdown()
        await clock.advance(int(HANDSHAKE_TIMEOUT_SECONDS) + 1)
        await kit.until(lambda: len(verdicts) == 20)
        assert verdicts[-1].code is ErrorCode.PEER_TIMEOUT
    # The nursery closes only when all of them have been told.


async def test_a_crowd_of_peers_is_not_let_in(kit) -> None:
    async with kit.besieged(connections_max=3) as siege, AsyncExitStack() as stack:
        for number in range(2):
            local = EndpointId(b"\x33" * 15 + bytes([number]))
            await stack.enter_async_context(kit.raw(siege.hub, siege.port, local))
        async with kit.raw(siege.hub, siege.port, greets=False) as raw:
            assert await raw.receive() is None
        assert len(siege.hub.peers()) == 3
        # Whom the hub itself wants is welcome.
        newcomer = await siege.world.add()
        assert await siege.hub.peer(kit.host, siege.world.ports[newcomer], retry=0)


async def test_the_reason_of_a_peer_writes_no_lines_of_its_own_into_the_log(kit) -> None:
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port) as raw:
            await raw.send(
                DropConn(ErrorCode.UNSPECIFIED, "bye\n2026-01-01 ERROR all is lost\x1b[2J")
            )
            events = await kit.events_until(siege.status, StatusCode.PEER_LOST)
            assert str(events[-1]).isprintable()
        await siege.check()


# Hostile listeners.


@asynccontextmanager
async def listener(kit, *said: object, closes: bool = False):
    """Somebody who listens, says this to everybody who dials, and perhaps hangs up."""
    dials = []

    async def serve(stream: trio.SocketStream) -> None:
        dials.append(stream)
        for message in said:
            await stream.send_all(message)
        try:
            while not closes and await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=kit.host)
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield listeners[0].socket.getsockname()[1], dials
        nursery.cancel_scope.cancel()


async def test_a_listener_that_hangs_up_or_stays_silent_is_unavailable(kit) -> None:
    async with kit.besieged() as siege:
        async with listener(kit, closes=True) as (port, _):
            outcome = await siege.hub.peer(kit.host, port, retry=0)
            assert outcome.error.code is ErrorCode.PEER_DISCONNECT_DURING_HANDSHAKE
        clock = kit.clock(siege.hub)
        async with listener(kit) as (port, dials), trio.open_nursery() as nursery:
            outcomes = []

            async def dial() -> None:
                outcomes.append(await siege.hub.peer(kit.host, port, retry=0))

            nursery.start_soon(dial)
            await kit.until(lambda: dials and len(siege.hub.loop.greeter) == 1)
            await clock.advance(int(HANDSHAKE_TIMEOUT_SECONDS) + 1)
            await kit.until(lambda: outcomes)
            assert outcomes[0].error.code is ErrorCode.PEER_TIMEOUT
            assert "took longer than" in str(outcomes[0])
        await siege.check()


async def test_a_listener_that_drops_everybody_is_unavailable_with_its_reason(kit) -> None:
    async with kit.besieged() as siege:
        drop = DropConn(ErrorCode.NOT_AUTHORIZED, "you are not on the list")
        said = [encode_preamble(OUR_VERSIONS), frame_control(*encode_control(drop))]
        async with listener(kit, *said) as (port, _):
            outcome = await siege.hub.peer(kit.host, port, retry=0)
            assert outcome.error.code is ErrorCode.NOT_AUTHORIZED
            assert "you are not on the list" in str(outcome)
        await siege.check()


async def test_somebody_else_with_the_id_of_the_hub_is_refused(kit) -> None:
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port, siege.hub.node_id(), greets=False) as raw:
            await raw.send(OUR_VERSIONS, Hello(siege.hub.node_id(), VectorTime()))
            drop = await raw.receive_some(DropConn)
            assert drop.code is ErrorCode.SELF_PEERING
        await siege.check()


async def test_an_endpoint_that_died_and_comes_back_with_its_id_is_heard(kit) -> None:
    async with kit.besieged() as siege:
        subscriber, afar = siege.hub.subscribe("/t"), siege.friend.subscribe("/t")
        await siege.world.known()
        async with kit.raw(siege.hub, siege.port) as old:
            late = Announcement(old.local, LamportTime(99), (siege.hub.node_id(),), (), (), True)
            await old.send(Announcements((late,)))
            await old.send(*(old.node("/t", bytes([number])) for number in range(5)))
            for reader in (subscriber, afar):
                got = [(await reader.get())[1] for _ in range(5)]
                assert got == [bytes([number]) for number in range(5)]
            # It dies without a word: the hub does not know yet, and its old word is the later one.
            back = await siege.world.add(endpoint_id=old.local)
            ear = back.subscribe("/t")
            await siege.world.peer(back, siege.hub)
            await back.publish("/t", "alive")
            assert await subscriber.get() == ("/t", "alive")
            assert await afar.get() == ("/t", "alive")
            await siege.world.known()
            await siege.friend.publish("/t", "welcome back")
            assert await ear.get() == ("/t", "welcome back")
            await back.shutdown()
        del siege.world.ports[back]
        await siege.check()
