"""What an endpoint announces, what announcements weigh, and how they fit into messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from endpoint.mesh.routes import Proof
from wire.clocks import LamportTime
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId
from wire.limits import LAMPORT_TIME_MAX, MIB
from wire.messages import Announcement, Seal

ANNOUNCEMENT_SIZE_MAX: Final = 1 * MIB
"""Bytes of one announcement. Each change floods it as a whole, and everybody keeps it."""

TOPICS_SIZE_MAX: Final = ANNOUNCEMENT_SIZE_MAX * 3 // 8
"""Bytes of all subscriptions of an endpoint, and of all its stores: the rest is for its links."""

ANNOUNCEMENTS_SIZE_MAX: Final = 64 * MIB
"""Bytes of all announcements that an endpoint keeps: a thousand endpoints of 64 KiB. Those of more
are ignored, so that a hostile peer cannot fill the memory."""

MESSAGE_SIZE_MAX: Final = 1 * MIB
"""Bytes of announcements in one message: the frames of a handshake have to hold one, however much
is known."""

_HEAD_SIZE: Final = 64
"""Bytes of an announcement besides its lists."""

_ITEM_SIZE: Final = 5
"""Bytes of CBOR before an item of a list, at most."""


def size_of(announcement: Announcement) -> int:
    """Give the bytes that an announcement takes on the wire, at most."""
    links = len(announcement.links) * (ENDPOINT_ID_SIZE + _ITEM_SIZE)
    topics = topics_size(announcement.subscriptions) + topics_size(announcement.stores)
    names = sum(len((each or "").encode()) for each in (announcement.name, announcement.label))
    return _HEAD_SIZE + names + links + topics + _seal_size(announcement.seal)


def _seal_size(seal: Seal | None) -> int:
    if seal is None:
        return 0
    parts = (seal.key, seal.endorsement, seal.signature, *seal.certificates)
    return sum(len(part) + _ITEM_SIZE for part in parts)


def topics_size(topics: Iterable[str]) -> int:
    """Give the bytes that topics take in an announcement, at most."""
    return sum(len(topic.encode()) + _ITEM_SIZE for topic in topics)


def in_messages(announcements: Iterable[Announcement]) -> Iterator[tuple[Announcement, ...]]:
    """Cut announcements into runs that fit into one message each, in their order."""
    run: list[Announcement] = []
    room = MESSAGE_SIZE_MAX
    for announcement in announcements:
        size = size_of(announcement)
        if run and size > room:
            yield tuple(run)
            run, room = [], MESSAGE_SIZE_MAX
        run.append(announcement)
        room -= size
    if run:
        yield tuple(run)


class Announcer:
    """What one endpoint says of itself: each announcement is later than all before."""

    def __init__(self, local: EndpointId, proof: Proof | None) -> None:
        """Speak for ``local``, and seal what it says with a ``proof``, if it signs."""
        self._local = local
        self._proof = proof
        self._clock = LamportTime(0)

    def announce(self, announcement: Announcement) -> Announcement:
        """Give an announcement its time, and its seal."""
        self._clock = min(self._clock.next(), LamportTime(LAMPORT_TIME_MAX))
        timed = replace(announcement, time=self._clock)
        return timed if self._proof is None else self._proof.seal(timed)

    def outvote(self, time: LamportTime) -> None:
        """Speak later than ``time`` from now on.

        Others' clocks never move ours otherwise: one forged announcement would push the clocks of
        the whole mesh to their limit. What signs has no earlier life, and is not outvoted by what
        is forged.
        """
        if not self._local.is_signing:
            self._clock = max(self._clock, time)

    def is_outvoted(self, announcements: Iterable[Announcement]) -> bool:
        """Tell whether a newer word of us than ours is passed on: forged, so that ours must win.

        The next announcement will. Our own words come back in every cycle of the mesh, and mean
        nothing.
        """
        times = [each.time for each in announcements if each.origin == self._local]
        if self._local.is_signing or not times or max(times) <= self._clock:
            return False
        self._clock = max(times)
        return True
