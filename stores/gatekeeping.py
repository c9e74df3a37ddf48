"""What a log takes of whom: the rights of a sender against what a command asks for.

It stands before the cores, which know of no rights. Only senders whose rights are limited pass by
here: the commands of all others are decoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from handshake.roles import Rights
from stores import commands
from stores.commands import InternalCommand, NotAllowedCommand
from stores.effects import Effect, Unicast
from stores.encoding import decode_command, encode_command
from stores.epochs import term_of
from stores.log import messages
from stores.log.encoding import decode_message, decode_requests, encode_message, is_log_message
from stores.log.messages import Fetch, LogMessage, MoveCursor, StateQuery, TimeQuery
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId


@dataclass(frozen=True, slots=True)
class Post:
    """What is guarded."""

    entity: EntityId
    epoch: int
    """Of the keeper; of no meaning elsewhere."""
    is_master: bool
    """Whether it decides: the keeper of a log."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that is not taken."""

    text: str
    answer: tuple[Effect, ...] = ()
    """What its sender is told."""


_READING: Final = "read"
_WRITING: Final = "write"
_LEADING: Final = "lead"

_WRITERS_CONTROL: Final = (
    commands.AttachWriterCommand,
    commands.KeepaliveCommand,
    commands.RetransmitFailedCommand,
    commands.UnknownConsumerCommand,
    commands.DetachCommand,
)


@dataclass(frozen=True, slots=True)
class Guard:
    """One sender with limited rights, before one log: it may not lead, in any case."""

    store: str
    who: str
    """The sender, with its name and role, for the text of a refusal."""
    rights: Rights

    def examine(self, post: Post, payload: bytes) -> Refusal | None:
        """Say why a command is not taken; ``None`` if it is. Raises ``DecodeError``."""
        if is_log_message(payload):
            sender, message = decode_message(payload)
            return self._examine_message(post, sender, message)
        command = decode_command(payload)
        if not post.is_master or _is_fencing(post, command):
            return self._refuse(_LEADING)
        wanted = self._wanted(command)
        if wanted is None or getattr(self.rights, wanted):
            return None
        return self._refuse(wanted, *_answer(post, command, wanted, self._text(wanted)))

    def dismiss(self, post: Post, endpoint: EndpointId) -> tuple[Effect, ...]:
        """Give what the sender is told if it has a copy, and may not read any more."""
        return (Unicast(endpoint, _not_allowed(post, _READING, self._text(_READING))),)

    def _wanted(self, command: InternalCommand) -> str | None:
        """Name the right that a command to a keeper takes; ``None`` if it takes none."""
        content = command.content
        if isinstance(content, commands.Actions):
            is_reading = not self.rights.write and _are_cursors(content.payloads)
            return _READING if is_reading else _WRITING
        if isinstance(content, _WRITERS_CONTROL):
            return None  # without actions there is nothing that a channel could do
        return _READING

    def _examine_message(self, post: Post, sender: EntityId, message: LogMessage) -> Refusal | None:
        if not post.is_master or _is_deposing(post, message):
            return self._refuse(_LEADING)
        if isinstance(message, messages.Hello) or self.rights.read:
            return None
        text = self._text(_READING)
        if isinstance(message, Fetch | StateQuery | TimeQuery):
            failed = messages.QueryFailed(message.query, ErrorCode.NOT_AUTHORIZED, text)
            answer = encode_message(post.entity, failed)
        else:
            answer = _not_allowed(post, _READING, text)
        return self._refuse(_READING, Unicast(sender.endpoint, answer))

    def _refuse(self, wanted: str, *answer: Effect) -> Refusal:
        return Refusal(self._text(wanted), answer)

    def _text(self, wanted: str) -> str:
        return f"{self.who} may not {wanted} {self.store}"


def _is_fencing(post: Post, command: InternalCommand) -> bool:
    """Tell whether the command would depose its keeper: it speaks of one of a later term."""
    names_a_leader = isinstance(command.content, commands.NamesLeader)
    return names_a_leader and command.epoch is not None and _is_later(command.epoch, post.epoch)


def _is_deposing(post: Post, message: LogMessage) -> bool:
    """Tell whether the message of a log would depose its keeper, likewise."""
    if isinstance(message, messages.Hello):
        return _is_later(message.known_epoch, post.epoch)
    return isinstance(message, messages.Proclaim)


def _is_later(epoch: int, ours: int) -> bool:
    return term_of(epoch) > term_of(ours)


def _are_cursors(payloads: Sequence[bytes]) -> bool:
    """Tell whether a log's writer does nothing but move cursors, which is a part of reading."""
    runs = map(decode_requests, payloads)
    return all(isinstance(request, MoveCursor) for run in runs for request in run.requests)


def _answer(post: Post, command: InternalCommand, wanted: str, text: str) -> tuple[Effect, ...]:
    """Tell the sender."""
    payload = _not_allowed(post, wanted, text, command.session)
    return (Unicast(command.sender.endpoint, payload),)


def _not_allowed(post: Post, wanted: str, text: str, session: int | None = None) -> bytes:
    content = NotAllowedCommand(is_reading=wanted == _READING, text=text)
    return encode_command(InternalCommand(0, post.entity, session, post.epoch, content))
