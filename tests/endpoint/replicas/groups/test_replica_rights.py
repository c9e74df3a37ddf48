"""Who may have a replica, and under which name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from endpoint import Endpoint
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from stores.group.codec import GroupCodec
from stores.group.positions import MemberId
from stores.group.words import Greeting
from stores.table.codec import TableCodec
from wire.errors import NoQuorum, NotAllowed
from wire.topics import group_topic

SECRET = ClusterSecret.generate()


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


async def test_a_replica_needs_the_right_to_vote_or_to_lead() -> None:
    every = {"relay": True, "publish": [""], "subscribe": [""]}
    reading = {"read": ["*"], "write": ["*"]}
    for rights, may in ((reading, False), ({"vote": ["*"]}, True), ({"lead": ["*"]}, True)):
        roles = {"names": {"a": "some"}, "roles": {"some": {**every, **rights}}}
        with trio.fail_after(limit()):
            async with Endpoint(name="a", credentials=called("a"), roles=roles) as endpoint:
                if may:
                    store = await endpoint.attach_replica("s", voters=("a",))
                    assert await store.await_leader(limit()) == "a"
                else:
                    with pytest.raises(NotAllowed, match="may not vote s"):
                        await endpoint.attach_replica("s", voters=("a",))


async def test_a_name_that_a_certificate_does_not_prove_is_no_voter() -> None:
    greeting = Greeting(("a", "b"), is_question=False)
    forged = GroupCodec(TableCodec()).encode(MemberId("b", 1), None, greeting)
    with trio.fail_after(limit()):
        async with (
            Endpoint(name="a", credentials=called("a")) as first,
            Endpoint(name="b", credentials=called("x")) as liar,
            Endpoint(name="b", credentials=called("b")) as second,
        ):
            port = await first.listen()
            store = await first.attach_replica("s", voters=("a", "b"))
            assert await liar.peer("127.0.0.1", port, timeout=limit())
            for payload in forged:
                liar.loop.send_command(group_topic("s"), first.node_id(), payload)
            with pytest.raises(NoQuorum, match="no answer of b"):
                await store.await_leader(1)
            await second.attach_replica("s", voters=("a", "b"))
            assert await second.peer("127.0.0.1", port, timeout=limit())
            assert await store.await_leader(limit()) in "ab"
            await (await store.put("k", 1)).applied()
