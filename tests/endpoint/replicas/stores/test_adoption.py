"""What becomes of clones whose master starts again: it takes over what they have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copy

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.store import Store
from peermesh.testing.time_limits import limit
from tests.endpoint.replicas.stores.test_promotion import told
from tests.waiting import until
from wire.errors import MasterExists, ReplicaRegressed


@asynccontextmanager
async def endpoints(count: int) -> AsyncIterator[list[Endpoint]]:
    """Give endpoints that are all peers of the first one."""
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            found = []
            for _ in range(count):
                life = await nursery.start(live)
                found.append(life)
            first = found[0][0]
            port = await first.listen()
            for endpoint, _ in found[1:]:
                await link(endpoint, first, port)
            yield [endpoint for endpoint, _ in found]
            for _, ending in found:
                ending.set()


async def live(task_status: trio.TaskStatus) -> None:
    ending = trio.Event()
    async with Endpoint() as endpoint:
        task_status.started((endpoint, ending))
        await ending.wait()


async def link(endpoint: Endpoint, first: Endpoint, port: int) -> None:
    assert await endpoint.peer("127.0.0.1", port, retry=0)
    assert await endpoint.await_peer(first.node_id(), timeout=limit())
    assert await first.await_peer(endpoint.node_id(), timeout=limit())


async def join(endpoint: Endpoint, first: Endpoint) -> None:
    await link(endpoint, first, await first.listen())


async def test_a_master_in_memory_that_starts_again_has_what_its_clones_have() -> None:
    async with endpoints(2) as (b, c):
        async with Endpoint() as a:
            await join(a, b)
            master = await a.attach_master("s")
            clones = [await each.attach_clone("s") for each in (b, c)]
            for number in range(100):
                receipt = await master.put(number, number)
            await receipt.applied()
            for clone in clones:
                assert await clone.await_idle(timeout=limit())
        async with Endpoint() as a:
            await join(a, b)
            master = await a.attach_master("s")
            assert dict(await master.items()) == {number: number for number in range(100)}
            await (await clones[1].put("more", 1)).applied()
            assert await master.get("more") == 1
            for clone in clones:
                assert await clone.await_idle(timeout=limit())
                assert len(await clone.keys()) == 101
            with pytest.raises(MasterExists):
                await b.attach_master("s")


async def test_a_master_that_finds_clones_only_later_takes_over_what_they_have() -> None:
    async with endpoints(1) as (b,):
        async with Endpoint() as a:
            await join(a, b)
            master = await a.attach_master("s")
            clone = await b.attach_clone("s")
            await (await master.put("k", 1)).applied()
            assert await clone.await_idle(timeout=limit())
        async with Endpoint() as a:
            master = await a.attach_master("s")
            assert await master.get("k") is None
            with b.subscribe_status() as status:
                await join(a, b)
                await told(status, StatusCode.STORE_MASTER_FOUND)
            assert await master.get("k") == 1
            await (await clone.put("k", 2)).applied()
            assert await master.get("k") == 2


async def test_a_master_that_has_acknowledged_something_empties_no_clone() -> None:
    async with endpoints(1) as (b,):
        async with Endpoint() as a:
            await join(a, b)
            master = await a.attach_master("s")
            clone = await b.attach_clone("s", stale_interval=None)
            await (await master.put("k", 1)).applied()
            assert await clone.await_idle(timeout=limit())
        async with Endpoint() as a:
            master = await a.attach_master("s")
            await (await master.put("own", 1)).applied()
            with a.subscribe_status() as status, b.subscribe_status() as others:
                await join(a, b)
                for each in (status, others):
                    event = await told(each, StatusCode.STORE_CONFLICT)
                    assert "another group" in event.reason
            assert await clone.items() == [("k", 1)]
            assert await master.items() == [("own", 1)]


@pytest.mark.parametrize("is_late", [False, True], ids=["in reach", "later"])
async def test_a_master_begins_anew_if_it_is_told_to_and_clones_do_so_too(is_late: bool) -> None:
    async with endpoints(1) as (b,):
        async with Endpoint() as a:
            await join(a, b)
            master = await a.attach_master("s")
            clone = await b.attach_clone("s")
            await (await master.put("k", 1)).applied()
            assert await clone.await_idle(timeout=limit())
        async with Endpoint() as a:
            with b.subscribe_status() as status:
                if not is_late:
                    await join(a, b)
                master = await a.attach_master("s", fresh=True)
                await (await master.put("own", 1)).applied()
                if is_late:
                    await join(a, b)
                event = await told(status, StatusCode.STORE_CONFLICT)
                assert "begins anew" in event.reason
                await told(status, StatusCode.STORE_MASTER_FOUND)
            assert await clone.await_idle(timeout=limit())
            assert await clone.items() == [("own", 1)]


# -- masters on disk -------------------------------------------------------------------------------


class Disk:
    """The files of a master that a test damages between two of its lives."""

    def __init__(self, folder: Path, other: Endpoint) -> None:
        self.path = folder / "s.db"
        self._kept = folder / "kept"
        self._other = other

    @asynccontextmanager
    async def master(self, **options: object) -> AsyncIterator[Store]:
        """Have a master at an endpoint of its own, which is in reach of the other one."""
        async with Endpoint() as endpoint:
            await join(endpoint, self._other)
            options = {"path": self.path, **options}
            yield await endpoint.attach_master("s", Backend.SQLite, **options)

    def keep(self) -> None:
        """Copy the files as they are now."""
        self._kept.mkdir()
        for found in self.path.parent.glob("s.db*"):
            copy(found, self._kept)

    def put_back(self, *, with_ballot: bool) -> None:
        """Put the copies back."""
        for found in [*self.path.parent.glob("s.db*")]:
            if with_ballot or found.suffix != ".ballot":
                found.unlink()
        for found in self._kept.iterdir():
            if with_ballot or found.suffix != ".ballot":
                copy(found, self.path.parent)


@asynccontextmanager
async def lost_its_end(
    folder: Path, *, with_ballot: bool
) -> AsyncIterator[tuple[Disk, Endpoint, Store]]:
    """Give the disk of a master whose older file was put back, and a clone with all it had."""
    async with endpoints(1) as (b,):
        disk = Disk(folder, b)
        async with disk.master() as master:
            await (await master.put("a", 1)).applied()
        disk.keep()
        async with disk.master() as master:
            clone = await b.attach_clone("s")
            for number in range(50):
                await (await master.put(number, 1)).applied()
            assert await clone.await_idle(timeout=limit())
        disk.put_back(with_ballot=with_ballot)
        yield disk, b, clone


@pytest.mark.parametrize("with_ballot", [True, False], ids=["both files", "the journal alone"])
async def test_a_master_whose_older_file_was_put_back_takes_over_what_clones_have(
    tmp_path: Path, with_ballot: bool
) -> None:
    async with lost_its_end(tmp_path, with_ballot=with_ballot) as (disk, _, clone):
        async with disk.master() as master:
            assert len(await master.keys()) == 51
            await (await clone.put("more", 1)).applied()
            assert await clone.await_idle(timeout=limit())
            assert len(await clone.keys()) == 52
        async with disk.master() as master:
            assert len(await master.keys()) == 52, "its file has all of it again"


async def test_a_master_that_lacks_what_it_acknowledged_says_what_to_do(tmp_path: Path) -> None:
    async with lost_its_end(tmp_path, with_ballot=False) as (disk, _, clone):
        await clone.close()
        with pytest.raises(ReplicaRegressed, match="put back the latest copy"):
            async with disk.master():
                pass
        async with disk.master(fresh=True) as master:
            assert await master.keys() == ["a"]
            await (await master.put("b", 1)).applied()
        async with disk.master() as master:
            assert await master.keys() == ["a", "b"]


async def test_a_master_with_a_new_file_takes_over_what_clones_have(tmp_path: Path) -> None:
    async with endpoints(1) as (b,):
        disk = Disk(tmp_path, b)
        async with disk.master() as master:
            clone = await b.attach_clone("s")
            await (await master.put("k", 1)).applied()
            assert await clone.await_idle(timeout=limit())
        async with disk.master(path=tmp_path / "new.db") as master:
            assert await master.get("k") == 1
        await clone.close()
        async with disk.master(path=tmp_path / "new.db") as master:
            assert await master.get("k") == 1


async def test_a_deposed_master_that_starts_again_knows_it(tmp_path: Path) -> None:
    async with endpoints(1) as (b,):
        disk = Disk(tmp_path, b)
        async with disk.master() as master:
            clone = await b.attach_clone("s")
            await (await master.put("k", 1)).applied()
            assert await clone.await_idle(timeout=limit())
            await clone.promote(force=True)
            await until(lambda: not master.is_master())
        async with Endpoint() as alone:
            with pytest.raises(ReplicaRegressed, match="another master took over"):
                await alone.attach_master("s", Backend.SQLite, path=disk.path)
            lost = await alone.attach_master("s", Backend.SQLite, path=disk.path, fresh=True)
            assert await lost.get("k") == 1
