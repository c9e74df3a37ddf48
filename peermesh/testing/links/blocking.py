"""Links for plain tests: the same names, and calls that wait. They live in the portal's thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from peermesh.blocking.portal import Portal
from peermesh.testing.faults import Direction, LinkFault
from peermesh.testing.links import link as trio_link
from peermesh.testing.links.events import LinkStatistics
from wire.errors import InsecureAddress


class Link:
    """What ``peermesh.testing.links.Link`` is to trio."""

    def __init__(self, portal: Portal, link: trio_link.Link) -> None:
        """Reach a link in the portal's thread; ``open_link`` makes these."""
        self._portal = portal
        self._link = link
        self.host = link.host
        self.port = link.port

    @property
    def target(self) -> tuple[str, int]:
        """Where new connections lead to; may be set."""
        return self._link.target

    @target.setter
    def target(self, target: tuple[str, int]) -> None:
        self._link.target = target

    def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on; see the link of trio."""

        async def apply() -> None:
            await self._link.apply(fault, direction=direction)

        self._portal.call(apply)

    def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand. What is on its way arrives at once."""

        async def heal() -> None:
            await self._link.heal(direction=direction)

        self._portal.call(heal)

    def faults(self, direction: Direction) -> tuple[LinkFault, ...]:
        """Give what stands in a direction; of ``BOTH``, what stands in both."""
        return self._portal.call_sync(self._link.faults, direction)

    def statistics(self) -> LinkStatistics:
        """Count what happened so far."""
        return self._portal.call_sync(self._link.statistics)


class _Host:
    """Keeps a link open in the portal's thread, from ``open`` to ``close``."""

    def __init__(
        self, target: tuple[str, int], listen: tuple[str, int], seed: int, *, allow_plain: bool
    ) -> None:
        self._target = target
        self._listen = listen
        self._seed = seed
        self._allow_plain = allow_plain
        self._settled = trio.Event()
        self._wanted_no_more = trio.Event()
        self._gone = trio.Event()
        self._link: trio_link.Link | None = None
        self._error: OSError | InsecureAddress | None = None

    async def open(self, portal: Portal) -> trio_link.Link:
        portal.spawn(self._live)
        await self._settled.wait()
        if self._link is None:
            assert self._error is not None
            raise self._error
        return self._link

    async def close(self) -> None:
        self._wanted_no_more.set()
        await self._gone.wait()

    async def _live(self) -> None:
        host, port = self._listen
        try:
            async with trio_link.open_link(
                *self._target,
                host=host,
                port=port,
                seed=self._seed,
                allow_plain=self._allow_plain,
            ) as self._link:
                self._settled.set()
                await self._wanted_no_more.wait()
        except (OSError, InsecureAddress) as error:
            self._error = error
        finally:
            self._settled.set()
            self._gone.set()


@contextmanager
def open_link(
    target_host: str,
    target_port: int,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 0,
    allow_plain: bool = False,
) -> Iterator[Link]:
    """Open a link to a TCP service; the arguments are those of the link of trio.

    Raises ``InsecureAddress``, and ``OSError`` if it cannot listen.
    """
    portal = Portal.acquire()
    try:
        keeper = _Host((target_host, target_port), (host, port), seed, allow_plain=allow_plain)
        link = portal.call(keeper.open, portal)
        try:
            yield Link(portal, link)
        finally:
            portal.call(keeper.close)
    finally:
        portal.release()
