"""Who can command an agent: its parent alone."""

from __future__ import annotations

import sys

import pytest
import trio

from peermesh.testing.agent.client import spawn
from peermesh.testing.time_limits import limit
from tests.listening import listening


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
async def test_an_agent_is_commanded_by_its_parent_alone(tmp_path) -> None:
    """The channel is a pair of sockets without a name, at which no other program can connect."""
    with trio.fail_after(limit(60)):
        host = spawn(tmp_path, {})
        async with trio.open_nursery() as nursery:
            await nursery.start(host.live)
            assert not listening(host.process.pid)
            await host.call("listen", ("127.0.0.1", 0), ())
            assert len(listening(host.process.pid)) == 1, "the port of its endpoint"
            await host.close()
            nursery.cancel_scope.cancel()
