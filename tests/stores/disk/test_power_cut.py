"""Power fails at every write: what was acknowledged is there, and nothing is there by half."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stores.sealing import StorageKeys
from tests.stores.disk.kinds import KINDS, Kind
from tests.stores.disk.log_replicas import LogReplicaKind
from tests.stores.disk.replicas import ReplicaKind
from tests.thirds import THIRDS
from wire.errors import BackendFailure

apsw = pytest.importorskip("apsw")

# SQLite closes its files in the dark, where nobody hears what their methods raise.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECTOR_SIZE = 512
COMMITS = 8
FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "0.1.0"


class PowerCut(Exception):
    """The machine is dark."""


class Disk:
    """A disk that keeps what was synced, and of the rest a few sectors, as chance will have it."""

    def __init__(self, cut_at: int | None) -> None:
        self.cut_at = cut_at
        self.write_count = 0
        self.sync_count = 0
        self.is_dark = False
        self.files: list[Any] = []

    def count_write(self) -> None:
        if self.is_dark or self.write_count == self.cut_at:
            self.is_dark = True
            raise PowerCut
        self.write_count += 1

    def leave_traces(self, chance: Random) -> None:
        """Put some of the sectors on the disk that were on their way to it."""
        for file in self.files:
            for offset, data in file.pending:
                for start in range(0, len(data), SECTOR_SIZE):
                    if chance.random() < 0.5 and file.path.exists():
                        with file.path.open("r+b") as content:
                            content.seek(offset + start)
                            content.write(data[start : start + SECTOR_SIZE])


class _File(apsw.VFSFile):  # type: ignore[misc]  # apsw has no types here
    def __init__(self, name: Any, flags: Any, disk: Disk) -> None:
        super().__init__("unix", name, flags)
        self.disk = disk
        self.path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        self.pending: list[tuple[int, bytes]] = []
        disk.files.append(self)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self.disk.count_write()
        self.pending.append((offset, bytes(data)))

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        size = super().xFileSize()
        found = super().xRead(min(amount, size - offset), offset) if offset < size else b""
        content = bytearray(found.ljust(amount, b"\0"))
        for at, data in self.pending:
            start, end = max(at, offset), min(at + len(data), offset + amount)
            if start < end:
                content[start - offset : end - offset] = data[start - at : end - at]
        return bytes(content[: max(0, self.xFileSize() - offset)])

    def xFileSize(self) -> int:  # noqa: N802 - SQLite's name
        ends = [offset + len(data) for offset, data in self.pending]
        return max([super().xFileSize(), *ends])

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self.disk.count_write()
        self.pending = [(at, data[: size - at]) for at, data in self.pending if at < size]
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self.disk.count_write()
        self.disk.sync_count += 1
        for offset, data in self.pending:
            super().xWrite(data, offset)
        self.pending.clear()
        super().xSync(flags)

    def xClose(self) -> None:  # noqa: N802 - SQLite's name
        if not self.disk.is_dark:  # the system has what was written, and its owner has it synced
            for offset, data in self.pending:
                super().xWrite(data, offset)
            self.pending.clear()
        super().xClose()


class _Files(apsw.VFS):  # type: ignore[misc]  # apsw has no types here
    def __init__(self, name: str, disk: Disk) -> None:
        super().__init__(name, "unix")
        self.disk = disk

    def xOpen(self, name: Any, flags: Any) -> _File:  # noqa: N802 - SQLite's name
        return _File(name, flags, self.disk)


def put_on(disk: Disk, backend: Any) -> Any:
    """Give the backend as it is, on that disk."""
    files = _Files(f"disk-{id(disk)}", disk)

    def connect() -> Any:
        return apsw.Connection(backend.file.path, vfs=f"disk-{id(files.disk)}")

    backend.file.connect = connect
    return backend


def live(kind: Kind, backend: Any, history: list[object]) -> int:
    """Write until the power fails, or for a while; gives the last commit acknowledged."""
    acknowledged = 0
    try:
        history.append(kind.load(backend))
        for changes, state in kind.commits(COMMITS):
            history.append(state)
            backend.commit(changes)
            acknowledged += 1
        backend.close()
    except (PowerCut, apsw.Error, BackendFailure):
        pass
    return acknowledged


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.disk.sqlite.CHECKPOINT_PAGES", 8)


def after_a_cut(
    kind: Kind, path: Path, cut_at: int | None, **options: Any
) -> tuple[Disk, int, int]:
    """Cut the power; gives the last commits that were acknowledged, and that are there."""
    disk = Disk(cut_at)
    history: list[object] = []
    backend = put_on(disk, kind.make(path, **options))
    acknowledged = live(kind, backend, history)
    disk.is_dark = True
    disk.leave_traces(Random(cut_at))
    backend.file._connection = None
    again = kind.make(path)
    try:
        found = kind.load(again)
    finally:
        again.close()
    assert not history or found in history, f"a half at write {cut_at}"
    return disk, acknowledged, history.index(found) if history else 0


@pytest.mark.parametrize("third", THIRDS)
def test_power_may_fail_at_any_write(tmp_path: Path, kind: Kind, third: int) -> None:
    disk, acknowledged, found = after_a_cut(kind, tmp_path / "whole.db", None)
    assert acknowledged == found == COMMITS
    assert disk.write_count > 20 * COMMITS / 2
    for cut_at in range(third, disk.write_count, 3):
        _, acknowledged, found = after_a_cut(kind, tmp_path / f"{cut_at}.db", cut_at)
        assert found >= acknowledged, f"acknowledged and lost at write {cut_at}"


@pytest.mark.parametrize("name", KINDS)
def test_without_waiting_for_the_disk_the_same_test_finds_losses(tmp_path: Path, name: str) -> None:
    lost = 0
    for cut_at in range(30, 90, 3):
        path = tmp_path / f"{cut_at}.db"
        try:
            _, acknowledged, found = after_a_cut(KINDS[name](None), path, cut_at, synchronous="OFF")
        except (BackendFailure, AssertionError):
            lost += 1
        else:
            lost += found < acknowledged
    assert lost, "a test that cannot fail shows nothing"


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("name", ["log.db", "log-encrypted.db", "store.db", "store-encrypted.db"])
def test_power_may_fail_at_any_write_of_an_upgrade(
    tmp_path: Path, keys: StorageKeys, name: str, third: int
) -> None:
    kind = (LogReplicaKind if "log" in name else ReplicaKind)(keys if "encrypted" in name else None)
    expected = upgraded(kind, tmp_path / "whole.db", name, None)[1]
    for cut_at in count(third, 3):
        disk, found = upgraded(kind, tmp_path / f"{cut_at}.db", name, cut_at)
        assert found == expected, f"at write {cut_at}"
        if not disk.is_dark:
            break
    assert cut_at > 10


def upgraded(kind: Kind, path: Path, name: str, cut_at: int | None) -> tuple[Disk, object]:
    """Upgrade a log while the power fails, and once more; gives what is in it then."""
    path.write_bytes((FIXTURES / name).read_bytes())
    path.chmod(0o600)
    disk = Disk(cut_at)
    backend = put_on(disk, kind.make(path))
    with suppress(PowerCut, apsw.Error, BackendFailure):
        kind.load(backend)
        backend.close()
    was_cut, disk.is_dark = disk.is_dark, True
    disk.leave_traces(Random(cut_at))
    disk.is_dark = was_cut
    backend.file._connection = None
    with closing(kind.make(path)) as again:
        found = kind.load(again)
    (kept,) = path.parent.glob(f"{path.name}.schema?")
    with closing(sqlite3.connect(kept)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA user_version").fetchone() == (int(kept.name[-1]),)
    return disk, found
