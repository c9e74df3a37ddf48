"""The files of a durable replica: the ballot, and the journal beside the machine's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from endpoint.replicas.backends import check_options, take_path
from endpoint.replicas.storage_keys import take_keys
from endpoint.surroundings import ReplicaOpener
from stores.disk.ballot import SUFFIX, BallotFile, LoadedBallot
from stores.disk.medium import PrivateMedium
from stores.disk.replica import Founding, LoadedReplica, ReplicaRows, SQLiteReplica
from stores.disk.rows import PLAIN, Codec
from stores.group.effects import Persist, Promises, SavePromises, Snapshot, SyncMarks, WriteMark
from stores.group.election import FORCED_TERMS
from stores.group.member import Stored
from stores.replica.beginning import Beginning
from stores.replica.effects import Begin, ToDisk
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


class ReplicaFiles:
    """What keeps a replica.

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
        self._is_renamed = is_renamed
        options = dict(options)
        self.path = take_path(options, "an SQLite store")
        self._term = 0
        """That of the promises on the disk."""
        self._rows: ReplicaRows
        if opener is not None:
            self._rows, medium = opener(self.path, options)
            self._ballot = BallotFile(medium, None)
            return
        keys, codec = take_keys(options), cast("Codec", PLAIN)
        if keys is not None:
            from stores.disk.seals import Vault

            codec = Vault(self.path, keys)
        check_options(options, "an SQLite store")
        self._rows = SQLiteReplica(self.path, TableCodec(), codec, name, **cast("Any", options))
        self._ballot = BallotFile(PrivateMedium(self.path + SUFFIX), keys)

    def load(self, founding: Founding, *, is_learner: bool = False) -> Opened:
        """Open or create both files. ``founding`` is for one of an earlier format, or a new one.

        A learner founds nothing: it sets a file of an earlier format aside.
        """
        aside = self._rows.set_aside() if is_learner else None
        loaded = self._rows.load(founding)
        ballot = self._ballot.load()
        own = founding.member
        if ballot is None:
            if loaded.meta.group is not None and not _is_upgraded(loaded, own.name):
                raise BackendFailure(
                    f"{self.path} has a journal, and its ballot {self.path}{SUFFIX} is missing:"
                    " move the file away, and start the replica anew: it takes all from its group."
                    " Of a group of one, put back a copy of both"
                )
            (member,) = loaded.meta.voters or (own,)
            ballot = self._ballot.create(member, loaded.meta.group)
        if not self._is_renamed and ballot.promises.member.name != own.name:
            raise BackendFailure(
                f"{self.path} is the replica of {ballot.promises.member.name}, and this endpoint is"
                f" {own.name}: give each its own file"
            )
        self._term = ballot.promises.term
        group = self._agree(loaded, ballot)
        meta = loaded.meta
        stored = Stored(
            ballot.promises,
            ballot.slots,
            meta.floor,
            meta.voters,
            loaded.entries,
            meta.applied.index,
            meta.times,
        )
        beginning = Beginning(stored, group, meta.reached)
        parts = restored(meta, loaded.revision, loaded.columns, loaded.writers)
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

    def _agree(self, loaded: LoadedReplica, ballot: LoadedBallot) -> bytes | None:
        """Have both files be of one group, as a crash in between leaves one of them behind."""
        here, there = loaded.meta.group, ballot.group
        if here is not None and there is not None and here != there:
            raise BackendFailure(
                f"{self.path} and its ballot are of different groups: put the files back that"
                " belong together"
            )
        if here is None and there is not None:
            self._rows.join(there)
        elif here is not None and there is None:
            self._ballot.join(here)
        return here or there

    def write(self, job: ToDisk) -> None:
        """Do what the member asks, and wait until the disk has it."""
        match job.write:
            case Begin(group, entries):
                self._rows.join(group, entries)
                self._ballot.join(group)
            case Persist() as write if write.snapshot is not None:
                slices, beside = installed(write.snapshot)
                self._rows.persist(write, installed=slices, machine=beside)
            case Persist() as write:
                begin = self._term // FORCED_TERMS * FORCED_TERMS
                self._rows.persist(write, job.rows, forced_after=begin - 1)
            case SavePromises(promises=promises):
                self._ballot.save(promises)
                self._term = promises.term
            case SyncMarks():
                self._ballot.sync_marks()
            case None:
                assert job.rows is not None, job
                self._rows.checkpoint(job.rows)

    def write_mark(self, write: WriteMark) -> None:
        """Write a mark, without a wait for the disk."""
        self._ballot.write_mark(write.slot, write.number, write.mark)

    def close(self) -> None:
        """Let go of files and locks."""
        try:
            self._ballot.close()
        finally:
            self._rows.close()


def _is_upgraded(loaded: LoadedReplica, name: str) -> bool:
    """Tell whether a file of an earlier format has become a group of one, and no more happened.

    A crash may come before there is a ballot. Such a group has not led yet: it has no entries.
    """
    meta = loaded.meta
    is_untouched = not loaded.entries and meta.floor == meta.applied and not meta.machine
    return is_untouched and [voter.name for voter in meta.voters] == [name]
