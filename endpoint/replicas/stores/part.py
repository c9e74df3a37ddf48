"""What only replicas of stores have: watches, events, comparisons, and keys in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

import trio

from endpoint.replicas.attaching import Backend
from endpoint.replicas.disk import on_disk
from endpoint.replicas.pace import Pace
from endpoint.replicas.part import GroupPart, Single
from endpoint.replicas.parts import AnyEffect, Kind
from endpoint.replicas.questions import Questions
from endpoint.replicas.stores.outcomes import Promotion, Verification
from stores.digests import ReplicaDigest
from stores.disk.founding import Founding
from stores.effects import Changed, Verified
from stores.group.terms import stretch_of
from stores.quota import Quota
from stores.replica.lazy import RowKeeper
from stores.replica.tables.core import TableCore
from stores.work import SLICE_COUNT
from wire.errors import RequestTimeout

if TYPE_CHECKING:
    from endpoint.replicas.stores.files import ReplicaFiles


ASKED_MAX: Final = 64
"""What leaves in a turn of the loop for sessions: ten milliseconds of it. All sessions that there
may be, which open, renew or end together, would hold it up for half a second."""


class Observer(Protocol):
    """Follows the changes of a store."""

    def push(self, change: Changed) -> None:
        """Take in one change."""

    def end(self) -> None:
        """Learn that nothing comes any more."""


class Wanted(NamedTuple):
    """What a master is to be like that a clone is promoted to."""

    backend: Backend
    options: dict[str, object]
    quota: Quota
    is_forced: bool


class TablePart(GroupPart[TableCore]):
    """The replica of a store that is here."""

    kind: ClassVar[Kind] = "store"

    def __init__(
        self,
        core: TableCore,
        files: ReplicaFiles | None,
        single: Single[TableCore] | None,
        make_files: Callable[[dict[str, object]], ReplicaFiles],
    ) -> None:
        """Start as ``GroupPart`` does; ``make_files`` makes those of a clone that is promoted."""
        super().__init__(core, files, single)
        self._make_files = make_files
        self.table = core.machine
        """What is read."""
        self._observers: dict[Observer, None] = {}
        self._holders: dict[Callable[[], None], None] = {}
        """Sessions, which are told when the store is closed here."""
        self._verifying: Questions[tuple[ReplicaDigest, ...]] = Questions()
        self._pace = Pace(ASKED_MAX)

    # -- for the runner --------------------------------------------------------------------------

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only replicas of stores ask."""
        match effect:
            case Changed():
                for observer in list(self._observers):
                    observer.push(effect)
            case Verified(token, rows):
                self._verifying.answer(token, rows)
            case _:
                return super().carry_out(effect)
        return ()

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        super().was_closed()
        for observer in self._observers:
            observer.end()
        self._verifying.end()
        for lose in list(self._holders):
            lose()

    # -- led alone -------------------------------------------------------------------------------

    @property
    def extent(self) -> str:
        """Say how much is here."""
        return f"revision {self.core.revision}"

    def was_swapped(self, old: TableCore) -> None:
        """Go on with a clone's core in the place of a deposed master's."""
        self.core.machine.carry_over(old.machine)
        self.table = self.core.machine
        self.core.observe(is_observed=bool(self._observers))

    def keep(self, quota: Quota) -> None:
        """Have the store that is led here hold no more."""
        if quota != self.core.meter.quota:
            self.runner.carry_out(self.core.set_quota(quota))

    async def promote(self, wanted: Wanted) -> Promotion:
        """Have a clone lead; see ``Store.promote``."""
        assert self.single is not None, "a group elects"
        is_durable = wanted.backend is Backend.SQLite
        prepare = partial(self._settle_in, wanted.options) if is_durable else None
        revision, silent_seconds = await self.single.take_over(
            lambda: self.core.revision, prepare, is_forced=wanted.is_forced
        )
        self.keep(wanted.quota)
        return Promotion(stretch_of(self.core.epoch), revision, silent_seconds)

    async def _settle_in(self, options: dict[str, object]) -> None:
        """Put what a clone has into a file of its own, and have it go on there."""
        runner, core = self.runner, self.core
        files = self._make_files(options)
        snapshot = core.pause()
        assert core.group is not None, "it has a state"
        assert core.member is not None, "it has a state"
        founding = Founding(core.group, core.own, runner.now_ns())
        fill = partial(files.fill, founding, snapshot, core.member.ballot.promises)
        try:
            exposed = await on_disk(fill)
        except BaseException:
            runner.carry_out(core.go_on())
            await on_disk(files.close)
            raise
        self.backend = files
        runner.use_backend(files)
        runner.tell_exposed(exposed)
        keeper = RowKeeper(core.machine, snapshot.position.index)
        runner.carry_out(core.settle_in(snapshot, keeper))

    # -- for handles -----------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers[observer] = None
        self.core.observe(is_observed=True)

    def unobserve(self, observer: Observer) -> None:
        """Tell it no longer."""
        self._observers.pop(observer, None)
        self.core.observe(is_observed=bool(self._observers))

    def hold(self, lose: Callable[[], None]) -> None:
        """Call ``lose`` when the store is closed here, unless it is let go before; or now."""
        self._holders[lose] = None
        if self.runner.error is not None:
            lose()

    def let_go(self, lose: Callable[[], None]) -> None:
        """Call it no more."""
        self._holders.pop(lose, None)

    async def prepare_scan(self) -> None:
        """Have the keys put in order, a slice at a time, before they are read in it."""
        while self.table.prepare_scan(SLICE_COUNT) == SLICE_COUNT:
            await trio.lowlevel.checkpoint()

    async def ask(self, request: object, seconds: float) -> object:
        """Do as ``GroupPart`` does; of many that ask at once, a few in each turn of the loop."""
        await self._pace.keep()
        return await super().ask(request, seconds)

    async def await_revision(self, revision: int) -> None:
        """Wait until readers see this revision, or the store is closed."""
        while self.core.revision < revision and self.runner.error is None:
            await self.moved.wait()

    async def await_session(self, seconds: float) -> None:
        """Wait until a read here sees all that was asked here before; raises ``NoQuorum``."""
        last, runner = self.core.requests.last_request, self.runner
        with trio.move_on_after(seconds) as scope:
            await self.await_state(seconds)
            while runner.error is None and not (
                runner.resolved_request >= last and self.core.shows_all_told
            ):
                await self.moved.wait()
        if runner.error is not None:
            raise runner.error
        if scope.cancelled_caught:
            raise self.no_quorum(seconds)

    async def verify(self, seconds: float) -> Verification:
        """Compare what all members hold; raises ``RequestTimeout`` if no leader answers.

        In a group that elects, which has none, it is ``NoQuorum``.
        """
        with self._verifying.ask(lambda number: self.core.comparing.end(number)) as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_verify(question.number))
                await question.wait()
        if question.answer is None:
            if self.runner.error is None and self.single is None and not self.core.is_served:
                raise self.no_quorum(seconds)
            raise self.runner.error or RequestTimeout(
                f"{self.what}: its leader did not compare the replicas within {seconds:g} s"
            )
        return Verification(question.answer)
