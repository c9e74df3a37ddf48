"""What handles of replicas of groups have in common: who leads, who there is, and who votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.attaching import LEADER_SECONDS, ORDER_SECONDS
from endpoint.replicas.runner import Runner
from endpoint.replicas.stores.reading import READ_SECONDS
from stores.group.membership import MemberStatus
from stores.group.words import Order
from stores.replica.core import GroupCore
from wire.public import public


@public
@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group, as its leader sees it."""

    name: str
    is_voter: bool
    is_leader: bool
    is_whole: bool
    """False while it lacks something that it had acknowledged; or was not heard yet."""
    lag: int
    """Journal entries that it has not acknowledged."""
    silent_seconds: float
    """Since it was heard."""


class Grouped(Protocol):
    """The part of a replica, as far as its handle leads and counts."""

    @property
    def runner(self) -> Runner:
        """What drives it."""

    @property
    def core(self) -> GroupCore:
        """What decides."""

    async def await_leader(self, seconds: float) -> None:
        """Wait until a leader serves this replica; raises ``NoQuorum``."""

    async def order(self, order: Order, name: str, seconds: float) -> tuple[MemberStatus, ...]:
        """Have the leader do something with a member, and give what it knows of all then."""

    async def force(self, seconds: float) -> None:
        """Lead without a majority."""


class GroupHandle:
    """A replica whose group elects its leader, as far as the group is looked at, and steered."""

    def __init__(self, part: Grouped) -> None:
        """Ask what drives the replica."""
        self._group = part

    def leader(self) -> str | None:
        """Give the name of the leader, as far as this replica knows; ``None`` if it knows none."""
        core = self._group.core
        return core.leader.name if core.is_served and core.leader is not None else None

    def is_leader(self) -> bool:
        """Tell whether this replica leads, and serves."""
        return self._group.runner.error is None and self._group.core.is_leader

    async def await_leader(self, timeout: Seconds = LEADER_SECONDS) -> str:
        """Wait until a leader serves this replica, and give its name.

        Raises ``NoQuorum`` after ``timeout`` seconds, which says what is missing.
        """
        await self._group.await_leader(arguments.seconds("timeout", timeout))
        leader = self._group.core.leader
        assert leader is not None, "it was waited for"
        return leader.name

    # The members.

    async def members(self) -> list[GroupMember]:
        """Give all members, as the leader knows them; without one the voters, by name alone."""
        await trio.lowlevel.checkpoint()
        core = self._group.core
        if not core.is_served:
            return [
                GroupMember(each.name, True, False, False, 0, 0.0)  # noqa: FBT003 - they have names
                for each in core.voters
            ]
        known = await self._group.order(Order.TELL, self._own_name, READ_SECONDS)
        end = max(each.match for each in known)
        leader = core.leader
        return [
            GroupMember(
                each.member.name,
                each.is_voter,
                each.member == leader,
                each.is_whole,
                end - each.match,
                each.silent_ticks / 10,
            )
            for each in known
        ]

    async def add_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Give the replica at the endpoint called ``name`` a vote, once it is level.

        Raises ``NoQuorum``, ``NotAllowed`` and ``RequestTimeout``, which says what is in the way
        after ``timeout`` seconds; then it may be done later still.
        """
        await self._order(Order.ADD, name, timeout)

    async def remove_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Take the vote of the replica at the endpoint called ``name``.

        Refused while the voters that stay have no healthy majority, and of three voters for one
        that is in touch: two voters survive no loss. One that is declared (``voters=``) and comes
        back is given its vote again. Raises as ``add_voter`` does.
        """
        await self._order(Order.REMOVE, name, timeout)

    async def transfer(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have the voter at the endpoint called ``name`` lead; raises as ``add_voter`` does."""
        await self._order(Order.LEAD, name, timeout)

    async def promote(self, *, force: bool = False, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have this replica lead: by a transfer, or with ``force`` without a majority.

        ``force`` is for a person who knows that the other voters are gone for good. What a majority
        of them had and this replica lacks is lost, though it was acknowledged; a voter that comes
        back with it keeps it in a file of its own, ``PATH.lost-TERM``. Raises as ``add_voter``
        does, and with ``force`` ``PromotionRefused`` while another replica leads.
        """
        if force:
            await self._group.force(order_seconds(timeout))
        else:
            await self._order(Order.LEAD, self._own_name, timeout)

    async def _order(self, order: Order, name: str, timeout: Seconds) -> None:
        name = arguments.text("name", name)
        await self._group.order(order, name, order_seconds(timeout))

    @property
    def _own_name(self) -> str:
        return self._group.core.own.name


def order_seconds(timeout: Seconds) -> float:
    """Check how long something that is asked of a group may take."""
    return arguments.seconds("timeout", timeout)
