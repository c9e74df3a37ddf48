"""All decisions of an endpoint about the mesh: who is there, who wants what, where things go. Pure.

Announcements flow in and out, routes follow from them (design section 6). The rule that makes a
publish arrive that follows ``peer()`` or ``await_peer`` directly: on every link announcements
precede data, so that a message never overtakes the knowledge that routed it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from endpoint.authorisation import Authorisation, Forgeries
from endpoint.duplicates import SequenceWindow, SequenceWindows
from endpoint.effects import (
    DropPeer,
    Effect,
    EmitStatus,
    RolesChanged,
    RoutesChanged,
    SendControl,
)
from endpoint.news import (
    ANNOUNCEMENT_SIZE_MAX,
    ANNOUNCEMENTS_SIZE_MAX,
    TOPICS_SIZE_MAX,
    in_messages,
    size_of,
    topics_size,
)
from endpoint.rights import rights_changed
from endpoint.routes import Proof, Route
from endpoint.status import StatusCode, StatusEvent
from endpoint.topology import Topology
from handshake.roles import ALL_RIGHTS, Rights, Role, Roles
from wire.clocks import LamportTime, VectorTime
from wire.codec import decode_header
from wire.errors import ErrorCode, LimitExceeded, RemoteProtocolError
from wire.identifiers import EndpointId
from wire.limits import LAMPORT_TIME_MAX, MIB, STORES_MAX, SUBSCRIPTIONS_MAX
from wire.messages import (
    Announcement,
    Announcements,
    Knowledge,
    NodeHeader,
    PackedType,
)
from wire.topics import SubscriptionCounts, store_name

ENDPOINTS_MAX: Final = 10_000
"""Endpoints remembered: ten times the largest mesh that flooding suits. Announcements of more are
ignored, so that a hostile peer cannot fill the memory with endpoints that do not exist."""

ROUTES_MAX: Final = 8_192
"""Routes remembered by header; the cache begins anew beyond, so that topics may come and go."""

ROUTES_SIZE_MAX: Final = 8 * MIB
"""Bytes of the headers of remembered routes: a peer may make up as many as it likes, each with a
topic of 64 KiB."""

UNREACHABLE_GRACE_SECONDS: Final = 60.0
"""How long an announcement of somebody who is not reachable is kept. News of an endpoint may
overtake the news of the link that leads to it, and what a handshake was told that we know has to
stay known until it is over. What somebody published before he left is routed by it, too."""

DIGEST_MISMATCHES_MAX: Final = 2
"""Keep-alives in a row with another digest before knowledge is compared: news takes time."""

_NOTHING: Final = LamportTime(0)


class EndpointCore:
    """One endpoint's view of the mesh. Events in, effects out; it never waits."""

    def __init__(
        self,
        local: EndpointId,
        *,
        forwarding: bool = True,
        authorisation: Authorisation | None = None,
        proof: Proof | None = None,
        endpoints_max: int = ENDPOINTS_MAX,
        subscriptions_max: int = SUBSCRIPTIONS_MAX,
    ) -> None:
        """Begin alone; ``forwarding=False`` makes a leaf that nobody routes through.

        Without an ``authorisation`` everybody may do everything; without a ``proof`` whoever signs
        is not believed.
        """
        self._endpoints_max = endpoints_max
        self._subscriptions_max = subscriptions_max
        self.local = local
        self.forgeries = Forgeries(proof)
        self._proof = proof
        self.authorisation = authorisation or Authorisation()
        self._is_relay_by_choice = forwarding
        self.forwarding = forwarding and self.authorisation.own_role.relay
        self.topology = Topology(local)
        self._clock = _NOTHING
        self._counts = SubscriptionCounts()
        self._subscribers: dict[object, tuple[str, ...]] = {}
        self._locals: dict[object, None] = {}
        """Subscribers that hear this endpoint's own messages."""
        self._stores: dict[str, object] = {}
        self._services: dict[str, object] = {}
        self._reachable: dict[EndpointId, None] = {}
        self._unreachable_since: dict[EndpointId, float] = {}
        self._ends: dict[EndpointId, int] = {}
        """When what proves the name of an endpoint that signs ends; for ``Proof.has_ended``."""
        self._windows = SequenceWindows(local, endpoints_max)
        self.routes: dict[bytes, Route] = {}
        self._leaf_routes: dict[EndpointId, dict[bytes, Route]] = {}
        self._routes_size = 0
        self._mismatches: dict[EndpointId, int] = {}
        self._sizes: dict[EndpointId, int] = {}
        self._size_in_all = 0
        self._knowledge: VectorTime | None = None
        self._digest: int | None = None
        self._announce_here()

    # What the handshake asks for.

    def knowledge(self) -> VectorTime:
        """Say how much is known of every endpoint."""
        if self._knowledge is None:
            known = self.topology.announcements.items()
            self._knowledge = VectorTime({origin: news.time for origin, news in known})
        return self._knowledge

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        """Give what somebody does not know of those who are here, nearest origin first.

        No more than one message takes: a handshake is followed by the rest.
        """
        return next(in_messages(self._lacking(knowledge)), ())

    def _lacking(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        # Who is not reachable is not passed on: the dead would wander about for ever.
        news = []
        for origin in (self.local, *self._reachable):
            announcement = self.topology.announcements.get(origin)
            if announcement and announcement.time > knowledge.get(origin, _NOTHING):
                news.append(announcement)
        return tuple(news)

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
            self._leaf_routes[peer] = {}
        elif not self.local.is_signing:
            self._outvote(knowledge.get(self.local, _NOTHING))
        mine = self._announce_here()
        news = (*self._refresh(effects, fresh), mine)
        self._send(effects, [peer], self._lacking(knowledge))
        self._send(effects, [hop for hop in self.topology.direct if hop != peer], news)
        reason = "handshake successful"
        event = StatusEvent(
            StatusCode.PEER_ADDED,
            peer,
            address,
            ErrorCode.NONE,
            reason,
            certificate_name=certificate_name,
        )
        effects += [EmitStatus(event), *self._drop_unfit((peer,))]
        return effects

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
        self._leaf_routes.pop(peer, None)
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
        mine = self._reclaim(announcements)
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
        self._send(effects, [peer], self._lacking(knowledge))
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
        """Sum up in 64 bits what is known of everybody who is here.

        Who is not reachable does not count: the others forget him at another moment.
        """
        if self._digest is None:
            announcements = self.topology.announcements
            here = [each for each in (self.local, *self._reachable) if each in announcements]
            times = {origin: announcements[origin].time for origin in here}
            self._digest = VectorTime(times).digest()
        return self._digest

    def tick(self, now: float) -> list[Effect]:
        """Forget endpoints that were not reachable for the grace time, or are no longer endorsed.

        ``now`` is in seconds.
        """
        effects: list[Effect] = []
        for origin in list(self.topology.announcements):
            if origin == self.local or origin in self._reachable:
                continue
            if now - self._unreachable_since.setdefault(origin, now) > UNREACHABLE_GRACE_SECONDS:
                self._forget(origin)
        proof = self._proof
        ended = [each for each, end in self._ends.items() if proof and proof.has_ended(end)]
        for origin in ended:
            self._forget(origin)
        if ended:
            self._refresh(effects)
        return effects

    # Local wishes.

    def subscribe(
        self, subscriber: object, topics: Iterable[str], *, local: bool = False
    ) -> list[Effect]:
        """A local subscriber wants these topics, besides what it wanted before.

        With ``local`` it also gets, from now on, what is published at this endpoint.
        """
        if local:
            self._locals[subscriber] = None
        wanted = self._subscribers.get(subscriber, ())
        added = tuple(topic for topic in dict.fromkeys(topics) if topic not in wanted)
        self._count(added)
        self._subscribers[subscriber] = (*wanted, *added)
        return self._announce_wishes()

    def unsubscribe(self, subscriber: object, topics: Iterable[str] | None = None) -> list[Effect]:
        """A local subscriber no longer wants these topics; ``None`` means that it is gone."""
        wanted = self._subscribers.get(subscriber, ())
        unwanted = wanted if topics is None else frozenset(topics)
        removed = tuple(topic for topic in wanted if topic in unwanted)
        if topics is None:
            self._subscribers.pop(subscriber, None)
            self._locals.pop(subscriber, None)
        else:
            self._subscribers[subscriber] = tuple(t for t in wanted if t not in removed)
        self._counts.remove(removed)
        return self._announce_wishes()

    def topics_of(self, subscriber: object) -> tuple[str, ...]:
        """Give the topics that a local subscriber wants."""
        return self._subscribers.get(subscriber, ())

    def forward(self, topics: Iterable[str]) -> list[Effect]:
        """Have these topics sent here, for nobody in particular."""
        self._count(tuple(topics))
        return self._announce_wishes()

    def _count(self, topics: tuple[str, ...]) -> None:
        self._counts.add(topics)
        wanted = self._counts.minimal()
        if len(wanted) > self._subscriptions_max or topics_size(wanted) > TOPICS_SIZE_MAX:
            self._counts.remove(topics)
            raise LimitExceeded(
                f"an endpoint announces up to {self._subscriptions_max} topics, of"
                f" {TOPICS_SIZE_MAX} bytes together: subscribe to their common beginnings"
            )

    def attach_store(self, topic: str, store: object) -> list[Effect]:
        """A local store hears commands on exactly this topic."""
        is_full = len(self._stores) >= STORES_MAX
        if is_full or topics_size((*self._stores, topic)) > TOPICS_SIZE_MAX:
            raise LimitExceeded(f"an endpoint holds up to {STORES_MAX} stores: use another one too")
        self._stores[topic] = store
        return self._announce_wishes(always=True)

    def detach_store(self, topic: str) -> list[Effect]:
        """A local store is gone."""
        del self._stores[topic]
        return self._announce_wishes(always=True)

    def serve(self, topic: str, service: object) -> None:
        """Have a local service hear commands on this topic that are sent to this endpoint alone.

        It is not announced: no other endpoint has to know of it.
        """
        self._services[topic] = service
        self._forget_routes()

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
        everybody = (self.local, *self.topology.announcements)
        before = {origin: self.role(origin) for origin in everybody}
        leaves = [peer for peer in self.topology.direct if self.authorisation.is_leaf(peer)]
        self.authorisation.renew(roles, name)
        self.forwarding = self._is_relay_by_choice and self.authorisation.own_role.relay
        effects = self._announce_wishes(always=True)
        effects += self._part_leaves(leaves)
        changed = {
            origin: (role, now)
            for origin, role in before.items()
            if (now := self.role(origin)) != role
        }
        # An endpoint does not refuse its own commands: others do.
        others = {origin: roles for origin, roles in changed.items() if origin != self.local}
        effects += rights_changed(self._stores, others, self.topology.announcements)
        for origin in changed:
            if origin == self.local or origin in self.topology.direct:
                self.authorisation.note_wishes(self.topology.announcements[origin])
        return [*effects, *self._drop_unfit(self.topology.direct)]

    def _part_leaves(self, before: Sequence[EndpointId]) -> list[Effect]:
        """Separate the routes of peers that are leaves now, and ask what others have heard.

        What a leaf passed on was not taken: of one that became a relay it is asked for.
        """
        leaves = [peer for peer in self.topology.direct if self.authorisation.is_leaf(peer)]
        self._leaf_routes = {peer: {} for peer in leaves}
        relays = [peer for peer in before if peer not in leaves]
        asked = [SendControl(peer, Knowledge(self.knowledge())) for peer in relays]
        return [RolesChanged(), *asked]

    def _drop_unfit(self, peers: Iterable[EndpointId]) -> list[Effect]:
        """End peerings that would not begin as things are."""
        found: list[Effect] = []
        for peer in peers:
            known = self.topology.announcements.get(peer)
            objection = self.authorisation.objection_to_peer(peer, known)
            if objection is not None:
                found.append(DropPeer(peer, ErrorCode.NOT_AUTHORIZED, objection))
        return found

    # Routes.

    def routes_of(self, peer: EndpointId) -> dict[bytes, Route]:
        """Give the routes of what a peer sends: those of all, unless it is a leaf by its role."""
        return self._leaf_routes.get(peer, self.routes)

    def route(self, encoded: bytes, peer: EndpointId | None = None) -> Route:
        """Say where a frame with this header goes that a peer has sent; raises ``DecodeError``."""
        routes = self.routes if peer is None else self.routes_of(peer)
        route = routes.get(encoded)
        if route is None:
            size = self._routes_size + len(encoded)
            if len(routes) >= ROUTES_MAX or size > ROUTES_SIZE_MAX:
                self._forget_routes()
            self._routes_size += len(encoded)
            header = decode_header(encoded)
            if routes is self.routes or header.sender == peer:
                route = self._resolve(header)
            else:
                reason = f"a leaf by its role sent messages of {header.sender}"
                route = Route(header, SequenceWindow.closed(), (), (), reason)
            routes[encoded] = route
        return route

    def _forget_routes(self) -> None:
        self.routes.clear()
        self._routes_size = 0
        for routes in self._leaf_routes.values():
            routes.clear()

    def _resolve(self, header: NodeHeader) -> Route:
        known = self.topology.announcements.get(header.sender)
        if known is None:
            # News precedes data, so that it is made up.
            return Route(header, SequenceWindow.closed(), (), ())
        if header.sender != self.local:
            refusal = self.authorisation.refusal(header, known)
            if refusal:
                return Route(header, SequenceWindow.closed(), (), (), refusal)
        hops: tuple[EndpointId, ...] = ()
        receivers: tuple[object, ...] = ()
        if header.receiver in (None, self.local):
            receivers = self._receivers(header)
        if header.receiver != self.local and (header.sender == self.local or self.forwarding):
            tree = self.topology.tree(header.sender)
            hops = tree.next_hops(self.local, self._targets(header, tree.parents))
        verify = None
        if known.seal is not None and self._proof is not None and header.sender != self.local:
            verify = self._proof.verifier(known.seal)
        window = self._windows.of(header)
        return Route(header, window, receivers, hops, verify=verify)

    def _receivers(self, header: NodeHeader) -> tuple[object, ...]:
        topic = header.topic
        is_own = header.sender == self.local
        if header.type is PackedType.COMMAND:
            receiver = None if is_own else self._stores.get(topic)
            if receiver is None and not is_own and header.receiver == self.local:
                receiver = self._services.get(topic)
            return () if receiver is None else (receiver,)
        readers = self._locals if is_own else self._subscribers
        return tuple(each for each in readers if topic.startswith(self._subscribers[each]))

    def _targets(
        self, header: NodeHeader, candidates: Iterable[EndpointId]
    ) -> Iterable[EndpointId]:
        if header.receiver is not None:
            role = self.role(header.receiver)
            return (header.receiver,) if self.authorisation.may_hear(role, header) else ()
        return [origin for origin in candidates if self._wants(origin, header)]

    def _wants(self, origin: EndpointId, header: NodeHeader) -> bool:
        announcement = self.topology.announcements.get(origin)
        if announcement is None:
            return False
        if header.type is PackedType.COMMAND:
            is_wanted = header.topic in announcement.stores
        else:
            is_wanted = header.topic.startswith(announcement.subscriptions)
        return is_wanted and self.authorisation.may_hear(self.role(origin), header)

    def role(self, origin: EndpointId) -> Role:
        """Give the role of an endpoint, by what is known of it."""
        return self.authorisation.role(origin, self.topology.announcements.get(origin))

    def who(self, origin: EndpointId) -> str:
        """Name an endpoint with its role, for a refusal."""
        known = self.topology.announcements.get(origin)
        return self.authorisation.who(None if known is None else known.name)

    def rights(self, origin: EndpointId, store: str) -> Rights:
        """Say what an endpoint may do with a store or log."""
        return ALL_RIGHTS if origin == self.local else self.role(origin).rights(store)

    # Questions.

    def is_reachable(self, endpoint: EndpointId) -> bool:
        """Tell whether there is a path to the endpoint and its announcement has come."""
        return endpoint in self._reachable and endpoint in self.topology.announcements

    def subscribers(self, topic: str) -> list[EndpointId]:
        """Name the other endpoints that a message on this topic goes to from here."""
        header = NodeHeader(PackedType.DATA, self.local, None, topic)
        return [
            each for each in self._reachable if each != self.local and self._wants(each, header)
        ]

    def reachable_count(self) -> int:
        """Count the other endpoints that a path leads to."""
        return len(self._reachable)

    def find_store(self, topic: str) -> EndpointId | None:
        """Say which endpoint hears commands on a store topic, if one is known."""
        if topic in self._stores:
            return self.local
        for origin in self._reachable:
            announcement = self.topology.announcements.get(origin)
            if announcement and topic in announcement.stores and self._leads(origin, topic):
                return origin
        return None

    def _leads(self, origin: EndpointId, topic: str) -> bool:
        return self.rights(origin, store_name(topic) or "").lead

    def find_stores(self, topics: Container[str]) -> Iterator[tuple[EndpointId, str]]:
        """Say which endpoints hear commands on these store topics, the nearest first."""
        for origin in self._reachable:
            announcement = self.topology.announcements.get(origin)
            for topic in () if announcement is None else announcement.stores:
                if topic in topics and self._leads(origin, topic):
                    yield origin, topic

    def names_of(self, lead: str, follow: str) -> tuple[str, ...]:
        """Name the stores or logs that can be reached, sorted: their topics end with ``lead``.

        Those that only another endpoint holds a copy of, at a topic that ends with ``follow``, are
        among them: their leader may come back.
        """
        names = {topic.removesuffix(lead) for topic in self._stores if topic.endswith(lead)}
        for origin in self._reachable:
            announcement = self.topology.announcements.get(origin)
            for topic in () if announcement is None else announcement.stores:
                if topic.endswith((lead, follow)):
                    names.add(topic.removesuffix(lead).removesuffix(follow))
        return tuple(sorted(names))

    def explain_unreachable(self, endpoint: EndpointId) -> str:
        """Say in a sentence why ``await_peer`` does not come true."""
        if endpoint in self.topology.announcements:
            return f"endpoint {endpoint} has been heard of, but no path to it is known"
        if not self.topology.direct:
            return f"endpoint {endpoint} is unknown: this endpoint has no peers; call peer() first"
        known = ", ".join(str(origin) for origin in self._reachable)
        return f"endpoint {endpoint} is unknown; reachable are: {known}"

    # Announcing.

    def _announce_here(self) -> Announcement:
        self._clock = min(self._clock.next(), LamportTime(LAMPORT_TIME_MAX))
        announcement = Announcement(
            origin=self.local,
            time=self._clock,
            links=tuple(sorted(self.topology.direct)),
            subscriptions=self._counts.minimal(),
            stores=tuple(sorted(self._stores)),
            forwarding=self.forwarding,
            name=self.authorisation.name,
        )
        if self._proof is not None:
            announcement = self._proof.seal(announcement)
        self.topology.learn(announcement)
        self._forget_knowledge()
        return announcement

    def _announce_wishes(self, *, always: bool = False) -> list[Effect]:
        effects: list[Effect] = [RoutesChanged()]
        self._forget_routes()
        known = self.topology.announcements[self.local]
        if always or known.subscriptions != self._counts.minimal():
            self._send(effects, list(self.topology.direct), (self._announce_here(),))
        return effects

    def _learn(
        self, peer: EndpointId, announcements: Sequence[Announcement]
    ) -> tuple[Announcement, ...]:
        others = (each for each in announcements if each.origin != self.local)
        fresh = [announcement for announcement in others if self._keep(peer, announcement)]
        if fresh:
            self._forget_knowledge()
        return tuple(fresh)

    def _keep(self, peer: EndpointId, announcement: Announcement) -> bool:
        """Take in what another endpoint announces; false if it is no news, or finds no room."""
        origin, size = announcement.origin, size_of(announcement)
        if size > ANNOUNCEMENT_SIZE_MAX:
            raise RemoteProtocolError(
                f"an announcement of {size} bytes; {ANNOUNCEMENT_SIZE_MAX} are allowed",
                ErrorCode.LIMIT_EXCEEDED,
            )
        size_in_all = self._size_in_all - self._sizes.get(origin, 0) + size
        is_full = len(self._sizes) >= self._endpoints_max and origin not in self._sizes
        has_room = not is_full and size_in_all <= ANNOUNCEMENTS_SIZE_MAX
        known = self.topology.announcements.get(origin)
        if known is not None and known.time >= announcement.time:
            return False
        if self.forgeries.is_forged(peer, announcement):
            return False
        if self.authorisation.is_renamed(announcement, known):
            return False
        if not has_room or not self.topology.learn(announcement):
            return False
        self._sizes[origin], self._size_in_all = size, size_in_all
        end = None if self._proof is None else self._proof.end_of(announcement)
        if end is not None:
            self._ends[origin] = end
        return True

    def _reclaim(self, announcements: Sequence[Announcement]) -> tuple[Announcement, ...]:
        """Speak up when somebody passes on newer word of us than ours: it is forged, ours must win.

        Our own words come back in every cycle of the mesh, and mean nothing.
        """
        times = [news.time for news in announcements if news.origin == self.local]
        # Whoever signs has no earlier life, and nobody believes what is forged.
        if not times or max(times) <= self._clock or self.local.is_signing:
            return ()
        self._outvote(max(times))
        return (self._announce_here(),)

    def _outvote(self, time: LamportTime) -> None:
        """Speak later than ``time`` from now on.

        Others' clocks never move ours otherwise: one forged announcement would push the clocks of
        the whole mesh to their limit.
        """
        self._clock = max(self._clock, time)

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
        self._knowledge = self._digest = None
        self._forget_routes()

    def _forget(self, origin: EndpointId) -> None:
        # Its sequence windows stay: what it sent before may still be on the way.
        self.topology.forget(origin)
        self._unreachable_since.pop(origin, None)
        self._ends.pop(origin, None)
        self._size_in_all -= self._sizes.pop(origin)
        self._forget_knowledge()

    # Events.

    def _refresh(
        self, effects: list[Effect], fresh: Sequence[Announcement] = ()
    ) -> tuple[Announcement, ...]:
        """Compare who is reachable with who was, and tell; give what the peers have to hear.

        They hear what is fresh of those who are or were reachable. What is fresh of others is kept
        until a path to them is known, and passed on then: so each peer has heard of all whom we can
        reach, which makes them reachable there.
        """
        before, after = self._reachable, self.topology.reachable()
        self._reachable = dict.fromkeys(after)
        self._digest = None
        heard = [each for each in fresh if each.origin in before or each.origin in after]
        news = {each.origin: each for each in heard}
        effects.append(RoutesChanged())
        for endpoint in after:
            if endpoint not in before:
                # Its next absence has a grace time of its own.
                self._unreachable_since.pop(endpoint, None)
                reason = "found a new endpoint in the mesh"
                self._emit(effects, StatusCode.ENDPOINT_DISCOVERED, endpoint, None, reason)
                if endpoint in self.topology.announcements:
                    news[endpoint] = self.topology.announcements[endpoint]
        for endpoint in before:
            if endpoint not in after:
                reason = "lost the last path"
                self._emit(effects, StatusCode.ENDPOINT_UNREACHABLE, endpoint, None, reason)
        return tuple(news.values())

    @staticmethod
    def _emit(
        effects: list[Effect],
        status: StatusCode,
        endpoint: EndpointId,
        address: tuple[str, int] | None,
        reason: str,
    ) -> None:
        event = StatusEvent(status, endpoint, address, ErrorCode.NONE, reason)
        effects.append(EmitStatus(event))
