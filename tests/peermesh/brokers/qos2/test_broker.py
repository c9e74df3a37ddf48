"""The broker on a mesh: restarts, followers, limits, and parts that fail."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise

import pytest
import trio

from endpoint import Endpoint
from net import acceptor
from peermesh.brokers.qos2 import (
    BrokerUnavailable,
    Consumer,
    DeadLetters,
    Pace,
    Place,
    Ports,
    Publisher,
    Refused,
    TakenOver,
    broker,
    open_broker,
)  # fmt: skip
from peermesh.brokers.qos2.supervision import supervise
from peermesh.testing.time_limits import limit
from tests.waiting import until
from wire.errors import AddressInUse, InsecureAddress

ANY_PORTS = Ports(publishers=0, consumers=0)
QUICK = Pace(resend_seconds=0.001)


@asynccontextmanager
async def running(place: Place | None = None, pace: Pace = QUICK) -> AsyncIterator[object]:
    async with Endpoint() as endpoint, open_broker(endpoint, place, ANY_PORTS, pace) as on:
        yield on


@pytest.fixture
async def on():
    async with running() as found:
        yield found


@pytest.fixture
async def on_a_quota():
    async with running(Place(quota={"max_entries": 2})) as found:
        yield found


async def test_what_was_given_is_taken_once_with_any_bytes(on):
    payloads = [b"", b"END\n", b"no line end", b"\x00\xff\r\n.END\n", b"x" * 1_000_000, b"END\n"]
    async with Publisher("till", on.publisher_port) as out:
        for number, payload in enumerate(payloads, start=1):
            await out.publish(number, ["tea", "coffee"], payload)
            await out.publish(number, ["tea", "coffee"], payload)
    assert on.statistics()["published"] == on.statistics()["repeated"] == len(payloads)
    for topic in ("tea", "coffee"):
        async with Consumer(topic, topic, on.consumer_port) as source:
            for number, payload in enumerate(payloads, start=1):
                message = await source.get()
                assert (message.topic, message.number, message.payload) == (topic, number, payload)
                await source.done()


@pytest.mark.parametrize("topic", ["ä" * 39, "../up", "A", "a", "%2e", "x" * 78])
async def test_a_topic_may_be_called_anything_and_is_a_file(tmp_path, topic):
    async with running(Place(folder=tmp_path / "topics")) as on:
        async with Publisher("till", on.publisher_port) as out:
            await out.publish(1, [topic, "a", "A"], topic.encode())
        async with Consumer("billing", topic, on.consumer_port) as source:
            assert (await source.get()).payload == topic.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["topics"]


async def test_a_topic_that_cannot_be_opened_is_unavailable_and_no_other_is(tmp_path):
    in_the_way = tmp_path / "topic-tea.db"
    in_the_way.mkdir()
    async with running(Place(folder=tmp_path)) as on:
        async with await trio.open_tcp_stream("127.0.0.1", on.publisher_port) as line:
            await line.send_all(b"LOGIN other\nBEGIN tea id=1\ngreen\nEND\nPUBREL id=1\n")
            seen = b""
            while seen.count(b"\n") < 3:
                seen += await line.receive_some()
            assert seen == b"OK ids\nPUBREC id=1\nERROR UNAVAILABLE\n"
        async with Publisher("till", on.publisher_port) as out:
            await out.publish(1, "coffee", b"black")
            in_the_way.rmdir()
            await out.publish(2, "tea", b"green")
    assert on.statistics()["published"] == 2


async def test_beyond_its_quota_a_broker_takes_nothing_and_delivers_on(on_a_quota):
    on = on_a_quota
    async with Publisher("till", on.publisher_port) as out:
        await out.publish(1, "tea", b"green")
        await out.publish(2, "coffee", b"black")
        async with await trio.open_tcp_stream("127.0.0.1", on.publisher_port) as line:
            await line.send_all(b"LOGIN other\nBEGIN milk id=1\nwhite\nEND\nPUBREL id=1\n")
            seen = b""
            while seen.count(b"\n") < 3:
                seen += await line.receive_some()
            assert seen == b"OK ids\nPUBREC id=1\nERROR QUOTA EXCEEDED\n"
        found = on.statistics()
        assert (found["entries"], found["max_entries"], found["refused"]) == (2, 2, 1)
        async with Consumer("billing", "tea", on.consumer_port) as source:
            for _ in range(4):
                assert (await source.get()).payload == b"green"
                await source.refuse("it is poison")
            await until(lambda: on.statistics()["buried"])
        (letter,) = await DeadLetters(on.shelf).list()
        assert letter.payload == b"green"


async def test_a_publisher_tries_again_until_there_is_room(on_a_quota):
    on = on_a_quota
    async with Publisher("till", on.publisher_port) as out, trio.open_nursery() as nursery:
        await out.publish(1, ["tea", "coffee"], b"both")
        nursery.start_soon(out.publish, 2, "tea", b"later")
        await until(lambda: on.statistics()["refused"])
        on.shelf.set_quota(max_entries=3)
    assert on.statistics()["entries"] == 3
    async with Consumer("billing", "tea", on.consumer_port) as source:
        for payload in (b"both", b"later"):
            assert (await source.get()).payload == payload
            await source.done()


async def test_what_files_hold_counts_as_soon_as_a_topic_is_open(tmp_path):
    place = Place(folder=tmp_path, quota={"max_entries": 2, "max_bytes": None})
    async with running(place) as on, Publisher("till", on.publisher_port) as out:
        await out.publish(1, ["tea", "coffee"], b"both")
    async with running(place) as on:
        for topic in ("tea", "coffee"):
            await on.shelf.log(topic)
        assert on.shelf.usage()["entries"] == 2
        assert "max_bytes" not in on.shelf.usage()


async def test_an_id_that_is_too_old_is_refused(on):
    async with Publisher("till", on.publisher_port) as out:
        for number in (*range(1, 4), 1_000_000):
            await out.publish(number, "tea", b"green")
        with pytest.raises(Refused, match="ID TOO OLD"):
            await out.publish(500, "tea", b"black")


async def test_a_refused_message_comes_again_and_is_a_dead_letter_in_the_end(on):
    async with Publisher("till", on.publisher_port) as out:
        await out.publish(1, "tea", b"poison")
    async with Consumer("billing", "tea", on.consumer_port) as source:
        for _ in range(4):
            assert (await source.get()).number == 1
            await source.refuse("it is poison")
        async with Publisher("till", on.publisher_port) as out:
            await out.publish(2, "tea", b"good")
        assert (await source.get()).number == 2
        await source.done()
    (letter,) = await DeadLetters(on.shelf).list()
    assert (letter.topic, letter.consumer, letter.message) == ("tea", "billing", 1)
    assert (letter.reason, letter.attempts, letter.payload) == ("it is poison", 4, b"poison")


async def test_a_dead_letter_is_replayed_once_and_for_its_consumer_only(on):
    letters = DeadLetters(on.shelf)
    async with (
        Publisher("till", on.publisher_port) as out,
        Consumer("billing", "tea", on.consumer_port) as billing,
        Consumer("shipping", "tea", on.consumer_port) as shipping,
    ):
        await out.publish(1, "tea", b"first")
        await billing.get()
        await billing.refuse("not now", is_final=True)
        await out.publish(2, "tea", b"second")
        assert (await billing.get()).payload == b"second"
        await letters.replay(1)
        with pytest.raises(Refused, match="no dead letter 1"):
            await letters.replay(1)
        await out.publish(3, "tea", b"third")
        await billing.done()
        for source, wanted in ((billing, [b"first", b"third"]),
                               (shipping, [b"first", b"second", b"third"])):  # fmt: skip
            for payload in wanted:
                assert (await source.get()).payload == payload
                await source.done()


async def test_a_burial_that_was_interrupted_is_finished_before_anything_is_delivered(
    on, monkeypatch
):
    fallen, finish = trio.Event(), on.shelf._finish_burial

    async def fall(*_):
        fallen.set()
        raise BrokerUnavailable("it fell behind its mark")

    async with (
        Publisher("till", on.publisher_port) as out,
        Consumer("billing", "tea", on.consumer_port) as source,
    ):
        for number in (1, 2):
            await out.publish(number, "tea", str(number).encode())
        monkeypatch.setattr(on.shelf, "_finish_burial", fall)
        await source.get()
        await source.refuse("not now", is_final=True)
        await fallen.wait()
        assert await DeadLetters(on.shelf).list() == []
        monkeypatch.setattr(on.shelf, "_finish_burial", finish)
        assert (await source.get()).number == 2
    (letter,) = await DeadLetters(on.shelf).list()
    assert (letter.message, letter.reason) == (1, "not now")


async def test_a_replay_that_was_interrupted_is_repeated_and_delivers_once(on):
    letters = DeadLetters(on.shelf)
    async with (
        Publisher("till", on.publisher_port) as out,
        Consumer("billing", "tea", on.consumer_port) as source,
    ):
        for number in (1, 2):
            await out.publish(number, "tea", str(number).encode())
            await source.get()
            await source.refuse("not now", is_final=True)
        await out.publish(3, "tea", b"3")
        await source.get()  # so both are buried
        await letters.replay(2)
        await (await on.shelf.table.erase("letter/2")).applied()  # as if it had fallen before that
        await letters.replay(2)
        await source.done()
        await out.publish(4, "tea", b"4")
        for payload in (b"2", b"4"):
            assert (await source.get()).payload == payload
            await source.done()


async def test_a_dead_letter_that_cannot_be_dealt_with_stays_listed(on):
    async with (
        Publisher("till", on.publisher_port) as out,
        Consumer("undertaker", "dead_letter", on.consumer_port) as source,
    ):
        await out.publish(1, "dead_letter", b"dead already")
        await source.get()
        await source.refuse("not this one", is_final=True)
        await out.publish(2, "dead_letter", b"another")
        assert (await source.get()).payload == b"another"
    assert len(await DeadLetters(on.shelf).list()) == 2
    assert on.statistics()["given_up"] == 1


@pytest.mark.parametrize("has_copies", [False, True])
async def test_a_consumer_comes_back_on_another_node(tmp_path, has_copies):
    async with Endpoint() as here, Endpoint() as there:
        port = await here.listen()
        folder = tmp_path / "copies" if has_copies else None
        async with open_broker(here, Place(folder=tmp_path / "topics"), ANY_PORTS) as keeper:
            assert await there.peer("127.0.0.1", port, timeout=limit())
            place = Place(folder=folder, is_follower=True)
            async with open_broker(there, place, ANY_PORTS) as follower:
                async with Publisher("till", follower.publisher_port) as out:
                    for number in (1, 2, 3):
                        await out.publish(number, "tea", str(number).encode())
                        await out.publish(number, "tea", str(number).encode())
                taken = []
                for at in (keeper, follower, keeper):
                    async with Consumer("billing", "tea", at.consumer_port) as source:
                        taken.append((await source.get()).payload)
                        await source.done()
                assert taken == [b"1", b"2", b"3"]


async def test_a_login_on_another_node_fences_the_earlier_one():
    async with Endpoint() as here, Endpoint() as there:
        port = await here.listen()
        async with open_broker(here, Place(), ANY_PORTS) as keeper:
            assert await there.peer("127.0.0.1", port, timeout=limit())
            async with (
                open_broker(there, Place(is_follower=True), ANY_PORTS) as follower,
                Publisher("till", keeper.publisher_port) as out,
                Consumer("billing", "tea", keeper.consumer_port) as first,
                Consumer("billing", "tea", follower.consumer_port) as second,
            ):
                await out.publish(1, "tea", b"green")
                await first.get()
                await second.get()
                with pytest.raises(TakenOver):
                    await first.done()
                await second.done()


async def test_only_loopback_is_spoken_to_in_plain_text():
    async with Endpoint() as endpoint:
        with pytest.raises(InsecureAddress, match="allow_plain"):
            async with open_broker(endpoint, None, Ports("0.0.0.0", 0, 0)):
                pass
        ports = Ports("0.0.0.0", 0, 0, allow_plain=True)
        async with open_broker(endpoint, None, ports) as on:
            assert on.publisher_port


async def test_a_port_that_is_taken_is_named(on):
    async with Endpoint() as endpoint:
        with pytest.raises(AddressInUse, match=str(on.consumer_port)):
            async with open_broker(endpoint, None, Ports(consumers=on.consumer_port, publishers=0)):
                pass


async def test_the_oldest_that_said_nothing_makes_room_and_is_told_so(monkeypatch):
    monkeypatch.setattr(acceptor, "NEWCOMERS_MAX", 2)
    async with running() as on, AsyncExitStack() as stack:
        lines = []
        for _ in range(3):
            line = await trio.open_tcp_stream("127.0.0.1", on.publisher_port)
            lines.append(await stack.enter_async_context(line))
        assert await lines[0].receive_some() == b"ERROR TOO MANY CONNECTIONS\n"
        assert await lines[0].receive_some() == b""
        await lines[2].send_all(b"LOGIN till\n")
        assert await lines[2].receive_some() == b"OK ids\n"
        assert on.statistics()["turned_away"] == 1


async def test_a_silent_publisher_makes_room_for_another_and_is_told_so(monkeypatch):
    monkeypatch.setattr(broker, "CONNECTIONS_MAX", 1)
    async with running() as on:
        async with await trio.open_tcp_stream("127.0.0.1", on.publisher_port) as first:
            await first.send_all(b"BEGIN tea\ngreen\nEND\nPUBREL\n")
            assert await heard(first, b"PUBCOMP\n") == b"PUBREC\nPUBCOMP\n"
            async with Publisher("till", on.publisher_port) as second:
                await second.publish(1, "tea", b"black")
            assert await first.receive_some() == b"ERROR TOO MANY CONNECTIONS\n"
            assert await first.receive_some() == b""
        assert on.statistics()["turned_away"] == 1


async def heard(line: trio.SocketStream, end: bytes) -> bytes:
    said = b""
    while not said.endswith(end):
        said += await line.receive_some()
    return said


@pytest.mark.parametrize("said", ["", "BEGIN tea\nhalf a mess"])
async def test_a_silent_publisher_is_cut(said):
    async with running(pace=Pace(silence_seconds=0.05)) as on:
        async with await trio.open_tcp_stream("127.0.0.1", on.publisher_port) as line:
            await line.send_all(said.encode())
            assert await line.receive_some() == b"ERROR\n"
            assert await line.receive_some() == b""
        assert on.statistics()["cut"] == 1


async def test_a_consumer_that_does_not_acknowledge_is_cut_after_the_resends_and_told_so():
    async with running(pace=Pace(acknowledge_seconds=0.02, resend_seconds=0.001)) as on:
        async with Publisher("till", on.publisher_port) as out:
            await out.publish(1, "tea", b"green\n")
        async with await trio.open_tcp_stream("127.0.0.1", on.consumer_port) as line:
            await line.send_all(b"LOGIN billing\nSUBSCRIBE tea\n")
            seen = b""
            while data := await line.receive_some():
                seen += data
        assert seen == b"BEGIN tea\ngreen\nEND\n" * 4 + b"ERROR SILENT FOR TOO LONG\n"
        (letter,) = await DeadLetters(on.shelf).list()
        assert letter.reason == "no PUBREC in 0.02 s"


async def test_a_client_that_takes_nothing_is_cut_and_no_other_waits():
    async def be_deaf(port: int) -> None:
        line = trio.socket.socket()
        # A large one holds a million answers, all of which the broker would have to give first.
        line.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4_096)
        await line.connect(("127.0.0.1", port))
        async with trio.SocketStream(line) as deaf:
            await deaf.send_all(b"LOGIN deaf ids\n")
            with suppress(trio.BrokenResourceError):
                while True:  # each is answered, and nobody listens
                    await deaf.send_all(b"UNSUBSCRIBE tea\n" * 10_000)

    pace = Pace(send_seconds=limit(0.2))
    async with running(pace=pace) as on, trio.open_nursery() as nursery:
        nursery.start_soon(be_deaf, on.consumer_port)
        async with Publisher("till", on.publisher_port) as out:
            number = 0
            while not on.statistics()["cut"]:
                number += 1
                await out.publish(number, "tea", b"green")
        assert number > 5
        assert on.statistics()["cut"] == 1


async def test_a_connection_that_fails_inside_leaves_the_others(on, monkeypatch, caplog):
    async with Publisher("till", on.publisher_port) as out:
        await out.publish(1, "tea", b"green")

        async def fall(*_):
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(on.shelf, "position", fall)
            async with await trio.open_tcp_stream("127.0.0.1", on.consumer_port) as line:
                await line.send_all(b"LOGIN billing\nSUBSCRIBE tea\n")
                assert await line.receive_some() == b""
        await out.publish(2, "tea", b"black")
    assert on.statistics()["failed"] == 1
    assert re.search("ZeroDivisionError", caplog.text)


async def test_a_part_that_fails_is_started_again(autojump_clock, caplog):
    lives = []

    async def part():
        lives.append(trio.current_time())
        if len(lives) < 4:
            raise ZeroDivisionError(len(lives))

    await supervise("part", part)
    pauses = [later - earlier for earlier, later in pairwise(lives)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4])
    assert caplog.text.count("the part failed, and is started again") == 3


async def test_an_acceptor_that_falls_opens_its_port_again_and_connections_stay(monkeypatch):
    opened = []
    open_listeners = trio.open_tcp_listeners

    async def remember(*where, **how):
        opened.append(await open_listeners(*where, **how))
        return opened[-1]

    monkeypatch.setattr(trio, "open_tcp_listeners", remember)
    async with running() as on, Publisher("till", on.publisher_port) as out:
        await out.publish(1, "tea", b"green")
        await opened[0][0].aclose()
        await out.publish(2, "tea", b"black")
        async with Publisher("other", on.publisher_port) as other:
            await other.publish(1, "tea", b"white")
        assert on.statistics()["published"] == 3
        assert len(opened) == 3
