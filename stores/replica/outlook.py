"""What is so at a proxy of a group, and how it speaks: its leader, what was asked. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from stores.effects import Multicast, Unicast
from stores.group.codec import GroupCodec
from stores.group.positions import MemberId
from stores.group.words import OUTSIDE, Barred, Letter, Seek, Word
from stores.replica.asked.outbox import Outbox
from stores.replica.effects import ReplicaEffect
from stores.seeker import Seeker
from stores.statistics import LogStatistics, StoreStatistics
from stores.work import WithoutWork
from wire.identifiers import EndpointId

OutboxT = TypeVar("OutboxT", bound=Outbox)


class Outlook(WithoutWork, ABC, Generic[OutboxT]):
    """A proxy, as far as it is looked at, and as it speaks."""

    size = 0
    """Bytes of what it holds, which is nothing."""

    def __init__(self, outbox: OutboxT, codec: GroupCodec, incarnation: int) -> None:
        """Start without a leader; what the handle asks for is in the ``outbox``."""
        self.entity = outbox.entity
        self.group: bytes | None = None
        """That of the leader which is followed, or was last."""
        self._codec = codec
        self._effects: list[ReplicaEffect] = []
        self._seeker = new_seeker()
        self._outbox = outbox
        self._resolved_request = 0
        self._sought = 2 * (incarnation >> 1)
        """The number of the last question for the leader."""

    # -- what is so ------------------------------------------------------------------------------

    @property
    def leader(self) -> EndpointId | None:
        """Where the leader is that is followed, or was last."""
        return None if self._seeker.leader is None else self._seeker.leader.entity.endpoint

    @abstractmethod
    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts; changes nothing."""

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        return self._outbox.has_room

    def is_stale(self) -> bool:
        """Give false: it has nothing that could be old."""
        return False

    def is_voter(self, member: MemberId) -> bool:
        """Give false: a proxy counts on no vote."""
        return False

    # -- letters, for the guard ------------------------------------------------------------------

    def read(self, payload: bytes) -> Letter:
        """Read a letter; raises ``DecodeError``."""
        return self._codec.decode(payload)

    def write(self, word: Barred) -> Iterable[bytes]:
        """Write nothing: a proxy does not answer what it does not take."""
        return ()

    def explain_idle(self) -> str:
        """Say what is missing to be idle; empty if nothing is known to be."""
        words = self._outbox.words
        missing = [] if self._seeker.is_in_touch else [f"no {words.leader} answers"]
        if count := self._outbox.last_request - self._resolved_request:
            missing.append(f"{count} {words.requests} have no answer from the {words.leader}")
        return "; ".join(missing)

    # -- what it says ----------------------------------------------------------------------------

    def _seek(self) -> None:
        self._sought += 1
        leader = self.leader if self._seeker.is_in_touch else None
        for payload in self._codec.encode(OUTSIDE, None, Seek(self._sought)):
            self._effects.append(Multicast(payload) if leader is None else Unicast(leader, payload))

    def _say(self, where: EndpointId, word: Word) -> None:
        for payload in self._codec.encode(OUTSIDE, self.group, word):
            self._effects.append(Unicast(where, payload))

    def _take_effects(self) -> list[ReplicaEffect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects


def new_seeker() -> Seeker:
    """Give one that knows no leader yet. The terms of groups are compared as they are."""
    return Seeker(term_of=int)
