"""Checks tokens and passwords in a thread, one at a time, so that guesses stop nothing else."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from handshake.accounts import PASSWORD_SIZE_MAX, Accounts
from handshake.principals import Principal
from wire.errors import LimitExceeded

AT_ONCE: Final = 1
"""Checks at a time: each takes 16 MiB and a core for some 50 ms, and the machine has others."""

WAITING_MAX: Final = 64
"""Checks that wait for their turn, in all: some three seconds."""

WAITING_OF_ADDRESS_MAX: Final = 8
"""Of these, those of one address: who guesses from there does not take the turns of others."""

KNOWN_MAX: Final = 1_024
"""Tokens and passwords that were right, and are not hashed again; of each a keyed digest."""


class Verifier:
    """Finds the principal of a token or password; remembers those that were right."""

    def __init__(self) -> None:
        """Know none."""
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, Principal] = OrderedDict()
        self._accounts: Accounts | None = None
        self._waiting: Counter[str] = Counter()
        self._limiter = trio.CapacityLimiter(AT_ONCE)
        self.hashed = 0
        """Checks that took a hash."""

    async def token(self, accounts: Accounts, text: str, address: str) -> Principal | None:
        """Give the principal of a token; ``None`` for a wrong one. Raises ``LimitExceeded``."""
        return await self._find(accounts, ("token", text), address, accounts.find_token)

    async def user(
        self, accounts: Accounts, name: str, password: str, address: str
    ) -> Principal | None:
        """Give the principal of a user; ``None`` if it is not. Raises ``LimitExceeded``."""
        words = ("user", name, password)
        return await self._find(accounts, words, address, partial(accounts.find_user, name))

    async def _find(
        self,
        accounts: Accounts,
        words: tuple[str, ...],
        address: str,
        check: Callable[[str], Principal | None],
    ) -> Principal | None:
        if accounts is not self._accounts:  # They were changed: what was right may not be.
            self._accounts = accounts
            self._known.clear()
        if sum(map(len, words)) > PASSWORD_SIZE_MAX:
            return None
        text = "\0".join(words).encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, text, "sha256")
        if digest in self._known:
            self._known.move_to_end(digest)
            return self._known[digest]
        is_full = self._waiting.total() >= WAITING_MAX
        if is_full or self._waiting[address] >= WAITING_OF_ADDRESS_MAX:
            raise LimitExceeded("too many tokens and passwords are being checked: try again")
        self._waiting[address] += 1
        try:
            self.hashed += 1
            found = await trio.to_thread.run_sync(check, words[-1], limiter=self._limiter)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        if found is not None and accounts is self._accounts:
            self._known[digest] = found
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return found
