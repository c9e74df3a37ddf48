"""Drives one store's core: carries out its effects, and keeps the receipts. Decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar, Unpack, assert_never, cast

import trio

from endpoint.barriers import Barrier, wait_or_tell
from endpoint.mesh.rights import Turn, turn_of
from endpoint.mesh.status import StatusCode, StatusEvent, exposed_event
from endpoint.outcome import Outcome
from endpoint.port_access import Home
from endpoint.replicas.disk import close_file, describe, log_failure, on_disk
from endpoint.replicas.freed_memory import Shrinkage, give_back
from endpoint.replicas.guarding import Guarding
from endpoint.replicas.hosting import StoreHost
from endpoint.replicas.receipts import Receipt, store_error
from endpoint.replicas.stores.promoting import MakeClone, step_down
from endpoint.replicas.stores.verifying import Verification
from endpoint.surroundings import BackendOpener
from handshake.roles import Rights
from net import forking
from net.wakeup import Wakeup
from stores.digests import ReplicaDigest
from stores.effects import (
    Changed,
    Closed,
    Deposed,
    Effect,
    IdleReached,
    MasterFound,
    MasterLost,
    Multicast,
    Persist,
    QuotaCrossed,
    ReadAnswered,
    Resolve,
    SecondMaster,
    ToClone,
    ToOwnKind,
    ToProxy,
    Unicast,
    Verified,
)
from stores.gatekeeping import Guard, Post
from stores.history import History
from stores.master import Master
from stores.outcomes import Outcome as Outcomes
from stores.persistence import StoreBackend
from stores.quota import QuotaLevel, QuotaLimits
from stores.requests import Requests
from stores.scanning import Page, Span
from stores.statistics import LogStatistics, StoreStatistics
from stores.table import Columns, Entry
from stores.work import SLICE_COUNT
from wire.errors import (
    BackendFailure,
    DecodeError,
    ErrorCode,
    ForkedEndpoint,
    MasterExists,
    NoSuchMaster,
    RequestTimeout,
    StaleData,
    StoreClosed,
    StoreError,
)
from wire.identifiers import EndpointId, EntityId
from wire.logs import logger_of
from wire.topics import proxy_topic, store_topics

logger = logger_of("peermesh.store")

Result = TypeVar("Result")

YIELD_COUNT: Final = 256
"""Mutations after which their author lets other tasks run, as publishers do."""


_QUOTA_CODES: Final = {
    QuotaLevel.RELIEVED: StatusCode.QUOTA_RELIEVED,
    QuotaLevel.NEAR: StatusCode.QUOTA_NEAR,
    QuotaLevel.EXCEEDED: StatusCode.QUOTA_EXCEEDED,
}

_GOOD_NEWS: Final = frozenset({StatusCode.STORE_MASTER_FOUND, StatusCode.QUOTA_RELIEVED})


class StoreCore(Protocol):
    """What masters and clones have in common."""

    requests: Requests
    history: History

    @property
    def size(self) -> int:
        """Bytes of the keys and values, or entries, that it holds."""

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value of an encoded key."""

    def entry(self, key: bytes) -> Entry | None:
        """Give the value with its revision and expiry."""

    def keys(self) -> list[bytes]:
        """Give all keys, encoded."""

    def scan(self, span: Span, limit: int) -> Page:
        """Give the first entries of a span in the order of keys."""

    def prepare_scan(self, count: int) -> int:
        """Put so many keys in order, at most; says how many."""

    def snapshot(self) -> Columns:
        """Copy what readers see."""

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[Effect]:
        """Take in a command."""

    def flush(self, now_ns: int) -> list[Effect]:
        """Tell what was asked."""

    def tick(self, now_ns: int) -> list[Effect]:
        """Let time pass."""

    def begin_idle(self, token: int) -> list[Effect]:
        """Wait for idleness."""

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""

    def begin_verify(self, token: int) -> list[Effect]:
        """Compare all replicas."""

    def explain_idle(self) -> str:
        """Say what is missing."""

    def has_room(self) -> bool:
        """Tell whether more may be asked."""

    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts."""

    def is_stale(self, now_ns: int) -> bool:
        """Tell whether what is read is too old; never at a master."""

    def observe(self, *, is_observed: bool) -> None:
        """Give ``Changed`` effects from now on, or no longer."""

    @property
    def has_work(self) -> bool:
        """True if ``work`` has something to do."""

    def work(self, now_ns: int) -> list[Effect]:
        """Take a step of what is too long for one."""

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """An endpoint is gone."""

    def endpoint_discovered(self, endpoint: EndpointId) -> list[Effect]:
        """There is a path to an endpoint."""

    def close(self) -> list[Effect]:
        """Say goodbye."""


class Observer(Protocol):
    """Somebody who follows the changes of a store."""

    def push(self, change: Changed) -> None:
        """Take in one change."""

    def end(self) -> None:
        """Nothing comes any more."""


_Told = (
    Changed
    | IdleReached
    | MasterFound
    | MasterLost
    | SecondMaster
    | Deposed
    | Verified
    | ReadAnswered
    | QuotaCrossed
    | Closed
)


class StoreRunner:
    """One store of an endpoint at work."""

    is_log = False
    kind = "store"
    """What it is, in sentences."""

    def __init__(
        self,
        host: StoreHost,
        core: StoreCore,
        *,
        name: str,
        now_ns: Callable[[], int],
        backend: StoreBackend | None = None,
    ) -> None:
        """Run ``core``. A master has a ``backend``, a clone has none. ``now_ns`` is a clock."""
        self.core = core
        self.name = name
        self.error: StoreError | ForkedEndpoint | None = None
        """Why the store is closed, if it is."""
        self.is_master = backend is not None
        self.is_changing_role = False
        """True while it is being promoted or deposed."""
        self.is_synced = backend is not None
        """Whether the store has a state to read: a master always, a clone after its snapshot."""
        self.is_in_touch = False
        """Whether this is a clone that has a state and hears its master: so it can be read."""
        self.why_not_idle = ""
        """What was missing when somebody last gave up waiting for idleness."""
        self.resolved_request = 0
        """The outcome of every request up to this one is known."""
        self.changed = trio.lowlevel.ParkingLot()
        """Woken when outcomes come, or when the state of the store as a whole changes."""
        self.moved = Wakeup()
        """Woken when the revision that readers see may be another one."""
        self.decoded: dict[int, tuple[Any, Any]] = {}
        """Commits that watches have decoded, by revision; see ``watching``."""
        self._observers: dict[Observer, None] = {}
        self._host = host
        self.now_ns = now_ns
        self._use_topics()
        self.open_file: BackendOpener | None = None
        """Makes backends that keep a store in a file; ``None`` is SQLite."""
        self.home: Home | None = None
        """The endpoint, for ports that serve this store."""
        self.guarding: Guarding | None = None
        """Who may do what here; ``None`` is everybody everything."""
        self.make_clone: MakeClone | None = None
        """Makes the clone that a deposed master becomes."""
        self.on_swap: list[Callable[[], None]] = []
        """Told when the store has another core: it has changed its role."""
        self._backend = backend
        self._receipts: dict[int, Receipt] = {}
        self._idle: dict[int, trio.Event] = {}
        self._verifying: dict[int, tuple[ReplicaDigest, ...] | None] = {}
        self._tokens = 0
        self._turn = -1
        self._is_committing = self._is_letting_go = self._is_urged = self._has_failed = False
        self._work = trio.lowlevel.ParkingLot()
        self._shrinkage = Shrinkage()

    # The loop's side.

    def receive(self, sender: EndpointId, payloads: Sequence[bytes]) -> None:
        """Take in commands; bad ones are the sender's fault, and cost nothing else."""
        core = self.core
        guard = None if self.guarding is None else self.guarding.guard(sender)
        for payload in payloads:
            if self.core is not core:
                break  # It changed its role: what comes now was meant for the other one.
            try:
                if guard is not None and self._is_refused(sender, guard, payload):
                    continue
                self.carry_out(self.core.receive(sender, payload, self.now_ns()))
            except DecodeError as error:
                logger.warning("store %s: bad command from %s: %s", self.name, sender, error)

    def _is_refused(self, sender: EndpointId, guard: Guard, payload: bytes) -> bool:
        refusal = guard.examine(self._post(), payload)
        if refusal is None:
            return False
        assert self.guarding is not None, "the guard is from there"
        self.guarding.note(sender, refusal.text)
        self.carry_out(list(refusal.answer))
        return True

    def _post(self) -> Post:
        core: Any = self.core  # of logs, too
        epoch = core.epoch if self.is_master else 0
        return Post(core.entity, epoch, self.is_master, self.is_log)

    def settle(self) -> None:
        """Everything that had come was taken in: answer."""
        self.carry_out(self.core.flush(self.now_ns()))

    def tick(self) -> None:
        """Let a tenth of a second pass."""
        if self.error is None:
            self.carry_out(self.core.tick(self.now_ns()))
            self.settle()
            if self._shrinkage.tick(self.core.size):
                self.start_task(give_back)

    def unreachable(self, endpoint: EndpointId) -> None:
        """An endpoint is gone, and whatever part it had in the store."""
        if self.error is None:
            self.carry_out(self.core.peer_unreachable(endpoint))
            self.settle()

    def rights_changed(self, endpoint: EndpointId, before: Rights, now: Rights) -> None:
        """An endpoint has other rights to this store than before."""
        match turn_of(before, now, is_master=self.is_master):
            case Turn.DISMISSED:
                self.unreachable(endpoint)
                if self.guarding is not None and self.error is None:
                    self.carry_out(self.guarding.dismissal(endpoint, self._post()))
            case Turn.UNSEEN:
                self.unreachable(endpoint)
            case Turn.NONE:
                pass

    async def flush_forever(self) -> None:
        """Send what gathers while the tasks of one turn run, and do a step of longer work."""
        while self.error is None:
            if not self._is_urged and not self.core.has_work:
                await self._work.park()
            else:
                await trio.lowlevel.checkpoint()  # Others have their turn between two steps.
            self._is_urged = False
            if self.error is None and self.core.has_work:
                self._work_on()
            self.settle()

    def _work_on(self) -> None:
        try:
            self.carry_out(self.core.work(self.now_ns()))
        except DecodeError as error:
            logger.warning("store %s: %s", self.name, error)

    def discovered(self, endpoint: EndpointId) -> None:
        """There is a path to an endpoint, and maybe to a master or a clone there."""
        if self.error is None:
            self.carry_out(self.core.endpoint_discovered(endpoint))

    # The handle's side.

    def ask(self, request: int) -> Receipt:
        """Give the receipt of a request that the core has taken, and see that it leaves."""
        receipt = self._receipts[request] = Receipt(request)
        self.urge()
        return receipt

    def urge(self) -> None:
        """See that what was asked leaves: at once if it is the first of this turn, else joined."""
        if self._turn != self._host.turn:
            self._turn = self._host.turn
            self.settle()
        elif not self._is_urged:
            self._is_urged = True
            self._work.unpark_all()

    def observe(self, observer: Observer) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers[observer] = None
        self.core.observe(is_observed=True)

    def check(self) -> None:
        """Raise what keeps readers from reading: ``StoreClosed``, ``StaleData``."""
        if self.error is not None:
            raise self.error
        if not self.is_master and self.core.is_stale(self.now_ns()):
            raise StaleData(
                f"store {self.name}: its master has been out of touch for longer than the stale "
                "interval; give attach_clone a longer stale_interval to read on"
            )

    def adopt(self, receipt: Receipt, request: int) -> None:
        """Tell this receipt, which somebody holds already, what becomes of the request."""
        receipt.request = request
        self._receipts[request] = receipt

    def unobserve(self, observer: Observer) -> None:
        """Tell it no longer."""
        self._observers.pop(observer, None)
        self.core.observe(is_observed=bool(self._observers))

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
        kind = "log" if self.is_log else "store"
        logger.error("%s %s failed", kind, self.name, exc_info=error)
        if self.error is not None:
            return
        failure = StoreError(f"{kind} {self.name} failed: {describe(error)}: attach it again")
        failure.__cause__ = error
        self._on_closed(failure)
        receipts, self._receipts = self._receipts, {}
        for receipt in receipts.values():
            for callback in receipt.fail(failure):
                self._host.callbacks.call(callback)
        backend, self._backend = self._backend, None
        with suppress(Exception):  # It may be the core that failed.
            farewell = self.core.close()
            self.carry_out([each for each in farewell if not isinstance(each, Persist)])
        for topic in self.hears_all():
            self._host.drop_store(topic)
        if backend is not None:
            self._is_letting_go = True
            self.start_task(self._let_go, backend)

    def finish_task(
        self, what: str, function: Callable[..., Awaitable[Result]], *arguments: object
    ) -> Awaitable[Result]:
        """Run something to its end in a task of the endpoint, and give what it gives."""
        return self._host.finish_task(f"{what}, of {self.name}", function, *arguments)

    def hears_all(self) -> list[str]:
        """Give all topics that are heard, the main one last."""
        return [self.hears]

    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts."""
        return self.core.statistics()

    async def await_revision(self, revision: int) -> None:
        """Wait until readers see this revision, or the store is closed."""
        while self.core.revision < revision and self.error is None:
            await self.moved.wait()

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
        await self._await(self.core.begin_idle)

    async def prepare_scan(self) -> None:
        """Have the keys put in order, a slice at a time, before they are read in it."""
        while self.core.prepare_scan(SLICE_COUNT) == SLICE_COUNT:
            await trio.lowlevel.checkpoint()

    def recall(self, after: int) -> None:
        """Have a clone ask its master for the mutations after a revision."""
        self.carry_out(self.core.begin_recall(after))  # type: ignore[attr-defined]  # only clones lack any

    @property
    def is_recalling(self) -> bool:
        """True while a clone waits for that."""
        return bool(getattr(self.core, "is_recalling", False))

    async def await_current(self) -> None:
        """Wait until a clone has all that its master had after the call."""
        await self._await(self.core.begin_read)  # type: ignore[attr-defined]  # only clones lag

    async def _await(self, begin: Callable[[int], list[Effect]]) -> None:
        self._tokens += 1
        token = self._tokens
        event = self._idle[token] = trio.Event()
        try:
            self.carry_out(begin(token))
            self.settle()
            await event.wait()
        finally:
            if self._idle.pop(token, None) is not None and not event.is_set():
                self.why_not_idle = self.core.explain_idle()
                self.core.cancel_idle(token)

    async def verify(self, timeout: float) -> Verification:
        """Compare all replicas; raises ``RequestTimeout`` if the master does not answer."""
        self._tokens += 1
        token = self._tokens
        self._verifying[token] = None
        try:
            with trio.move_on_after(timeout):
                self.carry_out(self.core.begin_verify(token))
                while self._verifying[token] is None and self.error is None:
                    await self.changed.park()
        finally:
            rows = self._verifying.pop(token)
        if rows is None:
            raise self.error or RequestTimeout(
                f"store {self.name}: the master did not compare the replicas within {timeout:g} s"
            )
        return Verification(rows)

    # Effects.

    def carry_out(self, effects: list[Effect]) -> None:
        """Do what the core asks, in order, without waiting."""
        for effect in effects:
            match effect:
                case Resolve(outcome):
                    self._resolve(outcome)
                case Multicast(payload):
                    self._host.send_command(self._topic, None, payload)
                case Unicast(to, payload):
                    self._host.send_command(self._topic, to, payload)
                case ToOwnKind(to, payload):
                    self._host.send_command(self.hears, to, payload)
                case ToProxy(to, payload):
                    self._host.send_command(proxy_topic(self.name), to, payload)
                case ToClone(to, payload):
                    self._host.send_command(store_topics(self.name)[1], to, payload)
                case Persist():
                    self._is_committing = True
                    self.start_task(self._commit, self.core, self._backend, effect)
                case _:
                    self._tell(effect)
        if self.core.has_work:
            self._work.unpark_all()
        self.moved.wake()

    def _tell(self, effect: _Told) -> None:
        match effect:
            case Changed():
                for observer in list(self._observers):
                    observer.push(effect)
            case IdleReached(token):
                self._on_idle(token)
            case MasterFound() | MasterLost() | SecondMaster():
                self._on_master(effect)
            case Deposed():
                self._on_deposed(effect)
            case Verified():
                self._on_verified(effect)
            case ReadAnswered():
                self._on_read(effect)
            case QuotaCrossed():
                self._on_quota(effect)
            case Closed(code, text):
                self._on_closed(store_error(code, text))
            case _:
                assert_never(effect)

    def _on_idle(self, token: int) -> None:
        event = self._idle.get(token)
        if event is not None:
            event.set()

    def _on_verified(self, effect: Verified) -> None:
        if effect.token in self._verifying:
            self._verifying[effect.token] = effect.rows
            self.changed.unpark_all()

    def _on_read(self, effect: ReadAnswered) -> None:
        raise AssertionError(f"only proxies ask: {effect}")

    def _resolve(self, outcome: Outcomes) -> None:
        receipts, result = self._receipts, outcome.result
        for request in range(outcome.first_request, outcome.last_request + 1):
            receipt = receipts.pop(request, None)
            if receipt is not None:
                for callback in receipt.resolve(result, outcome.first_request):
                    self._host.callbacks.call(callback)
        self.resolved_request = outcome.last_request
        if self.changed:
            self.changed.unpark_all()

    def _on_master(self, effect: MasterFound | MasterLost | SecondMaster) -> None:
        where = effect.master
        if isinstance(effect, MasterFound):
            self.is_synced = self.is_in_touch = True
            self._emit(StatusCode.STORE_MASTER_FOUND, where, f"in touch with its master {where}")
        elif isinstance(effect, MasterLost):
            self.is_in_touch = False
            self._emit(StatusCode.STORE_MASTER_LOST, where, f"out of touch: {effect.reason}")
        else:
            self._emit(StatusCode.STORE_SECOND_MASTER, where, f"{where} is a second master")
        self.changed.unpark_all()

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Have what leads here go by another quota; see ``Store.set_quota``."""
        if self.error is not None:
            raise self.error
        if not self.is_master:
            raise NoSuchMaster(
                f"{self.kind} {self.name} is led elsewhere: set its quota there, or promote this"
            )
        core: Any = self.core  # a master or a keeper
        self.carry_out(core.set_quota(replace(core.meter.quota, **limits)))

    def _on_quota(self, effect: QuotaCrossed) -> None:
        entity: EntityId = cast("Any", self.core).entity
        self._emit(_QUOTA_CODES[effect.level], entity, f"{effect.text} of its quota are used")

    def _emit(self, status: StatusCode, where: EntityId, reason: str) -> None:
        level = logging.INFO if status in _GOOD_NEWS else logging.WARNING
        logger.log(level, "%s %s: %s", self.kind, self.name, reason)
        self._host.note(self.kind, f"{self.name}: {reason}", where.endpoint)
        text = f"{self.kind} {self.name}: {reason}"
        self._host.emit(StatusEvent(status, where.endpoint, None, ErrorCode.NONE, text, self.name))

    def tell_exposed(self, exposed: Iterable[str]) -> None:
        """Tell of files that others could read until they were opened."""
        for text in exposed:
            self._host.emit(exposed_event(self.name, text))

    # The role.

    def swap(self, core: StoreCore, backend: StoreBackend | None) -> None:
        """Go on with a core of the other role, and let go of the backend that there was."""
        before, hears = self._backend, self.hears
        self.core, self._backend = core, backend
        self.is_master = self.is_synced = backend is not None
        self.is_in_touch = False
        self._use_topics()
        self._host.move_store(self, hears)
        core.observe(is_observed=bool(self._observers))
        for rebind in self.on_swap:
            rebind()
        if before is not None:
            self._is_letting_go = True
            self.start_task(self._let_go, before)
        for token in list(self._idle):
            self.carry_out(core.begin_idle(token))
        self.changed.unpark_all()

    def _use_topics(self) -> None:
        masters, clones = store_topics(self.name)
        self.hears, self._topic = (masters, clones) if self.is_master else (clones, masters)

    def _on_deposed(self, effect: Deposed) -> None:
        reason = (
            f"deposed at revision {effect.revision}: {effect.master} leads; what it did not hear of"
            " is lost, and this store is a clone now"
        )
        self._emit(StatusCode.STORE_DEPOSED, effect.master, reason)
        assert self.make_clone is not None, "every master can become a clone"
        step_down(self, effect, self.make_clone)

    async def _let_go(self, backend: StoreBackend) -> None:
        try:
            while self._is_committing:
                await self.changed.park()
            await close_file(self.name, backend.close)
        except BackendFailure as error:
            logger.error("store %s", error)
        finally:
            self._is_letting_go = False
            self.changed.unpark_all()

    def _on_closed(self, error: StoreError) -> None:
        if self.error is not None:
            return
        self.error = error
        self.is_in_touch = self.is_master = False
        self._host.note("store", f"{self.name}: closed: {error}")
        if not isinstance(error, (StoreClosed, MasterExists)):
            self._tell_failed(error)
        self.changed.unpark_all()
        self.moved.wake()
        self._work.unpark_all()
        for event in self._idle.values():
            event.set()
        for observer in self._observers:
            observer.end()

    def _tell_failed(self, error: StoreError) -> None:
        own: EndpointId = cast("Any", self.core).entity.endpoint
        text = f"{'log' if self.is_log else 'store'} {self.name}: {error}"
        event = StatusEvent(StatusCode.STORE_FAILED, own, None, error.code, text, self.name)
        self._host.emit(event)

    async def _commit(self, core: Master, backend: StoreBackend, effect: Persist) -> None:
        # The endpoint's end waits for it: only a disk that never answers is left behind.
        try:
            await on_disk(backend.commit, effect.changes)
        except Exception as error:
            log_failure("store", self.name, error)
            self.carry_out(core.commit_failed(effect.token, describe(error)))
            return
        finally:
            self._is_committing = False
            self.changed.unpark_all()
        self.carry_out(core.persisted(effect.token))
        self.settle()
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
        for receipt in self._receipts.values():
            receipt.lose(self.error)

    async def finish(self) -> None:
        """Wait until everything that was asked here has its outcome."""
        self.settle()
        while self.error is None and (
            self._is_committing or self.resolved_request < self.core.requests.last_request
        ):
            await self.changed.park()

    async def close(self) -> None:
        """Say goodbye, and let go of the backend. A task of the endpoint does it, to the end."""
        if self.error is None:
            self.settle()
        while self._is_committing or self._is_letting_go:
            await self.changed.park()
        if self.error is None:
            self.carry_out(self.core.close())
        if self._backend is not None:
            await close_file(self.name, self._backend.close)
