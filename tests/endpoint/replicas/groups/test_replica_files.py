"""Files of replicas: of earlier releases, sealed, older than what was acknowledged, and full."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.mesh.status import StatusCode
from endpoint.replicas.stores.store import ReplicaStore
from peermesh.testing.time_limits import limit
from stores.sealing import StorageKey, StorageKeys
from tests.fixtures.kinds import KEY, VALUES
from tests.waiting import until
from wire.errors import BackendFailure, StoreError
from wire.values import Value

FIXTURES = Path(__file__).parents[3] / "fixtures" / "0.1.0"
OTHER = StorageKey(bytes(range(1, 33)))


@pytest.fixture(params=["plain", "sealed"])
def keys(request: pytest.FixtureRequest) -> dict[str, object]:
    return {} if request.param == "plain" else {"keys": KEY}


def earlier(path: Path, keys: dict[str, object]) -> None:
    """Put a master's file of the first release there."""
    shutil.copyfile(FIXTURES / ("store-encrypted.db" if keys else "store.db"), path)
    path.chmod(0o600)


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


async def told(status, code: StatusCode) -> str:
    """Wait for an event, and give its reason."""
    with trio.fail_after(limit()):
        while (event := await status.get()).status is not code:
            pass
    return event.reason


async def has_values(store: ReplicaStore, count: int = 7) -> None:
    reader = store.read("linear")
    for key, value in VALUES.items():
        assert await reader.get(key) == value
    assert await reader.get(7_000) == count
    assert not await reader.exists("gone")


# -- files of earlier releases ---------------------------------------------------------------------


async def test_a_master_s_file_becomes_a_voter_s_and_the_others_take_all_from_it(
    groups, tmp_path, keys, monkeypatch
) -> None:
    monkeypatch.setattr("stores.group.followers.IN_TOUCH_TICKS", 5)
    earlier(tmp_path / "a.db", keys)
    async with groups.open(names=(), folder=tmp_path) as group:
        group.store_name, group.options = "kept", keys
        for name in "abc":
            await group.start(name)
        for count, name in enumerate("abc", 7):
            await has_values(group[name], count)
            await (await group[name].increment(7_000, 1)).applied()
        core = group[await group.await_leader()].part.core
        await groups.until(lambda: {each.name for each in core.voters} == set("abc"))
    assert version_of(tmp_path / "a.db") == 3
    (kept,) = tmp_path.glob("a.db.schema*")
    assert kept.name.endswith(str(version_of(kept)))
    async with groups.open(names=(), folder=tmp_path) as group:
        group.store_name, group.options = "kept", keys
        for name in "abc":
            await group.start(name)
        for name in "abc":
            assert await group[name].read("linear").get(7_000) == 10


async def test_two_masters_files_become_two_groups_that_say_so(groups, tmp_path) -> None:
    for name in "ab":
        earlier(tmp_path / f"{name}.db", {})
    async with groups.open(names=(), folder=tmp_path) as group:
        group.store_name = "kept"
        heard = []
        for name in "ab":
            life = await group.open(name)
            heard.append(life.endpoint.subscribe_status())
        for name in "ab":
            await group.attach(group.lives[name], group.voters)
        for status in heard:
            assert "another group" in await told(status, StatusCode.STORE_CONFLICT)
        for name in "ab":
            await (await group[name].put("of", name)).applied()
        for name in "ab":
            await has_values(group[name])
            assert await group[name].read("linear").get("of") == name


async def test_a_learner_sets_a_file_of_an_earlier_release_aside(groups, tmp_path, keys) -> None:
    earlier(tmp_path / "d.db", keys)
    before, version = (tmp_path / "d.db").read_bytes(), version_of(tmp_path / "d.db")
    taken = tmp_path / f"d.db.schema{version}"
    taken.write_text("is taken")
    aside = tmp_path / f"{taken.name}.2"
    async with groups.open(names=(), folder=tmp_path, voters=("a",)) as group:
        group.store_name, group.options = "kept", keys
        await group.start("a")
        await (await group["a"].put("of", "a")).applied()
        life = await group.open("d")
        status = life.endpoint.subscribe_status()
        store = await group.attach(life, ())
        assert str(aside) in await told(status, StatusCode.STORE_CONFLICT)
        assert aside.read_bytes() == before
        assert await store.read("linear").get("of") == "a"
        assert await store.read("linear").keys() == ["of"]
        await group.stop("d")
        store = await group.learn("d")
        assert await store.read("linear").keys() == ["of"]
    assert set(tmp_path.glob("d.db.schema*")) == {taken, aside}


# -- sealed ----------------------------------------------------------------------------------------


async def test_a_sealed_group_keeps_no_plain_text_and_takes_its_own_key_alone(
    groups, tmp_path
) -> None:
    secret = "plainly to be seen"
    async with groups.open(names=(), folder=tmp_path) as group:
        group.options = {"keys": KEY}
        for name in "abc":
            await group.start(name)
        learner = await group.learn("d")
        await (await group["a"].put(secret, secret)).applied()
        assert await learner.read("linear").get(secret) == secret
        assert await learner.await_idle(timeout=limit())
    files = [each for each in tmp_path.iterdir() if each.is_file()]
    assert len(files) >= 8
    for each in files:
        assert secret.encode() not in each.read_bytes(), each
    async with groups.open(names=(), folder=tmp_path) as group:
        for keys, reason in (
            ({}, "encrypted"),
            ({"keys": StorageKeys((OTHER,))}, "not among those given"),
        ):
            group.options = keys
            with pytest.raises(BackendFailure, match=reason):
                await group.start("a")
            await group.stop("a")
        group.options = {"keys": StorageKeys((OTHER, *StorageKeys.parse(KEY).keys))}
        for name in "abc":
            await group.start(name)
        assert await group["b"].read("linear").get(secret) == secret
        await (await group["c"].put("more", 1)).applied()


async def test_a_ballot_that_was_changed_without_the_key_is_refused(groups, tmp_path) -> None:
    async with groups.open(names=(), folder=tmp_path, voters=("a",)) as group:
        group.options = {"keys": KEY}
        await group.start("a")
        await (await group["a"].put("k", 1)).applied()
        await group.stop("a")
        ballot = tmp_path / "a.db.ballot"
        content = ballot.read_bytes()
        ballot.write_bytes(bytes(each ^ 1 for each in content))
        with pytest.raises(StoreError, match="ballot"):
            await group.start("a")
        await group.stop("a")
        ballot.write_bytes(content)
        await group.start("a")
        assert await group["a"].read("linear").get("k") == 1


# -- older than what was acknowledged --------------------------------------------------------------


@pytest.mark.parametrize("harm", ["restored", "removed"])
async def test_a_voter_whose_file_is_older_says_so_and_takes_it_from_the_others(
    groups, tmp_path, keys, harm
) -> None:
    async with groups.open(names=(), folder=tmp_path) as group:
        group.options = keys
        for name in "abc":
            await group.start(name)
        leader = await group.await_leader()
        lost = next(name for name in "abc" if name != leader)
        path = tmp_path / f"{lost}.db"
        await (await group[leader].put("k", "old")).applied()
        assert await group[lost].await_idle(timeout=limit())
        await group.stop(lost)
        shutil.copyfile(path, tmp_path / "copy.db")
        await group.start(lost)
        await (await group[lost].put("k", "new")).applied()
        assert await group[lost].read("linear").get("k") == "new"
        await group.stop(lost)
        path.unlink()
        if harm == "restored":
            shutil.copyfile(tmp_path / "copy.db", path)
            path.chmod(0o600)
        life = await group.open(lost)
        status = life.endpoint.subscribe_status()
        store = await group.attach(life, group.voters)
        assert "lacks what it had" in await told(status, StatusCode.REPLICA_REGRESSED)
        assert "has all that it ever" in await told(status, StatusCode.REPLICA_REGRESSED)
        assert await store.read("linear").get("k") == "new"
        await (await store.put("more", 1)).applied()
        members = await group[await group.await_leader()].members()
        assert sorted(each.name for each in members if each.is_voter) == ["a", "b", "c"]


# -- a disk that fails -----------------------------------------------------------------------------


def fill(store: ReplicaStore) -> None:
    """Have the file of a replica grow no more."""
    connection = store.part.backend._rows.file.connection
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {count}")


async def fill_up(store: ReplicaStore) -> StoreError:
    """Write until the disk takes no more; gives the error."""
    fill(store)
    for number in range(1_000):
        try:
            await (await store.put(("large", number), "x" * 10_000)).applied()
        except BackendFailure as error:
            return error
    raise AssertionError("the disk took all")


async def settled(store: ReplicaStore) -> None:
    """Wait until a replica has nothing for its disk."""
    with trio.fail_after(limit()):
        await until(lambda: not store.part.core.carrier.is_writing)


async def test_a_leader_with_a_full_disk_hands_over_and_says_so(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path) as group:
        full = await group.await_leader()
        others = [name for name in "abc" if name != full]
        await (await group[full].put("k", 1)).applied()
        status = group.lives[full].endpoint.subscribe_status()
        await settled(group[full])
        assert "the disk is full" in str(await fill_up(group[full]))
        assert "the disk is full" in await told(status, StatusCode.REPLICA_DISK_FAILED)
        await (await group[others[0]].put("k", 2)).applied()
        assert group[others[0]].leader() in others
        await group.stop(full)
        store = await group.start(full)
        assert await store.read("linear").get("k") == 2
        assert await store.await_idle(timeout=limit())


async def test_a_follower_with_a_full_disk_ends_and_the_others_go_on(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path) as group:
        leader = await group.await_leader()
        full = next(name for name in "abc" if name != leader)
        await (await group[leader].put("k", 1)).applied()
        status = group.lives[full].endpoint.subscribe_status()
        await settled(group[full])
        fill(group[full])
        receipts: Sequence = [
            await group[leader].put(("large", number), "x" * 10_000) for number in range(200)
        ]
        for receipt in receipts:
            await receipt.applied()
        assert "the disk is full" in await told(status, StatusCode.REPLICA_DISK_FAILED)
        with pytest.raises(BackendFailure, match="the disk is full"):
            await group[full].get("k")
        assert group[leader].is_leader()
        await group.stop(full)
        store = await group.start(full)
        assert len(await store.read("linear").keys()) == 201


# -- a group's file where one leads alone ----------------------------------------------------------


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("is_voter", [True, False], ids=["voter", "learner"])
async def test_a_group_s_file_is_not_led_alone_and_the_group_goes_on_with_it(
    groups, tmp_path, fresh, is_voter
) -> None:
    async with groups.open(names=("a", "b"), folder=tmp_path, voters=("a", "b")) as group:
        name, others = ("b", ("a",)) if is_voter else ("l", ("a", "b"))
        if not is_voter:
            await group.learn(name)
        await (await group["a"].put("first", 1)).applied()
        assert await group[name].read("linear").get("first") == 1
        await group.stop(name)
        path = tmp_path / f"{name}.db"
        async with Endpoint(name=name) as endpoint:
            with pytest.raises(BackendFailure, match=r"whose voters are a, b: attach it with"):
                await endpoint.attach_master("s", backend="sqlite", path=path, fresh=fresh)
        await group.start(name) if is_voter else await group.learn(name)
        await (await group[name].put("second", 2)).applied()
        for each in (*others, name):
            reader = group[each].read("linear")
            assert [await reader.get("first"), await reader.get("second")] == [1, 2]


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_learner_s_file_is_not_led_alone_beside_the_one_voter(
    groups, tmp_path, fresh
) -> None:
    async with groups.open(names=("a",), folder=tmp_path, voters=("a",)) as group:
        await group.learn("l")
        await (await group["a"].put("first", 1)).applied()
        assert await group["l"].read("linear").get("first") == 1
        await group.stop("l")
        await (await group["a"].put("second", 2)).applied()
        path = tmp_path / "l.db"
        async with Endpoint(name="l") as endpoint:
            with pytest.raises(BackendFailure, match=r"whose voters are a: attach it with"):
                await endpoint.attach_master("s", backend="sqlite", path=path, fresh=fresh)
        await group.learn("l")
        assert await group["l"].read("linear").get("second") == 2
        assert group["a"].is_leader()


async def test_the_file_of_the_last_voter_is_led_alone(groups, tmp_path) -> None:
    async with groups.open(names=("a", "b"), folder=tmp_path, voters=("a", "b")) as group:
        await (await group["a"].put("first", 1)).applied()
        await group["b"].promote(timeout=limit())
        await group["b"].remove_voter("a", timeout=limit())
        await group.stop("a")
        await group.stop("b")
        assert await led_alone("b", tmp_path, "first") == 1


async def test_a_voter_s_file_that_took_the_lead_by_force_is_led_alone(groups, tmp_path) -> None:
    async with groups.open(names=("a", "b"), folder=tmp_path, voters=("a", "b")) as group:
        await (await group["a"].put("first", 1)).applied()
        await group.stop("b")
        await group["a"].promote(force=True)
        await (await group["a"].put("second", 2)).applied()
        await group.stop("a")
        assert await led_alone("a", tmp_path, "second") == 2


async def led_alone(name: str, folder: Path, key: str) -> Value:
    """Give what a key has where a replica's file is led alone."""
    async with (
        Endpoint(name=name) as endpoint,
        endpoint.attach_master("s", backend="sqlite", path=folder / f"{name}.db") as master,
    ):
        return await master.get(key)
