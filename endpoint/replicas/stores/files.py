"""The files of a durable replica of a store: the journal beside the rows of its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from endpoint.replicas.files import Loaded, MemberFiles
from stores.disk.founding import Founding
from stores.disk.lazy_rows import Slice
from stores.disk.replica import ReplicaRows, SQLiteReplica
from stores.disk.rows import Codec
from stores.group.effects import Persist, Promises, SavePromises, Snapshot
from stores.replica.effects import Begin, Rows, ToDisk
from stores.replica.lazy import installed, restored
from stores.table.codec import TableCodec
from stores.table.parts import EntriesPart, Part
from wire.errors import BackendFailure


class ReplicaFiles(MemberFiles[ReplicaRows]):
    """What keeps a replica of a store."""

    what = "an SQLite store"

    def _open(self, codec: Codec, name: str, options: dict[str, Any]) -> ReplicaRows:
        return SQLiteReplica(self.path, TableCodec(), codec, name, **options)

    def _load(self, founding: Founding) -> tuple[Loaded, Sequence[Part]]:
        loaded = self._rows.load(founding)
        return loaded, restored(loaded.meta, loaded.revision, loaded.columns, loaded.writers)

    def fill(self, founding: Founding, snapshot: Snapshot, promises: Promises) -> tuple[str, ...]:
        """Create both files for a member of the group that ``founding`` names, with its state.

        Gives what others could read of them until now.
        """
        opened = self.load(founding)
        has_rows = any(isinstance(part, EntriesPart) and part.revisions for part in opened.parts)
        if opened.beginning.group is not None or has_rows:
            raise BackendFailure(
                "there is a store in that file already: give the promoted store a file of its own"
            )
        self.write(ToDisk(0, Begin(founding.group, ())))
        self.write(ToDisk(0, Persist(0, snapshot, snapshot.position.index, ())))
        self.write(ToDisk(0, SavePromises(0, promises)))
        return opened.exposed

    def persist(self, write: Persist, rows: Rows | None, forced_after: int) -> None:
        """Make a change of the journal durable, with rows of the table."""
        if write.snapshot is not None:
            slices, beside = installed(write.snapshot)
            self._rows.persist(write, installed=slices, machine=beside)
        else:
            assert rows is None or isinstance(rows, Slice), rows
            self._rows.persist(write, rows, forced_after=forced_after)

    def checkpoint(self, rows: Rows) -> None:
        """Make rows of the table durable."""
        assert isinstance(rows, Slice), rows
        self._rows.checkpoint(rows)
