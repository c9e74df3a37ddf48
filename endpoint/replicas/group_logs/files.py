"""The files of a durable replica of a log: the journal beside the runs, and what is small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from endpoint.replicas.backends import check_options, take_path
from endpoint.replicas.groups.member_files import MemberFiles, ballot_of, take_vault
from endpoint.surroundings import LogReplicaOpener
from stores.disk.ballot import BallotFile
from stores.disk.founding import Founding
from stores.disk.lazy_rows import Books
from stores.disk.log_files import LogReplicaRows
from stores.disk.log_replica import SQLiteLogReplica
from stores.group.effects import Persist, StageParts
from stores.log.kept_runs import KeptRun, RunPlace
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
    aside: str | None
    """The new name of a file of an earlier release, which a learner has set aside."""


class LogReplicaFiles(MemberFiles):
    """What keeps a replica of a log: see ``MemberFiles``."""

    def __init__(
        self,
        name: str,
        options: dict[str, object],
        opener: LogReplicaOpener | None = None,
        *,
        is_renamed: bool = False,
    ) -> None:
        """Take the options of ``Backend.SQLite``; nothing is opened yet.

        ``opener`` makes other files than SQLite's. One that ``is_renamed`` keeps the name that it
        had, whatever its endpoint is called now.
        """
        options = dict(options)
        path = take_path(options, "a log in SQLite")
        self._rows: LogReplicaRows
        if opener is not None:
            self._rows, medium = opener(path, options)
            super().__init__(path, self._rows, BallotFile(medium, None), is_renamed=is_renamed)
            return
        keys, codec = take_vault(path, options)
        check_options(options, "a log in SQLite")
        self._rows = SQLiteLogReplica(path, codec, name, **cast("Any", options))
        super().__init__(path, self._rows, ballot_of(path, keys), is_renamed=is_renamed)

    def load(self, founding: Founding, *, is_learner: bool = False) -> OpenedLog:
        """Open or create both files. ``founding`` is for one of an earlier format, or a new one.

        A learner founds nothing: it sets a file of an earlier format aside.
        """
        aside = self._rows.set_aside() if is_learner else None
        loaded = self._rows.load(founding)
        beginning = self.begin(loaded.meta, loaded.entries, founding.member)
        return OpenedLog(beginning, loaded.parts, loaded.exposed, aside)

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
