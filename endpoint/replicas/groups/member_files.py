"""What the files of every durable replica do: the ballot, beside what has the journal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from endpoint.replicas.storage_keys import take_keys
from stores.disk.ballot import SUFFIX, BallotFile, LoadedBallot
from stores.disk.machine_meta import Meta
from stores.disk.medium import PrivateMedium
from stores.disk.rows import PLAIN, Codec
from stores.group.effects import Persist, SavePromises, StageParts, SyncMarks, WriteMark
from stores.group.election import FORCED_TERMS
from stores.group.entries import Entry
from stores.group.member_parts import Stored
from stores.group.positions import MemberId
from stores.replica.beginning import Beginning
from stores.replica.effects import Begin, Rows, ToDisk
from wire.errors import BackendFailure

if TYPE_CHECKING:
    from stores.sealing import StorageKeys


def take_vault(path: str, options: dict[str, object]) -> tuple[StorageKeys | None, Codec]:
    """Take the keys out of the options, and give them with what seals the file, or does not."""
    keys, codec = take_keys(options), cast("Codec", PLAIN)
    if keys is not None:
        from stores.disk.seals import Vault

        codec = Vault(path, keys)
    return keys, codec


def ballot_of(path: str, keys: StorageKeys | None) -> BallotFile:
    """Give the ballot beside a file."""
    return BallotFile(PrivateMedium(path + SUFFIX), keys)


class JournalFile(Protocol):
    """What has the journal, with what is the machine's."""

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, with the founder's entries."""

    def close(self) -> None:
        """Close the file."""


class MemberFiles(ABC):
    """What keeps a replica.

    Every method may block, but ``write_mark``, and may raise ``BackendFailure``: then it is of no
    more use.
    """

    def __init__(
        self, path: str, journal: JournalFile, ballot: BallotFile, *, is_renamed: bool = False
    ) -> None:
        """Have two files, at a path and beside it; nothing is opened yet.

        One that ``is_renamed`` keeps the name that it had, whatever its endpoint is called now.
        """
        self.path = path
        self._journal = journal
        self._ballot = ballot
        self._is_renamed = is_renamed
        self._term = 0
        """That of the promises on the disk."""

    def begin(self, meta: Meta, entries: Sequence[Entry], own: MemberId) -> Beginning:
        """Open or create the ballot, and give what both files have; a new one is ``own``."""
        ballot = self._ballot.load()
        if ballot is None:
            if meta.group is not None and not _is_upgraded(meta, entries, own.name):
                raise BackendFailure(
                    f"{self.path} has a journal, and its ballot {self.path}{SUFFIX} is missing:"
                    " move the file away, and start the replica anew: it takes all from its group."
                    " Of a group of one, put back a copy of both"
                )
            (member,) = meta.voters or (own,)
            ballot = self._ballot.create(member, meta.group)
        if not self._is_renamed and ballot.promises.member.name != own.name:
            raise BackendFailure(
                f"{self.path} is the replica of {ballot.promises.member.name}, and this endpoint is"
                f" {own.name}: give each its own file"
            )
        self._term = ballot.promises.term
        group = self._agree(meta.group, ballot)
        stored = Stored(
            ballot.promises,
            ballot.slots,
            meta.floor,
            meta.voters,
            entries,
            meta.applied.index,
            meta.times,
        )
        return Beginning(stored, group, meta.reached)

    def _agree(self, here: bytes | None, ballot: LoadedBallot) -> bytes | None:
        """Have both files be of one group, as a crash in between leaves one of them behind."""
        there = ballot.group
        if here is not None and there is not None and here != there:
            raise BackendFailure(
                f"{self.path} and its ballot are of different groups: put the files back that"
                " belong together"
            )
        if here is None and there is not None:
            self._journal.join(there)
        elif here is not None and there is None:
            self._ballot.join(here)
        return here or there

    def write(self, job: ToDisk) -> None:
        """Do what the member asks, and wait until the disk has it."""
        match job.write:
            case Begin(group, entries):
                self._journal.join(group, entries)
                self._ballot.join(group)
            case Persist() as write:
                begin = self._term // FORCED_TERMS * FORCED_TERMS
                self.persist(write, job.rows, begin - 1)
            case StageParts() as write:
                self.stage(write)
            case SavePromises(promises=promises):
                self._ballot.save(promises)
                self._term = promises.term
            case SyncMarks():
                self._ballot.sync_marks()
            case None:
                assert job.rows is not None, job
                self.checkpoint(job.rows)

    @abstractmethod
    def persist(self, write: Persist, rows: Rows | None, forced_after: int) -> None:
        """Make a change of the journal durable, with rows of the machine.

        Entries that are dropped are put aside if all of them are of terms up to ``forced_after``.
        """

    def stage(self, write: StageParts) -> None:
        """Write parts of a snapshot aside, for a machine that does not keep all of it in memory."""
        raise AssertionError(f"{self.path} is of a machine that keeps all in memory: {write}")

    @abstractmethod
    def checkpoint(self, rows: Rows) -> None:
        """Make rows of the machine durable."""

    def write_mark(self, write: WriteMark) -> None:
        """Write a mark, without a wait for the disk."""
        self._ballot.write_mark(write.slot, write.number, write.mark)

    def close(self) -> None:
        """Let go of files and locks."""
        try:
            self._ballot.close()
        finally:
            self._journal.close()


def _is_upgraded(meta: Meta, entries: Sequence[Entry], name: str) -> bool:
    """Tell whether a file of an earlier format has become a group of one, and no more happened.

    A crash may come before there is a ballot. Such a group has not led yet: it has no entries.
    """
    is_untouched = not entries and meta.floor == meta.applied and not meta.machine
    return is_untouched and [voter.name for voter in meta.voters] == [name]
