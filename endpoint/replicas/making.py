"""What the replicas of all groups at one endpoint are made with: names, lives, clocks, chance."""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from endpoint.mesh.core import EndpointCore
from endpoint.replicas.parts import Kind
from endpoint.replicas.runner import Host
from endpoint.surroundings import Surroundings
from handshake.principals import ANONYMOUS
from stores.disk.founding import Founding
from stores.group.limits import VOTERS_MAX
from stores.group.membership import Declared
from stores.group.packed_fields import NAME_SIZE_MAX
from stores.group.positions import MemberId
from stores.replica.beginning import World
from wire.errors import InvalidData
from wire.identifiers import EndpointId
from wire.scalars import shorten
from wire.topics import store_topics

LIFE_END: Final = 1 << 63
"""Lives are drawn below it: two of one name are equal once in a lifetime of the universe."""


class Making:
    """Makes what is an endpoint's own in each of its replicas."""

    def __init__(self, host: Host, around: Surroundings, own_name: str) -> None:
        """Make it for an endpoint. ``own_name`` is empty if it was given none."""
        self._host = host
        self._around = around
        self.own_name = own_name

    def new_member(self, own_name: str) -> MemberId:
        """Name a member that never was: another life of its name."""
        return MemberId(own_name, self._draw(1, LIFE_END))

    def founding(self, own_name: str) -> Founding:
        """Give what a new file, or one of an earlier release, becomes a group with."""
        return Founding(self._new_group(), self.new_member(own_name), self._around.now_ns())

    def check_names(self, kind: Kind, name: str, declared: Declared) -> str:
        """Give the name of the member that is here; raises ``InvalidData`` for bad ones."""
        store_topics(name)
        voters = declared.names
        if not voters and not declared.count:
            return self.own_name or ANONYMOUS
        if not self.own_name:
            raise InvalidData(
                f"{kind} {name}: voters are known by the names of their endpoints, and this one has"
                " none of its own: give Endpoint(name=...)"
            )
        if declared.count > VOTERS_MAX:
            raise InvalidData(f"voters={declared.count}: a group has up to {VOTERS_MAX}")
        if len(voters) > VOTERS_MAX or len(set(voters)) != len(voters):
            raise InvalidData(
                f"voters={tuple(voters)!r}: give up to {VOTERS_MAX} different names of endpoints"
            )
        for each in (self.own_name, *voters):
            if not 0 < len(each) <= NAME_SIZE_MAX:
                raise InvalidData(
                    f"a voter's name has 1 to {NAME_SIZE_MAX} characters: {each!r:.60}"
                )
        return self.own_name

    def world(self, name: str) -> World:
        """Give what the core of a store or log of this name takes from outside."""
        return World(
            draw=self._draw,
            monotonic_ns=lambda: round(trio.current_time() * 1e9),
            now_ns=self._around.now_ns,
            new_group=self._new_group,
            vouches=self._vouches,
            may_vote=partial(self._may_vote, name),
        )

    def _new_group(self) -> bytes:
        return bytes(self._around.new_id())

    def _draw(self, least: int, most: int) -> int:
        return min(most, least + int(self._around.chance() * (most - least + 1)))

    def _may_vote(self, name: str) -> bool:
        return self._host.core.authorisation.own_role.rights(name).vote

    def _vouches(self, endpoint: EndpointId, name: str) -> bool:
        """Tell whether an endpoint may have a member of a name, where names are proven."""
        core: EndpointCore = self._host.core
        authorisation = core.authorisation
        if not authorisation.are_names_proven:
            return True
        known = core.topology.announcements.get(endpoint)
        if authorisation.believed_name(endpoint, known) == name:
            return True
        who = core.permissions.who(endpoint)
        authorisation.refusals.note(endpoint, f"{who} has no replica called {shorten(name)}")
        return False
