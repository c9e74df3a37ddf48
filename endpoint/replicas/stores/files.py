"""The files of a durable replica of a store: the journal beside the rows of its table."""

from __future__ import annotations

from collections.abc import Sequence

from endpoint.replicas.disk import log_failure
from endpoint.replicas.files import Loaded, MemberFiles
from stores.disk.founding import Founding
from stores.disk.lazy_rows import Slice
from stores.disk.replica import ReplicaRows, SQLiteReplica
from stores.disk.rows import Codec
from stores.disk.sqlite import FileOptions
from stores.group.effects import Persist, Promises, SavePromises, Snapshot
from stores.replica.effects import Rows, ToDisk
from stores.replica.lazy import installed, restored
from stores.table.codec import TableCodec
from stores.table.parts import EntriesPart, Part
from wire.errors import BackendFailure


class ReplicaFiles(MemberFiles[ReplicaRows]):
    """What keeps a replica of a store."""

    what = "an SQLite store"

    def _open(self, codec: Codec, name: str, options: FileOptions) -> ReplicaRows:
        return SQLiteReplica(self.path, TableCodec(), codec, name, **options)

    def _load(self, founding: Founding) -> tuple[Loaded, Sequence[Part]]:
        loaded = self._rows.load(founding)
        return loaded, restored(loaded.meta, loaded.revision, loaded.columns, loaded.writers)

    def fill(self, founding: Founding, snapshot: Snapshot, promises: Promises) -> tuple[str, ...]:
        """Create both files for a member of the group that ``founding`` names, with its state.

        Gives what others could read of them until now. If the process ends meanwhile, the file
        can be filled again, and not be opened otherwise, or it has all. If this fails, both files
        are removed.
        """
        opened = self.load(founding, is_filled=True)
        has_rows = any(isinstance(part, EntriesPart) and part.revisions for part in opened.parts)
        if opened.beginning.group is not None or has_rows:
            raise BackendFailure(
                "there is a store in that file already: give the promoted store a file of its own,"
                " or attach a master with that one"
            )
        try:
            self._fill(founding.group, snapshot, promises)
        except BackendFailure as error:
            left = "Nothing" if self._remove() else "Some"
            raise BackendFailure(
                f"{error}. {left} of it is left there: promote to it again when the cause is"
                " removed"
            ) from error
        except BaseException:
            self._remove()
            raise
        return opened.exposed

    def _remove(self) -> bool:
        """Remove both files, of which nothing is needed; locks stay until they are closed.

        False if that fails, which the log is told.
        """
        try:
            if isinstance(self._rows, SQLiteReplica):
                self._rows.file.remove()
            if self._medium is not None:
                self._medium.remove()
        except OSError as error:
            log_failure("store", self.path, BackendFailure(f"it cannot be removed: {error}"))
            return False
        return True

    def _fill(self, group: bytes, snapshot: Snapshot, promises: Promises) -> None:
        """Write all, in such an order that what is there by half is of no group."""
        self.write(ToDisk(0, SavePromises(0, promises)))
        slices, beside = installed(snapshot)
        write = Persist(0, snapshot, snapshot.position.index, ())
        self._rows.persist(write, installed=slices, machine=beside, group=group)
        self._ballot.join(group)  # After a crash before it, the file's next opening does it.

    def persist(self, write: Persist, rows: Rows | None, forced_after: int) -> None:
        """Make a change of the journal durable, with rows of the table."""
        if write.snapshot is not None:
            slices, beside = installed(write.snapshot)
            self._rows.persist(write, installed=slices, machine=beside, forced_after=forced_after)
        else:
            assert rows is None or isinstance(rows, Slice), rows
            self._rows.persist(write, rows, forced_after=forced_after)

    def checkpoint(self, rows: Rows) -> None:
        """Make rows of the table durable."""
        assert isinstance(rows, Slice), rows
        self._rows.checkpoint(rows)
