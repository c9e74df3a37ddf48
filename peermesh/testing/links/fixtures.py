"""Fixtures of pytest: links to services under test, which end with the test.

``link_to`` is for tests in trio, ``blocking_link_to`` for all others. Whoever does not use the
plugin can import them into a conftest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest
import trio
from pytest_trio import trio_fixture

from peermesh.testing.links import Link, blocking, open_link


class OpenLink(Protocol):
    """Opens a link to a service, in trio."""

    async def __call__(self, host: str, port: int, *, seed: int = 0) -> Link:
        """Give a link that stands until the test ends."""


class OpenBlockingLink(Protocol):
    """Opens a link to a service."""

    def __call__(self, host: str, port: int, *, seed: int = 0) -> blocking.Link:
        """Give a link that stands until the test ends."""


@trio_fixture  # type: ignore[untyped-decorator]  # pytest-trio has no types
async def link_to() -> AsyncIterator[OpenLink]:
    """Open links in a test of trio: to await, with the host and port of the service."""
    async with trio.open_nursery() as nursery:

        async def keep(
            host: str, port: int, seed: int, *, task_status: trio.TaskStatus[Link]
        ) -> None:
            async with open_link(host, port, seed=seed) as link:
                task_status.started(link)
                await trio.sleep_forever()

        async def open_one(host: str, port: int, *, seed: int = 0) -> Link:
            link: Link = await nursery.start(keep, host, port, seed)
            return link

        yield open_one
        nursery.cancel_scope.cancel()


@pytest.fixture
def blocking_link_to() -> Iterator[OpenBlockingLink]:
    """Open links in a plain test: to call with the host and port of the service."""
    with ExitStack() as stack:

        def open_one(host: str, port: int, *, seed: int = 0) -> blocking.Link:
            return stack.enter_context(blocking.open_link(host, port, seed=seed))

        yield open_one
