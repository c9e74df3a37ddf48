"""The agent's side: one endpoint in a process of its own, doing what comes over a socket.

It ends when its parent asks for that, or is gone: a dead parent closes the socket, and where the
system can, it also takes a stopped agent with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import trio

from endpoint.endpoint import Endpoint
from endpoint.flight import Record
from peermesh.testing.agent import protocol
from peermesh.testing.agent.protocol import Call, Cancel, Failure, Inbox, Noted, Reply
from peermesh.testing.agent.servant import Servant
from peermesh.testing.clocks import skew_clock
from wire.errors import LocalProtocolError

RECEIVE_SIZE: Final = 65_536

PR_SET_PDEATHSIG: Final = 1
"""The option of Linux's ``prctl`` that sends a signal when the parent is gone."""


def main(arguments: list[str]) -> None:
    """Serve: the arguments are the socket's descriptor, the parent's id, and the directory."""
    descriptor, parent, directory = int(arguments[0]), int(arguments[1]), Path(arguments[2])
    _die_with(parent)
    trio.run(_serve, socket.socket(fileno=descriptor), directory)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent is gone already")


async def _serve(sock: socket.socket, directory: Path) -> None:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    async with stream, Endpoint() as endpoint:
        await Agent(stream, endpoint, directory).run()


class Agent:
    """Answers calls, each in a task of its own, and tells every flight record at once."""

    def __init__(self, stream: trio.SocketStream, endpoint: Endpoint, directory: Path) -> None:
        """Serve one cluster."""
        self._stream = stream
        self._endpoint = endpoint
        self._servant = Servant(endpoint, directory)
        self._calls: dict[int, trio.CancelScope] = {}
        self._outgoing = bytearray()
        self._work = trio.lowlevel.ParkingLot()
        self._is_ending = False

    async def run(self) -> None:
        """Serve until the cluster closes the socket, or asks for the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            self._endpoint.loop.flight.tap = self._tell
            await self._read(nursery)
            nursery.cancel_scope.cancel()

    async def _read(self, nursery: trio.Nursery) -> None:
        inbox = Inbox()
        while not self._is_ending:
            try:
                chunk = await self._stream.receive_some(RECEIVE_SIZE)
            except trio.BrokenResourceError:
                return
            if not chunk:
                return
            for message in inbox.feed(bytes(chunk)):
                match message:
                    case Call(number):
                        scope = self._calls[number] = trio.CancelScope()
                        nursery.start_soon(self._answer, message, scope)
                    case Cancel(number):
                        self._cancel(number)
                    case _:
                        raise LocalProtocolError(f"a cluster does not say {message}")

    def _cancel(self, number: int) -> None:
        scope = self._calls.get(number)
        if scope is not None:
            scope.cancel()

    async def _answer(self, call: Call, scope: trio.CancelScope) -> None:
        flight = self._endpoint.loop.flight
        flight.meet(dict(call.met))
        try:
            with scope:
                value = await self._do(call.method, call.arguments)
                self._send(Reply(call.number, value, ((flight.node, flight.number),)))
        except Exception as error:
            name, met = type(error).__name__, ((flight.node, flight.number),)
            self._send(Failure(call.number, name, str(error), met))
        finally:
            del self._calls[call.number]

    async def _do(self, method: str, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - plain values
        match method, arguments:
            case "clock", ():
                return (trio.current_time(), time.monotonic())
            case "skew_clock", (seconds,):
                skew_clock(float(seconds))
                return None
            case "node_id", ():
                return self._endpoint.node_id()
            case "shutdown", ():
                await self._endpoint.shutdown()
                return None
            case _:
                return await self._servant.call(method, *arguments)

    def _tell(self, record: Record) -> None:
        self._send(Noted(record))

    def _send(self, message: protocol.Message) -> None:
        self._outgoing += protocol.to_bytes(message)
        self._work.unpark_all()

    async def _write(self) -> None:
        while True:
            while not self._outgoing:
                await self._work.park()
            some, self._outgoing = self._outgoing, bytearray()
            try:
                await self._stream.send_all(some)
            except trio.BrokenResourceError:
                return
