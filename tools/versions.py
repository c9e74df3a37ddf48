"""``python -m tools.versions``: have an older release and this checkout work in one mesh.

The older one is a wheel, or what pip finds by a requirement such as ``peermesh==1.2``, in an
environment of its own. Both are driven by their command lines, as real processes over TLS, each in
either part: messages, a store with its clones, a log, dumps, and the files that the older one left.
Without ``--old`` a wheel of this checkout stands in for it: so the harness itself is tried.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from peermesh.testing.processes import Program, ProgramEnded, open_program
from peermesh.testing.time_limits import limit

ROOT: Final = Path(__file__).resolve().parent.parent

SECONDS_MAX: Final = 120.0
"""For one scenario, in seconds of an idle machine: it starts about ten processes, each in one."""

HERE: Final = "127.0.0.1:0"

TABLE: Final = {"text": "Grüße", "number": -1, "list": [1, 2.5, None], "table": {"a": True}}


class Disagreement(Exception):
    """Two releases did not do what both promise."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release, by how its command line is called, in a directory of its own."""

    name: str
    command: tuple[str, ...]
    folder: Path
    environment: dict[str, str]

    async def run(self, *arguments: str, is_refused: bool = False) -> list[dict[str, Any]]:
        """Run a command with ``--json`` to its end, and give what it wrote.

        Raises ``Disagreement`` if it failed. One that has to be refused gives its error.
        """
        done = await trio.run_process(
            [*self.command, *arguments, "--json"],
            cwd=self.folder, env=self.environment, check=False,
            capture_stdout=True, capture_stderr=True,
        )  # fmt: skip
        if (done.returncode != 0) is not is_refused:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise Disagreement(f"{self.name}: {' '.join(arguments)}: {done.returncode}: {said}")
        told = done.stderr if is_refused else done.stdout
        return [json.loads(line) for line in told.decode().splitlines() if line.startswith("{")]

    @asynccontextmanager
    async def serving(self, *arguments: str) -> AsyncIterator[str]:
        """Run a command that listens, and give its address; it is killed when the block ends."""
        async with self.started(*arguments, "--listen", HERE) as program:
            while (told := json.loads(await program.hear())).get("event") != "listening":
                pass
            yield f"{told['host']}:{told['port']}"

    @asynccontextmanager
    async def started(self, *arguments: str) -> AsyncIterator[Program]:
        """Start a command with ``--json``; it is killed when the block ends."""
        command = [*self.command, *arguments, "--json"]
        async with open_program(command, environment=self.environment) as program:
            yield program


Scenario = Callable[[Release, Release], Awaitable[None]]


async def messages(first: Release, second: Release) -> None:
    """Publish at one, through a node of the other, to a subscriber of either."""
    async with first.serving("node", "--forward", "news/") as address:
        for reader in (first, second):
            at = ("--peer", address)
            async with (
                reader.started("sub", "news/", "--count", "1", *at) as program,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(_publish_on, second, address)
                told = json.loads(await program.hear())
                nursery.cancel_scope.cancel()
            _check("a message", told["value"], TABLE)


async def _publish_on(release: Release, address: str) -> None:
    while True:  # until the subscriber has one: when it subscribes is its own matter
        await release.run("pub", "news/today", json.dumps(TABLE), "--peer", address)


async def store(first: Release, second: Release) -> None:
    """Write into the store of one from both, clone it at the other, and compare."""
    async with first.serving("node", "--master", "table") as address:
        at = ("--peer", address)
        for key, value in TABLE.items():
            await second.run("store", "put", "table", key, json.dumps(value), *at)
        await first.run("store", "increment", "table", "number", "8", *at)
        async with second.serving("node", "--clone", "table", *at) as other:
            for release in (first, second):
                for where in (address, other):
                    entries = await release.run("store", "scan", "table", "--peer", where)
                    found = {entry["key"]: entry["value"] for entry in entries}
                    _check("a store", found, {**TABLE, "number": 7})
            for release in (first, second):
                rows = await release.run("store", "verify", "table", *at)
                if len(rows) < 3:
                    raise Disagreement(f"{len(rows)} replicas were compared: {rows}")


async def log(first: Release, second: Release) -> None:
    """Append to the log of one from both, and read it at both."""
    async with first.serving("log", "keep", "events") as address:
        at = ("--peer", address)
        for number, release in enumerate((first, second)):
            await release.run("log", "append", "events", json.dumps([number, TABLE]), *at)
        for release in (first, second):
            entries = await release.run("log", "read", "events", *at)
            _check("a log", [each["value"] for each in entries], [[0, TABLE], [1, TABLE]])


async def dump(first: Release, second: Release) -> None:
    """Take a store of one to the other by a file."""
    path = str(first.folder / f"by {len(list(first.folder.iterdir()))}.dump")
    async with first.serving("node", "--master", "table") as address:
        await first.run("store", "put", "table", "key", json.dumps(TABLE), "--peer", address)
        await first.run("store", "dump", "table", path, "--peer", address)
    async with second.serving("node", "--master", "table") as address:
        await second.run("store", "load", "table", path, "--peer", address)
        (entry,) = await second.run("store", "get", "table", "key", "--peer", address)
    _check("a dump", entry["value"], TABLE)


async def files(older: Release, newer: Release) -> None:
    """Open what the older one has left on disk with the newer one."""
    table, events = older.folder / "table.db", older.folder / "events.db"
    stored, kept = ("node", "--master", f"table:{table}"), ("log", "keep", "events", "--path")
    async with older.serving(*stored) as address:
        await older.run("store", "put", "table", "key", json.dumps(TABLE), "--peer", address)
    async with older.serving(*kept, str(events)) as address:
        await older.run("log", "append", "events", json.dumps(TABLE), "--peer", address)
    async with newer.serving(*stored) as address:
        (entry,) = await newer.run("store", "get", "table", "key", "--peer", address)
        _check("a store's file", entry["value"], TABLE)
    async with newer.serving(*kept, str(events)) as address:
        (entry,) = await newer.run("log", "read", "events", "--peer", address)
        _check("a log's file", entry["value"], TABLE)


async def refusal(first: Release, second: Release) -> None:
    """Peer two releases without a common version of the protocol: both ranges are named."""
    async with first.serving("node") as address:
        at = ("--peer", address)
        (told,) = await second.run("store", "keys", "table", *at, is_refused=True)
    for words in ("the dialling side speaks", "the accepting side"):
        if words not in told["message"]:
            raise Disagreement(f"{second.name} does not say why it is refused: {told}")


BOTH_WAYS: Final[tuple[Scenario, ...]] = (messages, store, log, dump)


def trials(
    older: Release, newer: Release, *, expects_refusal: bool = False
) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    """Give what is tried, with its name."""
    scenarios = (refusal,) if expects_refusal else BOTH_WAYS
    found: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        (f"{scenario.__name__}: {first.name} serves", partial(scenario, first, second))
        for scenario in scenarios
        for first, second in ((older, newer), (newer, older))
    ]
    if not expects_refusal:
        found.append(("files: of the older one", partial(files, older, newer)))
    return found


async def tried(scenario: Callable[[], Awaitable[None]]) -> str | None:
    """Run one; give why it failed, or ``None``."""
    reason = None
    try:
        with trio.fail_after(limit(SECONDS_MAX)):
            await scenario()
    except* (Disagreement, ProgramEnded, trio.TooSlowError, OSError) as errors:
        reason = "; ".join(f"{type(each).__name__}: {each}" for each in leaves(errors))
    return reason


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the errors of a group, however deep."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def this_checkout(folder: Path) -> Release:
    """Give what lies here as a release, with its files in ``folder``."""
    folder.mkdir()
    command = (sys.executable, "-m", "peermesh")
    return Release(
        "this checkout", command, folder, {**_environment(folder), "PYTHONPATH": str(ROOT)}
    )


def installed(old: str, folder: Path) -> Release:
    """Install a wheel, or what pip finds, into an environment of its own below ``folder``."""
    folder.mkdir()
    python = folder / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    path = Path(old)
    wanted = f"peermesh[cli] @ {path.resolve().as_uri()}" if path.suffix == ".whl" else old
    _run(*pip, wanted)
    command = (str(folder / "venv" / "bin" / "peermesh"),)
    return Release("the older one", command, folder, _environment(folder))


def build(folder: Path) -> str:
    """Build a wheel of this checkout."""
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return str(wheel)


def _environment(folder: Path) -> dict[str, str]:
    """Give the environment of a release: of this process's settings nothing, and one secret."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PEERMESH_") and name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    return {
        **kept,
        "PEERMESH_SECRET_FILE": str(folder.parent / "secret"),
        "PEERMESH_CONFIG_DIR": str(folder),
    }


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.stdout.write(done.stdout.decode(errors="replace"))
        raise SystemExit(f"failed: {' '.join(command)}")


def _check(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Disagreement(f"{what} is {found}, and not {expected}")


async def share_a_secret(release: Release) -> None:
    """Have a release make the secret of the mesh, which the other one reads."""
    await release.run("secret", "new", str(release.folder.parent / "secret"))


async def try_all(older: Release, newer: Release, *, expects_refusal: bool = False) -> int:
    """Try everything, and tell how it went; give how much failed."""
    await share_a_secret(older)
    failed = 0
    for name, scenario in trials(older, newer, expects_refusal=expects_refusal):
        began = time.monotonic()
        reason = await tried(scenario)
        failed += reason is not None
        print(f"{time.monotonic() - began:5.1f} s  {name}: {reason or 'agreed'}", flush=True)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; the code is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions", description=__doc__)
    parser.add_argument("--old", help="a wheel, or a requirement such as 'peermesh[cli]==1.2'")
    parser.add_argument(
        "--expects-refusal", action="store_true",
        help="the two have no common version of the protocol: they have to say so",
    )  # fmt: skip
    told = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="peermesh-versions-") as directory:
        folder = Path(directory)
        older = installed(told.old or build(folder), folder / "older")
        newer = this_checkout(folder / "newer")
        return int(bool(trio.run(partial(
            try_all, older, newer, expects_refusal=told.expects_refusal
        ))))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
