"""What other roles mean for the stores and logs that are attached to an endpoint. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from endpoint.effects import RightsChanged
from handshake.roles import Rights, Role
from wire.identifiers import EndpointId
from wire.topics import command_name


def rights_changed(
    topics: Iterable[str], changed: Mapping[EndpointId, tuple[Role, Role]], local: EndpointId
) -> list[RightsChanged]:
    """Say which other endpoints have other rights at the stores that hear these topics.

    ``changed`` has the role before and the role now of each endpoint that has another one. A mesh
    has few roles and many endpoints: so the rights of each pair of roles are compared once.
    """
    names = {topic: command_name(topic) or "" for topic in topics}
    of_roles: dict[tuple[Role, Role], list[tuple[str, Rights, Rights]]] = {}
    effects: list[RightsChanged] = []
    for origin, roles in changed.items():
        if origin == local:
            continue  # An endpoint does not refuse its own commands; others do.
        if roles not in of_roles:
            before, now = roles
            rights = [(topic, before.rights(s), now.rights(s)) for topic, s in names.items()]
            of_roles[roles] = [each for each in rights if each[1] != each[2]]
        effects += [RightsChanged(topic, origin, old, new) for topic, old, new in of_roles[roles]]
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
