"""Roles that change while endpoints run: what ends at once, what holds at once, and who is told."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint, StatusCode
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from wire.codec import encode_header
from wire.encoding import encode
from wire.errors import MeshError, NotAllowed, OutboxFull, StaleData
from wire.framing import encode_single
from wire.messages import NodeHeader, PackedType
from wire.topics import store_topics

CORE = {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]}

NOTHING: dict[str, object] = {}

SECRET = ClusterSecret.generate()


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


class File:
    """A file of roles, and the endpoints that go by it."""

    def __init__(self, path: Path, world, **roles: dict[str, object]) -> None:
        self.path = path / "roles.toml"
        self._world = world
        self._readers: list[Endpoint] = []
        self._roles = {"core": CORE, **roles}
        self._names = {name: name for name in roles}
        self._write()

    def _write(self) -> None:
        lines = []
        for name, role in self._roles.items():
            lines += [
                f"[roles.{name}]",
                *(f"{key} = {json.dumps(value)}" for key, value in role.items()),
            ]
        lines += ["[names]", '"core-*" = "core"']
        lines += [f"{name} = {json.dumps(role)}" for name, role in self._names.items()]
        self.write("\n".join(lines))

    def write(self, text: str) -> None:
        """Replace the file, as an administrator does."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.path)

    async def core(self, name: str) -> Endpoint:
        """Start an endpoint that goes by the file."""
        endpoint = await self._world.add(credentials=called(name), roles=self.path)
        self._readers.append(endpoint)
        return endpoint

    async def unknowing(self, name: str, *, forwarding: bool = False) -> Endpoint:
        """Start an endpoint that knows nothing of its limits."""
        return await self._world.add(credentials=called(name), forwarding=forwarding)

    def change(self, **roles: dict[str, object]) -> None:
        """Give names other rights, at all endpoints that go by the file."""
        self._roles |= roles
        self._write()
        self.read()

    def forget(self, name: str) -> None:
        """Take its role from a name."""
        del self._names[name]
        self._write()
        self.read()

    def read(self) -> None:
        """Have all look at the file, as they do every ten seconds."""
        for each in self._readers:
            each.loop.refresh_rules()


async def told(kit, status, words: str) -> None:
    """Wait for a refusal that says so."""
    while True:
        *_, event = await kit.events_until(status, StatusCode.NOT_ALLOWED)
        if words in event.reason:
            return


async def test_publishers_no_longer_wait_for_what_may_hold_no_more(kit, tmp_path) -> None:
    async with kit.world() as world:
        role = {"publish": ["/a"], "subscribe": ["/a"]}
        file = File(tmp_path, world, one=role | {"hold": True})
        one = await file.core("one")
        with one.subscribe("/a", queue_size=4, local=True):
            for number in range(4):
                one.publish_nowait("/a", number)
            with pytest.raises(OutboxFull, match="a subscriber of this endpoint is full"):
                one.publish_nowait("/a", 4)
            file.change(one=role | {"hold": False})
            with trio.fail_after(limit()):
                for number in range(9):
                    await one.publish("/a", number)


async def test_what_may_be_published_changes_at_once(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={"publish": ["/a/"]})
        first, one = await file.core("core-1"), await file.unknowing("one")
        await world.peer(one, first)
        heard, status = first.subscribe(""), first.subscribe_status()
        await world.known()
        await one.publish("/a/1", 1)
        await one.publish("/b/1", 1)
        assert (await heard.get())[0] == "/a/1"
        await told(kit, status, "may not publish on '/b/1'")
        file.change(one={"publish": ["/b/"]})
        await one.publish("/a/2", 2)
        await one.publish("/b/2", 2)
        assert (await heard.get())[0] == "/b/2"
        await told(kit, status, "may not publish on '/a/2'")


async def test_a_subscription_ends_with_its_right_and_begins_with_it(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={"subscribe": ["/a/"]})
        first, relay = await file.core("core-1"), await file.core("core-2")
        one = await file.unknowing("one")
        await world.peer(first, relay)
        await world.peer(one, relay)
        heard, status = one.subscribe(""), relay.subscribe_status()
        await world.known()
        await first.publish("/a/1", 1)
        assert (await heard.get())[0] == "/a/1"
        file.change(one={"subscribe": ["/b/"]})
        await told(kit, status, "may not subscribe to ''")
        for topic in ("/a/2", "/b/2"):
            await first.publish(topic, 2)
        assert (await heard.get())[0] == "/b/2"


async def test_a_peer_whose_name_has_no_role_any_more_is_dropped_until_it_has_one(
    kit, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("endpoint.endpoint.REFRESH_SECONDS", math.inf)
    async with kit.world() as world:
        file = File(tmp_path, world, one={"publish": [""]})
        first, one = await file.core("core-1"), await file.unknowing("one")
        statuses = [each.subscribe_status() for each in (first, one)]
        assert await one.peer(kit.host, world.ports[first], retry=0.01, timeout=limit())
        before = file.path.read_text()
        file.forget("one")
        assert not first.peers()
        *_, ended = await kit.events_until(statuses[0], StatusCode.PEER_REMOVED)
        assert "there is no role for the name 'one'" in ended.reason
        *_, lost = await kit.events_until(statuses[1], StatusCode.PEER_LOST)
        assert "there is no role for the name 'one'" in lost.reason
        file.write(before)  # which is looked at when it dials again
        await kit.until(lambda: one.node_id() in first.loop.peerings)


async def test_a_reload_that_does_not_parse_changes_nothing_and_is_told_once(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={"publish": ["/a/"]})
        first, one = await file.core("core-1"), await file.unknowing("one")
        await world.peer(one, first)
        heard, status = first.subscribe(""), first.subscribe_status()
        await world.known()
        roles, before = first.loop.core.authorisation.roles, file.path.read_text()
        broken = ["[roles", '[names]\nn = "missing"', '[roles.core]\npublish = "all"']
        for text in broken:
            file.write(text)
            file.read()
            file.read()
        file.path.unlink()
        file.read()
        file.write(before + "\n")
        file.read()
        events = await kit.events_until(status, StatusCode.RULES_RELOADED)
        codes = [each.status for each in events if each.status.startswith("rules")]
        refused = [StatusCode.RULES_REFUSED] * (len(broken) + 1)
        assert codes == [*refused, StatusCode.RULES_RELOADED]
        assert "the old ones stay" in events[0].reason
        assert events[0].is_error
        assert first.loop.core.authorisation.roles == roles
        await one.publish("/b/", 1)
        await one.publish("/a/", 1)
        assert (await heard.get())[0] == "/a/"


async def test_a_file_is_looked_at_from_time_to_time(kit, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("endpoint.endpoint.REFRESH_SECONDS", 0.01)
    async with kit.world() as world:
        file = File(tmp_path, world, one={"publish": ["/a/"]})
        first = await file.core("core-1")
        status = first.subscribe_status()
        file.write(file.path.read_text() + "\n[roles.more]\n")
        await kit.events_until(status, StatusCode.RULES_RELOADED)


async def test_what_an_endpoint_may_itself_follows_the_file(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={"publish": ["/a/"], "subscribe": ["/a/"]})
        first, one = await file.core("core-1"), await file.core("one")
        await world.peer(one, first)
        status = one.subscribe_status()
        one.subscribe("/a/b")
        await one.publish("/a/", 1)
        file.change(one={"publish": ["/b/"], "read": ["s"]})
        with pytest.raises(NotAllowed, match=r"'one' \(role one\) may not publish on '/a/'"):
            await one.publish("/a/", 1)
        await told(kit, status, "may not subscribe to '/a/b'")
        await one.publish("/b/", 1)
        async with one.attach_clone("s"):
            pass
        file.forget("one")
        with pytest.raises(NotAllowed, match="without a role"):
            await one.publish("/b/", 1)


async def test_a_relay_that_becomes_a_leaf_is_one_and_comes_back_as_one(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={**CORE})
        first, one, end = [await file.core(name) for name in ("core-1", "one", "core-2")]
        await world.peer(one, first)
        await world.peer(end, one)
        await world.known()
        assert first.loop.core.reach.includes(end.node_id())
        await first.unpeer(kit.host, world.ports[one])
        file.change(one={"publish": [""], "subscribe": [""]})
        await kit.until(lambda: not first.loop.core.reach.includes(end.node_id()))
        await kit.until(lambda: one.node_id() in first.loop.peerings)
        known = first.loop.core.topology.announcements
        await kit.until(lambda: not known[one.node_id()].forwarding)
        file.change(one={**CORE})
        await kit.until(lambda: first.loop.core.reach.includes(end.node_id()))
        assert known[one.node_id()].forwarding
        with first.subscribe("") as heard:
            await world.known()
            await end.publish("/over", "one")
            assert await heard.get() == ("/over", "one")


async def test_a_relay_that_will_not_be_a_leaf_is_dropped(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={**CORE})
        first, one = await file.core("core-1"), await file.unknowing("one", forwarding=True)
        status = first.subscribe_status()
        await world.peer(one, first)
        file.change(one={"publish": [""]})
        assert not first.peers()
        *_, event = await kit.events_until(status, StatusCode.PEER_REMOVED)
        assert "set forwarding=False there" in event.reason


async def test_what_a_leaf_was_not_asked_for_is_asked_when_it_becomes_a_relay(
    kit, tmp_path
) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one=NOTHING)
        first, one, end = [await file.core(name) for name in ("core-1", "one", "core-2")]
        await world.peer(end, one)
        await world.peer(one, first)
        assert await first.await_peer(one)
        assert end.node_id() not in first.loop.core.topology.announcements
        file.change(one={"relay": True})
        assert await first.await_peer(end, timeout=limit())


@pytest.fixture
async def limited(kit, tmp_path):
    """Give a file, a master's endpoint, and behind a relay an endpoint with a clone's rights."""
    async with kit.world() as world:
        file = File(tmp_path, world, one={"read": ["*"], "write": ["*"]})
        first, relay = await file.core("core-1"), await file.core("core-2")
        one = await file.unknowing("one")
        await world.peer(first, relay)
        await world.peer(one, relay)
        await world.known()
        yield file, first, one


async def test_a_clone_that_may_not_read_any_more_ends_with_its_watches(limited) -> None:
    file, first, one = limited
    async with first.attach_master("s") as master, one.attach_clone("s") as clone:
        watch = clone.watch()
        await (await clone.put("a", 1)).applied()
        while getattr(await watch.get(), "key", None) != "a":
            pass
        waiting = trio.Event()
        found: list[Exception] = []

        async def wait() -> None:
            waiting.set()
            try:
                while True:
                    await watch.get()
            except MeshError as error:
                found.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await waiting.wait()
            file.change(one={"write": ["*"]})
            await master.put("secret", 2)
        assert isinstance(found[0], NotAllowed)
        with pytest.raises(NotAllowed, match=r"'one' \(role one\) may not read s"):
            await clone.get("a")
        with pytest.raises(NotAllowed):
            await anext(clone.watch())
        assert encode("secret") not in clone.part.table
        assert clone.runner.core.revision == 1


async def test_a_clone_that_is_granted_its_right_again_is_attached_again(kit, limited) -> None:
    file, first, one = limited
    async with first.attach_master("s") as master:
        await (await master.put("a", 1)).applied()
        async with one.attach_clone("s") as clone:
            assert await clone.get("a") == 1
            status = one.subscribe_status()
            file.change(one=NOTHING)
            events = await kit.events_until(status, StatusCode.STORE_FAILED)
            assert StatusCode.STORE_MASTER_LOST not in [each.status for each in events]
            with pytest.raises(NotAllowed):
                await clone.get("a")
        file.change(one={"read": ["s"]})
        async with one.attach_clone("s") as clone:
            assert await clone.get("a") == 1


async def test_a_writer_whose_right_ends_is_told_in_the_receipt_and_reads_on(limited) -> None:
    file, first, one = limited
    async with first.attach_master("s"), one.attach_clone("s") as clone:
        await (await clone.put("a", 1)).applied()
        file.change(one={"read": ["*"]})
        with pytest.raises(NotAllowed, match="may not write s"):
            await (await clone.put("a", 2)).applied()
        assert await clone.get("a") == 1
        file.change(one={"read": ["*"], "write": ["*"]})
        await (await clone.put("a", 3)).applied()
        assert await clone.get("a") == 3


async def test_a_proxy_loses_and_gets_what_it_may(limited) -> None:
    file, first, one = limited
    async with first.attach_master("s") as master, one.attach_proxy("s") as proxy:
        await (await proxy.put("a", 1)).applied()
        assert await proxy.get("a") == 1
        file.change(one={"write": ["*"]})
        with pytest.raises(NotAllowed, match="may not read s"):
            await proxy.get("a")
        await (await proxy.put("a", 2)).applied()
        file.change(one={"read": ["*"]})
        with pytest.raises(NotAllowed, match="may not write s"):
            await (await proxy.put("a", 3)).applied()
        assert await proxy.get("a") == await master.get("a") == 2


async def test_a_follower_of_a_log_ends_with_its_right(limited) -> None:
    file, first, one = limited
    async with first.attach_log("log") as keeper, one.attach_log_clone("log") as copy:
        await (await copy.append(1)).applied()
        assert await copy.await_idle(timeout=limit())
        consumer = copy.consume()
        assert (await consumer.get()).value == 1
        file.change(one={"write": ["*"]})
        await (await keeper.append(2)).applied()
        with pytest.raises(NotAllowed, match=r"'one' \(role one\) may not read log"):
            await consumer.get()
        assert (await keeper.offsets())[0].end == 2


async def test_a_reader_of_a_log_through_a_proxy_ends_with_its_right(limited) -> None:
    file, first, one = limited
    async with first.attach_log("log") as keeper, one.attach_log_proxy("log") as proxy:
        await (await keeper.append(1)).applied()
        consumer = proxy.consume()
        assert (await consumer.get()).value == 1
        found = []

        async def wait() -> None:
            try:
                found.append(await consumer.get())
            except NotAllowed as error:
                found.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            file.change(one={"write": ["*"]})
            await (await keeper.append(2)).applied()
        assert isinstance(found[0], NotAllowed)


async def test_who_may_not_lead_any_more_is_no_master_for_others(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, leader={"lead": ["s", "log"]})
        first, leader = await file.core("core-1"), await file.unknowing("leader")
        other = await file.core("core-2")
        await world.peer(leader, first)
        await world.peer(other, first)
        async with leader.attach_master("s") as master, leader.attach_log("log"):
            await world.known()
            clone = await first.attach_clone("s", stale_interval=0)
            proxy = await other.attach_proxy("s")
            follower = await first.attach_log_clone("log")
            await (await clone.put("a", 1)).applied()
            await (await follower.append(1)).applied()
            assert await proxy.get("a") == 1
            status = first.subscribe_status()
            file.change(leader={"read": ["*"], "write": ["*"]})
            hears = store_topics("s")[0]
            assert first.loop.core.reach.find_store(hears) is None
            assert not clone.runner.is_in_touch
            assert not follower.runner.is_in_touch
            await (await master.put("a", 2)).applied()
            await told(kit, status, "'leader' (role leader) may not")
            with pytest.raises(StaleData):
                await clone.get("a")
            assert clone.runner.core.revision == 1
            assert other.loop.core.reach.find_store(hears) is None
            assert not proxy.runner.is_in_touch
            file.change(leader={"lead": ["s", "log"]})
            assert first.loop.core.reach.find_store(hears) == leader.node_id()
            assert await clone.await_idle(timeout=limit())
            assert await follower.await_idle(timeout=limit())
            assert await clone.get("a") == await proxy.get("a") == 2


async def test_a_leader_that_gets_its_right_later_is_found(kit, tmp_path) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, leader=NOTHING)
        first, leader = await file.core("core-1"), await file.unknowing("leader")
        await world.peer(leader, first)
        async with leader.attach_master("s"), first.attach_clone("s") as clone:
            await world.known()
            file.change(leader={"lead": ["s"]})
            await (await clone.put("a", 1)).applied()
            assert await clone.get("a") == 1


async def test_messages_of_others_are_not_taken_from_a_peer_that_becomes_a_leaf(
    kit, tmp_path
) -> None:
    async with kit.world() as world:
        file = File(tmp_path, world, one={**CORE})
        first, second = await file.core("core-1"), await file.core("core-2")
        one = await file.unknowing("one")
        status, heard = first.subscribe_status(), first.subscribe("")
        await world.peer(first, second)
        await world.peer(one, first)
        await world.known()
        header = encode_header(NodeHeader(PackedType.BYTES, second.node_id(), None, "/orders"))
        connection = one.loop.peerings[first.node_id()].connection

        def forge() -> None:
            number = second.loop.publication._journal.sequence + 100
            frame = encode_single(second.node_id(), header, 16, number, b"fire")
            connection.send_first(frame)

        forge()
        assert await heard.get() == ("/orders", b"fire")
        file.change(one={"publish": [""]})
        await second.publish("/orders", b"mine")
        assert await heard.get() == ("/orders", b"mine")
        forge()
        await told(kit, status, f"sent messages of {second.node_id()}")
        await one.publish("/own", 1)
        assert (await heard.get())[0] == "/own"
