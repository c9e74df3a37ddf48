"""The port of an edge broker's registry: what its clients ask, cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator

import trio

from endpoint.port_access import PortAccess
from handshake.principals import UNPROVEN
from handshake.roles import Roles
from handshake.rules import Rules
from peermesh.brokers.edge import messages
from peermesh.brokers.edge.access import REGISTRY
from peermesh.brokers.edge.desk import HERE, NODE_SIZE_MAX, PATH_DEPTH_MAX, open_desk
from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import Ask, Beat, Hello
from peermesh.brokers.edge.reception import Badge
from peermesh.brokers.edge.registry import Push
from peermesh.testing.scripted import ScriptedTransport
from tests.fuzz.wires import blunders_raised, pieces_of, run
from wire import framing
from wire.messages import Preamble

OPERATIONS = (
    "read", "children", "write", "remove", "register", "unregister", "claim", "watch", "unwatch",
    "dance",
)  # fmt: skip


CLOSED = Roles({}, {})


class Nodes:
    """A session of a tree, which is a dict here."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.watches: set[tuple[str, Push]] = set()
        self.asked = 0
        self.is_closed = False

    async def ask(self, operation: str, path: str, data: str) -> str:
        await self._ask(path, data)
        match operation:
            case "read":
                return self.nodes.get(path, "")
            case "children":
                return "\n".join(each for each in self.nodes if each.startswith(path))
            case "write" | "register":
                self.nodes[path] = data
            case "remove" | "unregister":
                self.nodes.pop(path, None)
            case "claim":
                self.nodes.setdefault(path, data)
            case _:
                raise RegistryError("unheard of")
        return ""

    async def would_pass(self, limit: int, path: str) -> bool:
        await self._ask(path, "")
        return False

    def follow(self, path: str, push: Push) -> None:
        self.watches.add((path, push))

    def unfollow(self, path: str, push: Push) -> None:
        self.watches.remove((path, push))

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self.is_closed = True

    async def _ask(self, path: str, data: str) -> None:
        assert not self.is_closed
        assert max(len(path), len(data)) <= NODE_SIZE_MAX
        assert path.count("/") <= PATH_DEPTH_MAX
        self.asked += 1
        await trio.lowlevel.checkpoint()


def check(data: bytes) -> None:
    """Say it to a desk, cut as the first byte says; its role permits nothing if that is odd."""
    transport = ScriptedTransport(pieces_of(data[1:], data[0] if data else 0))
    nodes, proofs = Nodes(), list[bool]()
    is_closed = bool(data) and data[0] & 1 == 1
    guard = PortAccess(REGISTRY, Rules(CLOSED if is_closed else None), None).access

    async def converse() -> None:
        line = Line(transport, is_stranger=True)
        async with open_desk(lambda: nodes, line, Badge(guard, UNPROVEN)) as desk:  # type: ignore[arg-type, return-value]  # as good as a session
            desk.prove = lambda: proofs.append(True)
            await line.serve(desk.hear)

    with blunders_raised("peermesh.brokers.edge"):
        run(converse)
    assert transport.is_closed
    assert nodes.is_closed
    assert not nodes.watches
    assert len(proofs) <= 1
    assert proofs or not nodes.asked
    assert not (is_closed and (nodes.asked or proofs))


def seeds() -> Iterator[bytes]:
    """Give every operation, in its place and before the greeting."""
    ours = framing.encode_preamble(Preamble(framing.VERSION_MIN, framing.VERSION_MAX))
    hello = ours + messages.write(Hello(b"", HERE))
    asks = [
        messages.write(Ask(number, operation, "/topics/a", "data"))
        for number, operation in enumerate(OPERATIONS)
    ]
    yield from (b"\x00" + hello + ask for ask in asks)
    yield b"\x08" + hello + b"".join(asks) + messages.write(Beat())
    yield b"\x00" + ours + asks[0]
    yield b"\x09" + hello + asks[0]
    yield b"\x00" + ours + messages.write(Hello(b"", "tea"))
    yield b"\x00" + hello + messages.write(Ask(1, "write", "/" * 20, "x"))
