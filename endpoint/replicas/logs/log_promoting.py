"""How a follower is promoted to keeper: unlike a store's clone, with the backend that it has."""

from __future__ import annotations

from dataclasses import dataclass

from endpoint.replicas import promoting
from endpoint.replicas.logs.log_part import LogPart
from stores.epochs import term_of
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.partitions import Retention
from stores.quota import Meter, Quota
from wire.errors import BackendFailure, MasterExists, PromotionRefused
from wire.public import public


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
    part: LogPart, retention: Retention, quota: Quota, replicas: int, *, force: bool
) -> LogPromotion:
    """Make a follower the keeper; raises ``PromotionRefused``, ``BackendFailure``."""
    follower, runner = part.core, part.runner
    if isinstance(follower, Keeper):
        raise MasterExists(f"log {runner.name} has its keeper here already")
    if not isinstance(follower, Follower):
        raise PromotionRefused(f"log {runner.name}: a proxy has no copy: promote a follower")

    async def succeed(epoch: int) -> tuple[int, tuple[int, ...]]:
        await _stand_still(part, follower)
        change = follower.copy.promote(epoch)
        try:
            await runner.finish_task("its promotion to be durable", part.commit_role, change)
        except BackendFailure as error:
            runner.carry_out(follower.commit_failed(0, str(error)))
            raise
        legacy, unanswered = follower.copy.legacy(epoch), follower.unanswered()
        keeper = Keeper(follower.entity, legacy, retention, replicas)
        keeper.meter = Meter(f"log {runner.name}", quota)
        ends = keeper.partitions.ends()
        part.swap(keeper)
        runner.carry_out(keeper.inherit(follower.requests, unanswered))
        runner.settle()
        return term_of(epoch), ends

    (term, ends), silent_seconds = await promoting.promote(runner, follower, succeed, force=force)
    return LogPromotion(term, ends, silent_seconds)


async def _stand_still(part: LogPart, follower: Follower) -> None:
    """Follow no keeper, and wait until all that came is committed."""
    runner = part.runner
    runner.carry_out(follower.pause())
    try:
        while not follower.copy.is_settled and runner.error is None:
            await runner.changed.park()
        promoting.check_open(runner)
    except BaseException:
        runner.carry_out(follower.go_on())
        raise
