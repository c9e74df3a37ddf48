"""What a core decides about messages with one header, and what it needs to tell true from forged.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from endpoint.duplicates import SequenceWindow
from wire.framing import NodeFrame
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, Seal

Verify = Callable[[NodeFrame], bool]
"""Tells whether a frame is that of whoever it says that it is from."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where messages with one header go from here."""

    header: NodeHeader
    window: SequenceWindow
    receivers: tuple[object, ...]
    """The local subscribers, or the local stores, that want it."""
    next_hops: tuple[EndpointId, ...]
    refusal: str = ""
    """Why they go nowhere, if the sender has no right to send them."""
    verify: Verify | None = None
    """Looks at the signature of each frame, if the sender signs."""
    is_neighbour: bool = False
    """The sender is a direct peer, as both sides say: it speaks for itself by its own link."""

    def admit(self, link: EndpointId | None, sequence: int) -> bool:
        """Take note of a frame that came by a link; false if it was seen, or cannot be right."""
        if self.verify is not None or not self.is_neighbour:
            return self.window.admit(sequence)  # What is signed is the sender's, by any link.
        if link == self.header.sender:
            return self.window.admit_first_hand(sequence)
        return self.window.admit_hearsay(sequence)


class Proof(Protocol):
    """What the endpoint makes and checks signatures with."""

    def seal(self, announcement: Announcement) -> Announcement:
        """Give an announcement of ours as it is sent: with a seal, if we sign."""
        ...

    def objection(self, announcement: Announcement) -> str | None:
        """Say why an announcement is not its origin's; ``None`` if it is."""
        ...

    def verifier(self, seal: Seal) -> Verify:
        """Give what looks at the frames of whoever a seal is from."""
        ...
