"""What leads a store or log alone, and its copies: a group's one voter, and learners of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import LEADER_SECONDS
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.groups.part import CoreT, Files, GroupPart
from endpoint.replicas.handle import ReplicaHandle
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.parts import Kind, Topics
from endpoint.shielding import shielded
from endpoint.surroundings import Surroundings
from endpoint.tasks import FINISH_SECONDS
from stores.group.words import Aim
from stores.replica.beginning import Manner
from wire.errors import MasterExists, NoSuchMaster, PromotionRefused, StoreError
from wire.identifiers import EntityId

MarkT = TypeVar("MarkT")


class SingleTopics(NamedTuple):
    """The topics of a store or log of one name."""

    group: str
    """Where leader and copies speak with each other."""
    leader: str
    """What announces the one that leads."""
    copy: str
    """What announces a copy."""


class SinglePart(GroupPart[CoreT]):
    """The copy of a store or log that is here, where it is led or elsewhere."""

    def __init__(
        self, core: CoreT, files: Files | None, make_copy: Callable[[], CoreT], *, is_master: bool
    ) -> None:
        """Start in one of the two roles; ``make_copy`` makes what a deposed leader becomes."""
        super().__init__(core, files)
        self._make_copy = make_copy
        self._is_master = is_master

    # -- the kind's own --------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def topics_of(name: str) -> SingleTopics:
        """Give the topics of a store or log of this name."""

    @property
    @abstractmethod
    def extent(self) -> str:
        """Say how much is here, for sentences."""

    def _was_swapped(self, old: CoreT) -> None:
        """Go on with a copy's core in the place of a deposed leader's."""

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> CoreT | None:
        """The core, if it leads."""
        return self.core if self._is_master else None

    def topics(self, name: str) -> Topics:
        """Hear the group's topic, and be announced as what this is by another one."""
        group, leader, copy = self.topics_of(name)
        return Topics(group, group, group, leader if self._is_master else copy)

    def was_carried_out(self) -> None:
        """Wake those that wait, and become a copy where another one leads."""
        core = self.core
        is_settled = self._is_master and not core.adoption.is_under_way
        if is_settled and core.is_conceding:
            if not core.carrier.is_writing:
                self._step_aside()
        elif is_settled and (core.is_deposed or core.leader not in (None, core.own)):
            self.runner.carry_out(core.concede())
        super().was_carried_out()

    def _step_aside(self) -> None:
        """Leave the leader's file as it is, and begin anew as a copy."""
        old, runner = self.core, self.runner
        words = old.outbox.words
        leader = None if old.leader is None else old.roster.endpoint_of(old.leader)
        where = EntityId(leader or old.entity.endpoint, 0)
        who = f"a {words.copy} was promoted" if old.is_deposed else f"{where} leads"
        reason = (
            f"deposed at {self.extent}: {who}; what it did not hear of is lost, and this"
            f" {words.kind} is a {words.copy} now"
        )
        runner.tell_status(StatusCode.STORE_DEPOSED, where, reason)
        self._is_master = False
        runner.carry_out(old.bequeath(f"the {words.leader} was deposed"))
        self.core, self.backend = self._make_copy(), None
        self.core.inherit(old.outbox)
        self._was_swapped(old)
        runner.use_backend(None)
        runner.swapped()
        runner.carry_out(self.core.start())

    # -- for handles -----------------------------------------------------------------------------

    async def await_lead(self, seconds: float) -> None:
        """Wait until what leads here can be used; raises what ``await_leader`` does."""
        await self.await_leader(seconds)

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
        runner, core, what = self.runner, self.core, self.what
        if not is_forced:
            await self._await_word()
        if self._is_master:
            raise MasterExists(f"{what} has its {core.outbox.words.leader} here already")
        assert runner.guarding is not None, "every replica has one"
        runner.guarding.check("lead")
        if runner.is_changing_role:
            raise PromotionRefused(f"{what} is being promoted already")
        objection = self._objection()
        if objection and not (is_forced and runner.is_synced):
            raise PromotionRefused(f"{what}: {objection}")
        silent_ns = core.silent_ns(runner.now_ns())
        runner.is_changing_role = True
        try:
            if prepare is not None:
                await runner.finish_task("its promotion to be durable", prepare)
            if runner.error is not None:
                raise PromotionRefused(f"{what} was closed meanwhile")
            marked = mark()
            self._is_master = True
            runner.carry_out(core.force())
            await self._await_own_lead()
            runner.rename()
        finally:
            runner.end_change()
        return marked, silent_ns / 1e9

    async def _await_own_lead(self) -> None:
        try:
            await self.await_leader(LEADER_SECONDS)
        except StoreError as error:
            if self.runner.error is None:
                raise
            raise PromotionRefused(f"{self.what} was closed meanwhile: {error}") from error

    async def _await_word(self) -> None:
        """Have a leader that is in touch answer once: a farewell under way comes first."""

        async def answer() -> None:
            with suppress(StoreError):
                await self.await_current()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            while self.core.is_served and self.runner.error is None:
                await self.moved.wait()
            nursery.cancel_scope.cancel()

    def _objection(self) -> str:
        core = self.core
        leader, copy = core.outbox.words.leader, core.outbox.words.copy
        if not self.runner.is_synced:
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
                f" {self.extent}): promote a {copy} that has them; with force they are lost"
            )
        return ""

    async def await_current(self) -> None:
        """Wait until a copy has all that its leader had after the call."""
        if not self._is_master:
            await self.runner.reach(self.core.begin_read)


class Singles(ABC):
    """What it takes to attach what leads a store or log alone, and copies of it."""

    def __init__(self, host: AttachingHost, around: Surroundings) -> None:
        """Attach to ``host``."""
        self._host = host
        self._around = around
        self._guarding = Attachment(host, around, 0).guarding

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What is attached, in sentences."""

    @property
    @abstractmethod
    def words(self) -> tuple[str, str, str]:
        """What leads one, what a copy is called, and how a replica of a group is attached."""

    @abstractmethod
    def topics(self, name: str) -> SingleTopics:
        """Give the topics of a store or log of this name."""

    @abstractmethod
    def has_group(self, name: str) -> bool:
        """Tell whether a replica group with several voters keeps it."""

    async def await_lead(self, handle: ReplicaHandle, part: SinglePart[CoreT]) -> None:
        """Wait until what is to lead does; close its handle if it does not."""
        try:
            await part.await_lead(LEADER_SECONDS)
        except BaseException:
            await self.abandon(handle)
            raise

    async def abandon(self, handle: ReplicaHandle) -> None:
        """Close what cannot lead, even if the caller is cancelled."""
        with shielded(f"what should lead a {self.kind} to close", FINISH_SECONDS):
            await handle.close()

    def master_manner(self, name: str, *, is_fresh: bool) -> Manner:
        """Have what leads ask the copies that are known, unless it begins anew."""
        if is_fresh:
            return Manner(is_single=True, aim=Aim.ANEW)
        copies = self.topics(name).copy
        found = frozenset(where for where, _ in self._host.core.reach.find_stores((copies,)))
        return Manner(is_single=True, aim=Aim.CLAIM, announced=found)

    def check_lead(self, name: str) -> None:
        """Raise ``MasterExists`` where it is led already, or is in use here."""
        topics, (leader, copy, _) = self.topics(name), self.words
        where = self._host.core.reach.find_store(topics.leader)
        if where is not None:
            raise MasterExists(
                f"{self.kind} {name} has its {leader} at endpoint {where}: attach a clone here, or"
                " close it"
            )
        self._check_no_group(name, MasterExists)
        if topics.group in self._host.stores:
            raise MasterExists(f"{self.kind} {name} has a {copy} at this endpoint: close it first")

    def check_copy(self, name: str) -> None:
        """Raise ``NoSuchMaster`` where a copy would follow nothing, ``StoreError`` if in use."""
        topics, (leader, copy, _) = self.topics(name), self.words
        is_here = topics.group in self._host.stores
        if is_here and self._host.core.reach.find_store(topics.leader) == self._host.core.local:
            raise NoSuchMaster(
                f"{self.kind} {name} has its {leader} at this endpoint: use the {leader}'s handle,"
                " or attach the clone to another endpoint"
            )
        self._check_no_group(name, NoSuchMaster)
        if is_here:
            raise StoreError(f"{self.kind} {name} has a {copy} at this endpoint: use its handle")

    def _check_no_group(self, name: str, error: type[StoreError]) -> None:
        if self.has_group(name):
            raise error(
                f"{self.kind} {name} is kept by a replica group: {self.words[2]} without voters"
                " follows it"
            )

    def own_name(self, given: str) -> str:
        """Give the endpoint's name; without one, the beginning of its id."""
        return given or str(self._host.core.local)[:8]
