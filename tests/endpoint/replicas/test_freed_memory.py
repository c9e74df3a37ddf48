"""Memory that stores have let go of is given back: when, and that it helps, by real sizes."""

import os
import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from endpoint.replicas.freed_memory import TRIM_SIZE, TRIM_TICKS, Shrinkage, trim
from peermesh.testing.time_limits import limit

IS_GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names


def ticks_until(shrinkage: Shrinkage, size: int) -> int | None:
    return next((tick for tick in range(5 * TRIM_TICKS) if shrinkage.tick(size)), None)


def test_memory_is_given_back_a_second_after_much_is_gone() -> None:
    shrinkage = Shrinkage()
    assert ticks_until(shrinkage, 2 * TRIM_SIZE) is None
    assert ticks_until(shrinkage, TRIM_SIZE) == TRIM_TICKS - 1
    assert ticks_until(shrinkage, TRIM_SIZE) is None, "once is enough"
    assert ticks_until(shrinkage, 1) is None, "little is used again"
    assert ticks_until(shrinkage, 0) == TRIM_TICKS - 1


def test_what_grows_again_meanwhile_is_left_alone() -> None:
    shrinkage = Shrinkage()
    for _ in range(5 * TRIM_TICKS):
        assert not shrinkage.tick(2 * TRIM_SIZE)
        assert not shrinkage.tick(0)


def test_two_do_not_give_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from endpoint.replicas import freed_memory

    with freed_memory._trimming:
        assert trim() is False


STORE = """
    import os
    import trio
    from peermesh import Endpoint

    async def main():
        async with Endpoint() as left, Endpoint() as right:
            await right.peer("127.0.0.1", await left.listen())
            async with left.attach_master("s") as store, right.attach_clone("s") as clone:
                assert await clone.await_idle()
                print("empty", flush=True)
                input()
                for number in range(500):
                    receipt = await clone.put(number, os.urandom(256 << 10))
                    await receipt.applied()
                print("full", flush=True)
                input()
                for number in range(500):
                    await (await clone.erase(number)).applied()
                print("erased", flush=True)
                await trio.sleep_forever()

    trio.run(main)
"""
CONTENT_SIZE = 2 * 500 << 18
"""Bytes that the program above has of values, in a master and a clone: what travels lies among
them. Each has a quarter of it in its history."""


def resident(process: subprocess.Popen[str]) -> int:
    """Give the bytes that a process has in memory."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(not IS_GLIBC, reason="other C libraries have other ways")
def test_a_process_gives_back_the_memory_of_large_values() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    program = [sys.executable, "-c", textwrap.dedent(STORE)]
    with subprocess.Popen(program, **pipes) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "empty\n"
            before = resident(process)
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "full\n"
            assert resident(process) - before > CONTENT_SIZE * 0.9
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "erased\n"
            deadline = time.monotonic() + limit()
            while resident(process) - before > CONTENT_SIZE // 2:
                assert time.monotonic() < deadline, resident(process) - before
        finally:
            process.kill()
