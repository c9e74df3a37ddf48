"""A log's keeper or follower is killed while it comes to lead: the next start completes that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.files import LogReplicaFiles
from endpoint.replicas.logs.log import Log
from peermesh.testing.time_limits import limit
from stores.disk.ballot import SUFFIX, BallotFile
from stores.disk.medium import PrivateMedium
from stores.group.entries import latest_voters
from stores.group.member_parts import Stored
from stores.group.terms import begin_of
from tests.endpoint.gates import FOUNDING
from tests.endpoint.replicas.pictures import Pictures
from tests.endpoint.replicas.stores.test_promotion import Pair, two_endpoints
from tests.endpoint.replicas.test_lost_ballots import lose_ballot
from wire.errors import ReplicaRegressed

COUNT = 300
"""Entries: more than one message has for a member that catches up, so that a part may have come."""

ALL = list(range(COUNT))
KEEPER, COPY = "keeper.db", "copy.db"


@asynccontextmanager
async def left_behind(pictures: Pictures) -> AsyncIterator[tuple[Pair, Log]]:
    """Give a follower that has all of a log whose keeper is gone with what it had."""
    async with two_endpoints() as pair:
        await pair.join()
        first = await pair.left.attach_log("s")
        path = pictures.folder / COPY
        copy = await pair.right.attach_log_clone("s", Backend.SQLite, path=path)
        for number in ALL[:-1]:
            await first.append(number)
            await trio.lowlevel.checkpoint()
        await (await first.append(ALL[-1])).applied()
        assert await copy.await_idle(timeout=limit())
        await copy.close()  # All of it is in the file then.
        await first.close()
        yield pair, await pair.right.attach_log_clone("s", Backend.SQLite, path=path)


def stored(path: Path) -> Stored | None:
    """Give what is in a file; ``None`` if there is none."""
    if not path.exists():
        return None
    with closing(LogReplicaFiles("s", {"path": path}, is_renamed=True)) as files:
        return files.load(FOUNDING).beginning.stored


def names_another(found: Stored | None) -> bool:
    """Tell whether a file looks like a follower's."""
    voters = () if found is None else latest_voters(found.voters, found.entries)
    return found is not None and bool(voters) and found.promises.member not in voters


def distinct(pictures: Pictures, name: str) -> dict[Path, Stored | None]:
    """Give one picture for each state in which a file was."""
    seen: dict[str, tuple[Path, Stored | None]] = {}
    for picture in pictures.taken:
        found = stored(picture / name)
        seen.setdefault(repr(found), (picture, found))
    return dict(seen.values())


async def states_of_a_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[Path, Stored | None]:
    """Have a keeper with a new file take over what a follower has, and give its file's states."""
    pictures = Pictures(tmp_path)
    async with left_behind(pictures) as (pair, _):
        with monkeypatch.context() as patch:
            pictures.watch(patch)
            path = pictures.folder / KEEPER
            await pair.left.attach_log("s", backend=Backend.SQLite, path=path)
    return distinct(pictures, KEEPER)


async def values(log: Log) -> list[object]:
    return [entry.value for entry in await log.read(0, 0)]


async def test_a_keeper_that_is_killed_while_it_takes_over_does_so_at_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = await states_of_a_takeover(tmp_path, monkeypatch)
    assert any(map(names_another, states.values()))
    for picture in states:
        async with two_endpoints() as pair:
            await pair.join()
            await pair.right.attach_log_clone("s", Backend.SQLite, path=picture / COPY)
            await pair.left.await_peer(pair.right.node_id())
            path = picture / KEEPER
            keeper = await pair.left.attach_log("s", backend=Backend.SQLite, path=path)
            assert await values(keeper) == ALL


async def test_a_keeper_that_took_over_a_part_does_not_lead_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for picture, found in (await states_of_a_takeover(tmp_path, monkeypatch)).items():
        path = picture / KEEPER
        async with Endpoint() as alone:
            try:
                keeper = await alone.attach_log("s", backend=Backend.SQLite, path=path)
            except ReplicaRegressed:
                assert found is not None
                assert not found.promises.is_whole
                await alone.attach_log("s", backend=Backend.SQLite, path=path, fresh=True)
            else:
                assert not names_another(found)
                assert await values(keeper) in ([], ALL)


async def test_a_follower_that_is_killed_while_it_is_promoted_leads_or_follows_as_it_is_started(
    tmp_path: Path,
) -> None:
    pictures = Pictures(tmp_path)
    async with left_behind(pictures) as (_, copy):
        await copy.close()
    path = pictures.folder / COPY
    with closing(BallotFile(PrivateMedium(f"{path}{SUFFIX}"))) as ballot:
        found = ballot.load()
        assert found is not None
        # It is saved before the journal is written, or behind it.
        member = found.promises.member
        ballot.save(replace(found.promises, term=begin_of(1), vote=member))
    assert names_another(stored(path))
    async with Endpoint() as endpoint:
        async with await endpoint.attach_log_clone("s", Backend.SQLite, path=path) as again:
            known = await values(again)  # Of the last ones it has yet to hear that they count.
            assert known == ALL[: len(known)]
        keeper = await endpoint.attach_log("s", backend=Backend.SQLite, path=path)
        assert await values(keeper) == ALL


async def test_a_keeper_that_is_killed_as_it_gets_another_ballot_leads_with_its_file(
    tmp_path: Path,
) -> None:
    pictures = Pictures(tmp_path)
    async with left_behind(pictures) as (_, copy):
        await copy.close()
    path = pictures.folder / COPY
    lose_ballot(path)
    with closing(BallotFile(PrivateMedium(f"{path}{SUFFIX}"))) as ballot:
        ballot.create(FOUNDING.member, copy.part.core.group)  # As fresh=True does.
    async with Endpoint() as endpoint:
        keeper = await endpoint.attach_log("s", backend=Backend.SQLite, path=path)
        assert await values(keeper) == ALL
