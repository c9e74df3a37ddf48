"""The WebHDFS gateway's port: requests one after another, whatever they say, cut anywhere."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import trio

from endpoint.port_access import PortAccess
from handshake.exposure import Protection
from handshake.rules import Rules
from net.acceptor import Arrival
from net.network import Network
from peermesh.gateways.access import Access
from peermesh.gateways.http import Reply
from peermesh.gateways.refusals import NotFound
from peermesh.gateways.webhdfs import serving
from peermesh.gateways.webhdfs.access import PORT, TOKEN_PATH
from peermesh.gateways.webhdfs.health import PATHS
from peermesh.gateways.webhdfs.operations import OPERATIONS
from peermesh.gateways.webhdfs.readiness import Outlook
from peermesh.gateways.webhdfs.requests import (
    URL_PREFIX,
    Append,
    Create,
    Open,
    Request,
    Transfer,
)
from peermesh.gateways.webhdfs.uploads import UploadBudget
from peermesh.testing.scripted import ScriptedStream
from tests.fuzz.wires import blunders_raised, pieces_of, run

TOKEN = "a-token-of-some-length"
HEAD_SIZE = 2
LENGTH = 20


class NoFiles:
    """A file system that takes everything and has one short file."""

    def __init__(self) -> None:
        self.written = self.answered = 0
        self.uploads = UploadBudget()

    def is_active(self) -> bool:
        return True

    def outlook(self) -> Outlook:
        return Outlook(0.0, hears_majority=True)

    async def prepare(self) -> float:
        await trio.lowlevel.checkpoint()
        return math.inf

    def check(self, request: Transfer) -> None:
        """Nothing is wrong."""

    async def write(self, request: Create | Append, pieces: AsyncIterator[bytes]) -> None:
        async for piece in pieces:
            self.written += len(piece)

    def find_file(self, request: Open) -> tuple[None, int, int]:
        self.answered += 1
        if request.offset > LENGTH:
            raise NotFound("beyond the end")
        return None, request.offset, min(LENGTH, request.offset + request.length)

    async def read(self, file: None, start: int, stop: int) -> AsyncIterator[bytes]:
        for at in range(start, stop, 7):
            await trio.lowlevel.checkpoint()
            yield bytes(min(7, stop - at))

    async def answer(self, request: Request, until: float) -> Reply:
        self.answered += 1
        await trio.lowlevel.checkpoint()
        return Reply(200, b"{}")


def check(data: bytes) -> None:
    """Say it to a gateway, which has a token if the first byte is odd, cut as the second says."""
    if len(data) < HEAD_SIZE:
        return
    stream = ScriptedStream(pieces_of(data[HEAD_SIZE:], data[1]))
    token = TOKEN if data[0] & 1 else None
    with blunders_raised("peermesh.gateways.webhdfs"):
        files = NoFiles()
        run(lambda: _converse(stream, token, files))
    assert stream.socket.is_closed
    assert stream.sent[:9] in (b"", b"HTTP/1.1 ")
    if token and TOKEN.encode() not in data:
        assert not files.written
        assert not files.answered


async def _converse(stream: ScriptedStream, token: str | None, files: NoFiles) -> None:
    runner = SimpleNamespace(error=None, is_master=True)
    space = SimpleNamespace(bytes=1, entries=1, max_bytes=None)
    store = SimpleNamespace(
        runner=runner, part=None, name=lambda: "files", statistics=lambda: space
    )
    access = Access("127.0.0.1", token, Protection.PLAIN)
    guard = PortAccess(PORT, Rules(), None)
    network = Network(None, allow_plain=False)
    gateway = serving.WebHDFSGateway(store, access, network, guard)  # type: ignore[arg-type]  # nothing is stored
    gateway._service = files  # type: ignore[assignment]  # as good as a store's
    arrival = Arrival(gateway._acceptor, stream, None)  # type: ignore[arg-type]  # as good as a socket's
    gateway._acceptor.arrivals.arrive(arrival, "")
    await gateway._acceptor._run(arrival, gateway._converse)
    assert gateway.statistics().connections == 0


def seeds() -> Iterator[bytes]:
    """Give each operation, bodies of both kinds, several requests in a row, and halves of them."""
    host = "Host: localhost:1\r\n"
    for operation in OPERATIONS:
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            target = f"{URL_PREFIX}/a?op={operation}&destination=/d&renameoptions=NONE&offset=1"
            yield b"\x00\x00" + f"{method} {target} HTTP/1.1\r\n{host}\r\n".encode()
    for path in PATHS:
        yield b"\x01\x03" + f"GET {path} HTTP/1.1\r\n{host}\r\n".encode()
    upload = f"PUT {URL_PREFIX}/a?op=CREATE&data=true HTTP/1.1\r\n{host}".encode()
    sized = upload + b"Content-Length: 5\r\n\r\nhello"
    chunked = upload + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    asking = upload + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
    yield b"\x00\x00" + sized + chunked + asking
    yield b"\x00\x05" + chunked + sized
    yield b"\x00\x01" + asking[:-1]
    get = f"GET {URL_PREFIX}/a?op=OPEN&data=true HTTP/1.1\r\n{host}".encode()
    yield b"\x01\x00" + get + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
    form = f"client_id=x&client_secret={TOKEN}".encode()
    yield b"\x01\x00" + (
        f"POST {TOKEN_PATH} HTTP/1.1\r\n{host}Content-Length: {len(form)}\r\n\r\n".encode() + form
    )
