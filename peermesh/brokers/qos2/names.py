"""Consumers' names: whose each is, how many there may be, and how one is forgotten.

A name is there from its first login on. Its places in topics are what the broker promises to keep,
for however long the consumer is away: so names have a limit, and no time after which they go.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio

from handshake.principals import Principal
from peermesh.brokers.qos2.catalogue import CURSORS, MARKS, erase_all
from peermesh.brokers.qos2.errors import Refused
from peermesh.brokers.qos2.limits import CONSUMERS_MAX, CONSUMERS_OF_PRINCIPAL_MAX
from peermesh.brokers.qos2.place import Table
from stores.batch import Batch
from wire.errors import GuardFailed

SESSIONS: Final = "session/"
OWNERS: Final = "owner/"


def session_key(consumer: str) -> str:
    """Name the key of the token that the only session of a consumer has."""
    return SESSIONS + consumer


@dataclass(frozen=True, slots=True)
class ConsumerName:
    """A consumer that has logged in once."""

    name: str
    owner: str | None
    """The principal that made it; ``None`` for a client without a name."""
    topics: tuple[str, ...]
    """Topics of which it has had a message."""


class Names:
    """The consumers of a broker, over its store."""

    def __init__(self, table: Table) -> None:
        """Look at nothing yet."""
        self._table = table
        self._making = trio.Lock()

    async def make(self, consumer: str, owner: str | None) -> None:
        """Make room for a name unless it is there; raises ``Refused``, and ``MeshError``.

        Brokers of one mesh that make names at one moment may exceed a limit by one each.
        """
        if await self._table.get(session_key(consumer)) is not None:
            return
        async with self._making:
            owners = await self.owners()
            if consumer not in owners:
                if len(owners) >= CONSUMERS_MAX:
                    raise Refused(f"{CONSUMERS_MAX} CONSUMERS AT MOST")
                if sum(each == owner for each in owners.values()) >= CONSUMERS_OF_PRINCIPAL_MAX:
                    raise Refused(
                        f"{CONSUMERS_OF_PRINCIPAL_MAX} CONSUMERS OF ONE PRINCIPAL AT MOST"
                    )
            await self._table.put_unique(session_key(consumer), b"")

    async def give(self, consumer: str, principal: Principal) -> None:
        """Make a principal the owner of a name that has none.

        One that has proven no name owns nothing: what it makes has no owner until a principal with
        a name logs in under it.
        """
        if principal.name is not None:
            await self._table.put_unique(OWNERS + consumer, principal.name)

    async def owner(self, consumer: str) -> object:
        """Give the principal that owns a name; ``None`` if none does."""
        return await self._table.get(OWNERS + consumer)

    async def owners(self) -> dict[str, object]:
        """Give all names, and whose they are."""
        sessions = self._table.entries(prefix=SESSIONS)
        found: dict[str, object] = {
            str(each.key).removeprefix(SESSIONS): None async for each in sessions
        }
        async for each in self._table.entries(prefix=OWNERS):
            found[str(each.key).removeprefix(OWNERS)] = each.value
        return found

    async def forget(self, consumer: str) -> None:
        """Remove a name, and its places in topics; a session of it can acknowledge nothing more.

        A consumer that logs in meanwhile begins anew, and the name stays its owner's. Raises
        ``Refused`` if there is none.
        """
        if consumer not in await self.owners():
            raise Refused(f"there is no consumer {consumer}: see the list")
        keys = [session_key(consumer)]
        for kind in (CURSORS, MARKS):
            entries = self._table.entries(prefix=f"{kind}{consumer} ")
            keys += [str(each.key) async for each in entries]
        await erase_all(self._table, keys)
        last = Batch().if_absent(session_key(consumer)).erase(OWNERS + consumer)
        with suppress(GuardFailed):
            await (await self._table.batch(last)).applied()
