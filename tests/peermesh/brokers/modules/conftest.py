"""Modules that the tests link to each other, and a watch over those that must not hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from peermesh.brokers.modules import Failure, Message, ModuleBroker, Port
from peermesh.testing.time_limits import limit


class Collector:
    """Keeps what it receives, and notices when it is called while it is being called."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.received: list[object] = []
        self.was_concurrent = False
        self.entered = threading.Event()
        self.closed = threading.Event()
        self.port: Port | None = None
        self._gate = gate
        self._inside = threading.Lock()

    def attach(self, port: Port) -> None:
        self.port = port

    def receive(self, message: Message) -> None:
        if not self._inside.acquire(blocking=False):
            self.was_concurrent = True
            return
        try:
            self.entered.set()
            if self._gate is not None:
                assert self._gate.wait(limit())
            self.received.append(message.content)
        finally:
            self._inside.release()

    def close(self) -> None:
        self.closed.set()


class Calling:
    """Calls a function with each message, and its port."""

    def __init__(self, function: Callable[[Port, Message], object]) -> None:
        self._function = function

    def attach(self, port: Port) -> None:
        self._port = port

    def receive(self, message: Message) -> None:
        self._function(self._port, message)


class Kit:
    """What the tests use."""

    Collector = Collector
    Calling = Calling

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.broker = ModuleBroker(on_failure=self.failures.append)

    def until(self, truth: Callable[[], object]) -> None:
        """Wait until something is true."""
        deadline = time.monotonic() + limit()
        while not truth():
            assert time.monotonic() < deadline, "it did not come true"
            threading.Event().wait(0.005)

    def in_threads(self, *functions: Callable[[], object]) -> None:
        """Run functions at once, and see that all of them end, without an error."""
        errors: list[BaseException] = []

        def run(function: Callable[[], object]) -> None:
            try:
                function()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(limit())
        assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
        assert not errors, errors


@pytest.fixture
def kit() -> Iterator[Kit]:
    before = set(threading.enumerate())
    kit = Kit()
    yield kit
    with kit.broker:
        pass
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(limit())
    left = [thread for thread in left if thread.is_alive()]
    assert not left, f"threads that were left behind: {left}"
