"""What each verb of an edge broker and of its registry asks a role for."""

from __future__ import annotations

from typing import Final

from handshake.access import Port, Right, StoreOf, Thing
from handshake.principals import Proof
from peermesh.brokers.edge.tree import BROKER, ROOT, topic_of

ENTER: Final = "enter"
PUBLISH: Final = "publish on"
SUBSCRIBE: Final = "subscribe to"
READ: Final = "read"
WRITE: Final = "write"

_PROOFS: Final = (Proof.CERTIFICATE,)
_BARE: Final = "plain on loopback; elsewhere refused, or `allow_plain`"

PORT: Final = Port(
    "the edge broker",
    "peermesh/brokers/edge/broker.py",
    _PROOFS,
    _BARE,
    {ENTER: Right.ENTER, PUBLISH: Right.PUBLISH, SUBSCRIBE: Right.SUBSCRIBE},
    "The same holds at the two ports of each topic.",
)

REGISTRY: Final = Port(
    "the edge broker's registry",
    "peermesh/brokers/edge/desk.py",
    _PROOFS,
    _BARE,
    {
        ENTER: Right.ENTER,
        PUBLISH: Right.PUBLISH,
        SUBSCRIBE: Right.SUBSCRIBE,
        READ: Right.READ,
        WRITE: Right.WRITE,
    },
    "A client looks up a topic's port, and registers there, by its right to the topic. Everything"
    " else is reading and writing the store `edge registry`.",
)

TO_MESH: Final = Port(
    "the mesh, through the edge broker",
    "peermesh/brokers/edge/bridge.py",
    _PROOFS,
    _BARE,
    {PUBLISH: Right.PUBLISH},
)
"""No listener: a message that leaves the broker asks for its publisher's right in the mesh."""

STORE: Final = "edge registry"
"""The name of the registry's store in the mesh."""

_LOOKS: Final = ("read", "children", "watch")
_SIDES: Final = {"pub": PUBLISH, "sub": SUBSCRIBE}
_DEPTH: Final = len(("", "topics", "TOPIC", "pub"))
"""Segments in the path of a topic's port; that of a client's own node below has one more."""


def demand(operation: str, path: str) -> tuple[str, Thing]:
    """Give the verb and the object that a request to the registry asks a role for.

    A client's own node is the only one that it registers by its right to the topic: the nodes above
    say where others find the broker.
    """
    if operation in ("unwatch", "unregister") or (
        operation in ("read", "watch") and path in (ROOT, BROKER)
    ):
        return ENTER, StoreOf(STORE)  # A session removes its own nodes alone.
    parts = path.split("/")
    is_topic = path.startswith(f"{ROOT}/") and len(parts) >= _DEPTH and parts[3] in _SIDES
    is_own = operation == "register" and len(parts) == _DEPTH + 1
    if is_topic and (is_own or operation in _LOOKS):
        return _SIDES[parts[3]], topic_of(parts[2])
    return READ if operation in _LOOKS else WRITE, StoreOf(STORE)
