"""How a reader is made the leader of its store or log, as far as both kinds are alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from endpoint.replicas.runner import Runner
from stores.epochs import promoted, started_at
from stores.succession import Assessment
from wire.errors import PromotionRefused

Result = TypeVar("Result")


class Heir(Protocol):
    """A clone or a follower: it knows how good a successor it is."""

    def assess(self, now_ns: int) -> Assessment:
        """Say how good a successor of its leader it is."""


async def promote(
    runner: Runner, heir: Heir, succeed: Callable[[int], Awaitable[Result]], *, force: bool
) -> tuple[Result, float]:
    """Have ``heir`` lead, with an epoch that ``succeed`` is called with, or a later one.

    Gives what that gives, and the seconds for which the last leader was silent. Raises
    ``PromotionRefused``, ``NotAllowed``, and what ``succeed`` raises.
    """
    what = f"{runner.kind} {runner.name}"
    if runner.guarding is not None:
        runner.guarding.check("lead")
    if runner.is_changing_role:
        raise PromotionRefused(f"{what} is being promoted already")
    now_ns = runner.now_ns()
    assessment = heir.assess(now_ns)
    assessment.check(what, is_forced=force)
    epoch = promoted(max(assessment.known_epoch, started_at(0)), now_ns)
    runner.is_changing_role = True
    try:
        result = await succeed(epoch)
    finally:
        runner.end_change()
    return result, assessment.silent_ns / 1e9


def check_open(runner: Runner) -> None:
    """Raise ``PromotionRefused`` if the store or log was closed while its heir was made ready."""
    if runner.error is not None:
        raise PromotionRefused(f"{runner.kind} {runner.name} was closed meanwhile")
