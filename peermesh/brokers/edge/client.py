"""What publishers and subscribers share: finding channels, and staying connected to them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from functools import partial
from typing import Final, TypeVar

import trio

from endpoint.shielding import shielded
from handshake.credentials import Credentials
from peermesh.brokers.edge.errors import EdgeClosed, RegistryDenied, RegistryError
from peermesh.brokers.edge.line import Handler, Line, make_network
from peermesh.brokers.edge.messages import ControlMessage, Denied, Hello, Welcome, expect
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.registry import Registry, Watch
from peermesh.brokers.edge.tree import (
    BROKER,
    ROOT,
    Address,
    Addresses,
    parse_address,
    parse_addresses,
    receiver_path,
    sender_path,
)
from peermesh.brokers.edge.where import Where, check_where
from wire.errors import MeshError, NotAllowed
from wire.framing import NodeFrame

RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
"""The pause between two attempts to connect to an address; it doubles from the one to the other."""

OPENING_MAX: Final = 64
"""Connections of one client that are being opened at the same time. Where the broker gets little
time, it greets these in time, and a thousand together too late, so that all begin again."""

LEAVE_SECONDS: Final = 1.0
"""How long the end waits for the registry, which forgets us later if it does not answer."""

DEFAULT: Final = ""
"""The default channel, where a topic's name is asked for."""


Core = TypeVar("Core")


def carried(cores: Mapping[str, Core], topic: str) -> list[Core]:
    """Give the cores of the topics that a channel carries: its own, or all of them."""
    if topic == DEFAULT:
        return list(cores.values())
    return [cores[topic]] if topic in cores else []


class Client(Opened):
    """A publisher or a subscriber of an edge broker; finds it in the registry, however often."""

    def __init__(
        self,
        registry: Registry | Where,
        *,
        credentials: Credentials | None,
        allow_plain: bool,
        is_publisher: bool,
    ) -> None:
        """Set up, doing nothing yet; a registry that is a ``Where`` is opened with the client."""
        self.id: Final = uuid.uuid4().bytes
        self._registry: Registry
        self._place: AbstractAsyncContextManager[Registry]
        if isinstance(registry, Registry):
            self._place = nullcontext(registry)
        else:
            where = check_where("registry", registry)
            self._place = where.registry()
            credentials = where.credentials if credentials is None else credentials
            allow_plain = allow_plain or where.allow_plain
        self._network = make_network(credentials, allow_plain=allow_plain)
        self._is_publisher = is_publisher
        self._lines: dict[str, Line] = {}
        """Those that stand, by topic."""
        self._due: dict[str, None] = {}
        """Topics of which there may be something to send."""
        self._opening = trio.Semaphore(OPENING_MAX)
        self._following: dict[str, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._is_closed = False
        self._changed = trio.lowlevel.ParkingLot()
        self._denied: str | None = None
        """Why the broker or the registry refuses this client altogether: it has no role there."""
        self.last_error: str | None = None
        """Why the last connection ended, or could not be made."""

    # Life.

    async def _live(self) -> AsyncIterator[None]:
        """Begin to look for the broker. Close, and leave no task behind."""
        async with self._place as self._registry, trio.open_nursery() as nursery:
            self._nursery = nursery
            self._follow(DEFAULT)
            try:
                yield
                await self._farewell()
            finally:
                self._is_closed = True
                self._changed.unpark_all()
                members = list(self._following)
                nursery.cancel_scope.cancel()
                with shielded("the registry to forget a client", LEAVE_SECONDS):
                    await self._leave_all(members)

    async def _leave_all(self, topics: list[str]) -> None:
        async with trio.open_nursery() as nursery:
            for topic in topics:
                nursery.start_soon(self._leave_registry, topic)

    async def _farewell(self) -> None:
        """Do what has to be done before the connections go."""

    def _check_open(self) -> None:
        if self._is_closed:
            raise EdgeClosed("it is closed: make a new one")
        if self._nursery is None:
            raise EdgeClosed("it is not open yet: use it with 'async with'")

    def _check_role(self) -> None:
        self._check_open()
        if self._denied is not None:
            raise NotAllowed(self._denied)

    # Channels.

    def _follow(self, topic: str) -> None:
        """Stay connected to a topic's channel, whenever there is one."""
        if topic not in self._following:
            assert self._nursery is not None
            scope = self._following[topic] = trio.CancelScope()
            self._nursery.start_soon(self._stay_connected, topic, scope)

    async def _stop_following(self, topic: str) -> None:
        self._following.pop(topic).cancel()
        self._due.pop(topic, None)
        await self._leave_registry(topic)

    async def _stay_connected(self, topic: str, scope: trio.CancelScope) -> None:
        with scope, self._watch(topic) as watch:
            pause = RETRY_SECONDS_MIN
            while True:
                address = await self._look_up(topic)
                if address is None:
                    await watch.wait()
                    continue
                if await self._connect(topic, address):
                    pause = RETRY_SECONDS_MIN
                with trio.move_on_after(pause):
                    await watch.wait()
                pause = min(pause * 2, RETRY_SECONDS_MAX)

    @contextmanager
    def _watch(self, topic: str) -> Iterator[Watch]:
        paths = (self._path(topic),) if topic else (BROKER, ROOT)
        watch = self._registry.watch(*paths)
        try:
            yield watch
        finally:
            self._registry.unwatch(watch)

    def _path(self, topic: str) -> str:
        return receiver_path(topic) if self._is_publisher else sender_path(topic)

    async def _look_up(self, topic: str) -> Address | None:
        """Find a channel's address; the default one's while its broker lives."""
        try:
            if topic:
                data = await self._registry.read(self._path(topic))
                return parse_address(data) if data is not None else None
            if await self._registry.read(BROKER) is None:
                await self._registry.clear()  # A visitor may be the only client there is.
                return None
            both: Addresses | None = parse_addresses(await self._registry.read(ROOT) or "null")
        except RegistryError as error:
            self.last_error = str(error)
            if topic == DEFAULT and isinstance(error, NotAllowed):
                self._deny(str(error))
            return None
        if both is None:
            return None
        return both.receiver if self._is_publisher else both.sender

    async def _connect(self, topic: str, address: Address) -> bool:
        """Stay connected until the connection ends; tell whether it ever stood."""
        with ExitStack() as turn:
            if topic != DEFAULT:  # Which carries what the others do not carry yet.
                await self._opening.acquire()
                turn.callback(self._opening.release)
            try:
                line = Line(await self._network.connect(*address))
            except (OSError, MeshError, trio.BrokenResourceError, trio.TooSlowError) as error:
                self.last_error = f"{address}: {error}"
                return False
            line.tell(Hello(self.id, topic))
            try:
                await line.serve(self._opener(topic, line, turn.close))
            finally:
                self.last_error = line.error
                if self._lines.get(topic) is line:
                    del self._lines[topic]
                    self._on_lost(topic, line)
        if self._is_publisher:  # A subscriber stays: the next broker waits for it.
            await self._leave_registry(topic)
        return True

    def _opener(self, topic: str, line: Line, pass_turn: Callable[[], None]) -> Handler:
        """Expect the welcome, and let others have the turn then; take whatever else comes."""

        def handle(message: NodeFrame | ControlMessage) -> None:
            if isinstance(message, Denied):
                if message.topic:
                    self._on_denied(message)
                else:
                    self._deny(message.reason)
                return
            if self._lines.get(topic) is line:
                self._on_message(topic, line, message)
                return
            welcome = expect(message, Welcome)
            self._lines[topic], self._denied = line, None
            line.pull = partial(self._pull, topic, line)
            pass_turn()
            self._on_connected(topic, line)
            if topic and self._nursery is not None:
                self._nursery.start_soon(self._enter_registry, topic, welcome.address)

        return handle

    def _deny(self, reason: str) -> None:
        """Have calls raise ``NotAllowed`` until a connection stands."""
        self._denied = reason
        self._changed.unpark_all()

    def _line_for(self, topic: str) -> Line | None:
        return self._lines.get(topic) or self._lines.get(DEFAULT)

    # What is sent, once its line is free.

    def _mark(self, topic: str) -> None:
        """Have what there is to send of a topic sent."""
        self._due[topic] = None
        line = self._line_for(topic)
        if line is not None:
            line.wake()

    def _pull(self, topic: str, line: Line) -> Iterable[bytes | memoryview]:
        names = [topic] if topic else [name for name in self._due if self._line_for(name) is line]
        for name in names:
            if name in self._due:
                del self._due[name]
                yield from self._pieces(name)

    def _pieces(self, topic: str) -> Iterable[bytes | memoryview]:
        raise NotImplementedError

    # What the kinds of clients do when something happens.

    def _on_connected(self, topic: str, line: Line) -> None:
        raise NotImplementedError

    def _on_denied(self, denied: Denied) -> None:
        raise NotImplementedError

    def _on_lost(self, topic: str, line: Line) -> None:
        raise NotImplementedError

    def _on_message(self, topic: str, line: Line, message: NodeFrame | ControlMessage) -> None:
        raise NotImplementedError

    # Our own place in the registry.

    def _member(self, topic: str) -> str:
        return f"{self._path(topic)}/{self.id.hex()}"

    async def _enter_registry(self, topic: str, address: str) -> None:
        if topic in self._lines:
            with self._denials_noted():
                await self._registry.register(self._member(topic), address)

    async def _leave_registry(self, topic: str) -> None:
        if topic:
            with self._denials_noted():
                await self._registry.unregister(self._member(topic))

    @contextmanager
    def _denials_noted(self) -> Iterator[None]:
        """Continue without registration if the right is withdrawn: the broker tells the caller."""
        try:
            yield
        except RegistryDenied as error:
            self.last_error = str(error)
