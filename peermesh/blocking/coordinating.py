"""What handles of stores for threads have in common that have sessions, locks and elections."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import TTL_SECONDS
from peermesh.blocking.coordination import Lock, Session
from peermesh.blocking.living import Passage
from peermesh.blocking.watching import Elections
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.stores.coordinating import Coordinating as Core
    from endpoint.replicas.stores.locks import Elected


class Coordinating:
    """A store with sessions, and what stands on them."""

    def __init__(self, passage: Passage, core: Core) -> None:
        """Hold sessions as the store in the loop's thread does."""
        self._sessions = passage, core

    def session(self, ttl: float = TTL_SECONDS) -> Session:
        """Have keys that die with this process; see ``peermesh.Store.session``."""
        passage, core = self._sessions
        return Session(passage, passage.call_sync(core.session, ttl))

    def lock(self, name: str, *, ttl: float = TTL_SECONDS, timeout: Seconds = None) -> Lock:
        """Hold a name alone; see ``peermesh.Store.lock``."""
        passage, core = self._sessions
        return Lock(passage, passage.call_sync(partial(core.lock, name, ttl=ttl, timeout=timeout)))

    def elect(
        self,
        name: str,
        value: Value = None,
        *,
        ttl: float = TTL_SECONDS,
        timeout: Seconds = None,
    ) -> Lock:
        """Stand for election; see ``peermesh.Store.elect``."""
        passage, core = self._sessions
        begin = partial(core.elect, name, value, ttl=ttl, timeout=timeout)
        return Lock(passage, passage.call_sync(begin))

    def elected(self, name: str) -> Elected | None:
        """Give who is elected; see ``peermesh.Store.elected``."""
        passage, core = self._sessions
        return passage.call(core.elected, name)

    def elections(self, name: str) -> Elections:
        """Follow who is elected; see ``peermesh.Store.elections``."""
        passage, core = self._sessions
        return Elections(passage, passage.call_sync(core.elections, name))
