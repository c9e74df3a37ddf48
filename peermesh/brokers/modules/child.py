"""The other process of a ``ProcessModule``: makes the module, and calls its methods in turn.

Started as ``python -m peermesh.brokers.modules.child PIPE MEMORY MODULE:CLASS``, with descriptors
of the line and of the shared memory; its arguments come first.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import Final

from peermesh.brokers.modules.factory import make
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import Module, Port
from peermesh.brokers.modules.pipe import Pipe
from peermesh.brokers.modules.process import BEGUN, DROPPED, ENDED, GROUP_SIGNALS, shared_numbers
from peermesh.brokers.modules.seat import ModuleId
from wire.limits import KIB
from wire.values import Table

TEXT_SIZE_MAX: Final = 64 * KIB
"""Characters of a report about what the module raised: its end names the error."""


def serve(
    pipe: Pipe,
    shared: memoryview,
    path: str,
    arguments: Mapping[str, object],
    name: str,
    number: int,
) -> None:
    """Call the module's methods until the broker ends the line."""

    def publish(message: Message) -> None:
        # At once, however long the module's method goes on: what was published survives it.
        pipe.send(("publish", message.as_value()))

    port = Port(ModuleId(number), name, publish, lambda: pipe.send(("leave",)))
    module: Module = make(path, arguments)
    attach = getattr(module, "attach", None)
    if attach is not None:
        attach(port)
    pipe.send(("ready",))
    count = 0
    while True:
        match pipe.receive():
            case ("receive", message):
                count += 1
                if not shared[DROPPED]:
                    shared[BEGUN] = count
                    _receive(module, pipe, Message.of_value(message), count)
                    shared[ENDED] = count
            case ("tell",):
                pipe.send(("done", count))
            case _:
                break
    close = getattr(module, "close", None)
    if close is not None:
        close()


def _receive(module: Module, pipe: Pipe, message: Message, count: int) -> None:
    try:
        module.receive(message)
    except BaseException as error:
        trace = "".join(traceback.format_exception(error))
        pipe.send(("failed", count, _told(f"{type(error).__name__}: {error}"), _told(trace)))


def _told(text: str) -> str:
    """Give the end of a text as one that can be sent."""
    return text[-TEXT_SIZE_MAX:].encode("utf-8", "backslashreplace").decode()


def main(descriptor: str, memory: str, path: str) -> None:
    """Read the command line."""
    for each in GROUP_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    shared = shared_numbers(int(memory))
    os.close(int(memory))
    pipe = Pipe(socket.socket(fileno=int(descriptor)))
    settings = pipe.receive()
    try:
        if not isinstance(settings, Table):
            return  # The broker is gone already.
        serve(pipe, shared, path, settings["arguments"], settings["name"], settings["number"])
    except OSError:
        pass  # The broker is gone, and there is nothing left to tell.
    finally:
        pipe.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
