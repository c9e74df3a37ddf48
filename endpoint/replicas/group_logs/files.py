"""The files of a durable replica of a log: the journal beside the runs, and what is small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from endpoint.replicas.backends import check_options, take_path
from endpoint.replicas.groups.member_files import MemberFiles, ballot_of, take_vault
from endpoint.surroundings import LogReplicaOpener
from stores.disk.ballot import BallotFile
from stores.disk.lazy_rows import Books
from stores.disk.log_files import LogReplicaRows
from stores.disk.log_replica import SQLiteLogReplica
from stores.group.effects import Persist
from stores.group.positions import MemberId
from stores.log.parts import Part
from stores.replica.beginning import Beginning
from stores.replica.effects import Rows


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """What the files of a replica have."""

    beginning: Beginning
    parts: Sequence[Part]
    """The state of its machine; nothing of a new one."""
    exposed: tuple[str, ...]


class LogReplicaFiles(MemberFiles):
    """What keeps a replica of a log: see ``MemberFiles``."""

    def __init__(
        self, name: str, options: dict[str, object], opener: LogReplicaOpener | None = None
    ) -> None:
        """Take the options of ``Backend.SQLite``; nothing is opened yet.

        ``opener`` makes other files than SQLite's.
        """
        options = dict(options)
        path = take_path(options, "a log in SQLite")
        self._rows: LogReplicaRows
        if opener is not None:
            self._rows, medium = opener(path, options)
            super().__init__(path, self._rows, BallotFile(medium, None))
            return
        keys, codec = take_vault(path, options)
        check_options(options, "a log in SQLite")
        self._rows = SQLiteLogReplica(path, codec, name, **cast("Any", options))
        super().__init__(path, self._rows, ballot_of(path, keys))

    def load(self, own: MemberId) -> OpenedLog:
        """Open or create both files; a new one is that of the member ``own``."""
        loaded = self._rows.load()
        beginning = self.begin(loaded.meta, loaded.entries, own)
        return OpenedLog(beginning, loaded.parts, loaded.exposed)

    def persist(self, write: Persist, rows: Rows | None, forced_after: int) -> None:
        """Make a change of the journal durable, with the runs of its entries."""
        self._rows.persist(write, forced_after=forced_after)
        if rows is not None:
            self.checkpoint(rows)

    def checkpoint(self, rows: Rows) -> None:
        """Make durable what is small."""
        assert isinstance(rows, Books), rows
        self._rows.checkpoint(rows.checkpoint, rows.parts)
