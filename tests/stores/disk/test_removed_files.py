"""A file that is removed while it is in use: what is written to it since is claimed nowhere."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from handshake.private_files import write_private
from stores.disk.medium import PrivateMedium
from wire.errors import BackendFailure


async def test_a_put_after_its_directory_was_removed_is_not_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    async with Endpoint() as endpoint:
        store = await endpoint.attach_master("s", Backend.SQLite, path=folder / "s.db")
        await (await store.put("a", 1)).applied()
        shutil.rmtree(folder)
        with pytest.raises(BackendFailure, match="was removed while it was in use"):
            await (await store.put("b", 2)).applied()
        await store.close()


async def test_an_append_after_its_directory_was_removed_is_not_acknowledged(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    async with Endpoint() as endpoint:
        log = await endpoint.attach_log("l", (), 1, Backend.SQLite, path=folder / "l.db")
        await (await log.append("a")).applied()
        shutil.rmtree(folder)
        with pytest.raises(BackendFailure, match="was removed while it was in use"):
            await (await log.append("b")).applied()
        await log.close()


async def test_a_put_after_another_file_took_its_place_is_not_acknowledged(tmp_path: Path) -> None:
    path, backup = tmp_path / "s.db", tmp_path / "backup.db"
    async with Endpoint() as endpoint:
        async with endpoint.attach_master("s", Backend.SQLite, path=path) as store:
            await (await store.put("a", 1)).applied()
        shutil.copy(path, backup)
        store = await endpoint.attach_master("s", Backend.SQLite, path=path)
        await (await store.put("b", 2)).applied()
        backup.replace(path)
        with pytest.raises(BackendFailure, match="was replaced while it was in use"):
            await (await store.put("c", 3)).applied()
        await store.close()


def test_a_ballot_that_lost_its_name_promises_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "ballot"
    for lose in (Path.unlink, lambda lost: write_private(lost, b"others", replaces=True)):
        with closing(PrivateMedium(str(path))) as medium:
            medium.replace(b"promises")
            medium.write(0, b"P")
            medium.sync()
            lose(path)
            with pytest.raises(OSError, match="removed or replaced while it was in use"):
                medium.sync()


async def test_a_path_is_that_of_a_file_whatever_it_looks_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "file:s.db?mode=memory"
    async with Endpoint() as endpoint:
        for value in (None, 1):
            async with endpoint.attach_master("s", Backend.SQLite, path=name) as store:
                assert await store.get("a") == value
                await (await store.put("a", 1)).applied()
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        for wrong in (":memory:", "a\0b"):
            with pytest.raises(BackendFailure, match="is no file: attach it with"):
                await endpoint.attach_master("m", Backend.SQLite, path=wrong)
    assert sorted(os.listdir(tmp_path)) == [name, f"{name}.ballot"]


async def test_a_file_is_found_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Endpoint() as endpoint:
        async with endpoint.attach_master("s", Backend.SQLite, path="s.db") as store:
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
            await (await store.put("a", 1)).applied()
        assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == []
