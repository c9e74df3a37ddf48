"""A mesh of real, pure cores on a simulated network: virtual time, real bytes, no sockets.

Every link delivers in order and takes the same time for every message; cores take none. The
handshake is the real one, too. Keep-alives and data are left out: nothing here depends on them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import process_time
from typing import Final

from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import Effect, RoutesChanged, SendControl
from endpoint.mesh.status import StatusCode
from handshake import effects as handshake_effects
from handshake.directory import ConnectionId, PeerDirectory
from handshake.machine import Handshake
from wire.clocks import VectorTime
from wire.codec import encode_control
from wire.errors import ErrorCode
from wire.framing import FRONT_SIZE, encode_preamble
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId
from wire.messages import Announcement, Announcements, ControlMessage, Knowledge, Preamble

LATENCY_SECONDS: Final = 0.001
"""From one end of a link to the other: two machines of one site."""

Edge = tuple[int, int]
Pair = tuple[EndpointId, EndpointId]


@dataclass
class Traffic:
    """What crossed the links since it was last looked at."""

    messages: int = 0
    size: int = 0
    handshake_size: int = 0
    changed_at: float = 0.0
    """When a core last learned something."""
    cpu_seconds: float = 0.0
    """Processor time of all cores, decoding and sending not counted."""
    crossings: Counter[Pair] = field(default_factory=Counter)
    """Flood messages by link and direction."""


@dataclass
class End:
    """One end of a connection."""

    machine: Handshake
    is_up: bool = False


def endpoint_id(number: int) -> EndpointId:
    """Name an endpoint, scattered so that ids do not follow the shape."""
    scattered = (number * 2654435761) % 2**32
    return EndpointId(scattered.to_bytes(4) + number.to_bytes(ENDPOINT_ID_SIZE - 4))


class Mesh:
    """Cores, links between them, and what is on its way."""

    def __init__(self) -> None:
        self.cores: dict[EndpointId, EndpointCore] = {}
        self.traffic = Traffic()
        self.now = 0.0
        self._ends: dict[Pair, End] = {}
        self._queue: list[tuple[float, int, Pair, ControlMessage]] = []
        self._numbers = count(1)
        self._sizes: dict[tuple[Announcement, ...], int] = {}

    # Building.

    def join(self, number: int) -> EndpointId:
        """Add an endpoint that is alone."""
        name = endpoint_id(number)
        self.cores[name] = EndpointCore(name)
        return name

    @classmethod
    def settled(cls, size: int, edges: Iterable[Edge]) -> Mesh:
        """Build a mesh that has heard of everything, without the floods that lead there."""
        mesh = cls()
        names = [mesh.join(number) for number in range(size)]
        pairs = [(names[left], names[right]) for left, right in edges]
        for local, peer in (*pairs, *((right, left) for left, right in pairs)):
            mesh.cores[local].connect(peer, VectorTime(), (), None)
            mesh._open(local, peer, dialled=True).is_up = True
        everything = [core.topology.announcements[name] for name, core in mesh.cores.items()]
        for core in mesh.cores.values():
            core.receive_announcements(next(iter(core.topology.direct)), everything)
        return mesh

    def links(self) -> int:
        """Count the links that stand."""
        return sum(end.is_up for end in self._ends.values()) // 2

    # What happens.

    def dial(self, dialler: EndpointId, acceptor: EndpointId) -> None:
        """Begin a handshake, as if the connection stood at once."""
        here = self._open(dialler, acceptor, dialled=True)
        there = self._open(acceptor, dialler, dialled=False)
        self._greet(dialler, acceptor, here.machine.start())
        self._greet(acceptor, dialler, there.machine.start())

    def subscribe(self, endpoint: EndpointId, topic: str) -> None:
        """Let somebody want a topic."""
        core = self.cores[endpoint]
        self._apply(core, self._timed(core.subscribe, topic, (topic,)))

    def cut(self, left: EndpointId, right: EndpointId) -> None:
        """End a connection; both of its ends notice at once, and what was on its way is lost."""
        for local, peer in ((left, right), (right, left)):
            del self._ends[local, peer]
        for local, peer in ((left, right), (right, left)):
            core = self.cores[local]
            self._apply(core, self._timed(_lose, core, peer))

    def run(self) -> Traffic:
        """Deliver until nothing is on its way; give what crossed the links since the last time."""
        while self._queue:
            self.now, _, (source, target), message = heapq.heappop(self._queue)
            end = self._ends.get((target, source))
            if end is None:
                continue
            if end.is_up:
                self._receive(target, source, message)
            else:
                self._greet(target, source, end.machine.receive(message))
        traffic, self.traffic = self.traffic, Traffic()
        return traffic

    def _open(self, local: EndpointId, peer: EndpointId, *, dialled: bool) -> End:
        machine = Handshake(
            connection=ConnectionId(0),
            dialled=dialled,
            directory=PeerDirectory(local),  # its own: nobody dials the same peer twice here
            source=self.cores[local],
        )
        end = self._ends[local, peer] = End(machine)
        return end

    def _greet(
        self, local: EndpointId, peer: EndpointId, effects: Sequence[handshake_effects.Effect]
    ) -> None:
        for effect in effects:
            match effect:
                case handshake_effects.Send(message):
                    self.traffic.handshake_size += self._send(local, peer, message)
                case handshake_effects.Established():
                    self._establish(local, effect)
                case _:
                    raise AssertionError(f"nobody dials twice, and still: {effect}")

    def _establish(self, local: EndpointId, established: handshake_effects.Established) -> None:
        knowledge = established.knowledge
        for announcement in established.sent:
            knowledge = knowledge.advance(announcement.origin, announcement.time)
        self._ends[local, established.peer].is_up = True
        core, received = self.cores[local], established.received
        effects = self._timed(core.connect, established.peer, knowledge, received, None)
        self._apply(core, effects)

    def _receive(self, local: EndpointId, peer: EndpointId, message: ControlMessage) -> None:
        core = self.cores[local]
        match message:
            case Announcements(items):
                self._apply(core, self._timed(core.receive_announcements, peer, items))
            case Knowledge(vector):
                self._apply(core, self._timed(core.receive_knowledge, peer, vector))
            case _:
                raise AssertionError(f"nobody sends {message}")

    def _timed(self, decide: Callable[..., list[Effect]], *arguments: object) -> list[Effect]:
        begin = process_time()
        effects = decide(*arguments)
        self.traffic.cpu_seconds += process_time() - begin
        return effects

    def _apply(self, core: EndpointCore, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                self.traffic.messages += 1
                self.traffic.crossings[core.local, effect.peer] += 1
                self.traffic.size += self._send(core.local, effect.peer, effect.message)
            elif isinstance(effect, RoutesChanged):
                self.traffic.changed_at = self.now

    def _send(self, source: EndpointId, target: EndpointId, message: ControlMessage) -> int:
        entry = (self.now + LATENCY_SECONDS, next(self._numbers), (source, target), message)
        heapq.heappush(self._queue, entry)
        if not isinstance(message, Announcements):
            return size_on_the_wire(message)
        size = self._sizes.get(message.items)
        if size is None:
            if len(self._sizes) > 100:
                self._sizes.clear()
            size = self._sizes[message.items] = size_on_the_wire(message)
        return size


def size_on_the_wire(message: ControlMessage) -> int:
    """Give the bytes of a control message in its frame, by encoding it."""
    if isinstance(message, Preamble):
        return len(encode_preamble(message))
    return FRONT_SIZE + len(encode_control(message)[1])


def _lose(core: EndpointCore, peer: EndpointId) -> list[Effect]:
    return core.disconnect(peer, None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason="")
