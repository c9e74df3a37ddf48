"""A promotion to a file that ends half-way: what is there then is filled again, or has it all."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.files import ReplicaFiles
from endpoint.replicas.stores.store import Store
from peermesh.testing.time_limits import limit
from stores.disk.ballot import SUFFIX, BallotFile
from stores.disk.medium import PrivateMedium
from stores.disk.replica import SQLiteReplica
from stores.group.entries import latest_voters
from stores.replica.beginning import Beginning
from stores.table.parts import EntriesPart
from tests.endpoint.gates import FOUNDING
from tests.endpoint.replicas.pictures import Pictures
from tests.endpoint.replicas.stores.test_promotion import two_endpoints
from wire.errors import BackendFailure, ReplicaRegressed

COUNT = 20

FULL = "database or disk is full"

Step = tuple[type, str]

WRITING: list[Step] = [(BallotFile, "save"), (SQLiteReplica, "persist"), (BallotFile, "join")]
"""What writes to files that are there."""

STEPS: list[Step] = [(SQLiteReplica, "load"), (BallotFile, "create"), *WRITING]


@asynccontextmanager
async def orphan() -> AsyncIterator[Store]:
    """Give a clone that has all of a store whose master is gone."""
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        for number in range(COUNT):
            await (await master.put(number, "value")).applied()
        assert await clone.await_idle(timeout=limit())
        await master.close()
        yield clone


def fail_once(patch: pytest.MonkeyPatch, step: Step, *, is_done: bool) -> None:
    """Have a step fail, as on a full disk: before it is done, or behind it."""
    kind, name = step
    method, is_armed = getattr(kind, name), True

    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal is_armed
        was_armed, is_armed = is_armed, False
        if not was_armed:
            return method(self, *arguments, **options)
        if is_done:
            method(self, *arguments, **options)
        raise BackendFailure(FULL)

    patch.setattr(kind, name, run)


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=[name for _, name in STEPS])
async def test_a_promotion_that_fails_is_tried_again_with_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, is_done: bool
) -> None:
    path = tmp_path / "s.db"
    async with orphan() as clone:
        fail_once(monkeypatch, step, is_done=is_done)
        with pytest.raises(BackendFailure, match=FULL) as found:
            await clone.promote(Backend.SQLite, path=path)
        if step in WRITING:
            assert "promote to it again" in str(found.value)
            assert os.listdir(tmp_path) == []
        assert not clone.is_master()
        await clone.promote(Backend.SQLite, path=path)
        assert len(await clone.keys()) == COUNT
        await (await clone.put("more", 1)).applied()
    async with Endpoint() as endpoint:
        master = await endpoint.attach_master("s", Backend.SQLite, path=path)
        assert len(await master.keys()) == COUNT + 1


# -- killed ----------------------------------------------------------------------------------------


def opened(path: Path) -> tuple[Beginning, int]:
    """Give what a file begins with, and the number of its entries."""
    with closing(ReplicaFiles("s", {"path": path}, is_renamed=True)) as files:
        found = files.load(FOUNDING)
    entries = (part for part in found.parts if isinstance(part, EntriesPart))
    return found.beginning, sum(len(part.revisions) for part in entries)


def is_complete(path: Path) -> bool:
    """Tell whether a file has the store; one that has not is of no group, and has nothing."""
    if not path.exists():
        return False
    try:
        beginning, count = opened(path)
    except BackendFailure as error:
        if "a promotion that did not end, and nothing is in it" not in str(error):
            raise
        return False
    assert (beginning.group is not None, count) in [(True, COUNT), (False, 0)]
    return beginning.group is not None


@pytest.mark.parametrize(
    "failing",
    [None, ((SQLiteReplica, "persist"), True), ((BallotFile, "join"), False)],
    ids=["promoted", "failed at its rows", "failed at its ballot"],
)
async def test_a_promotion_that_is_killed_anywhere_has_all_or_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[Step, bool] | None
) -> None:
    pictures, filled = Pictures(tmp_path), list[Any]()
    fill = ReplicaFiles.fill

    def noted(files: ReplicaFiles, *arguments: Any) -> Any:
        filled.append(arguments)
        return fill(files, *arguments)

    async with orphan() as clone:
        with monkeypatch.context() as patch:
            patch.setattr(ReplicaFiles, "fill", noted)
            if failing is not None:
                fail_once(patch, failing[0], is_done=failing[1])
            pictures.watch(patch)
            try:
                await clone.promote(Backend.SQLite, path=pictures.folder / "s.db")
            except BackendFailure:
                assert failing is not None
    founding, _, promises = filled[0]
    states = [is_complete(picture / "s.db") for picture in pictures.taken]
    assert len(states) > 20
    assert {*states} == {False, True}
    if failing is None:
        assert states == sorted(states), "what has all keeps it"
    for picture, had_all in zip(pictures.taken, states, strict=True):
        if not had_all:
            with closing(ReplicaFiles("s", {"path": picture / "s.db"}, is_renamed=True)) as files:
                files.fill(*filled[0])
        beginning, count = opened(picture / "s.db")
        assert (beginning.group, count) == (founding.group, COUNT)
        assert beginning.stored.promises.term >= promises.term
        assert beginning.stored.promises.member == promises.member


async def test_a_file_that_was_not_filled_leads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with orphan() as clone:
        member = clone.part.core.member
        assert member is not None
        with closing(ReplicaFiles("s", {"path": path}, is_renamed=True)) as files:
            files.load(FOUNDING)
        with closing(BallotFile(PrivateMedium(f"{path}{SUFFIX}"))) as ballot:
            ballot.load()
            ballot.save(member.ballot.promises)
        async with Endpoint() as endpoint:
            with pytest.raises(BackendFailure, match="promote to it again, or remove it"):
                await endpoint.attach_master("s", Backend.SQLite, path=path)
        await clone.promote(Backend.SQLite, path=path)
        assert len(await clone.keys()) == COUNT


async def test_a_file_that_took_the_place_of_a_promoted_one_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "s.db", tmp_path / "other"
    other.write_bytes(b"of a person")
    persist = SQLiteReplica.persist

    def replaced(rows: SQLiteReplica, *arguments: Any, **options: Any) -> None:
        other.replace(path)
        persist(rows, *arguments, **options)

    async with orphan() as clone:
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteReplica, "persist", replaced)
            with pytest.raises(BackendFailure, match="was replaced while it was in use"):
                await clone.promote(Backend.SQLite, path=path)
    assert path.read_bytes() == b"of a person"


async def test_a_master_that_is_killed_while_it_takes_over_is_no_learner_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = Pictures(tmp_path)
    async with two_endpoints() as pair:
        await pair.join()
        first, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        for number in range(COUNT):
            await (await first.put(number, "value")).applied()
        assert await clone.await_idle(timeout=limit())
        await first.close()
        with monkeypatch.context() as patch:
            pictures.watch(patch)
            await pair.left.attach_master("s", Backend.SQLite, path=pictures.folder / "s.db")

    def names_another(picture: Path) -> bool:
        """Tell whether the one voter is the first master still: what changes that is not there."""
        if not (picture / "s.db").exists():
            return False
        stored = opened(picture / "s.db")[0].stored
        voters = latest_voters(stored.voters, stored.entries)
        return len(voters) == 1 and stored.promises.member not in voters

    picture = next(filter(names_another, pictures.taken))
    async with Endpoint() as endpoint:
        with pytest.raises(ReplicaRegressed, match="ended while it took over what a clone had"):
            await endpoint.attach_master("s", Backend.SQLite, path=picture / "s.db")
        told = await endpoint.attach_master("s", Backend.SQLite, path=picture / "s.db", fresh=True)
        assert len(await told.keys()) == COUNT
