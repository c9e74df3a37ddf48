"""What the handle of a store asks, as its outbox sends it: actions, in parcels. Pure."""

from __future__ import annotations

from stores.actions import ACTION_SIZE, WriterId, request_range
from stores.judgement import Request
from stores.replica.asked.outbox import Outbox, Parcel, Words
from stores.requests import Requests
from stores.table.bodies import Write
from wire.errors import ErrorCode, StoreClosed
from wire.identifiers import EntityId


class _Actions(Parcel):
    """Actions that become one entry."""

    __slots__ = ("actions",)

    def __init__(self, action: Request, asked: tuple[int, int], size: int) -> None:
        """Have one action so far."""
        super().__init__(*asked, size)
        self.actions = [action]

    def written(self, number: int, resolved: int, *, is_vetted: bool) -> Write:
        """Give what the machine is asked."""
        return Write(number, tuple(self.actions), resolved, is_vetted=is_vetted)


class TableOutbox(Outbox):
    """The requests of one handle of a store."""

    words = Words("store", "master", "clone", "writes", ErrorCode.NO_SUCH_MASTER)

    def __init__(self, entity: EntityId, incarnation: int) -> None:
        """Have asked nothing. ``incarnation`` differs between lives of an entity."""
        self.requests = Requests(WriterId.of(entity, incarnation), self._add)
        """What the handle asks with."""
        self._latest: _Actions | None = None
        super().__init__(entity, incarnation, self.requests)

    def close(self) -> None:
        """Take on nothing more: whatever is asked for raises ``StoreClosed``."""
        self.requests.serve(_refuse)

    def _rename(self) -> None:
        self.requests.writer = self.writer

    def _add(self, action: Request) -> None:
        asked = request_range(action)
        assert asked is not None, action
        size = self.requests.size + ACTION_SIZE
        latest = self._latest
        if self._join(latest, asked[1], size) and latest is not None:
            latest.actions.append(action)
        else:
            self._latest = parcel = _Actions(action, asked, size)
            self._put(parcel)


def _refuse(action: Request) -> None:
    raise StoreClosed("the store is closed: attach it again")
