"""What handles of stores and of logs have in common: room, the barrier, the end, and members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol, Unpack, overload

import trio

from endpoint import arguments
from endpoint.barriers import Callback, Seconds, barrier
from endpoint.closing import AsyncClosing
from endpoint.outcome import Outcome
from endpoint.replicas.attaching import LEADER_SECONDS, ORDER_SECONDS, READ_SECONDS
from endpoint.replicas.runner import YIELD_COUNT, Runner
from stores.group.membership import MemberStatus
from stores.group.packed_fields import NAME_SIZE_MAX
from stores.group.words import Order
from stores.quota import QuotaLimits
from stores.replica.core import GroupCore
from stores.table.bodies import ChangeQuota
from wire.errors import InvalidData
from wire.public import public

AWAIT_IDLE_SECONDS: Final = 15.0
"""Broker's own default for ``await_idle``."""


class ReplicaHandle(AsyncClosing):
    """A base of the handles that users get."""

    def __init__(self, runner: Runner) -> None:
        """Ask ``runner``."""
        self.runner = runner
        self._since_yield = 0

    def name(self) -> str:
        """Give the name of the store or log."""
        return self.runner.name

    @property
    def is_due(self) -> bool:
        """Whether so much was asked that others have their turn now; for a front end."""
        return self._since_yield >= YIELD_COUNT

    async def breathe(self) -> None:
        """Let others run, and wait until the core has room; for a front end."""
        await trio.lowlevel.checkpoint()
        await self.await_room()
        self.rest()

    def rest(self) -> bool:
        """Tell whether the core has room for more, and count anew if so; for a front end."""
        has_room = self.runner.core.has_room() or self.runner.error is not None
        if has_room:  # Otherwise the next one waits, too, even if this one is cancelled.
            self._since_yield = 0
        return has_room

    async def await_room(self) -> None:
        """Wait until the core has room for more; for a front end."""
        runner = self.runner
        while not runner.core.has_room() and runner.error is None:
            await runner.changed.park()

    @overload
    async def await_idle(self, timeout: Seconds = AWAIT_IDLE_SECONDS) -> Outcome: ...

    @overload
    async def await_idle(
        self, callback: Callback, timeout: Seconds = AWAIT_IDLE_SECONDS
    ) -> None: ...

    async def await_idle(
        self,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_IDLE_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until it is idle (seed 7.6.1); false after ``timeout`` seconds, with the reason.

        A store's master is idle when all its clones have acknowledged everything. A clone is idle
        when it has its master's state as of a round trip, and the master everything that was asked
        here. A log's keeper is idle when all that was asked is committed, and acknowledged by all
        followers; a follower when it has what its keeper had after it was asked.
        With a ``callback``, in the place of the timeout or before it, it returns ``None`` at once,
        and the callback is given the outcome later.
        """
        how = barrier("await_idle", positional, timeout, callback, AWAIT_IDLE_SECONDS)
        return await self.runner.wait(how)

    async def close(self) -> None:
        """Let go of the store or log, after what was asked here has its outcome."""
        if not self.runner.is_forked:
            await self.runner.leave()


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
    is_removed: bool = False
    """True if ``remove_voter`` took its vote, and ``add_voter`` has not given it one since."""


class Steered(Protocol):
    """A replica of a group that elects, as far as handles steer it; see ``GroupPart``."""

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

    async def ask(self, request: object, seconds: float) -> object:
        """Have the group do what no writer asks for, and give the answer of its machine."""

    async def force(self, seconds: float) -> None:
        """Lead without a majority."""


class GroupHandle:
    """A replica whose group elects its leader, as far as the group is looked at, and steered."""

    def __init__(self, part: Steered) -> None:
        """Ask what drives the replica."""
        self._group = part

    @property
    def _core(self) -> GroupCore:
        return self._group.core

    def leader(self) -> str | None:
        """Give the name of the leader, as far as this replica knows; ``None`` if it knows none."""
        core = self._core
        return core.leader.name if core.is_served and core.leader is not None else None

    def is_leader(self) -> bool:
        """Tell whether this replica leads, and serves."""
        return self._group.runner.error is None and self._core.is_leader

    async def await_leader(self, timeout: Seconds = LEADER_SECONDS) -> str:
        """Wait until a leader serves this replica, and give its name.

        Raises ``NoQuorum`` after ``timeout`` seconds, which says what is missing.
        """
        await self._group.await_leader(arguments.seconds("timeout", timeout))
        leader = self._core.leader
        assert leader is not None, "it was waited for"
        return leader.name

    # The members.

    async def members(self) -> list[GroupMember]:
        """Give all members, as the leader knows them; without one the voters, by name alone."""
        await trio.lowlevel.checkpoint()
        core = self._core
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
                each.is_dismissed,
            )
            for each in known
        ]

    async def add_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Give the replica at the endpoint called ``name`` a vote, once in touch and level.

        Raises ``NoQuorum``, ``NotAllowed`` and ``RequestTimeout``, which says what is in the way
        after ``timeout`` seconds; then it may be done later still.
        """
        await self._order(Order.ADD, name, timeout)

    async def remove_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Take the vote of the replica at the endpoint called ``name``.

        Refused while the voters that stay have no healthy majority, and of three voters for one
        that is in touch: two voters survive no loss. It is a decision of the group, and holds under
        every leader, also for one that is declared (``voters=``), is away, comes back or begins
        anew, until ``add_voter``; 64 names are kept so, the latest ones, and first of all those
        that the leader was given as voters. Raises as ``add_voter`` does.
        """
        await self._order(Order.REMOVE, name, timeout)

    async def transfer(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have the voter at the endpoint called ``name`` lead; raises as ``add_voter`` does."""
        await self._order(Order.LEAD, name, timeout)

    async def promote(self, *, force: bool = False, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have this replica lead: by a transfer, or with ``force`` without a majority.

        ``force`` is for a person who knows that the other voters are gone for good. What a majority
        of them had and this replica lacks is lost, though it was acknowledged; a voter that comes
        back with it keeps it in a file of its own, ``PATH.lost-TERM``. A leader that a majority
        follows has nothing to force, and goes on. Raises as ``add_voter`` does, and with ``force``
        ``PromotionRefused`` while another replica leads.
        """
        if force:
            await self._group.force(order_seconds(timeout))
        else:
            await self._order(Order.LEAD, self._own_name, timeout)

    # The quota.

    async def set_quota(
        self, timeout: Seconds = ORDER_SECONDS, **limits: Unpack[QuotaLimits]
    ) -> None:
        """Change ``max_entries``, ``max_bytes`` or both for the group; ``None`` sets no limit.

        It is of the group: every leader judges by it, now and after restarts. What is there stays,
        even if it is more. Raises ``InvalidData``, ``NoQuorum`` and ``NotAllowed``.
        """
        quota = replace(self._core.meter.quota, **limits)
        await self._group.ask(ChangeQuota(quota), order_seconds(timeout))

    async def _order(self, order: Order, name: str, timeout: Seconds) -> None:
        name = arguments.text("name", name)
        if not 0 < len(name) <= NAME_SIZE_MAX:
            raise InvalidData(
                f"name={name!r:.40}: an endpoint's name has 1 to {NAME_SIZE_MAX} characters"
            )
        await self._group.order(order, name, order_seconds(timeout))

    @property
    def _own_name(self) -> str:
        return self._core.own.name


def order_seconds(timeout: Seconds) -> float:
    """Check how long something that is asked of a group may take."""
    return arguments.seconds("timeout", timeout)
