"""Full disks, and calls to the system that fail."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest
import trio

from peermesh.testing import disks
from peermesh.testing.disks import (
    FailingSync,
    FailingWrite,
    LyingSync,
    SlowSync,
    disturb,
    fill_disk,
    open_small_disk,
    probe_calls,
    probe_small_disk,
)
from peermesh.testing.faults import Unsupported
from peermesh.testing.processes import open_program

needs_strace = pytest.mark.skipif(probe_calls() is not None, reason=str(probe_calls()))
needs_mount = pytest.mark.skipif(probe_small_disk() is not None, reason=str(probe_small_disk()))

WRITER = """
import errno, os, sys, threading, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
calls = {
    "sync": lambda: os.fsync(file),
    "sync a pipe": lambda: os.fsync(0),
    "datasync": lambda: os.fdatasync(file),
    "pwrite": lambda: os.pwrite(file, b"x", 0),
    "write": lambda: os.write(file, b"x"),
}
def do(name):
    began = time.monotonic()
    try:
        calls[name]()
        words = "done"
    except OSError as error:
        words = errno.errorcode[error.errno]
    print(words, time.monotonic() - began, flush=True)
for line in sys.stdin:
    # In a thread of its own, as databases under trio are.
    thread = threading.Thread(target=do, args=(line.strip(),))
    thread.start()
    thread.join()
"""


class Writer:
    def __init__(self, program):
        self.program = program
        self.seconds = 0.0

    async def do(self, name):
        await self.program.say(name)
        word, seconds = (await self.program.hear()).split()
        self.seconds = float(seconds)
        return word


@pytest.fixture
async def writer(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    async with open_program(command) as program:
        yield Writer(program)


@needs_strace
async def test_a_failing_sync_fails_until_the_block_ends(writer):
    assert await writer.do("sync") == "done"
    async with disturb(writer.program.pid, FailingSync()):
        assert await writer.do("sync") == "EIO"
        assert await writer.do("datasync") == "EIO"
        assert await writer.do("pwrite") == "done"
    assert await writer.do("datasync") == "done"


@needs_strace
async def test_a_slow_sync_takes_as_long_as_was_asked_for(writer):
    async with disturb(writer.program.pid, SlowSync(0.1)):
        assert await writer.do("sync") == "done"
        assert writer.seconds >= 0.1


@needs_strace
async def test_a_lying_sync_says_that_it_is_done_whatever_it_was_asked(writer):
    assert await writer.do("sync a pipe") == "EINVAL"
    async with disturb(writer.program.pid, LyingSync()):
        assert await writer.do("sync a pipe") == "done"


@needs_strace
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
async def test_failing_writes_are_those_to_files(writer, tmp_path, error):
    async with disturb(writer.program.pid, FailingWrite(error)):
        assert await writer.do("pwrite") == error
        assert await writer.do("write") == "done"
    paths = [tmp_path / "file"]
    async with disturb(writer.program.pid, FailingWrite(error), paths=paths):
        assert await writer.do("write") == error
        assert await writer.do("pwrite") == error


@needs_strace
async def test_a_process_that_is_killed_meanwhile_leaves_no_tracer(writer):
    async with disturb(writer.program.pid, FailingSync()):
        await writer.program.kill()
    with pytest.raises(ProcessLookupError):
        async with disturb(2**22 + 1, FailingSync()):
            pass


@needs_mount
def test_a_small_disk_is_full_soon_and_has_room_again():
    with open_small_disk(1 << 20) as directory:
        ballast = fill_disk(directory)
        assert ballast.stat().st_size == 1 << 20
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is looked at
            (directory / "more").write_bytes(b"x")
        assert caught.value.errno == errno.ENOSPC
        ballast.unlink()
        (directory / "more").write_bytes(b"x")
    assert not directory.exists()


@needs_mount
def test_a_small_disk_goes_even_if_somebody_has_a_file_open_there():
    with open_small_disk(1 << 20) as directory:
        file = os.open(directory / "file", os.O_RDWR | os.O_CREAT)
    assert str(directory) not in Path("/proc/mounts").read_text()
    os.close(file)


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (lambda patch: patch.setattr("sys.platform", "darwin"), "Linux"),
        (lambda patch: patch.setenv("PATH", ""), "strace is missing"),
    ],
)
def test_a_machine_without_strace_is_told_so(monkeypatch, break_it, text):
    break_it(monkeypatch)
    assert text in probe_calls.__wrapped__()


async def test_what_a_machine_cannot_is_unsupported(monkeypatch):
    monkeypatch.setattr(disks, "probe_calls", lambda: "strace is missing")
    monkeypatch.setattr(disks, "probe_small_disk", lambda: "it needs root")
    with pytest.raises(Unsupported, match="strace is missing"):
        async with disturb(os.getpid(), FailingSync()):
            await trio.lowlevel.checkpoint()
    with pytest.raises(Unsupported, match="it needs root"), open_small_disk(1 << 20):
        pass


def test_a_user_without_rights_is_told_so(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in probe_small_disk.__wrapped__()
