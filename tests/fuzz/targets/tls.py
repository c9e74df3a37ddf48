"""The mesh's port with credentials: the first bytes of anybody, before TLS lets him in."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import cache

import trio

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from net.network import Network
from peermesh.testing.scripted import ScriptedStream
from tests.fuzz.wires import pieces_of, run, tell
from wire.errors import MeshError


@cache
def _credentials() -> Credentials:
    return Credentials.from_secret(ClusterSecret(bytes(range(20))), "fuzzed")


@cache
def _network() -> Network:
    return Network(
        _credentials(),
        allow_plain=False,
        open_stream=trio.open_tcp_stream,
        open_listeners=trio.open_tcp_listeners,
    )


def check(data: bytes) -> None:
    """Say it to a listener, in pieces as the first byte says: nobody gets in by bytes alone."""
    stream = ScriptedStream(pieces_of(data[1:], data[0] if data else 0))
    run(lambda: _knock(stream))
    assert stream.socket.is_closed


async def _knock(stream: ScriptedStream) -> None:
    try:
        await _network().secure(stream)  # type: ignore[arg-type]  # as good as a socket's
    except MeshError as error:
        tell(error)
    except trio.BrokenResourceError:
        pass
    else:
        raise AssertionError("somebody without a certificate was let in")


def seeds() -> Iterator[bytes]:
    """Give the first words of a client, whole and cut, and those of other protocols."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = _credentials().client_context().wrap_bio(incoming, outgoing, server_side=False)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        hello = outgoing.read()
    for size in b"\x00\x01\x40":
        yield bytes((size,)) + hello
    yield b"\x00" + hello[:100]
    yield b"\x00" + hello + hello
    yield b"\x00" + b"\x14\x03\x03\x00\x01\x01" + hello
    yield b"\x00" + b"\x15\x03\x03\x00\x02\x02\x28"
    yield b"\x00PMSH\x00\x02\x00\x02"
    yield b"\x00GET / HTTP/1.1\r\n\r\n"
