"""Says on whose behalf a request at a gateway comes: by its token, password or certificate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from endpoint.port_access import PortAccess
from handshake.principals import Principal
from peermesh.gateways.access import Access, Login
from peermesh.gateways.refusals import Busy, NotAuthorized
from peermesh.gateways.verifying import Verifier
from wire.errors import LimitExceeded


class Identifier:
    """Finds the principals of one gateway's clients."""

    def __init__(self, access: Access, guard: PortAccess) -> None:
        """Know the token of ``access``, and the accounts of ``guard`` in force at each time."""
        self._access = access
        self._guard = guard
        self._verifier = Verifier()

    @property
    def is_asking(self) -> bool:
        """Tell whether clients have to say who they are, besides by a certificate."""
        return self._guard.accounts is not None or self._access.has_token

    async def identify(self, authorization: str, address: str, certified: Principal) -> Principal:
        """Say on whose behalf a request comes; raises ``NotAuthorized`` for a wrong proof.

        ``authorization`` is the header of that name, ``address`` where the client dials from, and
        ``certified`` what its certificate proves. ``Busy`` says that too many are being checked.
        """
        accounts, login = self._guard.accounts, Login(authorization)
        principal: Principal | None = None
        if login.token is not None and self.is_asking:
            principal = await self.find_token(login.token, address)
        elif login.user is not None and accounts is not None:
            with _limits_told():
                principal = await self._verifier.user(accounts, *login.user, address)
        elif not self.is_asking or self._guard.roles is not None:
            principal = certified
        if principal is None:
            raise NotAuthorized("this gateway wants a token (Authorization: Bearer), or a password")
        return principal

    async def find_token(self, text: str, address: str) -> Principal | None:
        """Give the principal of a token; ``None`` for a wrong one. Raises ``Busy``."""
        principal, accounts = self._access.find_token(text), self._guard.accounts
        if principal is not None or accounts is None:
            return principal
        with _limits_told():
            return await self._verifier.token(accounts, text, address)


@contextmanager
def _limits_told() -> Iterator[None]:
    try:
        yield
    except LimitExceeded as error:
        raise Busy(str(error)) from error
