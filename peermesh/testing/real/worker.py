"""The program that real faults happen to: an endpoint with one store, told what to do in lines.

Its argument and the lines are JSON; so are its answers. It ends when its stdin does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any

import trio

from peermesh import Backend, Endpoint, StatusEvent, Store
from wire.errors import MeshError

STORE: str = "table"
"""The name of the store."""

RECEIVE_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker is: where it listens, whom it dials, and where its master keeps the store."""

    host: str
    port: int = 0
    path: str | None = None
    """Of the SQLite file of the master; ``None`` is a clone."""
    peers: list[tuple[str, int]] = field(default_factory=list)

    def to_json(self) -> str:
        """Write it as the program's argument."""
        return json.dumps(asdict(self))


def say(**words: Any) -> None:  # noqa: ANN401 - whatever JSON can say
    """Write a line."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


async def work(assignment: Assignment) -> None:
    """Be an endpoint until stdin ends."""
    async with Endpoint() as endpoint, trio.open_nursery() as nursery:
        nursery.start_soon(_tell_status, endpoint)
        store = await _attach(endpoint, assignment)
        port = await endpoint.listen(assignment.host, assignment.port)
        say(event="ready", port=port, id=str(endpoint.node_id()))
        for host, peer_port in assignment.peers:
            nursery.start_soon(endpoint.peer, host, peer_port)
        async for line in _read_lines():
            nursery.start_soon(_answer, store, json.loads(line))
        nursery.cancel_scope.cancel()


async def _attach(endpoint: Endpoint, assignment: Assignment) -> Store:
    if assignment.path is None:
        return await endpoint.attach_clone(STORE)
    return await endpoint.attach_master(STORE, Backend.SQLite, path=assignment.path)


async def _read_lines() -> AsyncIterator[bytes]:
    stdin, heard = trio.lowlevel.FdStream(os.dup(0)), b""
    async with stdin:
        while data := await stdin.receive_some(RECEIVE_SIZE):
            *lines, heard = (heard + data).split(b"\n")
            for line in lines:
                yield line


async def _answer(store: Store, asked: dict[str, Any]) -> None:
    """Do one thing; what fails is an answer too."""
    number = asked["number"]
    try:
        say(number=number, **await _do(store, asked))
    except MeshError as error:
        say(number=number, error=type(error).__name__, text=str(error))


async def _do(store: Store, asked: dict[str, Any]) -> dict[str, Any]:
    match asked["do"]:
        case "put":
            receipt = await store.put(asked["key"], asked["value"])
            return {"revision": await receipt.applied()}
        case "items":
            return {"items": dict(await store.items())}
        case "idle":
            outcome = await store.await_idle(timeout=asked["timeout"])
            return {"reached": bool(outcome), "reason": str(outcome)}
        case unknown:
            raise ValueError(f"nobody knows how to {unknown}")


async def _tell_status(endpoint: Endpoint) -> None:
    with endpoint.subscribe_status() as status:
        async for event in status:
            _tell(event)


def _tell(event: StatusEvent) -> None:
    who = None if event.endpoint is None else str(event.endpoint)
    say(event="status", status=str(event.status), endpoint=who, reason=event.reason)


def main(argument: str) -> None:
    """Work, as the argument says."""
    words = json.loads(argument)
    words["peers"] = [(host, port) for host, port in words["peers"]]
    trio.run(work, Assignment(**words))


if __name__ == "__main__":
    main(sys.argv[1])
