"""Drives the core of one store or log: carries out its effects, and keeps the receipts."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol, TypeVar, Unpack

import trio

from endpoint.barriers import Barrier, wait_or_tell
from endpoint.callbacks import Callbacks
from endpoint.mesh.rights import has_lost
from endpoint.mesh.status import StatusCode, StatusEvent, exposed_event
from endpoint.outcome import Outcome
from endpoint.port_access import Home
from endpoint.replicas.disk import close_file, describe, log_failure, on_disk
from endpoint.replicas.freed_memory import Shrinkage, give_back
from endpoint.replicas.guarding import GroupGuarding, LetterGate
from endpoint.replicas.parts import AnyEffect, Closes, Core, Kind, Part
from endpoint.replicas.questions import Questions
from endpoint.replicas.receipts import Answers, Receipt, store_error
from handshake.roles import Rights
from net import forking
from stores.effects import (
    Closed,
    IdleReached,
    MasterFound,
    MasterLost,
    Multicast,
    QuotaCrossed,
    Resolve,
    SecondMaster,
    ToProxy,
    Unicast,
)
from stores.outcomes import Outcome as Outcomes
from stores.quota import QuotaLevel, QuotaLimits
from stores.replica.core import GroupCore
from stores.statistics import LogStatistics, StoreStatistics
from wire.errors import (
    BackendFailure,
    DecodeError,
    EndpointClosed,
    ErrorCode,
    ForkedEndpoint,
    LimitExceeded,
    MasterExists,
    NoSuchMaster,
    StaleData,
    StoreClosed,
    StoreError,
)
from wire.identifiers import EndpointId, EntityId
from wire.logs import logger_of

Result = TypeVar("Result")

YIELD_COUNT: Final = 256
"""Mutations after which their author lets other tasks run, as publishers do."""
JOINED_TURNS: Final = 4
"""Turns of an author whose requests leave together while as many wait for answers already: a
message to each member, and a sync at each disk, serve four times as many, and none is waited for in
vain meanwhile."""


_QUOTA_CODES: Final = {
    QuotaLevel.RELIEVED: StatusCode.QUOTA_RELIEVED,
    QuotaLevel.NEAR: StatusCode.QUOTA_NEAR,
    QuotaLevel.EXCEEDED: StatusCode.QUOTA_EXCEEDED,
}

_GOOD_NEWS: Final = frozenset(
    {StatusCode.STORE_MASTER_FOUND, StatusCode.REPLICA_LED, StatusCode.QUOTA_RELIEVED}
)


class Host(Home, Protocol):
    """What a store or log needs of the endpoint that it is attached to."""

    turn: int
    callbacks: Callbacks
    is_open: bool

    @property
    def stores(self) -> Container[str]:
        """The topics that stores and logs of this endpoint hear."""

    def hear(self, topic: str, hearer: Runner) -> None:
        """Have the commands on a topic heard; raises ``LimitExceeded``."""

    def send_command(self, topic: str, to: EndpointId | None, payload: bytes) -> None:
        """Send to the other side of the store."""

    def start_task(self, function: Callable[..., object], *arguments: object) -> None:
        """Start a task of the endpoint's."""

    def finish_task(
        self, what: str, function: Callable[..., Awaitable[Result]], *arguments: object
    ) -> Awaitable[Result]:
        """Run something to its end in a task of the endpoint, even if the caller is cancelled."""

    def add_store(self, topic: str, store: Runner) -> None:
        """Have a store live with the endpoint, and hear a topic; raises ``LimitExceeded``."""

    def drop_store(self, topic: str) -> None:
        """Have no store hear the commands on a topic any more."""

    async def close_store(self, topic: str) -> None:
        """Close a store when everything that was asked has its outcome, or that takes too long."""

    def note(self, kind: str, text: str, about: EndpointId | None = None) -> None:
        """Record something with the flight recorder."""


class Runner:
    """One store or log of an endpoint at work. Its part has what only this kind of core needs."""

    def __init__(
        self,
        host: Host,
        part: Part,
        guarding: GroupGuarding,
        *,
        name: str,
        now_ns: Callable[[], int],
    ) -> None:
        """Run the core of ``part``, and close its backend at the end. ``now_ns`` is a clock.

        ``guarding`` says who may do what here.
        """
        self.name = name
        self.kind: Kind = part.kind
        """What it is, in sentences."""
        self.what = f"{self.kind} {name}"
        """What it is, with its name."""
        self.error: StoreError | ForkedEndpoint | None = None
        """Why the store or log is closed, if it is."""
        self.is_changing_role = False
        """True while it is being promoted or deposed."""
        self.is_synced = part.leader is not None
        """Whether there is a state to read: a leader always has one, a reader after its first."""
        self.is_in_touch = False
        """Whether this is a reader that has a state and hears its leader: so it can be read."""
        self.why_not_idle = ""
        """What was missing when a caller last gave up waiting for idleness."""
        self.resolved_request = 0
        """The outcome of every request up to this one is known."""
        self.changed = trio.lowlevel.ParkingLot()
        """Woken when outcomes come, or when the state as a whole changes."""
        self.now_ns = now_ns
        self.unasked = Answers(self.what, 0, trio.lowlevel.current_trio_token(), 0)
        """For receipts of what has no number yet; see ``adopt``."""
        self.home: Home = host
        """The endpoint, for ports that serve this store."""
        self.guarding = guarding
        self.on_swap: list[Callable[[], None]] = []
        """Told when there is another core: it has changed its role."""
        self._host = host
        self._part = part
        self._topics = part.topics(name)
        self._backend = part.backend
        self._logger = logger_of(f"peermesh.{self.kind}")
        self._asked = 0
        """The last request of which there is a receipt."""
        self._answers = self.unasked
        """For the next receipts, until they are full, or all that was asked has its outcome."""
        self._unanswered: deque[Answers] = deque()
        self._idle: Questions[None] = Questions()
        self._turn = -1
        self._is_committing = self._is_letting_go = self._is_urged = self._has_failed = False
        self._is_busy = False
        """Several were answered in this turn: those that asked ask again in it, as a rule."""
        self._work = trio.lowlevel.ParkingLot()
        self._shrinkage = Shrinkage()

    @property
    def is_master(self) -> bool:
        """Whether what leads the store or log is here."""
        return self.error is None and self._part.leader is not None

    @property
    def is_settled(self) -> bool:
        """Whether readers wait for nothing: a reader in touch, or a master that has told all.

        What its callers did can be read then.
        """
        return self.is_in_touch or (not self._unanswered and self.is_master)

    @property
    def core(self) -> Core:
        """What decides; a change of the role puts another one in its place."""
        return self._part.core

    @property
    def hears(self) -> str:
        """The main topic on which it hears commands."""
        return self._topics.hears

    def start(self) -> None:
        """Hear, and work; raises ``LimitExceeded`` where there are too many stores.

        Raises ``EndpointClosed`` if the endpoint was closed while a file was read.
        """
        if not self._host.is_open:
            raise EndpointClosed("the endpoint was closed before the store or log was attached")
        self._host.add_store(self.hears, self)
        try:
            self._hear_more()
        except LimitExceeded:
            self._host.drop_store(self.hears)
            raise
        self.start_task(self.flush_forever)

    def _hear_more(self) -> None:
        if self._topics.also_hears is not None:
            self._host.hear(self._topics.also_hears, self)

    # The loop's side.

    def receive(self, sender: EndpointId, payloads: Sequence[bytes]) -> None:
        """Take in commands; bad ones are the sender's fault, and cost nothing else."""
        core = self._part.core
        guard = self.guarding.guard(sender)
        for payload in payloads:
            if self._part.core is not core:
                break  # It changed its role: what comes now was meant for the other one.
            try:
                if guard is not None and self._is_refused(sender, guard, payload):
                    continue
                self.carry_out(core.receive(sender, payload))
            except DecodeError as error:
                self._logger.warning(
                    "%s %s: bad command from %s: %s", self.kind, self.name, sender, error
                )

    def _is_refused(self, sender: EndpointId, guard: LetterGate, payload: bytes) -> bool:
        refusal = guard.examine(payload)
        if refusal is None:
            return False
        self.guarding.note(sender, refusal.text)
        self.carry_out(refusal.answer)
        return True

    def settle(self) -> None:
        """Everything that had come was taken in: answer."""
        if effects := self._part.core.flush():
            self.carry_out(effects)

    def tick(self) -> None:
        """Let a tenth of a second pass."""
        if self.error is None:
            self._part.survey()
            self.carry_out(self.core.tick(self.now_ns()))
            self.settle()
            if self._shrinkage.tick(self.core.size):
                self.start_task(give_back)

    def unreachable(self, endpoint: EndpointId) -> None:
        """An endpoint is gone, and whatever part it had in the store."""
        if self.error is None:
            self._part.survey()
            self.carry_out(self.core.peer_unreachable(endpoint))
            self.settle()

    def rights_changed(self, endpoint: EndpointId, before: Rights, now: Rights) -> None:
        """An endpoint has other rights to this store than before."""
        if not has_lost(before, now):
            return
        self.unreachable(endpoint)
        if self.error is None:
            self.carry_out(self.guarding.dismissal(endpoint))

    async def flush_forever(self) -> None:
        """Send what gathers while the tasks of one turn run, and do a step of longer work."""
        while self.error is None:
            is_idle = not self._is_urged and not self.core.has_work
            if is_idle:
                await self._work.park()
            if not is_idle or self._is_busy or self.core.has_work:
                # Others have their turn between two steps, and those that were answered ask anew.
                await trio.lowlevel.checkpoint()
            if self._asked - self.resolved_request > JOINED_TURNS * YIELD_COUNT:
                for _ in range(JOINED_TURNS - 1):
                    await trio.lowlevel.checkpoint()
            self._is_urged = self._is_busy = False
            if self.error is None and self.core.has_work:
                self._work_on()
            self.settle()

    def _work_on(self) -> None:
        try:
            self.carry_out(self.core.work())
        except DecodeError as error:
            self._logger.warning("%s %s: %s", self.kind, self.name, error)

    def discovered(self, endpoint: EndpointId) -> None:
        """There is a path to an endpoint, and maybe to a leader or a copy there."""
        if self.error is None:
            self._part.survey()
            self.carry_out(self.core.endpoint_discovered(endpoint))

    # The handle's side.

    def ask(self, request: int) -> Receipt:
        """Give the receipt of a request that the core has taken, and see that it leaves."""
        answers = self._answers
        receipt = Receipt(request, answers if request < answers.end else self._begin(request))
        self._asked = request
        if not self._is_urged:
            self.urge()
        return receipt

    def urge(self) -> None:
        """See that what was asked leaves: at once if it is alone and first in this turn, or joined.

        What leaves is an entry of its own for all members and their disks.
        """
        is_only = self._asked - self.resolved_request == 1 and not self._is_busy
        if is_only and self._turn != self._host.turn:
            self._turn = self._host.turn
            self.settle()
        elif not self._is_urged:
            self._is_urged = True
            self._work.unpark_all()

    def check(self) -> None:
        """Raise what keeps readers from reading: ``StoreClosed``, ``StaleData``."""
        if self.error is not None:
            raise self.error
        if not self.is_master and self.core.is_stale():
            raise StaleData(
                f"{self.kind} {self.name}: its master has been out of touch for longer than the"
                " stale interval; give attach_clone a longer stale_interval to read on"
            )

    def closed(self, reader: str) -> StoreClosed:
        """Give what a reader raises that gets nothing more: it was closed, or its store has ended.

        ``reader`` says what it is.
        """
        if self.error is None:
            text = f"the {reader} of {self.what} was closed: make a new one"
            return StoreClosed(text)
        ended = StoreClosed(str(self.error))
        ended.__cause__ = self.error
        return ended

    def adopt(self, receipt: Receipt, request: int) -> None:
        """Tell this receipt, which was given already, what becomes of the request."""
        answers = self._answers
        receipt.adopt(request, answers if request < answers.end else self._begin(request))
        self._asked = request

    def _begin(self, request: int) -> Answers:
        """Give room for the outcomes of the requests from this one on."""
        self._answers = answers = Answers(self.what, request, self.unasked.run)
        self._unanswered.append(answers)
        return answers

    def note(self, kind: str, text: str) -> None:
        """Record something with the endpoint's flight recorder."""
        self._host.note(kind, text)

    def start_task(self, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Start a task that lives as long as the endpoint; its failure is this store's alone."""
        self._host.start_task(self._run_guarded, function, *arguments)

    async def _run_guarded(
        self, function: Callable[..., Awaitable[object]], *arguments: object
    ) -> None:
        try:
            await function(*arguments)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """End this store, and nothing else, for an error that nothing here expects.

        Receipts and readers get it. The backend is closed, and the mesh hears no more of the store.
        """
        if self._has_failed:
            return
        self._has_failed = True
        self._logger.error("%s %s failed", self.kind, self.name, exc_info=error)
        if self.error is not None:
            return
        failure = StoreError(f"{self.kind} {self.name} failed: {describe(error)}: attach it again")
        failure.__cause__ = error
        self._on_closed(failure)
        for answers in self._unanswered:
            for callback in answers.fail(failure):
                self._host.callbacks.call(callback)
        self._unanswered.clear()
        backend, self._backend = self._backend, None
        with suppress(Exception):  # It may be the core that failed.
            farewell = self.core.close(str(failure))
            self.carry_out(farewell)
        for topic in self.hears_all():
            self._host.drop_store(topic)
        if backend is not None:
            self._is_letting_go = True
            self.start_task(self._let_go, backend)
        self.end_change()

    def finish_task(
        self, what: str, function: Callable[..., Awaitable[Result]], *arguments: object
    ) -> Awaitable[Result]:
        """Run something to its end in a task of the endpoint, and give what it gives."""
        return self._host.finish_task(f"{what}, of {self.name}", function, *arguments)

    def hears_all(self) -> list[str]:
        """Give all topics that are heard, the main one last."""
        also = self._topics.also_hears
        return [self.hears] if also is None else [also, self.hears]

    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts."""
        return self.core.statistics()

    async def wait(self, how: Barrier) -> Outcome | None:
        """Wait until the store or log is idle; or have a callback told of it later."""
        self.check_process()
        call = self._host.callbacks.call
        return await wait_or_tell(how, self._wait_for_idleness, self.start_task, call)

    async def _wait_for_idleness(self, timeout: float) -> Outcome:
        with trio.move_on_after(timeout):
            await self.await_idle()
            if self.error is not None:
                return Outcome(reached=False, reason=str(self.error), error=self.error)
            return Outcome(reached=True, reason=f"{self.kind} {self.name} is idle")
        missing = self.why_not_idle or self.core.explain_idle() or "its state is being asked for"
        reason = f"{self.kind} {self.name} is not idle after {timeout:.3g} s: {missing}"
        self.note("barrier", reason)
        return Outcome(reached=False, reason=reason)

    async def await_idle(self) -> None:
        """Wait until the store is idle (seed 7.6.1)."""
        await self.reach(self.core.begin_idle)

    async def reach(self, begin: Callable[[int], Sequence[AnyEffect]]) -> None:
        """Call ``begin`` with a token of its own, and wait until the core says it is reached."""
        with self._idle.ask(self._cancel_idle) as question:
            self.carry_out(begin(question.number))
            self.settle()
            await question.wait()

    def _cancel_idle(self, token: int) -> None:
        self.why_not_idle = self.core.explain_idle()
        self.core.cancel_idle(token)

    async def await_synced(self, seconds: float) -> None:
        """Wait until there is a state to read, or the end; for so long at most."""
        with trio.move_on_after(seconds):
            while not self.is_synced and self.error is None:
                await self.changed.park()

    # Effects.

    def carry_out(self, effects: Iterable[AnyEffect]) -> None:
        """Do what the core asks, in order, without waiting."""
        todo = list(effects)
        for effect in todo:  # it grows meanwhile
            match effect:
                case Resolve(outcome):
                    self._resolve(outcome)
                case Multicast(payload):
                    self._host.send_command(self._topics.speaks, None, payload)
                case Unicast(to, payload):
                    self._host.send_command(self._topics.speaks, to, payload)
                case ToProxy(to, payload):
                    self._host.send_command(self._topics.proxies, to, payload)
                case _:
                    todo += self._tell(effect)
        if self._part.core.has_work:
            self._work.unpark_all()
        self._part.was_carried_out()

    def _tell(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        match effect:
            case IdleReached(token):
                self._idle.answer(token, None)
            case MasterFound() | MasterLost() | SecondMaster():
                self._on_master(effect)
            case QuotaCrossed(level, text):
                entity, code = self.core.entity, _QUOTA_CODES[level]
                self.tell_status(code, entity, f"{text} of its quota are used")
            case Closed(ErrorCode.SHUTTING_DOWN, text):
                self._on_closed(StoreClosed(f"{text}: attach it again"))
            case Closed(code, text):
                self._on_closed(store_error(code, text))
            case _:
                return self._part.carry_out(effect)
        return ()

    def _resolve(self, outcome: Outcomes) -> None:
        last, unanswered = outcome.last_request, self._unanswered
        self._is_busy = self._is_busy or last - self.resolved_request > 1
        self.resolved_request = last
        callbacks: list[Callable[[], object]] = []
        for answers in unanswered:
            if answers.first > last:
                break
            callbacks += answers.resolve(outcome)
        while unanswered and unanswered[0].end <= last + 1:
            unanswered.popleft()
        if last >= self._asked:
            unanswered.clear()
            self._answers = self.unasked
        for callback in callbacks:
            self._host.callbacks.call(callback)
        if self.changed:
            self.changed.unpark_all()

    def _on_master(self, effect: MasterFound | MasterLost | SecondMaster) -> None:
        where = effect.master
        if isinstance(effect, MasterFound) and where == self.core.entity:
            self.is_synced = True
        elif isinstance(effect, MasterFound):
            self.is_synced = self.is_in_touch = True
            self.tell_status(
                StatusCode.STORE_MASTER_FOUND, where, f"in touch with its master {where}"
            )
        elif isinstance(effect, MasterLost):
            self.is_in_touch = False
            self.tell_status(StatusCode.STORE_MASTER_LOST, where, f"out of touch: {effect.reason}")
        else:
            self.tell_status(StatusCode.STORE_SECOND_MASTER, where, f"{where} is a second master")
        self.changed.unpark_all()

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Have what leads here go by another quota; see ``Store.set_quota``."""
        if self.error is not None:
            raise self.error
        leader = self._part.leader if self.is_master else None
        if leader is None:
            raise NoSuchMaster(
                f"{self.kind} {self.name} is led elsewhere: set its quota there, or promote this"
            )
        self.carry_out(leader.set_quota(replace(leader.meter.quota, **limits)))

    def tell_status(self, status: StatusCode, where: EntityId, reason: str) -> None:
        """Tell those who follow what happens, the log, and the flight recorder."""
        level = logging.INFO if status in _GOOD_NEWS else logging.WARNING
        self._logger.log(level, "%s %s: %s", self.kind, self.name, reason)
        self._host.note(self.kind, f"{self.name}: {reason}", where.endpoint)
        text = f"{self.kind} {self.name}: {reason}"
        self._host.emit(StatusEvent(status, where.endpoint, None, ErrorCode.NONE, text, self.name))

    def tell_exposed(self, exposed: Iterable[str]) -> None:
        """Tell of files that others could read until they were opened."""
        for text in exposed:
            self._host.emit(exposed_event(self.name, text))

    def tell_damaged(self, damaged: Iterable[str]) -> None:
        """Tell the log, and the flight recorder, of what was read from a copy that is right."""
        for text in damaged:
            self._logger.warning("%s %s: %s; its copy was used", self.kind, self.name, text)
            self._host.note(self.kind, f"{self.name}: {text}")

    # The role.

    def unsynced(self) -> None:
        """Have readers wait for a state: there is none, until a leader is found."""
        self.is_synced = self.is_in_touch = False

    def swapped(self) -> None:
        """Go on with the core that the part has now, which is of the other role."""
        self.is_synced = self.is_master
        self.is_in_touch = False
        self.rename()
        for token in self._idle:
            self.carry_out(self.core.begin_idle(token))

    def rename(self) -> None:
        """Take the topics of the role that it has now, and go on with the core that is there."""
        before, self._topics = self._topics, self._part.topics(self.name)
        if before.also_hears is not None:
            self._host.drop_store(before.also_hears)
        self._hear_more()
        for rebind in self.on_swap:
            rebind()
        self.changed.unpark_all()

    def use_backend(self, backend: Closes | None) -> None:
        """Close this one at the end, and the one that there was now."""
        before, self._backend = self._backend, backend
        if before is not None:
            self._is_letting_go = True
            self.start_task(self._let_go, before)

    def end_change(self) -> None:
        """Whatever came of it, the role does not change any more."""
        self.is_changing_role = False
        self.changed.unpark_all()

    async def _let_go(self, backend: Closes) -> None:
        try:
            while self._is_committing:
                await self.changed.park()
            await close_file(self.name, backend.close)
        except BackendFailure as error:
            self._logger.error("%s %s", self.kind, error)
        finally:
            self._is_letting_go = False
            self.changed.unpark_all()

    def _on_closed(self, error: StoreError) -> None:
        if self.error is not None:
            return
        self.error = error
        self.is_in_touch = False
        self._host.note(self.kind, f"{self.name}: closed: {error}")
        if not isinstance(error, (StoreClosed, MasterExists)):
            self._tell_failed(error)
        self.changed.unpark_all()
        self._work.unpark_all()
        self._idle.end()
        self._part.was_closed()

    def _tell_failed(self, error: StoreError) -> None:
        own = self.core.entity.endpoint
        text = f"{self.kind} {self.name}: {error}"
        event = StatusEvent(StatusCode.STORE_FAILED, own, None, error.code, text, self.name)
        self._host.emit(event)

    def commit(self, core: GroupCore, token: int, commit: Callable[[], None]) -> None:
        """Have a commit done by a thread, and tell the core that asked for it."""
        self._is_committing = True
        self.start_task(self._commit, core, token, commit)

    async def _commit(self, core: GroupCore, token: int, commit: Callable[[], None]) -> None:
        # The endpoint's end waits for it: only a disk that never answers is left behind.
        try:
            await self._await_disk(commit)
        except Exception as error:
            log_failure(self.kind, self.name, error)
            self.carry_out(core.commit_failed(token, describe(error)))
            return
        self.carry_out(core.persisted(token))
        self.settle()
        self.changed.unpark_all()

    async def _await_disk(self, commit: Callable[[], None]) -> None:
        """Do a commit in a thread: nothing is closed meanwhile."""
        self._is_committing = True
        try:
            await on_disk(commit)
        finally:
            self._is_committing = False
            self.changed.unpark_all()

    # The end.

    @property
    def is_forked(self) -> bool:
        """Tell whether this is a child process, in which nothing is the store's."""
        return isinstance(self.error, ForkedEndpoint)

    def check_process(self) -> None:
        """Raise ``ForkedEndpoint`` in a child process, for calls that wait."""
        if self.is_forked:
            raise forking.error()

    def forked(self) -> None:
        """Serve no handle: this is a child process. Outcomes come in the parent alone."""
        self.error = forking.error()
        for answers in self._unanswered:
            answers.lose(self.error)

    async def finish(self) -> None:
        """Wait until everything that was asked here has its outcome."""
        self.settle()
        while self.error is None and (
            self._is_committing or self.resolved_request < self.core.requests.last_request
        ):
            await self.changed.park()

    async def leave(self) -> None:
        """Have the endpoint close it, once everything that was asked here has its outcome."""
        await self._host.close_store(self.hears)

    async def close(self) -> None:
        """Say goodbye, and let go of the backend. A task of the endpoint does it, to the end."""
        while self.is_changing_role and self.error is None:
            await self.changed.park()
        if self.error is None:
            self.settle()
        asked = self.core.requests.last_request
        while self._is_letting_go or (
            self._is_committing and (self._part.is_conceding or self.resolved_request < asked)
        ):
            await self.changed.park()
        if self.error is None:
            self.carry_out(self.core.close(f"{self.kind} {self.name} is closed"))
        while self._is_committing:  # Others may write on, and the core ends with an entry.
            await self.changed.park()
        if self._backend is not None:
            await close_file(self.name, self._backend.close)
