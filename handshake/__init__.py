"""Two endpoints agree to be peers: the handshake, the directory of peers, and their keep-alive.

Three pure cores (seed 7.2.1.1). ``Handshake`` turns the messages of one connection into effects;
``PeerDirectory`` is what the handshakes of one endpoint share, and sees to it that any two
endpoints have at most one peering; ``KeepAlive`` notices a peer that fell silent. None of them
reads a clock or a socket: a driver feeds them, and carries out what they say.
"""

from handshake.directory import Claim, Confirmation, ConnectionId, PeerDirectory, Standing
from handshake.effects import Effect, Established, Failed, Reconsider, Redundant, Send
from handshake.keepalive import KeepAlive, PeerSilent, PingDue
from handshake.machine import HANDSHAKE_TIMEOUT_SECONDS, Handshake, KnowledgeSource
from handshake.states import State, Transition, transitions

__all__ = [
    "HANDSHAKE_TIMEOUT_SECONDS",
    "Claim",
    "Confirmation",
    "ConnectionId",
    "Effect",
    "Established",
    "Failed",
    "Handshake",
    "KeepAlive",
    "KnowledgeSource",
    "PeerDirectory",
    "PeerSilent",
    "PingDue",
    "Reconsider",
    "Redundant",
    "Send",
    "Standing",
    "State",
    "Transition",
    "transitions",
]
