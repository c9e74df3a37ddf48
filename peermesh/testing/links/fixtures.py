"""What the plugin's fixtures hand out: links to services under test, which end with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Protocol

import trio

from peermesh.testing.links import Link, blocking, open_link
from peermesh.testing.nurseries import open_serving_nursery


class OpenLink(Protocol):
    """Opens a link to a service, in trio."""

    async def __call__(self, host: str, port: int, *, seed: int = 0) -> Link:
        """Give a link that stands until the test ends."""


class OpenBlockingLink(Protocol):
    """Opens a link to a service."""

    def __call__(self, host: str, port: int, *, seed: int = 0) -> blocking.Link:
        """Give a link that stands until the test ends."""


@asynccontextmanager
async def open_links() -> AsyncIterator[OpenLink]:
    """Hand out what opens links; they end with the block."""
    async with open_serving_nursery() as nursery:

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


@contextmanager
def open_blocking_links() -> Iterator[OpenBlockingLink]:
    """Hand out what opens links in plain tests; they end with the block."""
    with ExitStack() as stack:

        def open_one(host: str, port: int, *, seed: int = 0) -> blocking.Link:
            return stack.enter_context(blocking.open_link(host, port, seed=seed))

        yield open_one
