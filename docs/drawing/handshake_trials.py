"""Lets real handshakes talk to each other, and writes down who says what to whom."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from handshake import (
    ConnectionId,
    Effect,
    Established,
    Failed,
    Handshake,
    PeerDirectory,
    Reconsider,
    Redundant,
    Send,
)
from handshake.machine import OUR_VERSIONS
from wire.clocks import VectorTime
from wire.identifiers import EndpointId
from wire.messages import Announcement, DropConn, HandshakeMessage, Preamble

NEWER_VERSIONS: Final = Preamble(OUR_VERSIONS.version_max + 1, OUR_VERSIONS.version_max + 1)
"""What an endpoint may speak some day that has nothing in common with this code."""

SMALL: Final = EndpointId(bytes(15) + b"\x01")
LARGE: Final = EndpointId(bytes(15) + b"\x02")
NAMES: Final = {SMALL: "Small", LARGE: "Large"}
"""What the endpoints are called in a picture: by their ids, which decide who originates."""


class _Nothing:
    """The knowledge of an endpoint that has heard nothing."""

    def knowledge(self) -> VectorTime:
        return VectorTime()

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class _End:
    """One end of one connection."""

    endpoint: EndpointId
    number: ConnectionId
    machine: Handshake


@dataclass(slots=True)
class _Talk:
    """Two endpoints, their connections, and what is on its way between them."""

    steps: list[str] = field(default_factory=list)
    directories: dict[EndpointId, PeerDirectory] = field(default_factory=dict)
    ends: dict[tuple[EndpointId, ConnectionId], _End] = field(default_factory=dict)
    wire: deque[tuple[_End, HandshakeMessage]] = field(default_factory=deque)
    is_numbered: bool = False

    def carry_out(self, end: _End, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self.wire.append((self.other(end), message))
                case Reconsider(number):
                    other = self.ends[end.endpoint, number]
                    self.carry_out(other, other.machine.reconsider())
                case Established() | Redundant() | Failed():
                    self.note(end, effect)

    def other(self, end: _End) -> _End:
        (peer,) = (name for name in NAMES if name != end.endpoint)
        return self.ends[peer, end.number]

    def note(self, end: _End, effect: Established | Redundant | Failed) -> None:
        text = type(effect).__name__ + self.mark(end)
        self.steps.append(f"Note over {NAMES[end.endpoint]}: {text}")

    def mark(self, end: _End) -> str:
        return f" on connection {end.number}" if self.is_numbered else ""

    def deliver(self) -> None:
        end, message = self.wire.popleft()
        source, target = NAMES[self.other(end).endpoint], NAMES[end.endpoint]
        self.steps.append(f"{source}->>{target}: {_said(message)}{self.mark(end)}")
        self.carry_out(end, end.machine.receive(message))


def talk(
    *diallers: EndpointId, versions: dict[EndpointId, Preamble] | None = None
) -> Sequence[str]:
    """Let each of these endpoints dial the other one, all at once; give what happens."""
    state = _Talk(is_numbered=len(diallers) > 1)
    for endpoint in NAMES:
        state.directories[endpoint] = PeerDirectory(endpoint)
    for number, dialler in enumerate(diallers, start=1):
        for endpoint in NAMES:
            machine = Handshake(
                connection=ConnectionId(number),
                dialled=endpoint == dialler,
                directory=state.directories[endpoint],
                source=_Nothing(),
                versions=(versions or {}).get(endpoint, OUR_VERSIONS),
            )
            end = _End(endpoint, ConnectionId(number), machine)
            state.ends[endpoint, end.number] = end
        state.steps.append(_dial(dialler, number if state.is_numbered else None))
    for end in state.ends.values():
        state.carry_out(end, end.machine.start())
    while state.wire:
        state.deliver()
    assert all(end.machine.is_over for end in state.ends.values()), state.steps
    return state.steps


def _dial(dialler: EndpointId, number: int | None) -> str:
    which = "" if number is None else f" connection {number}"
    return f"Note over {NAMES[dialler]}: dials{which}"


def _said(message: HandshakeMessage) -> str:
    if isinstance(message, DropConn):
        return f"DropConn {message.code.name}"
    return type(message).__name__
