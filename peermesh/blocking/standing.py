"""What lives in the portal's loop without an endpoint of its user's: clients of brokers, links."""

from __future__ import annotations

from abc import ABC
from collections.abc import Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    contextmanager,
    suppress,
)
from functools import partial
from typing import ClassVar, ParamSpec, Protocol, TypeVar

from endpoint.closing import Closing
from net import forking
from peermesh.blocking.hosting import hosted
from peermesh.blocking.portal import Portal
from peermesh.doors.room import Task
from wire.errors import EndpointClosed, MeshError

Result = TypeVar("Result")
Core = TypeVar("Core")
Values = ParamSpec("Values")


class Way(Protocol):
    """What generated handles cross by: the passage of an endpoint, or of what has none."""

    def call(
        self,
        function: Callable[Values, Awaitable[Result]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run an async function over there, and wait for its result."""

    def call_sync(
        self,
        function: Callable[Values, Result],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run a function over there, and wait for its result."""

    def close(self, close: Callable[[], None]) -> None:
        """Close what waits for nothing, once more or after its end, too."""

    def end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a handle, once more or after its end, too."""

    def check_process(self) -> None:
        """Raise ``ForkedEndpoint`` in a child process, for calls that do not cross."""

    def show(self, name: str, core: object) -> str:
        """Give the repr of a handle."""


class PortalPassage:
    """The way to what stands in the portal's loop by itself.

    After ``leave`` calls raise ``closed_error``.
    """

    def __init__(self, closed_error: type[MeshError] = EndpointClosed) -> None:
        """Lead there; ``leave`` lets go of the portal."""
        self._closed_error = closed_error
        self._portal = Portal.acquire()
        self._is_open = True

    def call(
        self,
        function: Callable[Values, Awaitable[Result]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run an async function over there, and wait for its result."""
        self._check()
        return self._portal.call(partial(function, *arguments, **options))

    def call_sync(
        self,
        function: Callable[Values, Result],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run a function over there, and wait for its result."""
        self._check()
        return self._portal.call_sync(partial(function, *arguments, **options))

    def spawn(self, task: Task) -> None:
        """Start a task of which nothing is told; to be called over there."""
        self._portal.spawn(task)

    def close(self, close: Callable[[], None]) -> None:
        """Close what waits for nothing, once more or after its end, too."""
        with suppress(self._closed_error):
            self.call_sync(close)

    def end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a handle, once more or after its end, too."""
        with suppress(self._closed_error):
            self.call(close)

    def hosted(
        self, manager: AbstractAsyncContextManager[Result]
    ) -> AbstractContextManager[Result]:
        """Have a task over there enter a block, and leave it; see ``hosting``."""
        return hosted(self, manager)

    def check_process(self) -> None:
        """Raise ``ForkedEndpoint`` in a child process, for calls that do not cross."""
        if self._portal.is_forked:
            raise forking.error()

    def show(self, name: str, core: object) -> str:
        """Give the repr of a handle: that of its twin over there."""
        return f"<{name} of the parent process>" if self._portal.is_forked else repr(core)

    def leave(self) -> None:
        """Let go of the portal, and lead nowhere."""
        if self._is_open:
            self._is_open = False
            self._portal.release()

    def _check(self) -> None:
        self.check_process()
        if not self._is_open:
            raise self._closed_error("it is closed: make a new one")


@contextmanager
def standing(closed_error: type[MeshError] = EndpointClosed) -> Iterator[PortalPassage]:
    """Give a way into the portal's loop, for a block; after it calls raise ``closed_error``."""
    passage = PortalPassage(closed_error)
    try:
        yield passage
    finally:
        passage.leave()


class Standing(Closing, ABC):
    """A base of what its user makes: it is entered over there as it is made, and left by ``close``.

    All methods may be called from any thread.
    """

    closed_error: ClassVar[type[MeshError]] = EndpointClosed
    """What calls after ``close`` raise."""

    _stack: ExitStack

    def _stand(self, manager: AbstractAsyncContextManager[Core]) -> tuple[PortalPassage, Core]:
        """Enter it, and give the way to it."""
        with ExitStack() as stack:
            passage = stack.enter_context(standing(self.closed_error))
            core = stack.enter_context(passage.hosted(manager))
            self._stack = stack.pop_all()
        return passage, core

    def close(self) -> None:
        """Close it, as the end of its block does; once more does nothing."""
        self._stack.close()
