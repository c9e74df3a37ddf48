"""Who may ask: with TLS members of the mesh, with a token who has it, else this machine alone."""

from __future__ import annotations

import hmac
import re
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from handshake.exposure import Protection, is_loopback
from peermesh.gateways.webhdfs.errors import InvalidRequest, NotAuthorized
from wire.errors import CredentialsError, InsecureAddress

TOKEN_PATH: Final = "/token"
"""Where Hadoop's client turns its credential into a token (its ``oauth2.refresh.url``)."""

TOKEN_SECONDS: Final = 3_600
"""After this time the client asks for its token again."""

TOKEN_SIZE_MIN: Final = 16
"""Characters of a token: shorter ones can be guessed."""

_HOST: Final = re.compile(r"\A(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?\Z")
_TOKEN: Final = re.compile(r"\A[!-~]+\Z")


class Access:
    """Lets requests in, or refuses them."""

    def __init__(self, host: str, token: str | None, protection: Protection) -> None:
        """Serve at an address; raises ``InsecureAddress`` if anybody could write there.

        Plain TCP that was allowed beyond loopback still needs a token.
        """
        is_local = is_loopback(host)
        if token is None and protection is Protection.PLAIN and not is_local:
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
        self._are_members = protection is Protection.TLS

    def check(self, headers: dict[str, str]) -> str:
        """Give the host that the client knows us by; raises ``NotAuthorized``."""
        host = headers.get("host", "")
        if not _HOST.match(host):
            raise InvalidRequest(f"Host: {host!r:.100} is no name that could be redirected to")
        if self._token is None:
            if not self._are_members:
                _check_local(host)
        elif not self._is_token(headers.get("authorization", "").removeprefix("Bearer ")):
            raise NotAuthorized("this gateway wants its token: Authorization: Bearer TOKEN")
        return host

    def grant(self, form: bytes) -> str:
        """Give the token to whoever knows it; raises ``NotAuthorized``."""
        try:
            fields = dict(parse_qsl(form.decode("ascii"), max_num_fields=16))
        except ValueError:
            raise InvalidRequest("a request for a token is a form") from None
        secret = fields.get("client_secret", "")
        if self._token is None or not self._is_token(secret):
            raise NotAuthorized("client_secret is not the token of this gateway")
        return secret

    def _is_token(self, text: str) -> bool:
        assert self._token is not None, "there is something to compare with"
        return hmac.compare_digest(text.encode(), self._token.encode())


@lru_cache(64)  # one client asks under one name
def _check_local(host: str) -> None:
    """Refuse names of others: a page in a browser may have its own name lead here."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if not is_loopback(name.removeprefix("[").removesuffix("]")):
        raise NotAuthorized(f"{host} is not this machine: ask for 127.0.0.1 or localhost")
