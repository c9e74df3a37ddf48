"""Who may do what, as one endpoint sees it: names of certificates, their roles, and refusals. Pure.

The first endpoint on the way knows a peer by its certificate, and answers for it: it takes nothing
from the peer under another name, and of a leaf nothing that is not its own. All others believe
the name in an announcement, because those who passed it on have the role of a relay. What they may
do with that trust is in ``docs/security.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from endpoint.mesh.routes import Proof
from endpoint.mesh.status import StatusCode, StatusEvent
from handshake.roles import EVERYTHING, NOTHING, Role, Roles
from wire.errors import ErrorCode, NotAllowed, RemoteProtocolError
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType
from wire.scalars import shorten

REFUSALS_MAX: Final = 256
"""Different refusals that are told of in one look of the loop; more are only counted."""


class Refusals:
    """What was refused since the last look, gathered: whoever is refused could flood the events."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.total = 0
        self._counts: dict[tuple[EndpointId, str], int] = {}

    def note(self, sender: EndpointId, reason: str, count: int = 1) -> None:
        """Take note of messages of an endpoint that were refused for this reason."""
        self.total += count
        key = (sender, reason)
        if key in self._counts or len(self._counts) < REFUSALS_MAX:
            self._counts[key] = self._counts.get(key, 0) + count

    def take(self) -> Iterator[tuple[EndpointId, str, int]]:
        """Give what was refused since the last call: by whom, why, and how often."""
        counts, self._counts = self._counts, {}
        for (sender, reason), count in counts.items():
            yield sender, reason, count

    def events(self, status: StatusCode) -> Iterator[StatusEvent]:
        """Tell what was refused since the last call, once for each endpoint and reason."""
        is_size = status is StatusCode.MESSAGE_TOO_LARGE
        code = ErrorCode.LIMIT_EXCEEDED if is_size else ErrorCode.NOT_AUTHORIZED
        for sender, reason, count in self.take():
            text = f"{reason} ({count} since the last look)"
            yield StatusEvent(status, sender, None, code, text)


class Forgeries(Refusals):
    """What somebody passed on in the name of an endpoint that signs, and it never said."""

    def __init__(self, proof: Proof | None) -> None:
        """Look at seals with ``proof``; without, whoever signs is not believed."""
        super().__init__()
        self._proof = proof

    def is_forged(self, peer: EndpointId, announcement: Announcement) -> bool:
        """Tell whether an announcement is not its origin's; then somebody made it up or changed it.

        Everybody looks at it before he passes it on, so that the peer which did is no honest one.
        """
        if not announcement.origin.is_signing and announcement.seal is None:
            return False
        objection: str | None = "nothing here can look at seals"
        if self._proof is not None:
            objection = self._proof.objection(announcement)
        if objection is None:
            return False
        reason = f"an announcement of it came from {peer} and is not its own: {objection}"
        self.note(announcement.origin, reason)
        return True


class Authorisation:
    """The roles of one mesh, applied to whom this endpoint hears of.

    Without roles everybody who is in may do everything. Names are held to nevertheless: they are
    for those endpoints that have roles.
    """

    def __init__(
        self,
        roles: Roles | None = None,
        name: str | None = None,
        *,
        is_wary: bool = False,
        are_names_proven: bool = False,
    ) -> None:
        """Apply ``roles``; ``name`` is what this endpoint's own certificate calls it.

        Who is wary does not take a relay's word for a name: only a peer's certificate, or a seal.
        ``are_names_proven`` says that names in certificates come from an own authority: a holder of
        a cluster secret gives itself any.
        """
        self._is_wary = is_wary
        self.are_names_proven = are_names_proven
        self.renew(roles, name)
        self.refusals = Refusals()
        self._certificates: dict[EndpointId, str | None] = {}

    def renew(self, roles: Roles | None, name: str | None) -> None:
        """Go by these roles, and this name for the endpoint itself, from now on."""
        self.roles = roles
        self.name = name
        self.own_role = EVERYTHING if roles is None else roles.find(name) or NOTHING

    # Peers.

    def objection(
        self,
        peer: EndpointId,
        certificate_name: str | None,
        news: Iterable[Announcement],
        known: Announcement | None,
    ) -> str | None:
        """Say why a connection must not become a peering; ``None`` if it may.

        ``known`` is what was known of an endpoint with the peer's id, ``news`` what the peer says.
        """
        own = [each for each in news if each.origin == peer]
        for each in (*own, *filter(None, (known,))):
            if each.name != certificate_name:
                return (
                    f"endpoint {peer} is called {_quoted(each.name)}, and this certificate says"
                    f" {_quoted(certificate_name)}: an id belongs to one name"
                )
        role = self._role_named(certificate_name)
        if role is None:
            return (
                f"there is no role for the name {_quoted(certificate_name)}: add it to the roles,"
                " or give them a default"
            )
        if not role.relay and any(each.forwarding for each in own):
            return (
                f"the role of {_quoted(certificate_name)} is that of a leaf: set forwarding=False"
                " there, or relay = true in the role"
            )
        return None

    def enter(self, peer: EndpointId, certificate_name: str | None) -> None:
        """A peering stands, and the peer's certificate calls it so."""
        self._certificates[peer] = certificate_name

    def leave(self, peer: EndpointId) -> None:
        """A peering ended."""
        self._certificates.pop(peer, None)

    def is_leaf(self, peer: EndpointId) -> bool:
        """Tell whether a peer speaks for itself alone."""
        role = self._role_named(self._certificates.get(peer))
        return role is not None and not role.relay

    def heard(self, peer: EndpointId, news: Iterable[Announcement]) -> list[Announcement]:
        """Give what counts of a peer's announcements; raises ``RemoteProtocolError``.

        A leaf is heard about itself only; and what a peer says of itself must not have become what
        would have kept it out.
        """
        if peer not in self._certificates:
            return list(news)
        certificate_name, is_leaf = self._certificates[peer], self.is_leaf(peer)
        taken = []
        for each in news:
            if each.origin == peer:
                objection = self.objection(peer, certificate_name, (each,), None)
                if objection is not None:
                    raise RemoteProtocolError(objection, ErrorCode.NOT_AUTHORIZED)
                self.note_wishes(each)
            elif is_leaf:
                continue  # Every leaf passes on what it hears, and means nothing by it.
            taken.append(each)
        return taken

    def objection_to_peer(self, peer: EndpointId, known: Announcement | None) -> str | None:
        """Say why a peering must not go on by the roles in force now; ``None`` if it may."""
        return self.objection(peer, self._certificates[peer], filter(None, (known,)), None)

    def note_wishes(self, news: Announcement) -> None:
        """Note what an endpoint wants, and is not given."""
        role = self._role_named(news.name) or NOTHING
        for topic in news.subscriptions:
            if not topic.startswith(role.subscribe):
                reason = f"{self.who(news.name)} may not subscribe to {shorten(topic)}"
                self.refusals.note(news.origin, f"{reason}, or not to all of it")
        for topic in news.stores:
            if not role.may_hear(topic):
                reason = f"{self.who(news.name)} may not hear {shorten(topic)}"
                self.refusals.note(news.origin, reason)

    # Everybody.

    def is_renamed(self, news: Announcement, known: Announcement | None) -> bool:
        """Tell whether somebody is called otherwise than before, which is a lie of somebody."""
        if known is None or known.name == news.name:
            return False
        reason = f"it is called {_quoted(known.name)}, and somebody says {_quoted(news.name)}"
        self.refusals.note(news.origin, reason)
        return True

    def role(self, origin: EndpointId, known: Announcement | None) -> Role:
        """Give the role of an endpoint, by what is known of it."""
        if self.roles is None:
            return EVERYTHING
        return self._role_named(self.believed_name(origin, known)) or NOTHING

    def believed_name(self, origin: EndpointId, known: Announcement | None) -> str | None:
        """Give what the certificate of an endpoint calls it, as far as that is believed here."""
        if origin in self._certificates:
            return self._certificates[origin]
        if known is None or (self._is_wary and known.seal is None):
            return None
        return known.name

    def refusal(self, header: NodeHeader, known: Announcement) -> str:
        """Say why messages with this header are not taken from their sender; empty if they are."""
        if self.roles is None:
            return ""
        role = self.role(header.sender, known)
        if header.type is PackedType.COMMAND:
            is_taken = role.may_command(header.topic)
        else:
            is_taken = role.may_publish(header.topic)
        if is_taken:
            return ""
        verb = "send commands to" if header.type is PackedType.COMMAND else "publish on"
        return f"{self.who(known.name)} may not {verb} {shorten(header.topic)}"

    def may_hear(self, role: Role, header: NodeHeader) -> bool:
        """Tell whether messages with this header are for somebody with that role."""
        if header.type is PackedType.COMMAND:
            # What is sent to one endpoint answers it; what it may ask is looked at by the store.
            return header.receiver is not None or role.may_hear(header.topic)
        return header.topic.startswith(role.subscribe)

    # This endpoint itself: errors where the mistake is made. Others do not rely on them.

    def check_publish(self, topic: str) -> None:
        """Raise ``NotAllowed`` if nobody would take a message on this topic from here."""
        if not self.own_role.may_publish(topic):
            raise NotAllowed(f"{self.who(self.name)} may not publish on {shorten(topic)}")

    def check_subscribe(self, topics: Iterable[str]) -> None:
        """Raise ``NotAllowed`` for a topic of which nothing would ever come here."""
        for topic in topics:
            if not self.own_role.permitted((topic,)):
                raise NotAllowed(f"{self.who(self.name)} may not subscribe to {shorten(topic)}")

    def who(self, name: str | None) -> str:
        """Name somebody with his role, for a refusal."""
        role = None if self.roles is None else self.roles.role_name(name)
        return f"{_quoted(name)} ({f'role {role}' if role is not None else 'without a role'})"

    def _role_named(self, name: str | None) -> Role | None:
        return EVERYTHING if self.roles is None else self.roles.find(name)


def _quoted(name: str | None) -> str:
    return "nothing" if name is None else shorten(name)
