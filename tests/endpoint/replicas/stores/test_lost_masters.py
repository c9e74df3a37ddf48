"""What clients see of a master that was lost with what it had acknowledged: no number twice."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.stores.watching import Commit
from peermesh.testing.time_limits import limit
from stores.watches import Gap
from tests.endpoint.replicas.stores.test_promotion import told, two_endpoints
from wire.errors import GuardFailed


async def test_a_revision_that_was_lost_guards_no_other_value() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await old.put("balance", 100)).applied()
        assert await clone.await_idle(timeout=limit())
        await pair.part()
        await (await old.put("balance", 50)).applied()
        seen = await old.entry("balance")
        await clone.promote()
        await (await clone.put("balance", 999)).applied()
        receipt = await clone.compare_and_set("balance", 51, seen.revision)
        with pytest.raises(GuardFailed):
            await receipt.applied()
        assert await clone.get("balance") == 999


@pytest.mark.parametrize("heir", ["promoted", "started again"])
async def test_a_watch_that_saw_what_was_lost_is_told_of_a_gap(heir: str) -> None:
    async with two_endpoints() as pair:
        await pair.join()
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await old.put("x", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        await pair.part()
        with old.watch() as watch:
            await (await old.put("phantom", 1)).applied()
            while watch.revision < 2:
                await watch.get()
        if heir == "promoted":
            await clone.promote()
        else:
            await old.close()
            await pair.join()
            await pair.left.attach_master("s")
            assert await clone.await_idle(timeout=limit())
        await (await clone.put("real", 2)).applied()
        with clone.watch(from_revision=3) as resumed:
            assert isinstance(await resumed.get(), Gap)


async def test_a_watch_of_a_history_that_is_gone_does_not_wait_for_its_numbers() -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            master = await endpoint.attach_master("s")
            for number in range(10):
                await master.put("old", number)
            assert await master.await_idle(timeout=limit())
            await master.close()
            master = await endpoint.attach_master("s")
            with master.watch(from_revision=11) as watch:
                await (await master.put("new", 1)).applied()
                assert await watch.get() == Gap(10)
                while not isinstance(await watch.get(), Commit):
                    await (await master.put("new", 1)).applied()


async def test_two_clones_that_are_promoted_apart_do_not_both_go_on() -> None:
    async with two_endpoints() as pair, Endpoint() as third:
        await pair.join()
        assert await third.peer("127.0.0.1", await pair.left.listen())
        old = await third.attach_master("s")
        clones = [await each.attach_clone("s") for each in (pair.left, pair.right)]
        await (await old.put("k", 0)).applied()
        for clone in clones:
            assert await clone.await_idle(timeout=limit())
        await third.shutdown()
        await pair.part()
        terms = set()
        for number, clone in enumerate(clones):
            await clone.promote()
            await (await clone.put(number, number)).applied()
            terms.add(clone.part.core.epoch)
        assert len(terms) == 2
        # Once they have met, the loser is in the winner's term.
        loser = min(clones, key=lambda clone: clone.part.core.epoch)
        with pair.left.subscribe_status() as status, pair.right.subscribe_status() as others:
            await pair.join()
            await told(status if loser is clones[0] else others, StatusCode.STORE_DEPOSED)
        assert [clone.is_master() for clone in clones].count(True) == 1
        assert await loser.await_idle(timeout=limit())
        assert dict(await clones[0].items()) == dict(await clones[1].items())
