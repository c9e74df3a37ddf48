"""Leaks: what was left behind is named, and what is not ours is not blamed on anybody."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import tracemalloc

import pytest
import trio
import trio.testing

from peermesh.testing import leaks
from peermesh.testing.leaks import LeakError

needs_proc = pytest.mark.skipif(not leaks.DESCRIPTORS.is_dir(), reason="there is no /proc here")


def test_nothing_is_left_behind_of_what_was_closed(tmp_path):
    before = leaks.look()
    with (tmp_path / "file").open("w"), socket.create_server(("127.0.0.1", 0)):
        assert leaks.left_behind(before, leaks.look()) or not leaks.DESCRIPTORS.is_dir()
    leaks.check(before)


@needs_proc
def test_files_and_sockets_are_named(tmp_path):
    before = leaks.look()
    with (tmp_path / "file").open("w") as file, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LeakError) as caught:
            leaks.check(before)
        assert f"descriptor {file.fileno()}: {tmp_path}/file" in str(caught.value)
        assert f"socket at 127.0.0.1:{port}, listening" in str(caught.value)


@needs_proc
def test_the_place_where_it_was_opened_is_named_if_that_is_traced():
    tracemalloc.start(3)
    try:
        before = leaks.look()
        with socket.create_server(("127.0.0.1", 0)):
            (line,) = leaks.left_behind(before, leaks.look())
    finally:
        tracemalloc.stop()
    assert re.search(r"opened at socket\.py:\d+ < test_leaks\.py:\d+", line)


def test_threads_are_named_with_what_they_do():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="stays")
    before = leaks.look()
    thread.start()
    try:
        with pytest.raises(LeakError, match=r"thread 'stays', now at .*threading.py:\d+"):
            leaks.check(before)
    finally:
        stop.set()
        thread.join()
    leaks.check(before)


@needs_proc
def test_child_processes_are_named():
    before = leaks.look()
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        lines = leaks.left_behind(before, leaks.look())
        process.kill()
    assert any(line.startswith(f"process {process.pid}: {sys.executable} -c") for line in lines)


async def test_threads_of_trios_pool_are_nobodys():
    before = leaks.look()
    await trio.to_thread.run_sync(lambda: None)
    leaks.check(before)


async def test_tasks_are_named_with_where_they_wait():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever, name="the sleeper")
        await trio.testing.wait_all_tasks_blocked()
        (name,) = leaks.task_names(nursery.child_tasks)
        nursery.cancel_scope.cancel()
    assert name.startswith("the sleeper at ")
    assert "_timeouts.py" in name
