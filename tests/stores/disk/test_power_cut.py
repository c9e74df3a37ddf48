"""Power fails at every write: what was acknowledged is there, and nothing is there by half."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stores.actions import PutCommand, WriterId
from stores.commits import GroupCommit
from stores.disk.table import SQLiteBackend
from stores.persistence import Loaded
from stores.table import Table
from wire.errors import BackendFailure
from wire.identifiers import EndpointId, EntityId

apsw = pytest.importorskip("apsw")

# SQLite closes its files in the dark, where nobody hears what their methods raise.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECTOR_SIZE = 512
COMMITS = 8
WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)

Make = Callable[..., SQLiteBackend]


class PowerCut(Exception):
    """The machine is dark."""


class Disk:
    """A disk that keeps what was synced, and of the rest a few sectors, as chance will have it."""

    def __init__(self, cut_at: int | None) -> None:
        self.cut_at = cut_at
        self.write_count = 0
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
        for offset, data in self.pending:
            super().xWrite(data, offset)
        self.pending.clear()
        super().xSync(flags)


class _Files(apsw.VFS):  # type: ignore[misc]  # apsw has no types here
    def __init__(self, name: str, disk: Disk) -> None:
        super().__init__(name, "unix")
        self.disk = disk

    def xOpen(self, name: Any, flags: Any) -> _File:  # noqa: N802 - SQLite's name
        return _File(name, flags, self.disk)


def put_on(disk: Disk, backend: SQLiteBackend) -> SQLiteBackend:
    """Give the backend as it is, on that disk."""
    files = _Files(f"disk-{id(disk)}", disk)

    def connect() -> Any:
        return apsw.Connection(backend.file.path, vfs=f"disk-{id(files.disk)}")

    backend.file.connect = connect  # type: ignore[method-assign]  # of this one
    return backend


def live(backend: SQLiteBackend, history: dict[int, dict[bytes, bytes]]) -> int:
    """Write until the power fails, or for a while; gives the last revision acknowledged."""
    acknowledged = 0
    try:
        loaded = backend.load(1)
        table = Table(loaded.columns, loaded.revision)
        commits = GroupCommit(table)
        for number in range(COMMITS):
            for index in range(3):
                key, value = b"%d" % (index * number % 7), b"%d" % number * 700
                table.apply(PutCommand(WRITER, 1, None, [key, value]))
            history[table.revision] = dict(table.columns.values)
            backend.commit(commits.start((), ()))
            commits.finish()
            acknowledged = table.revision
        backend.close()
    except (PowerCut, apsw.Error, BackendFailure):
        pass
    return acknowledged


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.disk.sqlite.CHECKPOINT_PAGES", 8)


def after_a_cut(
    make_backend: Make, path: Path, cut_at: int | None, **options: Any
) -> tuple[Disk, int, Loaded, Any]:
    disk = Disk(cut_at)
    history: dict[int, dict[bytes, bytes]] = {0: {}}
    backend = put_on(disk, make_backend(path, **options))
    acknowledged = live(backend, history)
    disk.is_dark = True
    disk.leave_traces(Random(cut_at))
    backend.file._connection = None
    again = make_backend(path)
    try:
        return disk, acknowledged, again.load(1), history
    finally:
        again.close()


def test_power_may_fail_at_any_write(tmp_path: Path, make_backend: Make) -> None:
    disk, acknowledged, _, _ = after_a_cut(make_backend, tmp_path / "whole.db", None)
    assert acknowledged == 3 * COMMITS
    assert disk.write_count > 20 * COMMITS / 2
    for cut_at in range(disk.write_count):
        _, acknowledged, loaded, history = after_a_cut(
            make_backend, tmp_path / f"{cut_at}.db", cut_at
        )
        assert loaded.revision >= acknowledged, f"acknowledged and lost at write {cut_at}"
        assert loaded.columns.values == history[loaded.revision], f"a half at write {cut_at}"


def test_without_waiting_for_the_disk_the_same_test_finds_losses(tmp_path: Path) -> None:
    lost = 0
    for cut_at in range(30, 90, 3):
        path = tmp_path / f"{cut_at}.db"
        try:
            _, acknowledged, loaded, _ = after_a_cut(SQLiteBackend, path, cut_at, synchronous="OFF")
        except BackendFailure:
            lost += 1
        else:
            lost += loaded.revision < acknowledged
    assert lost, "a test that cannot fail shows nothing"
