"""How a clone is promoted to master: its state goes into a backend of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from endpoint.replicas import promoting
from endpoint.replicas.disk import on_disk
from endpoint.replicas.stores.store_part import StorePart
from stores.clone import Clone
from stores.epochs import term_of
from stores.master import Master
from stores.persistence import Census, Changes, Loaded, Rows, StoreBackend
from stores.quota import Meter, Quota
from wire.errors import BackendFailure, MasterExists
from wire.public import public

MakeBackend = Callable[[], StoreBackend]


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
    part: StorePart, make_backend: MakeBackend, replicas: int, quota: Quota, *, force: bool
) -> Promotion:
    """Make a clone the master of its store; raises ``PromotionRefused``, ``BackendFailure``."""
    clone, runner = part.core, part.runner
    if not isinstance(clone, Clone):
        raise MasterExists(f"store {runner.name} has its master here already")

    async def succeed(epoch: int) -> Loaded:
        backend = make_backend()
        legacy = await _settle_in(part, clone, backend, epoch)
        master = Master(
            clone.entity,
            legacy,
            is_durable=backend.is_durable,
            replicas=replicas,
            now_ns=runner.now_ns(),
        )
        master.meter = Meter(f"store {runner.name}", quota)
        unanswered = clone.unanswered()
        part.swap(master, backend)
        runner.tell_exposed(legacy.exposed)
        runner.carry_out(master.inherit(clone.requests, unanswered))
        runner.settle()
        return legacy

    legacy, silent_seconds = await promoting.promote(runner, clone, succeed, force=force)
    return Promotion(term_of(legacy.epoch), legacy.revision, silent_seconds)


async def _settle_in(part: StorePart, clone: Clone, backend: StoreBackend, epoch: int) -> Loaded:
    """Have the clone stand still, and put what it has into the backend."""
    runner = part.runner
    runner.carry_out(clone.pause())
    try:
        fill = partial(on_disk, _fill, backend, clone.legacy(epoch))
        legacy = await runner.finish_task("its promotion to be durable", fill)
        promoting.check_open(runner)
    except BaseException:
        runner.carry_out(clone.go_on())
        await runner.finish_task("its backend to be closed", on_disk, backend.close)
        raise
    return legacy


def _fill(backend: StoreBackend, legacy: Loaded) -> Loaded:
    """Put everything into a new backend, in one commit; gives it with the backend's epoch."""
    found = backend.load(legacy.epoch)
    if found.revision or found.columns or found.writers:
        raise BackendFailure(
            "there is a store in that file already: give the promoted store a file of its own"
        )
    if backend.is_durable:
        rows = Rows.of(legacy.columns, list(legacy.columns))
        census = Census.of(legacy.columns)
        backend.commit(Changes(legacy.revision, rows=rows, writers=legacy.writers, census=census))
    return replace(legacy, epoch=found.epoch, exposed=found.exposed)
