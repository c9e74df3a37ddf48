"""Bits that flip in a file: they are found, and what they made is never served."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.stores.disk.kinds import Kind
from tests.stores.disk.log_replicas import LogReplicaKind
from wire.errors import BackendFailure

COMMITS = 12
FLIPS = 350


def write(kind: Kind, path: Path, crashed: Path | None = None) -> list[object]:
    """Fill a file; gives what was in it after each commit. Copies it before it is closed."""
    backend = kind.make(path)
    states = [kind.load(backend)]
    for changes, state in kind.commits(COMMITS):
        backend.commit(changes)
        states.append(state)
    for suffix in ("", "-wal") if crashed else ():
        shutil.copy(f"{path}{suffix}", f"{crashed}{suffix}")
    backend.close()
    return states


def flipped(original: Path, copy: Path, offset: int, bit: int) -> None:
    content = bytearray(original.read_bytes())
    content[offset] ^= 1 << bit
    copy.write_bytes(content)


def loaded_from(kind: Kind, path: Path) -> object:
    """Load and read it; ``None`` if that is refused."""
    backend = kind.make(path)
    try:
        return kind.load(backend)
    except BackendFailure:
        return None
    finally:
        backend.close()


def test_a_bit_that_flips_in_the_file_is_found_or_changes_nothing(
    tmp_path: Path, kind: Kind
) -> None:
    path, copy = tmp_path / "file.db", tmp_path / "copy.db"
    states = write(kind, path)
    chance, size = Random(2), path.stat().st_size
    refused = 0
    for _ in range(FLIPS):
        offset, bit = chance.randrange(size), chance.randrange(8)
        flipped(path, copy, offset, bit)
        found = loaded_from(kind, copy)
        if found is None:
            refused += 1
        else:
            assert kind.is_right(found, states[-1]), f"bit {bit} of byte {offset} was served"
        for suffix in ("-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
    assert refused > FLIPS / 3


def test_a_bit_that_flips_in_the_log_costs_the_last_commit_at_most(
    tmp_path: Path, kind: Kind
) -> None:
    """Damage in the last commit of a log cannot be told from a power cut, and takes that back."""
    path, crashed, copy = (tmp_path / f"{name}.db" for name in ("file", "crashed", "copy"))
    states = write(kind, path, crashed)
    log = Path(f"{crashed}-wal")
    chance, size = Random(3), log.stat().st_size
    refused = 0
    for _ in range(FLIPS // 3):
        offset, bit = chance.randrange(size), chance.randrange(8)
        shutil.copy(crashed, copy)
        flipped(log, Path(f"{copy}-wal"), offset, bit)
        found = loaded_from(kind, copy)
        if found is None:
            refused += 1
        else:
            assert found in states[-2:], f"bit {bit} of byte {offset} took back more"
        Path(f"{copy}-wal").unlink(missing_ok=True)
    assert refused > FLIPS / 6


FRAME_SIZE = 24 + 4_096
"""Of a page and its head, in a log."""


@pytest.mark.parametrize("name", ["copy.db", "link.db"])
def test_a_damaged_log_stays_as_it_is_however_often_it_is_refused(
    tmp_path: Path, kind: Kind, name: str
) -> None:
    path, copy = tmp_path / "file.db", tmp_path / "copy.db"
    write(kind, path, copy)
    (tmp_path / "link.db").symlink_to(copy)
    log = Path(f"{copy}-wal")
    flipped(log, log, 32 + FRAME_SIZE + 100, 3)
    content = log.read_bytes()
    for _ in range(2):
        assert "is damaged (its log copy.db-wal, after frame " in refusal(kind, tmp_path / name)
        assert log.read_bytes() == content
    assert not list(tmp_path.glob("*.kept"))
    os.replace(log, f"{copy}-wal.kept")  # The process was killed as it closed the file.
    assert "is damaged (its log copy.db-wal" in refusal(kind, tmp_path / name)
    assert log.read_bytes() == content


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_a_log_without_its_file_is_kept_until_that_is_there_again(
    tmp_path: Path, kind: Kind, what: str
) -> None:
    path, copy, aside = tmp_path / "file.db", tmp_path / "copy.db", tmp_path / "aside.db"
    states = write(kind, path, copy)
    log = Path(f"{copy}-wal")
    content = log.read_bytes()
    copy.rename(aside)
    if what == "empty":
        copy.touch()
    for _ in range(2):
        assert f"{copy} is {what}, and its log {log} is there" in refusal(kind, copy)
        assert log.read_bytes() == content
        assert copy.exists() is (what == "empty")
    aside.rename(copy)
    assert loaded_from(kind, copy) == states[-1]


def test_a_log_that_has_begun_anew_is_not_damaged(tmp_path: Path, kind: Kind) -> None:
    """SQLite writes the header, and waits for the disk, before the first frame replaces another."""
    path, crashed = tmp_path / "file.db", tmp_path / "crashed.db"
    states = write(kind, path, crashed)
    old = Path(f"{crashed}-wal").read_bytes()
    log = Path(f"{path}-wal")
    log.write_bytes(log_header(old[:12], salt=77) + old[32:])
    assert loaded_from(kind, path) == states[-1]


def log_header(begin: bytes, salt: int) -> bytes:
    """Make the header of a log's next life."""
    header = begin + struct.pack(">3I", 2, salt, 78)
    words = struct.unpack(">6I" if begin[3] & 1 else "<6I", header)
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return header + struct.pack(">2I", first, second)


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def refusal(kind: Kind, path: Path) -> str:
    backend = kind.make(path)
    with closing(backend), pytest.raises(BackendFailure) as refused:
        kind.load(backend)
    return str(refused.value)


def test_a_refusal_names_the_file_and_the_table_and_says_what_to_do(
    tmp_path: Path, kind: Kind
) -> None:
    path, copy = tmp_path / "file.db", tmp_path / "copy.db"
    write(kind, path)
    for table in kind.tables:
        shutil.copy(path, copy)
        columns = ("store", "writers", "meta") if kind.tables[-1] == "meta" else ()
        column = "checksum" if table in columns else "body"
        value = "checksum + 1" if column == "checksum" else "zeroblob(length(body))"
        edit(copy, f"UPDATE {table} SET {column} = {value}")
        told = refusal(kind, copy)
        assert f"{copy} is damaged (table {table}" in told
        assert f"do not use it. {kind.remedy}" in told


@pytest.mark.parametrize("position", ["min", "max"])
def test_a_row_that_is_missing_is_noticed(tmp_path: Path, kind: Kind, position: str) -> None:
    path, copy = tmp_path / "file.db", tmp_path / "copy.db"
    write(kind, path)
    # What a journal lacks at its end shows in the ballot: see ``test_replica_regression``.
    counted = [table for table in kind.tables if table not in ("meta", "head", "journal")]
    if kind.tables[-1] == "meta":
        counted.remove("writers")  # its file has no count of them
    for table in counted:
        shutil.copy(path, copy)
        key = "key" if table == "store" else "id" if table == "runs" else "number"
        edit(copy, f"DELETE FROM {table} WHERE {key} = (SELECT {position}({key}) FROM {table})")
        assert f"is damaged (table {table}" in refusal(kind, copy)


def test_a_run_of_a_partition_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    path, kind = tmp_path / "file.db", LogReplicaKind(None)
    write(kind, path)
    edit(path, "UPDATE runs SET id = id + (7 << 52) WHERE id = (SELECT max(id) FROM runs)")
    assert "is damaged (table runs" in refusal(kind, path)
