"""The pump between a queue of threads and the journal: it waits for no link and no reader.

What cannot go is parked, and leaves when there is room. Threads wait at their own topic, once too
much is parked for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter

import trio

from endpoint.link.hold_words import Verdict
from endpoint.pubsub.journal import Way as Route, distinct
from endpoint.pubsub.parking import Parking
from endpoint.pubsub.publishing import LOOK_SECONDS, Publication
from peermesh.blocking.outbound import TAKE_COUNT, TAKE_SIZE, Outbound, Way
from wire.errors import NotAllowed
from wire.logs import logger_of

logger = logger_of("peermesh")


class Pump:
    """Takes what threads have published, in the portal's thread."""

    def __init__(self, outbound: Outbound, publication: Publication) -> None:
        """Take from ``outbound``, and have it leave through ``publication``."""
        self._outbound = outbound
        self._publication = publication
        self._parking: Parking[Way] = Parking(attrgetter("lane"))
        self._full: dict[Hashable, list[Way]] = {}
        """Ways whose publishers wait, by their lanes."""
        self._may_release = self._is_leaving = False
        self._work, self._settled = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        outbound.wake = self.wake
        publication.on_room = self._look_again

    def wake(self) -> None:
        """Look whether threads have published."""
        self._work.unpark_all()

    def _look_again(self) -> None:
        """Something has room again, or goes elsewhere."""
        if self._parking:
            self._may_release = True
            self.wake()

    async def run(self) -> None:
        """Take what the threads publish, until it is closed."""
        with self._scope:
            while True:
                await self._wait_for_work()
                self._release()
                ways, payloads = self._outbound.take()
                self._hand_over(ways, payloads)
                self._outbound.make_room()
                await trio.lowlevel.checkpoint()

    async def _wait_for_work(self) -> None:
        while self._outbound.is_empty() and not self._may_release:
            if not self._parking:
                self._settled.unpark_all()
                await self._work.park()
            else:
                with trio.move_on_after(LOOK_SECONDS):
                    await self._work.park()
                self._may_release = True

    def _hand_over(self, ways: Sequence[Way], payloads: Sequence[bytes]) -> None:
        """Have messages leave; park those that have to wait, with what comes behind them."""
        routes: dict[Way, Route] = {}
        for way in distinct(ways):
            try:
                routes[way] = self._route(way)
            except NotAllowed as error:
                self._refuse(error, ways.count(way))
                goes = [each is not way for each in ways]
                ways, payloads = list(compress(ways, goes)), list(compress(payloads, goes))

        def is_blocked(way: Way) -> bool:
            verdict = self._verdict(routes[way], 0.0)
            self._may_release |= verdict is Verdict.FORCED
            return verdict is not Verdict.GO

        if self._parking or not self._publication.has_room(routes.values()):
            ways, payloads = self._parking.pass_by(ways, payloads, is_blocked, trio.current_time())
        if payloads:
            self._put_all(routes, ways, payloads)
        if self._parking:
            self._hold_up(routes)

    def _put_all(
        self, routes: Mapping[Way, Route], ways: Sequence[Way], payloads: Sequence[bytes]
    ) -> None:
        if len(routes) == 1:
            found = [routes[ways[0]]] * len(ways)
        else:
            found = list(map(routes.__getitem__, ways))
        self._publication.put_all(found, payloads, among=routes.values())

    def _hold_up(self, routes: Mapping[Way, Route]) -> None:
        """Have threads wait at those of these ways in whose lanes too much is parked."""
        for way, route in routes.items():
            if way.obstacle is None and self._parking.is_full(way.lane):
                found = self._publication.obstacle(route)
                way.obstacle = found or f"messages on {way.topic} wait for others before them"
                self._full.setdefault(way.lane, []).append(way)

    def _release(self) -> None:
        """Hand over what is parked and may go; have threads go on where there is room again."""
        if not self._may_release:
            return
        self._may_release, now = False, trio.current_time()
        self._release_batches(now)
        while ready := [lane for lane in self._parking.lanes() if self._may_go(lane, now)]:
            ways, payloads = self._parking.take(ready, TAKE_COUNT, TAKE_SIZE)
            routes = {way: self._route(way) for way in distinct(ways)}
            self._put_all(routes, ways, payloads)
        for lane in list(filter(self._parking.has_room, self._full)):
            self._outbound.let_go(self._full.pop(lane))

    def _release_batches(self, now: float) -> None:
        """Hand over batches of which all may go; have them divided if that is true of a part."""
        while (batch := self._parking.first_batch()) is not None:
            verdicts = self._verdicts(distinct(batch.ways), now - batch.since)
            if verdicts == {Verdict.WAIT}:
                # What came behind it may go by another link, or to another reader.
                verdicts = self._verdicts(self._parking.ways_in_batches(), 0.0)
                if verdicts == {Verdict.WAIT}:
                    return
            if verdicts != {Verdict.GO}:
                self._parking.divide()
                return
            self._parking.release_batch()
            routes = {way: self._route(way) for way in distinct(batch.ways)}
            self._put_all(routes, batch.ways, batch.payloads)

    def _verdicts(self, ways: Iterable[Way], waited: float) -> set[Verdict | None]:
        """Give what becomes of messages of these ways; ``None`` of those that are refused."""
        verdicts: set[Verdict | None] = set()
        for way in ways:
            try:
                verdicts.add(self._verdict(self._route(way), waited))
            except NotAllowed:
                verdicts.add(None)
        return verdicts

    def _may_go(self, lane: Hashable, now: float) -> bool:
        """Tell whether what was parked first in a lane may go; what is forced goes at once."""
        while (parcel := self._parking.first(lane)) is not None:
            count = len(parcel.payloads)
            try:
                route = self._route(parcel.way)
            except NotAllowed as error:
                self._refuse(error, count)
            else:
                verdict = self._verdict(route, now - parcel.since)
                if verdict is not Verdict.FORCED:
                    return verdict is Verdict.GO
                self._publication.put_all([route] * count, parcel.payloads, is_forced=True)
            self._parking.release(lane)
        return False

    def _verdict(self, route: Route, waited: float) -> Verdict:
        return self._publication.verdict(route, waited, is_leaving=self._is_leaving)

    def _route(self, way: Way) -> Route:
        return self._publication.way(way.topic, way.kind, way.receiver)

    def _refuse(self, error: NotAllowed, count: int) -> None:
        """Say that messages were not published: it was allowed when they came."""
        logger.warning("%d messages were not published: %s", count, error)
        self._outbound.forget_ways()

    async def flush(self) -> None:
        """Wait until everything that was published has left for the peers' outboxes.

        A full reader takes it into its reserve: it may begin to read when the endpoint is gone.
        """
        self._is_leaving = self._may_release = True
        while not self._outbound.is_empty() or self._parking:
            self.wake()
            await self._settled.park()

    def close(self) -> None:
        """Take nothing more."""
        self._publication.on_room = None
        self._scope.cancel()
        self._outbound.close()
