"""The other process of a ``ProcessModule``: makes the module, and calls its methods in turn.

Started as ``python -m peermesh.brokers.modules.child FD MODULE:CLASS``; its arguments come first.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Mapping

from peermesh.brokers.modules.factory import make
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import Module, Port
from peermesh.brokers.modules.pipe import Pipe
from peermesh.brokers.modules.switchboard import ModuleId
from wire.values import Table


def serve(pipe: Pipe, path: str, arguments: Mapping[str, object], name: str, number: int) -> None:
    """Be the module until the broker ends the line."""

    def publish(message: Message) -> None:
        pipe.send(("publish", (message.properties, message.content)))

    port = Port(ModuleId(number), name, publish, lambda: pipe.send(("leave",)))
    module: Module = make(path, arguments)
    attach = getattr(module, "attach", None)
    if attach is not None:
        attach(port)
    pipe.send(("ready",))
    while True:
        match pipe.receive():
            case ("receive", message):
                _receive(module, pipe, Message.of_value(message))
            case _:
                break
    close = getattr(module, "close", None)
    if close is not None:
        close()


def _receive(module: Module, pipe: Pipe, message: Message) -> None:
    try:
        module.receive(message)
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
    else:
        pipe.send(("done",))


def main(descriptor: str, path: str) -> None:
    """Read the command line."""
    # Ctrl-C is for the broker, which then ends this process in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    pipe = Pipe(socket.socket(fileno=int(descriptor)))
    settings = pipe.receive()
    try:
        if not isinstance(settings, Table):
            return  # The broker is gone already.
        serve(pipe, path, settings["arguments"], settings["name"], settings["number"])
    except OSError:
        pass  # The broker is gone, and nobody is left to tell.
    finally:
        pipe.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
