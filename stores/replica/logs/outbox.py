"""What the handle of a log asks, as its outbox sends it: appends and cursors, in parcels. Pure."""

from __future__ import annotations

from stores.actions import ACTION_SIZE, WriterId
from stores.log.bodies import Write
from stores.log.limits import OFFSET_END
from stores.log.messages import MoveCursor, Request, Requests
from stores.log.requests import LogRequests
from stores.replica.asked.outbox import Outbox, Parcel, Words
from wire.errors import ErrorCode, StoreClosed
from wire.identifiers import EntityId


class _Asked(Parcel):
    """Requests that become one entry."""

    __slots__ = ("requests", "writer")

    def __init__(
        self, writer: WriterId, first: int, requests: tuple[Request, ...], size: int
    ) -> None:
        """Have some requests so far, in the name of a writer."""
        super().__init__(first, first + len(requests) - 1, size, len(requests))
        self.writer = writer
        self.requests = list(requests)

    def written(self, number: int, resolved: int, *, is_vetted: bool) -> Write:
        """Give what the machine is asked."""
        asked = Requests(self.writer, self.first, resolved, tuple(self.requests))
        return Write(number, asked, is_vetted=is_vetted)


class LogOutbox(Outbox):
    """The requests of one handle of a log."""

    words = Words("log", "keeper", "follower", "requests", ErrorCode.KEEPER_UNREACHABLE)

    def __init__(self, entity: EntityId, incarnation: int) -> None:
        """Have asked nothing. ``incarnation`` differs between lives of an entity."""
        self.requests = LogRequests(self._add)
        """What the handle asks with."""
        self._latest: _Asked | None = None
        super().__init__(entity, incarnation, self.requests)

    def register_anew(self) -> None:
        """Ask another group for all that has no answer, in whose log no consumer has been yet.

        Where one was in the last group's log is refused: entries might be passed over for good.
        """
        super().register_anew()
        for parcel in self._parcels:
            assert isinstance(parcel, _Asked), parcel
            parcel.requests = [*map(_outdated, parcel.requests)]

    def close(self) -> None:
        """Take on nothing more: whatever is asked for raises ``StoreClosed``."""
        self.requests.serve(_refuse)

    def _rename(self) -> None:
        """Do nothing: a parcel is given its writer's name."""

    def _add(self, first: int, requests: tuple[Request, ...]) -> None:
        count, latest = len(requests), self._latest
        size = self.requests.size + count * ACTION_SIZE
        if self._join(latest, first + count - 1, size, count) and latest is not None:
            latest.requests += requests
        else:
            self._latest = parcel = _Asked(self.writer, first, requests, size)
            self._put(parcel)


def _outdated(request: Request) -> Request:
    """Have a cursor be where none can be."""
    if not isinstance(request, MoveCursor):
        return request
    nowhere = tuple((partition, OFFSET_END - 1) for partition, _ in request.positions)
    return MoveCursor(request.consumer, nowhere)


def _refuse(first: int, requests: tuple[Request, ...]) -> None:
    raise StoreClosed("the log is closed: attach it again")
