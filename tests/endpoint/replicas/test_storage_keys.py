"""Keys of stores come from an option or the environment, and reach every file of an endpoint."""

from __future__ import annotations

import pytest

from endpoint.settings import Settings
from peermesh import Backend, Endpoint
from peermesh.testing.time_limits import limit
from stores.disk.store_keys import write_new_key
from stores.sealing import StorageKey, StorageKeys
from wire.errors import BackendFailure, CredentialsError

KEY = StorageKey(bytes(range(32)))
RING = StorageKeys((KEY,))


@pytest.fixture
def key_file(tmp_path):
    write_new_key(tmp_path / "keys")
    return tmp_path / "keys"


async def keep(path, **options) -> None:
    async with Endpoint() as endpoint:
        async with endpoint.attach_master("s", Backend.SQLite, path=path, **options) as store:
            await (await store.put("k", "a value to look for")).applied()


@pytest.mark.parametrize("given", ["ring", "text", "file"])
async def test_a_key_is_given_in_one_of_three_ways(tmp_path, key_file, given):
    path = tmp_path / "s.db"
    options = {
        "ring": {"keys": RING},
        "text": {"keys": KEY.text()},
        "file": {"key_file": key_file},
    }[given]
    await keep(path, **options)
    await keep(path, **options)
    with pytest.raises(BackendFailure, match="is encrypted"):
        await keep(path)


async def test_the_environment_holds_for_stores_logs_and_promoted_clones(tmp_path, monkeypatch):
    monkeypatch.setenv("PEERMESH_STORE_KEYS", KEY.text())
    value = "a value to look for"
    async with Endpoint() as here, Endpoint() as there:
        async with here.attach_log("l", backend=Backend.SQLite, path=tmp_path / "l.db") as log:
            await (await log.append(value)).applied()
        master = await here.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
        async with there.attach_clone("s") as clone:
            assert await there.peer("127.0.0.1", await here.listen(), timeout=limit())
            await (await clone.put("k", value)).applied()
            await master.close()
            await clone.promote(Backend.SQLite, path=tmp_path / "p.db", force=True)
    for name in ("l.db", "s.db", "p.db"):
        seen = (tmp_path / name).read_bytes()
        assert value.encode() not in seen
        assert seen[68:72] in (b"pemS", b"pemL"), "the mark of an encrypted file"


async def test_none_is_plain_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PEERMESH_STORE_KEYS", KEY.text())
    await keep(tmp_path / "s.db", keys=None)
    assert b"a value to look for" in (tmp_path / "s.db").read_bytes()


def test_the_variables_are_no_settings_of_an_endpoint():
    environment = {"PEERMESH_STORE_KEYS": KEY.text(), "PEERMESH_STORE_KEY_FILE": "keys"}
    assert Settings.load({}, environment) == Settings()


@pytest.mark.parametrize(
    "options",
    [
        {"keys": 7},
        {"key_file": 7},
        {"keys": RING, "key_file": "keys"},
        {"key_file": None, "keys": b""},
    ],
)
async def test_other_values_are_refused_without_repeating_them(tmp_path, options):
    with pytest.raises(BackendFailure, match="either keys"):
        await keep(tmp_path / "s.db", **options)


async def test_a_store_in_memory_has_no_key():
    async with Endpoint() as endpoint:
        with pytest.raises(BackendFailure, match="no option 'keys'"):
            await endpoint.attach_master("s", keys=RING)


async def test_a_key_that_is_none_is_refused(tmp_path):
    with pytest.raises(CredentialsError, match="begins with"):
        await keep(tmp_path / "s.db", keys="hunter2")
