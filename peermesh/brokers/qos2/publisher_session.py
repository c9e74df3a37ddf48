"""The broker's side of one publisher's connection (seed: Publisher Server).

``PUBREC`` says that the whole message has come, ``PUBCOMP`` that it is durable on every topic. What
is between may be lost with the connection; then the publisher repeats it, and with a name and ids
the repetition is recognised.

A publisher is known once it has logged in, or a message of its own is durable. Until then its first
mistake ends the connection; afterwards a person may mistype.
"""

from __future__ import annotations

from enum import Enum

from peermesh.brokers.qos2.commands import (
    LENGTHS,
    STUFFED,
    Begin,
    Login,
    PublisherCommand,
    PubRel,
    parse_publisher_line,
)
from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.foreign import is_http_request
from peermesh.brokers.qos2.limits import MESSAGE_SIZE_MAX, MISTAKES_MAX, Pace
from peermesh.brokers.qos2.lines import is_end, unstuff
from peermesh.brokers.qos2.steps import (
    HTTP_REFUSED,
    STRANGER_REFUSED,
    Close,
    Send,
    Steps,
    Store,
    Wait,
)


class Phase(Enum):
    """What comes next."""

    IDLE = "a command"
    BODY = "a line of a body"
    BYTES = "a body of known size"
    RECEIVED = "PUBREL"
    STORING = "the disk"


class PublisherSession:
    """Lines in, steps out. One message at a time."""

    def __init__(self, pace: Pace) -> None:
        """Begin before the first line."""
        self._pace = pace
        self._login: Login | None = None
        self._phase = Phase.IDLE
        self._begin: Begin | None = None
        self._body = bytearray()
        self._is_whole = False
        self._is_known = False
        self._mistakes = 0

    @property
    def is_busy(self) -> bool:
        """Whether lines have to wait until something is durable."""
        return self._phase is Phase.STORING

    @property
    def body_size(self) -> int | None:
        """How many bytes are wanted next; ``None`` for a line."""
        if self._phase is not Phase.BYTES:
            return None
        assert self._begin is not None
        assert self._begin.length is not None
        return self._begin.length + 1  # and its line feed

    @property
    def held_size(self) -> int:
        """How many bytes of an unfinished message are kept."""
        return len(self._body)

    def abandon(self) -> None:
        """Free the memory of an unfinished message: the connection is being cut."""
        self._body = bytearray()

    def start(self) -> Steps:
        """Begin to wait for a line."""
        return [Wait(self._pace.silence_seconds)]

    def receive(self, data: bytes) -> Steps:
        """Take in a line, or the bytes of a body."""
        assert not self.is_busy
        try:
            steps = self._receive(data)
        except DialogueError as error:
            return self._mistaken(str(error))
        return [*steps, Wait(None if self.is_busy else self._pace.silence_seconds)]

    def _receive(self, data: bytes) -> Steps:
        match self._phase:
            case Phase.BODY:
                return self._on_body_line(data)
            case Phase.BYTES:
                return self._on_bytes(data)
            case _:
                return self._on_line(data)

    def _on_line(self, data: bytes) -> Steps:
        if not data.strip():
            return []  # The transcript has empty lines between its parts.
        if is_http_request(data):
            self._drop()
            return [*HTTP_REFUSED]
        command = parse_publisher_line(data, has_ids=self._login is not None)
        if self._phase is Phase.RECEIVED:
            return self._on_release(command)
        return self._on_command(command)

    def _on_command(self, command: PublisherCommand) -> Steps:
        match command:
            case Begin():
                return self._on_begin(command)
            case Login():
                if self._login is not None:
                    raise DialogueError("LOGGED IN ALREADY")
                self._login = command
                self._is_known = True
                self._mistakes = 0
                return [Send(f"OK {' '.join(command.options)}\n".encode())]
            case PubRel():
                raise DialogueError("NO MESSAGE")

    def _on_begin(self, begin: Begin) -> Steps:
        options = () if self._login is None else self._login.options
        if (begin.length is not None) and LENGTHS not in options:
            raise DialogueError("LOGIN WITH lengths FIRST")
        self._begin = begin
        self._body = bytearray()
        self._is_whole = False
        self._phase = Phase.BODY if begin.length is None else Phase.BYTES
        return []

    def _on_body_line(self, line: bytes) -> Steps:
        if is_end(line):
            return self._complete()
        if self._login is not None and STUFFED in self._login.options:
            line = unstuff(line)
        # Behind as many bytes as BEGIN said, END is all that may come.
        if self._is_whole or len(self._body) + len(line) > MESSAGE_SIZE_MAX:
            self._drop()
            return [*self._wrong("MESSAGE TOO LARGE"), Close("a message was too large")]
        self._body += line
        return []

    def _on_bytes(self, data: bytes) -> Steps:
        if not data.endswith(b"\n"):
            self._drop()
            return [*self._wrong("length DIFFERS"), Close("the length of a body was wrong")]
        assert self._begin is not None
        self._begin = Begin(self._begin.topics, self._begin.id)
        self._body += memoryview(data)[:-1]
        self._is_whole = True
        self._phase = Phase.BODY
        return []

    def _complete(self) -> Steps:
        self._phase = Phase.RECEIVED
        return [Send(f"PUBREC{self._suffix}\n".encode())]

    def _on_release(self, command: PublisherCommand) -> Steps:
        begin = self._begin
        assert begin is not None
        wanted = None if begin.id is None else str(begin.id)
        if not isinstance(command, PubRel) or command.id != wanted:
            raise DialogueError(f"PUBREL{self._suffix} EXPECTED")
        self._phase = Phase.STORING
        payload = bytes(self._body)
        self._body = bytearray()
        name = None if self._login is None else self._login.name
        return [Store(name, begin.id, begin.topics, payload)]

    def stored(self) -> Steps:
        """Go on: the message is durable, now or since it was sent the first time."""
        assert self._phase is Phase.STORING
        answer = Send(f"PUBCOMP{self._suffix}\n".encode())
        self._drop()
        self._is_known = True
        self._mistakes = 0
        return [answer, Wait(self._pace.silence_seconds)]

    def refused(self, reason: str) -> Steps:
        """Go on: the message is not on all its topics."""
        assert self._phase is Phase.STORING
        return self._wrong(reason)

    def timer_elapsed(self) -> Steps:
        """Cut somebody who says nothing, or never ends his line."""
        return [*self._wrong("SILENT FOR TOO LONG"), Close("it was silent")]

    def _mistaken(self, reason: str) -> Steps:
        """Answer a mistake of the client's own."""
        steps = self._wrong(reason)
        return steps if self._is_known else [*steps, STRANGER_REFUSED]

    def _wrong(self, reason: str) -> Steps:
        """Drop the message, and say so. The seed's publishers are told nothing but ``ERROR``."""
        self._drop()
        self._mistakes += 1
        text = "ERROR\n" if self._login is None else f"ERROR {reason}\n"
        steps: Steps = [Send(text.encode()), Wait(self._pace.silence_seconds)]
        if self._mistakes >= MISTAKES_MAX:
            steps.append(Close("it made nothing but mistakes"))
        return steps

    def _drop(self) -> None:
        self._begin = None
        self._body = bytearray()
        self._phase = Phase.IDLE

    @property
    def _suffix(self) -> str:
        return "" if self._begin is None or self._begin.id is None else f" id={self._begin.id}"
