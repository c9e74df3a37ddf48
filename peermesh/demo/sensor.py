"""The first process: hosts the master of the store, and publishes the lines of the input."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from itertools import islice
from typing import Final

import trio

from peermesh import Backend, Endpoint, Subscriber
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.protocol import EVENTS_TOPIC, REPLAY_TOPIC, STORE_NAME, read_replay
from peermesh.demo.reading import read_lines
from peermesh.demo.tally import Event

CHUNK_LINES: Final = 500
"""Lines read at a time, in a thread: the disk and gzip hold up neither the mesh nor the store."""


class Sensor:
    """Publishes from wherever the job asks for, until something else is asked."""

    def __init__(self, endpoint: Endpoint, source: str) -> None:
        """Publish the lines of ``source`` through an endpoint, once somebody asks for them."""
        self._endpoint = endpoint
        self._source = source
        self._first = 1
        self._asked = trio.Event()
        self._publishing = trio.CancelScope()

    async def listen(self, requests: Subscriber) -> None:
        """Hear what the job asks for."""
        async for _, data in requests:
            first = read_replay(data)
            if first is not None:
                self._first = first
                self._publishing.cancel()
                self._asked.set()

    async def publish(self) -> None:
        """Publish whenever there is something to publish."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            with trio.CancelScope() as self._publishing:
                await self._publish_from(self._first)

    async def _publish_from(self, first: int) -> None:
        end = first
        with closing(read_lines(self._source, first)) as lines:
            while chunk := await trio.to_thread.run_sync(_next_lines, lines):
                end = chunk[-1][0] + 1
                for event in chunk:
                    await self._endpoint.publish(EVENTS_TOPIC, event)
        await self._endpoint.publish(EVENTS_TOPIC, (end, None))


def _next_lines(lines: Generator[Event, None, None]) -> list[Event]:
    return list(islice(lines, CHUNK_LINES))


async def run(assignment: Assignment) -> None:
    """Be the sensor until the supervisor ends it."""
    reports = Reports(assignment.reports)
    ended, token = trio.Event(), trio.lowlevel.current_trio_token()
    async with Endpoint() as endpoint, trio.open_nursery() as nursery:
        # The store and the subscription come first: who peers with us learns of both at once.
        await endpoint.attach_master(
            STORE_NAME, Backend.SQLite, path=assignment.path("counts.sqlite")
        )
        sensor = Sensor(endpoint, assignment.source)
        nursery.start_soon(sensor.listen, endpoint.subscribe(REPLAY_TOPIC))
        nursery.start_soon(sensor.publish)
        port = await endpoint.listen(port=assignment.port)
        reports.send("listening", port=port)
        Orders(lambda _: None, lambda: token.run_sync_soon(ended.set)).start()
        await ended.wait()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
