"""A broker, publisher or consumer that kills itself at its n-th persistence point.

``victim.py broker N FOLDER PUBLISHERS CONSUMERS``, ``victim.py publisher N LEDGER PORT`` and
``victim.py consumer N LEDGER PORT``; with N = 0 it lives. Each second point kills before the
write, each other one behind it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import trio

from endpoint import Endpoint
from endpoint.replicas.receipts import Receipt
from peermesh.brokers.qos2 import Consumer, Place, Ports, Publisher, open_broker

TOPICS = ("orders", "audit")


class Fate:
    """Counts persistence points."""

    def __init__(self, deadly: int) -> None:
        self.deadly = deadly
        self.passed = 0

    def point(self) -> None:
        self.passed += 1
        if self.passed == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)


async def broker(fate: Fate, folder: str, publishers: str, consumers: str) -> None:
    """Every durable write of the broker is a receipt: die when it is asked for, or given."""
    applied = Receipt.applied

    async def deadly(receipt: Receipt) -> int:
        fate.point()
        result = await applied(receipt)
        fate.point()
        return result

    Receipt.applied = deadly
    ports = Ports(publishers=int(publishers), consumers=int(consumers))
    async with (
        Endpoint() as endpoint,
        open_broker(endpoint, Place(folder=Path(folder)), ports) as on,
    ):
        say(f"{on.publisher_port} {on.consumer_port}")
        await trio.sleep_forever()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def append(ledger: Path, line: str) -> None:
    with ledger.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


async def publisher(fate: Fate, path: str, port: str) -> None:
    """Publish one number after the other, and note what is published."""
    ledger = Path(path)
    async with Publisher("till", int(port)) as out:
        for number in range(len(read(ledger)) + 1, sys.maxsize):
            payload = b"poison" if number % 7 == 0 else b"same\nEND\n"
            await out.publish(number, TOPICS, payload)
            fate.point()
            append(ledger, str(number))
            fate.point()


async def consumer(fate: Fate, path: str, port: str) -> None:
    """Note what comes, and refuse poison."""
    ledger = Path(path)
    handled: dict[str, int] = {}
    for line in read(ledger):
        topic, number = line.split()
        handled[topic] = int(number)
    async with Consumer("billing", TOPICS, int(port), handled=handled) as source:
        while True:
            message = await source.get()
            fate.point()
            if message.payload == b"poison":
                await source.refuse("it is poison", is_final=True)
                continue
            append(ledger, f"{message.topic} {message.number}")
            say(".")
            fate.point()
            await source.done()


if __name__ == "__main__":
    role = {"broker": broker, "publisher": publisher, "consumer": consumer}[sys.argv[1]]
    trio.run(role, Fate(int(sys.argv[2])), *sys.argv[3:])
