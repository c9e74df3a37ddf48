"""Watches and events of a group's replicas: committed changes alone, under changing leaders."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from peermesh import Bookmark, Commit, Entry, Gap
from peermesh.testing.time_limits import limit
from stores.group.positions import Position
from stores.table import ChangeKind
from wire.errors import InvalidData


async def commits(watch, count: int) -> list[tuple[int, object, object]]:
    """Give so many commits of one key each: revision, key and value."""
    found = []
    while len(found) < count:
        item = await watch.get(timeout=limit())
        if isinstance(item, Bookmark):
            continue  # It is level for a moment.
        assert isinstance(item, Commit), item
        (change,) = item.changes
        found.append((item.revision, change.key, change.entry and change.entry.value))
    return found


async def beginning(watch) -> tuple[list[tuple[object, object]], Bookmark]:
    """Give what there is, and the mark behind it."""
    there = []
    while True:
        item = await watch.get(timeout=limit())
        if isinstance(item, Bookmark):
            return there, item
        assert isinstance(item, Entry), item
        there.append((item.key, item.value))


async def test_a_watch_goes_on_when_another_one_leads(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        follower, other = (name for name in "abc" if name != leader)
        await (await group[follower].put("k", 0)).applied()
        assert await group[follower].await_idle(timeout=limit())
        async with group[follower].watch() as watch:
            assert (await beginning(watch))[0] == [("k", 0)]
            for value in (1, 2):
                await (await group[other].put("k", value)).applied()
            before = await commits(watch, 2)
            await group.stop(leader)
            for value in (3, 4):
                await (await group[other].put("k", value)).applied()
            seen = before + await commits(watch, 2)
        assert [(key, value) for _, key, value in seen] == [("k", value) for value in (1, 2, 3, 4)]
        revisions = [revision for revision, _, _ in seen]
        assert revisions == sorted(set(revisions))


async def test_a_watch_of_one_replica_goes_on_at_another(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        first, second = (name for name in "abc" if name != leader)
        await (await group[first].put("k", 0)).applied()
        assert await group[first].await_idle(timeout=limit())
        async with group[first].watch(from_revision=1) as watch:
            while not isinstance(mark := await watch.get(timeout=limit()), Bookmark):
                pass
        assert mark.position is not None
        for value in (1, 2):
            await (await group[first].put("k", value)).applied()
        async with group[second].watch(after=mark) as watch:
            assert [value for _, _, value in await commits(watch, 2)] == [1, 2]
        await group[second].promote()
        await (await group[second].put("k", 2)).applied()
        # An entry that the former leader never had committed: the mark is of another history.
        stranger = Bookmark(mark.revision, Position(mark.position.term, mark.position.index + 100))
        async with group[second].watch(after=stranger) as watch:
            gap = await watch.get(timeout=limit())
            assert isinstance(gap, Gap)
            assert (gap.after, gap.reason) == (mark.revision, "it is of another history")
            assert (await beginning(watch))[0] == [("k", 2)]
        with pytest.raises(InvalidData, match="not both"):
            group[second].watch(after=mark, from_revision=1)


async def test_events_tell_what_was_and_who_changed_it(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        writer, reader = (name for name in "abc" if name != leader)
        with group[reader].events(prefix="k") as events:
            await group[writer].put("other", 0)
            for value in (1, 2):
                await group[writer].put("k", value)
            await (await group[writer].erase("k")).applied()
            seen = [await events.get(timeout=limit()) for _ in range(3)]
        assert [(each.kind, each.before, each.after) for each in seen] == [
            (ChangeKind.INSERT, None, 1),
            (ChangeKind.UPDATE, 1, 2),
            (ChangeKind.ERASE, 2, None),
        ]
        assert {each.writer for each in seen} == {group.lives[writer].endpoint.node_id()}
        await (await group[writer].put("k", 3)).applied()
        assert events.poll() == []


def seconds_of(expires_at: object) -> float:
    """Give a time of Unix; one with nanoseconds is no ``datetime``."""
    if isinstance(expires_at, datetime):
        return expires_at.timestamp()
    return expires_at.nanoseconds / 1e9


async def test_an_expiry_is_shown_as_a_time_of_day(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        follower = next(name for name in "abc" if name != leader)
        await (await group[follower].put("k", 1, expiry=3600)).applied()
        expected = time.time() + 3600
        for name in "abc":
            assert await group[name].await_idle(timeout=limit())
            entry = await group[name].read("linear").entry("k")
            assert abs(seconds_of(entry.expires_at) - expected) < 300
            (scanned,) = (await group[name].scan()).entries
            assert scanned.expires_at == entry.expires_at
            async with group[name].watch() as watch:
                assert (await watch.get(timeout=limit())).expires_at == entry.expires_at
