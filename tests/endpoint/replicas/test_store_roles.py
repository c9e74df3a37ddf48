"""Roles at stores and logs: what a master takes of whom, and how those learn that it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint import Endpoint, StatusCode
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from stores.group.clock import NO_TIMES
from stores.group.messages import HigherTerm, Keepalive
from wire.errors import NotAllowed
from wire.topics import store_topics

ROLES = {
    "names": {"core-*": "core", "writer": "writer", "reader": "reader", "both": "both"},
    "default": "nobody",
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
        "writer": {"write": ["s", "log"]},
        "reader": {"read": ["s", "log"]},
        "both": {"read": ["s", "log"], "write": ["s", "log"]},
        "nobody": {},
    },
}

SECRET = ClusterSecret.generate()


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


async def limited(world, *names: str) -> list[Endpoint]:
    """Start a master's endpoint, a relay, and behind it some who know nothing of their limits."""
    master = await world.add(credentials=called("core-1"), roles=ROLES)
    relay = await world.add(credentials=called("core-2"), roles=ROLES)
    await world.peer(master, relay)
    others = []
    for name in names:
        others.append(await world.add(credentials=called(name), forwarding=False))
        await world.peer(others[-1], relay)
    await world.known()
    return [master, *others]


async def test_a_reader_s_writes_are_refused_in_their_receipts_and_it_reads_on(kit) -> None:
    async with kit.world() as world:
        first, end, other = await limited(world, "reader", "both")
        async with (
            first.attach_master("s") as master,
            end.attach_clone("s") as clone,
            other.attach_clone("s") as allowed,
        ):
            await (await allowed.put("a", 1)).applied()
            for number in range(3):
                with pytest.raises(NotAllowed, match=r"'reader' \(role reader\) may not write s"):
                    await (await clone.put("a", number)).applied()
            await (await allowed.put("b", 2)).applied()
            await clone.await_idle(timeout=limit())
            assert (await clone.get("a"), await clone.get("b")) == (1, 2)
            assert master.runner.core.revision == 2


async def test_a_writer_has_no_copy_but_writes_as_a_proxy(kit) -> None:
    async with kit.world() as world:
        first, end = await limited(world, "writer")
        async with first.attach_master("s") as master:
            async with end.attach_clone("s") as clone:
                with pytest.raises(NotAllowed, match="may not read s"):
                    await (await clone.put("a", 1)).applied()
                with pytest.raises(NotAllowed, match="may not read s"):
                    await clone.get("a")
            async with end.attach_proxy("s") as proxy:
                await (await proxy.put("a", 2)).applied()
                with pytest.raises(NotAllowed, match=r"'writer' \(role writer\) may not read s"):
                    await proxy.get("a")
            assert await master.get("a") == 2


async def test_whoever_has_no_right_learns_that_from_the_master(kit) -> None:
    async with kit.world() as world:
        first, end = await limited(world, "stranger")
        async with first.attach_master("s") as master:
            async with end.attach_proxy("s") as proxy:
                with pytest.raises(NotAllowed, match=r"'stranger' \(role nobody\) may not write s"):
                    await (await proxy.put("a", 2)).applied()
            async with end.attach_clone("s") as clone:
                with pytest.raises(NotAllowed, match=r"may not read s"):
                    await (await clone.put("a", 2)).applied()
            assert master.runner.core.revision == 0


async def test_replicas_are_not_asked_that_may_not_answer_for_the_store(kit) -> None:
    async with kit.world() as world:
        first, reader = await limited(world, "reader")
        async with first.attach_master("s") as master, reader.attach_clone("s") as clone:
            await (await master.put("a", 1)).applied()
            await clone.await_idle(timeout=limit())
            asking = await world.add(credentials=called("core-3"), roles=ROLES)
            await world.peer(asking, first)
            async with asking.attach_proxy("s") as proxy:
                assert await proxy.get("a") == 1
            _, clones = store_topics("s")
            known = asking.loop.core.topology.announcements[reader.node_id()]
            assert clones in known.stores
            assert not list(asking.loop.core.reach.find_stores([clones]))


async def test_nobody_becomes_master_by_force_without_the_right_to_lead(kit) -> None:
    async with kit.world() as world:
        first, end = await limited(world, "both")
        status = first.subscribe_status()
        async with first.attach_master("s") as master, end.attach_clone("s") as clone:
            await (await master.put("a", 1)).applied()
            await clone.await_idle(timeout=limit())
            await clone.promote(force=True)
            await kit.events_until(status, StatusCode.NOT_ALLOWED)
            assert master.is_master()
            assert await (await master.put("a", 2)).applied() == 2


async def test_a_clone_without_the_right_to_lead_fences_no_master(kit) -> None:
    async with kit.world() as world:
        first, end = await limited(world, "both")
        async with first.attach_master("s") as master, end.attach_clone("s") as clone:
            await (await clone.put("a", 1)).applied()
            term = master.part.core.epoch + 1
            for message in (Keepalive(term, 1, 9, 9, NO_TIMES), HigherTerm(term)):
                master.runner.receive(end.node_id(), [*clone.part.core.write(message)])
                reasons = [reason for _, reason, _ in first.loop.core.authorisation.refusals.take()]
                assert reasons == ["'both' (role both) may not vote s"]
            assert master.part.core.epoch == term - 1
            assert master.is_master()
            await (await master.put("a", 2)).applied()


async def test_an_endpoint_that_knows_its_role_fails_where_the_mistake_is_made(kit) -> None:
    async with kit.world() as world:
        first = await world.add(credentials=called("core-1"), roles=ROLES)
        end = await world.add(credentials=called("both"), roles=ROLES)
        await world.peer(end, first)
        with pytest.raises(NotAllowed, match=r"'both' \(role both\) may not lead s"):
            await end.attach_master("s")
        with pytest.raises(NotAllowed, match="may not lead log"):
            await end.attach_log("log")
        with pytest.raises(NotAllowed, match="may not read t"):
            await end.attach_clone("t")
        with pytest.raises(NotAllowed, match="may not read or write t"):
            await end.attach_proxy("t")
        async with first.attach_master("s"), end.attach_clone("s") as clone:
            await clone.await_idle(timeout=limit())
            with pytest.raises(NotAllowed, match="may not lead s"):
                await clone.promote(force=True)


async def test_a_log_is_read_and_written_by_whoever_may(kit) -> None:
    async with kit.world() as world:
        first, reader, writer, stranger = await limited(world, "reader", "writer", "stranger")
        async with first.attach_log("log") as keeper:
            await (await keeper.append("k", 1)).applied()
            async with reader.attach_log_clone("log") as copy:
                with pytest.raises(NotAllowed, match=r"'reader' .* may not write log"):
                    await (await copy.append("k", 2)).applied()
            async with reader.attach_log_proxy("log") as proxy:
                with pytest.raises(NotAllowed, match=r"'reader' .* may not write log"):
                    await (await proxy.append("k", 2)).applied()
                assert (await proxy.offsets())[0].end == 1
            async with writer.attach_log_proxy("log") as proxy:
                await (await proxy.append("k", 2)).applied()
                with pytest.raises(NotAllowed, match=r"'writer' .* may not read log"):
                    await proxy.offsets()
            async with writer.attach_log_clone("log") as copy:
                with pytest.raises(NotAllowed, match="may not read log"):
                    await (await copy.append("k", 3)).applied()
            async with stranger.attach_log_proxy("log") as proxy:
                with pytest.raises(NotAllowed, match=r"'stranger' .* may not write log"):
                    await (await proxy.append("k", 3)).applied()
            assert (await keeper.offsets())[0].end == 2
