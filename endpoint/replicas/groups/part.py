"""What only replicas of groups have: files, reads that a majority confirms, and a leader."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.groups.files import ReplicaFiles
from endpoint.replicas.parts import AnyEffect, Topics
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from endpoint.replicas.stores.observers import Observer, Observers
from endpoint.replicas.stores.verifying import Verification
from net.wakeup import Wakeup
from stores.digests import ReplicaDigest
from stores.effects import Changed, Deposed, ToProxy, Verified
from stores.group.effects import WriteMark
from stores.group.membership import MemberStatus
from stores.group.words import Order
from stores.replica.core import GroupCore
from stores.replica.effects import AskDone, News, OrderDone, ToDisk, Told
from stores.table.bodies import TableRequest
from stores.watches import Bookmark, Selection, Watcher
from stores.work import SLICE_COUNT
from wire.errors import BackendFailure, NoQuorum, NotAllowed, PromotionRefused, RequestTimeout
from wire.topics import group_topic, proxy_topic

_CODES: Final = {
    News.REGRESSED: StatusCode.REPLICA_REGRESSED,
    News.WHOLE: StatusCode.REPLICA_REGRESSED,
    News.DISK_FAILED: StatusCode.REPLICA_DISK_FAILED,
    News.BARRED: StatusCode.NOT_ALLOWED,
    News.CONFLICT: StatusCode.STORE_CONFLICT,
    News.ANEW: StatusCode.STORE_CONFLICT,
}


class GroupPart:
    """The replica of a group that is here."""

    kind: Final = "store"
    runner: Runner

    def __init__(self, core: GroupCore, files: ReplicaFiles | None) -> None:
        """Start with a core, and with the files of one that is durable."""
        self.core = core
        self.table = core.machine
        """What is read."""
        self.backend = files
        self.moved = Wakeup()
        """Woken when anything that readers wait for may be otherwise."""
        self._observers = Observers()
        self._asks: Questions[AskDone] = Questions()
        self._orders: Questions[tuple[MemberStatus, ...]] = Questions()
        self._verifying: Questions[tuple[ReplicaDigest, ...]] = Questions()

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> GroupCore | None:
        """Give ``None``: the runner promotes and deposes none, as the group elects."""
        return None

    def topics(self, name: str) -> Topics:
        """Hear, and speak, on the group's one topic."""
        topic = group_topic(name)
        return Topics(topic, topic, topic)

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
                self.runner.send_command(proxy_topic(self.runner.name), to, payload)
            case AskDone() | OrderDone() | Verified():
                self._answer(effect)
            case Changed():
                self._observers.push(effect)
            case Told(news, text):
                if news is News.ANEW:
                    self.runner.unsynced()
                self.runner.tell_status(_CODES[news], self.core.entity, text)
            case _:
                raise AssertionError(f"no replica of a group asks for {effect}")
        return ()

    def _answer(self, effect: AskDone | OrderDone | Verified) -> None:
        match effect:
            case AskDone(token):
                self._asks.answer(token, effect)
            case OrderDone(token, members):
                self._orders.answer(token, members)
            case Verified(token, rows):
                self._verifying.answer(token, rows)

    def was_carried_out(self) -> None:
        """Wake those that wait."""
        self.moved.wake()

    def step_down(self, deposed: Deposed) -> None:
        """Fail: leaders of groups step down by themselves."""
        raise AssertionError(f"a group's leader is not deposed: {deposed}")

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self.moved.wake()
        self._observers.end()
        self._orders.end()
        self._verifying.end()
        self._asks.end()

    # -- for handles -----------------------------------------------------------------------------

    @property
    def has_state(self) -> bool:
        """True if a local read has nothing to wait for."""
        return self.runner.is_synced and self.runner.error is None

    @property
    def epoch_ns(self) -> int:
        """What expiries are counted from: when the group's time began, as a time of Unix."""
        return self.core.epoch_ns

    is_recalling: Final = False

    def recall(self, after: int) -> None:
        """Do nothing: all members keep as much of the past."""

    def watch_after(self, selection: Selection, after: Bookmark) -> Watcher | None:
        """Watch from after a bookmark; ``None`` if this replica is not as far yet."""
        return self.table.watch(selection, after)

    def observe(self, observer: Observer) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers.add(observer)
        self.core.observe(is_observed=True)

    def unobserve(self, observer: Observer) -> None:
        """Tell it no longer."""
        self._observers.remove(observer)
        self.core.observe(is_observed=bool(self._observers))

    async def prepare_scan(self) -> None:
        """Have the keys put in order, a slice at a time, before they are read in it."""
        while self.table.prepare_scan(SLICE_COUNT) == SLICE_COUNT:
            await trio.lowlevel.checkpoint()

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
        raise RequestTimeout(f"store {self.runner.name}: not within {seconds:g} s: {text}")

    async def ask(self, request: TableRequest, seconds: float) -> object:
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

    async def verify(self, seconds: float) -> Verification:
        """Compare what all members hold; raises ``RequestTimeout`` if no leader answers."""
        with self._verifying.ask() as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_verify(question.number))
                await question.wait()
            self.core.comparing.end(question.number)
        if question.answer is None:
            raise self.runner.error or RequestTimeout(
                f"store {self.runner.name}: its leader did not compare the replicas within"
                f" {seconds:g} s"
            )
        return Verification(question.answer)

    async def force(self, seconds: float) -> None:
        """Lead without a majority; raises ``PromotionRefused`` while another one leads."""
        if self.core.is_served and not self.core.is_leader:
            raise PromotionRefused(
                f"store {self.runner.name} has a leader: promote() without force asks it to go"
            )
        self.runner.carry_out(self.core.force())
        await self.await_leader(seconds)

    @property
    def _is_over(self) -> bool:
        """True if no leader will serve this replica, as things are."""
        return self.runner.error is not None or self.core.bar.text is not None

    def no_quorum(self, seconds: float) -> NoQuorum | NotAllowed:
        """Make the error of a wait that was in vain."""
        if self.core.bar.text is not None:
            return NotAllowed(self.core.bar.text)
        why = self.core.explain()
        return NoQuorum(f"store {self.runner.name}: no leader within {seconds:g} s: {why}")
