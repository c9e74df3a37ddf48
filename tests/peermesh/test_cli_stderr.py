"""Stderr that nothing reads: commands go on, and what is written there is kept, within limits."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO

import pytest

from peermesh.cli.stderr import WAITING_MAX, Stderr, has_room
from peermesh.testing.time_limits import limit
from tests.peermesh.test_cli_signals import HANGING, HANGS
from tests.peermesh.test_cli_stores import COMMAND, ENVIRONMENT

PIPE_SIZE = 4096
"""Bytes of the smallest pipe that Linux makes."""

STRANGERS = 40
"""Connections of which a node tells more than such a pipe holds: 160 bytes each."""

TEXT = "." * 1023 + "\n"

Pipe = tuple[FileIO, FileIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Give both ends of a pipe: of what is read, and of what is written."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    with FileIO(reader) as source, FileIO(writer, "w") as target:
        yield source, target


@pytest.fixture
def full(pipe: Pipe) -> Pipe:
    """Give a pipe that takes nothing more."""
    while has_room(pipe[1].fileno()):
        pipe[1].write(bytes(select.PIPE_BUF))
    return pipe


def test_a_node_whose_stderr_nothing_reads_serves_and_ends(pipe: Pipe) -> None:
    words = [*COMMAND, "node", "--listen", "0", "--json"]
    with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=pipe[1]) as node:
        try:
            port = next(
                found["port"] for line in node.stdout if "port" in (found := json.loads(line))
            )
            for _ in range(STRANGERS):
                with socket.create_connection(("127.0.0.1", port), timeout=limit()) as stranger:
                    stranger.sendall(b"this is no peer of a mesh\r\n\r\n")
                    while stranger.recv(PIPE_SIZE):
                        pass
            assert not has_room(pipe[1].fileno())
            node.terminate()
            assert node.wait(limit()) == 128 + signal.SIGTERM
        finally:
            node.kill()


def test_log_lines_are_in_the_words_of_the_command_line() -> None:
    code = """
import logging
from peermesh.cli.application import run

run(["--version"])
logging.getLogger("peermesh.store").warning("start them, or %s", "promote(force=True)")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.endswith('start them, or "promote NAME --force"\n')


def test_a_second_signal_ends_a_command_whose_stderr_is_full(full: Pipe) -> None:
    code = HANGING.format(hang=HANGS["in a call"].strip().replace("\n        ", "\n        "))
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=full[1]
    ) as process:
        try:
            for line in (b"working\n", b"ending\n"):
                assert process.stdout.readline() == line
                process.send_signal(signal.SIGINT)
            assert process.wait(limit()) == 128 + signal.SIGINT
        finally:
            process.kill()


def test_what_found_no_room_is_written_in_its_order_and_the_rest_is_counted(
    full: Pipe, monkeypatch
) -> None:
    reader, writer = full
    kept = WAITING_MAX // len(TEXT)
    with open(writer.fileno(), "w", closefd=False) as filled:
        monkeypatch.setattr(sys, "stderr", filled)
        stderr = Stderr()
        for number in range(kept + 7):
            stderr.write(f"{number:<8}{TEXT[8:]}")
        assert reader.read(PIPE_SIZE) == bytes(PIPE_SIZE)
        lines = [reader.readline() for _ in range(kept + 1)]
        assert [int(line[:8]) for line in lines[:-1]] == list(range(kept))
        assert lines[-1] == b"peermesh: 7 more were not written: nothing read stderr\n"


def test_a_stderr_that_is_broken_ends_nothing(pipe: Pipe, monkeypatch) -> None:
    reader, writer = pipe
    reader.close()
    with open(writer.fileno(), "w", closefd=False) as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        Stderr().write("nothing reads this\n")
