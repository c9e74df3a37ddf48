"""A holder in a process of its own: peers with the ports that it is given, and tells what it holds.

Prints its token once it has the lock, and ``lost`` when it learns that it has it no more.
"""

from __future__ import annotations

import sys

import trio

from endpoint import Endpoint
from wire.errors import SessionExpired


async def live(ttl: str, *ports: str) -> None:
    async with Endpoint(name="holder") as endpoint:
        for port in ports:
            await endpoint.peer("127.0.0.1", int(port))
        store = await endpoint.attach_replica("s", voters=("a", "b", "c"))
        await store.await_leader()
        try:
            async with store.lock("it", ttl=float(ttl)) as lock:
                tell(*lock.token)
                await trio.sleep_forever()
        except SessionExpired:
            tell("lost")


def tell(*what: object) -> None:
    sys.stdout.write(" ".join(map(str, what)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(live, *sys.argv[1:])
