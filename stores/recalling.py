"""How a clone learns of mutations before its time, for a watch that goes on from back then.

A clone's own history begins with its snapshot. So it asks its master for what came between the two
revisions, piece by piece, each up to the size of a snapshot's chunk.
"""

from __future__ import annotations

from typing import Any, Final

from stores.actions import WRITER_ID_SIZE, WriterId
from stores.commands import HistoryAnswerCommand, HistoryRequestCommand
from stores.history import ChangeOf, Commit, History, KeyChange
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, VALUE_SIZE_MAX
from stores.table import Entry
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError
from wire.limits import VALUE_ENTRIES_MAX
from wire.values import Value

_CHANGE_SIZE: Final = 24
"""Bytes that a change takes besides key and value, at most."""

_ENTRIES_MAX: Final = VALUE_ENTRIES_MAX - 16
"""Values in the changes of a commit: what is around them counts, too."""

RETRY_TICKS: Final = 10
"""Ticks after which a piece is asked for again: a second, for a master that may be at work."""


def recalled(history: History, after: int, until: int) -> HistoryAnswerCommand:
    """Give the next piece of a history; an empty stretch if it does not reach back so far."""
    if after < history.floor:
        return HistoryAnswerCommand(after, after, b"")
    commits: list[Value] = []
    size, entry_count, reached = 0, 0, after
    for commit in history.commits(after, until):
        size += sum(map(_size_of, commit.changes))
        entry_count += len(commit.changes)
        if commits and (size > CHUNK_SIZE_MAX or entry_count > CHUNK_COUNT_MAX):
            return HistoryAnswerCommand(after, reached, encode(tuple(commits)))
        if size > VALUE_SIZE_MAX or sum(map(_count_of, commit.changes)) > _ENTRIES_MAX:
            break  # the removal of very many keys at once: it does not fit in a message
        commits.append(_packed(commit))
        reached = commit.revision
    else:
        reached = until
    return HistoryAnswerCommand(after, reached, encode(tuple(commits)))


class Recall:
    """What a clone has been told so far of the mutations before its history."""

    def __init__(self, after: int, until: int) -> None:
        """Want everything after the one revision, up to the other."""
        self.after = after
        self.until = until
        self.is_done = False
        self.is_known = True
        """False if the master does not know it any more."""
        self.commits: list[Commit] = []
        self._reached = after
        self._waiting_ticks = 0

    def request(self) -> HistoryRequestCommand:
        """Ask for the next piece."""
        self._waiting_ticks = 0
        return HistoryRequestCommand(self._reached, self.until)

    def receive(self, answer: HistoryAnswerCommand) -> bool:
        """Take a piece in; true if it is the one that was asked for. Raises ``DecodeError``."""
        if self.is_done or answer.after != self._reached or answer.until > self.until:
            return False
        if answer.until <= answer.after:
            self.is_done, self.is_known = True, False
            return True
        self.commits += _unpacked(answer)
        self._reached = answer.until
        self.is_done = self._reached == self.until
        return True

    def tick(self) -> bool:
        """Let one tick pass; true if it is time to ask again."""
        self._waiting_ticks += 1
        return not self.is_done and self._waiting_ticks >= RETRY_TICKS


def _size_of(change: KeyChange) -> int:
    value_size = 0 if change.entry is None else len(change.entry.value)
    return _CHANGE_SIZE + len(change.key) + value_size


def _count_of(change: KeyChange) -> int:
    return 3 if change.entry is None else 5  # with the vector around them


def _packed(commit: Commit) -> Value:
    changes = tuple(
        (change.kind.value, change.key)
        if change.entry is None
        else (change.kind.value, change.key, change.entry.value, change.entry.expires_at_ns)
        for change in commit.changes
    )
    writer = None if commit.writer is None else bytes(commit.writer)
    return commit.revision, writer, changes


def _unpacked(answer: HistoryAnswerCommand) -> list[Commit]:
    found: list[Commit] = []
    last = answer.after
    packed: Any = decode(answer.commits)
    try:
        for revision, writer, changes in packed:
            if not last < revision <= answer.until:
                raise ValueError("its revisions are not in order")
            last = revision
            by = None if writer is None else _writer(writer)
            shown = tuple(_change(revision, *change) for change in changes)
            found.append(Commit(revision, by, shown))
    except (TypeError, ValueError) as error:
        raise DecodeError(f"a piece of a history makes no sense: {error}") from None
    return found


def _writer(writer: object) -> WriterId:
    if not isinstance(writer, bytes) or len(writer) != WRITER_ID_SIZE:
        raise ValueError("it names no writer")
    return WriterId(writer)


def _change(
    revision: int, kind: str, key: object, value: object = None, expires_at_ns: object = None
) -> KeyChange:
    is_put = kind == ChangeOf.PUT.value
    if not isinstance(key, bytes) or is_put != isinstance(value, bytes):
        raise ValueError("a change has no key, or no value")
    if expires_at_ns is not None and not isinstance(expires_at_ns, int):
        raise ValueError("an expiry is a count of nanoseconds")
    entry = Entry(value, revision, expires_at_ns) if isinstance(value, bytes) else None
    return KeyChange(ChangeOf(kind), key, entry)
