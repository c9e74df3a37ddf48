"""Where messages with one header go, and what it takes to tell true frames from forged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from endpoint.mesh.duplicates import SequenceWindow
from wire.framing import NodeFrame
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType, Seal

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
    topics: tuple[str, ...] = field(init=False)
    """Its topic alone, as a mailbox takes it."""
    raw: bytes = field(init=False)
    """Whether its payloads are bytes as they are, likewise."""
    plan: Plan | None = field(init=False, default=None, repr=False, compare=False)
    """What becomes of a whole frame of it, if that is the same whatever peer has brought it."""

    def __post_init__(self) -> None:
        """Derive what a mailbox takes, and what becomes of a frame."""
        object.__setattr__(self, "topics", (self.header.topic,))
        object.__setattr__(self, "raw", bytes((self.header.type is PackedType.BYTES,)))
        if not self.next_hops and not self.refusal and self.verify is None:
            plan = Plan((self,), tuple((each, None) for each in self.receivers), ())
            object.__setattr__(self, "plan", plan)


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of one frame."""

    routes: Sequence[Route]
    """By the number of the header."""
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
