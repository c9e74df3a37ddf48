"""A way to a gateway on which something happens when an upload is under way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

READ_SIZE = 1 << 16


class Toll:
    """Passes bytes on, and calls ``paid`` once between an upload's head and its content."""

    def __init__(self, gateway: str, is_meant: Callable[[str], bool], paid: Callable[[], None]):
        """Watch for uploads to a path that is meant; ``gateway`` is HOST:PORT."""
        host, _, port = gateway.rpartition(":")
        self._gateway = host, int(port)
        self._is_meant = is_meant
        self._paid = paid
        self._lock = threading.Lock()
        self.is_paid = False
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Accept until the end."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._carry, client)

    def close(self) -> None:
        """End all connections, and wait for their threads."""
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, run: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=run, args=arguments)
        self._threads.append(thread)
        thread.start()
        return thread

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._gateway) as gateway:
            self._open += (client, gateway)
            back = self._start(self._pass, gateway, client)
            self._pass(client, gateway)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # One of the two ends is gone, and the other one hears of it.
            while data := source.recv(READ_SIZE):
                head, end, content = data.partition(b"\r\n\r\n")
                if head.startswith(b"PUT ") and b"data=true" in head:
                    target.sendall(head + end)
                    data = content
                    self._pay(head.split(b" ")[1].decode())
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _pay(self, target: str) -> None:
        with self._lock:
            if not self.is_paid and self._is_meant(target):
                self.is_paid = True
                self._paid()


@contextmanager
def toll(gateway: str, is_meant: Callable[[str], bool], paid: Callable[[], None]) -> Iterator[Toll]:
    """Have a way to a gateway for a block's length."""
    found = Toll(gateway, is_meant, paid)
    accepting = threading.Thread(target=found.serve)
    accepting.start()
    try:
        yield found
    finally:
        found.close()
        accepting.join()
