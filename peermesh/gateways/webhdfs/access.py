"""What the operations of WebHDFS ask the sender's role for, and its tokens by form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

from handshake.access import FileOf, Port, Right
from handshake.principals import Principal, Proof
from peermesh.gateways.refusals import InvalidRequest
from peermesh.gateways.webhdfs.requests import (
    Append,
    CheckAccess,
    Concat,
    Create,
    Delete,
    GetAclStatus,
    GetContentSummary,
    GetFileBlockLocations,
    GetFileChecksum,
    GetFileStatus,
    GetHomeDirectory,
    GetQuotaUsage,
    GetServerDefaults,
    GetStatus,
    GetTrashRoot,
    GetTrashRoots,
    GetXAttrs,
    ListStatus,
    ListStatusBatch,
    MakeDirectories,
    Open,
    Rename,
    Request,
    SetAttributes,
    Truncate,
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
        "LISTSTATUS_BATCH": Right.READ,
        "OPEN": Right.READ,
        "GETFILEBLOCKLOCATIONS": Right.READ,
        "GETFILECHECKSUM": Right.READ,
        "GETCONTENTSUMMARY": Right.READ,
        "GETQUOTAUSAGE": Right.READ,
        "GETSTATUS": Right.READ,
        "CHECKACCESS": Right.READ,
        "GETACLSTATUS": Right.READ,
        "GETXATTRS": Right.READ,
        "GETSERVERDEFAULTS": Right.ENTER,
        "GETHOMEDIRECTORY": Right.ENTER,
        "GETTRASHROOT": Right.ENTER,
        "GETTRASHROOTS": Right.ENTER,
        "MKDIRS": Right.WRITE,
        "CREATE": Right.WRITE,
        "APPEND": Right.WRITE,
        "TRUNCATE": Right.WRITE,
        "CONCAT": Right.WRITE,
        "RENAME": Right.WRITE,
        "DELETE": Right.WRITE,
        "SETPERMISSION": Right.WRITE,
        "SETOWNER": Right.WRITE,
        "SETTIMES": Right.WRITE,
        "SETREPLICATION": Right.WRITE,
    },
)
"""Renaming and joining take the right to write at all places."""


_VERBS: Final[Mapping[type, str]] = {
    Append: "APPEND",
    CheckAccess: "CHECKACCESS",
    Create: "CREATE",
    Delete: "DELETE",
    GetAclStatus: "GETACLSTATUS",
    GetContentSummary: "GETCONTENTSUMMARY",
    GetFileBlockLocations: "GETFILEBLOCKLOCATIONS",
    GetFileChecksum: "GETFILECHECKSUM",
    GetFileStatus: "GETFILESTATUS",
    GetQuotaUsage: "GETQUOTAUSAGE",
    GetStatus: "GETSTATUS",
    GetXAttrs: "GETXATTRS",
    ListStatus: "LISTSTATUS",
    ListStatusBatch: "LISTSTATUS_BATCH",
    MakeDirectories: "MKDIRS",
    Open: "OPEN",
    Truncate: "TRUNCATE",
}


def demands(request: Request, store: str) -> Iterator[tuple[str, FileOf]]:
    """Say what a request asks the sender's role for: each verb, and its object."""
    match request:
        case GetServerDefaults():
            yield "GETSERVERDEFAULTS", FileOf(store, ())
        case GetHomeDirectory():
            yield "GETHOMEDIRECTORY", FileOf(store, ())
        case GetTrashRoot():
            yield "GETTRASHROOT", FileOf(store, ())
        case GetTrashRoots():
            yield "GETTRASHROOTS", FileOf(store, ())
        case Rename(path, destination):
            yield "RENAME", FileOf(store, path)
            yield "RENAME", FileOf(store, destination)
        case Concat(path, sources):
            for each in (path, *sources):
                yield "CONCAT", FileOf(store, each)
        case SetAttributes(path=path, operation=operation):
            yield operation, FileOf(store, path)
        case _:
            yield _VERBS[type(request)], FileOf(store, request.path)


def owned(request: Request, principal: Principal) -> Request:
    """Have a request act as its principal: no name of the URL becomes an owner."""
    match request:
        case Create() | MakeDirectories():
            return replace(request, user=principal.text)
        case GetHomeDirectory() | GetTrashRoot() | GetTrashRoots() if principal.name is not None:
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
