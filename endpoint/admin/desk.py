"""What an endpoint makes of the requests of others: who may ask for what, and how often. Pure.

Rights are those of the endpoint that the frame is from. What a request says of itself proves
nothing, and the answer goes to the same endpoint alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from endpoint.admin.protocol import Answer, Failed, Request, encode_answer
from endpoint.link.rates import Bucket
from handshake.access import Port, Right, StoreOf, permits
from handshake.principals import Proof
from handshake.roles import Role
from wire.errors import EncodeError, ErrorCode
from wire.identifiers import EndpointId
from wire.scalars import shorten
from wire.values import Value

REQUESTS_PER_SECOND: Final = 200
"""Requests that are looked at a second: a snapshot with nine stores takes 0.16 ms, which is a
thirtieth of a core if each of them is made anew."""

REQUESTS_PER_ASKER: Final = 50
"""Requests of one endpoint a second: a quarter of all, so that one keeps no other out."""

CACHE_SECONDS: Final = 0.25
"""How long a snapshot is given again: ten consoles cost what one does."""

UNDER_WAY_MAX: Final = 8
"""Requests that take time, such as promotions, at once: each is for another store."""

ASKERS_MAX: Final = 1_024
"""Askers whose rates are remembered: five seconds' worth if each request is from another one."""

BUSY: Final = "busy: it is asked too much; ask again in a second"


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that can be asked for."""

    right: Right
    """To lead the store or log in the first argument; or to see names and counts."""
    arguments: tuple[type, ...] = ()
    is_cached: bool = False
    """Whether it is done at once, and given again for a while; otherwise it takes time."""


VERBS: Final[Mapping[str, Verb]] = {
    "describe": Verb(Right.OBSERVE, is_cached=True),
    "promote": Verb(Right.LEAD, (str, bool)),
    "lead-log": Verb(Right.LEAD, (str, bool)),
}
"""All verbs, the right that each takes, and its arguments: of the last two the name, and whether to
use force."""


PORT: Final = Port(
    "the admin service",
    "endpoint/admin/service.py",
    (Proof.CERTIFICATE,),
    "reached through the mesh alone",
    {name: verb.right for name, verb in VERBS.items()},
    "By the sender of the frame, which alone is answered. `Endpoint(admin=False)` answers nothing.",
)


class Permissions(Protocol):
    """Who may do what, as the endpoint sees it."""

    def role(self, origin: EndpointId) -> Role:
        """Give the role of an endpoint."""
        ...

    def who(self, origin: EndpointId) -> str:
        """Name an endpoint with its role, for a refusal."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """Send these bytes to this endpoint."""

    to: EndpointId
    payload: bytes
    refusal: str = ""
    """What the asker has no right to, for the events."""


@dataclass(frozen=True, slots=True)
class Perform:
    """Carry this out, and tell ``Desk.finish`` what came of it."""

    sender: EndpointId
    request: Request


class Desk:
    """Takes requests, and decides what becomes of each."""

    def __init__(self, permissions: Permissions) -> None:
        """Answer to those who have the right."""
        self._permissions = permissions
        self._all = Bucket(REQUESTS_PER_SECOND)
        self._askers: dict[EndpointId, Bucket] = {}
        self._under_way = 0
        self._cached: dict[str, tuple[float, Value]] = {}

    def take(self, sender: EndpointId, request: Request, now: float) -> Reply | Perform:
        """Look at a request that came from ``sender`` at ``now`` seconds."""
        verb = VERBS.get(request.verb)
        if not self._has_room(sender, now):
            return self._refuse(sender, request, ErrorCode.LIMIT_EXCEEDED, BUSY)
        if verb is None:
            known = ", ".join(VERBS)
            text = f"this version has no verb {shorten(request.verb)}; there are {known}"
            return self._refuse(sender, request, ErrorCode.INVALID_DATA, text)
        if tuple(map(type, request.arguments)) != verb.arguments:
            wanted = ", ".join(each.__name__ for each in verb.arguments) or "nothing"
            text = f"{request.verb} takes {wanted}"
            return self._refuse(sender, request, ErrorCode.INVALID_DATA, text)
        lacking = self._lacking(sender, verb.right, request.arguments)
        if lacking:
            text = f"{self._permissions.who(sender)} may not {request.verb}: {lacking}"
            return self._refuse(sender, request, ErrorCode.NOT_AUTHORIZED, text, is_event=True)
        at, result = self._cached.get(request.verb, (now - 2 * CACHE_SECONDS, None))
        if verb.is_cached and now - at <= CACHE_SECONDS:
            return self._reply(sender, Answer(request.number, result))
        if not verb.is_cached:
            if self._under_way >= UNDER_WAY_MAX:
                return self._refuse(sender, request, ErrorCode.LIMIT_EXCEEDED, BUSY)
            self._under_way += 1
        return Perform(sender, request)

    def finish(self, performed: Perform, result: Value | Failed, now: float) -> Reply:
        """Answer what was carried out."""
        request = performed.request
        if not VERBS[request.verb].is_cached:
            self._under_way -= 1
        elif not isinstance(result, Failed):
            self._cached[request.verb] = now, result
        return self._reply(performed.sender, Answer(request.number, result))

    def _has_room(self, sender: EndpointId, now: float) -> bool:
        """Count a request; false if there were too many, which do not count."""
        asker = self._askers.pop(sender, None) or Bucket(REQUESTS_PER_ASKER)
        self._askers[sender] = asker  # the latest last
        if len(self._askers) > ASKERS_MAX:
            del self._askers[next(iter(self._askers))]
        half = 0.5  # of a request: what sums of fractions may be off
        if self._all.late_seconds(now) > -half / REQUESTS_PER_SECOND:
            return False
        if asker.late_seconds(now) > -half / REQUESTS_PER_ASKER:
            return False
        self._all.spend(now, 1)
        asker.spend(now, 1)
        return True

    def _lacking(self, sender: EndpointId, right: Right, arguments: tuple[Value, ...]) -> str:
        """Say which right is missing; empty if none is."""
        store = StoreOf(str(arguments[0]) if arguments else "")
        if permits(self._permissions.role(sender), right, store):
            return ""
        if right is Right.LEAD:
            return f"its role needs {shorten(store.name)} in lead"
        return f"its role needs {right} = true"

    def _refuse(
        self,
        sender: EndpointId,
        request: Request,
        code: ErrorCode,
        text: str,
        *,
        is_event: bool = False,
    ) -> Reply:
        payload = encode_answer(Answer(request.number, Failed(code, text)))
        return Reply(sender, payload, text if is_event else "")

    @staticmethod
    def _reply(sender: EndpointId, answer: Answer) -> Reply:
        try:
            payload = encode_answer(answer)
        except EncodeError as error:
            payload = encode_answer(Answer(answer.number, Failed.of(error)))
        return Reply(sender, payload)
