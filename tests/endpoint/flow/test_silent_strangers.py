"""Connections that say nothing cost no newcomer its place, with TLS and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parent.parent.parent.parent

CROWD = """
import resource, socket, sys
import trio
from endpoint import Endpoint, StatusCode
from handshake.secret import ClusterSecret

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

async def until_closed(silent):
    try:
        while True:
            await trio.lowlevel.wait_readable(silent)
            if not silent.recv(1000):
                return
    except ConnectionResetError:
        return

def is_open(silent):
    try:
        while silent.recv(1000):
            pass
    except BlockingIOError:
        return True
    return False

async def main():
    secret = ClusterSecret.generate() if sys.argv[1] == "tls" else None
    async with Endpoint(secret=secret) as hub, Endpoint(secret=secret) as newcomer:
        port, status = await hub.listen(), hub.subscribe_status()
        crowd = []
        for _ in range(70):
            crowd.append(socket.socket())
            crowd[-1].setblocking(False)
            crowd[-1].connect_ex(("127.0.0.1", port))
        # The oldest makes room, and not the newcomer.
        await until_closed(crowd[0])
        outcome = await newcomer.peer("127.0.0.1", port, retry=0)
        print(bool(outcome), outcome.reason)
        print(len(newcomer.peers()), is_open(crowd[-1]))
        for each in crowd:
            each.close()

trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of files is that of Linux")
@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_seventy_silent_connections_make_room_for_a_newcomer_at_once(kind: str) -> None:
    command = [sys.executable, "-c", CROWD, kind]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr
    outcome, peers = done.stdout.splitlines()
    assert outcome.startswith("True")
    assert peers == "1 True"
