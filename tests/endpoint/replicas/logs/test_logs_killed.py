"""The keeper of a log is killed at any moment: what it acknowledged is there, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from endpoint import Endpoint

ROUNDS = int(os.environ.get("LOG_KILLS", "4"))
"""Kills; ``LOG_KILLS=200``, with this file alone, is a long run."""

PARTITIONS = 2

KEEPER = """
import sys
import trio
from peermesh import Backend, Endpoint

async def main():
    async with Endpoint() as endpoint:
        await endpoint.attach_log("log", (), 2, Backend.SQLite, path=sys.argv[1])
        print(await endpoint.listen("127.0.0.1", int(sys.argv[2])), flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@contextmanager
def keeper(path: object, port: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A real process that keeps the log."""
    arguments = [sys.executable, "-c", KEEPER, str(path), str(port)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.timeout(600 + 10 * ROUNDS)
async def test_acknowledged_appends_survive_kills_of_the_keeper(kit, tmp_path):
    path, chance = tmp_path / "log.db", random.Random(ROUNDS)
    async with Endpoint() as endpoint, trio.open_nursery() as nursery:
        log = await endpoint.attach_log_proxy("log", patience=60)
        producers = [kit.Producer(log, None), kit.Producer(log, "named")]
        port = 0
        for life in range(ROUNDS + 1):
            with keeper(path, port) as (process, bound):
                if not port:
                    port = bound
                    assert await endpoint.peer("127.0.0.1", port, retry=0.2)
                    for producer in producers:
                        nursery.start_soon(producer.run)
                target = sum(each.acknowledged for each in producers) + chance.randint(1, 400)
                await kit.until(lambda: sum(each.acknowledged for each in producers) >= target)  # noqa: B023 - it is over before the next round
                if life < ROUNDS:
                    process.send_signal(signal.SIGKILL)
                    continue
                await kit.check_appended(log, producers)
        nursery.cancel_scope.cancel()
