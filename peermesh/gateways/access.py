"""Who may ask a gateway: members of the mesh by TLS, the holder of a token, or this machine."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable
from typing import Final

from handshake.exposure import Protection, is_loopback
from handshake.principals import Principal, Proof
from peermesh.gateways.names import Names, is_own_origin
from peermesh.gateways.refusals import Forbidden, InvalidRequest, NotAuthorized
from wire.errors import CredentialsError, InsecureAddress

TOKEN_SIZE_MIN: Final = 16
"""Characters of a token: shorter ones can be guessed."""

TOKEN_NAME: Final = "token"
"""The principal of the one token that a gateway may be given without a file of accounts."""

_HOST: Final = re.compile(r"\A(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?\Z")
_TOKEN: Final = re.compile(r"\A[!-~]+\Z")


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

    def is_own(self, origin: str, scheme: str, port: int, certified: Iterable[str]) -> bool:
        """Tell whether an ``Origin`` is the gateway itself; see ``Names.are_origin``."""
        return self._names.are_origin(origin, scheme, port, certified)

    def find_token(self, text: str) -> Principal | None:
        """Give the principal of the gateway's one token; ``None`` for any other."""
        is_it = self._token is not None and self._is_token(text)
        return Principal(TOKEN_NAME, Proof.TOKEN) if is_it else None

    def _is_token(self, text: str) -> bool:
        assert self._token is not None, "there is something to compare with"
        return hmac.compare_digest(text.encode(), self._token.encode())
