"""Three modules of a gateway: a sensor that measures, a logger, and one that reports to a cloud.

Run them beside this file: ``peermesh broker modules gateway.toml``. The cloud is a file; put your
own client there. It may raise: the failure is told with its traceback, and the module goes on.
"""

from __future__ import annotations

import math
import threading

import trio

from peermesh.brokers.modules import Message, Port


class Sensor:
    """Measures ``count`` times, ``interval`` seconds apart, and publishes what it found.

    It has a thread for that, since ``receive`` is called for what others send it: nothing here.
    """

    def __init__(self, interval: float = 1.0, count: int = 0) -> None:
        """``count`` is 0 for a sensor that goes on until it is removed."""
        self._interval = interval
        self._count = count
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def attach(self, port: Port) -> None:
        """Start to measure: all links are there by now."""
        self._port = port
        port.publish(Message("sensor is on"))
        self._thread.start()

    def receive(self, message: Message) -> None:
        """Take no orders."""

    def close(self) -> None:
        """End the thread."""
        self._is_ending.set()
        self._thread.join()

    def _measure(self) -> None:
        number = 0
        while not (self._count and number >= self._count):
            celsius = round(21 + 2 * math.sin(number / 10), 2)
            self._port.publish(Message(celsius, {"unit": "celsius", "number": str(number)}))
            number += 1
            if self._is_ending.wait(self._interval):
                return


class Logger:
    """Appends each message to a file."""

    def __init__(self, path: str) -> None:
        """Write to the file ``path``."""
        self._path = path

    def receive(self, message: Message) -> None:
        """Write one line; the file is whole after each."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{message.content} {message.properties}\n")


class Cloud:
    """Reports to a cloud that fails now and then, in a trio task: its waiting costs no thread."""

    def __init__(self, path: str, fails_every: int = 0) -> None:
        """Report to the file ``path``, and fail at every so many-th message; 0 is never."""
        self._path = trio.Path(path)
        self._fails_every = fails_every
        self._count = 0

    async def receive(self, message: Message) -> None:
        """Report one message."""
        self._count += 1
        if self._fails_every and self._count % self._fails_every == 0:
            raise ConnectionError(f"the cloud did not take message {self._count}")
        async with await self._path.open("a", encoding="utf-8") as file:
            await file.write(f"reported {message.content}\n")
