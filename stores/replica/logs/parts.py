"""Sends the parts of a log's snapshots: what is in a file alone is read before it leaves. Pure."""

from __future__ import annotations

from functools import partial
from typing import Final

from stores.group.member import Member
from stores.group.messages import SnapshotPart
from stores.group.positions import MemberId
from stores.group.snapshots import WINDOW_PARTS
from stores.log.kept_runs import KeptRun
from stores.log.parts import HeadPart, PlacedPart, RunsPart
from stores.replica.logs.reading import RunReader
from stores.replica.standing import Standing

_Key = tuple[MemberId, int, int]
"""To whom, in which session, and the part's number."""

READING_MAX: Final = 8 * WINDOW_PARTS
"""Parts that are read at a time, 16 MiB in all: enough for eight members. What there is no room for
is asked for again, as parts are that get lost."""


class PartSender:
    """Fills the parts that leave, each once however often it is asked for meanwhile."""

    def __init__(self, standing: Standing, reader: RunReader) -> None:
        """Send for a replica what its ``reader`` reads."""
        self._standing = standing
        self._reader = reader
        self._reading: set[_Key] = set()

    def send(self, to: MemberId, message: SnapshotPart, part: PlacedPart) -> None:
        """Send a part once its entries are here."""
        key = to, message.session, message.number
        if key not in self._reading and len(self._reading) < READING_MAX:
            self._reading.add(key)
            self._reader.read(part.runs, partial(self._was_read, to, message, len(part.runs)))

    def _was_read(
        self, to: MemberId, message: SnapshotPart, count: int, runs: list[KeptRun]
    ) -> None:
        self._reading.discard((to, message.session, message.number))
        member = self._standing.member
        if member is None or member.leading is None or member.ballot.term != message.term:
            return
        if len(runs) < count:
            member.leading.feeding.give_up(to, message.session)
        else:
            part = RunsPart(tuple(runs))
            self._standing.send(
                to, SnapshotPart(message.term, message.session, message.number, part)
            )


def kept_starts(member: Member, starts: tuple[int, ...]) -> tuple[int, ...]:
    """Give where partitions begin in the file: what is being sent to others is kept for that."""
    sendings = [] if member.leading is None else member.leading.feeding.sendings()
    for sending in sendings:
        head = sending.snapshot.parts[0]
        if sending.is_in_time and isinstance(head, HeadPart) and head.spans:
            spans = zip(starts, head.spans, strict=True)
            starts = tuple(min(start, span.start) for start, span in spans)
    return starts
