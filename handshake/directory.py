"""Who is a peer and who is about to be: at most one peering for any two endpoints.

Two endpoints may have any number of connections in handshake: both dial, or one dials twice. They
have to agree on one of them, whatever is lost or late. Two rules do it.

**The originator decides.** Of two endpoints the one with the smaller id originates, on all of their
connections, whichever side dialled. It proposes one connection at a time: a second one waits until
the first ends (``PENDING``), and is dropped when the first became the peering (``REDUNDANT``).

**The responder follows.** An originator proposes a connection only after it has given up all that
it had agreed to before. The responder may not have noticed yet, and still hold the older one. It
believes an acknowledged proposal: ``confirm`` replaces the older peering, and all proposals that
were answered earlier are void. The order of answering is the order of proposing here. For assume
that an acknowledged proposal was made before another one, but came in after it: its acknowledgement
answers our answer to it, hence was sent after the other proposal had come in, hence after the
originator had given up the acknowledged one, and no endpoint acknowledges what it gave up. So
a late proposal on a dead connection never costs a living peering.

**A stale peering.** When a path fails silently, one end may have noticed while the other still
believes in the peering. If the responder believes, the second rule replaces the peering at once. If
the originator believes, it drops every new connection as redundant. The other end then finds itself
told of a peering that it has not (``standing`` is ``FREE``): its call of ``peer()`` fails, and it
dials again, backing off. The originator's keep-alive ends the stale peering (after one interval if
the path is back, for then its ping is answered by a reset; after the keep-alive timeout at worst),
and the next dial succeeds. The originator does not give up a peering on the word of a newcomer:
crossing dials would then kill each other's peerings.

**A half-made peering.** The originator is at its goal when it sends the acknowledgement, the
responder when it receives it. When the connection dies between, the originator sees a peering that
is lost at once, and the responder a failed handshake.

A directory holds no more entries than its endpoint has connections. The listener limits those that
are in handshake; the handshake's timeout ends them.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, NewType

from wire.identifiers import EndpointId

ConnectionId = NewType("ConnectionId", int)
"""A number that the driver gives to each connection of its endpoint, and never gives again."""


class Claim(Enum):
    """The directory's answer to an originator that wants to propose a connection."""

    GRANTED = auto()
    """Propose it now. The claim holds until it is confirmed or released."""
    PENDING = auto()
    """Another connection to this peer is being decided: wait to be reconsidered."""
    REDUNDANT = auto()
    """The peering exists: drop this connection."""


class Standing(Enum):
    """How things are with another endpoint, as far as this one knows."""

    FREE = auto()
    """Neither a peering nor a proposal."""
    DECIDING = auto()
    """A connection is being decided: callers that want the peering wait for the result."""
    PEERED = auto()
    """The peering exists."""


class Confirmation(NamedTuple):
    """What a new peering means for the other connections to the same peer."""

    replaces: ConnectionId | None
    """The peering that the originator has given up, and that ends now on this side too."""
    reconsider: tuple[ConnectionId, ...]
    """The handshakes that lost, in order."""


class PeerDirectory:
    """What the handshakes of one endpoint share. Asked and told by them; ``release`` by all."""

    __slots__ = ("_candidates", "_peered", "local")

    def __init__(self, local: EndpointId) -> None:
        """Start without peers. ``local`` is the endpoint's own id."""
        self.local = local
        self._peered: dict[EndpointId, ConnectionId] = {}
        # Connections in handshake, in order. Where we originate, the first one is proposed and the
        # others wait. Where the peer originates, all are proposals that we have answered.
        self._candidates: dict[EndpointId, list[ConnectionId]] = {}

    def claim(self, peer: EndpointId, connection: ConnectionId) -> Claim:
        """Ask to propose a connection, as originator. May be asked again, with a new answer."""
        assert self.local < peer, f"{self.local} does not originate with {peer}"
        if peer in self._peered:
            return Claim.REDUNDANT
        candidates = self._candidates.setdefault(peer, [])
        if connection not in candidates:
            candidates.append(connection)
        return Claim.GRANTED if candidates[0] == connection else Claim.PENDING

    def answer(self, peer: EndpointId, connection: ConnectionId) -> None:
        """Note that the originator proposed a connection, and that it gets its answer now."""
        assert peer < self.local, f"{peer} does not originate with {self.local}"
        candidates = self._candidates.setdefault(peer, [])
        assert connection not in candidates, f"connection {connection} was answered already"
        candidates.append(connection)

    def confirm(self, peer: EndpointId, connection: ConnectionId) -> Confirmation:
        """Make a connection that was granted, or answered, the peering."""
        candidates = self._candidates[peer]
        position = candidates.index(connection)
        if self.local < peer:
            assert position == 0, f"connection {connection} has no claim: {candidates}"
            assert peer not in self._peered, f"{peer} is peered on {self._peered[peer]} already"
            lost = candidates[1:]
        else:
            lost = candidates[:position]
        self._forget(peer, connection)
        replaced = self._peered.get(peer)
        self._peered[peer] = connection
        return Confirmation(replaced, tuple(lost))

    def release(self, peer: EndpointId, connection: ConnectionId) -> ConnectionId | None:
        """Note that a handshake failed, or that a peering ended; give who may claim next, if any.

        The handshake releases itself when it fails. The owner of an established connection
        releases it when the peering ends. To release what is not held, or no longer, changes
        nothing: the end of a peering that was replaced leaves its successor alone.
        """
        if self._peered.get(peer) == connection:
            del self._peered[peer]
            return None
        candidates = self._candidates.get(peer)
        if candidates is None or connection not in candidates:
            return None
        was_granted = self.local < peer and candidates[0] == connection
        self._forget(peer, connection)
        waiting = self._candidates.get(peer)
        return waiting[0] if was_granted and waiting and peer not in self._peered else None

    def standing(self, peer: EndpointId) -> Standing:
        """Tell whether a peering with an endpoint exists, or may come about."""
        if peer in self._peered:
            return Standing.PEERED
        return Standing.DECIDING if peer in self._candidates else Standing.FREE

    def connection(self, peer: EndpointId) -> ConnectionId | None:
        """Give the connection of the peering with an endpoint, if there is one."""
        return self._peered.get(peer)

    def peers(self) -> tuple[EndpointId, ...]:
        """Give all peers, sorted."""
        return tuple(sorted(self._peered))

    def _forget(self, peer: EndpointId, candidate: ConnectionId) -> None:
        self._candidates[peer].remove(candidate)
        if not self._candidates[peer]:
            del self._candidates[peer]
