"""etcd as a store for ``benchmarks.replicas``: gRPC as it is on the wire, over one connection.

The requests are few and small, so that they are put together by hand: no gateway of JSON stands in
between, which would cost etcd more than the put itself, and no library of gRPC, which would cost
the client more.
"""

from __future__ import annotations

import json
import struct
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from benchmarks.servers import Answer, ServerStore, free_ports, running, speaking
from wire.encoding import encode
from wire.values import Value

_DATA: Final = 0
_HEADERS: Final = 1
_RESET: Final = 3
_SETTINGS: Final = 4
_PING: Final = 6
_GOAWAY: Final = 7
_WINDOW_UPDATE: Final = 8

_ACK: Final = 1
_END_STREAM: Final = 1
_END_HEADERS: Final = 4

_HEAD_SIZE: Final = 9
_WINDOW: Final = 65_535
"""Bytes that a side may send before the other one says more: HTTP/2's own figure."""
_WINDOW_MAX: Final = (1 << 31) - 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def _literal(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _headers(path: bytes) -> bytes:
    """Give the headers of a call, the same for each: POST, http, a path and what gRPC asks for."""
    return (
        b"\x83\x86\x04" + _literal(path) + b"\x01" + _literal(b"etcd")
        + b"\x0f\x10" + _literal(b"application/grpc")
        + b"\x00" + _literal(b"te") + _literal(b"trailers")
    )  # fmt: skip


_PUT: Final = _headers(b"/etcdserverpb.KV/Put")
_TXN: Final = _headers(b"/etcdserverpb.KV/Txn")

_BEGIN: Final = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, _WINDOW_MAX))
    + _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW_MAX - _WINDOW))
)
"""The preface: what answers may take up is never the limit."""


class EtcdStore(ServerStore):
    """A call is a stream of HTTP/2; answers come in any order."""

    under_way_max = 1_000

    def __init__(self, stream: trio.SocketStream) -> None:
        """Speak over ``stream``."""
        super().__init__(stream)
        self._number = 1
        """Of the next call's stream."""
        self._room_size = _WINDOW
        self._waiting: dict[int, Answer] = {}
        self._say(_BEGIN)

    async def _call(self, headers: bytes, message: bytes) -> Answer:
        data = struct.pack(">BI", 0, len(message)) + message
        await self._room()
        while self._room_size < len(data):
            await self._heard.wait()
        self._room_size -= len(data)
        number, self._number = self._number, self._number + 2
        answer = self._send(
            _frame(_HEADERS, _END_HEADERS, number, headers)
            + _frame(_DATA, _END_STREAM, number, data)
        )
        self._waiting[number] = answer
        return answer

    def take(self, data: bytes) -> bytes:
        """Take in frames. An answer has data; a refusal has headers alone."""
        at = 0
        while len(data) - at >= _HEAD_SIZE:
            word, flags, number = struct.unpack_from(">IBI", data, at)
            size, kind = word >> 8, word & 0xFF
            if len(data) - at < _HEAD_SIZE + size:
                break
            payload = data[at + _HEAD_SIZE : at + _HEAD_SIZE + size]
            at += _HEAD_SIZE + size
            if kind == _DATA:
                self._answer(self._waiting.pop(number))
            elif kind == _HEADERS:
                is_refused = flags & _END_STREAM and number in self._waiting
                assert not is_refused, f"etcd has refused: {payload!r}"
            elif kind == _WINDOW_UPDATE and number == 0:
                self._room_size += int.from_bytes(payload, "big")
            elif kind in (_SETTINGS, _PING) and not flags & _ACK:
                self._say(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
            else:
                assert kind not in (_RESET, _GOAWAY), f"etcd has ended it: {payload!r}"
        return data[at:]

    async def put(self, key: str, value: Value) -> Answer:
        """Set a key."""
        return await self._call(_PUT, _put(key.encode(), encode(value)))

    async def compare_and_set(self, key: str, value: Value, revision: None) -> Answer:
        """Set a key that is missing: its version is 0."""
        name = key.encode()
        compare = b"\x08\x00\x10\x00" + _field(3, name) + b"\x20\x00"
        put = _field(2, _put(name, encode(value)))
        return await self._call(_TXN, _field(1, compare) + _field(2, put))


def _field(number: int, content: bytes) -> bytes:
    """Write a field of Protocol Buffers that has a length."""
    size, head = len(content), bytearray((number << 3 | 2,))
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*head, size)) + content


def _put(key: bytes, value: bytes) -> bytes:
    return _field(1, key) + _field(2, value)


@asynccontextmanager
async def etcd(directory: str, members: int) -> AsyncIterator[EtcdStore]:
    """Run so many members of etcd, and speak to the one that leads."""
    ports = free_ports(2 * members)
    clients, peers = ports[:members], ports[members:]
    cluster = ",".join(f"m{at}=http://127.0.0.1:{port}" for at, port in enumerate(peers))
    commands = [
        (
            *("etcd", "--name", f"m{at}", "--data-dir", str(Path(directory, f"m{at}"))),
            *("--listen-client-urls", f"http://127.0.0.1:{client}"),
            *("--advertise-client-urls", f"http://127.0.0.1:{client}"),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-cluster", cluster),
        )
        for at, (client, peer) in enumerate(zip(clients, peers, strict=True))
    ]
    async with running(*commands, ports=clients):
        leading = await trio.to_thread.run_sync(_leading, clients)
        async with speaking(EtcdStore, leading) as store:
            yield store


def _leading(ports: list[int]) -> int:
    """Give the port of the member that leads; one that is up waits with its answer for a leader."""
    for port in ports:
        address = f"http://127.0.0.1:{port}/v3/maintenance/status"
        with urllib.request.urlopen(address, data=b"{}") as response:
            status = json.load(response)
        if status["leader"] == status["header"]["member_id"]:
            return port
    raise AssertionError("no member of etcd leads")
