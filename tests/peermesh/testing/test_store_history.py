"""The store itself, held against what it promises: a recorded run of a master and two clones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

import peermesh
from peermesh import Backend, Batch, Change, Endpoint, Store
from peermesh.testing.checkers import linearizable, one_winner, prefix_consistent
from peermesh.testing.history import History
from peermesh.testing.observations import Commit
from peermesh.testing.time_limits import limit
from wire.errors import GuardFailed

KEYS = ("x", "y")
LAST_KEY = "the last"
TURNS = 40


class Run:
    """A master, two clones that are not neighbours, and a history of what is done to them."""

    def __init__(self, stores: dict[str, Store]) -> None:
        self.stores = stores
        self.history = History()
        self.all_noted = trio.Event()

    async def use(self, process: str, node: str, random: Random) -> None:
        """Do this and that: mutations count at the master, reads where they are made."""
        store = self.stores[node]
        for turn in range(TURNS):
            key = random.choice(KEYS)
            value = random.randrange(4)
            match random.randrange(8):
                case 0 | 1:
                    await self.do(process, "put", key, value, act=store.put)
                case 2:
                    await self.do(process, "increment", f"{key}#", 1, act=store.increment)
                case 3:
                    await self.do(process, "erase", key, act=store.erase)
                case 4:
                    await self.compare_and_set(process, store, (key, value, value + 1))
                case 5:
                    await self.put_unique(process, store, f"winner {turn}")
                case _:
                    await self.get(process, node, random.choice((key, f"{key}#")))
            await trio.lowlevel.checkpoint()

    async def do(self, process: str, name: str, *call: Any, act: Callable[..., Any]) -> None:
        number = self.begin(process, name, *call)
        await (await act(*call)).applied()
        self.end(number)

    async def compare_and_set(self, process: str, store: Store, call: tuple[Any, ...]) -> None:
        key, expected, value = call
        number = self.begin(process, "compare_and_set", *call)
        try:
            await (await store.batch(Batch().if_value(key, expected).put(key, value))).applied()
            self.end(number, True)
        except GuardFailed:
            self.end(number, False)

    async def put_unique(self, process: str, store: Store, key: str) -> None:
        number = self.begin(process, "put_unique", key, process)
        self.end(number, await store.put_unique(key, process))

    async def get(self, process: str, node: str, key: str) -> None:
        number = self.begin(process, "get", key, node=node)
        missing = object()
        value: Any = await self.stores[node].get(key, missing)  # type: ignore[arg-type]  # no value is missing
        self.end(number, *([] if value is missing else [value]))

    def begin(self, process: str, name: str, *call: Any, node: str = "master") -> int:
        return self.history.begin(process, name, *call, at=trio.current_time(), node=node)

    def end(self, number: int, *result: Any) -> None:
        self.history.end(number, *result, at=trio.current_time())

    async def note_commits(self, task_status: trio.TaskStatus[None]) -> None:
        """Note what the master makes visible; a revision is lacking where a key is gone."""
        with self.stores["master"].watch(from_revision=1) as items:
            task_status.started()
            async for item in items:
                if isinstance(item, peermesh.Commit):
                    for change in item.changes:
                        self.note(item.revision, change)

    def note(self, revision: int, change: Change) -> None:
        after = () if change.entry is None else (change.entry.value,)
        commit = Commit(revision, change.key, after, change.kind.value)
        self.history.see("master", commit, at=trio.current_time())
        if change.key == LAST_KEY:
            self.all_noted.set()


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_the_master_is_linearizable_and_clones_show_prefixes_of_it(
    backend: str, tmp_path: Path
) -> None:
    with trio.fail_after(limit(60)):
        async with AsyncExitStack() as stack:
            left, middle, right = [await stack.enter_async_context(Endpoint()) for _ in range(3)]
            assert await middle.peer("127.0.0.1", await left.listen(), timeout=limit())
            assert await right.peer("127.0.0.1", await middle.listen(), timeout=limit())
            kind = Backend.Memory if backend == "memory" else Backend.SQLite
            options = {} if backend == "memory" else {"path": tmp_path / "store.db"}
            stores = {
                "master": await stack.enter_async_context(left.attach_master("s", kind, **options)),
                "middle": await stack.enter_async_context(middle.attach_clone("s")),
                "right": await stack.enter_async_context(right.attach_clone("s")),
            }
            assert await stores["right"].await_idle()
            assert await stores["middle"].await_idle()
            run = Run(stores)
            async with trio.open_nursery() as nursery:
                await nursery.start(run.note_commits)
                async with trio.open_nursery() as users:
                    for number, node in enumerate([*stores] * 2):
                        users.start_soon(run.use, f"p{number}", node, Random(number))
                for node in ("middle", "right"):
                    assert await stores[node].await_idle()
                    for key in KEYS:
                        await run.get("last", node, key)
                        # Idle is more than a prefix: all that was told before is there.
                        now = await stores["master"].get(key)
                        assert await stores[node].get(key) == now
                await stores["master"].put(LAST_KEY, None)
                await run.all_noted.wait()
                nursery.cancel_scope.cancel()
    for verdict in (
        linearizable(run.history, nodes=["master"]),
        prefix_consistent(run.history, ["master", "middle", "right"]),
        one_winner(only_contests(run.history)),
    ):
        assert verdict, str(verdict)
    assert len(run.history.operations()) == 6 * TURNS + 4


def only_contests(history: History) -> History:
    """Leave operations of other kinds away: they are about other keys."""
    chosen = {each.number for each in history.operations() if each.name == "put_unique"}
    return History(each for each in history.events if getattr(each, "number", None) in chosen)
