"""The embedded registry, for clients: asks one of the brokers' registry ports."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable
from functools import partial
from itertools import count, cycle
from typing import Final

import trio

from endpoint import arguments
from endpoint.dialer import causes
from handshake.credentials import Credentials
from peermesh.brokers.edge.desk import HERE
from peermesh.brokers.edge.errors import RegistryDenied, RegistryError
from peermesh.brokers.edge.line import Line, make_network
from peermesh.brokers.edge.messages import (
    Answer,
    Ask,
    Changed,
    ControlMessage,
    Denied,
    Hello,
    Welcome,
    expect,
)
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.registry import Registry
from wire.addresses import join_address
from wire.errors import MeshError
from wire.framing import NodeFrame

AGAIN_SECONDS: Final = 0.1
"""The pause before the next registry port is tried."""

DENIED_SECONDS: Final = 1.0
"""The pause after a registry without a role for this client: people change roles, in seconds."""


def check_address(address: tuple[str, int]) -> tuple[str, int]:
    """Check where a registry is: host and port."""
    if not isinstance(address, (tuple, list)) or len(address) != len(("host", "port")):
        raise TypeError(f"address={address!r:.80}: give host and port, such as ('127.0.0.1', 4040)")
    return arguments.host("host", address[0]), arguments.port("port", address[1])


class _Question:
    """Something that was asked, and waits for its answer."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        """Set by the answer, or when the connection is lost without one."""
        self.answer: Answer | None = None


class RemoteRegistry(Opened, Registry):
    """The registry at one of these addresses: ``async with RemoteRegistry([("host", port)])``."""

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        *,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Set up; the addresses are tried in turn, whenever the connection is lost.

        Raises ``InsecureAddress`` where plain TCP would be exposed.
        """
        super().__init__()
        self._addresses = [check_address(address) for address in addresses]
        if not self._addresses:
            raise RegistryError("say where the registry is: give the address of a registry port")
        self._network = make_network(credentials, allow_plain=allow_plain)
        for host, _ in self._addresses:
            self._network.check(host)
        self.failures: dict[tuple[str, int], str] = {}
        """Why each address that was tried since the last connection failed; the newest is last."""
        self._id = uuid.uuid4().bytes
        self._line: Line | None = None
        self._denied: str | None = None
        """Why the last registry refused this client, if it has no role there."""
        self._numbers = count(1)
        self._questions: dict[int, _Question] = {}
        self._connected = trio.lowlevel.ParkingLot()

    @property
    def last_error(self) -> str | None:
        """Why the last connection could not be made; ``None`` while there is one."""
        return next(reversed(self.failures.values()), None)

    def is_connected(self) -> bool:
        """Tell whether a registry answers now."""
        return self._line is not None

    def has_failed_everywhere(self) -> bool:
        """Tell whether every address was tried in vain since the last connection."""
        return len(self.failures) == len(set(self._addresses))

    async def _live(self) -> AsyncIterator[None]:
        """Begin to look for a registry. Close the connection; our ephemeral nodes go with it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stay_connected)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    async def _stay_connected(self) -> None:
        for host, port in cycle(self._addresses):
            try:
                line = Line(await self._network.connect(host, port))
            except (OSError, MeshError, trio.BrokenResourceError) as error:
                self.failures.pop((host, port), None)  # The last one is the last of them.
                self.failures[host, port] = f"{join_address(host, port)}: {causes(error)}"
                await trio.sleep(AGAIN_SECONDS)
                continue
            line.tell(Hello(self._id, HERE))
            try:
                await line.serve(partial(self._hear, line))
            finally:
                is_refused, self._line = self._line is not line, None
                if is_refused:
                    self.failures[host, port] = f"{join_address(host, port)}: {line.error}"
                for question in self._questions.values():
                    question.ended.set()
            await trio.sleep(AGAIN_SECONDS if self._denied is None else DENIED_SECONDS)

    def _hear(self, line: Line, message: NodeFrame | ControlMessage) -> None:
        match message:
            case Changed(path):
                self._watchers.push(path)
            case Denied(reason=reason):
                self._denied = reason
                self._connected.unpark_all()
            case Answer(number) if self._line is line:
                question = self._questions.get(number)
                if question is not None:
                    question.answer = message
                    question.ended.set()
            case _:
                expect(message, Welcome)
                self._say_again(line)

    def _say_again(self, line: Line) -> None:
        """Connected again: say what is ours, and what we follow."""
        self._line = line
        self._denied = None
        self.failures.clear()
        for path, data in self._mine.items():
            line.tell(Ask(0, "register", path, data))
        for path in self._watchers.paths():
            line.tell(Ask(0, "watch", path, ""))
        self._watchers.push_all()
        self._connected.unpark_all()

    async def unregister(self, path: str) -> None:
        """Remove an ephemeral node of ours; if it is none, there is nothing to ask for."""
        if path in self._mine:
            await super().unregister(path)

    async def _do(self, operation: str, path: str, data: str) -> str:
        """Ask until there is an answer; raises ``RegistryError`` if it is a refusal."""
        while True:
            line = self._line
            if line is None:
                if self._denied is not None:
                    raise RegistryDenied(self._denied)
                await self._connected.park()
                continue
            number, question = next(self._numbers), _Question()
            self._questions[number] = question
            try:
                line.tell(Ask(number, operation, path, data))
                await question.ended.wait()
            finally:
                self._questions.pop(number, None)
            answer = question.answer
            if answer is not None:
                if answer.error:
                    raise (RegistryDenied if answer.is_denied else RegistryError)(answer.error)
                return answer.lines

    def _begin_to_follow(self, path: str) -> None:
        if self._line is not None:
            self._line.tell(Ask(0, "watch", path, ""))

    def _end_to_follow(self, path: str) -> None:
        if self._line is not None:
            self._line.tell(Ask(0, "unwatch", path, ""))
