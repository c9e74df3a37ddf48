"""A message after a pause leaves in the step that publishes it, every time."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from endpoint.link.connection import LONE_SECONDS


def bytes_sent(endpoint: Endpoint) -> int:
    (peering,) = endpoint.loop.peerings.values()
    return peering.connection.bytes_sent


@pytest.mark.parametrize("topics", [1, 3])
async def test_each_message_of_a_publisher_that_pauses_is_sent_at_once(kit, topics: int) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        subscriber = right.subscribe("/t")
        await world.known()
        kit.clock(left)  # Pings would be before some of them.
        kit.clock(right)
        for number in range(100):
            topic = f"/t/{number % topics}"
            (peering,) = left.loop.peerings.values()
            await kit.until(lambda link=peering.connection.link: link.is_free())
            began = trio.current_time()
            await kit.until(lambda since=began: trio.current_time() - since > 2 * LONE_SECONDS)
            before = bytes_sent(left)
            await left.publish(topic, b"alone")
            assert bytes_sent(left) > before, f"message {number} waits for another task"
            assert await subscriber.get() == (topic, b"alone")
