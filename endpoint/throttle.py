"""Holds peers to their rates: carries out what their gauges say. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

import trio

from endpoint.connection import Connection
from endpoint.gauge import Gauge, Rates, Spent
from endpoint.holding import Holding


class Throttle:
    """The gauges of one endpoint's peers."""

    def __init__(self, rates: Rates, holding: Holding) -> None:
        """Allow each peer so much; ``holding`` withholds credit."""
        self._rates = rates
        self._holding = holding
        self._late: dict[Gauge, None] = {}

    def begin(self, connection: Connection) -> None:
        """Watch a connection that has become a peering."""
        if self._rates.are_limited:
            connection.gauge = Gauge(self._rates)

    def forget(self, connection: Connection) -> None:
        """The peering is gone."""
        if connection.gauge is not None:
            self._late.pop(connection.gauge, None)

    def hear_news(self, connection: Connection, count: int) -> None:
        """A peer has brought announcements, or asked for them."""
        if connection.gauge is not None:
            connection.gauge.hear_news(trio.current_time(), count)

    def settle(self, connection: Connection) -> float:
        """Count what has come; withhold credit, and give the seconds not to read for."""
        gauge, now = connection.gauge, trio.current_time()
        assert gauge is not None
        spent = Spent(
            connection.bytes_received, connection.commands_received, connection.messages_received
        )
        pause = gauge.read(now, spent)
        if gauge.late_seconds(now) > 0:
            self._late[gauge] = None
            self._holding.hold(connection, gauge)
        return pause

    def recovered(self) -> Iterator[Gauge]:
        """Give the gauges of those who may have credit again."""
        now = trio.current_time()
        for gauge in list(self._late):
            if gauge.late_seconds(now) <= 0:
                del self._late[gauge]
                yield gauge
