"""Runs the handshakes of one endpoint's connections: carries out the machine's effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from endpoint.link.connection import Connection
from handshake.directory import ConnectionId, PeerDirectory
from handshake.effects import Effect, Established, Failed, Reconsider, Redundant, Send
from handshake.machine import HANDSHAKE_TIMEOUT_SECONDS, Handshake, KnowledgeSource
from net.acceptor import Arrival
from wire.codec import decode_control
from wire.errors import ErrorCode
from wire.framing import ControlFrame, Frame, encode_preamble
from wire.identifiers import EndpointId
from wire.limits import KIB, MIB
from wire.messages import (
    Announcement,
    DropConn,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Preamble,
    ResponderSynAck,
)

STRANGER_SIZE: Final = 64 * KIB
"""Bytes from a connection in handshake that are nothing to look at: the news of a small mesh."""

STRANGERS_SIZE_MAX: Final = 64 * MIB
"""Bytes from all connections in handshake: what sixteen say that know the largest mesh. Each alone
may send one frame of ``HANDSHAKE_FRAME_SIZE_MAX``, which would be gigabytes together."""

Verdict = Established | Redundant | Failed

_HANDSHAKE_MESSAGES = Hello | OriginatorSyn | ResponderSynAck | OriginatorAck | DropConn


class Greeting:
    """One connection in handshake, and what becomes of it."""

    def __init__(self, number: ConnectionId, connection: Connection, machine: Handshake) -> None:
        """Begin undecided."""
        self.number = number
        self.connection = connection
        self.machine = machine
        self.deadline = trio.current_time() + HANDSHAKE_TIMEOUT_SECONDS
        self.verdict: Verdict | None = None
        self.decided = trio.Event()
        self.arrival: Arrival | None = None
        """What has to know of a success; ``None`` for a connection that was opened here."""


class Greeter:
    """All handshakes of one endpoint. Its methods never wait: decision and effect are one step."""

    def __init__(
        self,
        directory: PeerDirectory,
        source: KnowledgeSource,
        establish: Callable[[Greeting, Established], None],
        fail: Callable[[Greeting, Failed], None],
        objection: Callable[[EndpointId, str | None, Sequence[Announcement]], str | None],
        frame_size_max: int,
    ) -> None:
        """Tell ``establish`` of connections that become peerings, and ``fail`` of the failed.

        ``objection`` says what there is against a peer whose certificate calls it so. Frames of up
        to ``frame_size_max`` bytes are taken here, which the other side is told.
        """
        self._frame_size_max = frame_size_max
        self.directory = directory
        self._source = source
        self._establish = establish
        self._fail = fail
        self._objection = objection
        self._greetings: dict[ConnectionId, Greeting] = {}
        self._count = 0
        self.changed = trio.lowlevel.ParkingLot()
        """Woken when a handshake is decided, for those who wait for another connection's."""

    def __len__(self) -> int:
        """Count the handshakes that are not decided."""
        return len(self._greetings)

    def begin(self, connection: Connection) -> Greeting:
        """Say the first words on a fresh connection."""
        self._count += 1
        number = ConnectionId(self._count)
        machine = Handshake(
            connection=number,
            dialled=connection.dialled,
            directory=self.directory,
            source=self._source,
            vet=partial(self._vet, connection.certificate_name),
            frame_size_max=self._frame_size_max,
        )
        greeting = self._greetings[number] = Greeting(number, connection, machine)
        self._apply(greeting, machine.start())
        return greeting

    def _vet(self, name: str | None, peer: EndpointId, news: Sequence[Announcement]) -> str | None:
        return self._objection(peer, name, news)

    def receive(self, greeting: Greeting, frame: Frame) -> None:
        """Take in one frame of a connection in handshake; raises ``DecodeError``."""
        if isinstance(frame, Preamble):
            self._apply(greeting, greeting.machine.receive(frame))
            return
        message = decode_control(frame.kind, frame.body) if type(frame) is ControlFrame else None
        if isinstance(message, _HANDSHAKE_MESSAGES):
            self._apply(greeting, greeting.machine.receive(message))
        else:
            code = ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE
            reason = f"{type(message or frame).__name__} came before the handshake was over"
            self.refuse(greeting, code, reason)

    def refuse(self, greeting: Greeting, code: ErrorCode, reason: str) -> None:
        """End a handshake, telling the other side why."""
        if not greeting.machine.is_over:
            self._apply(greeting, greeting.machine.refuse(code, reason))

    def weigh(self, connection: Connection) -> None:
        """See that what strangers have sent stays bounded: who has sent most makes room."""
        if connection.bytes_received < STRANGER_SIZE:
            return
        sizes = {each: each.connection.bytes_received for each in self._greetings.values()}
        if sum(sizes.values()) > STRANGERS_SIZE_MAX:
            reason = "strangers have sent too much: try again"
            self.refuse(max(sizes, key=sizes.__getitem__), ErrorCode.LIMIT_EXCEEDED, reason)

    def end(self, reason: str) -> None:
        """End all handshakes."""
        for greeting in list(self._greetings.values()):
            self.refuse(greeting, ErrorCode.SHUTTING_DOWN, reason)

    def lost(self, greeting: Greeting) -> None:
        """The connection ended; whether in handshake or not."""
        if not greeting.machine.is_over:
            refusal = greeting.connection.refusal
            self._apply(greeting, greeting.machine.connection_lost(refusal))

    def tick(self, now: float) -> None:
        """End the handshakes that have taken too long."""
        for greeting in list(self._greetings.values()):
            if now >= greeting.deadline and not greeting.machine.is_over:
                self._apply(greeting, greeting.machine.timed_out())

    def _apply(self, greeting: Greeting, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self._send(greeting.connection, message)
                case Reconsider(number):
                    other = self._greetings.get(number)
                    if other is not None:
                        self._apply(other, other.machine.reconsider())
                case Established():
                    self._decide(greeting, effect)
                    self._establish(greeting, effect)
                case Redundant():
                    self._decide(greeting, effect)
                    greeting.connection.end()
                case Failed():
                    self._decide(greeting, effect)
                    greeting.connection.end()
                    self._fail(greeting, effect)

    @staticmethod
    def _send(connection: Connection, message: Preamble | _HANDSHAKE_MESSAGES) -> None:
        if isinstance(message, Preamble):
            connection.send_first(encode_preamble(message))
        else:
            connection.say(message)

    def _decide(self, greeting: Greeting, verdict: Verdict) -> None:
        del self._greetings[greeting.number]
        greeting.verdict = verdict
        greeting.decided.set()
        self.changed.unpark_all()
