"""Brokers for one test: on free ports, with files in the test's directory, and gone with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from endpoint.endpoint import Endpoint
from peermesh import blocking
from peermesh.brokers.edge import blocking as edge_blocking
from peermesh.brokers.edge.host import Host, open_edge_broker
from peermesh.brokers.qos2 import blocking as qos2_blocking
from peermesh.brokers.qos2.broker import Ports, QoS2Broker, open_broker
from peermesh.brokers.qos2.place import Place
from peermesh.testing import leaks

FREE_PORTS = Ports(publishers=0, consumers=0)


@asynccontextmanager
async def open_test_edge_broker() -> AsyncIterator[Host]:
    """Give an edge broker that serves, with a registry of its own."""
    async with open_edge_broker() as host:
        await host.broker.active()
        yield host


@asynccontextmanager
async def open_test_qos2_broker(folder: Path) -> AsyncIterator[QoS2Broker]:
    """Give a QoS-2 broker that keeps its topics in a folder."""
    place = Place(folder=folder)
    async with Endpoint() as endpoint, open_broker(endpoint, place, FREE_PORTS) as broker:
        yield broker


@contextmanager
def hold_edge_broker(*, is_checked: bool) -> Iterator[edge_blocking.Broker]:
    """Give an edge broker to a plain test; raises ``LeakError`` if something of it stays."""
    before = leaks.look()
    with edge_blocking.Broker() as broker:
        broker.active()
        yield broker
    if is_checked:
        leaks.check(before)


@contextmanager
def hold_qos2_broker(folder: Path, *, is_checked: bool) -> Iterator[qos2_blocking.QoS2Broker]:
    """Give a QoS-2 broker to a plain test; raises ``LeakError`` if something of it stays."""
    before = leaks.look()
    place = Place(folder=folder)
    with (
        blocking.Endpoint() as endpoint,
        qos2_blocking.open_broker(endpoint, place, FREE_PORTS) as broker,
    ):
        yield broker
    if is_checked:
        leaks.check(before)
