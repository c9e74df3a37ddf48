"""What endpoints ask of each other, and answer."""

from __future__ import annotations

from collections.abc import Iterator

from endpoint.admin.desk import VERBS, Desk, Perform
from endpoint.admin.protocol import (
    Answer,
    Failed,
    Request,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    is_answer,
)
from handshake.roles import EVERYTHING, Role
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId

SENDER = EndpointId(b"s" * 16)


class Permissions:
    """Permits everything."""

    def role(self, origin: EndpointId) -> Role:
        return EVERYTHING

    def who(self, origin: EndpointId) -> str:
        return "'it' (role some)"


def check(data: bytes) -> None:
    """Read it as the service does: what is read is written and read again, and answered."""
    try:
        if is_answer(data):
            written = encode_answer(decode_answer(data))
            assert encode_answer(decode_answer(written)) == written
        else:
            request = decode_request(data)
            written = encode_request(request)  # which is equal where NaN is not
            assert encode_request(decode_request(written)) == written
            _ask(request)
    except DecodeError:
        return


def _ask(request: Request) -> None:
    desk = Desk(Permissions())
    found = desk.take(SENDER, request, 0.0)
    if isinstance(found, Perform):
        assert tuple(map(type, request.arguments)) == VERBS[request.verb].arguments
        found = desk.finish(found, "done", 0.0)
    assert found.to == SENDER
    assert decode_answer(found.payload).number == request.number


def seeds() -> Iterator[bytes]:
    """Give one message of each kind."""
    for verb, values in (
        ("describe", ()),
        ("promote", ("s", True)),
        ("lead-log", ("l", False)),
        ("no such", (1, 2.5, None, (b"x",))),
    ):
        yield encode_request(Request(7, verb, values))
    for result in ("done", {"v": 1, "peers": [1]}, Failed(ErrorCode.NOT_AUTHORIZED, "no")):
        yield encode_answer(Answer(7, result))
