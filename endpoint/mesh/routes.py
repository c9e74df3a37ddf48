"""Where messages with one header go, and what it takes to tell true frames from forged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from endpoint.mesh.duplicates import SequenceWindow
from wire.errors import DecodeError
from wire.framing import NodeFrame
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType, Seal

_COURSE: Final = attrgetter("course")
_TOPIC: Final = attrgetter("header.topic")
_KIND: Final = attrgetter("header.type")

Verify = Callable[[NodeFrame], bool]
"""Tells whether a frame was signed by its sender."""

Selection = bytes | None
"""Which messages of a frame: a byte for each, 1 or 0; ``None`` is all of them."""

Deliveries = Sequence[tuple[object, Selection]]
Onward = Sequence[tuple[EndpointId, Selection]]


class CommandReceiver(Protocol):
    """What hears commands: a store, a log, or a service of the endpoint."""

    def receive(self, sender: EndpointId, payloads: Sequence[bytes]) -> None:
        """Take in commands; bad ones are the sender's fault, and cost nothing else."""

    def settle(self) -> None:
        """Everything that had come was taken in: answer."""

    def fail(self, error: Exception) -> None:
        """An error that nothing expects ends this receiver, at most."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where messages with one header go from here."""

    header: NodeHeader
    window: SequenceWindow
    receivers: tuple[object, ...] = ()
    """The local subscribers, or the ``CommandReceiver``, that want it."""
    next_hops: tuple[EndpointId, ...] = ()
    audience: tuple[EndpointId, ...] = ()
    """The endpoints elsewhere that it is for, as far as is known here."""
    refusal: str = ""
    """Why its messages are dropped, if the sender has no right to send them."""
    verify: Verify | None = None
    """Checks the signature of each frame, if the sender signs."""
    course: int | None = None
    """A number that routes have in common whose messages go the same ways, and are of one kind."""


class Head:
    """What the head of a frame says: its routes, and what becomes of any frame that has it."""

    __slots__ = ("is_uniform", "lead", "plan", "raw", "routes", "topics")

    def __init__(self, routes: Sequence[Route]) -> None:
        """Take the route of each header, in order.

        Raises ``DecodeError`` for commands among other messages: their numbers are apart.
        """
        self.routes = routes
        self.lead = lead = routes[0]
        self.is_uniform = len(routes) == 1 or _is_uniform(routes)
        """Whether all messages go the same ways."""
        self.topics: tuple[str, ...] = ()
        """The topic of each header, as a mailbox takes them."""
        self.raw = b""
        """For each header whether its payloads are bytes as they are; empty if all are, likewise.
        """
        if lead.receivers or not self.is_uniform:
            self.topics = tuple(map(_TOPIC, routes))
            kinds = list(map(_KIND, routes))
            if kinds.count(PackedType.BYTES) < len(kinds):
                self.raw = bytes([kind is PackedType.BYTES for kind in kinds])
        self.plan: Plan | None = None
        """What becomes of a whole frame, if that is the same whatever peer has brought it."""
        if self.is_uniform and not (lead.next_hops or lead.refusal or lead.verify is not None):
            self.plan = Plan(self, tuple((each, None) for each in lead.receivers), ())


def _is_uniform(routes: Sequence[Route]) -> bool:
    """Tell whether messages with these headers go the same ways."""
    if len(set(map(_COURSE, routes))) == 1 and routes[0].course is not None:
        return True
    kinds = {route.header.type is PackedType.COMMAND for route in routes}
    if len(kinds) > 1:
        raise DecodeError("a frame has commands and other messages")
    return False


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of one frame."""

    head: Head
    deliveries: Deliveries
    """Subscribers of this endpoint, or its ``CommandReceiver``, and what each of them gets."""
    onward: Onward
    """Next hops, and what each of them gets, with one hop less to live."""


class Proof(Protocol):
    """What the endpoint makes and checks signatures with."""

    def seal(self, announcement: Announcement) -> Announcement:
        """Give an announcement of ours as it is sent: with a seal, if we sign."""
        ...

    def objection(self, announcement: Announcement) -> str | None:
        """Say why an announcement is not its origin's; ``None`` if it is."""
        ...

    def end_of(self, announcement: Announcement) -> int | None:
        """Say when the name in an accepted announcement is no longer proven; ``None`` is never."""
        ...

    def has_ended(self, end_ns: int) -> bool:
        """Tell whether a moment that ``end_of`` gave is over."""
        ...

    def verifier(self, seal: Seal) -> Verify:
        """Give what checks the frames of the endpoint that a seal is from."""
        ...
