"""Ctrl-C in a process of the library's users: the first is orderly, the second ends it at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parent.parent.parent

HEAD = """
    import logging, signal, sys, threading
    from dataclasses import replace
    import trio, trio.testing
    from endpoint import endpoint as ends, tasks
    from endpoint.surroundings import surroundings
    from peermesh import Backend, Endpoint, blocking
    from stores.disk.ballot import SUFFIX
    from stores.disk.medium import PrivateMedium
    from stores.disk.replica import SQLiteReplica
    from stores.group.entries import ActionEntry
    from stores.table.codec import TableCodec

    class StuckDisk(SQLiteReplica):
        def persist(self, write, *arguments, **options):
            if any(isinstance(each, ActionEntry) for each in write.entries):
                print("stuck", flush=True)
                threading.Event().wait()
            super().persist(write, *arguments, **options)

    def open_stuck(path, options):
        return StuckDisk(path, TableCodec()), PrivateMedium(path + SUFFIX)

    shutdown = Endpoint.shutdown

    async def announced(self, *arguments, **options):
        print("leaving", flush=True)
        await shutdown(self, *arguments, **options)

    Endpoint.shutdown = announced
    PATH = sys.argv[1]
    surroundings.set(replace(surroundings.get(), open_replica=open_stuck))
    logging.basicConfig()
"""

ENDLESS = """
    # Nothing but a second Ctrl-C ends it.
    tasks.FINISH_SECONDS = ends.FINISH_SECONDS = 3600.0
"""

BRIEF = """
    tasks.FINISH_SECONDS = ends.FINISH_SECONDS = 0.1
"""

IN_TRIO = """
    async def main():
        async with Endpoint() as endpoint:
            store = await endpoint.attach_master("s", Backend.SQLite, path=PATH)
            await store.put("k", 1)
            await trio.sleep_forever()

    trio.run(main)
"""

IN_A_TASK = """
    async def live():
        async with Endpoint() as endpoint:
            store = await endpoint.attach_master("s", Backend.SQLite, path=PATH)
            await store.put("k", 1)
            await trio.sleep_forever()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live)

    trio.run(main)
"""

IN_BETWEEN = """
    # The second Ctrl-C comes when the endpoint's task is cancelled, and does not wait yet.
    @trio.lowlevel.enable_ki_protection
    def strike():
        signal.raise_signal(signal.SIGINT)

    async def struck(self, *arguments, **options):
        print("leaving", flush=True)
        strike()
        await shutdown(self, *arguments, **options)

    Endpoint.shutdown = struck
"""

IN_THREADS = """
    with blocking.Endpoint() as endpoint:
        store = endpoint.attach_master("s", Backend.SQLite, path=PATH)
        store.put("k", 1)
        signal.pause()
"""

WHILE_ATTACHING = """
    def load(self, epoch_min):
        print("stuck", flush=True)
        threading.Event().wait()

    StuckDisk.load = load

    async def main():
        async with Endpoint() as endpoint:
            await endpoint.attach_master("s", Backend.SQLite, path=PATH)

    trio.run(main)
"""


AT_A_TICK = """
    # The second Ctrl-C comes while a task of the endpoint has its turn.
    from endpoint.replicas.runner import Runner

    has_left = []

    async def noted(self, *arguments, **options):
        has_left.append(True)
        await announced(self, *arguments, **options)

    tick = Runner.tick

    def interrupted(self):
        tick(self)
        if has_left:
            has_left.clear()
            signal.raise_signal(signal.SIGINT)

    Endpoint.shutdown = noted
    Runner.tick = interrupted
"""


IN_A_START = """
    # The second Ctrl-C comes while trio makes the task that leaves.
    from trio._core import _run

    has_left = []

    async def noted(self, *arguments, **options):
        has_left.append(True)
        await announced(self, *arguments, **options)

    make = _run.coroutine_or_error

    def interrupted(*arguments):
        made = make(*arguments)
        if has_left:
            has_left.clear()
            signal.raise_signal(signal.SIGINT)
        return made

    Endpoint.shutdown = noted
    _run.coroutine_or_error = interrupted
"""

IN_A_CALLBACK = """
    def endless():
        print("stuck", flush=True)
        while True:
            pass

    async def main():
        async with Endpoint() as endpoint:
            endpoint.loop.callbacks.call(endless)
            await trio.sleep_forever()

    trio.run(main)
"""


@contextmanager
def running(folder: Path, *parts: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program whose disk never answers, until that is so."""
    text = "".join(textwrap.dedent(part) for part in (HEAD, *parts))
    command = [sys.executable, "-c", text, str(folder / "s.db")]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # Reading a line of a program that writes nothing would have no end.
        net = threading.Timer(limit(60), process.kill)
        net.start()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "stuck\n"
            yield process
        finally:
            net.cancel()
            process.kill()


def interrupt(process: subprocess.Popen[str]) -> None:
    """Do as Ctrl-C does, and wait until the program leaves."""
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "leaving\n"


def test_a_second_interrupt_counts_that_comes_before_the_wait(tmp_path: Path) -> None:
    with running(tmp_path, ENDLESS, IN_BETWEEN, IN_A_TASK) as process:
        interrupt(process)
        process.communicate()
    assert process.returncode in (1, -signal.SIGINT)


@pytest.mark.parametrize(
    "program", [IN_TRIO, IN_A_TASK, IN_THREADS], ids=["trio", "a task", "blocking"]
)
def test_a_second_interrupt_ends_a_process_whose_disk_never_answers(
    program: str, tmp_path: Path
) -> None:
    with running(tmp_path, ENDLESS, program) as process:
        interrupt(process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in said


def test_a_second_interrupt_while_the_endpoint_works_is_not_lost(tmp_path: Path) -> None:
    with running(tmp_path, ENDLESS, AT_A_TICK, IN_TRIO) as process:
        interrupt(process)
        _, said = process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in said


async def test_an_interrupt_in_a_task_of_the_endpoint_goes_to_the_main_task() -> None:
    protected, done = list[bool](), trio.Event()

    async def work() -> None:
        protected.append(trio.lowlevel.currently_ki_protected())
        done.set()

    async with Endpoint() as endpoint:
        endpoint.loop.tasks.start(work)
        await done.wait()
    assert protected == [True]


@pytest.mark.parametrize("program", [IN_TRIO, IN_A_TASK], ids=["trio", "a task"])
def test_a_second_interrupt_leaves_trio_whole(program: str, tmp_path: Path) -> None:
    with running(tmp_path, ENDLESS, IN_A_START, program) as process:
        interrupt(process)
        _, said = process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in said
    assert "internal error" not in said
    assert "never awaited" not in said


@pytest.mark.parametrize(
    "program", [IN_TRIO, IN_A_TASK, IN_THREADS], ids=["trio", "a task", "blocking"]
)
def test_one_interrupt_ends_a_process_whose_disk_never_answers_in_the_end(
    program: str, tmp_path: Path
) -> None:
    with running(tmp_path, BRIEF, program) as process:
        interrupt(process)
        _, said = process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert "for store s to be closed in vain" in said


def test_one_interrupt_ends_a_process_that_waits_for_a_file(tmp_path: Path) -> None:
    with running(tmp_path, ENDLESS, WHILE_ATTACHING) as process:
        interrupt(process)
        process.communicate()
    assert process.returncode in (1, -signal.SIGINT)


def test_one_interrupt_ends_a_callback_that_has_no_end(tmp_path: Path) -> None:
    with running(tmp_path, IN_A_CALLBACK) as process:
        interrupt(process)
        _, said = process.communicate()
    assert process.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in said
