"""The machine of one end of a connection: messages in, effects out (seed 7.2.1.1).

Two rules hold in this file. First, ``EXPECTED`` in ``handshake.states`` is the whole protocol: what
is not in it is refused, and a move that is not in it trips an assertion. Second, nothing here
chooses between connections: an originator asks the directory, which says now, later or never.

The machine does no I/O. Its driver does, for each connection::

    apply(handshake.start())
    until handshake.is_over:      apply(handshake.receive(message))
    on the end of the stream:     apply(handshake.connection_lost())
    on bytes that are no message: apply(handshake.refuse(error.code, str(error)))
    HANDSHAKE_TIMEOUT_SECONDS after start():  apply(handshake.timed_out())

``apply`` carries out all effects, those of other connections' ``reconsider()`` included, before
anything else happens: there is no ``await`` in it.

A call of ``peer()`` wants the peering, not this connection. ``Established`` is success. After
``Redundant``, and after a ``Failed`` with a peer, it asks ``PeerDirectory.standing(peer)``:
``PEERED`` is success too, ``DECIDING`` is worth waiting for, and ``FREE`` is a failure, to be tried
again with back-off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, assert_never

from handshake.directory import Claim, ConnectionId, PeerDirectory
from handshake.effects import Effect, Established, Failed, Reconsider, Redundant, Send
from handshake.states import EXPECTED, State
from wire.clocks import VectorTime
from wire.errors import ErrorCode, LocalProtocolError, MeshError
from wire.framing import VERSION_MAX, VERSION_MIN
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX
from wire.messages import (
    Announcement,
    DropConn,
    HandshakeMessage,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Preamble,
    ResponderSynAck,
)

HANDSHAKE_TIMEOUT_SECONDS: Final = 10.0
"""From the first byte to the last, waiting included: a hundred round trips around the world. Who
connects and stays silent holds a place no longer, and delays no other connection for longer."""

REASON_SIZE_MAX: Final = 300
"""Characters of a reason, as sent and as reported: a few sentences. A peer cannot flood our log."""

OUR_VERSIONS: Final = Preamble(VERSION_MIN, VERSION_MAX)


class KnowledgeSource(Protocol):
    """What a handshake asks its endpoint at the moment of sending."""

    def knowledge(self) -> VectorTime:
        """Give what this endpoint has heard of every endpoint."""
        ...

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        """Give the announcements that an endpoint with this knowledge lacks."""
        ...


Vetting = Callable[[EndpointId, Sequence[Announcement]], str | None]
"""Says why an endpoint that told this of the mesh must not become a peer, or ``None``."""


class Handshake:
    """One end of one connection, until it is a peering or closed."""

    def __init__(  # noqa: PLR0913 - keywords, one for each thing to say
        self,
        *,
        connection: ConnectionId,
        dialled: bool,
        directory: PeerDirectory,
        source: KnowledgeSource,
        versions: Preamble = OUR_VERSIONS,
        vet: Vetting | None = None,
        frame_size_max: int = FRAME_SIZE_MAX,
    ) -> None:
        """Prepare for a fresh connection, which this endpoint has dialled or accepted.

        ``vet`` says what there is against the peer, by all that it told of the mesh. The peer is
        told that frames of more than ``frame_size_max`` bytes (after the front) are refused here.
        """
        self.state = State.NEW
        self.peer: EndpointId | None = None
        self._local = directory.local
        self._connection = connection
        self._dialled = dialled
        self._directory = directory
        self._source = source
        self._versions = versions
        self._vet = vet
        self._version = versions.version_max
        self._is_introduced = dialled
        self._frame_size_max = frame_size_max
        self._peer_frame_size_max = FRAME_SIZE_MAX
        self._peer_knowledge: VectorTime | None = None
        self._sent: tuple[Announcement, ...] = ()
        self._received: tuple[Announcement, ...] = ()

    @property
    def is_over(self) -> bool:
        """Tell whether the handshake has come to its end, good or bad."""
        return self.state in (State.ESTABLISHED, State.CLOSED)

    def start(self) -> Sequence[Effect]:
        """Say the first words: to be called once, as soon as the connection stands."""
        if self.state is not State.NEW:
            raise LocalProtocolError("a handshake starts once; make a new one for each connection")
        self.state = State.AWAIT_PREAMBLE
        return (Send(self._versions), *((self._hello(),) if self._dialled else ()))

    def receive(self, message: HandshakeMessage) -> Sequence[Effect]:
        """Take in the next message of the peer. One that is not expected ends the connection."""
        if self.state is State.NEW:
            raise LocalProtocolError("call start() before receive()")
        self._refuse_if_established()
        if self.state is State.CLOSED:  # it was on its way when we closed
            return ()
        moves = EXPECTED[self.state]
        if type(message) not in moves:
            return self.refuse(
                ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE,
                f"{type(message).__name__} came while waiting for {_awaited(self.state)}",
            )
        effects = self._on_message(message)
        assert self.state in moves[type(message)], f"{type(message).__name__} led to {self.state}"
        return effects

    def reconsider(self) -> Sequence[Effect]:
        """Go on, or give way, after another connection to the same peer was decided."""
        if self.state is State.PAUSED:
            return self._propose()
        if self.state is State.AWAIT_ORIGINATOR_ACK:
            return self._give_way()
        return ()

    def timed_out(self) -> Sequence[Effect]:
        """End the connection: ``HANDSHAKE_TIMEOUT_SECONDS`` have passed since its start."""
        return self.refuse(
            ErrorCode.PEER_TIMEOUT,
            f"the handshake took longer than {HANDSHAKE_TIMEOUT_SECONDS:g} s; it was waiting for "
            f"{_awaited(self.state)}",
        )

    def refuse(self, code: ErrorCode, reason: str) -> Sequence[Effect]:
        """End the connection, telling the peer why: bad bytes, no permission, shutting down."""
        self._refuse_if_established()
        if self.state is State.CLOSED:
            return ()
        reason = reason[:REASON_SIZE_MAX]
        return self._close(Send(DropConn(code, reason)), Failed(code, reason, self.peer))

    def connection_lost(self, refusal: MeshError | None = None) -> Sequence[Effect]:
        """Note that the stream has ended or broken; or, by a ``refusal``, was ended by TLS."""
        self._refuse_if_established()
        if self.state is State.CLOSED:
            return ()
        if refusal is not None:
            return self._close(Failed(refusal.code, str(refusal), self.peer))
        code = ErrorCode.PEER_DISCONNECT_DURING_HANDSHAKE
        return self._close(Failed(code, "the connection was lost during the handshake", self.peer))

    def _on_message(self, message: HandshakeMessage) -> Sequence[Effect]:
        match message:
            case Preamble():
                return self._on_preamble(message)
            case Hello():
                return self._on_hello(message)
            case OriginatorSyn():
                return self._on_originator_syn(message)
            case ResponderSynAck():
                return self._on_responder_syn_ack(message)
            case OriginatorAck():
                return self._establish()
            case DropConn():
                return self._on_drop_conn(message)
            case _:
                assert_never(message)

    def _on_preamble(self, theirs: Preamble) -> Sequence[Effect]:
        ours = self._versions
        self._version = min(ours.version_max, theirs.version_max)
        if self._version < max(ours.version_min, theirs.version_min):
            dialler, acceptor = (ours, theirs) if self._dialled else (theirs, ours)
            return self.refuse(
                ErrorCode.PEER_INCOMPATIBLE,
                f"no common version of the protocol: the dialling side speaks {_range(dialler)}, "
                f"the accepting side {_range(acceptor)}; upgrade the older one",
            )
        self.state = State.AWAIT_ANSWER if self._dialled else State.AWAIT_HELLO
        return ()

    def _on_hello(self, message: Hello) -> Sequence[Effect]:
        if message.sender == self._local:
            return self._refuse_ourselves()
        self.peer = message.sender
        self._peer_knowledge = message.knowledge
        self._peer_frame_size_max = message.frame_size_max
        if self._local < message.sender:
            return self._propose()
        self.state = State.AWAIT_ORIGINATOR_SYN
        return self._introduction()

    def _on_originator_syn(self, message: OriginatorSyn) -> Sequence[Effect]:
        if message.sender == self._local:
            return self._refuse_ourselves()
        if message.sender > self._local or self.peer not in (None, message.sender):
            return self.refuse(
                ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE,
                f"{message.sender} may not originate here: the smaller id of the two does",
            )
        self.peer = message.sender
        self._peer_knowledge = message.knowledge
        self._peer_frame_size_max = message.frame_size_max
        objection = self._objection(message.sender, message.announcements)
        if objection is not None:
            return self.refuse(ErrorCode.NOT_AUTHORIZED, objection)
        self._received = message.announcements
        self._sent = self._source.news_for(message.knowledge)
        self._directory.answer(message.sender, self._connection)
        self.state = State.AWAIT_ORIGINATOR_ACK
        return (Send(ResponderSynAck(self._sent)),)

    def _on_responder_syn_ack(self, message: ResponderSynAck) -> Sequence[Effect]:
        assert self.peer is not None
        objection = self._objection(self.peer, message.announcements)
        if objection is not None:
            return self.refuse(ErrorCode.NOT_AUTHORIZED, objection)
        self._received = message.announcements
        return (Send(OriginatorAck()), *self._establish())

    def _objection(self, peer: EndpointId, news: tuple[Announcement, ...]) -> str | None:
        return None if self._vet is None else self._vet(peer, news)

    def _on_drop_conn(self, message: DropConn) -> Sequence[Effect]:
        if message.code is ErrorCode.REDUNDANT_CONNECTION and self.peer is not None:
            return self._close(Redundant(self.peer))
        reason = f"the other side ended the handshake: {message.reason[:REASON_SIZE_MAX]}"
        return self._close(Failed(message.code, reason, self.peer))

    def _propose(self) -> Sequence[Effect]:
        """Originate now, later or not at all."""
        assert self.peer is not None
        assert self._peer_knowledge is not None
        match self._directory.claim(self.peer, self._connection):
            case Claim.GRANTED:
                self.state = State.AWAIT_RESPONDER_SYN_ACK
                self._sent = self._source.news_for(self._peer_knowledge)
                knowledge, size_max = self._source.knowledge(), self._frame_size_max
                return (Send(OriginatorSyn(self._local, knowledge, self._sent, size_max)),)
            case Claim.PENDING:
                self.state = State.PAUSED
                return self._introduction()
            case Claim.REDUNDANT:
                return (*self._introduction(), *self._give_way())

    def _introduction(self) -> Sequence[Effect]:
        """Say who we are, unless we have done so."""
        if self._is_introduced:
            return ()
        self._is_introduced = True
        return (self._hello(),)

    def _hello(self) -> Effect:
        return Send(Hello(self._local, self._source.knowledge(), self._frame_size_max))

    def _give_way(self) -> Sequence[Effect]:
        assert self.peer is not None
        reason = f"{self._local} and {self.peer} have another connection"
        drop = DropConn(ErrorCode.REDUNDANT_CONNECTION, reason)
        return self._close(Send(drop), Redundant(self.peer))

    def _refuse_ourselves(self) -> Sequence[Effect]:
        return self.refuse(
            ErrorCode.SELF_PEERING,
            f"both sides have the id {self._local}: an endpoint cannot be its own peer, and two "
            f"endpoints cannot share an id",
        )

    def _establish(self) -> Sequence[Effect]:
        assert self.peer is not None
        assert self._peer_knowledge is not None
        self.state = State.ESTABLISHED
        replaces, lost = self._directory.confirm(self.peer, self._connection)
        established = Established(
            peer=self.peer,
            version=self._version,
            is_originator=self._local < self.peer,
            knowledge=self._peer_knowledge,
            received=self._received,
            sent=self._sent,
            replaces=replaces,
            frame_size_max=self._peer_frame_size_max,
        )
        return (established, *map(Reconsider, lost))

    def _close(self, *effects: Effect) -> Sequence[Effect]:
        self.state = State.CLOSED
        if self.peer is None:
            return effects
        next_connection = self._directory.release(self.peer, self._connection)
        return effects if next_connection is None else (*effects, Reconsider(next_connection))

    def _refuse_if_established(self) -> None:
        if self.state is State.ESTABLISHED:
            raise LocalProtocolError(
                "the connection was handed over: tell whoever has the peering, who releases it "
                "from the directory when it ends"
            )


def _awaited(state: State) -> str:
    """Name what is waited for; a drop may come anywhere, and goes without saying."""
    names = [message.__name__ for message in EXPECTED[state] if message is not DropConn]
    return " or ".join(names) or "another connection to the same peer"


def _range(versions: Preamble) -> str:
    return f"{versions.version_min} to {versions.version_max}"
