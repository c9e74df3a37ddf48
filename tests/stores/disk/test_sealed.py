"""Encrypted files: what somebody who has one, and may write to it, neither learns nor achieves."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stores.actions import WriterId
from stores.disk.lazy_rows import Books, Checkpoint
from stores.disk.log_replica import SQLiteLogReplica
from stores.disk.replica import LoadedReplica
from stores.group.clock import Times
from stores.group.effects import Persist
from stores.group.entries import ActionEntry
from stores.group.positions import Position
from stores.log.bodies import Begun, Performed
from stores.log.machine import LogMachine
from stores.log.runs import Run
from stores.outcomes import Applied, Outcome, WriterRow
from stores.persistence import Changes, Rows
from stores.sealing import StorageKey, StorageKeys
from stores.table.bodies import Registered
from tests.stores.disk.files import FOUNDING, GROUP, MEMBER, StoreFile, sealed_log, sealed_store
from wire.errors import BackendFailure
from wire.identifiers import EndpointId, EntityId

OTHER = StorageKey(b"o" * 32)
WRITER = WriterId.of(EntityId(EndpointId(b"whoever-wrote-it"), 1), 1)
KEY, VALUE, CONSUMER = b"a key to look for", b"a value to look for", "a consumer to look for"


def put(
    path: Path, keys: StorageKeys, *changes: Changes, name: str | None = "cities"
) -> LoadedReplica:
    """Open a store, commit, and close; gives what was there before."""
    with closing(sealed_store(path, keys, name=name)) as backend:
        loaded = backend.open()
        for each in changes:
            backend.commit(each)
    return loaded


def entry(key: bytes, value: bytes, revision: int) -> Changes:
    return Changes(revision, rows=Rows([key], [value], [revision]))


def content(loaded: LoadedReplica) -> dict[bytes, bytes]:
    return loaded.columns.values


def copies(path: Path) -> bytes:
    """Read all that is on the disk of a store."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# -- what a file shows ---------------------------------------------------------------------------


def test_no_key_no_value_and_no_writer_is_in_the_file_or_its_log(path, keys):
    row = WriterRow(WRITER, 1, ())
    with closing(sealed_store(path, keys, name="cities")) as backend:
        backend.open()
        backend.commit(Changes(1, rows=Rows([KEY], [VALUE], [1]), writers=[row]))
        open_copy = copies(path)
    for seen in (open_copy, copies(path)):
        assert len(seen) > 10_000
        for hidden in (KEY, VALUE, bytes(WRITER)[:16], b"cities", keys.current.key):
            assert hidden not in seen


BEGUN = ActionEntry(1, Begun(1, Registered(WRITER, 0, None)))


def appended(term: int, first: int, body: bytes, **fields: Any) -> ActionEntry:
    """Give the entry of an append of two, from an offset on."""
    outcome = Outcome(first + 1, first + 2, Applied(first))
    run = Run(0, first, 2, 50 + first, body)
    return ActionEntry(term, Performed(WRITER, first, (outcome,), (run,), first, **fields))


def write(backend: SQLiteLogReplica, keep: int, *entries: ActionEntry) -> None:
    """Put entries behind those that stay, and have the file be of the state with all of them."""
    backend.persist(Persist(1, None, keep, entries))
    machine, before = LogMachine(), (BEGUN, appended(1, 0, b"first"))[:keep]
    for index, entry in enumerate((*before, *entries), 1):
        machine.apply(Position(entry.term, index), entry.body)
    if keep or len(entries) == 2:
        at = machine.position
        point = Checkpoint(at, Times(9, 9), at, (MEMBER,))
        backend.checkpoint(Books(point, machine.beside_rows(), (0,)))


def test_no_entry_and_no_name_of_a_log_is_in_its_file(path, keys):
    with closing(sealed_log(path, keys, name="cities")) as backend:
        backend.load(FOUNDING)
        backend.join(GROUP)
        write(backend, 0, BEGUN, appended(1, 0, VALUE, moved=((CONSUMER, ((0, 0),)),)))
        seen = copies(path)
    for hidden in (VALUE, CONSUMER.encode(), b"cities", keys.current.key):
        assert hidden not in seen


def test_equal_values_are_not_equal_in_the_file(path, keys):
    put(path, keys, entry(b"a", VALUE, 1), entry(b"b", VALUE, 2))
    with closing(sqlite3.connect(path)) as connection:
        one, other = (row[0] for row in connection.execute("SELECT body FROM entries"))
    assert len(one) == len(other)
    assert one[16:] != other[16:], "after session and nonce"


# -- keys that do not fit ------------------------------------------------------------------------


def refusal(backend: StoreFile | SQLiteLogReplica) -> str:
    is_store = isinstance(backend, StoreFile)
    with closing(backend), pytest.raises(BackendFailure) as caught:
        backend.open() if is_store else backend.load(FOUNDING)
    return str(caught.value)


def new_log(path: Path, keys: StorageKeys | None) -> None:
    backend = SQLiteLogReplica(path) if keys is None else sealed_log(path, keys, name="log")
    with closing(backend):
        backend.load(FOUNDING)


def test_an_encrypted_file_without_its_key_is_refused_and_unharmed(path, tmp_path, keys):
    put(path, keys, entry(KEY, VALUE, 1))
    log = tmp_path / "log.db"
    new_log(log, keys)
    before = copies(path)
    for text in (refusal(StoreFile(path)), refusal(SQLiteLogReplica(log))):
        assert "is encrypted, and there is no key: give the option key_file=FILE" in text
    wrong = StorageKeys((OTHER,))
    for text in (refusal(sealed_store(path, wrong)), refusal(sealed_log(log, wrong))):
        assert f"encrypted with key {keys.current.fingerprint.hex()}" in text
        assert OTHER.fingerprint.hex() in text
    assert copies(path) == before
    assert content(put(path, keys)) == {KEY: VALUE}


def test_a_plain_file_with_a_key_is_refused_and_unharmed(path, tmp_path, keys):
    with closing(StoreFile(path)) as backend:
        backend.open()
        backend.commit(entry(KEY, VALUE, 1))
    log = tmp_path / "log.db"
    new_log(log, None)
    for text in (refusal(sealed_store(path, keys)), refusal(sealed_log(log, keys))):
        assert "is not encrypted, and there is a key" in text
        assert "peermesh store rekey" in text
    with closing(StoreFile(path)) as backend:
        assert content(backend.open()) == {KEY: VALUE}


def test_the_file_of_another_store_is_refused(path, tmp_path, keys):
    put(path, keys, entry(KEY, VALUE, 1))
    text = refusal(sealed_store(path, keys, name="villages"))
    assert "belongs to cities, not to villages" in text
    log = tmp_path / "log.db"
    new_log(log, keys)
    assert "belongs to log, not to other" in refusal(sealed_log(log, keys, name="other"))
    assert content(put(path, keys)) == {KEY: VALUE}


def test_an_old_key_is_read_and_the_new_one_writes(path, keys):
    put(path, keys, entry(b"old", VALUE, 1))
    ring = StorageKeys((OTHER, *keys.keys))
    assert content(put(path, ring, entry(b"new", VALUE, 2))) == {b"old": VALUE}
    assert content(put(path, ring)) == {b"old": VALUE, b"new": VALUE}
    fingerprints = set()
    with closing(sqlite3.connect(path)) as connection:
        for (row,) in connection.execute("SELECT fingerprint FROM sessions"):
            fingerprints.add(row)
    assert fingerprints == {OTHER.fingerprint, keys.current.fingerprint}
    assert "not among those given" in refusal(sealed_store(path, StorageKeys((OTHER,))))


# -- what somebody puts there --------------------------------------------------------------------


SWAP = (
    "CREATE TEMP TABLE two AS SELECT * FROM entries WHERE number <= 2",
    "UPDATE entries SET body = (SELECT body FROM two WHERE number = 3 - entries.number)"
    " WHERE number <= 2",
)


@pytest.mark.parametrize(
    "statements",
    [
        SWAP,
        ("UPDATE entries SET number = 9 WHERE number = 1",),
        ("DELETE FROM entries WHERE number = 1",),
        ("INSERT INTO entries SELECT 9, body FROM entries WHERE number = 1",),
        ("DELETE FROM entries",),
        ("UPDATE entries SET body = 'text' WHERE number = 1",),
        ("UPDATE entries SET body = x'' WHERE number = 1",),
        ("UPDATE sessions SET salt = zeroblob(32)",),
        ("DELETE FROM sessions",),
        ("UPDATE head SET file = zeroblob(16)",),
        ("UPDATE head SET body = zeroblob(100)",),
        ("DELETE FROM head",),
    ],
    ids=lambda statements: statements[-1][:40],
)
def test_rows_that_are_moved_copied_or_removed_are_noticed(path, keys, statements):
    put(path, keys, entry(b"a", b"1", 1), entry(b"b", b"2", 2), entry(b"c", b"3", 3))
    edit(path, *statements)
    assert "damaged" in refusal(sealed_store(path, keys))


def test_a_row_put_back_to_an_earlier_version_is_noticed_though_revisions_add_up(path, keys):
    """Of a at 1 and 3, and b at 2 and 4, the sums of 1 + 4 and 3 + 2 are the same."""
    put(path, keys, entry(b"a", b"1", 1), entry(b"b", b"2", 2))
    put(path, keys, entry(b"a", b"3", 3))
    middle = path.with_name("middle.db")
    shutil.copy(path, middle)
    early = path.with_name("early.db")
    shutil.copy(path, early)
    put(path, keys, entry(b"b", b"4", 4))
    edit(
        middle,
        f"ATTACH '{path}' AS late",
        "INSERT OR IGNORE INTO sessions SELECT * FROM late.sessions",
        "UPDATE entries SET body = (SELECT body FROM late.entries WHERE number = 2)"
        " WHERE number = 2",
    )
    assert "not all as last written" in refusal(sealed_store(middle, keys))
    assert content(put(early, keys)) == {b"a": b"3", b"b": b"2"}, "a whole file may be put back"


def test_a_row_of_another_file_is_noticed_though_its_session_comes_with_it(path, tmp_path, keys):
    other = tmp_path / "other.db"
    for file, value in ((path, b"mine"), (other, b"theirs")):
        put(file, keys, entry(b"k", value, 1))
    edit(
        path,
        f"ATTACH '{other}' AS other",
        "REPLACE INTO sessions SELECT * FROM other.sessions",
        "REPLACE INTO entries SELECT * FROM other.entries",
        "UPDATE head SET body = (SELECT body FROM other.head)",
    )
    assert "damaged" in refusal(sealed_store(path, keys))


@pytest.fixture
def log(tmp_path: Path, keys: StorageKeys) -> Path:
    """Keep a log of two runs, the second of which was something else before it was cut off."""
    path = tmp_path / "log.db"
    with closing(sealed_log(path, keys, name="log")) as backend:
        backend.load(FOUNDING)
        backend.join(GROUP)
        write(backend, 0, BEGUN, appended(1, 0, b"first"), appended(1, 2, b"then"))
    shutil.copy(path, tmp_path / "before.db")
    with closing(sealed_log(path, keys, name="log")) as backend:
        backend.load(FOUNDING)
        write(backend, 2, appended(2, 2, b"last"))
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM runs WHERE id = 0",
        "DELETE FROM runs WHERE id = 2",
        "UPDATE runs SET count = 3 WHERE id = 2",
        "UPDATE runs SET id = 3 WHERE id = 2",
        "UPDATE runs SET timestamp = 7 WHERE id = 2",
        "DELETE FROM books WHERE number = (SELECT max(number) FROM books)",
    ],
)
def test_a_log_with_a_hole_is_refused(log, keys, statement):
    edit(log, statement)
    assert "damaged" in refusal(sealed_log(log, keys))


@pytest.mark.parametrize(
    "statements",
    [
        ("UPDATE runs SET body = (SELECT body FROM runs WHERE id = 0)",),
        (
            "ATTACH '{before}' AS before",
            "INSERT OR IGNORE INTO sessions SELECT * FROM before.sessions",
            "UPDATE runs SET body = (SELECT body FROM before.runs WHERE id = 2) WHERE id = 2",
        ),
    ],
    ids=["another run", "a run of before"],
)
def test_entries_that_were_altered_are_never_read(log, keys, statements):
    edit(log, *(text.format(before=log.with_name("before.db")) for text in statements))
    with closing(sealed_log(log, keys, name="log")) as backend:
        machine = LogMachine()
        machine.install(backend.load(FOUNDING).parts)
        places = [run.place for run in machine.gather([(0, 0)], 1_000)]
        assert [run.body for run in backend.read(places)] == [b"first"]
        with pytest.raises(BackendFailure, match="damaged"):
            backend.read(places[1:])


def test_a_session_that_is_spent_is_followed_by_another_one(path, keys, monkeypatch):
    monkeypatch.setattr("stores.sealing.SESSION_RECORDS_MAX", 3)
    put(path, keys, *(entry(b"%d" % number, VALUE, number) for number in range(1, 9)))
    assert len(content(put(path, keys))) == 8
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    assert count > 4
