"""All decisions of an endpoint about the mesh: who is there, who wants what, where things go. Pure.

Announcements flow in and out, routes follow from them (design section 6). The rule that makes a
publish arrive that follows ``peer()`` or ``await_peer`` directly: on every link announcements
precede data, so that a message never overtakes the knowledge that routed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from endpoint.mesh.authorisation import Authorisation, Forgeries, Refusals
from endpoint.mesh.effects import (
    DropPeer,
    Effect,
    EmitStatus,
    RoutesChanged,
    SendControl,
)
from endpoint.mesh.memory import ENDPOINTS_MAX, Memory
from endpoint.mesh.naming import Names
from endpoint.mesh.news import Announcer, in_messages
from endpoint.mesh.reach import Reach
from endpoint.mesh.rights import Permissions, rights_changed
from endpoint.mesh.routes import Proof
from endpoint.mesh.routing import Routing
from endpoint.mesh.status import StatusCode, StatusEvent, peer_added_event, reach_event
from endpoint.mesh.topology import Topology
from endpoint.mesh.wishes import Wishes
from handshake.roles import Roles
from wire.clocks import LamportTime, VectorTime
from wire.errors import ErrorCode
from wire.identifiers import EndpointId
from wire.limits import SUBSCRIPTIONS_MAX
from wire.messages import (
    Announcement,
    Announcements,
    Knowledge,
)

DIGEST_MISMATCHES_MAX: Final = 2
"""Keep-alives in a row with another digest before knowledge is compared: news takes time."""

_NOTHING: Final = LamportTime(0)


class EndpointCore:
    """One endpoint's view of the mesh. Events in, effects out; it never waits."""

    def __init__(  # noqa: PLR0913 - keywords, one for each thing to say
        self,
        local: EndpointId,
        *,
        forwarding: bool = True,
        label: str | None = None,
        authorisation: Authorisation | None = None,
        proof: Proof | None = None,
        endpoints_max: int = ENDPOINTS_MAX,
        subscriptions_max: int = SUBSCRIPTIONS_MAX,
    ) -> None:
        """Begin alone; ``forwarding=False`` makes a leaf that nobody routes through.

        Without an ``authorisation`` everybody may do everything; without a ``proof`` whoever signs
        is not believed. ``label`` is what it calls itself, for people to read.
        """
        self.local = local
        self.forgeries = Forgeries(proof)
        self.too_large = Refusals()
        """Messages that did not fit into the frames that a peer takes."""
        self.authorisation = authorisation or Authorisation()
        self._is_relay_by_choice = forwarding
        self._label = label
        self.topology = Topology(local)
        self.names = Names(self.topology, self.authorisation)
        self._wishes = Wishes(subscriptions_max)
        self.routing = Routing(
            self.topology, self._wishes, self.authorisation, self.forgeries, proof, endpoints_max
        )
        self.plan = self.routing.plan
        """Decides what becomes of a peer's frame; see ``Routing.plan``."""
        self.routing.forwards = forwarding and self.authorisation.own_role.relay
        self.permissions = Permissions(local, self.topology, self.authorisation)
        self.reach = Reach(local, self.topology, self._wishes, self.routing, self.permissions)
        self._memory = Memory(
            self.topology, self.authorisation, self.forgeries, proof, endpoints_max
        )
        self._announcer = Announcer(local, proof)
        self._mismatches: dict[EndpointId, int] = {}
        self._knowledge: VectorTime | None = None
        self._announce_here()

    # What the handshake asks for.

    def knowledge(self) -> VectorTime:
        """Say how much is known of every endpoint."""
        if self._knowledge is None:
            self._knowledge = self._memory.knowledge()
        return self._knowledge

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        """Give what somebody does not know of those who are here, nearest origin first.

        No more than one message takes: a handshake is followed by the rest.
        """
        return next(in_messages(self.reach.lacking(knowledge)), ())

    def objection(
        self, peer: EndpointId, certificate_name: str | None, news: Sequence[Announcement]
    ) -> str | None:
        """Say why somebody must not become a peer; ``None`` if he may."""
        known = self.topology.announcements.get(peer)
        return self.authorisation.objection(peer, certificate_name, news, known)

    # Peers come and go.

    def connect(
        self,
        peer: EndpointId,
        knowledge: VectorTime,
        announcements: Sequence[Announcement],
        address: tuple[str, int] | None,
        certificate_name: str | None = None,
    ) -> list[Effect]:
        """A peering stands; ``knowledge`` is all that the peer has heard.

        ``certificate_name`` is what its verified certificate calls it; ``None`` without TLS.
        """
        effects: list[Effect] = []
        self.authorisation.enter(peer, certificate_name)
        self.topology.connect(peer)
        fresh = self._learn(peer, self.authorisation.heard(peer, announcements))
        if self.authorisation.is_leaf(peer):
            self.routing.add_leaf(peer)
        else:
            self._announcer.outvote(knowledge.get(self.local, _NOTHING))
        mine = self._announce_here()
        news = (*self._refresh(effects, fresh), mine)
        self._send(effects, [peer], tuple(self.reach.lacking(knowledge)))
        self._send(effects, [hop for hop in self.topology.direct if hop != peer], news)
        event = peer_added_event(peer, address, certificate_name)
        return [*effects, EmitStatus(event), *self._drop_unfit((peer,))]

    def disconnect(
        self,
        peer: EndpointId,
        address: tuple[str, int] | None,
        *,
        status: StatusCode,
        code: ErrorCode,
        reason: str,
    ) -> list[Effect]:
        """A peering ended: ``status`` says who ended it."""
        effects: list[Effect] = []
        self.topology.disconnect(peer)
        self.authorisation.leave(peer)
        self.routing.remove(peer)
        self._mismatches.pop(peer, None)
        mine = self._announce_here()
        self._send(effects, list(self.topology.direct), (mine,))
        effects.append(EmitStatus(StatusEvent(status, peer, address, code, reason)))
        self._refresh(effects)
        return effects

    # News.

    def receive_announcements(
        self, peer: EndpointId, announcements: Sequence[Announcement]
    ) -> list[Effect]:
        """Take in what a peer passed on, and pass on what was new to us.

        Raises ``RemoteProtocolError`` for what its role does not permit it to say of itself.
        """
        effects: list[Effect] = []
        announcements = self.authorisation.heard(peer, announcements)
        fresh = self._learn(peer, announcements)
        mine = (self._announce_here(),) if self._announcer.is_outvoted(announcements) else ()
        if fresh or mine:
            news = (*self._refresh(effects, fresh), *mine)
            told = {announcement.origin: announcement.time for announcement in announcements}
            rest = tuple(each for each in news if each.time > told.get(each.origin, _NOTHING))
            self._send(effects, [peer], rest)
            self._send(effects, [hop for hop in self.topology.direct if hop != peer], news)
        return effects

    def receive_knowledge(self, peer: EndpointId, knowledge: VectorTime) -> list[Effect]:
        """Answer what a peer has heard with what it lacks."""
        effects: list[Effect] = []
        self._send(effects, [peer], tuple(self.reach.lacking(knowledge)))
        return effects

    def receive_digest(self, peer: EndpointId, digest: int) -> list[Effect]:
        """Compare notes: flooding is reliable while links stand, and this mends what it missed."""
        if digest == self.digest():
            self._mismatches.pop(peer, None)
            return []
        count = self._mismatches[peer] = self._mismatches.get(peer, 0) + 1
        if count < DIGEST_MISMATCHES_MAX:
            return []
        del self._mismatches[peer]
        return [SendControl(peer, Knowledge(self.knowledge()))]

    def digest(self) -> int:
        """Sum up in 64 bits what is known of every endpoint in reach."""
        return self.reach.digest()

    def tick(self, now: float) -> list[Effect]:
        """Forget endpoints that were not reachable for the grace time, or are no longer endorsed.

        Tells of messages that were refused or forged since the last tick. ``now`` is in seconds.
        """
        effects: list[Effect] = [
            *map(EmitStatus, self.authorisation.refusals.events(StatusCode.NOT_ALLOWED)),
            *map(EmitStatus, self.forgeries.events(StatusCode.FORGERY_DROPPED)),
            *map(EmitStatus, self.too_large.events(StatusCode.MESSAGE_TOO_LARGE)),
        ]
        known = self.topology.announcements
        absent = [each for each in known if each != self.local and each not in self.reach]
        is_changed, are_ended = self._memory.expire(now, absent)
        if is_changed:
            self._forget_knowledge()
        if are_ended:
            self._refresh(effects)
        return effects

    # Local wishes.

    def subscribe(
        self, subscriber: object, topics: Iterable[str], *, local: bool = False
    ) -> list[Effect]:
        """A local subscriber wants these topics, besides what it wanted before.

        With ``local`` it also gets, from now on, what is published at this endpoint.
        """
        self._wishes.want(subscriber, topics, local=local)
        return self._announce_wishes()

    def unsubscribe(self, subscriber: object, topics: Iterable[str] | None = None) -> list[Effect]:
        """A local subscriber no longer wants these topics; ``None`` means that it is gone."""
        self._wishes.drop(subscriber, topics)
        return self._announce_wishes()

    def topics_of(self, subscriber: object) -> tuple[str, ...]:
        """Give the topics that a local subscriber wants."""
        return self._wishes.topics_of(subscriber)

    def forward(self, topics: Iterable[str]) -> list[Effect]:
        """Have these topics sent here, for nobody in particular."""
        self._wishes.add(tuple(topics))
        return self._announce_wishes()

    def attach_store(self, topic: str, store: object) -> list[Effect]:
        """A local store hears commands on exactly this topic."""
        self._wishes.attach(topic, store)
        return self._announce_wishes(always=True)

    def detach_store(self, topic: str) -> list[Effect]:
        """Have a topic heard by no local store any more."""
        return self._announce_wishes(always=True) if self._wishes.detach(topic) else []

    def serve(self, topic: str, service: object) -> None:
        """Have a local service hear commands on this topic that are sent to this endpoint alone.

        It is not announced: no other endpoint has to know of it.
        """
        self._wishes.offer(topic, service)
        self.routing.forget()

    def rename(self, name: str | None) -> list[Effect]:
        """Go by another certificate from now on: what it calls us, and what it endorses."""
        return self._go_by(self.authorisation.roles, name)

    def set_roles(self, roles: Roles | None) -> list[Effect]:
        """Go by other roles from now on, for endpoints that are there already as for new ones.

        What was granted by the roles before, and is not by these, ends; what is granted now, and
        was not, holds at once.
        """
        return self._go_by(roles, self.authorisation.name)

    def _go_by(self, roles: Roles | None, name: str | None) -> list[Effect]:
        announced = self.topology.announcements
        before = {origin: self.permissions.role(origin) for origin in (self.local, *announced)}
        leaves = [peer for peer in self.topology.direct if self.authorisation.is_leaf(peer)]
        self.authorisation.renew(roles, name)
        self.routing.forwards = self._is_relay_by_choice and self.authorisation.own_role.relay
        effects = self._announce_wishes(always=True)
        effects += self._part_leaves(leaves)
        after = {origin: self.permissions.role(origin) for origin in before}
        changed = {each: (was, after[each]) for each, was in before.items() if was != after[each]}
        # An endpoint does not refuse its own commands: others do.
        others = {each: roles for each, roles in changed.items() if each != self.local}
        effects += rights_changed(self._wishes.stores(), others, announced)
        for origin in changed:
            if origin == self.local or origin in self.topology.direct:
                self.authorisation.note_wishes(announced[origin])
        return [*effects, *self._drop_unfit(self.topology.direct)]

    def _part_leaves(self, before: Sequence[EndpointId]) -> list[Effect]:
        """Separate the routes of peers that are leaves now, and ask what others have heard.

        What a leaf passed on was not taken: of one that became a relay it is asked for.
        """
        leaves = [peer for peer in self.topology.direct if self.authorisation.is_leaf(peer)]
        self.routing.set_leaves(leaves)
        relays = [peer for peer in before if peer not in leaves]
        return [SendControl(peer, Knowledge(self.knowledge())) for peer in relays]

    def _drop_unfit(self, peers: Iterable[EndpointId]) -> Iterator[Effect]:
        """End peerings that would not begin as things are."""
        for peer in peers:
            known = self.topology.announcements.get(peer)
            objection = self.authorisation.objection_to_peer(peer, known)
            if objection is not None:
                yield DropPeer(peer, ErrorCode.NOT_AUTHORIZED, objection)

    # Messages.

    @property
    def forwarding(self) -> bool:
        """Whether messages of others are passed on."""
        return self.routing.forwards

    # Announcing.

    def _announce_here(self) -> Announcement:
        said = Announcement(
            origin=self.local,
            time=_NOTHING,
            links=tuple(sorted(self.topology.direct)),
            subscriptions=self._wishes.subscriptions(),
            stores=tuple(sorted(self._wishes.stores())),
            forwarding=self.forwarding,
            name=self.authorisation.name,
            label=self._label,
        )
        announcement = self._announcer.announce(said)
        self.topology.learn(announcement)
        self._forget_knowledge()
        return announcement

    def _announce_wishes(self, *, always: bool = False) -> list[Effect]:
        effects: list[Effect] = [RoutesChanged()]
        self.routing.forget()
        known = self.topology.announcements[self.local]
        if always or known.subscriptions != self._wishes.subscriptions():
            self._send(effects, list(self.topology.direct), (self._announce_here(),))
        return effects

    def _learn(
        self, peer: EndpointId, announcements: Sequence[Announcement]
    ) -> tuple[Announcement, ...]:
        others = [each for each in announcements if each.origin != self.local]
        fresh = self._memory.learn(peer, others)
        if fresh:
            self._forget_knowledge()
        return fresh

    def _send(
        self,
        effects: list[Effect],
        peers: Sequence[EndpointId],
        announcements: tuple[Announcement, ...],
    ) -> None:
        if peers:
            for items in in_messages(announcements):
                effects += [SendControl(peer, Announcements(items)) for peer in peers]

    def _forget_knowledge(self) -> None:
        self._knowledge = None
        self.reach.forget()
        self.names.forget()
        self.routing.forget()

    # Events.

    def _refresh(
        self, effects: list[Effect], fresh: Sequence[Announcement] = ()
    ) -> tuple[Announcement, ...]:
        """Compare who is reachable with who was, and tell; give what the peers have to hear.

        They hear what is fresh of those who are or were reachable. What is fresh of others is kept
        until a path to them is known, and passed on then: so each peer has heard of all whom we can
        reach, which makes them reachable there.
        """
        found, lost = self.reach.refresh()
        self._memory.keep_all(found)
        heard = [each for each in fresh if each.origin in self.reach or each.origin in lost]
        news = {each.origin: each for each in heard}
        effects.append(RoutesChanged())
        for endpoint in found:
            effects.append(EmitStatus(reach_event(endpoint, is_found=True)))
            if endpoint in self.topology.announcements:
                news[endpoint] = self.topology.announcements[endpoint]
        effects += [EmitStatus(reach_event(endpoint, is_found=False)) for endpoint in lost]
        return tuple(news.values())
