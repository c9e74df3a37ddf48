"""The WebSocket gateway: events a second between two clients, beside a bare relay of the texts."""

from __future__ import annotations

import json
import time
from typing import Final

import trio
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    WebSocketRequest,
    open_websocket_url,
    serve_websocket as serve_bare,
)

import peermesh
from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, rate
from benchmarks.role import Task
from benchmarks.workload import MARKS, Disorder, event
from peermesh.gateways import serve_websocket
from peermesh.gateways.websocket.mapping import members
from peermesh.gateways.websocket.session import message
from wire.values import freeze

TOPIC: Final = "zeek/event/bench"

WINDOW: Final = 512
"""Events that are under way: half of the queue of a client, which would drop what is beyond."""


def texts() -> list[str]:
    """Make the events of the other benchmarks, as JSON: three hundred bytes each."""
    return [message(TOPIC, members(freeze(event(mark)))) for mark in range(MARKS)]


async def gateway(task: Task) -> None:
    """Serve clients as a gateway of an endpoint does."""
    async with peermesh.Endpoint() as endpoint, serve_websocket(endpoint) as served:
        task.introduce(url=served.url)
        task.report()
        await task.dismissed_async()


async def relay(task: Task) -> None:
    """Serve clients with the same library: what one sends goes to all others as it is."""
    others: list[WebSocketConnection] = []

    async def serve(request: WebSocketRequest) -> None:
        socket = await request.accept()
        await socket.get_message()
        await socket.send_message('{"type": "ack"}')
        others.append(socket)
        try:
            while True:
                text = await socket.get_message()
                for other in others:
                    if other is not socket:
                        await other.send_message(text)
        except ConnectionClosed:
            others.remove(socket)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_bare, serve, "127.0.0.1", 0, None)
        task.introduce(url=f"ws://127.0.0.1:{server.port}/v1/messages/json")
        task.report()
        await task.dismissed_async()
        nursery.cancel_scope.cancel()


async def clients(task: Task) -> None:
    """Publish at one client and hear at another one, in one process; check order and content."""
    url, made = task.met[0]["url"], texts()
    expected = [json.loads(text)["data"] for text in made]
    room = trio.Semaphore(WINDOW)
    async with open_websocket_url(url) as sink, open_websocket_url(url) as source:
        for socket, topics in ((sink, f'["{TOPIC}"]'), (source, "[]")):
            await socket.send_message(topics)
            await socket.get_message()

        async def send() -> None:
            for number in range(task.count):
                await room.acquire()
                await source.send_message(made[number % MARKS])

        async with trio.open_nursery() as nursery:
            task.introduce()
            began = time.monotonic_ns()
            nursery.start_soon(send)
            for number in range(task.count):
                text = await sink.get_message()
                if json.loads(text)["data"] != expected[number % MARKS]:
                    raise Disorder(number, text)
                room.release()
            ended = time.monotonic_ns()
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        task.dismissed()


def served(facts: Facts) -> Figures:
    """Give events a second, and the processor time of the clients and of what serves them."""
    figures = rate(facts)
    per_event = {"cpu µs clients": figures["cpu µs out"], "cpu µs served": figures["cpu µs in"]}
    return {"per second": figures["per second"], **per_event}


CLIENTS: Final = "benchmarks.websocket:clients"

BENCHMARK: Final = Benchmark(
    "websocket",
    "The WebSocket gateway: events from client to client, beside a relay of the same texts",
    (
        Variant("a relay of texts", ("benchmarks.websocket:relay", CLIENTS), served, "events/s",
                5_000, needs="trio_websocket"),
        Variant("the gateway", ("benchmarks.websocket:gateway", CLIENTS), served, "events/s",
                5_000, needs="trio_websocket"),
    ),
    (
        Goal("the gateway", "a relay of texts", at_least=0.5),
        Goal("the gateway", at_least=5_000),
    ),
)  # fmt: skip
