"""Fixtures of pytest: links to services under test, which end with the test.

``link_to`` is for tests in trio, ``blocking_link_to`` for all others. Whoever does not use the
plugin can import them into a conftest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import trio
from pytest_trio import trio_fixture

from peermesh.testing.links import Link, blocking, open_link

OpenLink = Callable[..., Awaitable[Link]]
OpenBlockingLink = Callable[..., blocking.Link]


@trio_fixture  # type: ignore[untyped-decorator]  # pytest-trio has no types
async def link_to() -> AsyncIterator[OpenLink]:
    """Open links that stand until the test ends: ``await link_to(host, port, seed=1)``."""
    async with trio.open_nursery() as nursery:

        async def keep(
            *arguments: object, task_status: trio.TaskStatus[Link], **options: object
        ) -> None:
            async with open_link(*arguments, **options) as link:  # type: ignore[arg-type]  # the link's own types
                task_status.started(link)
                await trio.sleep_forever()

        async def open_one(*arguments: object, **options: object) -> Link:
            link: Link = await nursery.start(partial(keep, *arguments, **options))
            return link

        yield open_one
        nursery.cancel_scope.cancel()


@pytest.fixture
def blocking_link_to() -> Iterator[OpenBlockingLink]:
    """Open links that stand until the test ends: ``blocking_link_to(host, port, seed=1)``."""
    with ExitStack() as stack:

        def open_one(*arguments: object, **options: object) -> blocking.Link:
            return stack.enter_context(blocking.open_link(*arguments, **options))  # type: ignore[arg-type]  # the link's own types

        yield open_one
