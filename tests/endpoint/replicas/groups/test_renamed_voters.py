"""A file whose only voter has another name than the endpoint that opens it now."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.files import MemberFiles
from endpoint.replicas.logs.files import LogReplicaFiles
from endpoint.replicas.stores.files import ReplicaFiles
from peermesh.testing.time_limits import limit
from stores.disk.ballot import BallotFile
from stores.disk.founding import Founding
from stores.group.effects import Persist, SavePromises, WriteMark
from stores.group.entries import LeadEntry, VotersEntry, latest_voters
from stores.group.positions import MemberId, Position
from stores.replica.beginning import Beginning
from stores.replica.effects import Begin, ToDisk
from tests.fixtures.kinds import KEY
from wire.errors import BackendFailure

VOTER = MemberId("c572c7ae", 7)
RENAMED = MemberId("a", 7)


class Killed(Exception):
    """The process ended here."""


@pytest.fixture(params=[ReplicaFiles, LogReplicaFiles], ids=["store", "log"])
def kind(request: pytest.FixtureRequest) -> type[MemberFiles]:
    return request.param


def load(
    kind: type[MemberFiles], path: Path, name: str, *, renamed: bool = False, **options: bool
) -> Beginning:
    """Start the replica once more at an endpoint of this name."""
    files = kind("s", {"path": str(path)}, is_renamed=renamed)
    try:
        return files.load(Founding(b"f" * 16, MemberId(name, 9), 9), **options).beginning
    finally:
        files.close()


def voters_of(beginning: Beginning) -> tuple[MemberId, ...]:
    return latest_voters(beginning.stored.voters, beginning.stored.entries)


def found(kind: type[MemberFiles], path: Path, *voters: MemberId, is_whole: bool = True) -> None:
    files = kind("s", {"path": str(path)})
    promises = files.load(Founding(b"f" * 16, VOTER, 9)).beginning.stored.promises
    files.write(ToDisk(1, Begin(b"g" * 16, (VotersEntry(1, voters, ("gone", "a")),))))
    files.write(ToDisk(2, SavePromises(2, replace(promises, is_whole=is_whole))))
    files.close()


def test_the_only_voter_takes_the_name_of_the_founder(tmp_path, kind) -> None:
    path = tmp_path / "s.db"
    found(kind, path, VOTER)
    for _ in range(2):
        beginning = load(kind, path, "a", is_founder=True)
        assert voters_of(beginning) == (RENAMED,)
        assert beginning.stored.promises.member == beginning.stored.promises.vote == RENAMED
        assert beginning.stored.promises.term == 2
        _, lead, last = beginning.stored.entries
        assert lead == LeadEntry(2, beginning.stored.times)
        assert last == VotersEntry(2, (RENAMED,), ("gone",))


@pytest.mark.parametrize(
    "written", [0, 1, 2], ids=["before all", "before the journal", "before the ballot"]
)
@pytest.mark.parametrize("name", ["c572c7ae", "a", "other"])
def test_a_crash_leaves_one_name_that_can_vote(
    tmp_path, kind, monkeypatch, written: int, name: str
) -> None:
    path = tmp_path / "s.db"
    found(kind, path, VOTER)
    steps = [(BallotFile, "save"), (kind, "persist"), (BallotFile, "save")]
    with monkeypatch.context() as patch:
        count = 0

        def dying(whole):
            def step(*arguments: object) -> None:
                nonlocal count
                if count == written:
                    raise Killed
                count += 1
                whole(*arguments)

            return step

        for owner, method in dict.fromkeys(steps):
            patch.setattr(owner, method, dying(getattr(owner, method)))
        with pytest.raises(Killed):
            load(kind, path, "a", is_founder=True)
    # A master asks for no name, and goes on with what is there.
    beginning = load(kind, path, "master", renamed=True)
    assert voters_of(beginning) == (beginning.stored.promises.member,)
    beginning = load(kind, path, name, is_founder=True)
    assert voters_of(beginning) == (beginning.stored.promises.member,) == (MemberId(name, 7),)


@pytest.mark.parametrize(
    ("voters", "is_whole", "is_founder", "reason"),
    [
        ((VOTER,), True, False, "give it to the first of the voters"),
        ((VOTER,), False, True, "give each its own file"),
        ((VOTER, MemberId("b", 2)), True, True, "give each its own file"),
        ((MemberId("b", 2),), True, True, "give each its own file"),
    ],
    ids=["another voter", "one that lacks something", "one of two", "a learner"],
)
def test_no_other_file_takes_another_name(
    tmp_path, kind, voters, is_whole: bool, is_founder: bool, reason: str
) -> None:
    path = tmp_path / "s.db"
    found(kind, path, *voters, is_whole=is_whole)
    before = load(kind, path, VOTER.name)
    with pytest.raises(BackendFailure, match=f"is the replica of c572c7ae, .* {reason}"):
        load(kind, path, "a", is_founder=is_founder)
    after = load(kind, path, VOTER.name)
    assert after.stored.entries == before.stored.entries
    assert after.stored.promises == before.stored.promises


def test_an_older_file_beside_a_later_ballot_takes_no_name_back(tmp_path, kind) -> None:
    path, older = tmp_path / "s.db", tmp_path / "older.db"
    found(kind, path, VOTER)
    shutil.copyfile(path, older)
    load(kind, path, "a", is_founder=True)
    files = kind("s", {"path": str(path)})
    end = len(files.load(Founding(b"f" * 16, RENAMED, 9)).beginning.stored.entries)
    voters = (RENAMED, MemberId("b", 2))
    files.write(ToDisk(1, Persist(0, None, end, (VotersEntry(2, voters, ()),))))
    files.write_mark(WriteMark(1, 1, Position(2, end + 1)))
    files.close()
    shutil.copyfile(older, path)
    for _ in range(2):
        beginning = load(kind, path, "a", is_founder=True)
        assert voters_of(beginning) == (VOTER,)
        assert beginning.stored.promises.member == RENAMED


async def test_a_master_without_a_name_becomes_one_of_three(groups, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stores.group.followers.IN_TOUCH_TICKS", 5)
    path = tmp_path / "a.db"
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            master = await endpoint.attach_master("s", "sqlite", path=path, keys=KEY)
            await (await master.put("k", 1)).applied()
    for name in "bc":  # Copies of the file, one for each of the other voters.
        for suffix in ("", ".ballot"):
            shutil.copyfile(f"{path}{suffix}", tmp_path / f"{name}.db{suffix}")
    async with groups.open(names=(), folder=tmp_path) as group:
        group.options = {"keys": KEY}
        await group.start("a")
        for name in "bc":
            life = await group.open(name)
            with pytest.raises(BackendFailure, match="give it to the first of the voters"):
                await group.attach(life, group.voters)
            for each in tmp_path.glob(f"{name}.db*"):
                each.unlink()
            await group.attach(life, group.voters)
        core = group["a"].part.core
        await groups.until(lambda: {each.name for each in core.voters} == set("abc"))
        assert await group["c"].read("linear").get("k") == 1
        await (await group["b"].put("k", 2)).applied()
        await group.stop("a")
        assert await group["b"].read("linear").get("k") == 2
        await group.start("a")
        assert await group["a"].read("linear").get("k") == 2


async def test_what_followed_the_master_follows_the_group(groups, tmp_path) -> None:
    async with groups.open(names=(), folder=tmp_path, voters=("a",)) as group:
        async with Endpoint() as endpoint, Endpoint() as other:
            port = await endpoint.listen()
            path = tmp_path / "a.db"
            master = await endpoint.attach_master("s", "sqlite", path=path)
            assert await other.peer("127.0.0.1", port)
            clone = await other.attach_clone("s")
            await (await master.put("k", 1)).applied()
            assert await clone.await_idle(timeout=limit())
            await master.close()
            store = await group.start("a")
            assert await other.peer("127.0.0.1", group.lives["a"].port)
            await (await store.put("k", 2)).applied()
            assert await clone.at_master().get("k") == 2
