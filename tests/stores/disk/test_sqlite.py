"""The file of a store: what it keeps, and what it says about files that are not its own."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from stores.actions import WriterId
from stores.disk import marks, sqlite
from stores.disk.replica import LoadedReplica
from stores.disk.table_rows import ROWS_PER_STATEMENT, SMALL_SIZE, ColumnRows
from stores.outcomes import Applied, Outcome, Refused, WriterRow
from stores.persistence import Changes, Rows
from stores.table import Columns, Entry
from tests.stores.disk.files import MakeStore, StoreFile
from wire.errors import BackendFailure, ErrorCode
from wire.identifiers import EndpointId, EntityId


def writer(number: int) -> WriterId:
    return WriterId.of(EntityId(EndpointId(number.to_bytes(16, "big")), 1), 2**64 - 1)


def entries(*given: tuple[bytes, bytes, int, int | None]) -> Rows:
    """Write rows as a person would: key, value, revision and expiry of each together."""
    return Rows(*zip(*given, strict=True)) if given else Rows()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def open_store(path, make_store):
    """Open the same file again and again, as replicas that follow one another do."""
    opened = []

    def open_again(**options) -> tuple[StoreFile, LoadedReplica]:
        while opened:
            opened.pop().close()
        opened.append(make_store(path, **options))
        return opened[0], opened[0].open()

    yield open_again
    while opened:
        opened.pop().close()


def test_a_new_file_is_an_empty_store(open_store):
    _, loaded = open_store()
    assert (loaded.revision, loaded.columns, loaded.writers) == (0, Columns(), ())
    assert loaded.entries == []


def test_what_is_committed_is_loaded(open_store):
    store, _ = open_store()
    outcomes = (
        Outcome(1, 5, Applied(1)),
        Outcome(6, 6, Refused(ErrorCode.TYPE_CLASH, "no")),
        Outcome(7, 7, Applied(5, answer=False)),
    )
    row = WriterRow(writer(1), 7, outcomes)
    rows = entries((b"a", b"1", 1, None), (b"b", b"", 2, 2**63 - 1))
    store.commit(Changes(2, rows=rows, writers=[row]))
    _, loaded = open_store()
    assert loaded.revision == 2
    assert loaded.columns.entry(b"a") == Entry(b"1", 1, None)
    assert loaded.columns.entry(b"b") == Entry(b"", 2, 2**63 - 1)
    assert list(loaded.writers) == [row]


def test_changes_replace_erase_and_clear(open_store):
    store, _ = open_store()
    store.commit(Changes(3, rows=entries((b"a", b"1", 1, 9), (b"b", b"2", 2, None))))
    store.commit(Changes(5, rows=entries((b"a", b"3", 4, None)), erased=[b"b", b"missing"]))
    store, loaded = open_store()
    assert loaded.columns.entry(b"a") == Entry(b"3", 4, None)
    assert list(loaded.columns) == [b"a"]
    store.commit(Changes(6, is_cleared=True, rows=entries((b"c", b"1", 6, None))))
    _, loaded = open_store()
    assert list(loaded.columns) == [b"c"]


def test_writers_are_loaded_the_least_recently_active_first(open_store):
    store, _ = open_store()
    rows = [WriterRow(writer(number), number, ()) for number in range(4)]
    store.commit(Changes(1, writers=rows))
    store, _ = open_store()
    store.commit(Changes(2, writers=[rows[0]], forgotten=[writer(2)]))
    _, loaded = open_store()
    assert [row.last_request for row in loaded.writers] == [1, 3, 0]


@pytest.mark.parametrize("value_size", [10, SMALL_SIZE + 1])
@pytest.mark.parametrize("expiry_ns", [None, 99])
@pytest.mark.parametrize("count", [ROWS_PER_STATEMENT - 1, 2 * ROWS_PER_STATEMENT + 1])
def test_many_rows_at_once_are_kept_as_a_few_are(open_store, count, expiry_ns, value_size):
    store, _ = open_store()
    rows = [(b"%d" % number, bytes(value_size), number, None) for number in range(1, count)]
    rows.append((b"last", b"\xff" * value_size, count, expiry_ns))
    store.commit(Changes(count, rows=entries(*rows)))
    found = open_store()[1].columns
    assert {(key, *astuple(found.entry(key))) for key in found} == set(rows)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(max_size=5), max_size=5),
            st.sets(st.binary(min_size=1, max_size=3), max_size=5),
        ),
        max_size=8,
    )
)
def test_the_file_agrees_with_a_table_in_memory(open_store, commits):
    store, _ = open_store()
    store.commit(Changes(0, is_cleared=True))
    expected = Columns()
    for revision, (is_cleared, kept, erased) in enumerate(commits, start=1):
        erased = sorted(erased - kept.keys())
        rows = entries(*((key, value, revision, None) for key, value in kept.items()))
        store.commit(Changes(revision, is_cleared=is_cleared, rows=rows, erased=erased))
        expected = Columns() if is_cleared else expected
        for key, value in kept.items():
            expected.set(key, Entry(value, revision, None))
        for key in erased:
            expected.discard(key)
    assert open_store()[1].columns == expected


def test_what_a_killed_master_left_in_the_log_is_in_the_file_once_it_is_loaded(
    open_store, make_store, path, tmp_path
):
    # A sync that failed leaves a log that only memory holds. Nothing durable may rest on it.
    store, _ = open_store()
    store.commit(Changes(1, rows=entries((b"k", b"v", 1, None))))
    log = path.with_name("store.db-wal")
    copy, copied_log = tmp_path / "copy.db", tmp_path / "copy.db-wal"
    copy.write_bytes(path.read_bytes())
    copied_log.write_bytes(log.read_bytes())
    after = make_store(copy)
    loaded = after.open()
    assert copied_log.stat().st_size == 0
    assert (loaded.revision, loaded.columns.values) == (1, {b"k": b"v"})
    after.close()


def test_the_file_is_marked_as_ours_and_journaled_ahead(open_store, request):
    store, _ = open_store()
    connection = store.file.connection
    pragmas = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "journal_mode", "synchronous", "locking_mode")
    }
    assert pragmas == {
        "application_id": marks.SEALED_STORE if "sealed" in request.node.name else marks.STORE,
        "journal_mode": "wal",
        "synchronous": 2,
        "locking_mode": "exclusive",
    }


@pytest.mark.parametrize(
    ("synchronous", "number"), [("OFF", 0), ("NORMAL", 1), ("FULL", 2), ("EXTRA", 3)]
)
def test_synchronous_can_be_chosen(open_store, synchronous, number):
    store, _ = open_store(synchronous=synchronous)
    assert store.file.connection.execute("PRAGMA synchronous").fetchone()[0] == number


# -- what can go wrong ---------------------------------------------------------------------------


def refusal(path, make: MakeStore = StoreFile, **options) -> str:
    store = make(path, **options)
    with pytest.raises(BackendFailure) as caught:
        store.open()
    store.close()
    return str(caught.value)


def test_a_path_is_required():
    with pytest.raises(BackendFailure, match="path"):
        StoreFile("")


def test_a_file_in_use_is_refused(open_store, path):
    open_store()
    assert "belongs to one replica at a time" in refusal(path)


def test_what_keeps_a_file_from_being_opened_is_named(path):
    folder = path.parent / "none"
    assert f"No such file or directory: {folder}" in refusal(folder / "s.db")
    path.mkdir()
    assert "what is there under this name is a file" in refusal(path)


def test_a_file_system_that_is_mounted_to_be_read_is_named(open_store, path, monkeypatch):
    store, _ = open_store()
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR"
    for flags, said in ((os.ST_RDONLY, "is mounted read-only"), (0, "when the cause is removed")):
        found = SimpleNamespace(f_flag=flags)
        monkeypatch.setattr(os, "statvfs", lambda _, found=found: found)
        with pytest.raises(BackendFailure, match=said), store.file.failures_explained():
            raise error


def test_a_file_of_another_kind_is_refused_and_left_alone(path):
    path.write_text("Dear diary, " * 1000)
    assert "no SQLite file" in refusal(path)
    assert path.read_text() == "Dear diary, " * 1000


def test_a_database_of_another_program_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE diary (entry TEXT)")
    connection.close()
    assert "another program" in refusal(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM diary").fetchone() == (0,)
    connection.close()


def test_a_file_of_a_later_version_is_refused(open_store, make_store, path):
    store, _ = open_store()
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "format 99" in refusal(path, make_store)


def test_a_directory_that_does_not_exist_is_named(tmp_path):
    path = tmp_path / "missing" / "store.db"
    message = refusal(path)
    assert str(path) in message
    assert "directory" in message


def test_a_damaged_file_is_refused(open_store, make_store, path):
    store, _ = open_store()
    rows = entries(*((b"%06d" % number, b"x" * 100, number, None) for number in range(5000)))
    store.commit(Changes(5000, rows=rows))
    store.close()
    data = bytearray(path.read_bytes())
    for position in range(3 * 4096, len(data), 4096):
        data[position : position + 64] = b"\xff" * 64
    path.write_bytes(data)
    assert "restore a copy" in refusal(path, make_store)
    assert "restore a copy" in refusal(path, make_store, is_integrity_checked=True)


def test_damage_that_reading_does_not_meet_is_found_by_the_integrity_check(
    open_store, make_store, path
):
    store, _ = open_store()
    rows = entries(*((b"%06d" % number, b"x" * 100, number, None) for number in range(5000)))
    store.commit(Changes(5000, rows=rows))
    store.commit(Changes(5001, erased=rows.keys[100:]))
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'writers'")
    connection.execute(
        "INSERT INTO sqlite_schema SELECT 'table', 'writers', 'writers', 0,"
        " 'CREATE TABLE writers (writer BLOB, request INTEGER, seen INTEGER, outcomes BLOB)'"
    )
    connection.commit()
    connection.close()
    assert "store.db" in refusal(path, make_store, is_integrity_checked=True)


def test_a_commit_to_a_closed_file_is_an_error_that_says_so(open_store):
    store, _ = open_store()
    store.close()
    store.close()
    with pytest.raises(BackendFailure, match="is closed"):
        store.commit(Changes(1))


def fill_disk(connection):
    connection.execute("PRAGMA max_page_count = 10")  # after which SQLite undoes all by itself


def refuse_large(connection):
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)  # which undoes nothing


@pytest.mark.parametrize(
    ("harm", "reason"), [(fill_disk, "the disk is full"), (refuse_large, "too big")]
)
def test_a_commit_that_fails_keeps_nothing_of_it(open_store, harm, reason):
    store, _ = open_store()
    harm(store.file.connection)
    rows = entries((b"a", b"1", 1, None), (b"b", bytes(100_000), 2, None))
    with pytest.raises(BackendFailure, match=reason):
        store.commit(Changes(2, rows=rows))
    _, loaded = open_store()
    assert loaded.revision == 0
    assert len(loaded.columns) == 0


def test_the_file_may_be_used_from_another_thread(open_store):
    with ThreadPoolExecutor(1) as pool:
        store, _ = pool.submit(open_store).result()
    store.commit(Changes(1, rows=entries((b"a", b"1", 1, None))))
    assert len(open_store()[1].columns) == 1


def test_a_store_that_was_loaded_knows_how_many_bytes_it_has(open_store):
    store, _ = open_store()
    store.commit(Changes(2, rows=Rows((b"k", b"key"), (b"v", b"value"), (1, 2))))
    assert open_store()[1].columns.size == len(b"kvkeyvalue")


@pytest.mark.parametrize("step", [100, 10_000])
def test_a_file_of_which_much_was_erased_becomes_smaller(path, monkeypatch, step):
    monkeypatch.setattr(sqlite, "FREE_PAGES_MAX", 100)
    monkeypatch.setattr(sqlite, "GIVEN_BACK_PAGES", step)
    with closing(sqlite.SQLiteFile(path, ColumnRows.layout)) as file:
        with file.loading():
            pass
        with file.committing() as connection:
            row = "INSERT INTO store VALUES (?, zeroblob(40000), 0, NULL, 0)"
            connection.executemany(row, [(bytes([number]),) for number in range(200)])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        large = path.stat().st_size
        assert large > 200 * 40_000
        sizes = []
        for key in (b"\xff", b"", b"", b""):
            with file.committing() as connection:
                connection.execute("DELETE FROM store WHERE key <= ?", (key,))
            sizes.append(path.stat().st_size)
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < sizes[0] if step == 100 else sizes[0] < large // 4
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_of_an_earlier_release_keeps_its_size(path, monkeypatch):
    monkeypatch.setattr(sqlite, "FREE_PAGES_MAX", 0)
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA auto_vacuum = NONE")
        plain.execute("CREATE TABLE before (a)")
        plain.execute("DROP TABLE before")
    with closing(sqlite.SQLiteFile(path, ColumnRows.layout)) as file:
        with file.loading():
            pass
        for statement in ("INSERT INTO store VALUES (x'00', zeroblob(400000), 0, NULL, 0)",
                          "DELETE FROM store"):  # fmt: skip
            with file.committing() as connection:
                connection.execute(statement)
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] > 90
