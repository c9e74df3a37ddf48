"""Who may ask: with TLS members of the mesh, with a token who has it, else this machine alone."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, assert_never
from urllib.parse import parse_qsl

from handshake.access import FileOf, Port, Right
from handshake.exposure import Protection, is_loopback
from handshake.principals import Principal, Proof
from peermesh.gateways.names import Names, is_own_origin
from peermesh.gateways.webhdfs.errors import Forbidden, InvalidRequest, NotAuthorized
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
from wire.errors import CredentialsError, InsecureAddress

TOKEN_PATH: Final = "/token"
"""Where Hadoop's client turns its credential into a token (its ``oauth2.refresh.url``)."""

TOKEN_SECONDS: Final = 3_600
"""After this time the client asks for its token again."""

TOKEN_SIZE_MIN: Final = 16
"""Characters of a token: shorter ones can be guessed."""

_HOST: Final = re.compile(r"\A(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?\Z")
_TOKEN: Final = re.compile(r"\A[!-~]+\Z")


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

TOKEN_NAME: Final = "token"
"""The principal of the one token that a gateway may be given without a file of accounts."""


class Login:
    """What a request says of its sender: a token, or a name and a password, or nothing."""

    def __init__(self, header: str) -> None:
        """Read the header ``Authorization``; raises ``NotAuthorized`` for one that is neither."""
        scheme, _, word = header.strip().partition(" ")
        word = word.strip()
        self.token: str | None = None
        self.user: tuple[str, str] | None = None
        match scheme.lower():
            case "":
                pass
            case "bearer":
                self.token = word
            case "basic":
                try:
                    name, colon, password = (
                        base64.b64decode(word, validate=True).decode().partition(":")
                    )
                except ValueError:
                    raise NotAuthorized("Authorization: Basic is no name and password") from None
                self.user = (name, password) if colon else None
                if not colon:
                    raise NotAuthorized("Authorization: Basic has no colon behind the name")
            case _:
                raise NotAuthorized("Authorization: Bearer and Basic are known here")


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


class Access:
    """Lets requests in, or refuses them."""

    def __init__(
        self,
        host: str,
        token: str | None,
        protection: Protection,
        *,
        names: Iterable[str] = (),
        has_accounts: bool = False,
    ) -> None:
        """Serve at an address; raises ``InsecureAddress`` if anybody could write there.

        Plain TCP that was allowed beyond loopback still needs a token, or accounts.
        """
        is_local, is_open = is_loopback(host), token is None and not has_accounts
        if is_open and protection is Protection.PLAIN and not is_local:
            raise InsecureAddress(
                f"a gateway at {host or 'all interfaces'} without a token would let anybody on the"
                " network read and write: give a token, or credentials, or use 127.0.0.1"
            )
        if token is not None and not (_TOKEN.match(token) and len(token) >= TOKEN_SIZE_MIN):
            raise CredentialsError(
                f"a token has at least {TOKEN_SIZE_MIN} characters of ASCII, and no blanks: choose"
                " another one"
            )
        self._token = token
        self._names = Names(host, names)

    @property
    def has_token(self) -> bool:
        """Tell whether there is a token."""
        return self._token is not None

    def host(self, headers: dict[str, str], scheme: str, certified: Iterable[str]) -> str:
        """Give the host that the client knows us by; ``certified`` are those of our certificate.

        Raises ``InvalidRequest``, and ``Forbidden`` for a request that a page of another site may
        have a browser send.
        """
        host = headers.get("host", "")
        if not _HOST.match(host):
            raise InvalidRequest(f"Host: {host!r:.100} is no name that could be redirected to")
        if not self._names.know(host, certified):
            raise Forbidden(
                f"{host} is no name of this gateway: ask for its address, or give it the name"
                " (--name, names=...)"
            )
        if not is_own_origin(headers.get("origin"), scheme, host):
            raise Forbidden("the request is of a page of another site (Origin): none may ask here")
        return host

    def find_token(self, text: str) -> Principal | None:
        """Give the principal of the gateway's one token; ``None`` for any other."""
        is_it = self._token is not None and self._is_token(text)
        return Principal(TOKEN_NAME, Proof.TOKEN) if is_it else None

    @staticmethod
    def secret_of(form: bytes) -> str:
        """Give the token that a client wants to have confirmed; raises ``InvalidRequest``."""
        try:
            fields = dict(parse_qsl(form.decode("ascii"), max_num_fields=16))
        except ValueError:
            raise InvalidRequest("a request for a token is a form") from None
        return fields.get("client_secret", "")

    def _is_token(self, text: str) -> bool:
        assert self._token is not None, "there is something to compare with"
        return hmac.compare_digest(text.encode(), self._token.encode())
