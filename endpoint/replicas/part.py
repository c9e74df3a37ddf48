"""The replica that is here: one of a group that elects, or what leads alone, or a copy of that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Final, Generic, TypeVar

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import LEADER_SECONDS, Patience
from endpoint.replicas.parts import AnyEffect, Keeps, Kind, Topics, topics_of
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from net.wakeup import Wakeup
from stores.group.effects import WriteMark
from stores.group.membership import MemberStatus
from stores.group.words import Order
from stores.replica.core import GroupCore
from stores.replica.effects import AskDone, News, OrderDone, ToDisk, Told
from wire.errors import (
    BackendFailure,
    MasterExists,
    NoQuorum,
    NotAllowed,
    PromotionRefused,
    RequestTimeout,
    StoreError,
)
from wire.identifiers import EntityId

_CODES: Final = {
    News.REGRESSED: StatusCode.REPLICA_REGRESSED,
    News.WHOLE: StatusCode.REPLICA_REGRESSED,
    News.DISK_FAILED: StatusCode.REPLICA_DISK_FAILED,
    News.BARRED: StatusCode.NOT_ALLOWED,
    News.UNLED: StatusCode.REPLICA_UNLED,
    News.LED: StatusCode.REPLICA_LED,
    News.DISMISSED: StatusCode.REPLICA_DISMISSED,
    News.CONFLICT: StatusCode.STORE_CONFLICT,
    News.ANEW: StatusCode.STORE_CONFLICT,
}

_LOSS: Final = ", which loses what a majority had and is not here"
"""What a person accepts who leads without a majority."""

WAIT_PARTS: Final = 10
"""Parts of a wait for a leader: if the process is stopped for long, one of them is over, and not
all of it, as nothing could come meanwhile."""

FORCE_SECONDS: Final = 0.5
"""How long a majority may take to confirm a lead before it is taken by force once more. A leader
counts a follower as in touch for two seconds after its last word, so it takes some repetitions."""

CoreT = TypeVar("CoreT", bound=GroupCore)
MarkT = TypeVar("MarkT")


class GroupPart(ABC, Generic[CoreT]):
    """The replica of a store or log that is here."""

    kind: ClassVar[Kind]
    runner: Runner

    def __init__(
        self, core: CoreT, files: Keeps | None, single: Single[CoreT] | None = None
    ) -> None:
        """Start with a core, with the files of one that is durable, and with a role led alone."""
        self.core = core
        self.backend = files
        self.single = single
        """``None`` in a group that elects its leader."""
        self.moved = Wakeup()
        """Woken when anything that readers wait for may be otherwise."""
        self._asks: Questions[AskDone] = Questions()
        self._orders: Questions[tuple[MemberStatus, ...]] = Questions()
        if single is not None:
            single.part = self

    @property
    def what(self) -> str:
        """Name it, for errors."""
        return self.runner.what

    # -- the kind's own --------------------------------------------------------------------------

    @property
    @abstractmethod
    def extent(self) -> str:
        """Say how much is here, for sentences."""

    def was_swapped(self, old: CoreT) -> None:
        """Go on with a copy's core in the place of a deposed leader's."""

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> CoreT | None:
        """The core, if it leads alone: what a group elects, the runner does not promote."""
        return self.core if self.single is not None and self.single.is_master else None

    @property
    def is_conceding(self) -> bool:
        """True from the moment at which another one leads, until this one is a copy."""
        return self.core.is_conceding

    def topics(self, name: str) -> Topics:
        """Hear and speak on the group's topic; another one announces what leads alone, or copies.

        A replica of a group that elects has no other.
        """
        topics = topics_of(self.kind, name)
        if self.single is None:
            return Topics(topics.group, topics.group, topics.proxies)
        role = topics.leader if self.single.is_master else topics.copy
        return Topics(topics.group, topics.group, topics.proxies, role)

    def survey(self) -> None:
        """Do nothing: members say themselves where they are."""

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only replicas of groups ask."""
        match effect:
            case ToDisk():
                assert self.backend is not None, effect
                self.runner.commit(self.core, effect.token, partial(self.backend.write, effect))
            case WriteMark():
                assert self.backend is not None, effect
                try:
                    self.backend.write_mark(effect)
                except BackendFailure as error:
                    return self.core.commit_failed(0, str(error))
            case AskDone(token):
                self._asks.answer(token, effect)
            case OrderDone(token, members):
                self._orders.answer(token, members)
            case Told(news, text):
                if news is News.ANEW:
                    self.runner.unsynced()
                self.runner.tell_status(_CODES[news], self.core.entity, text)
            case _:
                raise AssertionError(f"no replica of a group asks for {effect}")
        return ()

    def was_carried_out(self) -> None:
        """Wake those that wait, and become a copy where another one leads."""
        if self.single is not None and self.single.is_master:
            self.single.look()
        self.moved.wake()

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self.moved.wake()
        self._orders.end()
        self._asks.end()

    # -- for handles -----------------------------------------------------------------------------

    @property
    def has_state(self) -> bool:
        """True if a local read has nothing to wait for."""
        return self.runner.is_synced and self.runner.error is None

    async def await_state(self, seconds: float) -> None:
        """Wait for a state to read; raises ``NoQuorum``."""
        if self.has_state:
            return
        await self.runner.await_synced(seconds)
        if self.runner.error is not None:
            raise self.runner.error
        if not self.runner.is_synced:
            raise self.no_quorum(seconds)

    async def await_current(self) -> None:
        """Wait until a copy has all that its leader had after the call."""
        if self.leader is None:
            await self.runner.reach(self.core.begin_read)

    async def await_linear(self, seconds: float) -> None:
        """Wait until a read here sees all that was committed before; raises ``NoQuorum``."""
        with trio.move_on_after(seconds) as scope:
            await self.runner.reach(self.core.begin_read)
        if self.runner.error is not None:
            raise self.runner.error
        if scope.cancelled_caught:
            raise self.no_quorum(seconds)

    async def await_leader(self, seconds: float) -> None:
        """Wait until a leader serves this replica; raises ``NoQuorum``."""
        await self._await(lambda: self.core.is_served, seconds)

    async def await_lead(self, seconds: float) -> None:
        """Wait until what leads alone here can be used; raises what ``await_leader`` does.

        Raises ``MasterExists`` where a copy was promoted in its place, which it may hear of late.
        """
        single = self.single
        assert single is not None, "it leads alone"
        await self._await(lambda: self.core.is_leader or not single.is_master, seconds)
        if not single.is_master:
            copy = self.core.outbox.words.copy
            raise MasterExists(f"{self.what}: a {copy} was promoted in its place: attach one here")

    async def _await(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until something is so; raises what ``no_quorum`` makes."""
        for _ in range(WAIT_PARTS):
            if is_so() or self._is_over:  # A limit costs more than a look.
                break
            with trio.move_on_after(seconds / WAIT_PARTS):
                while not is_so() and not self._is_over:
                    await self.moved.wait()
        if self.runner.error is not None:
            raise self.runner.error
        if not is_so():
            raise self.no_quorum(seconds)

    async def order(self, order: Order, name: str, seconds: float) -> tuple[MemberStatus, ...]:
        """Have the leader do something with a member, and give what it knows of all then.

        Raises ``NoQuorum``, ``NotAllowed``, and ``RequestTimeout`` with what is in the way.
        """
        with self._orders.ask(lambda number: self.core.errands.end_order(number)) as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_order(question.number, order, name))
                await question.wait()
            text = self.core.errands.explain_order(question.number)
        if question.answer is not None:
            return question.answer
        if self.runner.error is not None:
            raise self.runner.error
        if not self.core.is_served:
            is_forcible = self.core.voters and not self.core.hears_majority
            raise self.no_quorum(seconds, _LOSS if is_forcible else "")
        raise RequestTimeout(f"{self.what}: not within {seconds:g} s: {text}")

    async def ask(self, request: object, seconds: float) -> object:
        """Have the group do what no writer asks for, and give the answer of its machine.

        Raises ``NoQuorum`` and ``NotAllowed``.
        """
        with self._asks.ask(lambda number: self.core.errands.end_ask(number)) as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_ask(question.number, request))
                await question.wait()
        if question.answer is None:
            raise self.runner.error or self.no_quorum(seconds)
        if question.answer.refusal:
            raise NotAllowed(question.answer.refusal)
        return question.answer.answer

    async def force(self, seconds: float) -> None:
        """Lead without a majority; raises ``PromotionRefused`` while another one leads.

        A leader that has just lost its majority does not know it yet, and has nothing to force. So
        the order is repeated until a linear read succeeds, and no more once another one leads.
        """
        with trio.move_on_after(seconds):
            while True:
                self._refuse_to_depose()
                self.runner.carry_out(self.core.force())
                await self.await_leader(seconds)
                with trio.move_on_after(FORCE_SECONDS) as reading:
                    await self.runner.reach(self.core.begin_read)
                if self.runner.error is not None:
                    raise self.runner.error
                if not reading.cancelled_caught and self.core.is_leader:
                    return
        raise self.no_quorum(seconds)

    def _refuse_to_depose(self) -> None:
        leader = self.core.leader
        if leader is not None and leader != self.core.own:  # Also while nothing of it is here yet.
            raise PromotionRefused(
                f"{self.what} has a leader: promote() without force asks it to go"
            )

    @property
    def _is_over(self) -> bool:
        """True if no leader will serve this replica, as things are."""
        return self.runner.error is not None or self.core.bar.text is not None

    def no_quorum(self, seconds: float, loss: str = "") -> StoreError:
        """Make the error of a wait that was in vain; ``loss`` is what its remedy may cost."""
        if self.core.bar.text is not None:
            return NotAllowed(self.core.bar.text)
        why = self.core.explain()
        return NoQuorum(f"{self.what}: no leader within {seconds:g} s: {why}{loss}")


class Single(Generic[CoreT]):
    """The role of a replica where one leads alone, and the others copy: no majority is asked."""

    part: GroupPart[CoreT]

    def __init__(
        self, make_copy: Callable[[], CoreT], patience: Patience, *, is_master: bool
    ) -> None:
        """Start in one of the two roles; ``make_copy`` makes what a deposed leader becomes.

        Reads wait for a first state with ``patience``.
        """
        self._make_copy = make_copy
        self.patience = patience
        self.is_master = is_master

    # -- from leader to copy ---------------------------------------------------------------------

    def look(self) -> None:
        """Have a master become a copy where another one leads."""
        part, core = self.part, self.part.core
        is_over = core.is_conceding or core.is_deposed or core.leader not in (None, core.own)
        if not is_over or core.adoption.is_under_way:
            return
        if not core.is_conceding:
            part.runner.carry_out(core.concede())
        elif not core.carrier.is_writing:
            self._step_aside()

    def _step_aside(self) -> None:
        """Leave the leader's file as it is, and begin anew as a copy."""
        part, old, runner = self.part, self.part.core, self.part.runner
        words = old.outbox.words
        leader = None if old.leader is None else old.roster.endpoint_of(old.leader)
        where = EntityId(leader or old.entity.endpoint, 0)
        who = f"a {words.copy} was promoted" if old.is_deposed else f"{where} leads"
        reason = (
            f"deposed at {part.extent}: {who}; what it did not hear of is lost, and this"
            f" {words.kind} is a {words.copy} now"
        )
        runner.tell_status(StatusCode.STORE_DEPOSED, where, reason)
        self.is_master = False
        runner.carry_out(old.bequeath(f"the {words.leader} was deposed"))
        part.core, part.backend = self._make_copy(), None
        part.core.inherit(old.outbox)
        part.was_swapped(old)
        runner.use_backend(None)
        runner.swapped()
        runner.carry_out(part.core.start())

    # -- from copy to leader ---------------------------------------------------------------------

    async def take_over(
        self,
        mark: Callable[[], MarkT],
        prepare: Callable[[], Awaitable[object]] | None = None,
        *,
        is_forced: bool,
    ) -> tuple[MarkT, float]:
        """Have a copy lead, once ``prepare`` is done.

        Gives what ``mark`` gives right before, and the seconds for which the last leader was
        silent. Raises ``MasterExists`` and ``PromotionRefused``, and what ``prepare`` raises.
        """
        part, core = self.part, self.part.core
        runner, what = part.runner, part.what
        if runner.error is not None:
            raise runner.error
        if not is_forced:
            await self._await_word()
        if self.is_master:
            raise MasterExists(f"{what} has its {core.outbox.words.leader} here already")
        runner.guarding.check("lead")
        if runner.is_changing_role:
            raise PromotionRefused(f"{what} is being promoted already")
        objection = self._objection()
        if objection and not (is_forced and runner.is_synced):
            raise PromotionRefused(f"{what}: {objection}")
        silent_ns = core.silent_ns()
        runner.is_changing_role = True
        try:
            if prepare is not None:
                await runner.finish_task("its promotion to be durable", prepare)
            if runner.error is not None:
                raise PromotionRefused(f"{what} was closed meanwhile")
            marked = mark()
            self.is_master = True
            runner.carry_out(core.force())
            await self._await_own_lead()
            runner.rename()
        finally:
            runner.end_change()
        return marked, silent_ns / 1e9

    async def _await_own_lead(self) -> None:
        try:
            await self.part.await_leader(LEADER_SECONDS)
        except StoreError as error:
            if self.part.runner.error is None:
                raise
            raise PromotionRefused(f"{self.part.what} was closed meanwhile: {error}") from error

    async def _await_word(self) -> None:
        """Have a leader that is in touch answer once: a farewell under way comes first."""

        async def answer() -> None:
            with suppress(StoreError):
                await self.part.await_current()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            while self.part.core.is_served and self.part.runner.error is None:
                await self.part.moved.wait()
            nursery.cancel_scope.cancel()

    def _objection(self) -> str:
        core = self.part.core
        leader, copy = core.outbox.words.leader, core.outbox.words.copy
        if not self.part.runner.is_synced:
            return f"this {copy} never had a snapshot, so that nothing would be left"
        if core.is_served:
            return (
                f"its {leader} is alive: close it first, when it is idle; with force it is deposed,"
                " and what it acknowledges meanwhile is lost"
            )
        if not core.was_served:
            return (
                f"this {copy} was not level with its {leader} since it started, so that something"
                " may be missing here: with force that is lost"
            )
        if core.missing_count:
            return (
                f"{core.missing_count} entries of the {leader} are missing here (it is at"
                f" {self.part.extent}): promote a {copy} that has them; with force they are lost"
            )
        return ""
