"""What a master or clone answers to a proxy: a state that is no older than the proxy has seen."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from stores.commands import InternalCommand
from stores.effects import ToProxy
from stores.encoding import encode_command
from stores.questions import Copy, Question, ReadAnswerCommand, ReadRefusedCommand, find
from stores.work import SLICE_COUNT
from wire.identifiers import EntityId


class Replica(Copy, Protocol):
    """A master or a clone, as its readers see it."""

    entity: EntityId

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""


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
    return _reply(replica, command, epoch, find(replica, question, limit))


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
