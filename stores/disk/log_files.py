"""What a log replica's file does, whichever keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from stores.disk.founding import Founding
from stores.disk.lazy_rows import Books
from stores.group.effects import Persist, StageParts
from stores.group.entries import Entry
from stores.log.kept_runs import KeptRun, RunPlace

if TYPE_CHECKING:
    from stores.disk.log_replica import LoadedLogReplica


class LogReplicaRows(Protocol):
    """The journal of one replica, with the runs that its entries brought, and what is small.

    Every method may block, and may raise ``BackendFailure``: then it is of no more use.
    """

    def load(self, founding: Founding) -> LoadedLogReplica:
        """Open or create the file, and give all that it has."""

    def set_aside(self) -> str | None:
        """Give a file of an earlier release another name, and say which, if there is one."""

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, once for ever, and with it the founder's entries."""

    def persist(self, write: Persist, *, forced_after: int = -1) -> None:
        """Make a change of the journal durable, with the runs of its entries.

        Entries that are dropped are put aside, if none of them is of a term after ``forced_after``.
        """

    def stage(self, write: StageParts) -> None:
        """Put runs of a snapshot aside, until it comes; those of another one go."""

    def checkpoint(self, books: Books) -> None:
        """Make durable what is small of a state: ``LogMachine.beside_rows`` gives the parts."""

    def read(self, places: Sequence[RunPlace]) -> list[KeptRun]:
        """Give those of some runs that are still there, up to a damaged one, if that is not first.

        Another thread may commit meanwhile.
        """

    def close(self) -> None:
        """Let go of the file."""
