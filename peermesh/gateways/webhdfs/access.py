"""What the operations of WebHDFS ask the sender's role for, and its tokens by form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, assert_never
from urllib.parse import parse_qsl

from handshake.access import FileOf, Port, Right
from handshake.principals import Principal, Proof
from peermesh.gateways.refusals import InvalidRequest
from peermesh.gateways.webhdfs.requests import (
    Create,
    Delete,
    GetFileBlockLocations,
    GetFileStatus,
    GetHomeDirectory,
    GetServerDefaults,
    ListStatus,
    MakeDirectories,
    Open,
    Rename,
    Request,
)

TOKEN_PATH: Final = "/token"
"""Where Hadoop's client turns its credential into a token (its ``oauth2.refresh.url``)."""

TOKEN_SECONDS: Final = 3_600
"""After this time the client asks for its token again."""

PORT: Final = Port(
    "the WebHDFS gateway",
    "peermesh/gateways/webhdfs/serving.py",
    (Proof.CERTIFICATE, Proof.TOKEN, Proof.PASSWORD),
    "plain on loopback; elsewhere refused, or `allow_plain` with a token or accounts",
    {
        "GETFILESTATUS": Right.READ,
        "LISTSTATUS": Right.READ,
        "OPEN": Right.READ,
        "GETFILEBLOCKLOCATIONS": Right.READ,
        "GETSERVERDEFAULTS": Right.ENTER,
        "GETHOMEDIRECTORY": Right.ENTER,
        "MKDIRS": Right.WRITE,
        "CREATE": Right.WRITE,
        "RENAME": Right.WRITE,
        "DELETE": Right.WRITE,
    },
)
"""Renaming takes the right to write at both places."""


def demands(request: Request, store: str) -> Iterator[tuple[str, FileOf]]:  # noqa: C901 - a case each
    """Say what a request asks the sender's role for: each verb, and its object."""
    match request:
        case GetServerDefaults():
            yield "GETSERVERDEFAULTS", FileOf(store, ())
        case GetHomeDirectory():
            yield "GETHOMEDIRECTORY", FileOf(store, ())
        case Rename(path, destination):
            yield "RENAME", FileOf(store, path)
            yield "RENAME", FileOf(store, destination)
        case GetFileStatus(path):
            yield "GETFILESTATUS", FileOf(store, path)
        case ListStatus(path):
            yield "LISTSTATUS", FileOf(store, path)
        case Open(path=path):
            yield "OPEN", FileOf(store, path)
        case GetFileBlockLocations(path):
            yield "GETFILEBLOCKLOCATIONS", FileOf(store, path)
        case MakeDirectories(path=path):
            yield "MKDIRS", FileOf(store, path)
        case Create(path=path):
            yield "CREATE", FileOf(store, path)
        case Delete(path=path):
            yield "DELETE", FileOf(store, path)
        case _:
            assert_never(request)


def owned(request: Request, principal: Principal) -> Request:
    """Have a request act as its principal: no name of the URL becomes an owner."""
    match request:
        case Create() | MakeDirectories():
            return replace(request, user=principal.text)
        case GetHomeDirectory() if principal.name is not None:
            return replace(request, user=principal.name)
        case _:
            return request


def secret_of(form: bytes) -> str:
    """Give the token that a client wants to have confirmed; raises ``InvalidRequest``."""
    try:
        fields = dict(parse_qsl(form.decode("ascii"), max_num_fields=16))
    except ValueError:
        raise InvalidRequest("a request for a token is a form") from None
    return fields.get("client_secret", "")
