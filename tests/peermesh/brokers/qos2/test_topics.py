"""Topics: opened when they are asked for, listed, deleted, and gone when they are of no use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from endpoint import Endpoint
from handshake.principals import Principal, Proof
from peermesh.brokers.qos2 import (
    Consumer,
    DeadLetters,
    Pace,
    Place,
    Ports,
    Publisher,
    QoS2Broker,
    Refused,
    TakenOver,
    Topic,
    Topics,
    catalogue,
    open_broker,
    open_shelf,
)  # fmt: skip
from peermesh.brokers.qos2.catalogue import Record, Stage
from peermesh.brokers.qos2.steps import Delivery
from peermesh.testing.time_limits import limit
from tests.waiting import a_moment, until

ANY_PORTS = Ports(publishers=0, consumers=0)
TILL, BAR = Principal("till", Proof.CERTIFICATE), Principal("bar", Proof.CERTIFICATE)


@asynccontextmanager
async def running(
    place: Place | None = None, pace: Pace | None = None
) -> AsyncIterator[QoS2Broker]:
    async with Endpoint() as endpoint, open_broker(endpoint, place, ANY_PORTS, pace) as on:
        yield on


@asynccontextmanager
async def with_follower(folder, copies) -> AsyncIterator[tuple[QoS2Broker, QoS2Broker]]:
    async with Endpoint() as here, Endpoint() as there:
        port = await here.listen()
        async with open_broker(here, Place(folder=folder), ANY_PORTS) as keeper:
            assert await there.peer("127.0.0.1", port, timeout=limit())
            place = Place(folder=copies, is_follower=True)
            async with open_broker(there, place, ANY_PORTS) as follower:
                yield keeper, follower


async def publish(on: QoS2Broker, number: int, *topics: str) -> None:
    async with Publisher("till", on.publisher_port) as out:
        await out.publish(number, topics, str(number).encode())


async def names(on: QoS2Broker) -> list[str]:
    return [each.name for each in await Topics(on.shelf).list()]


async def until_gone(on: QoS2Broker, topic: str) -> None:
    while topic in await names(on):
        await a_moment()


async def subscribed(on: QoS2Broker, topic: str) -> trio.SocketStream:
    """Give a connection that has a subscription."""
    line = await trio.open_tcp_stream("127.0.0.1", on.consumer_port)
    await line.send_all(f"LOGIN shipping ids\nSUBSCRIBE {topic}\n".encode())
    heard = b""
    while heard.count(b"\n") < 2:
        heard += await line.receive_some()
    assert heard == f"OK ids\nOK SUBSCRIBE {topic}\n".encode()
    return line


# What there is.


async def test_topics_are_listed_with_their_consumers_and_what_waits_for_them():
    async with running() as on:
        await publish(on, 1, "tea", "coffee")
        await publish(on, 2, "tea")
        async with Consumer("billing", "tea", on.consumer_port) as source:
            await source.get()
            await source.done()
        topics = Topics(on.shelf)
        assert await topics.list() == [
            Topic("coffee", None, ()),
            Topic("dead_letter", None, ()),
            Topic("tea", None, ("billing",)),
        ]
        found = await topics.get("tea")
        assert (found.messages, found.last, found.waiting) == (2, 2, {"billing": 1})
        with pytest.raises(Refused, match="there is no topic milk"):
            await topics.get("milk")
        assert "milk" not in await names(on), "to look makes none"


async def test_dead_letters_have_a_place_from_the_start_whatever_others_use(monkeypatch):
    monkeypatch.setattr(catalogue, "TOPICS_MAX", 1)
    async with running() as on:
        assert await names(on) == ["dead_letter"]
        await publish(on, 1, "tea")
        with pytest.raises(Refused, match="1 TOPICS AT MOST"):
            await publish(on, 2, "coffee")
        async with Consumer("billing", "tea", on.consumer_port) as source:
            await source.get()
            await source.refuse("it is poison", is_final=True)
            await until(lambda: on.statistics()["buried"])
        (letter,) = await DeadLetters(on.shelf).list()
        assert letter.reason == "it is poison"


async def test_a_principal_makes_no_more_than_its_share_of_topics(monkeypatch):
    monkeypatch.setattr(catalogue, "TOPICS_OF_PRINCIPAL_MAX", 2)
    async with Endpoint() as endpoint, open_shelf(endpoint, Place()) as shelf:
        for topic in ("a", "b"):
            await shelf.log(topic, TILL)
        with pytest.raises(Refused, match="2 TOPICS OF ONE PRINCIPAL AT MOST"):
            await shelf.log("c", TILL)
        await shelf.log("a", TILL)
        await shelf.log("c", BAR)
        await shelf.log("c", TILL)  # which is another's, and counts for that one
        await Topics(shelf).delete("a")
        await shelf.log("d", TILL)
        owners = {each.name: each.owner for each in await Topics(shelf).list()}
        assert owners == {"b": "till", "c": "bar", "d": "till", "dead_letter": None}


async def test_after_a_restart_no_topic_waits_for_another_to_be_opened(tmp_path, monkeypatch):
    async with running(Place(folder=tmp_path)) as on:
        await publish(on, 1, "slow", "quick")
    attach = Endpoint.attach_log

    async def hang(endpoint, name, *arguments, **options):
        if name == "qos2/slow":
            await trio.sleep_forever()
        return await attach(endpoint, name, *arguments, **options)

    monkeypatch.setattr(Endpoint, "attach_log", hang)
    with trio.fail_after(limit()):
        async with running(Place(folder=tmp_path)) as on:
            async with Consumer("billing", "quick", on.consumer_port) as source:
                assert (await source.get()).payload == b"1"
                await source.done()
            await publish(on, 2, "quick")
            assert on.shelf.topics() == ["dead_letter", "quick"]


# Deletion.


async def test_a_deleted_topic_is_gone_with_its_file_and_its_numbers_are_not_used_again(tmp_path):
    place, topics_folder = Place(folder=tmp_path), tmp_path
    handled: dict[str, int] = {}
    async with running(place) as on:
        for number in (1, 2, 3):
            await publish(on, number, "tea")
        async with Consumer("billing", "tea", on.consumer_port, handled=handled) as source:
            handled["tea"] = (await source.get()).number
            await source.done()
        before = on.shelf.usage()["entries"]
        await Topics(on.shelf).delete("tea")
        assert "tea" not in await names(on)
        assert not [path for path in topics_folder.iterdir() if "tea" in path.name]
        assert (before, on.shelf.usage()["entries"]) == (3, 0)
        with pytest.raises(Refused, match="there is no topic tea"):
            await Topics(on.shelf).delete("tea")

        await publish(on, 3, "tea")  # its ids are forgotten with it
        async with Consumer("billing", "tea", on.consumer_port, handled=handled) as source:
            message = await source.get()
            assert (message.number, message.payload) == (4, b"3")
            await source.refuse("not now", is_final=True)
            await publish(on, 4, "tea")
            assert (await source.get()).number == 5
        (letter,) = await DeadLetters(on.shelf).list()
        assert (letter.topic, letter.message, letter.payload) == ("tea", 4, b"3")
    async with (
        running(place) as on,
        Consumer("billing", "tea", on.consumer_port, handled=handled) as source,
    ):
        assert (await source.get()).number == 5
        assert (await Topics(on.shelf).get("tea")).last == 5


async def test_no_number_is_used_twice_whichever_topic_it_was_in():
    async with running() as on:
        for number in (1, 2, 3):
            await publish(on, number, "tea")
        await publish(on, 4, "coffee")
        for topic in ("tea", "coffee"):
            await Topics(on.shelf).delete(topic)
        await publish(on, 5, "coffee", "milk")
        for topic in ("coffee", "milk"):
            assert (await Topics(on.shelf).get(topic)).last == 4


async def test_the_topic_of_dead_letters_stays():
    async with running() as on:
        with pytest.raises(Refused, match="purge dead letters"):
            await Topics(on.shelf).delete("dead_letter")
        assert await names(on) == ["dead_letter"]


@pytest.mark.parametrize("has_message_in_hand", [False, True])
async def test_a_consumer_of_a_deleted_topic_is_told_and_goes_on_with_what_is_published_next(
    has_message_in_hand,
):
    async with running() as on:
        await publish(on, 1, "tea")
        async with await subscribed(on, "milk") as line:
            await Topics(on.shelf).delete("milk")
            assert await line.receive_some() == b"ERROR TOPIC DELETED\n"
            assert await line.receive_some() == b""
        async with Consumer("billing", "tea", on.consumer_port) as source:
            await source.get()
            if not has_message_in_hand:
                await source.done()
            await Topics(on.shelf).delete("tea")
            if has_message_in_hand:
                await source.done()
            await publish(on, 2, "tea")
            message = await source.get()
            assert (message.number, message.payload) == (2, b"2")
            await source.done()
        assert (await Topics(on.shelf).get("tea")).waiting == {"billing": 0}


@pytest.mark.parametrize("has_copies", [False, True])
async def test_a_topic_is_deleted_from_another_broker_and_its_copies_go_with_it(
    tmp_path, has_copies
):
    copies = tmp_path / "copies" if has_copies else None
    async with with_follower(tmp_path / "topics", copies) as (keeper, follower):
        await publish(follower, 1, "tea")
        async with Consumer("billing", "tea", follower.consumer_port) as source:
            await source.get()
            await source.done()
            await Topics(follower.shelf).delete("tea")
            await until_gone(keeper, "tea")
            await publish(keeper, 1, "tea")
            await publish(keeper, 1, "tea")
            message = await source.get()
            assert (message.number, message.payload) == (2, b"1")
            await source.done()
        async with Consumer("billing", "tea", keeper.consumer_port) as source:
            await publish(follower, 2, "tea")
            assert (await source.get()).number == 3
    for folder in (tmp_path / "topics", *([copies] if copies else [])):
        assert not list(folder.glob("topic-tea.db*")), "the first one's file is there"


async def test_a_session_moves_no_cursor_of_a_topic_that_is_ending():
    async with Endpoint() as endpoint, open_shelf(endpoint, Place()) as shelf:
        await shelf.log("tea")
        await shelf.enter("billing", b"token")
        assert await shelf.catalogue.begin_end("tea", Record())
        assert not await shelf.catalogue.begin_end("tea", Record())
        delivery = Delivery("tea", 0, b"green")
        with pytest.raises(Refused, match="TOPIC DELETED"):
            await shelf.commit("billing", b"token", delivery)
        with pytest.raises(TakenOver):
            await shelf.commit("billing", b"an earlier one", delivery)
        assert not await shelf.catalogue.has_consumers("tea")


async def interrupt_deletion(place: Place, stage: Stage) -> None:
    """Leave a topic of two messages as a crash leaves it, at this stage of its deletion."""
    async with Endpoint() as endpoint, open_shelf(endpoint, place) as shelf:
        for number in (1, 2):
            log = await shelf.log("tea")
            await (await log.append(b"old", producer="till", sequence=number)).applied()
        assert await shelf.catalogue.begin_end("tea", Record())
        if stage is Stage.ENDED:
            await shelf.catalogue.note_end("tea", Record(stage=Stage.ENDING), 2)
    assert (place.folder / "topic-tea.db").exists()


STAGES = pytest.mark.parametrize("stage", [Stage.ENDING, Stage.ENDED])


@STAGES
async def test_a_deletion_that_a_crash_interrupted_is_finished_at_the_next_start(tmp_path, stage):
    place = Place(folder=tmp_path)
    await interrupt_deletion(place, stage)
    async with running(place) as on:
        while await on.shelf.catalogue.find("tea") is not None:
            await a_moment()
        assert not (tmp_path / "topic-tea.db").exists()
        await publish(on, 1, "tea")
        async with Consumer("billing", "tea", on.consumer_port) as source:
            message = await source.get()
            assert (message.number, message.payload) == (3, b"1")


@STAGES
async def test_who_names_a_topic_that_is_being_deleted_gets_another_one(tmp_path, stage):
    place = Place(folder=tmp_path)
    await interrupt_deletion(place, stage)
    async with Endpoint() as endpoint, open_shelf(endpoint, place) as shelf:
        log = await shelf.log("tea")
        assert (await log.offsets())[0].end == 0
        assert await shelf.catalogue.find("tea") == Record(base=2)


# Empty ones.


async def test_a_topic_that_is_empty_and_that_nobody_reads_vanishes():
    async with running(pace=Pace(empty_seconds=0.05)) as on:
        await publish(on, 1, "tea")
        async with await subscribed(on, "milk"):
            assert "milk" in await names(on)
        await until_gone(on, "milk")
        assert await names(on) == ["dead_letter", "tea"], "a message keeps its topic"
        await until(lambda: "milk" not in on.shelf.topics())


async def test_a_topic_stays_while_there_is_a_consumer_of_it_or_something_on_its_way():
    async with running() as on:
        shelf = on.shelf
        for topic in ("tea", "coffee", "empty"):
            await publish(on, 1, topic)
            log = await shelf.log(topic)
            if topic == "tea":
                async with Consumer("billing", topic, on.consumer_port) as source:
                    await source.get()
                    await source.done()
            await (await log.trim(0, 1)).applied()
        receipt = await (await shelf.log("coffee")).append(b"on its way")
        assert not await shelf.open_topics.end_if_empty("tea"), "it has a consumer"
        assert not await shelf.open_topics.end_if_empty("coffee"), "it has a message"
        assert await shelf.open_topics.end_if_empty("empty")
        await receipt.applied()
        await publish(on, 2, "coffee", "tea")
        assert await names(on) == ["coffee", "dead_letter", "tea"]
        assert shelf.usage()["entries"] == 3


async def test_a_message_that_comes_while_a_topic_is_to_vanish_keeps_it(monkeypatch):
    async with running() as on:
        log = await on.shelf.log("tea")
        idle = log.await_idle
        appended = []

        async def append_meanwhile(**options):
            if not appended:  # It passes as if it had been asked for before the log was shut.
                log.part.share_quota(on.shelf._pool)
                appended.append(await log.append(b"green"))
            return await idle(**options)

        monkeypatch.setattr(log, "await_idle", append_meanwhile)
        assert not await on.shelf.open_topics.end_if_empty("tea")
        await appended[0].applied()
        await publish(on, 1, "tea")
        async with Consumer("billing", "tea", on.consumer_port) as source:
            for payload in (b"green", b"1"):
                assert (await source.get()).payload == payload
                await source.done()


async def test_what_is_used_or_of_dead_letters_is_not_idle(mock_clock):
    async with Endpoint() as endpoint, open_shelf(endpoint, Place()) as shelf:
        for topic in ("tea", "coffee"):
            await shelf.log(topic)
        mock_clock.jump(10)
        await shelf.log("tea")
        assert shelf.open_topics.idle(5) == ["coffee"]


async def test_what_retention_took_before_a_consumer_had_it_is_counted():
    async with running() as on:
        for number in range(1, 6):
            await publish(on, number, "tea")
        log = (await on.shelf.open("tea", BAR)).log
        await (await log.trim(0, 3)).applied()
        async with Consumer("billing", "tea", on.consumer_port) as source:
            for number in (4, 5):
                assert (await source.get()).payload == str(number).encode()
                await source.done()
        assert on.statistics()["missed"] == 3
