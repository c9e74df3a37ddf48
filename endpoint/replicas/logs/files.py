"""The files of a durable replica of a log: the journal beside the runs, and what is small."""

from __future__ import annotations

from collections.abc import Sequence

from endpoint.replicas.files import Loaded, MemberFiles
from stores.disk.founding import Founding
from stores.disk.lazy_rows import Books
from stores.disk.log_files import LogReplicaRows
from stores.disk.log_replica import SQLiteLogReplica
from stores.disk.rows import Codec
from stores.disk.sqlite import FileOptions
from stores.group.effects import Persist, StageParts
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.parts import Part
from stores.replica.effects import Rows


class LogReplicaFiles(MemberFiles[LogReplicaRows]):
    """What keeps a replica of a log."""

    what = "a log in SQLite"

    def _open(self, codec: Codec, name: str, options: FileOptions) -> LogReplicaRows:
        return SQLiteLogReplica(self.path, codec, name, **options)

    def _load(self, founding: Founding) -> tuple[Loaded, Sequence[Part]]:
        loaded = self._rows.load(founding)
        return loaded, loaded.parts

    def persist(self, write: Persist, rows: Rows | None, forced_after: int) -> None:
        """Make a change of the journal durable, with the runs of its entries."""
        self._rows.persist(write, forced_after=forced_after)
        if rows is not None:
            self.checkpoint(rows)

    def stage(self, write: StageParts) -> None:
        """Put runs of a snapshot aside, until it comes."""
        self._rows.stage(write)

    def checkpoint(self, rows: Rows) -> None:
        """Make durable what is small."""
        assert isinstance(rows, Books), rows
        self._rows.checkpoint(rows)

    def read(self, places: Sequence[RunPlace]) -> list[KeptRun]:
        """Give those of some runs that are still there; the only one that others may run beside."""
        return self._rows.read(places)
