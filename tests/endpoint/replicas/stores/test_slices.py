"""A reader of a large store holds up no other: what is handled between two turns is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores import reading
from endpoint.replicas.stores.store import Store
from peermesh.testing.time_limits import limit
from stores import digests, index
from tests.endpoint.rows import line

COUNT = 50_000

VERIFY_COUNT = 100

SLICE_COUNT = 2_000


class Turns(trio.abc.Instrument):
    """Counts what is handled between two turns of trio's loop."""

    def __init__(self) -> None:
        self.count = self.longest = self.total = 0

    def add(self, count: int) -> None:
        self.count += count
        self.total += count
        self.longest = max(self.longest, self.count)

    def before_io_wait(self, timeout: float) -> None:
        self.count = 0


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Count the entries whose checksum is taken."""
    found = Turns()
    checksums = digests.checksums

    def counted(*arguments: Any) -> Sequence[int]:
        sums = checksums(*arguments)
        found.add(len(sums))
        return sums

    monkeypatch.setattr("stores.digests.checksums", counted)
    return found


async def fill(endpoint: Endpoint) -> Store:
    """Attach a master with the entries."""
    master = await endpoint.attach_master("s", Backend.Memory)
    for number in range(COUNT):
        receipt = await master.put(number, "v")
    await receipt.applied()
    return master


async def test_a_hundred_comparisons_leave_the_loop_to_others(turns: Turns) -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right):
            await fill(left)
            async with right.attach_clone("s") as clone:
                assert await clone.await_idle(timeout=limit())
                trio.lowlevel.add_instrument(turns)
                results = []

                async def verify() -> None:
                    results.append(await clone.verify(timeout=limit()))

                async with trio.open_nursery() as nursery:
                    for _ in range(VERIFY_COUNT):
                        nursery.start_soon(verify)
                trio.lowlevel.remove_instrument(turns)
    assert len(results) == VERIFY_COUNT
    assert all(results)
    # The master and the clone are in one loop here, and either takes a step in each turn.
    assert turns.longest <= 2 * SLICE_COUNT
    assert turns.total <= VERIFY_COUNT * COUNT // 10


@asynccontextmanager
async def counting(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> AsyncIterator[tuple[Store, Turns]]:
    """Give a filled store, and how often a module's function is called from then on."""
    turns = Turns()
    function = getattr(module, name)

    def counted(encoded: bytes) -> Any:
        turns.add(1)
        return function(encoded)

    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            master = await fill(endpoint)
            monkeypatch.setattr(module, name, counted)
            trio.lowlevel.add_instrument(turns)
            yield master, turns
            trio.lowlevel.remove_instrument(turns)


async def test_keys_and_items_are_decoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async with counting(monkeypatch, reading, "decode") as (master, turns):
        assert len(await master.keys()) == COUNT
        assert turns.longest <= SLICE_COUNT
        assert dict(await master.items()) == dict.fromkeys(range(COUNT), "v")
    assert turns.longest <= 2 * SLICE_COUNT  # a key and its value each


async def test_the_first_scan_sorts_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async with counting(monkeypatch, index, "order_of") as (master, turns):
        page = await master.scan(limit=SLICE_COUNT)
    assert [entry.key for entry in page] == list(range(SLICE_COUNT))
    assert turns.total == COUNT
    assert turns.longest <= SLICE_COUNT
