"""What an endpoint says about itself: names and counts of everything, and no content."""

from __future__ import annotations

import json
import os

from endpoint import Endpoint
from endpoint.inspection import VERSION
from peermesh.testing.time_limits import limit
from tests.endpoint.rows import star

SECRETS = ("secret-key", "secret-value", "secret-entry", "secret-data")


async def test_a_snapshot_tells_of_every_part_and_of_no_content(kit) -> None:
    async with star(1) as (left, right):
        right.subscribe("/news", "/more")
        async with (
            left.attach_master("cities") as master,
            right.attach_clone("cities") as clone,
            left.attach_log("events", partitions=2) as kept,
            right.attach_log_clone("events") as copy,
        ):
            await (await master.put("secret-key", "secret-value")).applied()
            await (await kept.append("secret-entry")).applied()
            assert await clone.await_idle(timeout=limit())
            assert await master.await_idle(timeout=limit())
            assert await copy.await_idle(timeout=limit())
            entry = await kept.consume("reader").get(timeout=limit())
            await (await kept.commit("reader", {entry.partition: 1})).applied()
            assert await left.await_subscribed("/news")
            await left.publish("/news", "secret-data")
            await kit.until(lambda: right.statistics().messages_waiting)
            here, there = left.describe(), right.describe()
        assert (here.id, here.certificate_name, here.process.pid) == (
            left.node_id(),
            None,
            os.getpid(),
        )
        assert here.name == left.name_of(left)
        assert here.process.rss_bytes > 1_000_000
        assert here.process.cpu_seconds > 0
        assert here.uptime_seconds > 0
        assert here.statistics.messages_published == 1
        (store,), (log,) = here.stores, here.logs
        assert (store.name, store.statistics.role, store.statistics.entries) == (
            "cities",
            "master",
            1,
        )
        assert store.statistics.revision == 1
        (replica,) = store.statistics.clones
        assert (replica.endpoint, replica.acknowledged) == (
            right.node_id(),
            store.statistics.sequence,
        )
        assert (log.name, log.statistics.role) == ("events", "keeper")
        assert sum(span.end for span in log.statistics.spans) == 1
        assert [each.lag for each in log.statistics.consumers] == [0]
        assert [each.endpoint for each in log.statistics.followers] == [right.node_id()]
        (reader,) = there.readers
        assert (reader.topics, reader.queue.waiting) == (("/news", "/more"), 1)
        roles = {each.name: each.statistics.role for each in (*there.stores, *there.logs)}
        assert roles == {"cities": "clone", "events": "follower"}
        assert all(each.statistics.is_in_touch for each in (*there.stores, *there.logs))
        for snapshot in (here, there):
            text = json.dumps(snapshot.to_dict())
            assert not [each for each in SECRETS if each in text]


async def test_the_json_form_is_flat_and_has_a_version_and_ids_as_text() -> None:
    async with star(1) as (left, right):
        right.subscribe("/news")
        async with left.attach_master("cities"), right.attach_proxy("cities"):
            found = right.describe().to_dict()
        assert found["v"] == VERSION == 1
        assert found["id"] == str(right.node_id())
        (peer,) = found["peers"]
        assert peer["node_id"] == str(left.node_id())
        assert {"messages_received", "bytes_sent", "credit_bytes", "is_outbound"} <= peer.keys()
        (reader,) = found["readers"]
        assert reader["topics"] == ["/news"]
        assert {"put", "waiting", "capacity", "dropped", "is_lossy"} <= reader.keys()
        (store,) = found["stores"]
        assert (store["name"], store["role"]) == ("cities", "proxy")
        assert {"pid", "host", "version", "cpu_seconds", "rss_bytes"} <= found.keys()
        assert json.loads(json.dumps(found)) == found


async def test_to_look_changes_nothing() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("cities") as store:
        receipt = await store.put("a", 1)
        before = [repr(endpoint), endpoint.describe().stores]
        assert before == [repr(endpoint), endpoint.describe().stores]
        await receipt.applied()
        assert endpoint.describe().stores[0].statistics.revision == 1


async def test_what_has_no_leader_or_has_ended_is_told_with_its_trouble(kit, tmp_path) -> None:
    disk = {"backend": "sqlite", "path": tmp_path / "ended.db"}
    async with Endpoint(name="a") as endpoint:
        await endpoint.attach_master("fine")
        await endpoint.attach_replica("unfounded", voters=("a", "b"))
        ended = await endpoint.attach_replica("ended", voters=("a",), **disk)
        await ended.await_leader(timeout=limit())
        (tmp_path / "ended.db").unlink()
        await ended.put("key", 1)
        await kit.until(lambda: not ended.is_leader())
        found = {each.name: each.statistics for each in endpoint.describe().stores}
        fine, unfounded = found["fine"], found["unfounded"]
        assert (fine.role, fine.is_in_touch, fine.trouble) == ("master", True, None)
        assert (unfounded.role, unfounded.is_in_touch) == ("replica", False)
        assert "b" in unfounded.trouble
        assert (found["ended"].role, found["ended"].is_in_touch) == ("ended", False)
        assert "was removed" in found["ended"].trouble


async def test_a_proxy_tells_whether_there_are_replicas_or_none_that_leads(kit) -> None:
    async with Endpoint(name="a") as endpoint, Endpoint(name="b") as other:
        assert await other.peer("127.0.0.1", await endpoint.listen(), timeout=limit())
        await endpoint.attach_master("led")
        await endpoint.attach_replica("half", voters=("a", "c"))
        for name in ("led", "half", "nothing"):
            await other.attach_proxy(name)
        await other.attach_log_proxy("log")

        def troubles() -> dict[str, str | None]:
            found = other.describe()
            return {each.name: each.statistics.trouble for each in (*found.stores, *found.logs)}

        await kit.until(lambda: troubles()["led"] is None)
        assert troubles()["nothing"] == troubles()["log"] == "no replica is heard"
        await kit.until(lambda: troubles()["half"] == "replicas are heard, and none that leads")
