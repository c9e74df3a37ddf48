"""Bits that flip in a store's files: they are found, and what they made is never served."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from stores.actions import ClearCommand, EraseCommand, PutCommand, WriterId
from stores.commits import GroupCommit
from stores.disk.table import SQLiteBackend
from stores.outcomes import Applied, Outcome, WriterRow
from stores.persistence import Loaded
from stores.table import Table
from wire.errors import BackendFailure
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)
COMMITS = 12
FLIPS = 700

Make = Callable[[Path], SQLiteBackend]


def write(make_backend: Make, path: Path) -> tuple[SQLiteBackend, list[Loaded]]:
    """Fill a store; gives what it was after each commit."""
    backend = make_backend(path)
    loaded = backend.load(1)
    table = Table(loaded.columns)
    commits = GroupCommit(table)
    states = [loaded]
    chance = Random(1)
    table.apply(ClearCommand(WRITER, 1))
    for number in range(COMMITS):
        for _ in range(6):
            key, size = b"%d" % chance.randrange(40), chance.choice((0, 20, 300, 6_000))
            expiry = chance.choice((None, 10**18 + number))
            table.apply(PutCommand(WRITER, 1, expiry, [key, chance.randbytes(size)]))
        table.apply(EraseCommand(WRITER, 1, [b"%d" % chance.randrange(40)]))
        row = WriterRow(WRITER, number + 1, (Outcome(number + 1, number + 1, Applied(number)),))
        backend.commit(commits.start((row,), ()))
        commits.finish()
        states.append(Loaded(1, table.revision, table.columns.copy(), (row,)))
    return backend, states


def flipped(original: Path, copy: Path, offset: int, bit: int) -> None:
    content = bytearray(original.read_bytes())
    content[offset] ^= 1 << bit
    copy.write_bytes(content)


def loaded_from(make_backend: Make, path: Path) -> Loaded | None:
    """Load it; ``None`` if that is refused."""
    backend = make_backend(path)
    try:
        found = backend.load(1)
    except BackendFailure:
        return None
    finally:
        backend.close()
    return found


def is_same(one: Loaded, other: Loaded) -> bool:
    return (one.revision, one.columns, list(one.writers)) == (
        other.revision,
        other.columns,
        list(other.writers),
    )


def test_a_bit_that_flips_in_the_file_is_found_or_changes_nothing(
    tmp_path: Path, make_backend: Make
) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    backend, states = write(make_backend, path)
    backend.close()
    chance, size = Random(2), path.stat().st_size
    refused = 0
    for _ in range(FLIPS):
        offset, bit = chance.randrange(size), chance.randrange(8)
        flipped(path, copy, offset, bit)
        found = loaded_from(make_backend, copy)
        if found is None:
            refused += 1
        else:
            assert is_same(found, states[-1]), f"bit {bit} of byte {offset} was served"
        for suffix in ("-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
    assert refused > FLIPS / 3


def test_a_bit_that_flips_in_the_log_costs_the_last_commit_at_most(
    tmp_path: Path, make_backend: Make
) -> None:
    """Damage in the last commit of a log cannot be told from a power cut, and takes that back."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    backend, states = write(make_backend, path)
    crashed = tmp_path / "crashed.db"
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{crashed}{suffix}")
    backend.close()
    log = Path(f"{crashed}-wal")
    chance, size = Random(3), log.stat().st_size
    refused = 0
    for _ in range(FLIPS // 3):
        offset, bit = chance.randrange(size), chance.randrange(8)
        shutil.copy(crashed, copy)
        flipped(log, Path(f"{copy}-wal"), offset, bit)
        found = loaded_from(make_backend, copy)
        if found is None:
            refused += 1
        else:
            fits = [is_same(found, state) for state in states[-2:]]
            assert any(fits), f"bit {bit} of byte {offset} took back more"
        Path(f"{copy}-wal").unlink(missing_ok=True)
    assert refused > FLIPS / 6


@pytest.mark.parametrize("name", ["store", "writers", "meta"])
def test_a_refusal_says_what_to_do(tmp_path: Path, name: str) -> None:
    import sqlite3

    path = tmp_path / "store.db"
    write(SQLiteBackend, path)[0].close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {name} SET checksum = checksum + 1")
    connection.close()
    with pytest.raises(BackendFailure, match=r"damaged.*peermesh store promote"):
        SQLiteBackend(path).load(1)


def test_an_entry_that_is_missing_or_an_older_one_is_noticed(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "store.db"
    write(SQLiteBackend, path)[0].close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM store WHERE key = (SELECT min(key) FROM store)")
    connection.close()
    with pytest.raises(BackendFailure, match=r"of \d+ entries"):
        SQLiteBackend(path).load(1)
