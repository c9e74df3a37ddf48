"""An endpoint's life in the portal's loop, and the passages by which its handles reach it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import iscoroutine
from typing import Final, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

from endpoint.barriers import Barrier
from endpoint.endpoint import GRACE_SECONDS, Endpoint as Core
from endpoint.outcome import Outcome
from endpoint.replicas.attaching import Attaching
from endpoint.replicas.handle import ReplicaHandle
from net import forking
from peermesh.blocking.portal import Portal
from peermesh.blocking.taking import GiveBack, Taking
from peermesh.blocking.way import Way
from peermesh.doors.room import Finish, Room, Task, logger
from wire.errors import FAILURES, EndpointClosed, MeshError, StoreClosed

Result = TypeVar("Result")
Made = TypeVar("Made")
Values = ParamSpec("Values")
CoreT = TypeVar("CoreT", bound=ReplicaHandle)


class Held(Protocol):
    """A handle that has something of its own, which calls find without crossing."""

    def forked(self) -> None:
        """Let go of it: this is a child process. Takes no lock."""

    def ended(self) -> None:
        """Let go of it: the endpoint is over. Called in the portal's thread."""


class Life:
    """One endpoint in the portal's loop, from ``open`` to ``close``."""

    def __init__(self, core: Core) -> None:
        """Prepare for ``core``."""
        self.core = core
        self.portal = Portal.acquire()
        self.room = Room(core)
        self.held: WeakSet[Held] = WeakSet()
        self.is_closing = False
        """Whether ``close`` was called; the endpoint goes on until all has left."""
        self.grace = GRACE_SECONDS
        """How long the end may take."""
        self.over = threading.Event()
        core.loop.callbacks.run = self._run_callback

    def open(self, leave: Task, *tasks: Task) -> None:
        """Enter the endpoint, and wait until it is open; see ``Room.live`` for the arguments."""

        def begin(opened: Finish) -> None:
            self.portal.lodgers[self] = None
            self.portal.spawn(partial(self._live, opened, leave, *tasks))

        try:
            self.portal.cross(begin, lambda _: self.room.close())
        except EndpointClosed as error:
            raise self.shown(error) from self.room.failure

    async def _live(self, opened: Finish, leave: Task, *tasks: Task) -> None:
        await self.room.live(opened, leave, *tasks)
        self._end()
        self.portal.leave()
        self.over.set()

    def _end(self) -> None:
        self.portal.lodgers.pop(self, None)
        for held in list(self.held):
            held.ended()

    def close(self, grace: float) -> None:
        """End the endpoint, and wait until it is over; does nothing in a child process."""
        if self.portal.is_forked:
            return
        if self.portal.is_here():
            raise RuntimeError("shutdown would wait for its own thread: call it in another one")
        self.begin_exit(grace)
        self.over.wait()
        self.portal.join()

    def begin_exit(self, grace: float, *, is_quiet: bool = False) -> None:
        """Start to end the endpoint; a second call changes nothing."""
        if not self.is_closing:
            self.is_closing, self.grace, self.room.is_quiet = True, grace, is_quiet
            try:
                self.portal.soon(self.room.close)
            except EndpointClosed:  # The loop died.
                self.over.set()

    def await_exit(self, timeout: float) -> None:
        """Wait for the end for so many seconds, if it began as the process' end did."""
        if self.room.is_quiet:
            self.over.wait(timeout)

    def died(self, error: BaseException) -> None:
        """Take in that the loop is gone."""
        self.room.died(error)
        self._end()
        self.over.set()

    def forked(self) -> None:
        """Refuse what is asked from now on: this is a child process."""
        for held in list(self.held):
            held.forked()

    def shown(self, error: EndpointClosed) -> EndpointClosed:
        """Give the error that says why the endpoint is closed, if ``error`` only says that."""
        if self.portal.is_forked:
            return forking.error()
        return self.room.error() if self.room.is_over else error

    # Callbacks.

    def _run_callback(self, callback: Callable[..., object], values: tuple[object, ...]) -> None:
        self.portal.callbacks.put(partial(self._call, callback, values))

    def _call(self, callback: Callable[..., object], values: tuple[object, ...]) -> None:
        """Run a user's callback, in its own thread; what it raises is told, and ends nothing."""
        try:
            result = callback(*values)
            if iscoroutine(result):
                result.close()
                raise TypeError("a callback of the blocking API is a plain function, not async")
        except BaseException as error:
            failed = partial(self.core.loop.callbacks.failed, callback, error)
            try:
                self.portal.soon(self.room.guarded(failed))
            except EndpointClosed:  # No endpoint is left to tell it.
                logger.exception("a callback raised")


class Passage(Way):
    """The way of one handle to its endpoint, from any thread.

    Whatever ended the endpoint, calls raise ``EndpointClosed``; or for stores, ``StoreClosed``.
    """

    def __init__(self, life: Life, store: str = "", *, is_strict: bool = False) -> None:
        """Lead to an endpoint. ``store`` says what the handle is of, as in ``"store cities"``.

        One that ``is_strict`` leads nowhere from the moment at which the endpoint begins to end.
        """
        self._life = life
        self._portal = life.portal
        self._room = life.room
        self._store = store
        self._is_strict = is_strict
        self.inner: Final = Passage(life, store) if is_strict else self
        """The way of what goes on while the endpoint ends."""
        self.first: Callable[[], object] | None = None
        """What comes before each call, in the thread over there."""
        self.soon: Final = life.portal.soon
        self.guarded: Final = life.room.guarded

    def of(self, store: str) -> Passage:
        """Give the passage of a store's handle."""
        return Passage(self._life, store)

    def call(
        self,
        function: Callable[Values, Awaitable[Result]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run an async function over there, and wait for its result."""
        call = partial(function, *arguments, **options)

        async def run() -> Result:
            if self.first is not None:
                self.first()
            return await call()

        return self._cross(partial(self._room.begin, run))

    def call_sync(
        self,
        function: Callable[Values, Result],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run a function over there, and wait for its result."""
        call = partial(function, *arguments, **options)

        def run() -> Result:
            if self.first is not None:
                self.first()
            return call()

        return self._cross(partial(self._room.look, run))

    def take(
        self,
        give_back: GiveBack,
        function: Callable[Values, Awaitable[Result]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run an async function over there that takes out what is given once.

        If Ctrl-C ends the waiting for it, what was taken is given back, before any later call.
        """
        taking = Taking(give_back)

        async def take() -> Result:
            return taking.took(await function(*arguments, **options))

        return self._take(taking, partial(self.call, take))

    def take_sync(
        self,
        give_back: GiveBack,
        function: Callable[Values, Result],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run a function over there that takes out what is given once, as ``take`` does."""
        taking = Taking(give_back)

        def take() -> Result:
            return taking.took(function(*arguments, **options))

        return self._take(taking, partial(self.call_sync, take))

    def _take(self, taking: Taking, cross: Callable[[], Result]) -> Result:
        try:
            return cross()
        except KeyboardInterrupt:
            with suppress(EndpointClosed):
                self.soon(self.guarded(taking.give_up))
            raise

    def wait(
        self, how: Barrier, function: Callable[[], Awaitable[Outcome | None]]
    ) -> Outcome | None:
        """Wait for a barrier: false if the store is closed, unless a callback is to be told."""
        try:
            return self.call(function)
        except StoreClosed as error:
            if how.callback is not None:
                raise
            return Outcome(reached=False, reason=str(error), error=error)

    def attach(
        self,
        make: Callable[[Passage, CoreT], Made],
        function: Callable[Values, Attaching[CoreT]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Made:
        """Attach a store or a log, and give its handle."""

        async def attach() -> CoreT:
            return await function(*arguments, **options)

        found = self.take(self._let_go, attach)
        return make(self.of(f"{found.runner.kind} {found.name()}"), found)

    def _let_go(self, attached: list[ReplicaHandle]) -> None:
        """Close what no thread got a handle of."""
        for handle in attached:
            self.spawn(handle.close)

    def _cross(self, begin: Callable[[Finish], object]) -> Result:  # type: ignore[type-var]  # that of the function
        if self._is_strict:
            self.check()
        try:
            return cast("Result", self._portal.cross(begin, self._room.cancel))
        except EndpointClosed as error:
            shown = self._shown(error)
            raise shown from shown.__cause__

    def spawn(self, task: Task) -> None:
        """Start a task that ends with the endpoint; to be called over there."""
        self._room.begin(task, lambda _: None)

    def hold(self, handle: Held) -> None:
        """Tell a handle of the endpoint's end, and of forks."""
        self._life.held.add(handle)

    def is_here(self) -> bool:
        """Tell whether this is the portal's thread, which nothing may block."""
        return self._portal.is_here()

    def call_back(self, callbacks: Sequence[Callable[[], object]]) -> None:
        """Have a user's callbacks run; over there only."""
        for callback in callbacks:
            self._life.core.loop.callbacks.call(callback)

    def check(self) -> None:
        """Raise what calls raise, if the endpoint is closed or is being closed."""
        if self._portal.is_forked or self._life.is_closing or self._room.is_over:
            raise self.error()

    def error(self) -> MeshError:
        """Give what calls raise once the endpoint is closed."""
        return self._shown(self._room.error())

    def await_error(self, text: str) -> MeshError:
        """Give what calls raise once the endpoint's loop has ended, when it is known why."""
        if not self._portal.is_forked:
            self._life.over.wait()
        return self._shown(EndpointClosed(text))

    def better(self, error: Exception) -> Exception:
        """Give the error that ended the endpoint instead of what follows from it."""
        found = self._life.shown(EndpointClosed())
        return found if isinstance(found, FAILURES) else error

    def show(self, name: str, core: object) -> str:
        """Give the repr of a handle: that of its twin over there while the endpoint lives."""
        name = " ".join([name, *self._store.split(" ", 1)[1:]])
        if self._portal.is_forked:
            return f"<{name} of the parent process>"
        if self._room.is_over:
            return f"<{name} {'closed' if self._room.failure is None else 'failed'}>"
        try:
            return repr(core)
        except RuntimeError:  # It changed meanwhile, in its own thread.
            return f"<{name}>"

    def _shown(self, error: EndpointClosed) -> MeshError:
        error = self._life.shown(error)
        if not self._store or isinstance(error, FAILURES):
            return error
        return StoreClosed(f"{self._store} is closed: {error}")
