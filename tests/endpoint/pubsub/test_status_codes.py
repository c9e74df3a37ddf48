"""Following events of some kinds alone."""

from __future__ import annotations

import pytest

from endpoint import Endpoint, StatusCode
from peermesh import blocking


async def test_a_subscriber_gets_the_kinds_that_it_wants() -> None:
    async with Endpoint() as endpoint:
        everything = endpoint.subscribe_status()
        failures = endpoint.subscribe_status(StatusCode.CANNOT_REMOVE_PEER, "peer_lost")
        others = endpoint.subscribe_status(StatusCode.PEER_UNAVAILABLE)
        await endpoint.unpeer("127.0.0.1", 1)
        assert not await endpoint.peer("127.0.0.1", 1, retry=0)
        assert [event.status.value for event in everything.poll()] == [
            "cannot_remove_peer",
            "peer_unavailable",
        ]
        assert [event.status.value for event in failures.poll()] == ["cannot_remove_peer"]
        assert [event.status.value for event in others.poll()] == ["peer_unavailable"]
        with pytest.raises(ValueError, match="codes='peer_gone' cannot be used"):
            endpoint.subscribe_status("peer_gone")


def test_threads_have_the_same() -> None:
    with blocking.Endpoint() as endpoint:
        others = endpoint.subscribe_status("peer_unavailable")
        endpoint.unpeer("127.0.0.1", 1)
        assert others.available() == 0
        with pytest.raises(ValueError, match="codes=3 cannot be used"):
            endpoint.subscribe_status(3)
