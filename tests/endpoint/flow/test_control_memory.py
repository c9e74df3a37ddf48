"""What endpoints say about themselves takes memory by what is true, not by how often it changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from endpoint import StatusCode
from peermesh.testing.time_limits import limit
from wire.limits import KIB, MIB

ROOT = Path(__file__).parent.parent.parent.parent

COUNT = 2_000

GROWTH_MAX = 10 * MIB
"""What as many subscribers take at both endpoints, with all that is said about them."""

SUBSCRIBER = """
import sys
from pathlib import Path
import trio
from endpoint import Endpoint

COUNT, EACH = int(sys.argv[1]), int(sys.argv[2])

def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

async def main():
    async with Endpoint() as left, Endpoint() as right:
        port, statuses = await left.listen(), [left.subscribe_status(), right.subscribe_status()]
        assert await right.peer("127.0.0.1", port)
        assert await left.await_peer(right.node_id())
        for status in statuses:
            status.poll()
        before, most, subscribers = rss(), 0, []
        for number in range(COUNT):
            subscribers.append(right.subscribe(f"site/building/{number:05d}/temperature"))
            if EACH and number % EACH == 0:
                await trio.lowlevel.checkpoint()
                most = max(most, rss())
        most = max(most, rss())
        assert await left.await_subscribed(f"site/building/{COUNT - 1:05d}/temperature")
        most = max(most, rss())
        print(most - before)
        print([str(event) for status in statuses for event in status.poll()])

trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("each", [0, 20], ids=["at once", "with others at work"])
def test_subscribing_in_a_loop_takes_little_memory_and_ends_no_peering(each: int) -> None:
    command = [sys.executable, "-c", SUBSCRIBER, str(COUNT), str(each)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit(120)
    )
    assert done.returncode == 0, done.stderr
    growth, events = done.stdout.splitlines()
    assert int(growth) <= GROWTH_MAX
    assert events == "[]"


async def test_all_that_changed_while_a_peer_did_not_read_is_said_once(kit) -> None:
    async with kit.world() as world:
        hub = await world.add()
        status = hub.subscribe_status()
        async with kit.raw(hub, world.ports[hub]) as raw:
            # It reads nothing for a while.
            connection = hub.loop.peerings[raw.local].connection
            before = connection.bytes_sent
            subscribers = [hub.subscribe(f"site/{number:05d}") for number in range(COUNT)]
            pieces = connection.link.take()
            connection.link.put_rest(*pieces)
            connection.wake()
            size = sum(map(len, pieces))
            assert size < 64 * KIB, "each of the topics is said once"
            await kit.until(lambda: connection.bytes_sent - before >= size)
            await trio.lowlevel.checkpoint()
            assert not [e for e in status.poll() if e.status is StatusCode.PEER_REMOVED]
            assert len(subscribers) == COUNT
