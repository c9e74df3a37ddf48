"""Stands before a group's replica: applies the roles of the mesh to each letter, and answers.

Only senders without the right to vote pass by here: a voter may say all that a member says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from endpoint.mesh.core import EndpointCore
from endpoint.mesh.rights import Turn, turn_in_group
from endpoint.replicas.guarding import Gate, Guarding
from handshake.roles import Rights
from stores.effects import Effect, ToProxy, Unicast
from stores.gatekeeping import Post, Refusal
from stores.group.positions import MemberId
from stores.group.rights import GroupGuard, RightOf
from stores.group.words import OUTSIDE, Barred, Letter
from wire.identifiers import EndpointId


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

    def examine(self, post: Post, payload: bytes) -> Refusal | None:
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


class GroupGuarding(Guarding):
    """The roles of the mesh, applied to one replica of this endpoint."""

    def __init__(
        self, core: EndpointCore, store: str, part: GuardedPart, right_of: RightOf
    ) -> None:
        """Guard a replica of the store of this name; ``right_of`` judges its machine's requests."""
        super().__init__(core, store)
        self._part = part
        self._right_of = right_of

    def guard(self, sender: EndpointId) -> Gate | None:
        """Give the guard that looks at what a sender wants; ``None`` if it may say everything."""
        rights = self._rights(sender)
        return None if rights.vote else self._gate(sender, rights)

    def dismissal(self, endpoint: EndpointId, post: Post) -> list[Effect]:
        """Give what an endpoint is told that may not vote, or not read, any more."""
        rights = self._rights(endpoint)
        if rights.vote:
            return []
        gate = self._gate(endpoint, rights)
        return list(gate.say(gate.guard.dismiss()))

    def turn(self, before: Rights, now: Rights, *, is_master: bool) -> Turn:
        """Decide what becomes of an endpoint that has other rights now."""
        return turn_in_group(before, now)

    def _gate(self, sender: EndpointId, rights: Rights) -> LetterGate:
        guard = GroupGuard(self._store, self._core.permissions.who(sender), rights)
        return LetterGate(sender, guard, self._part.core, self._right_of)
