"""What a world has to do for a cluster: start nodes, and lead one to another."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import trio

from peermesh.testing.faults import Direction, LinkFault, Unsupported
from peermesh.testing.node import Host


class LinkControl(Protocol):
    """The faults of one link, seen from the node that dials."""

    async def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on; raises ``Unsupported``."""

    async def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand."""


class World(ABC):
    """One world at work for one cluster."""

    name: ClassVar[str]

    def __init__(self, nursery: trio.Nursery, *, seed: int) -> None:
        """Start tasks in ``nursery``; they end when ``closing`` is set."""
        self.nursery = nursery
        self.seed = seed
        self.closing = trio.Event()

    @classmethod
    def problem(cls) -> str | None:
        """Say what this machine lacks for it; ``None`` if nothing."""
        return None

    @abstractmethod
    async def start(
        self, name: str, directory: Path, address: tuple[str, int], settings: Mapping[str, object]
    ) -> tuple[Host, tuple[str, int]]:
        """Start a node that listens at an address; port 0 lets the system choose.

        Gives where it listens, too.
        """

    async def prepare(self, names: Sequence[str]) -> None:  # noqa: B027 - most worlds need not know
        """Hear which nodes the cluster begins with, before any of them is started."""

    @abstractmethod
    def address(self, name: str) -> str:
        """Give the address of a node."""

    @abstractmethod
    async def link(
        self, dials: str, listens: str, target: tuple[str, int], *, direct: bool
    ) -> tuple[LinkControl, tuple[str, int]]:
        """Lead one node to another; gives where it has to dial, too.

        ``direct`` asks for nothing in between; its faults are then unsupported.
        """


class DirectLink:
    """A link with nothing in between, so that nothing can be done to it."""

    def __init__(self, world: str) -> None:
        """Belong to a world."""
        self._world = world

    async def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Raise ``Unsupported``."""
        reason = "the cluster was opened with direct=True, so that nothing is in between"
        raise Unsupported(self._world, fault, reason)

    async def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Do nothing: there is nothing to heal."""


def loopback_address() -> str:
    """Give a loopback address of this process's own, where the system has so many.

    Somebody of another test who dials again then never finds our port in place of his own.
    """
    if sys.platform != "linux":
        return "127.0.0.1"
    process = os.getpid()
    return f"127.{process >> 16 & 127}.{process >> 8 & 255}.{process & 255 or 1}"
