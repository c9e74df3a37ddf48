"""What an endpoint does when there are no descriptors left, or too many connections at once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import trio

from endpoint import Endpoint, StatusCode
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parent.parent.parent

OUT_OF_FILES = """
    import resource, socket
    import trio
    from peermesh import Endpoint
    from wire.errors import BackendFailure, LimitExceeded

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    async def main():
        async with Endpoint() as left, Endpoint() as right:
            port, heard = await left.listen(), left.subscribe("x")
            assert await right.peer("127.0.0.1", port)
            held = []
            try:
                while True:
                    held.append(socket.socket())
            except OSError:
                pass
            try:
                await right.listen()
            except LimitExceeded as error:
                print("listen:", error)
            print("peer:", await right.peer("127.0.0.1", port + 1, retry=0))
            for attach in (left.attach_master, left.attach_log):
                try:
                    await attach("s")
                except BackendFailure as error:
                    print("attach:", error)
            await right.publish("x", 1)
            print("got:", (await heard.get())[1])
            for each in held:
                each.close()
            await left.attach_master("s")
            print("attached", await right.listen() > 0)

    trio.run(main)
"""


def test_a_process_without_descriptors_says_so_and_lives_on() -> None:
    command = [sys.executable, "-c", textwrap.dedent(OUT_OF_FILES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listen, peer, store, log, got, attached = done.stdout.splitlines()
    assert listen.startswith("listen: cannot listen")
    assert peer.startswith("peer: cannot dial")
    for said in (listen, peer):
        assert "may open no more files" in said
        assert "check the address" not in said
    for said in (store, log):
        assert "the process may open more files" in said
    assert (got, attached) == ("got: 1", "attached True")


async def test_silent_tls_connections_make_room_for_those_that_speak(kit) -> None:
    secret = ClusterSecret.generate()
    with trio.fail_after(limit()):
        async with (
            Endpoint(secret=secret, handshakes_max=8) as hub,
            Endpoint(secret=secret) as newcomer,
        ):
            port, status = await hub.listen(), hub.subscribe_status()
            silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(20)]
            # The oldest make room for those that came after them.
            for stream in silent[:12]:
                with suppress(trio.BrokenResourceError):
                    assert not await stream.receive_some()
            assert await newcomer.peer("127.0.0.1", port, retry=0)
            reasons = [
                event.reason
                for event in status.poll()
                if event.status is StatusCode.PEER_UNAVAILABLE
            ]
            assert len(reasons) >= 12
            assert all("too many connections" in reason for reason in reasons)
            for stream in silent:
                await stream.aclose()
