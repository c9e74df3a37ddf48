"""What the tests of flow share: numbered messages, and whether a topic is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import trio

from endpoint import Endpoint, Subscriber
from endpoint.link.hold_words import Verdict
from peermesh.testing.time_limits import limit
from wire.codec import encode_header
from wire.messages import NodeHeader, PackedType

SECONDS = "/second"
"""A reader publishes here once in each second that ``pass_second`` lets pass."""


async def publish_numbers(
    endpoint: Endpoint, topic: str, numbers: Iterable[int], size: int = 0
) -> None:
    """Publish numbers of four bytes, each with ``size`` bytes behind it."""
    rest = bytes(size)
    for number in numbers:
        await endpoint.publish(topic, number.to_bytes(4) + rest)


async def read_numbers(subscriber: Subscriber, numbers: Iterable[int]) -> None:
    """Read numbers, which have to come in this order, each once."""
    for number in numbers:
        _, data = await subscriber.get()
        assert data[:4] == number.to_bytes(4), f"{data[:4]!r} in place of {number}"


async def pass_numbers(
    publisher: Endpoint, topic: str, subscriber: Subscriber, numbers: range, size: int = 0
) -> None:
    """Publish and read numbers at the same time."""
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish_numbers, publisher, topic, numbers, size)
            await read_numbers(subscriber, numbers)


def header_of(publisher: Endpoint, topic: str) -> bytes:
    """Give the header of what an endpoint publishes on a topic, as bytes."""
    return encode_header(NodeHeader(PackedType.BYTES, publisher.node_id(), None, topic))


def is_held(publisher: Endpoint, topic: str) -> bool:
    """Tell whether what an endpoint publishes on a topic waits for a full place."""
    header = header_of(publisher, topic)
    return publisher.loop.holds.verdict(header, 0.0) is Verdict.WAIT


def has_holder(publisher: Endpoint, topic: str) -> bool:
    """Tell whether a full place has asked an endpoint to wait, whether it waits or not."""
    return bool(publisher.loop.holds.holders(header_of(publisher, topic)))


def own_clocks(kit: Any, endpoints: Iterable[Endpoint]) -> list[Any]:
    """Have the seconds of these endpoints pass when the test says so."""
    clocks = []
    for endpoint in endpoints:
        # A link begins to count with the first look at it.
        endpoint.loop.watch(trio.current_time())
        clocks.append(kit.clock(endpoint))
    return clocks


async def pass_second(clocks: Iterable[Any], reader: Endpoint, heard: Subscriber) -> None:
    """Let a second pass, and what the reader says in it arrive at its publisher.

    A publisher forgets a place that it hears nothing of for three seconds. ``heard`` is the
    publisher's subscriber of ``SECONDS``: words about places are ahead of what is published.
    """
    for clock in clocks:
        await clock.advance(1)
    await reader.publish(SECONDS, b"")
    assert await heard.get() == (SECONDS, b"")
