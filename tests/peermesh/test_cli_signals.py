"""Ctrl-C: once in order, and twice at once, whatever hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peermesh.cli.exits import ExitCode
from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "peermesh"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}

HANGING = """
from threading import Event
import trio
from peermesh.cli.running import run

async def work():
    try:
        print("working", flush=True)
        await trio.sleep_forever()
    finally:
        {hang}

run(work)
"""

HANGS = {
    "in a task": """
        with trio.CancelScope(shield=True):
            print("ending", flush=True)
            await trio.sleep_forever()
""",
    "in a call": """
        print("ending", flush=True)
        while True:
            Event().wait(60)
""",
    "in a thread": """
        with trio.CancelScope(shield=True):
            print("ending", flush=True)
            await trio.to_thread.run_sync(Event().wait)
""",
}

MODULE = """
import os
from threading import Event

class Stubborn:
    def attach(self, port):
        os.write(1, b"working\\n")  # in one piece: the command writes at the same time
    def receive(self, message):
        pass
    def close(self):
        os.write(1, b"ending\\n")
        while True:
            Event().wait(60)
"""


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        arguments, text=True, cwd=ROOT, env=ENVIRONMENT | environment, **pipes
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_what_hangs(hang: str, number: signal.Signals) -> None:
    code = HANGING.format(hang=hang.strip().replace("\n        ", "\n        "))
    with started(sys.executable, "-c", code) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ending\n"
        process.send_signal(number)
        assert process.wait() == 128 + number
        assert process.stderr.read().endswith("peermesh: ended at once\n")


def test_a_second_signal_ends_a_command_whose_peer_is_stopped() -> None:
    """Its orderly end waits for what it has published, which the peer does not take."""
    node = (*COMMAND, "node", "--listen", "0")
    with started(*node) as peer:
        address = ""
        while not address:
            address = peer.stdout.readline().partition("listening on ")[2].strip()
        with started(*COMMAND, "sub", "t", "--peer", address, "--listen", "0") as process:
            while "subscribed" not in process.stderr.readline():
                assert process.poll() is None
            peer.send_signal(signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            assert "Ctrl-C again ends it at once" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait() == ExitCode.INTERRUPTED
            assert process.stderr.read() == "peermesh: ended at once\n"


def test_a_second_signal_ends_a_bus_whose_module_hangs(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(MODULE)
    layout = tmp_path / "bus.toml"
    layout.write_text("[modules.one]\nclass = 'stubborn:Stubborn'\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    with started(*COMMAND, "broker", "modules", str(layout), PYTHONPATH=path) as process:
        while process.stdout.readline() != "working\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        while process.stdout.readline() != "ending\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED
        assert process.stderr.read() == "peermesh: ended at once\n"


def test_a_node_that_was_started_by_nohup_outlives_its_terminal() -> None:
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    with started(*ignoring, *COMMAND, "node", "--listen", "0") as node:
        assert node.stdout is not None
        assert any(line.startswith("listening") for line in node.stdout)
        node.send_signal(signal.SIGHUP)
        node.terminate()
        _, complained = node.communicate(timeout=limit())
    assert (node.returncode, complained) == (128 + signal.SIGTERM, "")
