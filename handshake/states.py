"""The state diagram of the handshake, as data (seed 7.2.1.1).

Both ends of a connection begin with a preamble, which names the versions they speak. The dialler
goes on with a hello at once. The endpoint with the smaller id is the **originator**, the other one
the **responder**, whichever side dialled:

=========== ==================== =================================================
from        message              says
=========== ==================== =================================================
both        ``Preamble``         I speak these versions of the protocol
dialler     ``Hello``            this is my id, and what I have heard of
acceptor    ``Hello``            the same; I cannot originate, or not now
originator  ``OriginatorSyn``    let us be peers; this is what you have not heard
responder   ``ResponderSynAck``  agreed; this is what you have not heard
originator  ``OriginatorAck``    we are peers
either      ``DropConn``         this connection ends, and why
=========== ==================== =================================================

The acceptor's hello is left out when it originates at once. An acceptor that would originate, but
has to wait or to give way, does say hello: the dialler could not know otherwise whom it has found,
and whether it has that peering already.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from wire.messages import (
    DropConn,
    HandshakeMessage,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Preamble,
    ResponderSynAck,
)


class State(Enum):
    """What one end of a connection waits for."""

    NEW = auto()
    AWAIT_PREAMBLE = auto()
    AWAIT_HELLO = auto()
    """Accepted: the dialler has to say who it is."""
    AWAIT_ANSWER = auto()
    """Dialled, and said hello: the other end answers with a hello, or originates."""
    PAUSED = auto()
    """Would originate, once another connection to the same peer has failed."""
    AWAIT_ORIGINATOR_SYN = auto()
    AWAIT_RESPONDER_SYN_ACK = auto()
    AWAIT_ORIGINATOR_ACK = auto()
    ESTABLISHED = auto()
    """Over: the connection is a peering, and belongs to its new owner."""
    CLOSED = auto()
    """Over: the connection ends."""


Moves = dict[type[HandshakeMessage], tuple[State, ...]]

_ON_DROP: Final[Moves] = {DropConn: (State.CLOSED,)}

_ON_HELLO: Final = (
    State.AWAIT_ORIGINATOR_SYN,
    State.AWAIT_RESPONDER_SYN_ACK,
    State.PAUSED,
    State.CLOSED,
)

EXPECTED: Final[dict[State, Moves]] = {
    State.NEW: {},
    State.AWAIT_PREAMBLE: {
        Preamble: (State.AWAIT_HELLO, State.AWAIT_ANSWER, State.CLOSED),
        **_ON_DROP,
    },
    State.AWAIT_HELLO: {Hello: _ON_HELLO, **_ON_DROP},
    State.AWAIT_ANSWER: {
        Hello: _ON_HELLO,
        OriginatorSyn: (State.AWAIT_ORIGINATOR_ACK, State.CLOSED),
        **_ON_DROP,
    },
    State.PAUSED: {**_ON_DROP},
    State.AWAIT_ORIGINATOR_SYN: {
        OriginatorSyn: (State.AWAIT_ORIGINATOR_ACK, State.CLOSED),
        **_ON_DROP,
    },
    State.AWAIT_RESPONDER_SYN_ACK: {
        ResponderSynAck: (State.ESTABLISHED, State.CLOSED),
        **_ON_DROP,
    },
    State.AWAIT_ORIGINATOR_ACK: {OriginatorAck: (State.ESTABLISHED,), **_ON_DROP},
    State.ESTABLISHED: {},
    State.CLOSED: {},
}
"""The only legal moves: what may come in each state, and where it may lead."""


class Transition(NamedTuple):
    """One row of the state diagram."""

    state: State
    trigger: str
    """The name of a message, or a call, with parentheses."""
    next_states: tuple[State, ...]


def transitions() -> Iterator[Transition]:
    """Give the state diagram, for the documentation and for tests.

    Not drawn: a lost connection, a timeout, a refusal and a message that is not expected lead from
    every open state to ``CLOSED``.
    """
    yield Transition(State.NEW, "start()", (State.AWAIT_PREAMBLE,))
    for state, moves in EXPECTED.items():
        for message, next_states in moves.items():
            yield Transition(state, message.__name__, next_states)
    yield Transition(State.PAUSED, "reconsider()", (State.AWAIT_RESPONDER_SYN_ACK, State.CLOSED))
    yield Transition(State.AWAIT_ORIGINATOR_ACK, "reconsider()", (State.CLOSED,))
