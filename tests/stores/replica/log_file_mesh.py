"""Logs of one group whose members have files: at every write and read a crash may come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from endpoint.replicas.logs.files import LogReplicaFiles
from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.log_replica_file import DiskLogReplica
from peermesh.testing.simulation.medium import DiskMedium
from stores.disk.ballot import SUFFIX
from stores.disk.founding import Founding
from stores.effects import ToProxy
from stores.group.effects import WriteMark
from stores.group.positions import MemberId
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.machine import LogMachine
from stores.replica.beginning import Beginning, World
from stores.replica.effects import ToDisk
from stores.replica.logs.books import BookKeeper
from stores.replica.logs.core import LogCore
from stores.replica.roster import Roster
from tests.stores.replica.log_mesh import LogMesh
from wire.identifiers import EntityId


class FileMesh(LogMesh):
    """A group whose members have files, each of which may lose its member at any moment."""

    partitions = 1

    def __init__(self, folder: Path, disk: Disk | None, names: str = "a") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.disk = disk
        self.files: dict[str, LogReplicaFiles] = {}
        super().__init__(names, dict.fromkeys(names, names))

    def _make(
        self, entity: EntityId, roster: Roster, beginning: Beginning, world: World
    ) -> LogCore:
        name = roster.own.name
        path = self.folder / f"{name}.db"
        opener = None if self.disk is None else self._open
        files = self.files[name] = LogReplicaFiles("l", {"path": path}, opener)
        opened = files.load(Founding(self.new_group, MemberId(name, 1), 0))
        machine = LogMachine("log l", self.partitions)
        if opened.parts:
            machine.install(opened.parts)
        core = LogCore(entity, roster, machine, self.codec, opened.beginning, world)
        core.carrier.keeper = BookKeeper(machine, opened.beginning.stored.applied)
        return core

    def _open(self, path: str, options: dict) -> tuple[DiskLogReplica, DiskMedium]:
        assert self.disk is not None
        rows = DiskLogReplica(self.disk, self, path, options)
        return rows, DiskMedium(self.disk, path + SUFFIX)

    def take(self, name: str, effects: list) -> None:
        for effect in effects:
            if isinstance(effect, WriteMark):
                self.files[name].write_mark(effect)
        rest = (WriteMark, ToProxy)
        super().take(name, [each for each in effects if not isinstance(each, rest)])

    def keep(self, name: str, job: ToDisk) -> None:
        self.files[name].write(job)

    def look_up(self, name: str, places: Sequence[RunPlace]) -> list[KeptRun]:
        return self.files[name].read(places)

    def crash(self, name: str) -> LogCore:
        """Lose a member, and give the one that its files make."""
        self.files[name].close()
        self.writes[name].clear()
        self.file_reads[name].clear()
        self.told[name].clear()
        core = self.cores[name] = self.core(0, name, "".join(self.cores), durable=True)
        return core

    def start_again(self, name: str) -> None:
        self.take(name, self.cores[name].start())
        self.work()
        self.ticks_until(lambda: self.cores[name].is_leader)

    def close(self) -> None:
        for files in self.files.values():
            files.close()
