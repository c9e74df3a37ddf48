"""Consumers' names: limited, listed, and forgotten with all that was kept for them."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from handshake.principals import UNPROVEN, Principal, Proof
from peermesh.brokers.qos2 import (
    Consumer,
    ConsumerName,
    Place,
    Publisher,
    Refused,
    TakenOver,
    Topics,
    names,
    open_shelf,
)
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.qos2.test_topics import running, with_follower
from tests.waiting import a_moment

TILL, BAR = Principal("till", Proof.CERTIFICATE), Principal("bar", Proof.CERTIFICATE)


async def test_a_principal_makes_no_more_than_its_share_of_names(monkeypatch) -> None:
    monkeypatch.setattr(names, "CONSUMERS_OF_PRINCIPAL_MAX", 2)
    async with Endpoint() as endpoint, open_shelf(endpoint, Place()) as shelf:
        for name in ("a", "b"):
            assert await shelf.owns(name, TILL)
        with pytest.raises(Refused, match="2 CONSUMERS OF ONE PRINCIPAL AT MOST"):
            await shelf.owns("c", TILL)
        assert await shelf.owns("a", TILL)
        assert await shelf.owns("c", BAR)
        assert not await shelf.owns("c", TILL)
        for name in ("d", "e"):
            assert await shelf.owns(name, UNPROVEN)
        with pytest.raises(Refused, match="OF ONE PRINCIPAL"):
            await shelf.owns("f", UNPROVEN)
        await shelf.names.forget("a")
        assert await shelf.owns("f", TILL)


async def test_a_broker_has_so_many_names_and_who_logs_in_is_told(monkeypatch) -> None:
    monkeypatch.setattr(names, "CONSUMERS_MAX", 1)
    async with running() as on:
        for name, answer in (("first", b"OK ids"), ("second", b"ERROR 1 CONSUMERS AT MOST")):
            async with await trio.open_tcp_stream("127.0.0.1", on.consumer_port) as line:
                await line.send_all(f"LOGIN {name} ids\n".encode())
                assert await line.receive_some() == answer + b"\n"
        async with Consumer("second", "tea", on.consumer_port) as consumer:
            with pytest.raises(Refused, match="1 CONSUMERS AT MOST"):
                await consumer.get()
        assert [each.name for each in await Topics(on.shelf).consumers()] == ["first"]


async def test_many_that_log_in_at_once_make_no_more_names_than_there_may_be(monkeypatch) -> None:
    monkeypatch.setattr(names, "CONSUMERS_MAX", 3)
    made: list[str] = []
    async with Endpoint() as endpoint, open_shelf(endpoint, Place()) as shelf:

        async def make(name: str) -> None:
            try:
                await shelf.owns(name, UNPROVEN)
            except Refused:
                return
            made.append(name)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(make, f"name{number}")
        assert len(made) == len(await shelf.names.owners()) == 3


async def test_a_forgotten_consumer_begins_anew_and_its_connection_acknowledges_nothing(
    tmp_path,
) -> None:
    async with running(Place(folder=tmp_path)) as on:
        async with Publisher("till", on.publisher_port) as out:
            for number in (1, 2):
                await out.publish(number, "tea", str(number).encode())
        topics = Topics(on.shelf)
        async with Consumer("billing", "tea", on.consumer_port) as consumer:
            await consumer.get()
            await consumer.done()
            assert await topics.consumers() == (ConsumerName("billing", None, ("tea",)),)
            assert (await consumer.get()).payload == b"2"
            await topics.forget("billing")
            with pytest.raises(TakenOver):
                await consumer.done()
        assert await topics.consumers() == ()
        assert (await topics.get("tea")).waiting == {}
        with pytest.raises(Refused, match="there is no consumer billing"):
            await topics.forget("billing")
    async with (
        running(Place(folder=tmp_path)) as on,
        Consumer("billing", "tea", on.consumer_port) as consumer,
    ):
        assert (await consumer.get()).payload == b"1"


async def test_a_name_that_is_used_while_it_is_forgotten_stays_its_owners(monkeypatch) -> None:
    async with Endpoint() as endpoint, open_shelf(endpoint, Place()) as shelf:
        assert await shelf.owns("billing", TILL)
        erase_all = names.erase_all

        async def erase(*arguments):
            await erase_all(*arguments)
            assert await shelf.owns("billing", TILL)
            await shelf.enter("billing", b"token")

        monkeypatch.setattr(names, "erase_all", erase)
        await Topics(shelf).forget("billing")
        assert not await shelf.owns("billing", BAR)
        assert await shelf.names.owner("billing") == TILL.name


async def test_a_consumer_is_forgotten_at_another_broker(tmp_path) -> None:
    async with with_follower(tmp_path / "topics", tmp_path / "copies") as (keeper, follower):
        assert await keeper.shelf.owns("billing", TILL)
        with trio.fail_after(limit()):
            while not await Topics(follower.shelf).consumers():
                await a_moment()
        await Topics(follower.shelf).forget("billing")
        assert await Topics(keeper.shelf).consumers() == ()
        assert await follower.shelf.owns("billing", BAR)
