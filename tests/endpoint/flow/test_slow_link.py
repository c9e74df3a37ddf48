"""A link that is slow, and not dead: no peer is removed while bytes are acknowledged."""

from __future__ import annotations

import pytest
import trio

from endpoint import StatusCode
from peermesh.testing.cluster import Cluster, open_cluster
from peermesh.testing.faults import RateLimit
from peermesh.testing.namespaces import probe
from peermesh.testing.time_limits import limit
from wire.limits import KIB

pytestmark = pytest.mark.skipif(probe() is not None, reason=str(probe()))

RATE = 128_000 // 8
"""Bytes a second."""

SIZE = 16 * KIB
"""Bytes of a message, which takes a second: the system's buffer holds a hundred of them."""

FAST_COUNT = 400
"""Messages before the link becomes slow, for which the system makes its buffer large."""


async def publish_numbers(cluster: Cluster, numbers: range) -> None:
    for number in numbers:
        await cluster["a"].publish("/t", number.to_bytes(4) + bytes(SIZE))


@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.long)])
async def test_a_slow_link_with_a_backlog_stays_and_is_told_of(seconds: int) -> None:
    with trio.fail_after(limit(60 + 4 * seconds)):
        async with (
            open_cluster(["a", "b"], world="netns") as cluster,
            trio.open_nursery() as nursery,
        ):
            subscriber = await cluster["b"].subscribe("/t")
            assert await cluster.await_converged()
            status = await cluster["a"].subscribe_status()

            async def read(numbers: range) -> None:
                for number in numbers:
                    _, data = await subscriber.get()
                    assert data[:4] == number.to_bytes(4)

            nursery.start_soon(publish_numbers, cluster, range(FAST_COUNT))
            await read(range(FAST_COUNT))
            await cluster.link("a", "b").apply(RateLimit(RATE))
            told = trio.Event()

            async def hear_events() -> None:
                event = await status.get()
                assert event.status is StatusCode.PEER_SLOW
                assert event.endpoint == cluster["b"].node_id()
                told.set()
                raise AssertionError(str(await status.get()))

            nursery.start_soon(hear_events)
            nursery.start_soon(publish_numbers, cluster, range(FAST_COUNT, FAST_COUNT + 600))
            await read(range(FAST_COUNT, FAST_COUNT + seconds))
            await told.wait()
            assert await cluster["a"].peers() == ["b"]
            nursery.cancel_scope.cancel()
