"""The files of a durable replica: the ballot, and the journal beside the machine's rows."""

from __future__ import annotations

from typing import Protocol

from stores.group.driving import Begin
from stores.group.effects import Persist, SavePromises, SyncMarks, WriteMark


class ReplicaFiles(Protocol):
    """What keeps a replica. Every method may block, but ``write_mark``.

    All may raise ``BackendFailure``, and then it is of no more use.
    """

    def write(self, write: Persist | SavePromises | SyncMarks | Begin | None) -> None:
        """Do what the member asks, and wait until the disk has it."""

    def write_mark(self, write: WriteMark) -> None:
        """Write a mark, without a wait for the disk."""

    def close(self) -> None:
        """Let go of files and locks."""
