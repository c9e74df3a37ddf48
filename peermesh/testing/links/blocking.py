"""Links for plain tests: the same names, and calls that wait, in the portal's thread.

Written by ``tools/doors.py``: change the trio class.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from peermesh.blocking.standing import standing
from peermesh.testing.faults import Direction, LinkFault
from peermesh.testing.links.link import (
    Link as CoreLink,
    Notice,
    ignore,
    open_link as core_open_link,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peermesh.blocking.way import Way
    from peermesh.testing.links.events import LinkStatistics


class Link:
    """The proxy: who connects to ``host`` and ``port`` reaches the target, through the faults.

    ``Direction.FORTH`` is from who dialled to the target. While a partition stands in either
    direction, new connections are accepted by the system, as a proxy cannot help, and reach the
    target only when it is healed, as the SYN that TCP sends again would.
    """

    def __init__(self, passage: Way, core: CoreLink) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._link = core

    @property
    def target(self) -> tuple[str, int]:
        """Where new connections lead to. May be changed: a service may restart elsewhere."""
        return self._link.target

    @target.setter
    def target(self, target: tuple[str, int]) -> None:
        self._link.target = target

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._link.host

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._link.port

    def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on, in place of one of its kind; ``Reset`` strikes at once.

        Raises ``ValueError`` for a fault without sense, and ``Unsupported``.
        """
        return self._passage.call(self._link.apply, fault, direction=direction)

    def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand. What is on its way arrives at once."""
        return self._passage.call(self._link.heal, direction=direction)

    def faults(self, direction: Direction) -> tuple[LinkFault, ...]:
        """Give what stands in a direction; of ``BOTH``, what stands in both."""
        return self._passage.call_sync(self._link.faults, direction)

    def statistics(self) -> LinkStatistics:
        """Count what happened so far."""
        return self._passage.call_sync(self._link.statistics)


@contextmanager
def open_link(
    target_host: str,
    target_port: int,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 0,
    notice: Notice = ignore,
    allow_plain: bool = False,
) -> Iterator[Link]:
    """Open a link to a TCP service: dial the link's ``host`` and ``port`` instead of the service's.

    ``port`` 0 lets the system choose. ``seed`` is that of jitter and losses. ``notice`` hears of
    each event. Leaving the block breaks the connections that stand. A link beyond loopback would
    let the network reach what may trust its own machine: that needs ``allow_plain``, and otherwise
    raises ``InsecureAddress``. Raises ``OSError`` if it cannot listen.
    """
    with (
        standing() as passage,
        passage.hosted(
            core_open_link(
                target_host,
                target_port,
                host=host,
                port=port,
                seed=seed,
                notice=notice,
                allow_plain=allow_plain,
            )
        ) as found,
    ):
        yield Link(passage, found)
