"""Endpoints of Broker's kind, peered and closed for the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import peermesh.compat.broker as broker
from peermesh.testing.time_limits import limit

HOST = "127.0.0.1"


@pytest.fixture
def opened() -> Iterator[Callable[..., Any]]:
    """Give what a ``with`` block would have, until the test ends."""
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def pair(opened) -> tuple[broker.Endpoint, broker.Endpoint]:
    """Give two endpoints, which are peers once they are joined with ``join``."""
    return opened(broker.Endpoint()), opened(broker.Endpoint())


def join(left: broker.Endpoint, right: broker.Endpoint) -> int:
    """Peer ``left`` with ``right``, which listens; both know of it then."""
    port = right.listen(HOST, 0)
    assert left.peer(HOST, port, 1.0) is True
    assert left.await_peer(right.node_id(), limit()) is True
    assert right.await_peer(left.node_id(), limit()) is True
    return port
