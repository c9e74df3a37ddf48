"""What a replica answers to a proxy: entries of one moment, no older than the proxy has seen."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Protocol

from stores.commands import (
    InternalCommand,
    LookUpCommand,
    Question,
    ReadAnswerCommand,
    ReadRefusedCommand,
    Row,
)
from stores.effects import ToProxy
from stores.encoding import encode_command
from stores.order import order_of
from stores.scanning import Page, Span
from stores.table import Entry, Table
from stores.work import SLICE_COUNT, Job
from wire.errors import DecodeError, InvalidData
from wire.identifiers import EntityId
from wire.limits import KIB

ANSWER_SIZE_MAX: Final = 256 * KIB
"""Bytes after which an answer to a proxy takes no more entries, like a chunk of a snapshot; one
always fits."""


class Replica(Protocol):
    """A master or a clone, as its readers see it."""

    entity: EntityId

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""

    def entry(self, key: bytes) -> Entry | None:
        """Give the value with its revision and expiry."""

    def scan(self, span: Span, limit: int) -> Page:
        """Give the first entries of a span in the order of keys."""


def answer(
    replica: Replica, epoch: int, command: InternalCommand, limit: int = SLICE_COUNT
) -> ToProxy:
    """Answer a question of a proxy with the state that this ``epoch``'s master made.

    A page has no more than ``limit`` entries.
    """
    question, revision = command.content, replica.revision
    assert isinstance(question, Question), command
    seen = (command.epoch, command.sequence)
    if (epoch, revision) < seen or revision < question.revision_min:
        return refuse(replica, command, f"it is at revision {revision}", is_stale=False)
    if isinstance(question, LookUpCommand):
        found = _look_up(replica, question)
    else:
        found = _scan(replica, question, limit)
    return _reply(replica, command, epoch, found)


def in_steps(table: Table, reply: Callable[[int], None]) -> Job:
    """Put the keys in order, a slice at a time; then ``reply`` with what is left of a slice."""
    count = SLICE_COUNT // 2
    while (handled := table.catch_up(count)) == count:
        yield
    reply(SLICE_COUNT - handled)


def refuse(replica: Replica, command: InternalCommand, reason: str, *, is_stale: bool) -> ToProxy:
    """Send a proxy to another replica."""
    assert isinstance(command.content, Question), command
    refused = ReadRefusedCommand(command.content.number, is_stale, reason)
    return _reply(replica, command, 0, refused)


def refuse_busy(replica: Replica, command: InternalCommand) -> ToProxy:
    """Send a proxy to another replica: too many questions of its endpoint wait here."""
    return refuse(replica, command, "it is busy with earlier questions", is_stale=False)


def name_of(command: InternalCommand) -> Hashable:
    """Name a question: it is asked again under the same name."""
    assert isinstance(command.content, Question), command
    return command.sender, command.content.number


def _reply(
    replica: Replica,
    command: InternalCommand,
    epoch: int,
    content: ReadAnswerCommand | ReadRefusedCommand,
) -> ToProxy:
    reply = InternalCommand(replica.revision, replica.entity, None, epoch, content)
    return ToProxy(command.sender.endpoint, encode_command(reply))


def _look_up(replica: Replica, question: LookUpCommand) -> ReadAnswerCommand:
    entry = replica.entry(question.key)
    rows = () if entry is None else (_row(question.key, entry, has_value=question.has_value),)
    return ReadAnswerCommand(question.number, rows, None)


def _scan(replica: Replica, question: Question, limit: int) -> ReadAnswerCommand:
    assert not isinstance(question, LookUpCommand), question
    try:
        page = replica.scan(Span(question.start, question.stop), min(question.limit, limit))
    except InvalidData as error:
        raise DecodeError(f"a proxy asks for what there is not: {error}") from None
    rows: list[Row] = []
    size = 0
    for key, entry in page.entries:
        row = _row(key, entry, has_value=question.has_values)
        size += len(key) + len(row[1] or b"")
        if rows and size > ANSWER_SIZE_MAX:
            return ReadAnswerCommand(question.number, tuple(rows), order_of(key))
        rows.append(row)
    return ReadAnswerCommand(question.number, tuple(rows), page.continuation)


def _row(key: bytes, entry: Entry, *, has_value: bool) -> Row:
    return key, entry.value if has_value else None, entry.revision, entry.expires_at_ns
