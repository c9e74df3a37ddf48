"""A voter of a log in a process of its own: prints its port, peers with those it is given."""

from __future__ import annotations

import sys

import trio

from endpoint import Endpoint


async def live(name: str, *path: str) -> None:
    async with Endpoint(name=name) as endpoint:
        sys.stdout.write(f"{await endpoint.listen()}\n")
        sys.stdout.flush()
        options = {"backend": "sqlite", "path": path[0]} if path else {}
        await endpoint.attach_log_replica("l", voters=("a", "b", "c"), **options)
        async with trio.open_nursery() as nursery:
            async for line in trio.wrap_file(sys.stdin):
                nursery.start_soon(endpoint.peer, "127.0.0.1", int(line))


if __name__ == "__main__":
    trio.run(live, *sys.argv[1:])
