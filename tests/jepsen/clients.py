"""Who writes to the store and reads it; each call and its answer is recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import trio

from peermesh import Batch
from peermesh.testing.history import History
from peermesh.testing.replica_handle import ReplicaHandle
from tests.jepsen.group import Group
from wire.errors import GuardFailed, MeshError
from wire.values import Value

KINDS = ("increment", "push", "compare_and_set", "revise", "put", "get", "get")
"""What is called, as often as it is named."""

SORTS = {"increment": "counter", "push": "list", "revise": "revised"}
"""Which keys it is called on: of any other one, registers."""

CALLS_OF_A_KEY = 60
"""Calls on one key before another one takes its place: long ones are slow to check."""

PATIENCE_SECONDS = 30.0
"""How long a client waits for an answer: a node that is stopped gives none."""


class Clients:
    """Some clients of one group, and what they saw."""

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.history = History()
        self.is_ending = False
        self.living = 0
        self.answered = trio.lowlevel.ParkingLot()
        """Woken by each acknowledged write."""
        self.writes = 0
        """How many were acknowledged."""
        self._chance = Random(seed)
        self._newest = -1.0
        """When the latest of the acknowledged writes began."""
        self._calls = 0
        self._keys = 0
        self._values = 0

    async def live(self, number: int) -> None:
        """Call one thing after the other at any node that lives, to the end."""
        self.living += 1
        while not self.is_ending:
            handles = list(self.group.handles.values())
            handles = [each for each in handles if each.node.is_running]
            if not handles:
                await self.group.moved.park()
                continue
            await self._call(f"client {number}", self._chance.choice(handles))
        self.living -= 1
        self.answered.unpark_all()

    async def _call(self, process: str, handle: ReplicaHandle) -> None:
        kind = self._chance.choice(KINDS)
        key, arguments = self._what(kind)
        if kind == "revise":
            await self._revise(process, handle, key, arguments)
        else:
            act = partial(self._act, handle, kind, key, arguments)
            await self._record(process, handle, kind, (key, *arguments), act)

    async def _revise(
        self, process: str, handle: ReplicaHandle, key: str, arguments: tuple[int, ...]
    ) -> None:
        """Change a key if it has the revision still that a replica shows, however old that is.

        Each value of such a key is another one, so that revisions and values stand for each other.
        """
        (value,) = arguments
        with trio.move_on_after(PATIENCE_SECONDS):
            try:
                entry = await handle.entry(key)
            except MeshError:
                return
            revision = None if entry is None else entry.revision
            kind = "put_unique" if entry is None else "compare_and_set"
            expected = () if entry is None else (entry.value,)

            async def act() -> tuple[object, ...]:
                await (await handle.compare_and_set(key, value, revision)).applied()
                return (True,)

            await self._record(process, handle, kind, (key, *expected, value), act)

    async def _record(
        self,
        process: str,
        handle: ReplicaHandle,
        kind: str,
        arguments: tuple[Value, ...],
        act: Callable[[], Awaitable[tuple[object, ...]]],
    ) -> None:
        at = trio.current_time
        began = at()
        number = self.history.begin(process, kind, *arguments, at=began, node=handle.node.name)
        with trio.move_on_after(PATIENCE_SECONDS):
            try:
                result = await act()
            except GuardFailed:
                result = (False,)
            except MeshError as error:
                if kind == "get" or str(error).endswith("it was not applied"):
                    self.history.fail(number, at=at(), reason=str(error))
                else:
                    self._lose(number, str(error))
                return
            self.history.end(number, *result, at=at())
            if kind != "get" and result != (False,):
                self.writes += 1
                self._newest = max(self._newest, began)
                self.answered.unpark_all()
            return
        self._lose(number, "no answer")

    def _lose(self, number: int, reason: str) -> None:
        """Record that nothing is known of an outcome, and take other keys from now on.

        Such a call stays open to the end of its key: a few of them are checked in no time, and
        twenty not in an hour.
        """
        self.history.lose(number, at=trio.current_time(), reason=reason)
        self._take_other_keys()

    def _take_other_keys(self) -> None:
        self._calls = 0
        self._keys += 1

    async def _act(
        self, handle: ReplicaHandle, kind: str, key: str, arguments: tuple[int, ...]
    ) -> tuple[object, ...]:
        match kind:
            case "get":
                missing = "missing"
                value = await handle.read().get(key, missing)
                return () if value == missing else (value,)
            case "compare_and_set":
                expected, value = arguments
                await (
                    await handle.batch(Batch().if_value(key, expected).put(key, value))
                ).applied()
                return (True,)
            case _:
                await (await getattr(handle, kind)(key, *arguments)).applied()
                return ()

    def _what(self, kind: str) -> tuple[str, tuple[int, ...]]:
        if self._calls == (len(SORTS) + 1) * CALLS_OF_A_KEY:
            self._take_other_keys()
        self._calls += 1
        self._values += 1
        sort = SORTS.get(kind, "register")
        if kind == "get":
            sort = self._chance.choice((*SORTS.values(), "register"))
        key = f"{sort} {self._keys}"
        match kind:
            case "increment":
                return key, (1,)
            case "push" | "revise":
                return key, (self._values,)
            case "put":
                return key, (self._chance.randrange(4),)
            case "compare_and_set":
                return key, (self._chance.randrange(4), self._chance.randrange(4))
            case _:
                return key, ()

    async def await_write(self) -> None:
        """Wait until a write is acknowledged that begins from now on."""
        now = trio.current_time()
        while self._newest < now:
            await self.answered.park()
