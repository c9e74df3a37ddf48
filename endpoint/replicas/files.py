"""The files of a durable replica: a journal beside the rows of its machine, and a ballot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, Protocol, TypeVar

from endpoint.replicas.options import take_file_options, take_keys, take_path
from stores.disk.ballot import SUFFIX, BallotFile, LoadedBallot, ballot_beside
from stores.disk.founding import Founding
from stores.disk.machine_meta import Meta
from stores.disk.medium import Medium, PrivateMedium
from stores.disk.rows import PLAIN, Codec
from stores.disk.sqlite import FileOptions
from stores.group.ballot import new_promises
from stores.group.effects import Persist, SavePromises, StageParts, SyncMarks, WriteMark
from stores.group.entries import Entry, latest_voters
from stores.group.member_parts import Stored
from stores.group.positions import MemberId
from stores.group.renaming import is_alone, renamed, renaming
from stores.group.terms import begin_of, stretch_of
from stores.replica.beginning import Beginning, Opened
from stores.replica.effects import Begin, Rows, ToDisk
from wire.errors import BackendFailure


class Loaded(Protocol):
    """What the file beside the ballot has, whichever the machine is."""

    @property
    def meta(self) -> Meta:
        """Where the machine's rows stand in the journal."""

    @property
    def entries(self) -> list[Entry]:
        """The journal above its floor."""

    @property
    def exposed(self) -> tuple[str, ...]:
        """Files that others could read until now, a sentence for each."""


class JournalFile(Protocol):
    """What has the journal, with what is the machine's."""

    def set_aside(self) -> str | None:
        """Give a file of an earlier release another name, and say which, if there is one."""

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, with the founder's entries."""

    def close(self) -> None:
        """Close the file."""


RowsT = TypeVar("RowsT", bound=JournalFile)


class MemberFiles(ABC, Generic[RowsT]):
    """What keeps a replica.

    Every method may block, but ``write_mark``, and may raise ``BackendFailure``: then it is of no
    more use.
    """

    what: ClassVar[str]
    """What is kept, in errors."""

    def __init__(
        self,
        name: str,
        options: dict[str, object],
        opener: Callable[[str, dict[str, object]], tuple[RowsT, Medium]] | None = None,
        *,
        is_renamed: bool = False,
    ) -> None:
        """Take the options of ``Backend.SQLite``; nothing is opened yet.

        ``opener`` makes other files than SQLite's. One that ``is_renamed`` keeps the name that it
        had, whatever its endpoint is called now.
        """
        options = dict(options)
        self.path = path = take_path(options, self.what)
        self._is_renamed = is_renamed
        self._term = 0
        """That of the promises on the disk."""
        self._medium: PrivateMedium | None = None
        if opener is not None:
            self._rows, medium = opener(path, options)
            self._ballot = BallotFile(medium, None)
            return
        keys = take_keys(options)
        codec: Codec = PLAIN
        if keys is not None:
            from stores.disk.seals import Vault

            codec = Vault(path, keys)
        self._rows = self._open(codec, name, take_file_options(options, self.what))
        self._medium = PrivateMedium(ballot_beside(path))
        self._ballot = BallotFile(self._medium, keys)

    # -- the machine's own -----------------------------------------------------------------------

    @abstractmethod
    def _open(self, codec: Codec, name: str, options: FileOptions) -> RowsT:
        """Give the file in SQLite."""

    @abstractmethod
    def _load(self, founding: Founding) -> tuple[Loaded, Sequence[object]]:
        """Open or create the file, and give what it has with the state of its machine."""

    @abstractmethod
    def persist(self, write: Persist, rows: Rows | None, forced_after: int) -> None:
        """Make a change of the journal durable, with rows of the machine.

        Entries that are dropped, or that a snapshot may lack, are put aside if all of them are of
        terms up to ``forced_after``.
        """

    def stage(self, write: StageParts) -> None:
        """Write parts of a snapshot aside, for a machine that does not keep all of it in memory."""
        raise AssertionError(f"{self.path} is of a machine that keeps all in memory: {write}")

    @abstractmethod
    def checkpoint(self, rows: Rows) -> None:
        """Make rows of the machine durable."""

    # -- both files ------------------------------------------------------------------------------

    def load(
        self,
        founding: Founding,
        *,
        is_learner: bool = False,
        is_filled: bool = False,
        is_fresh: bool = False,
        is_founder: bool = False,
    ) -> Opened:
        """Open or create both files. ``founding`` is for one of an earlier format, or a new one.

        A learner founds nothing: it sets a file of an earlier format aside. One that was to be
        filled, and never was, is opened only if it ``is_filled`` now. One that has one voter, and
        has lost its ballot, is opened only by what ``is_fresh``, as another member. One that has
        one voter of another name takes the name of a founder.
        """
        aside = self._rows.set_aside() if is_learner else None
        loaded, parts = self._load(founding)
        ballot = self._ballot.load()
        is_lost = ballot is None and loaded.meta.group is not None
        if ballot is not None and loaded.meta.group is None and _is_left_over(ballot):
            if not is_filled:
                raise BackendFailure(
                    f"{self.path} is of a promotion that did not end, and nothing is in it yet:"
                    f" promote to it again, or remove it and {self.path}{SUFFIX}"
                )
            ballot = None
        if ballot is None:
            ballot = self._new_ballot(loaded, founding.member, is_fresh=is_fresh)
        beginning = self._begin(loaded.meta, loaded.entries, ballot)
        if not self._is_renamed:
            own_name = founding.member.name
            beginning = self._take_name(beginning, own_name, is_founder=is_founder)
        return Opened(
            *(beginning, parts, loaded.exposed, aside, ballot.damaged), has_lost_ballot=is_lost
        )

    def _new_ballot(self, loaded: Loaded, own: MemberId, *, is_fresh: bool) -> LoadedBallot:
        """Create the ballot of a new file; of another one where nothing is promised by that."""
        meta, entries = loaded.meta, loaded.entries
        if meta.group is None:
            return self._ballot.create(own, None)
        if _is_upgraded(meta, entries, own.name):
            (member,) = meta.voters
            return self._ballot.create(member, meta.group)
        leads_alone = len(latest_voters(meta.voters, entries)) == 1
        if leads_alone and is_fresh:
            # No other voter was promised anything, and to lead it takes a term that is far ahead.
            return self._ballot.create(own, meta.group)
        found = f"{self.path} has a journal, and its ballot {self.path}{SUFFIX} is missing:"
        if leads_alone:
            raise BackendFailure(
                f"{found} put it back. If it is lost, fresh=True leads with what the file has, and"
                " nothing tells whether that is all. The file of a copy is moved away: the copy"
                " takes all from its leader"
            )
        raise BackendFailure(
            f"{found} move the file away, and start the replica anew: it takes all from its group"
        )

    def _begin(self, meta: Meta, entries: Sequence[Entry], ballot: LoadedBallot) -> Beginning:
        """Give what both files have."""
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
            dismissed=meta.dismissed,
        )
        promises = renamed(stored)
        if promises is not None:  # A crash came between the journal and the ballot.
            self._ballot.save(promises)
            stored = replace(stored, promises=promises)
        return Beginning(stored, group, meta.reached)

    def _take_name(self, beginning: Beginning, own_name: str, *, is_founder: bool) -> Beginning:
        """Have the member be called as its endpoint is; raises ``BackendFailure``.

        Of copies of one file that are given to all voters the founder's alone is taken: two that
        led would be two histories of one group.
        """
        stored = beginning.stored
        name = stored.promises.member.name
        if name == own_name:
            return beginning
        found = f"{self.path} is the replica of {name}, and this endpoint is {own_name}:"
        if not is_alone(stored):
            raise BackendFailure(f"{found} give each its own file")
        if not is_founder:
            raise BackendFailure(
                f"{found} give it to the first of the voters, or to the one with found=True, which"
                f" takes it over as {name} is its only voter; each of the others has its own file"
            )
        change = renaming(stored, own_name)
        self._ballot.save(change.before)
        self.persist(change.write, None, -1)
        self._ballot.save(change.after)
        self._term = change.after.term
        entries = (*stored.entries, *change.write.entries)
        return replace(beginning, stored=replace(stored, promises=change.after, entries=entries))

    def _agree(self, here: bytes | None, ballot: LoadedBallot) -> bytes | None:
        """Have both files be of one group, as a crash in between leaves one of them behind."""
        there = ballot.group
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
            case Persist() as write:
                begin = begin_of(stretch_of(self._term))
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

    def write_mark(self, write: WriteMark) -> None:
        """Write a mark, without a wait for the disk."""
        self._ballot.write_mark(write.slot, write.number, write.mark)

    def close(self) -> None:
        """Let go of files and locks."""
        try:
            self._ballot.close()
        finally:
            self._rows.close()


def _is_left_over(ballot: LoadedBallot) -> bool:
    """Tell whether promises are of a file that was to be filled, and never became one of a group.

    They are to a group, and the file is of none: in another one they would end leads for nothing.
    """
    return ballot.group is None and ballot.promises != new_promises(ballot.promises.member)


def _is_upgraded(meta: Meta, entries: Sequence[Entry], name: str) -> bool:
    """Tell whether a file of an earlier format has become a group of one, and no more happened.

    A crash may come before there is a ballot. Such a group has not led yet: it has no entries.
    """
    is_untouched = not entries and meta.floor == meta.applied and not meta.machine
    return is_untouched and [voter.name for voter in meta.voters] == [name]
