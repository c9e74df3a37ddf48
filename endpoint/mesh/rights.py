"""What other roles mean for the stores and logs that are attached to an endpoint. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from endpoint.mesh.effects import RightsChanged
from handshake.roles import Rights, Role
from wire.identifiers import EndpointId
from wire.messages import Announcement
from wire.topics import command_name


def rights_changed(
    topics: Iterable[str],
    changed: Mapping[EndpointId, tuple[Role, Role]],
    announced: Mapping[EndpointId, Announcement],
) -> list[RightsChanged]:
    """Say which endpoints have other rights at the stores and logs that hear these topics.

    ``changed`` has the role before and the role now of each other endpoint that has another one. An
    endpoint that holds a copy, or leads, has ``announced`` a topic of that name; the commands of
    all others are looked at one by one.
    """
    by_name: dict[str, list[str]] = {}
    for topic in topics:
        by_name.setdefault(command_name(topic) or "", []).append(topic)
    effects: list[RightsChanged] = []
    for origin, (before, now) in changed.items():
        stores = announced[origin].stores if origin in announced else ()
        for name in by_name.keys() & {command_name(topic) for topic in stores}:
            old, new = before.rights(name), now.rights(name)
            if old != new:
                effects += [RightsChanged(topic, origin, old, new) for topic in by_name[name]]
    return effects


class Turn(Enum):
    """What other rights of an endpoint mean for a store."""

    NONE = "nothing"
    DISMISSED = "it may have no copy any more: its session ends"
    UNSEEN = "it may not lead any more, nor ask: it counts as unreachable"


def turn_of(before: Rights, now: Rights, *, is_master: bool) -> Turn:
    """Decide what a store makes of rights that are others now; ``is_master`` where it is led.

    An endpoint that may lead now is found by its next heartbeat.
    """
    lost_reading = before.read and not now.read
    if is_master and lost_reading:
        return Turn.DISMISSED
    if not is_master and (lost_reading or (before.lead and not now.lead)):
        return Turn.UNSEEN
    return Turn.NONE
