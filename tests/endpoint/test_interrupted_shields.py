"""A wait behind a shield ends with the second Ctrl-C, in any task, and trio's handler is back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from endpoint.shielding import shielded
from tests.endpoint.test_interrupts import interrupt, running


@pytest.fixture(autouse=True)
def pythons_handler() -> Iterator[None]:
    """Have Python's own handler in place, which trio replaces; Spark leaves another one behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


IN_A_TASK = """
    from endpoint.shielding import shielded

    async def say_when_all_wait(word):
        await trio.testing.wait_all_tasks_blocked()
        print(word, flush=True)

    async def hang(what):
        # A system task, which no Ctrl-C strikes: it is for trio to give it to the main task.
        trio.lowlevel.spawn_system_task(say_when_all_wait, "leaving")
        with shielded(what, 3600.0):
            await trio.sleep_forever()

    async def main():
        trio.lowlevel.spawn_system_task(say_when_all_wait, "stuck")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live)
"""

ONE = """
    async def live():
        try:
            await trio.sleep_forever()
        finally:
            await hang("an answer")

    trio.run(main)
"""

INSIDE = """
    async def live():
        try:
            await trio.sleep_forever()
        finally:
            with shielded("all answers", 3600.0):
                await hang("an answer")

    trio.run(main)
"""

INSIDE_AFTERWARDS = """
    async def live():
        try:
            await trio.sleep_forever()
        finally:
            with shielded("all answers", 3600.0):
                try:
                    trio.lowlevel.spawn_system_task(say_when_all_wait, "leaving")
                    await trio.sleep_forever()
                finally:
                    await hang("an answer")

    trio.run(main)
"""

AFTERWARDS = """
    async def live():
        try:
            try:
                await trio.sleep_forever()
            finally:
                await hang("an answer")
        finally:
            await hang("another answer")

    trio.run(main)
"""

AFTERWARDS_IN_THE_MAIN_TASK = """
    async def main():
        trio.lowlevel.spawn_system_task(say_when_all_wait, "stuck")
        await live()
"""

IN_ORDER = """
    async def live():
        ended = trio.Event()

        async def end():
            try:
                await trio.sleep_forever()
            finally:
                print("leaving", flush=True)
                ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            with shielded("an answer", 3600.0):
                await ended.wait()
                print("in order", flush=True)

    trio.run(main)
"""


@pytest.mark.parametrize(
    "parts",
    [
        (ONE,),
        (INSIDE,),
        (INSIDE_AFTERWARDS,),
        (AFTERWARDS,),
        (AFTERWARDS_IN_THE_MAIN_TASK, AFTERWARDS),
    ],
    ids=["one", "inside", "inside afterwards", "afterwards", "afterwards in the main task"],
)
def test_a_second_interrupt_ends_all_that_is_shielded(
    parts: tuple[str, ...], tmp_path: Path
) -> None:
    with running(tmp_path, IN_A_TASK, *parts) as process:
        interrupt(process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in said


def test_the_first_interrupt_leaves_what_is_shielded_in_order(tmp_path: Path) -> None:
    with running(tmp_path, IN_A_TASK, IN_ORDER) as process:
        interrupt(process)
        assert process.stdout is not None
        written = process.stdout.read()  # communicate() passes over what is buffered already
        process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert written == "in order\n"


async def test_trios_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with shielded("an answer", 20.0):
        assert signal.getsignal(signal.SIGINT) is not before
        with shielded("another one", 20.0):
            await trio.lowlevel.checkpoint()
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


async def test_a_handler_of_the_program_stays() -> None:
    def own(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, own)
    try:
        with shielded("an answer", 20.0):
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    with shielded("an answer", 20.0):
        signal.signal(signal.SIGINT, own)
    try:
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_thread_beside_the_main_one_hears_of_no_signal() -> None:
    async def wait() -> object:
        with shielded("an answer", 20.0):
            return signal.getsignal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    assert await trio.to_thread.run_sync(trio.run, wait) is before
