"""Who appends to the log and reads it, at one replica after the other; all is noted in a ledger."""

from __future__ import annotations

from random import Random

import trio

from peermesh.testing.log_handle import LogReplicaHandle
from peermesh.testing.swarm.log_ledger import LogLedger
from peermesh.testing.time_limits import limit
from tests.jepsen.group import PARTITIONS, Group
from tests.jepsen.violation import Violation
from wire.errors import MeshError

PATIENCE_SECONDS = 30.0
"""How long an append waits for its outcome: a node that is stopped gives none."""

READS_MAX = 20
"""How often a consumer reads at one replica before it goes to another one."""

READ_SECONDS = 0.2
"""How long a read waits for the first entry."""


class Appender:
    """Appends one entry after the other, at any replica that lives."""

    def __init__(self, group: Group, ledger: LogLedger, name: str, seed: int) -> None:
        self.is_ending = False
        self.has_ended = trio.Event()
        self.appended = trio.lowlevel.ParkingLot()
        """Woken by each acknowledged entry."""
        self._group = group
        self._ledger = ledger
        self._name = name
        self._chance = Random(seed)
        self._newest = -1.0
        """When the latest of the acknowledged ones was asked for."""

    async def live(self) -> None:
        """Append to the end."""
        while not self.is_ending:
            handle = await pick(self._group, self._chance)
            append = self._ledger.ask(handle)
            began = trio.current_time()
            append.is_unknown = True
            with trio.move_on_after(PATIENCE_SECONDS):
                try:
                    place = await (await handle.append(append.number)).applied()
                except MeshError:
                    continue
                append.is_unknown = False
                self._ledger.acknowledge(append, (place.partition, place.offset))
                self._newest = max(self._newest, began)
                self.appended.unpark_all()
        self.has_ended.set()

    async def await_append(self) -> None:
        """Wait until an entry is acknowledged that was asked for from now on."""
        now = trio.current_time()
        while self._newest < now:
            await self.appended.park()


class Consumer:
    """Reads all entries, and remembers in the log how far it is."""

    def __init__(self, group: Group, ledger: LogLedger, name: str, seed: int) -> None:
        self.name = name
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self._group = group
        self._ledger = ledger
        self._chance = Random(seed)
        self._scope = trio.CancelScope()

    async def live(self) -> None:
        """Read until it is ended."""
        with self._scope:
            while True:
                handle = await pick(self._group, self._chance)
                try:
                    for _ in range(self._chance.randrange(READS_MAX)):
                        await self._read_on(handle, READ_SECONDS)
                    await handle.commit(self.name, self.positions)
                except MeshError:
                    await trio.lowlevel.checkpoint()

    def end(self) -> None:
        """Stop."""
        self._scope.cancel()

    async def _read_on(self, handle: LogReplicaHandle, seconds: float) -> None:
        for partition in self.positions:
            for entry in await handle.read(partition, self.positions[partition], timeout=seconds):
                self._ledger.read(self.name, (partition, entry.offset), entry.value)
                self.positions[partition] = entry.offset + 1

    async def finish(self, handle: LogReplicaHandle, ends: dict[int, int]) -> None:
        """Read what is left, and say so; raises ``Violation`` if that is not all."""
        while self._is_before(ends):
            before = dict(self.positions)
            await self._read_on(handle, 0.0)
            if self.positions == before:
                raise Violation(f"{self.name} is at {before}, reads no more, and the end is {ends}")
        await (await handle.commit(self.name, self.positions)).applied()

    def _is_before(self, ends: dict[int, int]) -> bool:
        return any(self.positions[partition] < end for partition, end in ends.items())


async def pick(group: Group, chance: Random) -> LogReplicaHandle:
    """Give any replica of the log that lives, once there is one."""
    while True:
        handles = [each for each in group.logs.values() if each.node.is_running]
        if handles:
            return chance.choice(handles)
        await group.moved.park()


async def check_the_log(group: Group, ledger: LogLedger, consumers: list[Consumer]) -> None:
    """See that all replicas end alike, and that all was kept, and read once and in order."""
    ends: dict[int, int] = {}
    for consumer in consumers:
        handle = next(iter(group.logs.values()))
        await handle.catch_up(limit(60))
        ends = {partition: span.end for partition, span in (await handle.offsets()).items()}
        await consumer.finish(handle, ends)
    wanted = {each.name: each.positions for each in consumers}
    for name, handle in group.logs.items():
        await handle.catch_up(limit(60))
        found = {partition: span.end for partition, span in (await handle.offsets()).items()}
        cursors = {each: await handle.committed(each) for each in wanted}
        if (found, cursors) != (ends, wanted):
            raise Violation(f"{name} has {found} and {cursors}, and not {ends} and {wanted}")
    ledger.check_kept(ends)
