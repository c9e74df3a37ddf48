"""Decides for each frame who gets which of its messages, and for each header where it goes. Pure.

A frame of a peer is judged as a whole: what its sender may not send, what was here before, and what
was not signed goes nowhere. Everything is remembered by header, since headers repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from operator import and_
from typing import Final, TypeVar

from endpoint.mesh.authorisation import Authorisation, Forgeries
from endpoint.mesh.duplicates import SequenceWindow, SequenceWindows
from endpoint.mesh.routes import Deliveries, Head, Onward, Plan, Proof, Route, Selection
from endpoint.mesh.topology import Topology
from endpoint.mesh.wishes import Wishes
from handshake.roles import Role
from wire.codec import decode_header
from wire.errors import DecodeError
from wire.framing import NodeFrame, chosen
from wire.identifiers import EndpointId
from wire.limits import KIB, MIB
from wire.messages import NodeHeader, PackedType

ROUTES_MAX: Final = 8_192
"""Routes remembered by header; the cache begins anew beyond, so that topics may come and go."""

ROUTES_SIZE_MAX: Final = 8 * MIB
"""Bytes of the headers of remembered routes: a peer may make up as many as it likes, each with a
topic of 64 KiB."""

HEADS_SIZE_MAX: Final = 2 * MIB
"""Bytes of the heads of frames remembered, which begin anew beyond: eight thousand topics may take
turns, or a thousand publishers of 64 each. With what they say they take 10 MB, at worst."""

HEAD_CHARGE: Final = 192
"""Bytes that a head counts as besides its size: half of what Python needs for it at least."""

HEAD_SIZE_MAX: Final = 4 * KIB
"""Bytes of such a head: 64 topics of 60 bytes. Larger ones are looked up header by header."""

_TargetT = TypeVar("_TargetT")
_NO_ROUTES: Final[dict[bytes, Route]] = {}
_TABLE_SIZE: Final = 256
"""Bytes of a table for ``bytes.translate``: so many headers a frame has at most."""


class _Known:
    """What was decided about messages that certain peers may bring."""

    __slots__ = ("heads", "routes")

    def __init__(self) -> None:
        self.heads: dict[bytes, Head] = {}
        self.routes: dict[bytes, dict[bytes, Route]] = {}
        """By sender and encoded header."""

    def clear(self) -> None:
        self.heads.clear()
        self.routes.clear()


class Routing:
    """The routes of one endpoint. It never waits, and asks for nothing."""

    def __init__(
        self,
        topology: Topology,
        wishes: Wishes,
        authorisation: Authorisation,
        forgeries: Forgeries,
        proof: Proof | None,
        endpoints_max: int,
    ) -> None:
        """Go by what is known of the mesh, what is wanted here, and who may do what.

        Forgeries are counted in ``forgeries``; without a ``proof`` nothing that is signed is taken.
        """
        self.forwards = True
        """Whether messages of others are passed on."""
        self.duplicates = 0
        """Messages that came again."""
        self.undivided = 0
        """Messages of signed frames that were not passed on: parts of them are not for the peer."""
        self._topology: Final = topology
        self._local: Final = topology.local
        self._wishes: Final = wishes
        self._authorisation: Final = authorisation
        self._forgeries: Final = forgeries
        self._proof: Final = proof
        self._windows = SequenceWindows(topology.local, endpoints_max)
        self._known = _Known()
        self._leaves: dict[EndpointId, _Known] = {}
        """The same of peers that may speak for themselves alone."""
        self._count = self._size = self._heads_size = 0
        self._same: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._courses: dict[tuple[object, ...], int] = {}
        self._course_numbers = count()
        """No number is given twice: a frame may have routes of before and after ``forget``."""

    # Peers.

    def set_leaves(self, peers: Iterable[EndpointId]) -> None:
        """Take messages from these peers only if they have sent them themselves."""
        self._leaves = {peer: _Known() for peer in peers}
        self.forget()

    def add_leaf(self, peer: EndpointId) -> None:
        """Take messages from this peer only if it has sent them itself."""
        self._leaves[peer] = _Known()

    def remove(self, peer: EndpointId) -> None:
        """Forget a peer."""
        self._leaves.pop(peer, None)

    # Frames.

    def plan(self, peer: EndpointId, frame: NodeFrame) -> Plan | None:
        """Decide what becomes of a peer's frame, and note that it came; ``None``: nothing does.

        Raises ``DecodeError`` for a frame that breaks the protocol.
        """
        head = self._leaves.get(peer, self._known).heads.get(frame.head)
        if head is None:
            head = self._read_head(peer, frame)
        plan = head.plan
        if plan is None or frame.mask is not None:
            return self._judge(peer, frame, head)
        new = head.lead.window.admit_range(frame.first, frame.count)
        return plan if new is None else self._part(head, self._chosen(frame, new))

    def _read_head(self, peer: EndpointId, frame: NodeFrame) -> Head:
        """Look up each header of a frame, and remember what they say together."""
        known, sender, headers = self._leaves.get(peer, self._known), frame.sender, frame.headers
        try:
            routes = list(map(known.routes.get(sender, _NO_ROUTES).__getitem__, headers))
        except KeyError:
            routes = [self.route(sender, header, peer) for header in headers]
        head = Head(routes)
        if len(frame.head) <= HEAD_SIZE_MAX:
            size = len(frame.head) + HEAD_CHARGE
            if self._heads_size + size > HEADS_SIZE_MAX:
                self._forget_heads()
            self._heads_size += size
            known.heads[frame.head] = head
        return head

    def _judge(self, peer: EndpointId, frame: NodeFrame, head: Head) -> Plan | None:
        """Decide as ``plan`` does what becomes of any frame."""
        routes, lead, is_uniform = head.routes, head.lead, head.is_uniform
        if lead.refusal or not is_uniform:
            allowed = self._allowed(routes, frame)
            if allowed is not None and 1 not in allowed:
                return None
            lead = next(route for route in routes if not route.refusal)
        if lead.verify is not None and not self._is_genuine(lead, frame, peer):
            return None
        fresh = self._fresh(lead.window, frame)
        if fresh is not None and 1 not in fresh:
            return None
        if is_uniform:
            deliveries: Deliveries = [(receiver, fresh) for receiver in lead.receivers]
            onward = [(hop, fresh) for hop in lead.next_hops]
        else:
            # What is refused has neither receivers nor hops.
            deliveries = _parts(frame, fresh, [route.receivers for route in routes])
            onward = _parts(frame, fresh, [route.next_hops for route in routes])
        if frame.ttl <= 1:
            onward = []
        elif frame.is_signed:
            onward = self._undivided(frame, routes, onward)
        # Never back: views of the mesh differ for a moment.
        return Plan(head, deliveries, [each for each in onward if each[0] != peer])

    @staticmethod
    def _part(head: Head, some: bytes) -> Plan | None:
        """Have the local receivers get some messages of a frame, which goes no further."""
        parts = [(receiver, some) for receiver in head.lead.receivers]
        return Plan(head, parts, ()) if 1 in some else None

    def _allowed(self, routes: Sequence[Route], frame: NodeFrame) -> Selection:
        """Give the messages that their sender may send, and note the others."""
        if not any(route.refusal for route in routes):
            return None
        numbers = frame.numbers or bytes(frame.count)
        for number, route in enumerate(routes):
            if route.refusal and (found := numbers.count(number)):
                self._authorisation.refusals.note(route.header.sender, route.refusal, found)
        return _selected(numbers, [not route.refusal for route in routes])

    def _is_genuine(self, lead: Route, frame: NodeFrame, peer: EndpointId) -> bool:
        """Tell whether a frame of a sender that signs is its own, and brings anything new.

        Asked before the frame counts as seen: a forged one must not keep the true one out. Every
        endpoint on the way asks, so that a forged frame crosses one link.
        """
        assert lead.verify is not None, "asked for senders that sign"
        if not lead.window.missing(frame.first, frame.mask or (1 << frame.count) - 1):
            self.duplicates += frame.count
            return False
        if lead.verify(frame):
            return True
        reason = f"messages came from {peer} that it has not signed"
        self._forgeries.note(lead.header.sender, reason, frame.count)
        return False

    def _fresh(self, window: SequenceWindow, frame: NodeFrame) -> Selection:
        """Give the messages that were not here before, and note that they are now."""
        if frame.mask is None:
            new = window.admit_range(frame.first, frame.count)
        else:
            new = window.admit_mask(frame.first, frame.mask)
        return None if new is None else self._chosen(frame, new)

    def _chosen(self, frame: NodeFrame, new: int) -> bytes:
        """Give the messages of a mask, and count the others."""
        fresh = chosen(frame.mask, new, frame.count)
        self.duplicates += frame.count - fresh.count(1)
        return fresh

    def _undivided(
        self, frame: NodeFrame, routes: Sequence[Route], onward: Onward
    ) -> list[tuple[EndpointId, Selection]]:
        """Have each next hop get a signed frame as a whole, if it may hear all of it."""
        whole = [hop for hop, _ in onward if self._may_hear_all(hop, routes)]
        self.undivided += frame.count * (len(onward) - len(whole))
        return [(hop, None) for hop in whole]

    def _may_hear_all(self, hop: EndpointId, routes: Sequence[Route]) -> bool:
        role = self.role(hop)
        return len(routes) == 1 or all(
            route.header.receiver is not None or self._authorisation.may_hear(role, route.header)
            for route in routes
        )

    # Headers.

    def route(self, sender: bytes, encoded: bytes, peer: EndpointId | None = None) -> Route:
        """Say where messages with this header go that a peer has sent; raises ``DecodeError``."""
        known = self._known if peer is None else self._leaves.get(peer, self._known)
        route = known.routes.get(sender, _NO_ROUTES).get(encoded)
        if route is None:
            if self._count >= ROUTES_MAX or self._size + len(encoded) > ROUTES_SIZE_MAX:
                self.forget()
            self._count += 1
            self._size += len(encoded)
            header = decode_header(EndpointId(sender), encoded)
            if known is self._known or sender == peer:
                route = self._resolve(header)
            else:
                reason = f"a leaf by its role sent messages of {header.sender}"
                route = Route(header, SequenceWindow.closed(), refusal=reason)
            known.routes.setdefault(header.sender, {})[encoded] = route
        return route

    def next_hop(self, endpoint: EndpointId) -> EndpointId | None:
        """Give the peer by which an endpoint is reached; ``None`` without a path."""
        hops = self._topology.tree(self._local).next_hops(self._local, (endpoint,))
        return hops[0] if hops else None

    def passes(self, endpoint: EndpointId, encoded: bytes) -> bool:
        """Tell whether own messages with this header pass an endpoint, or end there."""
        try:
            audience = self.route(self._local, encoded).audience
        except DecodeError:
            return False
        parents = self._topology.tree(self._local).parents
        for target in audience:
            step: EndpointId | None = target
            while step is not None and step != self._local:
                if step == endpoint:
                    return True
                step = parents.get(step)
        return False

    def forget(self) -> None:
        """Decide anew about each header: the mesh, or what is wanted or allowed in it, changed."""
        for known in (self._known, *self._leaves.values()):
            known.clear()
        self._same.clear()
        self._courses.clear()
        self._count = self._size = self._heads_size = 0

    def _forget_heads(self) -> None:
        for known in (self._known, *self._leaves.values()):
            known.heads.clear()
        self._heads_size = 0

    def remembered(self) -> tuple[int, int]:
        """Count the routes that are remembered, and the bytes of their headers."""
        return self._count, self._size

    def _resolve(self, header: NodeHeader) -> Route:
        local, is_own = self._local, header.sender == self._local
        known = self._topology.announcements.get(header.sender)
        if known is None:
            # Announcements precede data on every link, so that data of an unknown sender is forged.
            return Route(header, SequenceWindow.closed())
        if not is_own and (refusal := self._authorisation.refusal(header, known)):
            return Route(header, SequenceWindow.closed(), refusal=refusal)
        receivers: tuple[object, ...] = ()
        audience: tuple[EndpointId, ...] = ()
        hops: tuple[EndpointId, ...] = ()
        if header.receiver in (None, local):
            receivers = self._wishes.receivers(header, is_own=is_own)
        if header.receiver != local and (is_own or self.forwards):
            tree = self._topology.tree(header.sender)
            audience = tuple(self._targets(header, tree.parents))
            hops = tree.next_hops(local, audience)
        verify = None
        if known.seal is not None and self._proof is not None and not is_own:
            verify = self._proof.verifier(known.seal)
        course = (header.type is PackedType.COMMAND, receivers, hops)
        return Route(
            header,
            self._windows.of(header),
            self._shared(receivers),
            self._shared(hops),
            self._shared(audience),
            verify=verify,
            course=self._courses.setdefault(course, next(self._course_numbers)),
        )

    def _shared(self, items: tuple[_TargetT, ...]) -> tuple[_TargetT, ...]:
        """Give the one tuple that stands for all that are equal to it, to save memory."""
        return self._same.setdefault(items, items)  # type: ignore[return-value]  # equal, so of one kind

    def _targets(
        self, header: NodeHeader, candidates: Iterable[EndpointId]
    ) -> Iterable[EndpointId]:
        if header.receiver is not None:
            role = self.role(header.receiver)
            return (header.receiver,) if self._authorisation.may_hear(role, header) else ()
        return [origin for origin in candidates if self.wants(origin, header)]

    def wants(self, origin: EndpointId, header: NodeHeader) -> bool:
        """Tell whether an endpoint elsewhere wants messages with this header, and may have them."""
        announcement = self._topology.announcements.get(origin)
        if announcement is None:
            return False
        if header.type is PackedType.COMMAND:
            is_wanted = header.topic in announcement.stores
        else:
            is_wanted = header.topic.startswith(announcement.subscriptions)
        return is_wanted and self._authorisation.may_hear(self.role(origin), header)

    def role(self, origin: EndpointId) -> Role:
        """Give the role of an endpoint, by what is known of it."""
        return self._authorisation.role(origin, self._topology.announcements.get(origin))


def _selected(numbers: bytes, goes: Sequence[bool]) -> bytes:
    """Select the messages whose header goes: 256 headers at most keep the loop in C."""
    return numbers.translate(bytes(goes).ljust(_TABLE_SIZE, b"\0"))


def _parts(
    frame: NodeFrame, selection: Selection, targets: Sequence[tuple[_TargetT, ...]]
) -> list[tuple[_TargetT, Selection]]:
    """Give what each target gets of the selected messages; ``targets`` are those of each header."""
    found: list[tuple[_TargetT, Selection]] = []
    for target in dict.fromkeys(each for some in targets for each in some):
        part = _selected(frame.numbers, [target in some for some in targets])
        if selection is not None:
            part = bytes(map(and_, part, selection))
        if 1 in part:
            found.append((target, None if 0 not in part else part))
    return found
