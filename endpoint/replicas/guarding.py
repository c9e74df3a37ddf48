"""Stands before one replica: applies the roles of the mesh to each letter, and answers. Pure.

Only senders without the right to vote pass by here: a voter may say all that a member says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from endpoint.mesh.core import EndpointCore
from handshake.roles import ALL_RIGHTS, Rights
from stores.effects import Effect, ToProxy, Unicast
from stores.group.positions import MemberId
from stores.group.rights import GroupGuard, RightOf
from stores.group.words import OUTSIDE, Barred, Letter
from wire.errors import NotAllowed
from wire.identifiers import EndpointId


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that is not taken."""

    text: str
    answer: tuple[Effect, ...] = ()
    """What its sender is told."""


def check_own_rights(core: EndpointCore, store: str, *rights: str) -> None:
    """Raise ``NotAllowed`` if this endpoint itself has none of these rights to a store or log."""
    own = core.authorisation.own_role.rights(store)
    if not any(getattr(own, right) for right in rights):
        who, wanted = core.permissions.who(core.local), " or ".join(rights)
        raise NotAllowed(f"{who} may not {wanted} {store}")


class Guarded(Protocol):
    """The replica, as far as its guard has to know it."""

    def is_voter(self, member: MemberId) -> bool:
        """Tell whether a member is a voter in force, or may be one by its declared name."""

    def read(self, payload: bytes) -> Letter:
        """Read a letter; raises ``DecodeError``."""

    def write(self, word: Barred) -> Iterable[bytes]:
        """Write a letter of this replica's."""


class GuardedPart(Protocol):
    """What has the replica that is here now."""

    @property
    def core(self) -> Guarded:
        """The replica; another one after a change of the role."""


@dataclass(frozen=True, slots=True)
class LetterGate:
    """Access control of one sender before one replica."""

    sender: EndpointId
    guard: GroupGuard
    replica: Guarded
    right_of: RightOf

    def examine(self, payload: bytes) -> Refusal | None:
        """Say why a letter is not taken; ``None`` if it is. Raises ``DecodeError``."""
        letter = self.replica.read(payload)
        barred = self.guard.examine(letter, self.replica.is_voter, self.right_of)
        if barred is None:
            return None
        # Two replicas that both refuse each other would otherwise say so for ever.
        is_answered = not isinstance(letter.content, Barred)
        answer = self.say(barred, is_outside=letter.sender == OUTSIDE) if is_answered else ()
        return Refusal(barred.text, tuple(answer))

    def say(self, barred: Barred, *, is_outside: bool = False) -> Iterable[Effect]:
        """Tell the sender; a proxy, which is outside of the group, hears another topic."""
        send = ToProxy if is_outside else Unicast
        return (send(self.sender, payload) for payload in self.replica.write(barred))


class GroupGuarding:
    """The roles of the mesh, applied to one replica of this endpoint."""

    def __init__(
        self, core: EndpointCore, store: str, part: GuardedPart, right_of: RightOf
    ) -> None:
        """Guard a replica of the store of this name; ``right_of`` judges its machine's requests."""
        self._core = core
        self._store = store
        self._part = part
        self._right_of = right_of

    def note(self, sender: EndpointId, reason: str) -> None:
        """Take note of a refusal."""
        self._core.authorisation.refusals.note(sender, reason)

    def check(self, *rights: str) -> None:
        """Raise ``NotAllowed`` if this endpoint itself has none of these rights."""
        check_own_rights(self._core, self._store, *rights)

    def guard(self, sender: EndpointId) -> LetterGate | None:
        """Give the guard that looks at what a sender wants; ``None`` if it may say everything."""
        if self._core.authorisation.roles is None:
            return None
        rights = self._rights(sender)
        return None if rights.vote else self._gate(sender, rights)

    def dismissal(self, endpoint: EndpointId) -> list[Effect]:
        """Give what an endpoint is told that may not vote, or not read, any more."""
        rights = self._rights(endpoint)
        if rights.vote:
            return []
        gate = self._gate(endpoint, rights)
        return list(gate.say(gate.guard.dismiss()))

    def _gate(self, sender: EndpointId, rights: Rights) -> LetterGate:
        guard = GroupGuard(self._store, self._core.permissions.who(sender), rights)
        return LetterGate(sender, guard, self._part.core, self._right_of)

    def _rights(self, endpoint: EndpointId) -> Rights:
        if self._core.authorisation.roles is None:
            return ALL_RIGHTS
        return self._core.permissions.rights(endpoint, self._store)
