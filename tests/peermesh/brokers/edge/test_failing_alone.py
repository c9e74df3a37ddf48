"""A mistake in what one connection wants ends that connection, and no other."""

from __future__ import annotations

import pytest
import trio

from peermesh.brokers.edge import RemoteRegistry
from peermesh.testing.time_limits import limit


async def test_a_mistake_at_the_registry_ends_the_connection_that_met_it(
    kit, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fall(*_: object) -> None:
        raise ZeroDivisionError

    async with kit.world() as world, RemoteRegistry([world.host.registry_address]) as other:
        await world.registry.write("/a", "1")
        with monkeypatch.context() as patch:
            patch.setattr("peermesh.brokers.edge.desk.Desk._do", fall)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.read, "/a")  # It asks again on the next connection.
                await kit.until(lambda: "ZeroDivisionError" in caplog.text)
                nursery.cancel_scope.cancel()
        assert await world.registry.read("/a") == "1"


async def test_a_mistake_in_a_channel_ends_the_connection_that_met_it(
    kit, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with kit.world() as world:
        async with world.publisher() as publisher, world.subscriber() as subscriber:
            assert await subscriber.subscribe("t", timeout=limit())
            await publisher.send("t", 1)
            assert (await subscriber.get(limit()))[1] == 1
            with monkeypatch.context() as patch:

                def fall(*_: object) -> None:
                    raise ZeroDivisionError

                patch.setattr(world.broker.hall, "lost", fall)
                async with world.publisher() as brief:
                    await brief.send("t", 2)
                await kit.until(lambda: "ZeroDivisionError" in caplog.text)
            received = [(await subscriber.get(limit()))[1]]
            await publisher.send("t", 3)
            received.append((await subscriber.get(limit()))[1])
            assert received == [2, 3]
