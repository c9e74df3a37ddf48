"""A clone that closes is waited for no more; what a copy takes anew is told as differences."""

from __future__ import annotations

from endpoint import StatusCode
from peermesh.testing.time_limits import limit
from tests.endpoint.replicas.stores.test_promotion import told, two_endpoints
from tests.waiting import until


async def test_a_closed_clone_is_waited_for_no_more() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await master.put("k", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        assert len(master.part.core.members()) == 2
        await clone.close()
        await until(lambda: len(master.part.core.members()) != 2)
        await (await master.put("k", 2)).applied()
        assert await master.await_idle(timeout=0.5)
        journal = master.part.core.member.journal
        assert journal.floor == journal.end, "nothing is kept for it"


async def test_a_deposed_master_tells_only_what_is_different_now() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        for key in ("same", "changed"):
            await (await old.put(key, 1)).applied()
        assert await clone.await_idle(timeout=limit())
        await pair.part()
        await (await old.put("lost", 1)).applied()
        await clone.promote()
        await (await clone.put("changed", 2)).applied()
        await (await clone.put("new", 3)).applied()
        with pair.left.subscribe_status() as status, old.events() as events:
            await pair.join()
            await told(status, StatusCode.STORE_MASTER_FOUND)
            found = {}
            while len(found) < 3:
                event = await events.get()
                found[event.key] = event.kind.name
            assert found == {"lost": "ERASE", "changed": "UPDATE", "new": "INSERT"}
            await (await old.put("changed", 4)).applied()
            event = await events.get()
            assert (event.key, event.kind.name) == ("changed", "UPDATE")
            assert event.before == 2
