"""Endpoints that are opened and closed again and again leave nothing behind, in every door."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from peermesh import Endpoint, aio, blocking
from tests.doors import run_in_asyncio

FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(not FILES.is_dir(), reason="no /proc here")

WARM_UP = 10
"""Cycles before the first count: caches and pools have what they need then."""

CYCLES = 1_000


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    threads: int
    files: int
    objects: Counter[str]
    """By type: those of the library, and trio's, of which tasks are one."""

    @classmethod
    def now(cls) -> Held:
        """Count, without what waits to be collected."""
        gc.collect()
        kinds = (type(each) for each in gc.get_objects())
        ours = Counter(f"{kind.__module__}.{kind.__name__}" for kind in kinds if is_ours(kind))
        return cls(threading.active_count(), len(list(FILES.iterdir())), ours)


def is_ours(kind: type) -> bool:
    """Tell whether objects of a type are counted.

    Not trio's scopes: its heap of deadlines keeps a thousand of those that are over, more or fewer.
    One that is not over has a ``CancelStatus``, too, and that is counted.
    """
    if kind is trio.CancelScope:
        return False
    home = str(kind.__module__).partition(".")[0]
    return home in {"endpoint", "stores", "channels", "handshake", "net", "peermesh", "trio"}


def grown(before: Held, after: Held) -> list[str]:
    """Say what there is more of. One for ten cycles is a cache."""
    more = after.objects - before.objects
    found = [f"{count} {name}" for name, count in more.items() if count > CYCLES / 10]
    for name in ("threads", "files"):
        added = getattr(after, name) - getattr(before, name)
        if added > 0:
            found.append(f"{added} {name}")
    return found


async def test_cycles_in_trio_leave_nothing_behind() -> None:
    async def cycle() -> None:
        async with Endpoint() as endpoint:
            await endpoint.listen()
            with endpoint.subscribe("/t", local=True) as subscriber:
                async with endpoint.attach_master("s") as store:
                    await (await store.put("k", 1)).applied()
                    await endpoint.publish("/t", 1)
                    assert (await subscriber.get()).data == 1

    for _ in range(WARM_UP):
        await cycle()
    before = Held.now()
    for _ in range(CYCLES):
        await cycle()
    after = Held.now()
    assert grown(before, after) == []


def test_cycles_in_threads_leave_nothing_behind() -> None:
    def cycle() -> None:
        with blocking.Endpoint() as endpoint:
            endpoint.listen()
            with endpoint.subscribe("/t", local=True) as subscriber:
                with endpoint.attach_master("s") as store:
                    store.put("k", 1).result()
                    endpoint.publish("/t", 1)
                    assert subscriber.get().data == 1

    with blocking.Endpoint():  # The loop stays, so that what it keeps is counted, too.
        for _ in range(WARM_UP):
            cycle()
        before = Held.now()
        for _ in range(CYCLES):
            cycle()
        after = Held.now()
    assert grown(before, after) == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_cycles_in_asyncio_leave_nothing_behind(loop: str) -> None:
    async def cycle() -> None:
        async with aio.Endpoint() as endpoint:
            await endpoint.listen()
            with endpoint.subscribe("/t", local=True) as subscriber:
                async with endpoint.attach_master("s") as store:
                    await (await store.put("k", 1)).applied()
                    await endpoint.publish("/t", 1)
                    assert (await subscriber.get()).data == 1

    async def main() -> None:
        for _ in range(WARM_UP):
            await cycle()
        before = Held.now()
        for _ in range(CYCLES):
            await cycle()
        after = Held.now()
        assert grown(before, after) == []

    run_in_asyncio(main, loop=loop)
