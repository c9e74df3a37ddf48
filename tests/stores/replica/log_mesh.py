"""Logs of one group in the test's hands: as ``tests.stores.replica.test_core`` has it of stores."""

from __future__ import annotations

from collections.abc import Callable

from stores.effects import Resolve
from stores.group.codec import GroupCodec
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.outcomes import Applied, Refused
from stores.replica.beginning import Beginning, World
from stores.replica.logs.books import BookKeeper
from stores.replica.logs.core import LogCore
from stores.replica.roster import Roster
from tests.stores.log.lab import entries_of
from tests.stores.replica.test_core import Mesh
from wire.encoding import encode
from wire.identifiers import EntityId


class LogMesh(Mesh):
    """Cores of a log, and what their handles ask for; each gives its request's number."""

    codec = GroupCodec(LogCodec())
    partitions = 2

    def _make(
        self, entity: EntityId, roster: Roster, beginning: Beginning, world: World
    ) -> LogCore:
        machine = LogMachine("log l", self.partitions)
        core = LogCore(entity, roster, machine, self.codec, beginning, world)
        if not core.is_volatile:
            core.carrier.keeper = BookKeeper(machine, 0)
        return core

    def lead(self) -> str:
        """Have a leader elected that serves all, and the log begin."""
        leader = super().lead()
        self.ticks_until(lambda: all(len(core.machine.partitions) for core in self.members))
        return leader

    def lead_again(self) -> str:
        """Have another one elected by those that are left; give its name."""
        self.work()
        self.ticks_until(lambda: any(core.is_leader for core in self.members))
        self.ticks_until(lambda: all(core.is_served for core in self.members))
        return next(name for name, core in self.cores.items() if core.is_leader)

    @property
    def members(self) -> list[LogCore]:
        return list(self.cores.values())

    def ticks_until(self, is_true: Callable[[], object], most: int = 200) -> None:
        for _ in range(most):
            if is_true():
                return
            self.tick()
            self.work()
        raise AssertionError([core.explain_idle() for core in self.members])

    # The handles.

    def append(
        self,
        name: str,
        value: object,
        partition: int = 0,
        source: tuple[str | None, int] = (None, 0),
    ) -> int:
        number = self.cores[name].requests.append(partition, (None, encode(value)), *source)
        self.flush(name)
        return number

    def move(self, name: str, consumer: str, *positions: tuple[int, int]) -> int:
        number = self.cores[name].requests.move_cursor(consumer, positions)
        self.flush(name)
        return number

    def write_all(self) -> None:
        """Have all disks do what they were asked."""
        for name in self.cores:
            self.write(name)

    def flush(self, name: str) -> None:
        self.take(name, self.cores[name].flush(self.now_ns))

    def result(self, name: str, number: int) -> Applied | Refused | None:
        """Give what became of a request; none has two outcomes."""
        found = [
            outcome
            for each in self.told[name]
            if isinstance(each, Resolve)
            if (outcome := each.outcome.between(number - 1, number)) is not None
        ]
        assert len(found) <= 1, found
        return found[0].result if found else None

    def offset(self, name: str, number: int) -> int:
        """Wait for what an append came to."""
        self.ticks_until(lambda: self.result(name, number))
        result = self.result(name, number)
        assert isinstance(result, Applied), result
        return result.revision

    def entries(self, name: str, partition: int = 0) -> dict[int, object]:
        """Give what can be read at a member."""
        return entries_of(self.cores[name].machine, partition)

    def level(self) -> bool:
        """Tell whether all members have applied the same."""
        return len({core.machine.digest() for core in self.members}) == 1
