"""The files of a durable replica of a store: the journal beside the rows of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from endpoint.replicas.backends import check_options, take_path
from endpoint.replicas.groups.member_files import MemberFiles, ballot_of, take_vault
from endpoint.surroundings import ReplicaOpener
from stores.disk.ballot import BallotFile
from stores.disk.founding import Founding
from stores.disk.lazy_rows import Slice
from stores.disk.replica import ReplicaRows, SQLiteReplica
from stores.group.effects import Persist, Promises, SavePromises, Snapshot
from stores.replica.beginning import Beginning
from stores.replica.effects import Begin, Rows, ToDisk
from stores.replica.lazy import installed, restored
from stores.table import Columns
from stores.table.codec import TableCodec
from stores.table.parts import Part
from wire.errors import BackendFailure


@dataclass(frozen=True, slots=True)
class Opened:
    """What the files of a replica have."""

    beginning: Beginning
    parts: list[Part]
    """The state of its machine."""
    columns: Columns
    """The rows in the file, which are in ``parts``, too."""
    exposed: tuple[str, ...]
    aside: str | None
    """The new name of a file of an earlier release, which a learner has set aside."""


class ReplicaFiles(MemberFiles):
    """What keeps a replica of a store.

    Every method may block, but ``write_mark``, and may raise ``BackendFailure``: then it is of no
    more use.
    """

    def __init__(
        self,
        name: str,
        options: dict[str, object],
        opener: ReplicaOpener | None = None,
        *,
        is_renamed: bool = False,
    ) -> None:
        """Take the options of ``Backend.SQLite``; nothing is opened yet.

        ``opener`` makes other files than SQLite's. One that ``is_renamed`` keeps the name that it
        had, whatever its endpoint is called now.
        """
        options = dict(options)
        path = take_path(options, "an SQLite store")
        self._rows: ReplicaRows
        if opener is not None:
            self._rows, medium = opener(path, options)
            super().__init__(path, self._rows, BallotFile(medium, None), is_renamed=is_renamed)
            return
        keys, codec = take_vault(path, options)
        check_options(options, "an SQLite store")
        self._rows = SQLiteReplica(path, TableCodec(), codec, name, **cast("Any", options))
        super().__init__(path, self._rows, ballot_of(path, keys), is_renamed=is_renamed)

    def load(self, founding: Founding, *, is_learner: bool = False) -> Opened:
        """Open or create both files. ``founding`` is for one of an earlier format, or a new one.

        A learner founds nothing: it sets a file of an earlier format aside.
        """
        aside = self._rows.set_aside() if is_learner else None
        loaded = self._rows.load(founding)
        beginning = self.begin(loaded.meta, loaded.entries, founding.member)
        parts = restored(loaded.meta, loaded.revision, loaded.columns, loaded.writers)
        return Opened(beginning, parts, loaded.columns, loaded.exposed, aside)

    def fill(self, founding: Founding, snapshot: Snapshot, promises: Promises) -> tuple[str, ...]:
        """Create both files for a member of the group that ``founding`` names, with its state.

        Gives what others could read of them until now.
        """
        opened = self.load(founding)
        if opened.beginning.group is not None or opened.columns:
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
