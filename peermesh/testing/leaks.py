"""What a test has left behind: tasks, threads, open files and sockets, child processes."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

DESCRIPTORS: Final = Path("/proc/self/fd")
"""Where Linux lists what a process has open. Elsewhere files are not looked at."""

PROCESSES: Final = Path("/proc")

SOCKETS: Final = Path("/proc/self/net/tcp")

LISTENING: Final = "0A"
"""The state of a socket that listens, as Linux writes it."""

POOL_NAMES: Final = ("trio worker thread", "Trio thread ")
"""Threads of trio's pool: they wait for work for some seconds, and belong to nobody."""

FRAMES_MAX: Final = 3
"""Frames shown of where something is, or was opened."""


class LeakError(AssertionError):
    """Something was left behind. The text names it, and where it is from if that is known."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the process has at one moment."""

    threads: Mapping[int, str]
    descriptors: Mapping[int, str]
    """What is open, and as what."""
    children: frozenset[int]


def look() -> Resources:
    """Look at what the process has now."""
    threads = {each.ident: each.name for each in threading.enumerate() if each.ident is not None}
    return Resources(
        threads={ident: name for ident, name in threads.items() if not _is_pooled(name)},
        descriptors=_descriptors(),
        children=frozenset(_children()),
    )


def _is_pooled(name: str) -> bool:
    return name.startswith(POOL_NAMES)


def _descriptors() -> dict[int, str]:
    if not DESCRIPTORS.is_dir():
        return {}
    found = {}
    for name in os.listdir(DESCRIPTORS):
        try:
            found[int(name)] = os.readlink(DESCRIPTORS / name)
        except OSError:
            continue  # The descriptor of this very list.
    return found


def _children() -> list[int]:
    """List the processes whose parent is this one."""
    own = str(os.getpid())
    found = []
    for entry in os.listdir(PROCESSES) if PROCESSES.is_dir() else ():
        if entry.isdigit():
            try:
                fields = (PROCESSES / entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            except OSError:
                continue  # It has ended meanwhile.
            if fields[1] == own:
                found.append(int(entry))
    return found


def left_behind(before: Resources, after: Resources) -> list[str]:
    """Name what is there after, and was not before."""
    threads = sorted(set(after.threads) - set(before.threads))
    # A descriptor's number may serve something else by now.
    descriptors = sorted(set(after.descriptors.items()) - set(before.descriptors.items()))
    sockets = _socket_names() if descriptors else {}
    return [
        *(f"thread {after.threads[each]!r}{_stack_of(each)}" for each in threads),
        *(
            f"descriptor {number}: {sockets.get(what, what)}{_origin_of(number)}"
            for number, what in descriptors
        ),
        *(
            f"process {each}{_command_of(each)}"
            for each in sorted(after.children - before.children)
        ),
    ]


def _socket_names() -> dict[str, str]:
    """Give the addresses of TCP sockets over IPv4, by what a descriptor says that it is."""
    try:
        lines = SOCKETS.read_text("ascii").splitlines()[1:]
    except OSError:
        return {}
    names = {}
    for fields in map(str.split, lines):
        local, remote = _address(fields[1]), _address(fields[2])
        state = "listening" if fields[3] == LISTENING else f"connected to {remote}"
        names[f"socket:[{fields[9]}]"] = f"socket at {local}, {state}"
    return names


def _address(text: str) -> str:
    """Read what Linux writes: the bytes of the address in the machine's order, and the port."""
    host, _, port = text.partition(":")
    packed = int(host, 16).to_bytes(4, sys.byteorder)
    return f"{'.'.join(map(str, packed))}:{int(port, 16)}"


def check(before: Resources) -> None:
    """Raise ``LeakError`` if there is more than before."""
    found = left_behind(before, look())
    if found:
        gc.collect()  # What nobody holds any more was not left behind, but not collected yet.
        found = left_behind(before, look())
    if found:
        hint = "" if tracemalloc.is_tracing() else "\n(python -X tracemalloc=5 says where from)"
        raise LeakError("left behind:" + "".join(f"\n  {each}" for each in found) + hint)


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented in spite of its name
    frames = traceback.extract_stack(frame)[-FRAMES_MAX:] if frame is not None else []
    return (
        f", now at {_places((each.filename, each.lineno or 0) for each in frames)}"
        if frames
        else ""
    )


def _origin_of(descriptor: int) -> str:
    """Say where an open file or socket was made, if ``tracemalloc`` has seen that."""
    for each in gc.get_objects() if tracemalloc.is_tracing() else ():
        try:
            is_it = hasattr(type(each), "fileno") and each.fileno() == descriptor
        except Exception:  # whatever a foreign object raises, it is not what is looked for
            continue
        made = tracemalloc.get_object_traceback(each) if is_it else None
        if made is not None:
            places = [(frame.filename, frame.lineno) for frame in made][-FRAMES_MAX:]
            return f", opened at {_places(places)}"
    return ""


def _command_of(process: int) -> str:
    try:
        words = (PROCESSES / str(process) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return f": {' '.join(word.decode('utf-8', 'replace') for word in words if word)}"


def _places(frames: Iterable[tuple[str, int]]) -> str:
    return " < ".join(f"{Path(name).name}:{line}" for name, line in reversed(list(frames)))


def task_names(tasks: Iterable[trio.lowlevel.Task]) -> list[str]:
    """Name tasks, and where each of them waits."""
    return sorted(f"{task.name}{_place_of(task)}" for task in tasks)


def _place_of(task: trio.lowlevel.Task) -> str:
    frames = [(frame.f_code.co_filename, line) for frame, line in task.iter_await_frames()]
    return f" at {_places(frames[-FRAMES_MAX:])}" if frames else ""
