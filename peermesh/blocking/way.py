"""How handles for threads reach the thread of trio: calls, and blocks of trio's for their time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import ParamSpec, TypeVar

import trio

from net import forking
from peermesh.blocking.portal import Portal
from peermesh.doors.room import Task
from wire.errors import EndpointClosed, MeshError, StoreClosed

Result = TypeVar("Result")
Values = ParamSpec("Values")


class Way(ABC):
    """What handles cross by: to an endpoint, or to what has none."""

    _portal: Portal
    _closed_error: type[MeshError] = EndpointClosed
    """What calls raise once it leads nowhere."""

    @abstractmethod
    def call(
        self,
        function: Callable[Values, Awaitable[Result]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run an async function over there, and wait for its result."""

    @abstractmethod
    def call_sync(
        self,
        function: Callable[Values, Result],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run a function over there, and wait for its result."""

    @abstractmethod
    def spawn(self, task: Task) -> None:
        """Start a task of which nothing is told; to be called over there."""

    @abstractmethod
    def show(self, name: str, core: object) -> str:
        """Give the repr of a handle."""

    def close(self, close: Callable[[], None]) -> None:
        """Close what waits for nothing, once more or after its end, too."""
        with suppress(self._closed_error, EndpointClosed, StoreClosed):
            self.call_sync(close)

    def end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a handle, once more or after its end, too."""
        with suppress(self._closed_error, EndpointClosed, StoreClosed):
            self.call(close)

    @property
    def is_forked(self) -> bool:
        """Tell whether this is a child process."""
        return self._portal.is_forked

    def check_process(self) -> None:
        """Raise ``ForkedEndpoint`` in a child process, for calls that do not cross."""
        if self._portal.is_forked:
            raise forking.error()

    @contextmanager
    def hosted(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """Have a task over there enter the block of ``manager`` and leave it, for this block.

        An error of the block over there is raised at the end of this one. The end of the endpoint
        that it lives with ends it, too, and is none.
        """
        scope, closing = trio.CancelScope(), trio.Event()
        opened, closed = trio.Event(), trio.Event()
        has_begun = False
        found: list[Result] = []
        errors: list[Exception] = []

        async def live() -> None:
            try:
                with scope:
                    async with manager as value:
                        found.append(value)
                        opened.set()
                        await closing.wait()
            except Exception as error:
                errors.append(error)
            finally:
                opened.set()
                closed.set()

        def begin() -> None:
            nonlocal has_begun
            self.spawn(live)
            has_begun = True

        async def leave() -> None:
            if has_begun:
                (closing.set if found else scope.cancel)()
                await closed.wait()

        try:
            # Ctrl-C can strike here before that is sent, and after it is done.
            self.call_sync(begin)
            self.call(opened.wait)
            if not found:
                raise errors[0] if errors else EndpointClosed("its endpoint ended meanwhile")
            yield found[0]
        finally:
            self.end(leave)
        if errors:  # It broke within the block.
            raise errors[0]
