"""Hostile peers that say too much, or far too little: memory stays, and so do all others."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count

import pytest
import trio
import trio.testing

from endpoint import StatusCode
from endpoint.link import greeting as greeting_module
from endpoint.link.connection import FRAMES_AT_ONCE, Connection
from endpoint.link.limits import WINDOW_SIZE
from endpoint.link.rates import PAUSE_SECONDS_MAX
from endpoint.loop import EndpointLoop
from endpoint.mesh.duplicates import PAGE_SIZE, PAGES
from handshake.machine import OUR_VERSIONS
from net.transport import RECEIVE_SIZE
from tests.waiting import until
from wire.clocks import LamportTime, VectorTime
from wire.encoding import encode
from wire.errors import ErrorCode
from wire.framing import FRONT, FRONT_SIZE, Frame
from wire.identifiers import EndpointId
from wire.limits import (
    FRAME_SIZE_MAX,
    HANDSHAKE_FRAME_SIZE_MAX,
    LAMPORT_TIME_MAX,
    MIB,
    PAYLOAD_SIZE_MAX,
    TTL_MAX,
)
from wire.messages import (
    Announcement,
    Announcements,
    DropConn,
    Hello,
    Knowledge,
    PackedType,
    Ping,
    Pong,
)

STRANGER = EndpointId(b"\x77" * 16)

WISH = "/" + "x" * 500
"""So long that few announcements are read at once."""


@asynccontextmanager
async def at_ease(siege):
    """Have the friends talk all the while that something bad happens to one of them."""
    async with trio.open_nursery() as nursery:

        async def talk() -> None:
            for number in count():
                await siege.hub.publish("/ease", number)
                assert await siege.ease.get() == ("/ease", number)
                siege.talked = number

        siege.talked = -1
        siege.ease = siege.friend.subscribe("/ease")
        await siege.world.known()
        nursery.start_soon(talk)
        yield
        # They still do, after all of it.
        talked = siege.talked
        await until(lambda: siege.talked > talked)
        nursery.cancel_scope.cancel()
    siege.ease.close()


async def answered(raw) -> None:
    """Wait until the endpoint has taken in everything that was said so far."""
    await raw.send(Ping(1, 0))
    assert await raw.receive_some(Pong) is not None


# Strangers.


async def test_a_hello_byte_by_byte_is_ended_in_time_and_holds_up_nobody(kit) -> None:
    async with kit.besieged() as siege:
        clock = kit.clock(siege.hub)
        async with kit.raw(siege.hub, siege.port, greets=False) as raw, at_ease(siege):
            await raw.drip(OUR_VERSIONS)
            hello = kit.encoded(Hello(kit.small_id, VectorTime()))
            for byte in hello[:12]:
                await raw.drip(bytes([byte]))
                await clock.advance(1)
            drop = await raw.receive_some(DropConn)
            assert drop is not None
            assert drop.code is ErrorCode.PEER_TIMEOUT
        await siege.check()


async def test_giants_that_are_announced_and_never_sent_take_no_memory(kit) -> None:
    async with kit.besieged() as siege, at_ease(siege):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        async with (
            kit.raw(siege.hub, siege.port, greets=False) as stranger,
            kit.raw(siege.hub, siege.port) as peer,
        ):

            def heard() -> dict[EndpointId | None, int]:
                return {each.peer: each.bytes_received for each in siege.hub.loop._connections}

            introduced = heard()[peer.local]
            await stranger.send(OUR_VERSIONS, FRONT.pack(HANDSHAKE_FRAME_SIZE_MAX, 1, 0, 0, 0, 0))
            await peer.send(FRONT.pack(FRAME_SIZE_MAX, 0, 9, 60_000, 1, 7), bytes(1_000))
            await kit.until(lambda: heard()[None] == len(kit.encoded(OUR_VERSIONS)) + FRONT_SIZE)
            await kit.until(lambda: heard()[peer.local] == introduced + FRONT_SIZE + 1_000)
            assert tracemalloc.get_traced_memory()[0] - before < MIB
        tracemalloc.stop()


async def test_strangers_with_much_to_say_make_room_for_each_other(kit, monkeypatch) -> None:
    monkeypatch.setattr(greeting_module, "STRANGERS_SIZE_MAX", 4 * MIB)
    async with kit.besieged() as siege, at_ease(siege), trio.open_nursery() as nursery:
        verdicts = []
        kit.clock(siege.hub)  # so that no time passes, which would end them too

        async def babble() -> None:
            async with kit.raw(siege.hub, siege.port, greets=False) as raw:
                await raw.send(OUR_VERSIONS, FRONT.pack(HANDSHAKE_FRAME_SIZE_MAX, 1, 0, 0, 0, 0))
                with suppress(trio.BrokenResourceError):
                    await raw.send(bytes(2 * MIB))
                verdicts.append(await raw.receive_some(DropConn))

        for _ in range(6):
            nursery.start_soon(babble)
        await kit.until(lambda: len(verdicts) >= 4)

        def held() -> int:
            connections = siege.hub.loop._connections
            return sum(each.bytes_received for each in connections if each.peer is None)

        # Who was refused is counted until its connection is gone.
        await kit.until(lambda: held() <= 4 * MIB + 6 * greeting_module.STRANGER_SIZE)
        nursery.cancel_scope.cancel()


IDLE_COUNT = 5_000

CROWD = """
import resource, sys
import trio
from endpoint import Endpoint

async def main():
    async with Endpoint() as hub, Endpoint() as friend:
        port = await hub.listen()
        assert await friend.peer("127.0.0.1", port)
        ear = friend.subscribe("/t")
        print(port, flush=True)
        at = 0
        while await trio.to_thread.run_sync(sys.stdin.readline) == "talk\\n":
            await hub.publish("/t", at)
            while not ear.available() and at == 0:
                await hub.publish("/t", at)
                await trio.lowlevel.checkpoint()
            assert (await ear.get())[1] >= 0
            print(len(hub.loop._connections), flush=True)
            at += 1

resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
trio.run(main)
"""


async def test_5000_idle_connections_are_no_more_than_there_is_room_for() -> None:
    files = 512  # of the process that is attacked: half of what is usual
    with files_for(IDLE_COUNT):
        code = CROWD.replace("FILES", str(files))
        command = [sys.executable, "-c", code]
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        idle = []

        async def say(line: bytes) -> int:
            await process.stdin.send_all(line)
            heard = b""
            while not heard.endswith(b"\n"):
                heard += await process.stdout.receive_some()
            return int(heard)

        try:
            port = await say(b"")
            for number in range(IDLE_COUNT):
                idle.append(trio.socket.socket())
                await idle[-1].connect(("127.0.0.1", port))
                if number % 50 == 0:  # fewer than the system queues for a listener
                    assert await say(b"talk\n") <= files // 2
            assert await say(b"talk\n") <= files // 2
        finally:
            for sock in idle:
                sock.close()
            process.kill()
            await process.wait()


@contextmanager
def files_for(connections: int) -> Iterator[None]:
    """Let this process have as many files open; skips the test where that cannot be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may open {hard} files only, and this takes {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Announcements.


async def test_a_hundred_thousand_subscriptions_are_refused(kit) -> None:
    topics = tuple(sorted(f"/{number:06}" for number in range(100_000)))
    async with kit.besieged() as siege, at_ease(siege):
        async with kit.raw(siege.hub, siege.port) as raw:
            news = Announcement(raw.local, LamportTime(9), (siege.hub.node_id(),), topics, (), True)
            await raw.send(Announcements((news,)))
            events = await kit.events_until(siege.status, StatusCode.PEER_REMOVED)
            assert events[-1].code is ErrorCode.LIMIT_EXCEEDED
            known = siege.hub.loop.core.topology.announcements
            assert known[raw.local].subscriptions == raw.subscriptions, "as it introduced itself"
        await siege.check()


async def test_a_flood_of_announcements_is_heard_at_its_rate_and_others_are_not_held_up(
    kit,
) -> None:
    rate = 500
    async with kit.besieged(announcements_per_second_max=rate, endpoints_max=100) as siege:
        core = siege.hub.loop.core
        async with kit.raw(siege.hub, siege.port) as raw, at_ease(siege):
            raw.subscriptions = (WISH,)
            async with trio.open_nursery() as nursery:

                async def flood() -> None:
                    for time in count(2, 100):
                        some = range(time, time + 100)
                        await raw.send(
                            Announcements(
                                tuple(
                                    raw.about(raw.local, at, (siege.hub.node_id(),)) for at in some
                                )
                            )
                        )

                async def listen() -> None:
                    while await raw.receive() is not None:
                        pass

                nursery.start_soon(flood)
                nursery.start_soon(listen)
                began = trio.current_time()
                await kit.until(lambda: core.topology.announcements[raw.local].time > 3 * rate)
                heard = core.topology.announcements[raw.local].time
                # A second's worth comes at once, and a chunk that is read is taken in as a whole.
                at_once = 2 * RECEIVE_SIZE // len(WISH)  # with what was half there before
                assert heard <= rate * (trio.current_time() - began + 1) + at_once
                nursery.cancel_scope.cancel()
        await siege.check()


async def test_word_of_others_with_giant_times_and_links_that_contradict_it_leads_nowhere(
    kit,
) -> None:
    async with kit.besieged() as siege:
        hub, friend = siege.hub, siege.friend
        async with kit.raw(hub, siege.port) as raw, at_ease(siege):
            far = LamportTime(LAMPORT_TIME_MAX)
            ids = tuple(sorted((raw.local, STRANGER, friend.node_id())))
            ghosts = (
                Announcement(STRANGER, far, ids, ("",), (), True),
                Announcement(EndpointId(b"\x76" * 16), far, (STRANGER,), ("",), (), True),
            )
            await raw.send(Announcements(ghosts))
            await answered(raw)
            # Nobody else says that he is linked with them: they are nowhere.
            reachable = hub.loop.core.topology.reachable()
            assert set(reachable) == {friend.node_id(), raw.local}
        await siege.check()


async def test_an_endpoint_in_whose_name_others_speak_speaks_up(kit) -> None:
    async with kit.besieged() as siege:
        hub, friend = siege.hub, siege.friend
        async with kit.raw(hub, siege.port) as raw, at_ease(siege):
            known = hub.loop.core.topology.announcements
            for time in (50, 5_000, 10**9):
                forged = raw.about(friend.node_id(), time)
                await raw.send(Announcements((forged,)))
                await kit.until(lambda at=time: known[friend.node_id()].time > at)
                await kit.until(lambda: known[friend.node_id()].links == (hub.node_id(),))
        await siege.check()


# Messages.


async def test_everything_twice_backwards_and_with_gaps_takes_bounded_memory(kit) -> None:
    async with kit.besieged() as siege:
        ear = siege.hub.subscribe("/t")
        async with kit.raw(siege.hub, siege.port) as raw, at_ease(siege):
            numbers = list(range(8 * PAGE_SIZE, 0, -2))
            for _ in range(2):
                for at in range(0, len(numbers), 64):
                    await raw.send(
                        *(raw.node("/t", b"x", sequence=each) for each in numbers[at : at + 64])
                    )
                    await answered(raw)
                    ear.poll()
            window = siege.hub.loop.core.routing._windows._windows[raw.local, False]
            assert len(window._pages) == PAGES
            assert siege.hub.statistics().messages_duplicate >= len(numbers)
        await siege.check()


async def test_a_long_life_is_no_longer_than_any_other(kit) -> None:
    """The hub takes one hop off, whatever is left, and sends nothing back."""
    async with kit.besieged() as siege:
        ear = siege.friend.subscribe("/t")
        await siege.world.known()
        async with kit.raw(siege.hub, siege.port, subscriptions=("/t",)) as raw, at_ease(siege):
            await raw.send(raw.node("/t", b"x", ttl=TTL_MAX), raw.node("/t", b"y", ttl=1))
            await raw.send(raw.node("/t", b"z", ttl=2))
            assert [await ear.get() for _ in range(2)] == [("/t", b"x"), ("/t", b"z")]
            await raw.send(Ping(1, 0))
            while not isinstance(message := await raw.receive(), Pong):
                assert not kit.is_node(message)
        await siege.check()


async def test_bombs_are_skipped_and_counted(kit) -> None:
    tables = (PAYLOAD_SIZE_MAX - 5) // 3
    bomb = b"\x9a" + tables.to_bytes(4) + b"\xa1\x60\x00" * tables
    async with kit.besieged(value_depth_max=3, value_entries_max=10) as siege:
        ear = siege.hub.subscribe("/t")
        async with kit.raw(siege.hub, siege.port) as raw, at_ease(siege):
            good = encode((1, (2, (3,))))
            bad = (encode((((((),),),),)), encode((0,) * 10))
            await raw.send(raw.node("/t", *bad, good, kind=PackedType.DATA))
            assert await ear.get() == ("/t", (1, (2, (3,))))
            await raw.send(raw.node("/t", bomb, kind=PackedType.DATA))
            connection = siege.hub.loop.peerings[raw.local].connection
            await kit.until(lambda: connection.messages_received == 4)
            await siege.friend.publish("/t", "end")
            assert await ear.get() == ("/t", "end")
            assert siege.hub.statistics().messages_malformed == 3
        await siege.check()


class Turns(trio.abc.Instrument):
    """Counts the frames that are taken in between two looks at the network."""

    def __init__(self) -> None:
        self.frames = self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most, self.frames = max(self.most, self.frames), 0


async def test_thousands_of_frames_at_once_leave_turns_to_others(kit, monkeypatch) -> None:
    turns, count = Turns(), 20_000
    async with kit.besieged() as siege:
        async with kit.raw(siege.hub, siege.port) as raw, trio.open_nursery() as nursery:
            connection, receive = (
                siege.hub.loop.peerings[raw.local].connection,
                EndpointLoop.receive,
            )
            before = connection.bytes_received

            def counted(loop: EndpointLoop, connection: Connection, frame: Frame) -> None:
                turns.frames += 1
                receive(loop, connection, frame)

            monkeypatch.setattr(EndpointLoop, "receive", counted)
            trio.lowlevel.add_instrument(turns)
            pings = kit.encoded(Ping(1, 0)) * count
            nursery.start_soon(raw.send, pings)
            await kit.until(lambda: connection.bytes_received - before >= len(pings))
            await answered(raw)
            trio.lowlevel.remove_instrument(turns)
        assert turns.most <= 2 * FRAMES_AT_ONCE  # as others send frames, too
        await siege.check()


async def test_a_peer_beyond_its_rate_waits_for_credit_and_loses_nothing(kit) -> None:
    rate, count, size = 1_500, 8_000, 1_000
    async with kit.besieged(messages_per_second_max=rate) as siege:
        ear, hub, was_held = siege.hub.subscribe("/t"), siege.hub, False
        peering = hub.loop.peerings[siege.friend.node_id()]
        await siege.world.known()
        async with trio.open_nursery() as nursery:

            async def publish() -> None:
                for number in range(count):
                    await siege.friend.publish("/t", number.to_bytes(size))

            nursery.start_soon(publish)
            began = trio.current_time()
            for number in range(count):
                assert await ear.get() == ("/t", number.to_bytes(size))
                was_held = was_held or peering.connection.link.is_withheld
        assert was_held
        assert peering.connection.peer is not None
        # Without more credit there come a second's worth, the window, and what is read with them.
        at_once = rate + (WINDOW_SIZE + RECEIVE_SIZE) / size
        assert trio.current_time() - began >= (count - at_once) / rate


async def test_commands_beyond_the_rate_are_read_later(kit) -> None:
    rate = 500_000
    async with kit.besieged(bytes_per_second_max=rate) as siege:
        async with kit.raw(siege.hub, siege.port) as raw, siege.hub.attach_master("some"):
            command = raw.node("some/<$>/data/master", bytes(1_000), kind=PackedType.COMMAND)
            connection = siege.hub.loop.peerings[raw.local].connection
            began = trio.current_time()
            async with trio.open_nursery() as nursery:

                async def flood() -> None:
                    while True:
                        await raw.send(command * 64)

                nursery.start_soon(flood)
                await kit.until(lambda: connection.bytes_received > 3 * rate)
                passed = trio.current_time() - began
                # A second's worth comes at once, and a chunk that is read is taken in as a whole.
                assert connection.bytes_received <= rate * (passed + 1) + 2 * RECEIVE_SIZE
                nursery.cancel_scope.cancel()
        await siege.check()


async def test_many_questions_count_as_news_and_what_follows_them_is_read_later(kit) -> None:
    async with kit.besieged(announcements_per_second_max=10, endpoints_max=10) as siege:
        async with kit.raw(siege.hub, siege.port) as raw, at_ease(siege):
            connection = siege.hub.loop.peerings[raw.local].connection
            began = trio.current_time()
            await raw.send(*[Knowledge(VectorTime())] * 50)
            await kit.until(lambda: connection.rates._news.late_seconds(trio.current_time()) > 1)
            await answered(raw)
            assert trio.current_time() - began >= PAUSE_SECONDS_MAX
        await siege.check()
