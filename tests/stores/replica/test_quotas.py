"""Quotas at a master and its clones: what is refused, what goes on, and when it is told."""

from __future__ import annotations

from peermesh.testing.simulation.disk import Disk
from stores import effects as fx
from stores.outcomes import Applied, Refused
from stores.quota import Quota, QuotaLevel
from tests.stores.replica.conftest import TICK_NS, Node, World
from wire.encoding import encode
from wire.errors import ErrorCode


def told(node: Node) -> list[QuotaLevel]:
    return [effect.level for effect in node.said(fx.QuotaCrossed)]


def test_a_full_store_refuses_goes_on_to_erase_and_takes_writes_again(world: World) -> None:
    node = world.master(quota=Quota(max_entries=4))
    requests = [node.put(number, "v") for number in range(6)]
    node.flush()
    results = [node.outcomes[request] for request in requests]
    assert [type(result) for result in results] == [Applied] * 4 + [Refused] * 2
    world.tick()
    assert told(node) == [QuotaLevel.EXCEEDED]
    erased = [node.erase(0), node.erase(1)]
    node.flush()
    assert all(isinstance(node.outcomes[request], Applied) for request in erased)
    world.tick()
    assert told(node) == [QuotaLevel.EXCEEDED, QuotaLevel.RELIEVED]
    again = node.put(9, "v")
    node.flush()
    assert isinstance(node.outcomes[again], Applied)
    assert node.contents() == {2: "v", 3: "v", 9: "v"}


def test_expiry_makes_room(world: World) -> None:
    node = world.master(quota=Quota(max_entries=2))
    node.put(1, "v", expiry_ns=TICK_NS + 1)
    node.put(2, "v", expiry_ns=TICK_NS + 1)
    refused = node.put(3, "v")
    node.flush()
    assert isinstance(node.outcomes[refused], Refused)
    world.tick(2)
    done = node.put(3, "v")
    node.flush()
    assert isinstance(node.outcomes[done], Applied)
    world.tick()
    assert told(node) == [QuotaLevel.EXCEEDED, QuotaLevel.RELIEVED]


def test_another_quota_holds_at_once(world: World) -> None:
    node = world.master(quota=Quota(max_entries=1))
    node.put(1, "v")
    refused = node.put(2, "v")
    node.flush()
    world.tick()
    node.run(node.core.set_quota(Quota(max_entries=4)))
    done = node.put(2, "v")
    node.flush()
    assert isinstance(node.outcomes[refused], Refused)
    assert isinstance(node.outcomes[done], Applied)
    world.tick()
    assert told(node) == [QuotaLevel.EXCEEDED, QuotaLevel.RELIEVED]


def test_what_a_file_holds_beyond_the_quota_stays_and_is_told(world: World, disk: Disk) -> None:
    node = world.master(disk)
    node.put("k", "v" * 100)
    world.settle()
    node.crash()
    node = world.master(disk, quota=Quota(max_bytes=50))
    assert told(node) == []
    node.tick()
    assert told(node) == [QuotaLevel.EXCEEDED]
    assert node.get("k") == "v" * 100


def test_statistics_tell_what_is_used_at_the_master_and_the_clone(world: World) -> None:
    node = world.master(quota=Quota(10, 1_000))
    node.put("k", "value")
    node.flush()
    clone = world.clone()
    world.tick()
    size = len(encode("k")) + len(encode("value"))
    found = node.core.statistics()
    assert (found.entries, found.bytes) == (1, size)
    assert (found.max_entries, found.max_bytes) == (10, 1_000)
    copied = clone.core.statistics()
    assert (copied.entries, copied.bytes) == (1, size)
    assert (copied.max_entries, copied.max_bytes) == (10, 1_000)


def test_statistics_count_the_keys_that_expire(world: World) -> None:
    node = world.master()
    clone = world.clone()
    world.settle()
    node.put("stays", 1)
    node.put("short", 1, 1_000_000)
    node.put("long", 1, 3_600 * 10**9)
    world.settle()
    assert [each.core.statistics().expiring for each in (node, clone)] == [2, 2]
    node.put("long", 1)
    for _ in range(3):
        world.tick()
        world.settle()
    assert [each.core.statistics().expiring for each in (node, clone)] == [0, 0]


def test_a_clone_is_refused_by_its_master_and_holds_the_same(world: World) -> None:
    node = world.master(quota=Quota(max_entries=2))
    clone = world.clone()
    world.settle()
    requests = [clone.put(number, "v") for number in range(3)]
    clone.flush()
    world.settle()
    results = [clone.outcomes[request] for request in requests]
    assert [type(result) for result in results] == [Applied, Applied, Refused]
    assert isinstance(results[-1], Refused)
    assert results[-1].code is ErrorCode.QUOTA_EXCEEDED
    assert clone.contents() == node.contents() == {0: "v", 1: "v"}
