"""What stores and logs, and the endpoint that they are attached to, ask of each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from typing import Protocol, TypeVar

from endpoint.callbacks import Callbacks
from endpoint.mesh.routes import CommandReceiver
from endpoint.mesh.status import StatusEvent
from endpoint.port_access import Home
from handshake.roles import Rights
from stores.statistics import LogStatistics, StoreStatistics
from wire.errors import EndpointClosed
from wire.identifiers import EndpointId

Result = TypeVar("Result")


class Replica(CommandReceiver, Protocol):
    """What an endpoint asks of a store or log that is attached to it."""

    name: str

    @property
    def hears(self) -> str:
        """The main topic on which it hears commands."""

    def hears_all(self) -> list[str]:
        """Give all topics that are heard, the main one last."""

    def tick(self) -> None:
        """Let a tenth of a second pass."""

    def discovered(self, endpoint: EndpointId) -> None:
        """There is a path to an endpoint, and maybe to a copy there."""

    def unreachable(self, endpoint: EndpointId) -> None:
        """An endpoint is gone, and whatever part it had."""

    def rights_changed(self, endpoint: EndpointId, before: Rights, now: Rights) -> None:
        """An endpoint has other rights to it than before."""

    def statistics(self) -> StoreStatistics | LogStatistics:
        """Give a snapshot of counts."""

    def forked(self) -> None:
        """Serve no handle: this is a child process."""

    async def finish(self) -> None:
        """Wait until everything that was asked here has its outcome."""

    async def close(self) -> None:
        """Say goodbye, and let go of the backend."""


class Speaks(Protocol):
    """What hears and speaks for stores and logs: commands on topics."""

    def hear(self, topic: str, hearer: CommandReceiver) -> None:
        """Have the commands on a topic heard; raises ``LimitExceeded``."""

    def send_command(self, topic: str, to: EndpointId | None, payload: bytes) -> None:
        """Send to the other side of the store."""


class StoreHost(Speaks, Protocol):
    """What a store or log at work needs of its endpoint."""

    turn: int
    callbacks: Callbacks

    def start_task(self, function: Callable[..., object], *arguments: object) -> None:
        """Start a task of the endpoint's."""

    def finish_task(
        self, what: str, function: Callable[..., Awaitable[Result]], *arguments: object
    ) -> Awaitable[Result]:
        """Run something to its end in a task of the endpoint, even if the caller is cancelled."""

    def add_store(self, topic: str, store: Replica) -> None:
        """Have a store live with the endpoint, and hear a topic; raises ``LimitExceeded``."""

    def move_store(self, store: Replica, hears_before: str) -> None:
        """Have a store hear another topic than before."""

    def drop_store(self, topic: str) -> None:
        """Have no store hear the commands on a topic any more."""

    def emit(self, event: StatusEvent) -> None:
        """Tell those who follow what happens."""

    def note(self, kind: str, text: str, about: EndpointId | None = None) -> None:
        """Record something with the flight recorder."""


class AttachingHost(StoreHost, Home, Protocol):
    """What attaching a store or log needs of the endpoint."""

    is_open: bool

    @property
    def stores(self) -> Container[str]:
        """The topics that stores and logs of this endpoint hear."""

    async def close_store(self, topic: str) -> None:
        """Close a store when everything that was asked has its outcome, or that takes too long."""


def check_open(host: AttachingHost) -> None:
    """Raise ``EndpointClosed`` if the endpoint was closed while a file was read."""
    if not host.is_open:
        raise EndpointClosed("the endpoint was closed before the store or log was attached")
