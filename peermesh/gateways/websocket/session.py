"""The dialogue on one WebSocket: topics and their acknowledgement first, then messages both ways.

Broker's protocol ``/v1/messages/json``, of either side. What is wrong with an input is told in one
error message, after which the dialogue goes on, unless too many come in a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, NoReturn

from peermesh.gateways.websocket.limits import ERRORS_MAX, PREFIXES_MAX
from peermesh.gateways.websocket.mapping import NoValue, read, text
from wire.encoding import encode
from wire.errors import MeshError, NotAllowed
from wire.escaping import escape
from wire.scalars import shorten
from wire.shape import check_shape
from wire.topics import check_topic

PATH: Final = "/v1/messages/json"
"""Where Broker serves its messages."""

VERSION: Final = "2.7.0"
"""The version of Broker whose dialogue this is; clients show it."""

MALFORMED: Final = "deserialization_failed"
"""The code of an error message: an input cannot be read. Broker has this one; the others are told
where Broker says nothing."""

REFUSED: Final = "not_allowed"
"""The code of an error message: a topic is not for this client."""

DROPPED: Final = "messages_dropped"
"""The code of an error message: messages did not wait for a client that reads too slowly."""

CONTEXT_SIZE_MAX: Final = 400
"""Characters of what an error message says: some of them quote the input."""


class Incoming(NamedTuple):
    """A message that came, to be published."""

    topic: str
    payload: bytes
    """The encoded value."""


class Told(NamedTuple):
    """An error message of the other side."""

    code: str
    context: str


class Refused(Exception):
    """An input that is not done; its text is the error message to send."""


def message(topic: str, members: str) -> str:
    """Write a message, given the members of its value's object."""
    return f'{{"type": "data-message", "topic": {text(topic)}, {members}}}'


def error_message(code: str, context: str) -> str:
    """Write an error message."""
    shown = text(escape(context)[:CONTEXT_SIZE_MAX])
    return f'{{"type": "error", "code": "{code}", "context": {shown}}}'


def dropped_message(count: int) -> str:
    """Tell a client that so many messages did not wait for it."""
    return error_message(DROPPED, f"{count} messages were dropped: read faster, or want less")


def subscription(topics: Iterable[str]) -> str:
    """Write the first frame of the dialling side: the prefixes of the topics that it wants."""
    return f"[{', '.join(map(text, topics))}]"


def acknowledgement(endpoint: str) -> str:
    """Write the first frame of the serving side."""
    return f'{{"type": "ack", "endpoint": {text(endpoint)}, "version": "{VERSION}"}}'


class Session:
    """One dialogue, of the serving or the dialling side."""

    def __init__(
        self, depth_max: int, entries_max: int, permit: Callable[[str], object] = str
    ) -> None:
        """Take values that are no deeper, and hold no more values, than that.

        ``permit`` is given each topic of a message, and raises ``NotAllowed``.
        """
        self._shape = depth_max, entries_max
        self._permit = permit
        self._inputs = 0
        self._errors = 0

    @property
    def is_over(self) -> bool:
        """Tell whether so many inputs in a row were refused that the connection has to end."""
        return self._errors >= ERRORS_MAX

    def open(self, frame: str | bytes) -> tuple[str, ...]:
        """Read the first frame of the dialling side: an array of prefixes. Raises ``Refused``."""
        try:
            topics = _parse(frame)
            if not isinstance(topics, list) or len(topics) > PREFIXES_MAX:
                raise NoValue(f"send an array of {PREFIXES_MAX} topics at most")
            return tuple(map(check_topic, topics))
        except (ValueError, RecursionError) as error:
            context = f"the first frame names no topics -> {_reason(error)}"
            raise Refused(error_message(MALFORMED, context)) from None

    def acknowledged(self, frame: str | bytes) -> str:
        """Read the first frame of the serving side: its endpoint's id. Raises ``ValueError``."""
        try:
            found = _parse(frame)
        except RecursionError as error:
            raise NoValue(_reason(error)) from None
        if not isinstance(found, dict) or found.get("type") != "ack":
            raise NoValue(f"{shorten(found, 200)} acknowledges nothing")
        return str(found.get("endpoint"))

    def receive(self, frame: str | bytes, *, may_tell: bool = False) -> Incoming | Told:
        """Read a frame after the first one. Raises ``Refused``.

        The serving side ``may_tell`` errors, the dialling side only has messages.
        """
        self._inputs += 1
        try:
            found = _parse(frame)
        except (ValueError, RecursionError) as error:
            self._refuse(MALFORMED, "malformed JSON", error)
        try:
            taken = self._take(found, str(frame), may_tell=may_tell)
        except NotAllowed as error:
            self._refuse(REFUSED, "a topic that is not allowed", error)
        except (ValueError, MeshError, RecursionError) as error:
            self._refuse(MALFORMED, "invalid data", error)
        self._errors = 0
        return taken

    def _take(self, found: object, frame: str, *, may_tell: bool) -> Incoming | Told:
        if not isinstance(found, dict):
            raise NoValue(f"{shorten(found)} is no message")
        kind = found.get("type", "data-message")
        if kind == "error" and may_tell:
            return Told(str(found.get("code")), str(found.get("context")))
        if kind != "data-message":
            raise NoValue(f"{shorten(kind)} is no type of a message here: send data-message")
        topic = check_topic(found.get("topic"))
        self._permit(topic)
        payload = encode(read(found))
        depth_max, entries_max = self._shape
        # Each value takes a byte at least; each bracket is two levels at most, and so is a scalar.
        if len(payload) > entries_max or 2 * frame.count("[") + 2 > depth_max:
            check_shape(payload, depth_max, entries_max)
        return Incoming(topic, payload)

    def _refuse(self, code: str, what: str, error: Exception) -> NoReturn:
        self._errors += 1
        context = f"input #{self._inputs} contained {what} -> {_reason(error)}"
        raise Refused(error_message(code, context)) from None


def _reason(error: Exception) -> str:
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)


def _parse(frame: str | bytes) -> object:
    """Read JSON; raises ``ValueError`` and ``RecursionError``."""
    if not isinstance(frame, str):
        raise NoValue("it is binary: send text")
    found: object = _DECODER.decode(frame)
    return found


def _refuse_constant(constant: str) -> NoReturn:
    raise NoValue(f"{constant} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
