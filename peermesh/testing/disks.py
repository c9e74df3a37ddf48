"""Faults of disks: full ones, and calls to the system that fail, lie, or take long.

Calls are caught by ``strace``, which attaches to a process that runs and lets go of it again: any
process, of whatever language. A lie about ``fsync`` is only seen when the power goes, and no
process can make that happen to the kernel: kill -9 takes nothing from the kernel's memory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import trio

from endpoint.shielding import shielded
from handshake.private_files import open_private
from peermesh.testing.faults import Unsupported
from peermesh.testing.processes import REAP_SECONDS

WORLD: Final = "this machine"

SYNC_CALLS: Final = "fsync,fdatasync,sync_file_range,msync"
"""What makes data durable."""

WRITE_CALLS: Final = "pwrite64,pwritev,pwritev2,ftruncate,fallocate"
"""What writes to files alone, as databases do. Plain ``write`` also goes to pipes and sockets: it
is caught where ``paths`` say which files are meant."""

BALLAST: Final = "ballast"
"""The file that fills a disk."""

BALLAST_CHUNK_SIZE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class FailingSync:
    """Making data durable fails with EIO."""


@dataclass(frozen=True, slots=True)
class LyingSync:
    """Making data durable does nothing, and says that it has."""


@dataclass(frozen=True, slots=True)
class SlowSync:
    """Making data durable takes so many seconds longer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FailingWrite:
    """Writing fails with an error of the system, such as ENOSPC or EIO."""

    error: str = "ENOSPC"


DiskFault = FailingSync | LyingSync | SlowSync | FailingWrite
"""What may happen to the calls of a process. A full disk is real: see ``open_small_disk``."""


# Calls that fail.


@cache
def probe_calls() -> str | None:
    """Say what keeps calls from being caught here; ``None`` if nothing does."""
    if sys.platform != "linux":
        return "catching calls to the system is a thing of Linux"
    if shutil.which("strace") is None:
        return "the program strace is missing: install it"
    tried = subprocess.run(
        ["strace", "-qq", "-e", "inject=fsync:error=EIO", "-o", os.devnull, "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return f"strace may not trace here ({tried.stderr.strip()}): allow ptrace"
    return None


@asynccontextmanager
async def disturb(pid: int, fault: DiskFault, *, paths: Sequence[Path] = ()) -> AsyncIterator[None]:
    """Have the calls of a process that runs fail in this block, in all of its threads.

    ``paths`` are the files that are meant, instead of all. Raises ``Unsupported`` with what the
    machine lacks, and ``ProcessLookupError`` if there is no such process.
    """
    problem = probe_calls()
    if problem is not None:
        raise Unsupported(WORLD, fault, problem)
    command = ["strace", "-f", "-p", str(pid), "-o", os.devnull, *_injection(fault, paths)]
    tracer = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE)
    try:
        await _attached(tracer, pid)
        yield
    finally:
        with shielded("strace to let go of a process", REAP_SECONDS):
            if tracer.poll() is None:
                tracer.send_signal(signal.SIGINT)  # It detaches: the process goes on as before.
            await tracer.wait()
            assert tracer.stderr is not None
            await tracer.stderr.aclose()


async def _attached(tracer: trio.Process, pid: int) -> None:
    """Wait until strace says that it has the process."""
    assert tracer.stderr is not None
    said = b""
    while b"attached" not in said:
        data = await tracer.stderr.receive_some()
        if not data:
            raise ProcessLookupError(f"strace cannot attach to {pid}: {said.decode().strip()}")
        said += data


def _injection(fault: DiskFault, paths: Sequence[Path]) -> list[str]:
    writes = f"write,writev,{WRITE_CALLS}" if paths else WRITE_CALLS
    match fault:
        case FailingSync():
            calls, effect = SYNC_CALLS, "error=EIO"
        case LyingSync():
            calls, effect = SYNC_CALLS, "retval=0"
        case SlowSync(seconds):
            calls, effect = SYNC_CALLS, f"delay_enter={round(seconds * 1_000_000)}"
        case FailingWrite(error):
            calls, effect = writes, f"error={error}"
    named = [word for path in paths for word in ("-P", str(path))]
    return [*named, "-e", f"trace={calls}", "-e", f"inject={calls}:{effect}"]


# Full disks.


@cache
def probe_small_disk() -> str | None:
    """Say what keeps small disks from being mounted here; ``None`` if nothing does."""
    if sys.platform != "linux":
        return "mounting a small disk is a thing of Linux"
    if os.geteuid() != 0:
        return "mounting a small disk needs root: run the tests with sudo"
    try:
        with _mounted(1 << 16):
            return None
    except OSError as error:
        return str(error)


@contextmanager
def open_small_disk(size: int) -> Iterator[Path]:
    """Give the directory of a disk of its own, of so many bytes, in memory.

    Raises ``Unsupported`` with what the machine lacks.
    """
    problem = probe_small_disk()
    if problem is not None:
        raise Unsupported(WORLD, f"a disk of {size} bytes", problem)
    with _mounted(size) as path:
        yield path


@contextmanager
def _mounted(size: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="peermesh-disk-") as directory:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "peermesh", directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            text = f"a small disk cannot be mounted ({done.stderr.strip()})"
            raise OSError(text)
        try:
            yield Path(directory)
        finally:
            # Lazily: whoever still has a file open there keeps it, and nobody else.
            subprocess.run(["umount", "--lazy", directory], check=True)


def fill_disk(directory: Path) -> Path:
    """Fill the disk of a directory to the last byte; remove the file that is given to make room."""
    ballast = directory / BALLAST
    size = BALLAST_CHUNK_SIZE
    with open_private(ballast, "ab", buffering=0) as file:
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return ballast
