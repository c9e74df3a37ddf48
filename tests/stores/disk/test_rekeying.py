"""Files under another key: in small steps, each of which stays done whatever comes between."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stores.actions import PutCommand, WriterId
from stores.disk import marks
from stores.disk.ballot import SUFFIX as BALLOT, BallotFile, LoadedBallot
from stores.disk.medium import PrivateMedium
from stores.disk.rekeying import SUFFIX, rekey
from stores.disk.replica import VERSION, LoadedReplica
from stores.disk.sqlite import SQLiteFile
from stores.group.effects import Persist, Promises
from stores.group.entries import ActionEntry
from stores.group.positions import Position
from stores.outcomes import Applied, Outcome, WriterRow
from stores.persistence import Changes, Rows
from stores.sealing import StorageKey, StorageKeys
from stores.table.bodies import Performed
from tests.stores.disk.files import GROUP, MEMBER, StoreFile, sealed_store
from tests.stores.disk.log_replicas import LogReplicaKind
from wire.errors import BackendFailure
from wire.identifiers import EndpointId, EntityId

NEW = StorageKeys((StorageKey(b"n" * 32),))
WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)
COUNT = 40
LOG_STEPS = 40
FIXTURES = Path(__file__).parents[2] / "fixtures" / "0.1.0"

PROGRAM = """
import sys

from stores.disk.rekeying import rekey
from stores.sealing import StorageKeys

for _ in rekey(sys.argv[1], StorageKeys.parse(sys.stdin.readline()), 2):
    print("committed", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.db"


@pytest.fixture
def both(keys: StorageKeys) -> StorageKeys:
    return StorageKeys((*NEW.keys, *keys.keys))


Both = tuple[LoadedReplica, LoadedBallot | None]
"""What a store has in its file, and in its ballot's."""


def fill(store: StoreFile, keys: StorageKeys | None = None) -> Both:
    row = WriterRow(WRITER, 7, (Outcome(7, 7, Applied(5)),), 1)
    rows = [(b"%d" % number, b"v" * number, number, None) for number in range(COUNT)]
    rows.append((b"expiring", b"", COUNT, 9**18))
    path = store.file.path
    with closing(store):
        store.open()
        store.commit(Changes(COUNT, rows=Rows(*zip(*rows, strict=True)), writers=[row]))
        put = PutCommand(WRITER, 1, None, [b"k", b"v"])
        entries = tuple(ActionEntry(1, Performed(0, (put,))) for _ in range(COUNT))
        store.persist(Persist(1, None, 1, entries))
    with closing(BallotFile(PrivateMedium(path + BALLOT), keys)) as ballot:
        ballot.create(MEMBER, GROUP)
        ballot.save(Promises(MEMBER, 3, 4, MEMBER, is_whole=True))
        ballot.write_mark(1, 7, Position(1, 1))
    return look(StoreFile(path, keys), keys)


def look(store: StoreFile, keys: StorageKeys | None = None) -> Both:
    path = store.file.path
    with closing(store):
        loaded = store.open()
    with closing(BallotFile(PrivateMedium(path + BALLOT), keys)) as ballot:
        return loaded, ballot.load()


def fill_log(path: Path, keys: StorageKeys | None = None) -> tuple[object, LoadedBallot | None]:
    kind = LogReplicaKind(keys)
    with closing(kind.make(path, name="log")) as log:
        log.load()
        for step, _ in kind.commits(LOG_STEPS):
            log.commit(step)
    with closing(BallotFile(PrivateMedium(f"{path}{BALLOT}"), keys)) as ballot:
        ballot.create(MEMBER, GROUP)
    return look_log(path, keys)


def look_log(path: Path, keys: StorageKeys | None = None) -> tuple[object, LoadedBallot | None]:
    kind = LogReplicaKind(keys)
    with closing(kind.make(path, name="log")) as log:
        found = kind.load(log)
    with closing(BallotFile(PrivateMedium(f"{path}{BALLOT}"), keys)) as ballot:
        return found, ballot.load()


def test_a_store_is_under_its_new_key_alone(path, keys, both):
    before = fill(sealed_store(path, keys, name="cities"), keys)
    assert len(list(rekey(str(path), both, 10))) > COUNT / 10
    assert before == look(sealed_store(path, NEW, name="cities"), NEW)


def test_a_log_is_under_its_new_key_alone(path, keys, both):
    before = fill_log(path, keys)
    assert len(list(rekey(str(path), both, 10))) > 10
    assert look_log(path, NEW) == before


def test_what_is_under_the_right_key_is_left_as_it_is(path, keys):
    fill(sealed_store(path, keys, name="cities"), keys)
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute("SELECT body FROM entries").fetchall()
    list(rekey(str(path), keys, 10))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT body FROM entries").fetchall() == before


def test_a_plain_store_is_encrypted_and_its_owner_s_alone(path):
    before = fill(StoreFile(path, name="cities"))
    path.chmod(0o640)
    list(rekey(str(path), NEW, 10))
    assert path.stat().st_mode & 0o777 == 0o600
    assert before == look(sealed_store(path, NEW, name="cities"), NEW)
    assert sorted(path.parent.iterdir()) == [path, path.with_name(path.name + BALLOT)]


def test_a_plain_log_is_encrypted(path):
    before = fill_log(path)
    list(rekey(str(path), NEW, 10))
    assert look_log(path, NEW) == before
    assert sorted(path.parent.iterdir()) == [path, path.with_name(path.name + BALLOT)]


def interrupt(path: Path, keys: StorageKeys, commits: int) -> None:
    """Have another process rekey it, and kill it after so many commits."""
    arguments = [sys.executable, "-c", PROGRAM, str(path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(",".join(key.text() for key in keys.keys) + "\n")
        for number in range(commits):
            if number:
                process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "committed\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("commits", [1, 2, 15])
def test_a_kill_in_the_middle_loses_nothing_and_it_goes_on_from_there(path, keys, both, commits):
    before = fill(sealed_store(path, keys, name="cities"), keys)
    interrupt(path, both, commits)
    with closing(sqlite3.connect(path)) as connection:
        heads = {row[0] for row in connection.execute("SELECT substr(body, 1, 4) FROM entries")}
        assert len(heads) == 2, "some are under the one key, some under the other"
    assert before == look(sealed_store(path, both), both)
    with pytest.raises(BackendFailure, match="not among those given"):
        look(sealed_store(path, NEW), NEW)
    list(rekey(str(path), both, 10))
    assert before == look(sealed_store(path, NEW), NEW)


@pytest.mark.parametrize("commits", [1, 25])
def test_a_kill_in_the_middle_of_a_log_loses_nothing_either(path, keys, both, commits):
    before = fill_log(path, keys)
    interrupt(path, both, commits)
    assert look_log(path, both) == before
    list(rekey(str(path), both, 10))
    assert look_log(path, NEW) == before


@pytest.mark.parametrize("commits", [1, 15])
def test_a_kill_while_a_plain_file_is_encrypted_leaves_it_plain(path, commits):
    before = fill(StoreFile(path, name="cities"))
    interrupt(path, NEW, commits)
    assert before == look(StoreFile(path))
    list(rekey(str(path), NEW, 10))
    assert before == look(sealed_store(path, NEW), NEW)
    assert not path.with_name(path.name + SUFFIX).exists()


KINDS_OF_FILES: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "store": (
        lambda path: fill(StoreFile(path, name="cities")),
        lambda path, keys=None: look(StoreFile(path, keys), keys),
    ),
    "log": (fill_log, look_log),
}
"""By name: what fills a file, and what says what is in it and its ballot."""


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_no_owner_writes_to_a_plain_file_whose_copy_is_made(path, kind, monkeypatch):
    make, read = KINDS_OF_FILES[kind]
    before = make(path)
    replaced = []

    def attach() -> None:
        with pytest.raises(BackendFailure, match=r"\(this process has it"):
            read(path)

    def tried(step: Callable[..., object]) -> Callable[..., object]:
        def run(source: object, *others: object, **options: object) -> object:
            if str(source).startswith(str(path)):
                attach()
                replaced.extend(others)
            return step(source, *others, **options)

        return run

    with monkeypatch.context() as patch:
        for name in ("unlink", "replace"):
            patch.setattr(os, name, tried(getattr(os, name)))
        for _ in rekey(str(path), NEW, 10):
            attach()
    ballot = f"{path}{BALLOT}"
    assert replaced == [ballot, ballot, str(path)], "the ballot as it is, and sealed; the file"
    assert read(path, NEW) == before
    assert sorted(path.parent.iterdir()) == [path, path.with_name(path.name + BALLOT)]


def test_an_owner_that_opened_the_plain_file_before_comes_too_late(path, monkeypatch):
    before = fill(StoreFile(path, name="cities"))
    late = StoreFile(path)
    connection = late.file.connect()
    list(rekey(str(path), NEW, 10))
    monkeypatch.setattr(late.file, "connect", lambda: connection)
    with pytest.raises(BackendFailure, match="readonly"), closing(late):
        late.open()
    assert before == look(sealed_store(path, NEW), NEW)
    assert sorted(path.parent.iterdir()) == [path, path.with_name(path.name + BALLOT)]


@pytest.mark.parametrize("is_late", [False, True], ids=["while it is copied", "after that"])
def test_a_file_that_was_put_there_meanwhile_is_not_replaced(path, monkeypatch, is_late):
    fill(StoreFile(path, name="cities"))
    other = path.with_name("other.db")
    fill(StoreFile(other, name="cities"))
    content = other.read_bytes()

    def move() -> None:
        other.rename(path)

    if is_late:
        monkeypatch.setattr("stores.disk.rekeying._seal_ballot", lambda *_, **__: move())
    commits = rekey(str(path), NEW, 10)
    next(commits)
    if not is_late:
        move()
    with pytest.raises(BackendFailure, match="was moved or replaced while it was encrypted"):
        list(commits)
    assert path.read_bytes() == content


def test_a_file_that_is_gone_meanwhile_is_not_made_anew(path):
    fill(StoreFile(path, name="cities"))
    commits = rekey(str(path), NEW, 10)
    next(commits)
    path.rename(path.with_name("moved.db"))
    with pytest.raises(BackendFailure, match="was moved or replaced while it was encrypted"):
        list(commits)
    assert not path.exists()


def test_a_second_process_that_encrypts_a_file_leaves_the_copy_of_the_first_alone(
    path, monkeypatch
):
    before = fill(StoreFile(path, name="cities"))
    commits = rekey(str(path), NEW, 10)
    next(commits)
    with monkeypatch.context() as patch:  # It has looked at the file before the first one began.
        patch.setattr(SQLiteFile, "look", lambda _: (marks.STORE, VERSION))
        with pytest.raises(BackendFailure, match=r"\(this process has it"):
            list(rekey(str(path), NEW, 10))
    list(commits)
    assert before == look(sealed_store(path, NEW), NEW)


def replace_ballot_alone(source: str, target: str) -> None:
    """End the process, as it were, before an encrypted copy gets the place of its file."""
    if source.endswith(SUFFIX):
        raise KeyboardInterrupt
    os.rename(source, target)


@pytest.mark.parametrize("has_copy", [True, False], ids=["with the copy", "without it"])
@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_a_ballot_that_was_sealed_before_an_interruption_goes_along(
    path, kind, monkeypatch, has_copy
):
    make, read = KINDS_OF_FILES[kind]
    before = make(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_ballot_alone)
        with pytest.raises(KeyboardInterrupt):
            list(rekey(str(path), NEW, 10))
    if not has_copy:
        path.with_name(path.name + SUFFIX).unlink()
    with pytest.raises(
        BackendFailure, match=r"store rekey \S*file.db was interrupted. Do it again"
    ):
        read(path)
    list(rekey(str(path), NEW, 10))
    assert read(path, NEW) == before


def test_an_interrupted_file_is_encrypted_with_the_key_of_its_ballot(path, keys, monkeypatch):
    before = fill(StoreFile(path, name="cities"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_ballot_alone)
        with pytest.raises(KeyboardInterrupt):
            list(rekey(str(path), NEW))
    with pytest.raises(BackendFailure, match="with the same key"):
        list(rekey(str(path), keys))
    list(rekey(str(path), StorageKeys((*keys.keys, *NEW.keys))))
    assert before == look(sealed_store(path, keys), keys)


def test_a_plain_ballot_beside_a_sealed_file_is_not_believed(path, keys, both):
    fill(sealed_store(path, keys, name="cities"), keys)
    ballot = path.with_name(path.name + BALLOT)
    ballot.unlink()
    with closing(BallotFile(PrivateMedium(str(ballot)))) as forged:
        forged.create(MEMBER, GROUP)
    with pytest.raises(BackendFailure, match="written with another key"):
        list(rekey(str(path), both))


@pytest.mark.parametrize("name", ["store.db", "store-encrypted.db", "log.db", "log-encrypted.db"])
def test_a_file_of_an_earlier_release_is_to_be_opened_first(path, keys, name):
    content = (FIXTURES / name).read_bytes()
    path.write_bytes(content)
    with pytest.raises(BackendFailure, match="have its owner open it once"):
        list(rekey(str(path), keys))
    assert path.read_bytes() == content


def test_a_file_in_use_is_left_alone(path, keys, both):
    fill(sealed_store(path, keys, name="cities"), keys)
    with closing(sealed_store(path, keys)) as backend:
        backend.open()
        with pytest.raises(BackendFailure, match="one replica at a time"):
            list(rekey(str(path), both))


def test_what_is_none_of_ours_is_refused(path, keys):
    with pytest.raises(BackendFailure, match="not there"):
        list(rekey(str(path), keys))
    path.write_bytes(b"Dear diary, " * 1_000)
    with pytest.raises(BackendFailure, match="no SQLite file"):
        list(rekey(str(path), keys))
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE diary (entry TEXT)")
    with pytest.raises(BackendFailure, match="another program"):
        list(rekey(str(path), keys))
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("beside", ["file", "link"])
@pytest.mark.parametrize("named", ["file", "link"])
def test_what_a_link_leads_to_is_encrypted_with_its_ballot(path, tmp_path, beside, named):
    fill(StoreFile(path, name="cities"))
    link = tmp_path / "link.db"
    link.symlink_to(path)
    if beside == "link":
        os.rename(f"{path}{BALLOT}", f"{link}{BALLOT}")
    if (beside, named) == ("link", "file"):
        with pytest.raises(BackendFailure, match="has no ballot beside it"):
            list(rekey(str(path), NEW, 10))
        StoreFile(path).open()
        return
    list(rekey(str(link if named == "link" else path), NEW, 10))
    assert link.is_symlink()
    with pytest.raises(BackendFailure, match="is encrypted, and there is no key"):
        StoreFile(path).open()
    beside_it = link if beside == "link" else path
    with closing(BallotFile(PrivateMedium(f"{beside_it}{BALLOT}"), NEW)) as ballot:
        assert ballot.load() is not None


def test_a_damaged_log_stays_where_its_file_is_to_be_encrypted(path, tmp_path):
    store, log, crashed = StoreFile(path), f"{path}-wal", tmp_path / "crashed.db"
    store.open()
    for number in range(5):
        rows = [(b"key%d" % number, b"value", number + 1, None)]
        store.commit(Changes(number + 1, rows=Rows(*zip(*rows, strict=True))))
    content = bytearray(Path(log).read_bytes())
    content[32 + 24 + 4_096 + 100] ^= 1
    crashed.write_bytes(path.read_bytes())
    Path(f"{crashed}-wal").write_bytes(content)
    store.close()
    for _ in range(2):
        with pytest.raises(BackendFailure, match=r"is damaged \(its log crashed.db-wal"):
            list(rekey(str(crashed), NEW))
        assert Path(f"{crashed}-wal").read_bytes() == content
