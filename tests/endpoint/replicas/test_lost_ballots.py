"""Files whose ballot is gone: what leads alone goes on with them if it is told to, voters never."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.attaching import Backend
from peermesh.testing.time_limits import limit
from stores.disk.ballot import SUFFIX
from stores.group.terms import FORCED_TERMS
from tests.endpoint.replicas.stores.test_promotion import told
from tests.fixtures.kinds import KEY
from wire.errors import BackendFailure

SILENT = "nothing tells whether that is all"


@pytest.fixture(params=["plain", "sealed"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    keys = {} if request.param == "plain" else {"keys": KEY}
    return {"path": tmp_path / "s.db", **keys}


def lose_ballot(path: object) -> None:
    Path(f"{path}{SUFFIX}").unlink()


def damage_ballot(path: object) -> None:
    with Path(f"{path}{SUFFIX}").open("r+b") as ballot:
        ballot.write(bytes(8))


async def test_a_damaged_block_of_a_ballot_is_told(options, caplog) -> None:
    async with Endpoint() as endpoint:
        async with endpoint.attach_master("s", Backend.SQLite, **options) as master:
            await (await master.put("k", 1)).applied()
        assert "slot" not in caplog.text
        damage_ballot(options["path"])
        async with endpoint.attach_master("s", Backend.SQLite, **options) as master:
            assert await master.get("k") == 1
    assert "s.db.ballot: copy 1 of slot 0 cannot be read; its copy was used" in caplog.text


async def test_a_master_that_is_told_to_goes_on_without_its_ballot(options) -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            async with endpoint.attach_master("s", Backend.SQLite, **options) as master:
                for number in range(20):
                    await (await master.put(number, "acknowledged")).applied()
                before = master.part.core
            lose_ballot(options["path"])
            for _ in range(2):
                with pytest.raises(BackendFailure, match=SILENT):
                    await endpoint.attach_master("s", Backend.SQLite, **options)
            async with endpoint.attach_master("s", Backend.SQLite, fresh=True, **options) as master:
                assert len(await master.keys()) == 20
                await (await master.put("more", 1)).applied()
                after = master.part.core
                assert after.own != before.own
                assert after.group == before.group
                assert after.epoch // FORCED_TERMS > before.epoch // FORCED_TERMS
                assert after.voters == (after.own,)
            async with endpoint.attach_master("s", Backend.SQLite, **options) as master:
                assert len(await master.keys()) == 21


async def test_its_clones_follow_a_master_without_its_ballot_as_another_lead(tmp_path) -> None:
    path = tmp_path / "s.db"
    with trio.fail_after(limit()):
        async with Endpoint() as one, Endpoint() as two:
            await two.peer("127.0.0.1", await one.listen())
            master = await one.attach_master("s", Backend.SQLite, path=path)
            clone = await two.attach_clone("s")
            await (await master.put("a", 1)).applied()
            assert await clone.await_idle(timeout=limit())
            with two.subscribe_status() as status:
                await master.close()
                await told(status, StatusCode.STORE_MASTER_LOST)
                lose_ballot(path)
                master = await one.attach_master("s", Backend.SQLite, path=path, fresh=True)
                revision = await (await clone.put("b", 2)).applied()
                await told(status, StatusCode.STORE_MASTER_FOUND)
            assert revision > FORCED_TERMS, "no revision is given again"
            assert await clone.await_idle(timeout=limit())
            assert await clone.items() == await master.items() == [("a", 1), ("b", 2)]


async def test_a_keeper_that_is_told_to_goes_on_without_its_ballot(options) -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            async with endpoint.attach_log("l", backend=Backend.SQLite, **options) as log:
                for number in range(20):
                    await (await log.append(number)).applied()
            lose_ballot(options["path"])
            with pytest.raises(BackendFailure, match=SILENT):
                await endpoint.attach_log("l", backend=Backend.SQLite, **options)
            for is_fresh in (True, False):
                async with endpoint.attach_log(
                    "l", backend=Backend.SQLite, fresh=is_fresh, **options
                ) as log:
                    assert log.is_keeper()
                    (end,) = log.part.core.machine.partitions.ends()
                    assert end == 20 + (not is_fresh)
                    await (await log.append("more")).applied()


async def test_a_follower_s_file_without_its_ballot_is_no_follower_s(tmp_path) -> None:
    path = tmp_path / "copy.db"
    with trio.fail_after(limit()):
        async with Endpoint() as one, Endpoint() as two:
            await two.peer("127.0.0.1", await one.listen())
            log = await one.attach_log("l")
            async with two.attach_log_clone("l", Backend.SQLite, path=path) as copy:
                await (await log.append("a")).applied()
                assert await copy.await_idle(timeout=limit())
            lose_ballot(path)
            with pytest.raises(BackendFailure, match="The file of a copy is moved away"):
                await two.attach_log_clone("l", Backend.SQLite, path=path)


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_voter_without_its_ballot_leads_nothing(tmp_path, name) -> None:
    voters = ("a", "b", "c")
    path = tmp_path / f"{name}.db"
    with trio.fail_after(limit()):
        async with Endpoint(name="a") as a, Endpoint(name="b") as b, Endpoint(name="c") as c:
            port = await a.listen("127.0.0.1")
            for other in (b, c):
                assert await other.peer("127.0.0.1", port)
            stores = []
            for endpoint, file in ((a, "a.db"), (b, "b.db"), (c, "c.db")):
                path_of = tmp_path / file
                store = endpoint.attach_replica(
                    "s", voters=voters, backend=Backend.SQLite, path=path_of
                )
                stores.append(await store)
            for store in stores:
                await store.await_leader()
            await (await stores[0].put("k", 1)).applied()
            for store in stores:
                assert await store.await_idle(timeout=limit())
        lose_ballot(path)
        async with Endpoint(name=name) as endpoint:
            for attach in (
                lambda: endpoint.attach_master("s", Backend.SQLite, fresh=True, path=path),
                lambda: endpoint.attach_replica(
                    "s", voters=voters, backend=Backend.SQLite, path=path
                ),
            ):
                with pytest.raises(BackendFailure, match="it takes all from its group") as found:
                    await attach()
                assert "fresh" not in str(found.value)
