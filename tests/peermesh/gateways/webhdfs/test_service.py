"""What a gateway does with a store, without HTTP: what it does beside others, and among many."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from endpoint.replicas.stores.store import Store
from peermesh import Backend, Endpoint
from peermesh.gateways.refusals import Busy, Refusal
from peermesh.gateways.webhdfs import inquiries, service
from peermesh.gateways.webhdfs.errors import Full, Impossible, Standby
from peermesh.gateways.webhdfs.limits import (
    CHUNK_SIZE,
    COLLECTED_COUNT,
    ERASED_CHUNKS_MAX,
    STALLED_SECONDS,
    UPLOAD_BATCH_CHUNKS,
    WAIT_SECONDS,
)
from peermesh.gateways.webhdfs.nodes import Node, chunk_key, gateway_key, upload_key
from peermesh.gateways.webhdfs.readiness import Outlook
from peermesh.gateways.webhdfs.requests import (
    Append,
    Create,
    Delete,
    ListStatus,
    Rename,
    RenameStyle,
)
from peermesh.gateways.webhdfs.service import Service
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from tests.waiting import until

NAME = "here"
BATCH = UPLOAD_BATCH_CHUNKS
APPEND = Append(("file",), has_data=True)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Endpoint() as endpoint, endpoint.attach_master("files") as found:
        yield found


def create(name: str = "file", *, overwrite: bool = False) -> Create:
    return Create(
        tuple(name.split("/")),
        "ada",
        "644",
        overwrite=overwrite,
        create_parent=True,
        block_size=512,
        has_data=True,
    )


async def pieces(
    *sizes: int, then: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[bytes, None]:
    """Give zeros in chunks, so many, and so many more; between them something else happens."""
    for turn, count in enumerate(sizes):
        if turn and then is not None:
            await then()
        for _ in range(count):
            yield bytes(CHUNK_SIZE)


async def write(
    gateway: Service, request: Create | Append, content: AsyncGenerator[bytes, None]
) -> None:
    async with aclosing(content) as pieces:
        await gateway.write(request, pieces)


async def collect_as_another(store: Store) -> None:
    """Do what another gateway does when this one was silent for a minute."""
    await (await store.erase(gateway_key(NAME))).applied()
    other = Service(store, "another")
    while await other.collect():
        pass


async def kinds(store: Store) -> list[str]:
    return sorted(key[1] for key in await store.keys())


@pytest.mark.parametrize("before", [BATCH + 1, 2 * BATCH + 1, 4 * BATCH])
@pytest.mark.parametrize("after", [0, 1, 3 * BATCH])
async def test_nothing_stays_of_an_upload_that_others_collected(store, before, after):
    here = Service(store, NAME)
    await here.prepare()
    await write(here, create(), pieces(1))
    upload = pieces(before, after, then=lambda: collect_as_another(store))
    request = create(overwrite=True) if after % 2 else APPEND
    with pytest.raises(Impossible, match="silent in the store for too long"):
        await write(here, request, upload)
    await collect_as_another(store)
    assert await kinds(store) == ["children", "chunk", "entry"]
    assert here.uploads.used == 0


async def test_an_upload_that_others_collected_when_all_had_come_says_so(store, monkeypatch):
    here = Service(store, NAME)
    await here.prepare()
    settle = service._Transfer.settle

    async def settle_late(transfer):
        await settle(transfer)
        await collect_as_another(store)

    monkeypatch.setattr(service._Transfer, "settle", settle_late)
    with pytest.raises(Impossible, match="silent in the store for too long"):
        await write(here, create(), pieces(3))
    assert await kinds(store) == ["children"]


async def test_a_lost_upload_is_collected_behind_more_that_are_under_way(store):
    count = 2 * COLLECTED_COUNT
    begun = Batch().put(gateway_key("another"), True)
    for number in range(count):
        begun.put(upload_key(number), "another")
    begun.put(upload_key(count), "gone").put(chunk_key(count, 0), b"some")
    await (await store.batch(begun)).applied()
    here = Service(store, NAME)
    await here.prepare()
    while await here.collect():
        pass
    found = await kinds(store)
    assert (found.count("upload"), found.count("chunk")) == (count, 0)


async def few(content: bytes) -> AsyncGenerator[bytes, None]:
    yield content


@pytest.mark.parametrize("gateways", [1, 3])
async def test_of_many_that_append_to_one_file_at_once_none_is_refused(store, gateways):
    each = [Service(store, f"{NAME} {number}") for number in range(gateways)]
    await each[0].prepare()
    await write(each[0], create(), few(b""))
    async with trio.open_nursery() as nursery:
        for number in range(120):
            gateway = each[number % gateways]
            nursery.start_soon(write, gateway, APPEND, few(number.to_bytes(2, "big")))
    node = each[0].tree.node(("file",))
    found = b"".join([piece async for piece in each[0].read(node, 0, node.length)])
    numbers = [int.from_bytes(found[at : at + 2], "big") for at in range(0, len(found), 2)]
    assert sorted(numbers) == list(range(120))
    assert not any(len(gateway._turns) for gateway in each)


async def test_one_gateway_decides_once_for_each_change_of_a_file(store, monkeypatch):
    here = Service(store, NAME)
    await here.prepare()
    tried, original = list[bool](), Service._try

    async def counted(self, *arguments):
        tried.append(await original(self, *arguments))
        return tried[-1]

    monkeypatch.setattr(Service, "_try", counted)
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(write, here, create(overwrite=True), few(b"some"))
    assert tried == [True] * 50


async def test_a_change_that_others_are_always_faster_than_is_to_be_tried_again(
    store, monkeypatch, autojump_clock
):
    here = Service(store, NAME)
    await here.prepare()
    times = list[float]()

    async def too_late(_self, _batch, _until):
        times.append(trio.current_time())
        return False

    monkeypatch.setattr(Service, "_try", too_late)
    began = trio.current_time()
    with pytest.raises(Busy, match="others change /file all the time") as refused:
        await write(here, create(), few(b"some"))
    assert (refused.value.status, refused.value.java_class) == (
        503,
        "org.apache.hadoop.ipc.RetriableException",
    )
    assert times[0] == times[1], "once may be no race"
    assert WAIT_SECONDS / 2 < times[-1] - began < WAIT_SECONDS
    assert len(times) < 200


async def test_a_request_waits_for_a_leader_and_its_turn_together(
    store, monkeypatch, autojump_clock
):
    here = Service(store, NAME)
    await here.prepare()
    await write(here, create(), few(b"some"))
    began = trio.current_time()

    def look(_self):
        is_led = trio.current_time() - began >= WAIT_SECONDS / 2
        return Outlook(0 if is_led else math.inf, hears_majority=True)

    async def too_late(_self, _batch, _until):
        return False

    monkeypatch.setattr(Service, "outlook", look)
    monkeypatch.setattr(Service, "_try", too_late)
    end = await here.prepare()
    assert trio.current_time() - began >= WAIT_SECONDS / 2
    with pytest.raises(Busy):
        await here.answer(Delete(("file",), recursive=False), end)
    assert trio.current_time() - began <= WAIT_SECONDS


async def test_a_change_of_which_nothing_is_heard_is_told_of_in_time(
    store, monkeypatch, autojump_clock
):
    class Silent:
        async def applied(self):
            await trio.sleep_forever()

    async def batch(_self, _batch):
        return Silent()

    here = Service(store, NAME)
    await here.prepare()
    monkeypatch.setattr(Store, "batch", batch)
    with (
        trio.fail_after(60),  # Then Hadoop's client asks again.
        pytest.raises(Standby, match="unknown whether the change was kept"),
    ):
        await write(here, create(), few(b"some"))


async def test_a_large_file_that_is_replaced_by_another_one_is_collected_at_once(store):
    here, wakes = Service(store, NAME), list[bool]()
    end = await here.prepare()
    await write(here, create("old"), pieces(2 * ERASED_CHUNKS_MAX))
    await write(here, create("new"), few(b"some"))
    here.has_garbage = lambda: wakes.append(True)
    await here.answer(Rename(("new",), ("old",), RenameStyle.OVERWRITE), end)
    assert wakes
    while await here.collect():
        pass
    assert (await kinds(store)).count("chunk") == 1


async def test_an_upload_that_is_cut_while_no_leader_is_there_is_collected_by_its_gateway(tmp_path):
    place = {"backend": Backend.SQLite, "path": tmp_path / "files.db"}
    async with trio.open_nursery() as nursery, Endpoint() as far, Endpoint() as near:
        assert await near.peer("127.0.0.1", await far.listen(), timeout=limit())
        leader = await far.attach_master("files", **place)
        async with near.attach_clone("files") as store:
            here, cut = Service(store, NAME), trio.CancelScope()

            async def upload(name, chunks, scope):
                with scope:
                    await write(here, create(name), pieces(chunks, 0, then=trio.sleep_forever))

            async def chunks(count):
                """Wait until the leader has so many."""
                with trio.fail_after(limit()):
                    while (await kinds(leader)).count("chunk") != count:
                        await trio.lowlevel.checkpoint()

            await here.prepare()
            nursery.start_soon(upload, "other", BATCH + 1, trio.CancelScope())
            await chunks(BATCH)
            nursery.start_soon(upload, "cut", BATCH + 1, cut)
            await chunks(2 * BATCH)
            await leader.close()
            with trio.fail_after(limit()):
                await until(lambda: not here.is_active())
            cut.cancel()
            leader = await far.attach_master("files", **place)
            with trio.fail_after(limit()):
                await until(here.is_active)
            while await here.collect():
                pass
            found = await kinds(leader)
            assert (found.count("upload"), found.count("chunk")) == (1, BATCH), "of the other"
            nursery.cancel_scope.cancel()


class Stalling:
    """Uploads whose clients send so much, and then neither more nor an end."""

    def __init__(self, nursery: trio.Nursery, gateway: Service) -> None:
        self._nursery = nursery
        self._gateway = gateway
        self.refusals: dict[str, Refusal] = {}

    async def begin(self, name: str, chunks: int) -> None:
        """Return when so much came."""
        self._nursery.start_soon(self._upload, name, chunks)
        await wait_all_tasks_blocked()

    async def _upload(self, name: str, chunks: int) -> None:
        try:
            await write(self._gateway, create(name), pieces(chunks, 0, then=trio.sleep_forever))
        except Refusal as refusal:
            self.refusals[name] = refusal


async def test_uploads_that_never_end_leave_room_for_those_that_end(store, mock_clock):
    here = Service(store, NAME)
    await here.prepare()
    store.set_quota(max_bytes=64 * CHUNK_SIZE)
    async with trio.open_nursery() as nursery:
        stalling = Stalling(nursery, here)
        await stalling.begin("first", 20)
        mock_clock.jump(1)
        await stalling.begin("second", 12)
        await write(here, create("small"), pieces(1))
        with pytest.raises(Full, match="unfinished uploads"):
            await write(here, create("large"), pieces(5))
        mock_clock.jump(STALLED_SECONDS - 1)
        await write(here, create("large"), pieces(5))
        await wait_all_tasks_blocked()
        assert [*stalling.refusals] == ["first"], "only what it needed"
        assert isinstance(stalling.refusals["first"], Busy)
        assert "others needed its room: send it again" in str(stalling.refusals["first"])
        assert here.uploads.used == 12 * CHUNK_SIZE
        nursery.cancel_scope.cancel()
    assert here.uploads.used == 0
    while await here.collect():
        pass
    assert (await kinds(store)).count("chunk") == 1 + 5


async def test_a_long_listing_leaves_others_their_turn(store, monkeypatch):
    monkeypatch.setattr(inquiries, "PAGE_COUNT", 10)
    here, turns = Service(store, NAME), 0
    await here.prepare()

    async def found(_directory):
        file = Node(1, False, 0, 0, 0, "ada", "644", 512)
        return [(str(number), file) for number in range(100)]

    async def count_turns():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        answer = await inquiries.answer(here.tree, ListStatus(()), store.statistics(), found)
        nursery.cancel_scope.cancel()
    assert answer.count(b'"pathSuffix"') == 100
    assert turns >= 5


async def test_one_long_listing_is_made_at_a_time_and_short_ones_do_not_wait(store, monkeypatch):
    monkeypatch.setattr(service, "PAGE_COUNT", 2)
    here, under_way, may_end = Service(store, NAME), list[int](), trio.Event()
    await here.prepare()
    for name in "abc":
        await write(here, create(f"long/{name}"), few(b"some"))
    await write(here, create("short/a"), few(b"some"))

    async def listed_late(_store, tree, directory):
        count = tree.count(directory)
        under_way.append(count)
        if count > 1:
            await may_end.wait()
        return []

    monkeypatch.setattr(service, "listed", listed_late)
    async with trio.open_nursery() as nursery:
        for name in ("long", "long", "short"):
            nursery.start_soon(here.answer, ListStatus((name,)), math.inf)
        await wait_all_tasks_blocked()
        assert sorted(under_way) == [1, 3]
        may_end.set()
    assert sorted(under_way) == [1, 3, 3]
