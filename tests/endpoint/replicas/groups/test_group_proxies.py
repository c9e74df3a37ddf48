"""Proxies of groups with several voters, over real sockets and beside real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.stores.store_proxy import StoreProxy, StoreProxyPart
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from tests.endpoint.replicas.groups.test_replica_processes import NAMES, Voters
from tests.waiting import until
from wire.errors import GuardFailed, NotAllowed, QuotaExceeded, StaleData, StoreError

SECRET = ClusterSecret.generate()
RELAYING = {"relay": True, "publish": [""], "subscribe": [""]}
ROLES = {
    "names": {**dict.fromkeys("abc", "voter"), "reader": "reader", "writer": "writer"},
    "default": "nobody",
    "roles": {
        "voter": {**RELAYING, "vote": ["s"]},
        "reader": {"read": ["s"]},
        "writer": {"write": ["s"]},
        "nobody": {},
    },
}


async def outside(group, name: str, **settings: object) -> StoreProxy:
    """Start an endpoint, peer it with all others, and attach a proxy."""
    life = await group.open(name, **settings)
    with trio.fail_after(limit()):
        await until(lambda: group.store_name in life.endpoint.known_groups())
    return await life.endpoint.attach_proxy(group.store_name)


async def leader_of(groups, group) -> str:
    """Wait until all voters agree who leads."""
    voters = [group[name] for name in "abc" if name in group.lives]
    await groups.until(lambda: len({each.leader() for each in voters} | {None}) == 2)
    found = voters[0].leader()
    return found if found is not None else await leader_of(groups, group)


async def test_attach_proxy_gives_the_proxy_of_a_group(groups) -> None:
    async with groups.open() as group:
        proxy = await outside(group, "d")
        assert isinstance(proxy, StoreProxy)
        assert isinstance(proxy.part, StoreProxyPart)
        assert await (await proxy.put("a", {"b": 1})).applied() == 1
        assert await proxy.get("a") == {"b": 1}
        assert await proxy.get_index_from_value("a", "b") == 1
        assert (await proxy.entry("a")).revision == 1
        assert await proxy.put_unique("once", 1)
        assert not await proxy.put_unique("once", 2)
        with pytest.raises(GuardFailed):
            await (await proxy.compare_and_set("once", 3, None)).applied()
        receipt = await proxy.batch(Batch().if_exists("a").increment("n", 5))
        assert await proxy.not_before(receipt).get("n") == 5
        other = await group["b"].put("fresh", 1)
        await other.applied()
        assert await proxy.at_master().get("fresh") == 1
        assert [entry.key async for entry in proxy.entries()] == ["a", "fresh", "n", "once"]
        for reader in (proxy, proxy.at_master(), group["c"], group["c"].read("linear")):
            keys = list[object]()
            async for page in reader.pages("b", limit=1):
                keys += [entry.key for entry in page]
                await (await proxy.put("nothing", len(keys))).applied()
            assert keys == ["fresh", "n", "once"]
            await (await proxy.erase("nothing")).applied()
        assert await proxy.await_idle(timeout=limit())
        assert proxy.runner.is_in_touch
        leader = await leader_of(groups, group)
        members = await group[leader].members()
        assert {each.name for each in members} == set("abc")


async def test_an_endpoint_with_a_replica_has_no_proxy_beside_it(groups) -> None:
    async with groups.open() as group:
        await leader_of(groups, group)
        with pytest.raises(StoreError, match="use that handle"):
            await group.lives["a"].endpoint.attach_proxy("s")
        proxy = await outside(group, "d")
        with pytest.raises(StoreError, match="use that handle"):
            await group.lives["d"].endpoint.attach_proxy("s")
        await proxy.close()
        async with group.lives["d"].endpoint.attach_proxy("s") as again:
            await (await again.put("a", 1)).applied()


async def test_a_proxy_goes_over_to_the_next_leader(groups) -> None:
    async with groups.open() as group:
        proxy = await outside(group, "d")
        await (await proxy.increment("n")).applied()
        await group.stop(await leader_of(groups, group))
        for count in range(2, 12):
            await (await proxy.increment("n")).applied()
            assert await proxy.get("n") == count
        assert await proxy.at_master().get("n") == 11


async def test_replicas_without_a_leader_are_read_and_nothing_is_linear(
    groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with groups.open() as group:
        proxy = await outside(group, "d")
        await (await proxy.put("a", 1)).applied()
        leader = await leader_of(groups, group)
        left, gone = (name for name in "abc" if name != leader)
        assert await group[left].await_idle(timeout=limit())
        await group.stop(leader)
        await group.stop(gone)
        assert await proxy.get("a") == 1
        monkeypatch.setattr("endpoint.replicas.stores.store_proxy.READ_SECONDS", 0.5)
        with pytest.raises(StaleData):
            await proxy.at_master().get("a")


async def test_a_quota_of_the_group_refuses_a_proxy(groups) -> None:
    async with groups.open() as group:
        proxy = await outside(group, "d")
        await (await proxy.put("a", 1)).applied()
        await group["a"].set_quota(max_entries=1)
        with pytest.raises(QuotaExceeded):
            await (await proxy.put("b", 1)).applied()
        await (await proxy.put("a", 2)).applied()


async def test_a_proxy_reads_and_writes_as_its_role_says(groups) -> None:
    def called(name: str) -> dict[str, object]:
        credentials = Credentials.from_secret(SECRET, name)
        return {"credentials": replace(credentials, can_trust_names=True)}

    async with groups.open(names=()) as group:
        for name in NAMES:
            await group.start(name, roles=ROLES, **called(name))
        await (await group["a"].put("k", 1)).applied()
        reader, writer, stranger = [
            await outside(group, name, forwarding=False, **called(name))
            for name in ("reader", "writer", "stranger")
        ]
        assert await reader.get("k") == await reader.at_master().get("k") == 1
        with pytest.raises(NotAllowed, match=r"'reader' \(role reader\) may not write s"):
            await (await reader.put("k", 2)).applied()
        await (await writer.put("k", 3)).applied()
        with pytest.raises(NotAllowed, match=r"'writer' \(role writer\) may not read s"):
            await writer.get("k")
        with pytest.raises(NotAllowed, match=r"'stranger' \(role nobody\) may not read s"):
            await stranger.get("k")
        with pytest.raises(NotAllowed, match=r"'stranger' \(role nobody\) may not write s"):
            await (await stranger.put("k", 4)).applied()
        assert await reader.at_master().get("k") == 3


async def test_voters_that_are_killed_double_and_lose_nothing_and_reads_go_on(
    tmp_path: Path,
) -> None:
    with trio.fail_after(limit(60)):
        async with Endpoint(name="reader") as endpoint:
            voters = Voters(tmp_path, endpoint)
            try:
                for name in NAMES:
                    await voters.start(name)
                await until(lambda: "s" in endpoint.known_groups())
                async with endpoint.attach_proxy("s") as proxy:
                    await _kill_leaders(voters, proxy)
            finally:
                await voters.end()


async def _kill_leaders(voters: Voters, proxy: StoreProxy) -> None:
    """Count with a proxy, reading all the while, and kill three leaders in mid-use."""
    asked = reads = seen = 0
    is_over = False

    async def read() -> None:
        nonlocal reads, seen
        while not is_over:
            found = await proxy.get("n", 0)
            assert found >= seen, "reads never go back"
            seen, reads = found, reads + 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for _ in range(3):
            receipts = [await proxy.increment("n") for _ in range(20)]
            await receipts[0].applied()
            leader = await _leader(voters, proxy)
            before = reads
            await voters.kill(leader)
            receipts += [await proxy.increment("n") for _ in range(20)]
            asked += len(receipts)
            for receipt in receipts:
                await receipt.applied()
            assert await proxy.at_master().get("n") == asked
            # What the leader alone had shown is waited for.
            await until(lambda: reads != before)  # noqa: B023 - within its round
            await voters.start(leader)
        is_over = True


async def _leader(voters: Voters, proxy: StoreProxy) -> str:
    """Name the voter that the proxy follows."""
    assert isinstance(proxy.part, StoreProxyPart)
    core = proxy.part.core
    await until(lambda: core.statistics().is_in_touch)
    ports = {each.node_id: each.address[1] for each in voters.endpoint.peers()}
    names = {port: name for name, port in voters.ports.items()}
    return names[ports[core.leader]]
