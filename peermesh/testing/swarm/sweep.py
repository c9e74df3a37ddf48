"""Runs many seeds on all cores, and remembers what is done, so that it can go on later."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from time import process_time
from typing import Any, Final

from channels import Producer
from endpoint import Endpoint
from handshake import Handshake
from handshake.private_files import open_private
from net.transport import SocketTransport
from peermesh.testing.swarm.running import run_seed
from stores.table.table import Table
from wire.escaping import escape
from wire.framing import NodeFrame

CHUNK_SEEDS: Final = 25
"""Seeds that one process runs before it reports: some seconds."""

FAILURES_MAX: Final = 50
"""Failures that a summary names; with more of them, one mends the first before counting on."""

CHUNKS_PER_JOB: Final = 2
"""Chunks that wait for a process, so that it need not wait for them."""


_LAYERS: Final = (NodeFrame, SocketTransport, Handshake, Producer, Table, Endpoint, run_seed)
"""Something of each layer: in a wheel all of them are in one package."""


def code_digest() -> str:
    """Give a hash of the code that seeds play with: what another showed says nothing of it."""
    names = {layer.__module__.partition(".")[0] for layer in _LAYERS}
    folders = sorted(Path(*sys.modules[name].__path__) for name in names)
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass
class Totals:
    """What a range of seeds added up to."""

    seeds: int = 0
    grouped: int = 0
    members: int = 0
    members_max: int = 0
    faults: int = 0
    published: int = 0
    delivered: int = 0
    applied: int = 0
    appended: int = 0
    successions: int = 0
    virtual_seconds: float = 0.0
    healing_seconds_max: float = 0.0
    steps: int = 0
    cpu_seconds: float = 0.0
    failures: list[tuple[int, str]] = field(default_factory=list)
    """Seeds that failed, each with what it said."""

    def add(self, other: Totals) -> None:
        """Add up."""
        for name in vars(self):
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, more) if name.endswith("_max") else mine + more)


def run_chunk(first: int, count: int) -> Totals:
    """Run some seeds, one after the other."""
    totals = Totals()
    begin = process_time()
    for seed in range(first, first + count):
        report = run_seed(seed)
        failures = [(seed, report.failure)] if report.failure else []
        totals.add(
            Totals(
                seeds=1,
                grouped=int(report.is_grouped),
                members=report.members,
                members_max=report.members,
                faults=report.faults,
                published=report.published,
                delivered=report.delivered,
                applied=report.applied,
                appended=report.appended,
                successions=report.successions,
                virtual_seconds=report.virtual_seconds,
                healing_seconds_max=report.healing_seconds,
                steps=report.steps,
                failures=failures,
            )
        )
    totals.cpu_seconds = process_time() - begin
    return totals


class Progress:
    """The chunks that are done, in a file of one line each, if there is a file.

    Lines of another code stay in the file, and count nothing.
    """

    def __init__(self, path: Path | None) -> None:
        """Read what is done."""
        self.others = 0
        """Seeds that stand in the file, and ran with another code."""
        self._path = path
        self._code = code_digest() if path is not None else ""
        self._done: dict[tuple[int, int], Totals] = {}
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                entry: dict[str, Any] = json.loads(line)
                if entry.get("code") != self._code:
                    self.others += entry["count"]
                    continue
                failures = [(seed, text) for seed, text in entry["totals"].pop("failures")]
                totals = Totals(**entry["totals"], failures=failures)
                self._done[entry["first"], entry["count"]] = totals

    def find(self, first: int, count: int) -> Totals | None:
        """Give what a chunk added up to, if it is done."""
        return self._done.get((first, count))

    def note(self, first: int, count: int, totals: Totals) -> None:
        """Remember a chunk."""
        if self._path is not None:
            entry = {"code": self._code, "first": first, "count": count, "totals": asdict(totals)}
            with open_private(self._path, "a") as file:
                file.write(f"{json.dumps(entry)}\n")


def chunks(first: int, seeds: int) -> Iterator[tuple[int, int]]:
    """Cut a range into chunks: first seed, and how many."""
    for begin in range(first, first + seeds, CHUNK_SEEDS):
        yield begin, min(CHUNK_SEEDS, first + seeds - begin)


def sweep(
    first: int,
    seeds: int,
    *,
    jobs: int | None = None,
    state: Path | None = None,
    tell: Callable[[Totals], None] = lambda _: None,
) -> Totals:
    """Run a range of seeds in ``jobs`` processes, one for each core if nothing is said.

    ``state`` is the file of what is done: chunks that stand in it, and ran with this code, are not
    run again. ``tell`` hears the totals whenever a chunk is done.
    """
    totals, progress = Totals(), Progress(state)
    if progress.others:
        text = f"{progress.others} seeds of {state} ran with other code: not counted\n"
        sys.stderr.write(escape(text, kept="\n"))
    todo = []
    for chunk in chunks(first, seeds):
        done = progress.find(*chunk)
        if done is None:
            todo.append(chunk)
        else:
            totals.add(done)
    for chunk, done in _run(todo, jobs or os.cpu_count() or 1):
        progress.note(*chunk, done)
        totals.add(done)
        tell(totals)
    totals.failures.sort()
    return totals


def _run(todo: Iterable[tuple[int, int]], jobs: int) -> Iterator[tuple[tuple[int, int], Totals]]:
    if jobs == 1:
        for chunk in todo:
            yield chunk, run_chunk(*chunk)
        return
    waiting = iter(todo)
    with worker_processes(jobs) as pool:
        running: dict[Future[Totals], tuple[int, int]] = {}
        while True:
            for chunk in islice(waiting, CHUNKS_PER_JOB * jobs - len(running)):
                running[pool.submit(run_chunk, *chunk)] = chunk
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


def worker_processes(jobs: int) -> ProcessPoolExecutor:
    """Give processes to work in, which end when this one does, even if it is killed.

    They are spawned, so that none begins with what another one has imported or patched.
    """
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()
