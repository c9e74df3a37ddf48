"""What only replicas of groups have: files, reads that a majority confirms, and a leader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.parts import AnyEffect, Kind, Topics
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from net.wakeup import Wakeup
from stores.effects import ToProxy
from stores.group.effects import WriteMark
from stores.group.membership import MemberStatus
from stores.group.words import Order
from stores.replica.core import GroupCore
from stores.replica.effects import AskDone, News, OrderDone, ToDisk, Told
from wire.errors import (
    BackendFailure,
    NoQuorum,
    NotAllowed,
    PromotionRefused,
    RequestTimeout,
    StoreError,
)

_CODES: Final = {
    News.REGRESSED: StatusCode.REPLICA_REGRESSED,
    News.WHOLE: StatusCode.REPLICA_REGRESSED,
    News.DISK_FAILED: StatusCode.REPLICA_DISK_FAILED,
    News.BARRED: StatusCode.NOT_ALLOWED,
    News.CONFLICT: StatusCode.STORE_CONFLICT,
    News.ANEW: StatusCode.STORE_CONFLICT,
}


class Files(Protocol):
    """What keeps a replica. Every method may block, but ``write_mark``."""

    def write(self, job: ToDisk) -> None:
        """Do what the member asks; raises ``BackendFailure``."""

    def write_mark(self, write: WriteMark) -> None:
        """Write a mark, without a wait for the disk; raises ``BackendFailure``."""

    def close(self) -> None:
        """Let go of files and locks."""


CoreT = TypeVar("CoreT", bound=GroupCore)


class GroupPart(ABC, Generic[CoreT]):
    """The replica of a group that is here."""

    runner: Runner

    def __init__(self, core: CoreT, files: Files | None) -> None:
        """Start with a core, and with the files of one that is durable."""
        self.core = core
        self.backend = files
        self.moved = Wakeup()
        """Woken when anything that readers wait for may be otherwise."""
        self._asks: Questions[AskDone] = Questions()
        self._orders: Questions[tuple[MemberStatus, ...]] = Questions()

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What it is, in sentences."""

    @property
    @abstractmethod
    def proxies_hear(self) -> str:
        """The topic that endpoints outside of the group hear answers on."""

    @property
    def what(self) -> str:
        """Name it, for errors."""
        return f"{self.kind} {self.runner.name}"

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> CoreT | None:
        """Give ``None``: the runner promotes and deposes none, as the group elects."""
        return None

    @abstractmethod
    def topics(self, name: str) -> Topics:
        """Give the topics of the group of this name, in the role that this has."""

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
            case ToProxy(to, payload):
                self.runner.send_command(self.proxies_hear, to, payload)
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
        """Wake those that wait."""
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
        with trio.move_on_after(seconds):
            while not self.core.is_served and not self._is_over:
                await self.moved.wait()
        if self.runner.error is not None:
            raise self.runner.error
        if not self.core.is_served:
            raise self.no_quorum(seconds)

    async def order(self, order: Order, name: str, seconds: float) -> tuple[MemberStatus, ...]:
        """Have the leader do something with a member, and give what it knows of all then.

        Raises ``NoQuorum``, ``NotAllowed``, and ``RequestTimeout`` with what is in the way.
        """
        with self._orders.ask() as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_order(question.number, order, name))
                await question.wait()
            text = self.core.errands.end_order(question.number)
        if question.answer is not None:
            return question.answer
        if self.runner.error is not None:
            raise self.runner.error
        if not self.core.is_served:
            raise self.no_quorum(seconds)
        raise RequestTimeout(f"{self.what}: not within {seconds:g} s: {text}")

    async def ask(self, request: object, seconds: float) -> object:
        """Have the group do what no writer asks for, and give the answer of its machine.

        Raises ``NoQuorum`` and ``NotAllowed``.
        """
        with self._asks.ask() as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_ask(question.number, request))
                await question.wait()
            self.core.errands.end_ask(question.number)
        if question.answer is None:
            raise self.runner.error or self.no_quorum(seconds)
        if question.answer.refusal:
            raise NotAllowed(question.answer.refusal)
        return question.answer.answer

    async def force(self, seconds: float) -> None:
        """Lead without a majority; raises ``PromotionRefused`` while another one leads."""
        if self.core.is_served and not self.core.is_leader:
            raise PromotionRefused(
                f"{self.what} has a leader: promote() without force asks it to go"
            )
        self.runner.carry_out(self.core.force())
        await self.await_leader(seconds)

    @property
    def _is_over(self) -> bool:
        """True if no leader will serve this replica, as things are."""
        return self.runner.error is not None or self.core.bar.text is not None

    def no_quorum(self, seconds: float) -> StoreError:
        """Make the error of a wait that was in vain."""
        if self.core.bar.text is not None:
            return NotAllowed(self.core.bar.text)
        why = self.core.explain()
        return NoQuorum(f"{self.what}: no leader within {seconds:g} s: {why}")
