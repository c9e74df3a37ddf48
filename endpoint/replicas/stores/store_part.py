"""What only masters and clones of stores have: changes to observe, comparisons, and history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import BUFFER_SECONDS
from endpoint.replicas.parts import AnyEffect, Topics
from endpoint.replicas.patience import Patience
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from endpoint.replicas.stores.observers import Observer, Observers
from endpoint.replicas.stores.verifying import Verification
from net.wakeup import Wakeup
from stores.clone import Clone
from stores.digests import ReplicaDigest
from stores.effects import Changed, Deposed, Persist, ToClone, ToProxy, Verified
from stores.master import Master
from stores.persistence import StoreBackend
from stores.succession import Inheritance
from stores.watches import Bookmark, Selection, Watcher
from stores.work import SLICE_COUNT
from wire.errors import RequestTimeout
from wire.identifiers import EntityId
from wire.topics import proxy_topic, store_topics


def make_clone(
    entity: EntityId, now_ns: int, patience: Patience, inheritance: Inheritance | None = None
) -> Clone:
    """Make a clone without data, maybe for the handle of a deposed master."""
    return Clone(
        entity,
        now_ns,
        stale_interval_ns=patience.stale_ns,
        buffer_ticks=patience.ticks,
        inheritance=inheritance,
    )


class StorePart:
    """The copy of a store that is here, at a master or a clone."""

    kind: Final = "store"
    epoch_ns: Final = 0
    """Expiries are wall times of the master."""
    runner: Runner

    def __init__(self, core: Master | Clone, backend: StoreBackend | None) -> None:
        """Start with a core, and with a master's backend."""
        self.core = core
        self.backend = backend
        self.moved = Wakeup()
        """Woken when the revision that readers see may be another one."""
        self._observers = Observers()
        self._verifying: Questions[tuple[ReplicaDigest, ...]] = Questions()

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> Master | None:
        """The core, if it is a master."""
        return self.core if isinstance(self.core, Master) else None

    @property
    def table(self) -> Master | Clone:
        """What is read."""
        return self.core

    def topics(self, name: str) -> Topics:
        """Give the topics of the core in its role."""
        masters, clones = store_topics(name)
        own, other = (clones, masters) if self.leader is None else (masters, clones)
        return Topics(own, other, other)

    def survey(self) -> None:
        """Do nothing: who is in reach makes no difference to a copy."""

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only masters and clones ask."""
        match effect:
            case Persist(token, changes):
                assert self.backend is not None, effect
                assert isinstance(self.core, Master), effect
                self.runner.commit(self.core, token, partial(self.backend.commit, changes))
            case ToProxy(to, payload):
                self.runner.send_command(proxy_topic(self.runner.name), to, payload)
            case ToClone(to, payload):
                self.runner.send_command(store_topics(self.runner.name)[1], to, payload)
            case Changed():
                self._observers.push(effect)
            case Verified(token, rows):
                self._verifying.answer(token, rows)
            case _:
                raise AssertionError(f"no copy of a store asks for {effect}")
        return ()

    def was_carried_out(self) -> None:
        """Wake those that wait for a revision."""
        self.moved.wake()

    def step_down(self, deposed: Deposed) -> None:
        """Put a clone in the place of a deposed master; its backend is let go as it is."""
        master = self.core
        assert isinstance(master, Master), master
        reason = (
            f"deposed at revision {deposed.revision}: {deposed.master} leads; what it did not hear"
            " of is lost, and this store is a clone now"
        )
        self.runner.tell_status(StatusCode.STORE_DEPOSED, deposed.master, reason)
        patience, now_ns = Patience(BUFFER_SECONDS), self.runner.now_ns()
        clone = make_clone(master.entity, now_ns, patience, master.bequeath(deposed))
        self.swap(clone, None)
        self.runner.carry_out(clone.start())

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self.moved.wake()
        self._verifying.end()
        self._observers.end()

    def swap(self, core: Master | Clone, backend: StoreBackend | None) -> None:
        """Go on with a core of the other role, and let go of the backend that there was."""
        self.core, self.backend = core, backend
        core.observe(is_observed=bool(self._observers))
        self.runner.use_backend(backend)
        self.runner.swapped()

    # -- for handles -----------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers.add(observer)
        self.core.observe(is_observed=True)

    def unobserve(self, observer: Observer) -> None:
        """Tell it no longer."""
        self._observers.remove(observer)
        self.core.observe(is_observed=bool(self._observers))

    def watch_after(self, selection: Selection, after: Bookmark) -> Watcher:
        """Watch from after a bookmark: revisions of a master mean the same at all clones."""
        return Watcher(self.core, selection, after.revision + 1)

    async def await_revision(self, revision: int) -> None:
        """Wait until readers see this revision, or the store is closed."""
        while self.core.revision < revision and self.runner.error is None:
            await self.moved.wait()

    async def await_current(self) -> None:
        """Wait until a clone has all that its master had after the call."""
        if isinstance(self.core, Clone):
            await self.runner.reach(self.core.begin_read)

    async def prepare_scan(self) -> None:
        """Have the keys put in order, a slice at a time, before they are read in it."""
        while self.core.prepare_scan(SLICE_COUNT) == SLICE_COUNT:
            await trio.lowlevel.checkpoint()

    def recall(self, after: int) -> None:
        """Have a clone ask its master for the mutations after a revision."""
        if isinstance(self.core, Clone):
            self.runner.carry_out(self.core.begin_recall(after))

    @property
    def is_recalling(self) -> bool:
        """True while a clone waits for that."""
        return isinstance(self.core, Clone) and self.core.is_recalling

    async def verify(self, timeout: float) -> Verification:
        """Compare all replicas; raises ``RequestTimeout`` if the master does not answer."""
        with self._verifying.ask() as question, trio.move_on_after(timeout):
            self.runner.carry_out(self.core.begin_verify(question.number))
            await question.wait()
        if question.answer is None:
            raise self.runner.error or RequestTimeout(
                f"store {self.runner.name}: the master did not compare the replicas within"
                f" {timeout:g} s"
            )
        return Verification(question.answer)
