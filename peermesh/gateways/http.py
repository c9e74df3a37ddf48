"""HTTP/1.1 for gateways: h11 speaks it, trio carries it, bodies are streamed both ways."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import h11
import trio

from peermesh.gateways.limits import (
    DRAIN_SECONDS,
    DRAINED_SIZE_MAX,
    HEAD_SECONDS,
    HEAD_SIZE_MAX,
    IDLE_SECONDS,
    RECEIVE_SIZE,
    SEND_SECONDS,
)
from peermesh.gateways.refusals import InvalidRequest
from wire.errors import MeshError

Headers = Sequence[tuple[str, str]]

INERT: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; sandbox"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""Headers of every answer: what others have stored is never run by a browser, nor read by pages of
other sites."""


FIRST_BEYOND_ASCII: Final = 0x80

_ABSOLUTE: Final = re.compile(rb"https?://[^/?]*", re.IGNORECASE)


class Disconnected(MeshError):
    """The client is gone, or does not speak HTTP."""


@dataclass(frozen=True, slots=True)
class Head:
    """The line and the headers of a request."""

    method: str
    target: str
    headers: dict[str, str]
    """By name, in lower case; of one that comes twice the last."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is short enough to be sent at once."""

    status: int
    body: bytes = b""
    headers: Headers = field(default=())


_LINE_ENDS: Final = b"\r\n"


class _Line(Enum):
    """Where a connection is, beside the first line of a request."""

    AHEAD = auto()
    WITHIN = auto()
    BEHIND = auto()


class HttpConnection:
    """One client's connection, one request after another."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Own the stream from now on."""
        self._stream = stream
        self._http = _begin_dialogue()
        self._line = _Line.AHEAD
        """Whether what comes next belongs to a request's first line."""
        self._is_bodiless = False
        """Whether the request is a HEAD, which is answered without the body."""

    @property
    def can_reply(self) -> bool:
        """True until an answer to the request has begun."""
        return self._http.our_state is h11.SEND_RESPONSE

    async def next_head(self) -> Head | None:
        """Wait for the next request; ``None`` when there is none any more.

        Raises ``Disconnected`` for what is no HTTP, after it was told so.
        """
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._start_next()
        if self._http.our_state is not h11.IDLE:
            return None
        try:
            if not self._http.trailing_data[0]:
                await self._await_first_byte()
            # As a rule all of it has come at once, and needs no clock.
            event: object = self._http.next_event()
            if event is h11.NEED_DATA:
                with trio.fail_after(HEAD_SECONDS):
                    event = await self._next_event()
        except trio.TooSlowError:
            return None
        except h11.RemoteProtocolError as error:
            await self._refuse(error)
            raise Disconnected(str(error)) from error
        if not isinstance(event, h11.Request):
            return None
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
        if "content-length" in headers and "transfer-encoding" in headers:
            # Behind a proxy that goes by the other one, the body's rest would be a request.
            mistake = h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")
            await self._refuse(mistake)
            raise Disconnected(str(mistake))
        self._line, self._is_bodiless = _Line.BEHIND, event.method == b"HEAD"
        return Head(event.method.decode("ascii"), _origin_form(event.target), headers)

    def _start_next(self) -> None:
        """Prepare for the next request, of which a part may have come already."""
        self._line = _Line.AHEAD
        rest, _ = self._http.trailing_data
        if rest.isascii() and rest == rest.lstrip(_LINE_ENDS):
            self._http.start_next_cycle()
            self._prepared(rest)  # It changes none of it, and takes note of the line.
        else:
            self._http = _begin_dialogue()
            self._take(rest)

    def _take(self, data: bytes) -> None:
        """Have h11 read what came; no bytes are the end of the connection."""
        if not data or (data := self._prepared(data)):
            self._http.receive_data(data)

    def _prepared(self, data: bytes) -> bytes:
        """Escape bytes beyond ASCII in a first line, and leave away empty lines ahead of it.

        Java's client sends names so, and h11 takes ASCII alone there. RFC 9112, section 2.2: older
        clients end a body with an empty line that is no part of it.
        """
        if self._line is _Line.AHEAD:
            data = data.lstrip(_LINE_ENDS)
        if self._line is _Line.BEHIND or not data:
            return data
        line, end, rest = data.partition(b"\n")
        self._line = _Line.BEHIND if end else _Line.WITHIN
        return (line if line.isascii() else _escaped(line)) + end + rest

    async def _await_first_byte(self) -> None:
        """Wait between two requests, which may last longer than one."""
        with trio.fail_after(IDLE_SECONDS):
            self._take(await self._receive())

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Give the body of the request, piece by piece.

        Raises ``InvalidRequest`` where it is malformed, and ``Disconnected`` in the middle.
        """
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        try:
            while isinstance(event := await self._next_event(), h11.Data):
                yield bytes(event.data)
        except h11.RemoteProtocolError as error:
            _, has_ended = self._http.trailing_data
            if has_ended:
                raise Disconnected(str(error)) from error
            raise InvalidRequest(f"the body is malformed: {error}") from error
        if not isinstance(event, h11.EndOfMessage):
            raise Disconnected("the connection ended in the middle of a body")

    async def whole_body(self, size_max: int) -> bytes | None:
        """Give the body of the request at once; ``None`` if it is too long."""
        whole = b""
        async with aclosing(self.body()) as body:
            async for data in body:
                whole += data
                if len(whole) > size_max:
                    return None
        return whole

    async def reply(self, reply: Reply) -> None:
        """Send a short answer; what is left of the request's body is thrown away first."""
        await self._drain()
        data = self._begin(reply.status, reply.headers, len(reply.body))
        if reply.body and not self._is_bodiless:
            data += self._http.send(h11.Data(data=reply.body)) or b""
        await self._send_bytes(data + (self._http.send(h11.EndOfMessage()) or b""))

    async def stream(self, length: int, pieces: AsyncIterator[bytes], headers: Headers) -> None:
        """Send a long answer, piece by piece; the client notices if pieces are missing."""
        await self._drain()
        data = self._begin(200, headers, length)
        if not self._is_bodiless:
            async for piece in pieces:
                data += self._http.send(h11.Data(data=piece)) or b""
                await self._send_bytes(data)
                data = b""
        await self._send_bytes(data + (self._http.send(h11.EndOfMessage()) or b""))

    async def close(self) -> None:
        """End the connection."""
        await trio.aclose_forcefully(self._stream)

    # -- steps -----------------------------------------------------------------------------------

    def _begin(self, status: int, headers: Headers, length: int) -> bytes:
        lines = [*headers, *INERT, ("Content-Length", str(length))]
        if self._http.their_state is not h11.DONE:
            lines.append(("Connection", "close"))
        return self._http.send(h11.Response(status_code=status, headers=lines)) or b""

    async def _drain(self) -> None:
        """Read on for a while: who is still sending does not listen."""
        if self._http.their_state is not h11.SEND_BODY:
            return
        if self._http.they_are_waiting_for_100_continue:
            return
        drained = 0
        with trio.move_on_after(DRAIN_SECONDS), suppress(InvalidRequest):
            async with aclosing(self.body()) as body:
                async for data in body:
                    drained += len(data)
                    if drained > DRAINED_SIZE_MAX:
                        return

    async def _refuse(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status = error.error_status_hint
            headers = [*INERT, ("Content-Length", "0"), ("Connection", "close")]
            response = h11.Response(status_code=status, headers=headers)
            await self._send(response)

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._take(await self._receive())
        return event

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(RECEIVE_SIZE))
        except trio.BrokenResourceError as error:
            raise Disconnected("the connection broke") from error

    async def _send(self, event: h11.InformationalResponse | h11.Response) -> None:
        await self._send_bytes(self._http.send(event) or b"")

    async def _send_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            for at in range(0, len(view), RECEIVE_SIZE):
                with trio.fail_after(SEND_SECONDS):
                    await self._stream.send_all(view[at : at + RECEIVE_SIZE])
        except trio.BrokenResourceError as error:
            raise Disconnected("the connection broke") from error
        except trio.TooSlowError as error:
            raise Disconnected("the client does not read the answer") from error


def _begin_dialogue() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX)


def _escaped(line: bytes) -> bytes:
    return b"".join(
        bytes((byte,)) if byte < FIRST_BEYOND_ASCII else b"%%%02X" % byte for byte in line
    )


def _origin_form(target: bytes) -> str:
    """Give a target without scheme and host, which clients of proxies name (RFC 9112, 3.2.2).

    Whose host that is, the header Host says, as without it.
    """
    found = _ABSOLUTE.match(target)
    if found is None:
        return target.decode("ascii")
    rest = target[found.end() :].decode("ascii")
    return rest if rest.startswith("/") else f"/{rest}"
