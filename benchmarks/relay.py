"""From A to C through B: what it costs that the two ends have no connection of their own."""

from __future__ import annotations

from typing import Final

import peermesh
from benchmarks.harness import Benchmark, Goal, Variant, rate
from benchmarks.role import Task
from peermesh import EndpointId

SINK: Final = "benchmarks.pubsub:subscribe"
SOURCE: Final = "benchmarks.pubsub:publish"
DIRECT: Final = (SINK, SOURCE)
RELAYED: Final = (SINK, "benchmarks.relay:relay", SOURCE)


async def relay(task: Task) -> None:
    """Stand between the two."""
    async with peermesh.Endpoint() as endpoint:
        assert await endpoint.peer("127.0.0.1", task.last_met["port"])
        assert await endpoint.await_peer(EndpointId.parse(task.last_met["node_id"]))
        port = await endpoint.listen()
        task.introduce(port=port, node_id=str(endpoint.node_id()))
        task.report()
        await task.dismissed_async()


BENCHMARK: Final = Benchmark(
    "relay",
    "From A to C through B, three processes",
    (
        Variant("direct 100 B", DIRECT, rate, "messages/s", 1_000_000, 100),
        Variant("relayed 100 B", RELAYED, rate, "messages/s", 1_000_000, 100),
        Variant("direct 10 KB", DIRECT, rate, "messages/s", 100_000, 10_000),
        Variant("relayed 10 KB", RELAYED, rate, "messages/s", 100_000, 10_000),
    ),
    (
        Goal("relayed 100 B", "direct 100 B", at_least=0.6),
        Goal("relayed 10 KB", "direct 10 KB", at_least=0.6),
    ),
)
