"""Clients of the broker that give and take each message exactly once.

Both connect again by themselves. What must outlive the process is their caller's, since the caller
alone can keep it together with its own data: a publisher's ids, and the last number that a consumer
has dealt with in each topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from handshake.credentials import Credentials
from net.network import Network
from peermesh.brokers.qos2.access import DENIED
from peermesh.brokers.qos2.commands import check_name
from peermesh.brokers.qos2.errors import (
    BrokerUnavailable,
    Denied,
    DialogueError,
    Refused,
    TakenOver,
)
from peermesh.brokers.qos2.limits import (
    CONSUMER_PORT,
    ID_MAX,
    MESSAGE_SIZE_MAX,
    PUBLISHER_PORT,
    QUOTA_EXCEEDED,
    RECEIVE_SIZE,
    STAKES,
    TOPIC_DELETED,
    TOPICS_OF_MESSAGE_MAX,
    UNFINISHED,
)
from peermesh.brokers.qos2.lines import LineDecoder
from peermesh.brokers.qos2.receiver import (
    Deal,
    Declined,
    Incoming,
    Receiver,
    ReceiverStep,
    Released,
)
from peermesh.brokers.qos2.sender import Completed, Outgoing, Rejected, Sender, SenderStep
from peermesh.brokers.qos2.steps import Close, Send
from wire.errors import InvalidData, PeerNotTrusted, PeerUnavailable
from wire.logs import logger_of

logger = logger_of(__name__)

RETRY_SECONDS: Final = 0.2
"""The pause before a broker that does not answer is tried again; doubled up to the next one."""

RETRY_SECONDS_MAX: Final = 5.0
"""The longest pause."""

TEMPORARY: Final = (
    "UNAVAILABLE", "TOO MANY CONNECTIONS", "SILENT", UNFINISHED, QUOTA_EXCEEDED, TOPIC_DELETED
)  # fmt: skip
"""How refusals begin that another try may change."""


_LOSSES: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    PeerNotTrusted,
    PeerUnavailable,
)


class _ConnectionLost(Exception):
    """Whatever it was: connect again."""


@contextmanager
def _losing() -> Iterator[None]:
    """Turn what can happen to a connection into one error."""
    try:
        yield
    except (*_LOSSES, DialogueError) as error:
        raise _ConnectionLost(str(error)) from error


@contextmanager
def _within(limit: float) -> Iterator[None]:
    """Raise ``BrokerUnavailable`` if the block takes longer than this many seconds."""
    with trio.move_on_after(limit) as scope:
        yield
    if scope.cancelled_caught:
        raise BrokerUnavailable(f"no answer within {limit:g} s: ask again")


class _Line:
    """A connection to the broker."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.is_whole = True
        """False when a send was cancelled: who knows how much of it has gone."""
        self._decoder = LineDecoder()

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        self.is_whole = False
        await self.stream.send_all(data)
        self.is_whole = True

    async def take(self, size: int | None) -> bytes:
        """Wait for a line, or a body."""
        while (data := self._decoder.take(size)) is None:
            received = await self.stream.receive_some(RECEIVE_SIZE)
            if not received:
                raise _ConnectionLost("the broker ended the connection")
            self._decoder.feed(bytes(received))
        return data


class _Client(trio.abc.AsyncResource):
    """What both have in common: a connection that is made when it is needed."""

    def __init__(
        self, host: str, port: int, credentials: Credentials | None, *, allow_plain: bool
    ) -> None:
        host = arguments.host("host", host)
        self._address = (host, arguments.port("port", port))
        self._network = Network(
            credentials,
            allow_plain=allow_plain,
            stakes=STAKES,
        )
        self._network.check(host)
        self._line: _Line | None = None
        self._pause = RETRY_SECONDS

    async def _connect(self) -> _Line:
        with _losing():
            return _Line(await self._network.open(*self._address))

    async def _rest(self, why: _ConnectionLost) -> None:
        """Drop the connection, and wait before the next attempt."""
        await self.aclose()
        logger.info("connecting to %s:%s again: %s", *self._address, why)
        await trio.sleep(self._pause)
        self._pause = min(2 * self._pause, RETRY_SECONDS_MAX)

    async def aclose(self) -> None:
        """Let go of the connection; what has no answer yet is unknown."""
        if self._line is not None:
            line, self._line = self._line, None
            await trio.aclose_forcefully(line.stream)


class Publisher(_Client):
    """Publishes under a name: a message with an id that was stored already is not stored again."""

    def __init__(
        self,
        name: str,
        port: int = PUBLISHER_PORT,
        host: str = "127.0.0.1",
        *,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Connect when it is needed; raises ``InsecureAddress``."""
        super().__init__(host, port, credentials, allow_plain=allow_plain)
        self._name = check_name(arguments.text("name", name))
        self._sender: Sender | None = None
        self._busy = trio.Lock()

    async def publish(
        self,
        message_id: int,
        topics: str | Iterable[str],
        payload: bytes,
        timeout: Seconds = None,
    ) -> None:
        """Return once the message is durable on all its topics; try until it is.

        Ids only grow. After a restart, repeat the message of which you do not know. Raises
        ``Refused`` for what the broker will never take, ``Denied`` where a right is missing, and
        ``BrokerUnavailable`` after ``timeout`` seconds: then publish it again, with its id.
        """
        limit = arguments.seconds("timeout", timeout)
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise TypeError(f"payload={payload!r:.80} is {type(payload).__name__}: give bytes")
        arguments.count("message_id", message_id, least=0, most=2 * ID_MAX)
        message = Outgoing(message_id, _names("topics", topics), bytes(payload))
        _check(message)
        with _within(limit):
            async with self._busy:
                await self._publish_surely(message)

    async def _publish_surely(self, message: Outgoing) -> None:
        while True:
            try:
                with _losing():
                    await self._publish(message)
            except _ConnectionLost as error:
                await self._rest(error)
            else:
                self._pause = RETRY_SECONDS
                return

    async def _publish(self, message: Outgoing) -> None:
        if self._line is None or self._sender is None or not self._sender.is_idle:
            await self.aclose()
            self._line = await self._connect()
            self._sender = Sender(self._name)
            await self._carry_out(self._line, self._sender.start())
        line, sender = self._line, self._sender
        while not sender.is_idle:
            await self._carry_out(line, sender.receive(await line.take(None)))
        steps = sender.publish(message)
        while not await self._carry_out(line, steps):
            steps = sender.receive(await line.take(None))

    async def _carry_out(self, line: _Line, steps: list[SenderStep]) -> bool:
        """Do what the sender says; tell whether the message is durable."""
        for step in steps:
            match step:
                case Send(data):
                    await line.send(data)
                case Completed():
                    return True
                case Rejected(_, reason):
                    await self.aclose()
                    raise _ConnectionLost(reason) if _is_temporary(reason) else _refusal(reason)
                case Close():
                    raise _ConnectionLost
        return False


def _names(name: str, topics: str | Iterable[str]) -> tuple[str, ...]:
    """Check one topic, or several."""
    if isinstance(topics, str):
        return (check_name(topics),)
    if not isinstance(topics, Iterable) or isinstance(topics, (bytes, bytearray)):
        raise TypeError(f"{name}={topics!r:.80} is {type(topics).__name__}: give a topic, or some")
    texts = [arguments.text(name, each) for each in topics]
    return tuple(map(check_name, dict.fromkeys(texts)))


def _check(message: Outgoing) -> None:
    if not 0 < message.id <= ID_MAX:
        raise InvalidData(f"{message.id} is no id: ids are numbers from 1 to {ID_MAX}")
    if not 0 < len(message.topics) <= TOPICS_OF_MESSAGE_MAX:
        raise InvalidData(f"a message has 1 to {TOPICS_OF_MESSAGE_MAX} topics")
    if len(message.payload) > MESSAGE_SIZE_MAX:
        raise InvalidData(f"a payload has {MESSAGE_SIZE_MAX} bytes at most")


def _refusal(reason: str) -> Refused:
    return (Denied if reason.startswith(DENIED) else Refused)(reason)


def _is_temporary(reason: str) -> bool:
    return reason.startswith(TEMPORARY)


class Consumer(_Client):
    """Takes the messages of topics under a name, one after the other, each once.

    ``handled`` is the last number that was dealt with in each topic, as far as the caller keeps
    it. Without it a message may come twice, when the process died between dealing with it and
    ``done``.
    """

    def __init__(  # noqa: PLR0913 - five of them can be left out
        self,
        name: str,
        topics: str | Iterable[str],
        port: int = CONSUMER_PORT,
        host: str = "127.0.0.1",
        *,
        handled: Mapping[str, int] | None = None,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Connect when it is needed; raises ``InsecureAddress``."""
        super().__init__(host, port, credentials, allow_plain=allow_plain)
        self._name = check_name(arguments.text("name", name))
        self._topics = _names("topics", topics)
        check = partial(arguments.count, "handled", least=0, most=ID_MAX)
        marks = dict(handled or {}).items()
        self._handled = {arguments.text("handled", each): check(mark) for each, mark in marks}
        self._receiver: Receiver | None = None
        self._message: Incoming | None = None

    async def get(self, timeout: Seconds = None) -> Incoming:
        """Wait for the next message; call ``done`` or ``refuse`` for it before the next.

        Asked again before that, gives the same. Raises ``Refused``, ``Denied`` where a right is
        missing or was withdrawn, ``TakenOver`` when another consumer logged in under this name, and
        ``BrokerUnavailable`` if none came within ``timeout`` seconds.
        """
        with _within(arguments.seconds("timeout", timeout)):
            while self._message is None:
                try:
                    with _losing():
                        await self._read_on()
                except _ConnectionLost as error:
                    await self._rest(error)
        self._pause = RETRY_SECONDS
        return self._message

    async def _read_on(self) -> None:
        if self._line is not None and not self._line.is_whole:
            await self.aclose()
        if self._line is None:
            self._line = await self._connect()
            self._receiver = Receiver(self._name, self._topics, self._handled)
            await self._carry_out(self._receiver.start())
        assert self._receiver is not None
        data = await self._line.take(self._receiver.body_size)
        await self._carry_out(self._receiver.receive(data))

    async def done(self, timeout: Seconds = None) -> None:
        """Tell that the message is dealt with; return when it will not come again.

        When the connection is lost meanwhile it may, and is told from a new one by its number. So
        it is after ``BrokerUnavailable``, which is raised after ``timeout`` seconds.
        """
        limit = arguments.seconds("timeout", timeout)
        message, self._message = self._take(), None
        self._handled[message.topic] = message.number
        if self._receiver is None:
            return
        try:
            with _losing(), _within(limit):
                steps = self._receiver.handled()
                while not await self._carry_out(steps) and self._line is not None:
                    steps = self._receiver.receive(await self._line.take(None))
        except _ConnectionLost:
            await self.aclose()

    async def refuse(self, reason: str, *, is_final: bool = False) -> None:
        """Have it sent again after a while; in the end, or at once, it is a dead letter."""
        arguments.text("reason", reason)
        self._take()
        self._message = None
        if self._receiver is None:
            return
        try:
            with _losing():
                await self._carry_out(self._receiver.failed(reason, is_final=is_final))
        except _ConnectionLost:
            await self.aclose()

    def _take(self) -> Incoming:
        if self._message is None:
            raise InvalidData("there is no message in hand: get() one first")
        return self._message

    async def _carry_out(self, steps: list[ReceiverStep]) -> bool:
        """Do what the receiver says; tell whether the message in hand is released."""
        is_released = False
        for step in steps:
            match step:
                case Send(data) if self._line is not None:
                    await self._line.send(data)
                case Deal(message):
                    self._message = message
                case Released():
                    is_released = True
                case Declined(reason):
                    await self.aclose()
                    if _is_temporary(reason):
                        raise _ConnectionLost(reason)
                    raise TakenOver(reason) if reason == "TAKEN OVER" else _refusal(reason)
                case Close() | Send():
                    raise _ConnectionLost
        return is_released

    async def aclose(self) -> None:
        """Let go of the connection; the message in hand comes again."""
        self._receiver = None
        await super().aclose()
