"""Drives one store's core: carries out its effects, and keeps the receipts. Decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, assert_never

import trio

from endpoint.receipts import Receipt, store_error
from stores.effects import (
    Changed,
    Closed,
    Effect,
    IdleReached,
    MasterFound,
    MasterLost,
    Multicast,
    Persist,
    Resolve,
    SecondMaster,
    Unicast,
)
from stores.outcomes import Outcome as Outcomes
from stores.persistence import Changes, StoreBackend
from stores.requests import Requests
from wire.errors import BackendFailure, DecodeError, StaleData, StoreError
from wire.identifiers import EndpointId

logger = logging.getLogger("peermesh.store")

YIELD_COUNT: Final = 256
"""Mutations after which their author lets other tasks run, as publishers do."""


class StoreCore(Protocol):
    """What masters and clones have in common."""

    requests: Requests

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value of an encoded key."""

    def keys(self) -> list[bytes]:
        """Give all keys, encoded."""

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

    def explain_idle(self) -> str:
        """Say what is missing."""

    def has_room(self) -> bool:
        """Tell whether more may be asked."""

    def is_stale(self, now_ns: int) -> bool:
        """Tell whether what is read is too old; never at a master."""

    def observe(self, *, is_observed: bool) -> None:
        """Give ``Changed`` effects from now on, or no longer."""

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """An endpoint is gone."""

    def close(self) -> list[Effect]:
        """Say goodbye."""


class StoreHost(Protocol):
    """What a store needs of its endpoint."""

    turn: int

    def send_command(self, topic: str, to: EndpointId | None, payload: bytes) -> None:
        """Send to the other side of the store."""

    def start_task(self, function: Callable[..., object], *arguments: object) -> None:
        """Start a task of the endpoint's."""

    def note(self, kind: str, text: str, about: EndpointId | None = None) -> None:
        """Record something for whoever looks for a mistake."""


class Observer(Protocol):
    """Somebody who follows the changes of a store."""

    def push(self, change: Changed) -> None:
        """Take in one change."""

    def end(self) -> None:
        """Nothing comes any more."""


class StoreRunner:
    """One store of an endpoint at work."""

    def __init__(
        self,
        host: StoreHost,
        core: StoreCore,
        *,
        name: str,
        speaks_on: str,
        now_ns: Callable[[], int],
        backend: StoreBackend | None = None,
    ) -> None:
        """Run ``core``; ``speaks_on`` is the topic that the other side hears.

        A master has a ``backend``, a clone has none. ``now_ns`` gives the time of day.
        """
        self.core = core
        self.name = name
        self.error: StoreError | None = None
        """Why the store is closed, if it is."""
        self.is_master = backend is not None
        self.is_synced = backend is not None
        """Whether the store has a state to read: a master always, a clone after its snapshot."""
        self.why_not_idle = ""
        """What was missing when somebody last gave up waiting for idleness."""
        self.resolved_request = 0
        """The outcome of every request up to this one is known."""
        self.changed = trio.lowlevel.ParkingLot()
        """Woken when outcomes come, or when the state of the store as a whole changes."""
        self._observers: dict[Observer, None] = {}
        self._host = host
        self._now_ns = now_ns
        self._topic = speaks_on
        self._backend = backend
        self._receipts: dict[int, Receipt] = {}
        self._idle: dict[int, trio.Event] = {}
        self._tokens = 0
        self._turn = -1
        self._is_committing = False
        self._is_urged = False
        self._work = trio.lowlevel.ParkingLot()

    # The loop's side.

    def receive(self, sender: EndpointId, payloads: list[bytes]) -> None:
        """Take in commands; bad ones are the sender's fault, and cost nothing else."""
        for payload in payloads:
            try:
                self.carry_out(self.core.receive(sender, payload, self._now_ns()))
            except DecodeError as error:
                logger.warning("store %s: bad command from %s: %s", self.name, sender, error)

    def settle(self) -> None:
        """Everything that had come was taken in: answer."""
        self.carry_out(self.core.flush(self._now_ns()))

    def tick(self) -> None:
        """Let a tenth of a second pass."""
        if self.error is None:
            self.carry_out(self.core.tick(self._now_ns()))
            self.settle()

    def unreachable(self, endpoint: EndpointId) -> None:
        """An endpoint is gone, and whatever part it had in the store."""
        if self.error is None:
            self.carry_out(self.core.peer_unreachable(endpoint))
            self.settle()

    async def flush_forever(self) -> None:
        """Send what gathers while the tasks of one turn run."""
        while self.error is None:
            if not self._is_urged:
                await self._work.park()
            self._is_urged = False
            self.settle()

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
        if not self.is_master and self.core.is_stale(self._now_ns()):
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

    def start_task(self, function: Callable[..., object], *arguments: object) -> None:
        """Start a task that lives as long as the endpoint."""
        self._host.start_task(function, *arguments)

    async def await_idle(self) -> None:
        """Wait until the store is idle (seed 7.6.1)."""
        self._tokens += 1
        token = self._tokens
        event = self._idle[token] = trio.Event()
        try:
            self.carry_out(self.core.begin_idle(token))
            self.settle()
            await event.wait()
        finally:
            if self._idle.pop(token, None) is not None and not event.is_set():
                self.why_not_idle = self.core.explain_idle()
                self.core.cancel_idle(token)

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
                case Persist(token, changes):
                    self._is_committing = True
                    self._host.start_task(self._commit, token, changes)
                case _:
                    self._tell(effect)

    def _tell(
        self, effect: Changed | IdleReached | MasterFound | MasterLost | SecondMaster | Closed
    ) -> None:
        match effect:
            case Changed():
                for observer in list(self._observers):
                    observer.push(effect)
            case IdleReached(token):
                event = self._idle.get(token)
                if event is not None:
                    event.set()
            case MasterFound() | MasterLost() | SecondMaster():
                self._on_master(effect)
            case Closed(code, text):
                self._on_closed(store_error(code, text))
            case _:
                assert_never(effect)

    def _resolve(self, outcome: Outcomes) -> None:
        receipts, result = self._receipts, outcome.result
        for request in range(outcome.first_request, outcome.last_request + 1):
            receipt = receipts.pop(request, None)
            if receipt is not None:
                receipt.resolve(result, outcome.first_request)
        self.resolved_request = outcome.last_request
        if self.changed:
            self.changed.unpark_all()

    def _on_master(self, effect: MasterFound | MasterLost | SecondMaster) -> None:
        match effect:
            case MasterFound(master, epoch):
                self.is_synced = True
                level, text = logging.INFO, f"in touch with its master {master}, epoch {epoch}"
            case MasterLost(master, reason):
                level, text = logging.WARNING, f"out of touch: {reason}"
            case SecondMaster(master):
                level, text = logging.ERROR, f"{master} is a second master"
        logger.log(level, "store %s: %s", self.name, text)
        self._host.note("store", f"{self.name}: {text}", master.endpoint)
        self.changed.unpark_all()

    def _on_closed(self, error: StoreError) -> None:
        self.error = error
        self._host.note("store", f"{self.name}: closed: {error}")
        self.changed.unpark_all()
        self._work.unpark_all()
        for event in self._idle.values():
            event.set()
        for observer in self._observers:
            observer.end()

    async def _commit(self, token: int, changes: Changes) -> None:
        assert self._backend is not None
        try:
            # Shielded: a commit that is under way is finished, whatever ends around it.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._backend.commit, changes)
        except BackendFailure as error:
            logger.error("store %s: %s", self.name, error)
            self._is_committing = False
            self.carry_out(self.core.commit_failed(token, str(error)))  # type: ignore[attr-defined]  # only masters persist
        else:
            self._is_committing = False
            self.carry_out(self.core.persisted(token))  # type: ignore[attr-defined]  # only masters persist
            self.settle()
        self.changed.unpark_all()

    # The end.

    async def finish(self) -> None:
        """Wait until everything that was asked here has its outcome."""
        self.settle()
        while self.error is None and (
            self._is_committing or self.resolved_request < self.core.requests.last_request
        ):
            await self.changed.park()

    async def close(self) -> None:
        """Say goodbye, and let go of the backend."""
        if self.error is None:
            self.settle()
            with trio.CancelScope(shield=True):
                while self._is_committing:
                    await self.changed.park()
            self.carry_out(self.core.close())
        if self._backend is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._backend.close)
