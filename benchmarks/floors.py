"""The least that each thing could cost in trio and Python: bare loops over one TCP connection.

What they do: a 32-bit length in front of every message, joined writes and reads of 128 KiB,
messages sliced out of the bytes, and the same checks of every message as in all other variants.

What they do not: topics, subscriptions, routing, more than one peer, a message type, a handshake,
limits, back-pressure other than TCP's, or a call for each message: the loop that makes the messages
frames them itself, and the loop that checks them cuts them out itself. No library can be as bare.
"""

from __future__ import annotations

import socket
import time
from itertools import cycle, islice
from struct import Struct
from typing import Final

import trio

from benchmarks.role import Task
from benchmarks.workload import MARKS, Disorder, event, events, messages
from wire.decoding import decode
from wire.encoding import encode

LENGTH: Final = Struct("!I")
WRITE_SIZE: Final = 128 * 1024
READ_SIZE: Final = 128 * 1024


def _prepare(sock: socket.socket) -> socket.socket:
    sock.settimeout(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _accept(task: Task) -> socket.socket:
    """Listen, say where, and give the one connection that comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task.introduce(port=listener.getsockname()[1])
        connection, _ = listener.accept()
    return _prepare(connection)


def _connect(task: Task) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", task.last_met["port"]))
    task.introduce()
    return _prepare(sock)


async def _send_all(sock: socket.socket, data: bytes) -> None:
    view, sent = memoryview(data), 0
    while sent < len(data):
        try:
            sent += sock.send(view[sent:])
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)


async def _receive(sock: socket.socket) -> bytes:
    while True:
        try:
            return sock.recv(READ_SIZE)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)


async def send(task: Task) -> None:
    """Frame all messages, and write them in batches."""
    with _connect(task) as sock:
        pack = LENGTH.pack
        pieces: list[bytes] = []
        queued = 0
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            pieces += (pack(len(payload)), payload)
            queued += len(payload)
            if queued >= WRITE_SIZE:
                await _send_all(sock, b"".join(pieces))
                await trio.lowlevel.checkpoint()
                pieces.clear()
                queued = 0
        await _send_all(sock, b"".join(pieces))
        task.report(began_ns=began)
        await task.dismissed_async()


async def receive(task: Task) -> None:
    """Read, slice and check all messages."""
    with _accept(task) as sock:
        unpack, size = LENGTH.unpack_from, task.size
        tail = b""
        taken = 0
        while taken < task.count:
            chunk = await _receive(sock)
            buffer = tail + chunk
            start, available = 0, len(buffer)
            while start + 4 <= available:
                end = start + 4 + unpack(buffer, start)[0]
                if end > available:
                    break
                data = buffer[start + 4 : end]
                if data[0] != taken % MARKS or len(data) != size:
                    raise Disorder(taken, data)
                taken += 1
                start = end
            tail = buffer[start:]
            await trio.lowlevel.checkpoint()
        task.report(ended_ns=time.monotonic_ns(), taken=taken)
        await task.dismissed_async()


# Encoding and decoding alone, in a process each as the two sides of a connection would. The
# connection here only makes them begin together. The slower of the two sets the rate.


def encode_events(task: Task) -> None:
    """Encode all events, and throw them away."""
    source = events(task.count)
    with _connect(task):
        began = time.monotonic_ns()
        for value in source:
            encode(value)
        task.report(encoding_ns=time.monotonic_ns() - began, taken=task.count)
        task.dismissed()


def decode_events(task: Task) -> None:
    """Decode as many events, and throw them away."""
    encoded = [encode(event(mark)) for mark in range(MARKS)]
    source = islice(cycle(encoded), task.count)
    with _accept(task):
        began = time.monotonic_ns()
        for data in source:
            decode(data)
        task.report(decoding_ns=time.monotonic_ns() - began)
        task.dismissed()


# Ping-pong. The first form is what anybody would write with trio; the second avoids its checkpoints
# where the system has an answer ready, and is the least that trio can do.


async def echo_socket(task: Task) -> None:
    """Send back what comes, with trio's own socket."""
    with trio.socket.from_stdlib_socket(_accept(task)) as sock:
        while data := await sock.recv(READ_SIZE):
            await sock.send(data)
        task.report()
        await task.dismissed_async()


async def ask_socket(task: Task) -> None:
    """Time each round trip, with trio's own socket."""
    with trio.socket.from_stdlib_socket(_connect(task)) as sock:
        trips = []
        for payload in messages(task.count, task.size):
            began = time.monotonic_ns()
            await sock.send(payload)
            data = await sock.recv(READ_SIZE)
            trips.append(time.monotonic_ns() - began)
            if data != payload:
                raise Disorder(len(trips) - 1, data)
        sock.shutdown(socket.SHUT_WR)
        task.report(trips_ns=trips)
        await task.dismissed_async()


async def echo_bare(task: Task) -> None:
    """Send back what comes, waiting only where the system has nothing yet."""
    with _accept(task) as sock:
        while data := await _receive(sock):
            sock.send(data)
        task.report()
        await task.dismissed_async()


async def ask_bare(task: Task) -> None:
    """Time each round trip, waiting only where the system has nothing yet."""
    with _connect(task) as sock:
        trips = []
        for payload in messages(task.count, task.size):
            began = time.monotonic_ns()
            sock.send(payload)
            data = await _receive(sock)
            trips.append(time.monotonic_ns() - began)
            if data != payload:
                raise Disorder(len(trips) - 1, data)
        sock.shutdown(socket.SHUT_WR)
        task.report(trips_ns=trips)
        await task.dismissed_async()
