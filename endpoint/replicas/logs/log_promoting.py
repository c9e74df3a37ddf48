"""How a log changes its role: a follower is promoted to keeper, a deposed keeper becomes one.

Unlike the clone of a store, both go on with the backend that they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import trio

from endpoint.replicas.promotable import Promotable
from stores.effects import Deposed, Effect
from stores.epochs import promoted, started_at, term_of
from stores.log.changes import LoadedLog, LogChanges, Role
from stores.log.effects import LogEffect
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.partitions import Retention
from stores.log.proxy import Proxy
from stores.log.requests import LogRequests
from stores.quota import Meter, Quota
from wire.errors import BackendFailure, MasterExists, PromotionRefused
from wire.identifiers import EntityId
from wire.logs import logger_of
from wire.public import public

logger = logger_of("peermesh.log")


class MakesFollowers(Protocol):
    """How long those wait that look for their keeper."""

    def follower(
        self, entity: EntityId, loaded: LoadedLog, now_ns: int, requests: LogRequests | None = None
    ) -> Follower:
        """Make a follower, maybe for the handle of a deposed keeper."""


class PromotableLog(Promotable, Protocol):
    """A log at work."""

    changed: trio.lowlevel.ParkingLot

    @property
    def log(self) -> Keeper | Follower | Proxy:
        """What decides for it."""

    @property
    def patience(self) -> MakesFollowers:
        """Makes the follower that a deposed keeper becomes."""

    def carry_out(self, effects: Sequence[Effect | LogEffect]) -> None:
        """Do what its core asks, in order, without waiting."""

    def change_role(self, log: Keeper | Follower) -> None:
        """Go on with a core of the other role, on the same backend."""

    async def commit_role(self, changes: LogChanges) -> None:
        """Make a change of the role durable; raises ``BackendFailure``."""

    async def await_commits(self) -> None:
        """Wait until nothing is on its way to the disk."""

    def end_change(self) -> None:
        """Whatever came of it, the role does not change any more."""

    def tell_deposed(self, effect: Deposed) -> None:
        """Say that a follower is in the keeper's place now."""


@public
@dataclass(frozen=True, slots=True)
class LogPromotion:
    """What came of the promotion of a log's follower."""

    term: int
    """How many promotions the log has seen: keepers of earlier terms are fenced."""
    ends: tuple[int, ...]
    """Each partition goes on from here. What the last keeper appended beyond is lost."""
    silent_seconds: float
    """How long ago the last keeper was heard: what it did since is unknown here."""


async def promote(
    runner: PromotableLog, retention: Retention, quota: Quota, replicas: int, *, force: bool
) -> LogPromotion:
    """Make a follower the keeper; raises ``PromotionRefused``, ``BackendFailure``."""
    follower = runner.log
    if isinstance(follower, Keeper):
        raise MasterExists(f"log {runner.name} has its keeper here already")
    if not isinstance(follower, Follower):
        raise PromotionRefused(f"log {runner.name}: a proxy has no copy: promote a follower")
    if runner.guarding is not None:
        runner.guarding.check("lead")
    if runner.is_changing_role:
        raise PromotionRefused(f"log {runner.name} is being promoted already")
    now_ns = runner.now_ns()
    assessment = follower.assess(now_ns)
    assessment.check(f"log {runner.name}", is_forced=force)
    epoch = promoted(max(assessment.known_epoch, started_at(0)), now_ns)
    runner.is_changing_role = True
    try:
        await _stand_still(runner, follower)
        change = follower.copy.promote(epoch)
        await runner.finish_task("its promotion to be durable", runner.commit_role, change)
        ends = _lead(runner, follower, epoch, (retention, replicas), quota)
    except BackendFailure as error:
        runner.carry_out(follower.commit_failed(0, str(error)))
        raise
    finally:
        runner.end_change()
    return LogPromotion(term_of(epoch), ends, assessment.silent_ns / 1e9)


def _lead(
    runner: PromotableLog,
    follower: Follower,
    epoch: int,
    options: tuple[Retention, int],
    quota: Quota,
) -> tuple[int, ...]:
    """Put a keeper in the place of a follower; gives where the partitions end."""
    legacy, unanswered = follower.copy.legacy(epoch), follower.unanswered()
    keeper = Keeper(follower.entity, legacy, *options)
    keeper.meter = Meter(f"log {runner.name}", quota)
    ends = keeper.partitions.ends()
    runner.change_role(keeper)
    runner.carry_out(keeper.inherit(follower.requests, unanswered))
    runner.settle()
    return ends


async def _stand_still(runner: PromotableLog, follower: Follower) -> None:
    """Follow nobody, and wait until all that came is committed."""
    runner.carry_out(follower.pause())
    try:
        while not follower.copy.is_settled and runner.error is None:
            await runner.changed.park()
        if runner.error is not None:
            raise PromotionRefused(f"log {runner.name} was closed meanwhile")
    except BaseException:
        runner.carry_out(follower.go_on())
        raise


async def step_down(runner: PromotableLog, deposed: Deposed) -> None:
    """Put a follower in the place of a deposed keeper, when its last commit is over.

    What that brought is in the copy, and cut off if the new keeper does not have it.
    """
    keeper = runner.log
    assert isinstance(keeper, Keeper), keeper
    await runner.await_commits()
    try:
        await runner.commit_role(LogChanges(role=Role.DEPOSED, known_epoch=deposed.epoch))
    except BackendFailure as error:
        logger.error("log %s: %s", runner.name, error)
    legacy = keeper.legacy(deposed.epoch)
    now_ns = runner.now_ns()
    follower = runner.patience.follower(keeper.entity, legacy, now_ns, keeper.requests)
    runner.change_role(follower)
    runner.end_change()
    runner.tell_deposed(deposed)
    runner.carry_out(follower.start())
