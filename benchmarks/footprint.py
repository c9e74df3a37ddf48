"""What it costs to be there: an import, an endpoint that idles, a mesh of three that idles."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant
from benchmarks.role import Task

PAGE_SIZE: Final = 4096
IDLE_SECONDS: Final = 5.0

IMPORT: Final = """
import time
began = time.perf_counter()
import {module}
{use}
print((time.perf_counter() - began) * 1e3)
"""


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE_SIZE / 2**20


def _import(task: Task, module: str, use: str) -> None:
    """Time an import of compiled modules, which is what an installation leaves.

    A checkout has none where the environment forbids to write them: then this would time Python's
    compiler. So they go to a directory of their own, in a first import that is not counted.
    """
    task.introduce()
    code = IMPORT.format(module=module, use=use)
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": directory}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in ("compile", "measure"):
            result = subprocess.run(command, capture_output=True, check=True, env=environment)
    task.report(value=float(result.stdout))
    task.dismissed()


def import_package(task: Task) -> None:
    """Import the package."""
    _import(task, "peermesh", "")


def import_endpoint(task: Task) -> None:
    """Import the package and use its first name, which brings trio and all else."""
    _import(task, "peermesh", "peermesh.Endpoint")


def import_trio(task: Task) -> None:
    """Import trio alone."""
    _import(task, "trio", "")


async def idle_endpoint(task: Task) -> None:
    """Open an endpoint that listens, and weigh it."""
    import peermesh

    endpoint_type = peermesh.Endpoint
    task.introduce()
    before = _resident_mib()
    async with endpoint_type() as endpoint:
        await endpoint.listen()
        await trio.sleep(1)
        task.report(value=_resident_mib() - before)
        await task.dismissed_async()


async def idle_mesh(task: Task) -> None:
    """Open a full mesh of three, and see what it takes of a core."""
    import peermesh

    async with (
        peermesh.Endpoint() as one,
        peermesh.Endpoint() as two,
        peermesh.Endpoint() as three,
    ):
        port = await one.listen()
        assert await two.peer("127.0.0.1", port)
        assert await three.peer("127.0.0.1", port)
        assert await three.peer("127.0.0.1", await two.listen())
        task.introduce()
        await trio.sleep(1)
        began = time.process_time()
        await trio.sleep(IDLE_SECONDS)
        task.report(value=(time.process_time() - began) / IDLE_SECONDS * 100)
        await task.dismissed_async()


def _value(facts: Facts) -> Figures:
    return {"value": facts["value"]}


def _variant(name: str, role: str, unit: str) -> Variant:
    return Variant(name, (f"benchmarks.footprint:{role}",), _value, unit, 1)


BENCHMARK: Final = Benchmark(
    "footprint",
    "The cost of being there; modules are compiled beforehand, as an installation does",
    (
        _variant("import peermesh", "import_package", "ms"),
        _variant("import peermesh, use Endpoint", "import_endpoint", "ms"),
        _variant("import trio alone", "import_trio", "ms"),
        _variant("an idle endpoint adds", "idle_endpoint", "MiB"),
        _variant("an idle mesh of three", "idle_mesh", "% of a core"),
    ),
    (
        Goal("import peermesh, use Endpoint", at_most=150),
        Goal("import peermesh, use Endpoint", "import trio alone"),
        Goal("an idle endpoint adds", at_most=10),
        Goal("an idle mesh of three", at_most=1),
    ),
)
