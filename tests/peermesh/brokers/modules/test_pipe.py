"""The line to the process of a module: what comes whole, and what a length alone costs."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from contextlib import closing

import pytest

from peermesh.brokers.modules.pipe import PIECE_SIZE, Pipe
from wire.limits import KIB, PAYLOAD_SIZE_MAX


@pytest.mark.parametrize("size", [0, 1, PIECE_SIZE - 5, PIECE_SIZE, 5 * PIECE_SIZE + 1])
def test_a_value_of_any_size_comes_whole(size: int) -> None:
    ours, theirs = map(Pipe, socket.socketpair())
    values = [bytes([number]) * size for number in range(3)]

    def send() -> None:
        with closing(theirs):
            for value in values:
                theirs.send(value)

    with closing(ours):
        sender = threading.Thread(target=send)
        sender.start()
        assert [ours.receive() for _ in values] == values
        assert ours.receive() is None
        sender.join()


def test_a_length_without_its_bytes_takes_no_memory() -> None:
    ours, theirs = socket.socketpair()
    with closing(Pipe(ours)) as pipe:
        theirs.sendall(PAYLOAD_SIZE_MAX.to_bytes(4, "big") + b"few")
        theirs.close()
        tracemalloc.start()
        try:
            assert pipe.receive() is None
            assert tracemalloc.get_traced_memory()[1] < 512 * KIB
        finally:
            tracemalloc.stop()
