"""Clusters of real endpoints, in this process and in others: nodes, barriers, faults, ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from peermesh import Backend, StatusCode
from peermesh.testing.agent.client import AgentFailed, AgentHost
from peermesh.testing.cluster import await_empty, open_cluster
from peermesh.testing.disks import FailingSync, LyingSync
from peermesh.testing.faults import Delay, Direction, Partition, Reset, Unsupported
from peermesh.testing.handles import NodeDown
from peermesh.testing.leaks import LeakError
from peermesh.testing.nurseries import open_quiet_nursery
from peermesh.testing.shapes import UnknownShape
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from stores.log.partitions import Span
from stores.log.runs import Position
from stores.watches import Bookmark
from wire.errors import BackendFailure, EncodeError, GuardFailed, MasterExists, TypeClash

everywhere = pytest.mark.worlds("sim", "loopback", "process", "netns")


@everywhere
async def test_a_message_crosses_a_line_of_nodes(cluster):
    line = await cluster(3, "line")
    a, b, c = line
    assert (await a.peers(), await b.peers()) == (["b"], ["a", "c"])
    async with await c.subscribe("/x") as messages:
        assert await line.await_converged()
        await a.publish("/x/y", {"celsius": 21.5})
        await a.publish_batch([("/x/z", 1), ("/y", 2)])
        await a.publish("/x", "for b", to=b)
        assert await messages.get() == ("/x/y", {"celsius": 21.5})
        assert await messages.get() == ("/x/z", 1)
        assert await messages.poll() == []
        with pytest.raises(TimeoutError):
            await messages.get(timeout=0)
        await messages.add_topic("/other")
        assert await line.await_converged()
        await a.publish("/other", b"bytes")
        async for topic, data in messages:
            assert (topic, data) == ("/other", b"bytes")
            break
    assert (await a.statistics())["messages_published"] == 5


@everywhere
async def test_a_store_replicates_and_refuses_as_at_an_endpoint(cluster):
    star = await cluster(3, "star")
    a, b, _ = star
    async with await a.attach_master("s") as master, await b.attach_clone("s") as clone:
        await (await clone.put("count", 1)).applied()
        with pytest.raises(TypeClash):
            await (await clone.append("count", "text")).applied()
        revision = await (await clone.batch(Batch().if_value("count", 1).put("count", 2))).applied()
        with pytest.raises(GuardFailed):
            await (await clone.batch(Batch().if_absent("count").put("count", 3))).applied()
        assert not await clone.put_unique("count", 9)
        assert revision == 2
        assert await star.await_converged()
        assert await clone.get("count") == await master.get("count") == 2
        assert await clone.items() == [("count", 2)]
        with pytest.raises(MasterExists):
            await b.attach_master("s")
        with pytest.raises(EncodeError):
            await clone.put("huge", 2**70)


@everywhere
async def test_a_store_is_watched_promoted_and_verified(cluster):
    ring = await cluster(3, "ring")
    a, b, c = ring
    await a.attach_master("s")
    clone, other = await b.attach_clone("s"), await c.attach_clone("s")
    first = await (await clone.put("k", 1)).applied()
    assert await ring.await_converged()
    assert (await clone.entry("k")).revision == first
    assert await clone.entry("none") is None
    async with await clone.watch(prefix="k") as watch:
        assert (await watch.get(timeout=limit(60))).value == 1
        mark = await watch.get(timeout=limit(60))
        assert isinstance(mark, Bookmark)
        assert mark.revision == first
        second = await (await clone.compare_and_set("k", 2, first)).applied()
        with pytest.raises(GuardFailed):
            await (await clone.compare_and_set("k", 3, first)).applied()
        choice = Batch().if_value("k", 1).put("k", 9).otherwise().put("else", True)
        await (await clone.batch(choice)).applied()
        commit = await watch.get(timeout=limit(60))
        assert (commit.revision, commit.writer) == (second, b.node_id())
        assert [(each.kind.value, each.entry.value) for each in commit.changes] == [("put", 2)]
    assert await clone.get("else") is True
    verification = await clone.verify()
    assert verification
    assert len(verification.replicas) == 3
    await a.kill()
    promotion = await clone.promote(force=True)
    assert (promotion.term, clone.is_master) == (1, True)
    await (await other.compare_and_erase("k", second)).applied()
    assert await ring.await_converged()
    assert await other.keys() == await clone.keys() == ["else"]


@everywhere
async def test_a_log_is_kept_and_followed(cluster):
    pair = await cluster(["keeper", "reader"])
    keeper, reader = pair
    async with (
        await keeper.attach_log("words", ["/w"], 2) as log,
        await reader.attach_log_clone("words") as copy,
    ):
        assert await pair.await_converged()
        appended = await copy.append_batch(("a", "b"), partition=1)
        assert await appended.applied() == Position(1, 0)
        await reader.publish("/w/x", "c")
        (collected,) = await log.read(0, 0, timeout=limit(60))
        assert (collected.key, collected.value) == ("/w/x", "c")
        assert await pair.await_converged()
        assert [each.value for each in await copy.read(1, 0)] == ["a", "b"]
        assert (await copy.offsets())[1] == Span(0, 2)
        await (await copy.commit("me", {1: 2})).applied()
        assert await log.committed("me") == {1: 2}


@everywhere
async def test_a_log_in_a_file_is_there_after_a_restart(cluster):
    (node,) = await cluster(1)
    log = await node.attach_log("words", backend=Backend.SQLite)
    await (await log.append("kept")).applied()
    await node.restart()
    log = await node.attach_log("words", backend=Backend.SQLite)
    assert [each.value for each in await log.read(0, 0)] == ["kept"]


@pytest.mark.worlds("sim", "process", "netns")
async def test_a_disk_that_fails_under_a_node_is_told_and_heals(cluster):
    (node,) = await cluster(1)
    store = await node.attach_master("s", Backend.SQLite)
    await (await store.put("k", 1)).applied()
    await node.disturb_disk(LyingSync())
    await (await store.put("k", 2)).applied()
    await node.disturb_disk(FailingSync())
    with pytest.raises(BackendFailure):
        await (await store.put("k", 3)).applied()
    await node.heal_disk()
    await store.close()
    store = await node.attach_master("s", Backend.SQLite)
    await (await store.put("k", 4)).applied()
    await node.disturb_disk(FailingSync())
    await node.restart()
    store = await node.attach_master("s", Backend.SQLite)
    assert await store.get("k") == 4


@everywhere
async def test_a_get_that_is_cancelled_loses_no_message(cluster):
    two = await cluster(2)
    a, b = two
    messages = await b.subscribe("")
    assert await two.await_converged()
    received = []

    async def receive() -> None:
        received.append(await messages.get())

    for number in range(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await a.publish("/x", number)
            nursery.cancel_scope.cancel()
    while len(received) < 20:
        await receive()
    assert received == [("/x", number) for number in range(20)]


@everywhere
async def test_a_node_that_is_killed_is_missed_and_comes_back_as_another(cluster):
    ring = await cluster(4, "ring")
    a, b, c, _ = ring
    master = await b.attach_master("s", Backend.SQLite)
    await (await master.put("k", "v")).applied()
    first, messages = b.node_id(), await b.subscribe("/x")
    events = await a.subscribe_status()
    await b.kill()
    event = await events.get()
    assert (event.status, event.reason) == ("peer_lost", "the connection was lost")
    assert await ring.await_converged()
    assert await a.peers() == ["d"]
    with pytest.raises(NodeDown, match="node b is killed: restart"):
        await b.publish("/x", 1)
    await b.restart()
    assert await ring.await_converged()
    assert b.node_id() != first
    assert await a.peers() == ["b", "d"]
    with pytest.raises(NodeDown, match="started anew"):
        await messages.get()
    async with await b.attach_master("s", Backend.SQLite) as store:
        assert await store.get("k") == "v", "what was acknowledged is in its directory"
    assert await c.await_peer(b)


@everywhere
async def test_a_partition_is_explained_and_heals(cluster):
    line = await cluster(3)
    a, _, c = line
    await line.partition({"a"}, {"b", "c"})
    master, clone = await a.attach_master("s"), await c.attach_clone("s")
    outcome = await line.await_converged(timeout=0.2)
    assert not outcome
    assert "at c: store s is not idle" in str(outcome)
    assert "no master and no group" in str(outcome)
    assert "the test has cut b-a" in str(outcome)
    await line.heal()
    assert await line.await_converged()
    await (await clone.put("k", 1)).applied()
    assert await master.get("k") == 1


async def test_a_fault_has_a_direction_seen_from_who_is_named_first(cluster):
    two = await cluster(2)
    await two.link("a", "b").apply(Delay(0.5), direction=Direction.FORTH)
    ((fault, direction),) = two.wires()[0].faults
    assert (fault, direction) == (Delay(0.5), Direction.BACK), "b dials a"
    await two.link("b", "a").heal(direction=Direction.FORTH)
    assert two.wires()[0].faults
    await two.link("a", "b").heal(direction=Direction.FORTH)
    assert not two.wires()[0].faults
    with pytest.raises(UnknownShape, match="there is no link a-a: there are b-a"):
        two.link("a", "a")


@everywhere
async def test_connections_that_a_fault_breaks_come_back(cluster):
    two = await cluster(2)
    a, _ = two
    events = await a.subscribe_status()
    await two.link("a", "b").apply(Reset())
    assert (await events.get()).status is StatusCode.PEER_LOST
    assert await two.await_converged()


@pytest.mark.worlds("process")
async def test_a_paused_process_does_not_answer_until_it_goes_on(cluster):
    line = await cluster(3)
    a, b, c = line
    await b.pause()
    messages = await c.subscribe("/x")
    assert await line.await_converged(timeout=limit(60)), (
        "the others are connected by nobody, and agree"
    )
    with pytest.raises(NodeDown, match="node b is paused: restart"):
        await b.peers()
    await b.resume()
    assert await line.await_converged()
    await a.publish("/x", 1)
    assert await messages.get() == ("/x", 1)


@pytest.mark.worlds("process")
async def test_a_process_may_have_another_time_of_day(cluster):
    (a,) = await cluster(1)
    async with await a.attach_master("s") as store, await a.attach_log("l", [], 1) as log:
        await (await store.put("k", 1, expiry=3600.0)).applied()
        await (await log.append("before")).applied()
        await a.skew_clock(7200.0)
        await (await log.append("after")).applied()
        before, after = [each.timestamp_ns for each in await log.read(0, 0)]
        assert after - before < 3600e9, "a jump counts once the clock has stood there for a minute"
        async with await a.attach_log("m", [], 1) as new:
            await (await new.append("first")).applied()
            (first,) = await new.read(0, 0)
        assert first.timestamp_ns - before > 3600e9
        assert await store.exists("k"), "what a store counts is time that passes"


@pytest.mark.worlds("process")
async def test_a_process_that_dies_by_itself_is_reported_with_its_last_words(cluster):
    two = await cluster(2)
    _, b = two
    host = b.host
    assert isinstance(host, AgentHost)
    host.process.terminate()
    assert await two.await_converged(), "who is left agrees"
    with pytest.raises(NodeDown):
        await b.peers()
    text = " ".join(record.text for record in two.journal.records())
    assert "ended by itself: the node's process has ended" in text


@pytest.mark.worlds("loopback")
async def test_a_world_says_what_it_cannot_do(cluster):
    two = await cluster(2, direct=True)
    a, _ = two
    for fault in (a.pause, a.resume, lambda: a.skew_clock(1.0)):
        with pytest.raises(Unsupported, match="loopback cannot do"):
            await fault()
    with pytest.raises(Unsupported, match="direct=True"):
        await two.link("a", "b").apply(Partition())
    assert a.endpoint.node_id() == a.node_id()


@pytest.mark.worlds("process")
async def test_an_endpoint_in_another_process_is_not_handed_out(cluster):
    (a,) = await cluster(1)
    with pytest.raises(Unsupported, match="use the methods of the node"):
        _ = a.endpoint


async def test_nodes_join_and_links_come_and_go(cluster):
    two = await cluster(["left", "right"])
    await two.add("late", "right")
    assert await two.await_converged()
    assert await two["late"].await_peer(two["left"])
    await two.disconnect("left", "right")
    assert await two.await_converged()
    outcome = await two["left"].await_peer(two["late"], timeout=0)
    assert not outcome
    with pytest.raises(UnknownShape, match="there is a node 'late' already"):
        await two.add("late")
    with pytest.raises(KeyError, match="there is no node 'x': there are left, right, late"):
        two["x"]


@everywhere
@pytest.mark.parametrize("ttl", [1, "1"])
async def test_settings_are_those_of_an_endpoint(cluster, ttl):
    line = await cluster(3, ttl=ttl)
    a, b, c = line
    near, far = await b.subscribe("/x"), await c.subscribe("/x")
    assert await line.await_converged()
    await a.publish("/x", "from a")
    assert await near.get() == ("/x", "from a")
    await b.publish("/x", "from b")
    assert await far.get() == ("/x", "from b"), "that from a has crossed one link only"


async def test_a_cluster_that_cannot_open_says_why_and_leaves_nothing(tmp_path):
    with pytest.raises(UnknownShape, match="there is no shape 'circle'"):
        async with open_cluster(3, "circle", directory=tmp_path):
            pass
    with pytest.raises(ValueError, match="there is no world 'moon': choose one of sim"):
        async with open_cluster(3, world="moon"):
            pass
    with pytest.raises(AgentFailed, match="unknown setting 'speed'"):
        async with open_cluster(1, world="process", directory=tmp_path, speed=9):
            pass


async def test_the_error_of_a_block_goes_on_as_itself():
    with pytest.raises(LookupError):
        async with open_cluster(2):
            raise LookupError


async def test_a_task_that_does_not_end_is_named(autojump_clock):
    async with open_quiet_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever, name="the sleeper")
        with pytest.raises(LeakError, match="tasks of the cluster did not end: the sleeper at"):
            await await_empty(nursery)


PARENT = """
import trio
from peermesh.testing.cluster import open_cluster

async def main():
    async with open_cluster(2, world="process") as two:
        await two["a"].pause()
        print(*[node.host.process.pid for node in two], flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a stopped process needs Linux to die with it")
def test_agents_die_with_a_parent_that_is_killed_even_those_that_are_stopped():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        agents = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert len(agents) == 2
    while any(map(is_alive, agents)):
        os.sched_yield()


def is_alive(process: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_records_of_other_processes_have_the_times_of_this_one():
    began = trio.current_time()
    async with open_cluster(2, world="process") as two:
        await two["b"].restart()
        assert await two.await_converged()
    assert two.snapshot is not None
    times = [event.record.at for event in two.snapshot.events()]
    assert began < min(times)
    assert max(times) < trio.current_time()
