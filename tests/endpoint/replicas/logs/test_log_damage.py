"""Files of logs that are damaged: nothing of them is served, and what to do is said."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from peermesh import Backend, Endpoint
from peermesh.errors import BackendFailure, ReplicaRegressed
from stores.disk.ballot import SUFFIX
from stores.sealing import StorageKey

COUNT = 20
KEY = StorageKey(bytes(range(32))).text()

WRITE = """
import os, sys
from peermesh import Backend
from peermesh.blocking import Endpoint

endpoint = Endpoint()
options = {"keys": sys.argv[2]} if len(sys.argv) > 2 else {}
log = endpoint.attach_log("l", (), 1, Backend.SQLite, path=sys.argv[1], **options).__enter__()
for number in range(20):
    log.append(f"entry {number}", producer="p", sequence=number + 1).result(timeout=60)
print("acknowledged", flush=True)
sys.stdin.readline()
"""
"""Appends, and waits to be killed."""

OPEN = """
import sys, trio
from peermesh import Backend, Endpoint
from peermesh.errors import BackendFailure

async def main():
    async with Endpoint() as endpoint:
        options = {"keys": sys.argv[2]} if len(sys.argv) > 2 else {}
        attaching = endpoint.attach_log("l", (), 1, Backend.SQLite, path=sys.argv[1], **options)
        try:
            async with attaching as log:
                print("opened", await log.offsets())
        except BackendFailure as error:
            print("refused", error)

trio.run(main)
"""

pytestmark = pytest.mark.parametrize("keys", [None, KEY], ids=["plain", "sealed"])


def options_of(keys: str | None) -> dict[str, str]:
    return {} if keys is None else {"keys": keys}


async def write(path: Path, keys: str | None, count: int = COUNT) -> None:
    async with (
        Endpoint() as endpoint,
        endpoint.attach_log("l", (), 1, Backend.SQLite, path=path, **options_of(keys)) as log,
    ):
        for number in range(count):
            receipt = await log.append(f"pay alice {number}", producer="p", sequence=number + 1)
            await receipt.applied()


async def read(path: Path, keys: str | None, *, fresh: bool = False) -> list[object]:
    """Give all values; raises ``BackendFailure``."""
    async with (
        Endpoint() as endpoint,
        endpoint.attach_log(
            "l", (), 1, Backend.SQLite, fresh=fresh, path=path, **options_of(keys)
        ) as log,
    ):
        found: list[object] = []
        while len(found) < COUNT:
            found += [entry.value for entry in await log.read(0, len(found), 1_000)]
        return found


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_flipped_bit_is_never_served(tmp_path: Path, keys: str | None) -> None:
    path = tmp_path / "l.db"
    await write(path, keys)
    with closing(sqlite3.connect(path)) as connection:
        (body,) = connection.execute("SELECT body FROM runs WHERE id = 5").fetchone()
    flip(path, path.read_bytes().index(body) + len(body) // 2)
    with pytest.raises(BackendFailure, match=r"table runs: partition 0, offset 5.*restore a copy"):
        await read(path, keys)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE runs SET body = zeroblob(length(body)) WHERE id = 5",
        "DELETE FROM runs WHERE id = 5",
        "DELETE FROM runs WHERE id = 0",
        f"DELETE FROM runs WHERE id = {COUNT - 1}",
        "UPDATE runs SET count = 2 WHERE id = 5",
        "UPDATE runs SET timestamp = timestamp + 1 WHERE id = 5",
    ],
)
async def test_a_run_that_is_missing_or_altered_is_noticed(
    tmp_path: Path, keys: str | None, harm: str
) -> None:
    path = tmp_path / "l.db"
    await write(path, keys)
    edit(path, harm)
    async with Endpoint() as endpoint:
        with pytest.raises(
            BackendFailure, match=r"l\.db is damaged \(table runs: .*restore a copy"
        ):
            await endpoint.attach_log("l", (), 1, Backend.SQLite, path=path, **options_of(keys))


async def test_a_run_that_was_added_is_noticed(tmp_path: Path, keys: str | None) -> None:
    path = tmp_path / "l.db"
    await write(path, keys)
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    others = ", ".join(name for name in columns if name != "id")
    edit(path, f"INSERT INTO runs SELECT {COUNT}, {others} FROM runs WHERE id = {COUNT - 1}")
    with pytest.raises(BackendFailure, match="is damaged"):
        await read(path, keys)


def test_what_is_damaged_is_noticed_without_assertions_too(
    tmp_path: Path, keys: str | None
) -> None:
    path = tmp_path / "l.db"
    for offset in (5, COUNT - 1):
        for file in tmp_path.glob("l.db*"):
            file.unlink()
        kill_writer(path, keys)
        edit(path, f"DELETE FROM runs WHERE id = {offset}")
        done = subprocess.run(
            [sys.executable, "-O", "-c", OPEN, str(path), *options_of(keys).values()],
            capture_output=True,
            check=True,
            text=True,
        )
        assert "refused" in done.stdout
        assert "table runs" in done.stdout


def kill_writer(path: Path, keys: str | None) -> None:
    """Have another process append, and kill it; its log is left as it is."""
    command = [sys.executable, "-c", WRITE, str(path), *(() if keys is None else (keys,))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "acknowledged\n"
        process.kill()


def size_of(path: str) -> int:
    return os.path.getsize(path)


def flip(path: str | Path, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 8]))


@pytest.fixture
def killed(tmp_path: Path) -> Callable[[str | None], Path]:
    def kill(keys: str | None) -> Path:
        path = tmp_path / "killed.db"
        kill_writer(path, keys)
        assert size_of(f"{path}-wal") > 100_000
        return path

    return kill


async def test_a_damaged_write_ahead_log_is_refused(
    killed: Callable[[str | None], Path], keys: str | None
) -> None:
    path = killed(keys)
    flip(f"{path}-wal", size_of(f"{path}-wal") // 2)
    with pytest.raises(BackendFailure, match=r"damaged \(its log .*killed\.db-wal, after frame"):
        await read(path, keys)


async def test_what_a_killed_keeper_left_in_the_log_is_in_the_file_once_it_is_loaded(
    killed: Callable[[str | None], Path], keys: str | None, tmp_path: Path
) -> None:
    # A sync that failed leaves a log that only memory holds. Nothing durable may rest on it.
    path, copy = killed(keys), tmp_path / "copy.db"
    async with (
        Endpoint() as endpoint,
        endpoint.attach_log("l", (), 1, Backend.SQLite, path=path, **options_of(keys)),
    ):
        # What is in the log now was written since: that this keeper leads.
        assert size_of(f"{path}-wal") < 50_000
        shutil.copy(path, copy)
        shutil.copy(f"{path}{SUFFIX}", f"{copy}{SUFFIX}")
    with pytest.raises(ReplicaRegressed):
        await read(copy, keys)
    expected = [f"entry {number}" for number in range(COUNT)]
    assert await read(copy, keys, fresh=True) == expected
