"""Who asks a QoS-2 broker, and what each may do there."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from net.network import Network
from peermesh import Endpoint, StatusCode
from peermesh.brokers.qos2 import (
    Consumer,
    DeadLetters,
    Denied,
    Place,
    Ports,
    Publisher,
    Topics,
    open_broker,
    open_shelf,
)
from peermesh.testing.time_limits import limit
from tests.waiting import until
from wire.errors import NotAllowed

SECRET = ClusterSecret(bytes(range(20)))
PLAIN = Ports(publishers=0, consumers=0)
MESH = {
    "names": {"core-*": "core", "guest-*": "guest", "clerk": "clerk"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
        "guest": {"publish": ["open"], "subscribe": ["open"]},
        "clerk": {"read": ["qos2", "qos2/*"]},
    },
}
EDITABLE = """
[names]
anonymous = "all"
[roles.all]
publish = [{}]
subscribe = [{}]
"""


def called(name: str) -> Credentials:
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


class Running:
    """A broker, and clients with certificates."""

    def __init__(self, endpoint: Endpoint, broker) -> None:
        self.endpoint = endpoint
        self.broker = broker

    def publisher(self, who: str | None, name: str = "till") -> Publisher:
        credentials = None if who is None else called(who)
        return Publisher(name, self.broker.publisher_port, credentials=credentials)

    def consumer(self, who: str | None, name: str, *topics: str) -> Consumer:
        credentials = None if who is None else called(who)
        return Consumer(name, topics, self.broker.consumer_port, credentials=credentials)

    async def say(self, who: str | None, text: str, *, to_consumers: bool = False) -> bytes:
        """Say this by hand; give what is answered before the broker ends the connection."""
        port = self.broker.consumer_port if to_consumers else self.broker.publisher_port
        network = Network(None if who is None else called(who), allow_plain=False)
        async with await network.open("127.0.0.1", port) as stream:
            await stream.send_all(text.encode())
            answer = bytearray()
            while data := await stream.receive_some(1_000):
                answer += data
            return bytes(answer)


@asynccontextmanager
async def running(folder: Path | None = None):
    """A broker with TLS, of an endpoint with roles."""
    with trio.fail_after(limit(60)):
        async with Endpoint(credentials=called("core-1"), roles=MESH) as endpoint:
            ports = replace(PLAIN, credentials=endpoint.credentials)
            async with open_broker(endpoint, Place(folder=folder), ports) as broker:
                yield Running(endpoint, broker)


@asynccontextmanager
async def running_plain(folder: Path | None = None, roles: Path | None = None):
    """A broker without TLS: all its clients are anonymous."""
    with trio.fail_after(limit(60)):
        async with Endpoint() as endpoint:
            async with open_broker(endpoint, Place(folder=folder), PLAIN, roles=roles) as broker:
                yield Running(endpoint, broker)


async def refusal_of(status) -> str:
    """Give the reason of the next event of a refusal."""
    async for event in status:
        if event.status is StatusCode.NOT_ALLOWED:
            return event.reason
    raise AssertionError


async def test_a_guest_of_the_mesh_publishes_what_its_role_permits() -> None:
    async with running() as it:
        guest, member = it.publisher("guest-1"), it.publisher("core-2")
        reader = it.consumer("core-2", "reader", "orders", "open", "early")
        async with guest, member, reader:
            with it.endpoint.subscribe_status() as status:
                nonsense = "nonsense\n"  # a stranger's mistake ends the connection
                answer = await it.say("guest-1", f"BEGIN orders\npwnd\nEND\nPUBREL\n{nonsense}")
                assert answer == b"PUBREC\nERROR\nERROR\n"
                reason = await refusal_of(status)
                assert reason.startswith(
                    "'guest-1' (role guest) may not BEGIN 'orders' at the QoS-2 broker"
                )
            for topics in ("orders", ("open", "orders")):
                with pytest.raises(Denied, match="NOT ALLOWED TO BEGIN orders"):
                    await guest.publish(1, topics, b"refused")
            await guest.publish(1, "open", b"of the guest")
            await member.publish(1, "orders", b"of the core")
            found = set()
            for _ in range(2):
                found.add((await reader.get()).payload)
                await reader.done()
            assert found == {b"of the guest", b"of the core"}
            assert it.broker.statistics()["published"] == 2
            topics = await Topics(it.broker.shelf).list()
            assert {each.name: each.owner for each in topics} == {
                "dead_letter": None, "early": "core-2", "open": "guest-1", "orders": "core-2",
            }  # fmt: skip


async def test_subscribing_asks_the_role_of_the_topic() -> None:
    async with running() as it:
        member = it.publisher("core-2")
        refused, reader = it.consumer("guest-1", "a", "orders"), it.consumer("guest-1", "b", "open")
        stranger = it.consumer("other", "c", "open")
        async with member, refused, reader, stranger:
            await member.publish(1, ("orders", "open"), b"tea")
            with pytest.raises(Denied, match="NOT ALLOWED TO SUBSCRIBE orders"):
                await refused.get()
            with pytest.raises(Denied, match="NOT ALLOWED TO LOGIN c"):
                await stranger.get()
            assert (await reader.get()).payload == b"tea"
            dead = it.consumer("guest-1", "a", "dead_letter")
            async with dead:
                with pytest.raises(Denied, match="NOT ALLOWED TO SUBSCRIBE dead_letter"):
                    await dead.get()


async def test_a_consumer_name_belongs_to_the_principal_that_made_it(tmp_path) -> None:
    async with running(tmp_path) as it:
        member, owner = it.publisher("core-2"), it.consumer("core-2", "shop", "open")
        async with member, owner:
            for number in range(1, 3):
                await member.publish(number, "open", b"%d" % number)
            assert (await owner.get()).payload == b"1"
            with it.endpoint.subscribe_status() as status:
                answer = await it.say(
                    "guest-1",
                    "LOGIN shop ids\nSUBSCRIBE open\nNACK id=open/1 final\n",
                    to_consumers=True,
                )
                assert answer.startswith(b"ERROR NOT ALLOWED TO LOGIN shop\n")
                assert "may not LOGIN 'shop'" in await refusal_of(status)
            async with it.consumer("guest-1", "shop", "open") as thief:
                with pytest.raises(Denied, match="NOT ALLOWED TO LOGIN shop"):
                    await thief.get()
            await owner.done()
            assert (await owner.get()).payload == b"2"
    async with running(tmp_path) as it:
        async with it.consumer("guest-1", "shop", "open") as thief:
            with pytest.raises(Denied, match="NOT ALLOWED TO LOGIN shop"):
                await thief.get()
        async with it.consumer("core-2", "shop", "open") as owner:
            assert (await owner.get()).payload == b"2"
    async with running_plain(tmp_path) as it, it.consumer(None, "shop", "open") as thief:
        with pytest.raises(Denied, match="NOT ALLOWED TO LOGIN shop"):
            await thief.get()


async def test_a_name_without_an_owner_is_the_first_principals(tmp_path) -> None:
    async with running_plain(tmp_path) as it, it.publisher(None) as publisher:
        await publisher.publish(1, "open", b"1")
        for _ in range(2):
            async with it.consumer(None, "shop", "open") as consumer:
                assert (await consumer.get()).payload == b"1"
    async with running(tmp_path) as it:
        async with it.consumer("core-2", "shop", "open") as owner:
            assert (await owner.get()).payload == b"1"
        async with it.consumer("guest-1", "shop", "open") as thief:
            with pytest.raises(Denied):
                await thief.get()


async def test_a_follower_knows_whose_a_name_is() -> None:
    async with running() as it, Endpoint(credentials=called("core-3"), roles=MESH) as there:
        assert await there.peer("127.0.0.1", await it.endpoint.listen(), timeout=limit())
        ports = replace(PLAIN, credentials=there.credentials)
        async with open_broker(there, Place(is_follower=True), ports) as broker:
            follower = Running(there, broker)
            async with it.publisher("core-2") as publisher:
                await publisher.publish(1, "open", b"1")
            async with it.consumer("core-2", "shop", "open") as owner:
                assert (await owner.get()).payload == b"1"
                async with follower.consumer("guest-1", "shop", "open") as thief:
                    with pytest.raises(Denied):
                        await thief.get()
                await owner.done()


async def test_ids_of_one_publisher_do_not_hide_messages_of_another() -> None:
    async with running() as it:
        reader = it.consumer("core-2", "reader", "open")
        async with it.publisher("guest-1") as thief, it.publisher("core-2") as owner, reader:
            await thief.publish(7, "open", b"of the guest")
            await owner.publish(7, "open", b"of the core")
            await owner.publish(7, "open", b"of the core")
            for payload in (b"of the guest", b"of the core"):
                assert (await reader.get()).payload == payload
                await reader.done()
            assert it.broker.statistics()["repeated"] == 1


async def test_a_right_that_is_withdrawn_ends_its_subscriptions(tmp_path) -> None:
    file = tmp_path / "roles.toml"
    file.write_text(EDITABLE.format('""', '""'))
    async with running_plain(roles=file) as it:
        reader, other = it.consumer(None, "a", "news"), it.consumer(None, "b", "other")
        async with it.publisher(None) as publisher, reader, other:
            await publisher.publish(1, ("news", "other"), b"1")
            for consumer in (reader, other):
                assert (await consumer.get()).payload == b"1"
                await consumer.done()

            async def reload(text: str) -> None:
                """Change the roles: they are looked at for the next connection."""
                file.write_text(text)
                assert await it.say(None, "nonsense\n") == b"ERROR\n"

            await reload("[names")
            await publisher.publish(2, ("news", "other"), b"2")
            for consumer in (reader, other):
                assert (await consumer.get()).payload == b"2"
                await consumer.done()
            await reload(EDITABLE.format('""', '"other"'))
            with pytest.raises(Denied, match="NOT ALLOWED TO SUBSCRIBE news"):
                await reader.get()
            await publisher.publish(3, ("news", "other"), b"3")
            assert (await other.get()).payload == b"3"
            await reload(EDITABLE.format('"news"', '""'))
            with pytest.raises(Denied, match="NOT ALLOWED TO BEGIN other"):
                await publisher.publish(4, "other", b"4")
            assert (await reader.get()).payload == b"3"
            await reader.done()
            await reload("[roles]")
            with pytest.raises(Denied, match="NOT ALLOWED TO LOGIN a"):
                await reader.get()


@pytest.mark.parametrize("who", ["clerk", "guest-1"])
async def test_dead_letters_ask_for_the_right_to_the_topics(who) -> None:
    async with running() as it, it.publisher("core-2") as publisher:
        await publisher.publish(1, "open", b"tea")
        async with it.consumer("core-2", "shop", "open") as consumer:
            await consumer.get()
            await consumer.refuse("not today", is_final=True)
            await until(lambda: it.broker.statistics()["buried"])
        async with Endpoint(credentials=called(who), roles=MESH, forwarding=False) as there:
            assert await there.peer("127.0.0.1", await it.endpoint.listen(), timeout=limit())
            if who == "guest-1":
                with pytest.raises(NotAllowed):
                    await there.attach_clone("qos2")
                return
            async with open_shelf(there, Place(is_follower=True)) as shelf:
                assert await shelf.table.await_idle(timeout=limit())
                letters = DeadLetters(shelf)
                assert [letter.payload for letter in await letters.list()] == [b"tea"]
                for attempt in (letters.replay, letters.purge):
                    with pytest.raises(NotAllowed):
                        await attempt(1)
                assert len(await letters.list()) == 1
