"""How a store changes its role: a clone is promoted to master, a deposed master becomes a clone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from endpoint.replicas.disk import on_disk
from endpoint.replicas.promotable import Promotable
from stores.clone import Clone
from stores.effects import Deposed
from stores.epochs import promoted, started_at, term_of
from stores.master import Master
from stores.persistence import Census, Changes, Loaded, Rows, StoreBackend
from stores.quota import Meter, Quota
from wire.errors import BackendFailure, MasterExists, PromotionRefused
from wire.public import public

MakeBackend = Callable[[], StoreBackend]
MakeClone = Callable[[Master, Deposed, int], Clone]


class PromotableStore(Promotable, Protocol):
    """A store at work."""

    @property
    def core(self) -> object:
        """A master, a clone or a proxy."""

    def swap(self, core: Master | Clone, backend: StoreBackend | None) -> None:
        """Go on with a core of the other role, and let go of the backend that there was."""


@public
@dataclass(frozen=True, slots=True)
class Promotion:
    """What came of a promotion."""

    term: int
    """How many promotions the store has seen: masters of earlier terms are fenced."""
    revision: int
    """The new master goes on from here. What its master acknowledged beyond is lost."""
    silent_seconds: float
    """How long ago the last master was heard: what it did since is unknown here."""


async def promote(
    runner: PromotableStore, make_backend: MakeBackend, replicas: int, quota: Quota, *, force: bool
) -> Promotion:
    """Make a clone the master of its store; raises ``PromotionRefused``, ``BackendFailure``."""
    clone = runner.core
    if not isinstance(clone, Clone):
        raise MasterExists(f"store {runner.name} has its master here already")
    now_ns = runner.now_ns()
    if runner.guarding is not None:
        runner.guarding.check("lead")
    if runner.is_changing_role:
        raise PromotionRefused(f"store {runner.name} is being promoted already")
    assessment = clone.assess(now_ns)
    assessment.check(f"store {runner.name}", is_forced=force)
    epoch = promoted(max(assessment.known_epoch, started_at(0)), now_ns)
    keeper = make_backend()
    runner.is_changing_role = True
    runner.carry_out(clone.pause())
    try:
        settle_in = partial(on_disk, _settle_in, keeper, clone.legacy(epoch))
        legacy = await runner.finish_task("its promotion to be durable", settle_in)
        if runner.error is not None:
            raise PromotionRefused(f"store {runner.name} was closed meanwhile")
    except BaseException:
        runner.carry_out(clone.go_on())
        await runner.finish_task("its backend to be closed", on_disk, keeper.close)
        raise
    finally:
        runner.is_changing_role = False
    durable, now_ns = keeper.is_durable, runner.now_ns()
    master = Master(clone.entity, legacy, is_durable=durable, replicas=replicas, now_ns=now_ns)
    master.meter = Meter(f"store {runner.name}", quota)
    unanswered = clone.unanswered()
    runner.swap(master, keeper)
    runner.tell_exposed(legacy.exposed)
    runner.carry_out(master.inherit(clone.requests, unanswered))
    runner.settle()
    return Promotion(term_of(legacy.epoch), legacy.revision, assessment.silent_ns / 1e9)


def _settle_in(keeper: StoreBackend, legacy: Loaded) -> Loaded:
    """Put everything into a new backend, in one commit; gives it with the backend's epoch."""
    found = keeper.load(legacy.epoch)
    if found.revision or found.columns or found.writers:
        raise BackendFailure(
            "there is a store in that file already: give the promoted store a file of its own"
        )
    if keeper.is_durable:
        rows = Rows.of(legacy.columns, list(legacy.columns))
        census = Census.of(legacy.columns)
        keeper.commit(Changes(legacy.revision, rows=rows, writers=legacy.writers, census=census))
    return replace(legacy, epoch=found.epoch, exposed=found.exposed)


def step_down(runner: PromotableStore, deposed: Deposed, make_clone: MakeClone) -> None:
    """Put a clone in the place of a deposed master; its backend is let go as it is."""
    master = runner.core
    assert isinstance(master, Master), master
    clone = make_clone(master, deposed, runner.now_ns())
    runner.swap(clone, None)
    runner.carry_out(clone.start())
