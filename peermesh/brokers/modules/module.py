"""What a module is to its broker, and what its broker is to a module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from peermesh.brokers.modules.message import Message

if TYPE_CHECKING:
    from peermesh.brokers.modules.seat import ModuleId


class Module(Protocol):
    """A module with plain methods: a thread of its own calls them, one after the other.

    It may also have ``attach(port)``, called first, with what it needs to publish; and ``close()``,
    called last. See ``Port``.
    """

    def receive(self, message: Message) -> None:
        """Take in a message. What it raises is reported, and the next message comes."""


class AsyncModule(Protocol):
    """A module whose methods are ``async``: a trio task of its own awaits them, in turn.

    All async modules of one broker share a trio loop: what blocks in one of them holds up the rest.

    It may also have ``async attach(port)`` and ``async close()``. See ``AsyncPort``.
    """

    async def receive(self, message: Message) -> None:
        """Take in a message; as ``Module.receive``."""


@dataclass(frozen=True, slots=True)
class Port:
    """What a module publishes through. It may be used from any thread, until the module is gone."""

    module: ModuleId
    name: str
    publish: Callable[[Message], None]
    """Publish to all that the module is linked to; see ``ModuleBroker.publish``."""
    leave: Callable[[], None]
    """Remove the module; from inside of ``receive``, it is the last one that is called."""


@dataclass(frozen=True, slots=True)
class AsyncPort:
    """The same for a module whose methods are ``async``; for tasks of the same trio loop."""

    module: ModuleId
    name: str
    publish: Callable[[Message], Awaitable[None]]
    leave: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A module raised. It goes on, unless it raised in ``attach``: then it is removed.

    The error of a module in a process says what was raised there, and has the traceback as a note.
    """

    module: str
    method: str
    """``attach``, ``receive`` or ``close``; ``worker`` if the module's worker has ended."""
    error: BaseException
    """What it raised, ``SystemExit`` and ``KeyboardInterrupt`` included."""
    message: Message | None
    """What it was to receive."""
