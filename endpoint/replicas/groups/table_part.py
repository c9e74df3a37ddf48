"""What only replicas of stores have: watches, events, comparisons, and keys in order."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from endpoint.replicas.groups.part import Files, GroupPart
from endpoint.replicas.parts import AnyEffect, Kind, Topics
from endpoint.replicas.questions import Questions
from endpoint.replicas.stores.observers import Observer, Observers
from endpoint.replicas.stores.verifying import Verification
from stores.digests import ReplicaDigest
from stores.effects import Changed, Verified
from stores.replica.tables.core import TableCore
from stores.watches import Bookmark, Selection, Watcher
from stores.work import SLICE_COUNT
from wire.errors import RequestTimeout
from wire.topics import group_topic, proxy_topic


class TablePart(GroupPart[TableCore]):
    """The replica of a store that is here."""

    kind: Kind = "store"

    def __init__(self, core: TableCore, files: Files | None) -> None:
        """Start with a core, and with the files of one that is durable."""
        super().__init__(core, files)
        self.table = core.machine
        """What is read."""
        self._observers = Observers()
        self._verifying: Questions[tuple[ReplicaDigest, ...]] = Questions()

    # -- for the runner --------------------------------------------------------------------------

    @property
    def proxies_hear(self) -> str:
        """The topic that endpoints outside of the group hear answers on."""
        return proxy_topic(self.runner.name)

    def topics(self, name: str) -> Topics:
        """Hear, and speak, on the group's one topic."""
        topic = group_topic(name)
        return Topics(topic, topic, topic)

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only replicas of stores ask."""
        match effect:
            case Changed():
                self._observers.push(effect)
            case Verified(token, rows):
                self._verifying.answer(token, rows)
            case _:
                return super().carry_out(effect)
        return ()

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        super().was_closed()
        self._observers.end()
        self._verifying.end()

    # -- for handles -----------------------------------------------------------------------------

    @property
    def epoch_ns(self) -> int:
        """What expiries are counted from: when the group's time began, as a time of Unix."""
        return self.core.epoch_ns

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
        """Compare what all members hold; raises ``RequestTimeout`` if no leader answers."""
        with self._verifying.ask() as question:
            with trio.move_on_after(seconds):
                self.runner.carry_out(self.core.begin_verify(question.number))
                await question.wait()
            self.core.comparing.end(question.number)
        if question.answer is None:
            raise self.runner.error or RequestTimeout(
                f"{self.what}: its leader did not compare the replicas within {seconds:g} s"
            )
        return Verification(question.answer)
