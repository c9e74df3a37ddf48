"""What is so at a proxy of a group, and how it speaks: its leader, what it has seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stores.effects import Effect, Multicast, Unicast
from stores.group.codec import GroupCodec
from stores.group.positions import MemberId
from stores.group.words import OUTSIDE, Barred, Letter, Seek, Word
from stores.replica.tables.outbox import TableOutbox
from stores.requests import Requests
from stores.seeker import Seeker
from stores.statistics import StoreStatistics
from stores.table.bodies import Stamp
from stores.work import WithoutWork
from wire.identifiers import EndpointId, EntityId

NOTHING_SEEN: Final = Stamp(0, 0)


class Outlook(WithoutWork):
    """A proxy, as far as it is looked at, and as it speaks."""

    size = 0
    """Bytes of what it holds, which is nothing."""

    def __init__(self, entity: EntityId, codec: GroupCodec, incarnation: int) -> None:
        """Start without a leader."""
        self.entity = entity
        self.group: bytes | None = None
        """That of the leader which is followed, or was last."""
        self._codec = codec
        self._effects: list[Effect] = []
        self._seeker = new_seeker()
        self._outbox = TableOutbox(entity, incarnation)
        self._seen = NOTHING_SEEN
        self._resolved_request = 0
        self._sought = 2 * (incarnation >> 1)
        """The number of the last question for the leader."""

    # -- what is so ------------------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """What the handle asked for. Call ``flush`` afterwards, once for many requests."""
        return self._outbox.requests

    @property
    def leader(self) -> EndpointId | None:
        """Where the leader is that is followed, or was last."""
        return None if self._seeker.leader is None else self._seeker.leader.entity.endpoint

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts; changes nothing."""
        return StoreStatistics(
            "proxy",
            self._seeker.known_epoch,
            0,
            self._seen.revision,
            is_in_touch=self._seeker.is_in_touch,
            unanswered=len(self._outbox),
        )

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        return self._outbox.has_room

    def is_stale(self, now_ns: int) -> bool:
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
        """Say what is missing for the store to be idle; empty if nothing is known to be."""
        missing = [] if self._seeker.is_in_touch else ["no master answers"]
        if count := self.requests.last_request - self._resolved_request:
            missing.append(f"{count} writes have no answer from the master")
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

    def _take_effects(self) -> list[Effect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects


def new_seeker() -> Seeker:
    """Give one that knows no leader yet. The terms of groups are compared as they are."""
    return Seeker(term_of=int)
