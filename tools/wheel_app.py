"""A user's program beside modules called as our layers are: run by ``tools.wheel_test`` alone."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import trio

import peermesh
from peermesh import blocking
from peermesh.errors import MeshError, TypeClash


def use_own_modules() -> None:
    """Find the user's own modules, and none of ours but those of the one package."""
    for name in ("endpoint", "wire", "stores"):
        assert import_module(name).OWNER == "user", name
    assert find_spec("handshake") is None, "the wheel occupies another name"


async def use_django_channels() -> None:
    """Pass a message through a layer of Django Channels."""
    layers = import_module("channels.layers")
    layer: Any = layers.InMemoryChannelLayer()
    await layer.send("news", {"type": "greeting", "text": "hello"})
    assert (await layer.receive("news"))["text"] == "hello"


async def use_trio() -> None:
    """Publish and store with the API for trio."""
    async with peermesh.Endpoint() as left, peermesh.Endpoint() as right:
        assert await right.peer("127.0.0.1", await left.listen())
        subscriber = right.subscribe("/news")
        async with left.attach_master("cities") as master, right.attach_clone("cities") as clone:
            await (await master.put("vienna", 48.2)).applied()
            assert await clone.await_idle()
            assert await clone.get("vienna") == 48.2
            with trio.fail_after(30):
                topic, data = await _hear(left, subscriber)
            assert (topic, data) == ("/news", (1, 2))


async def _hear(speaker: peermesh.Endpoint, subscriber: peermesh.Subscriber) -> tuple[str, object]:
    """Publish until the subscription has reached the speaker."""
    while True:
        await speaker.publish("/news", (1, 2))
        with trio.move_on_after(0.1):
            topic, data = await subscriber.get()
            return topic, data


def use_blocking() -> None:
    """Store with the API for threads, and get an error that has a public name."""
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert right.peer("127.0.0.1", left.listen())
        with left.attach_master("cities") as master, right.attach_clone("cities") as clone:
            master.put("vienna", "capital").result(timeout=30)
            assert clone.await_idle()
            assert clone.get("vienna") == "capital"
            is_refused = False
            try:
                master.increment("vienna", 1).result(timeout=30)
            except TypeClash:
                is_refused = True
            assert is_refused, "text was incremented"
            assert issubclass(TypeClash, MeshError)
            assert TypeClash.__module__ == "peermesh.errors"


if __name__ == "__main__":
    use_own_modules()
    asyncio.run(use_django_channels())
    trio.run(use_trio)
    use_blocking()
