"""What a replica has for its disk: one write at a time, in order, with rows that follow lazily.

A replica in memory has no disk: its writes are done once the other effects of the step are. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from stores.group.effects import Persist, SavePromises, StageParts, SyncMarks
from stores.group.member import Member
from stores.replica.effects import Begin, Rows, ToDisk

Write = Persist | StageParts | SavePromises | SyncMarks | Begin


class Keeper(Protocol):
    """Follows the changes of a machine, for its file."""

    @property
    def is_behind(self) -> bool:
        """True if so much has changed that rows go before the journal's next entries."""

    def take(self, durable: int) -> Rows | None:
        """Give the next rows, to be written after those before them.

        There are none while the machine is ahead of what is ``durable`` when they are written.
        """

    def tick(self, member: Member, floor: int) -> None:
        """Start a checkpoint, if one is due; the journal may begin at ``floor`` with it."""

    def restart(self, applied: int) -> None:
        """Forget all: a snapshot was installed, and all of it goes to the file at once."""


class WriteQueue:
    """The writes of one replica."""

    def __init__(self) -> None:
        """Have nothing to write."""
        self._under_way: deque[ToDisk] = deque()
        """The first one is at the disk, the others wait for it."""
        self._instant: deque[Write] = deque()
        self._token = 0

    @property
    def is_writing(self) -> bool:
        """True while the disk has something to do."""
        return bool(self._under_way)

    def put(self, write: Write, keeper: Keeper | None) -> ToDisk | None:
        """Queue a write, with rows of the ``keeper``; gives what goes to the disk now."""
        if keeper is None:
            self._instant.append(write)
            return None
        rows: Rows | None = None
        if isinstance(write, Persist) and write.snapshot is None:
            rows = keeper.take(write.keep + len(write.entries))
        return self._queue(write, rows)

    def put_rows(self, keeper: Keeper, durable: int) -> ToDisk | None:
        """Write rows alone, if some wait and the disk has nothing else to do.

        ``durable`` is the last entry on the disk.
        """
        rows = None if self._under_way else keeper.take(durable)
        return None if rows is None else self._queue(None, rows)

    def take_instant(self) -> Write | None:
        """Give the next write of a replica in memory: it is done."""
        return self._instant.popleft() if self._instant else None

    def written(self, token: int) -> Write | None:
        """Give the write that is on the disk now: what it brings about comes after it."""
        done = self._under_way[0]
        assert done.token == token, (token, done)
        return done.write

    def next(self, keeper: Keeper | None, durable: int) -> ToDisk | None:
        """Leave the written one behind, and give what goes to the disk now.

        Those are rows, if the disk has nothing else to do, or if too many of them wait.
        """
        self._under_way.popleft()
        if keeper is not None and (keeper.is_behind or not self._under_way):
            rows = keeper.take(durable)
            if rows is not None:
                self._under_way.appendleft(self._numbered(None, rows))
        return self._under_way[0] if self._under_way else None

    def _queue(self, write: Write | None, rows: Rows | None) -> ToDisk | None:
        self._under_way.append(self._numbered(write, rows))
        return self._under_way[0] if len(self._under_way) == 1 else None

    def _numbered(self, write: Write | None, rows: Rows | None) -> ToDisk:
        self._token += 1
        return ToDisk(self._token, write, rows)
