"""Who may have a replica of a log, append to it, and say what it keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from endpoint import Endpoint
from handshake.credentials import Credentials
from handshake.roles import Roles
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from wire.errors import NoQuorum, NotAllowed

SECRET = ClusterSecret.generate()
RELAYING = {"relay": True, "publish": [""], "subscribe": [""]}
ROLES = {
    "names": {**dict.fromkeys("abc", "voter"), "reader": "reader", "writer": "writer"},
    "default": "nobody",
    "roles": {
        "voter": {**RELAYING, "vote": ["l"]},
        "reader": {"read": ["l"]},
        "writer": {"read": ["l"], "write": ["l"]},
        "nobody": {},
        "demoted": {**RELAYING, "read": ["l"]},
    },
}


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


@asynccontextmanager
async def open_voters(open_logs: Callable) -> AsyncIterator:
    async with open_logs(names=()) as group:
        for name in "abc":
            await group.start(name, credentials=called(name), roles=ROLES)
        yield group


async def learn(group, name: str):
    """Start a learner whose endpoint knows nothing of its limits."""
    return await group.learn(name, credentials=called(name), forwarding=False)


async def test_a_voter_of_a_log_needs_the_right_to_vote() -> None:
    roles = {"names": {"a": "some"}, "roles": {"some": {"read": ["*"], "write": ["*"]}}}
    async with Endpoint(name="a", credentials=called("a"), roles=roles) as endpoint:
        with pytest.raises(NotAllowed, match="may not vote l"):
            await endpoint.attach_log_replica("l", voters=("a",))
    roles = {"names": {"a": "some"}, "roles": {"some": {"write": ["*"]}}}
    async with Endpoint(name="a", credentials=called("a"), roles=roles) as endpoint:
        with pytest.raises(NotAllowed, match="may not read l"):
            await endpoint.attach_log_replica("l")


async def test_a_learner_reads_and_appends_as_its_role_says(logs) -> None:
    async with open_voters(logs.open) as group:
        await (await group["a"].append(1, partition=0)).applied()
        reader, writer = await learn(group, "reader"), await learn(group, "writer")
        assert await writer.await_leader(limit()) in "abc"
        await (await writer.append(2, partition=0)).applied()
        await reader.catch_up(limit())
        assert [entry.value for entry in await reader.read(0, 0)] == [1, 2]
        for _ in range(3):
            refused = await reader.append(3, partition=0)
            with pytest.raises(NotAllowed, match=r"'reader' \(role reader\) may not write l"):
                await refused.applied()
        refused = await reader.commit("worker", {0: 1})
        with pytest.raises(NotAllowed):
            await refused.applied()
        for log in (reader, writer):
            with pytest.raises(NotAllowed, match="may not vote l"):
                await log.set_retention(keep_count=1)
            with pytest.raises(NotAllowed, match="may not vote l"):
                await log.set_quota(max_entries=1)
        await (await writer.append(4, partition=0)).applied()


async def test_who_may_not_read_has_no_copy(logs) -> None:
    async with open_voters(logs.open) as group:
        await (await group["a"].append(1, partition=0)).applied()
        log = await learn(group, "stranger")
        with pytest.raises((NotAllowed, NoQuorum)):
            await log.await_leader(1)
        assert log.statistics().entries == 0


async def test_a_voter_that_is_one_no_more_is_not_heard_and_the_others_go_on(logs) -> None:
    async with open_voters(logs.open) as group:
        leader = await group.await_leader()
        roles = Roles.of({**ROLES, "names": {**ROLES["names"], leader: "demoted"}})
        others = [name for name in "abc" if name != leader]
        for name in others:
            endpoint = group.lives[name].endpoint
            endpoint.loop.apply(endpoint.loop.core.set_roles(roles))
        with trio.fail_after(limit()):
            while True:
                receipt = await group[others[0]].append("on", partition=0)
                try:
                    await receipt.applied()
                    break
                except NoQuorum:
                    continue
        await logs.until(lambda: group[others[0]].leader() in others)
        with pytest.raises((NotAllowed, NoQuorum)):
            await (await group[leader].append("alone", partition=0)).applied()
