"""Who may have a replica, and under which name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.guarding import LetterGate, Refusal
from handshake.access import Right
from handshake.credentials import Credentials
from handshake.roles import Rights, Roles
from handshake.secret import ClusterSecret
from peermesh.testing.relay import Passing, TwistingRelay
from peermesh.testing.time_limits import limit
from stores.effects import Unicast
from stores.group.codec import GroupCodec
from stores.group.messages import HigherTerm
from stores.group.positions import MemberId
from stores.group.rights import GroupGuard
from stores.group.words import Barred, Greeting, Letter
from stores.table.codec import TableCodec
from stores.table.rights import right_of
from wire.errors import NoQuorum, NotAllowed
from wire.identifiers import EndpointId
from wire.messages import PackedType
from wire.topics import group_topic

SECRET = ClusterSecret.generate()
VOTERS = ("a", "b", "c")
RELAYING = {"relay": True, "publish": [""], "subscribe": [""]}
ROLES = {
    "names": {**dict.fromkeys("abc", "voter"), "reader": "reader", "writer": "writer"},
    "default": "nobody",
    "roles": {
        "voter": {**RELAYING, "vote": ["s"]},
        "reader": {"read": ["s"]},
        "writer": {"read": ["s"], "write": ["s"]},
        "nobody": {},
        "demoted": {**RELAYING, "read": ["s"], "write": ["s"]},
    },
}


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


async def start_voters(group) -> None:
    for name in VOTERS:
        await group.start(name, credentials=called(name), roles=ROLES)


async def learn(group, name: str):
    """Start a learner whose endpoint knows nothing of its limits."""
    return await group.learn(name, credentials=called(name), forwarding=False)


def change_roles(group, names: str, **others: str) -> None:
    """Have endpoints go by other roles from now on."""
    roles = Roles.of({**ROLES, "names": {**ROLES["names"], **others}})
    for name in names:
        endpoint = group.lives[name].endpoint
        endpoint.loop.apply(endpoint.loop.core.set_roles(roles))


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


async def test_a_learner_reads_and_writes_as_its_role_says(groups) -> None:
    async with groups.open(names=()) as group:
        await start_voters(group)
        await (await group["a"].put("k", 1)).applied()
        reader, writer = await learn(group, "reader"), await learn(group, "writer")
        assert await writer.await_leader(limit()) in VOTERS
        await (await writer.put("k", 2)).applied()
        assert await reader.read("linear").get("k") == 2
        for number in range(3):
            refused = await reader.put("k", number)
            with pytest.raises(NotAllowed, match=r"'reader' \(role reader\) may not write s"):
                await refused.applied()
        await (await writer.put("k", 3)).applied()
        assert await reader.await_idle(timeout=limit())
        assert await reader.get("k") == 3
        assert {await group[name].read("linear").get("k") for name in VOTERS} == {3}


async def test_an_endpoint_that_may_not_read_learns_so_at_once(groups) -> None:
    async with groups.open(names=()) as group:
        await start_voters(group)
        await (await group["a"].put("k", 1)).applied()
        stranger = await learn(group, "stranger")
        with pytest.raises(NotAllowed, match=r"'stranger' \(role nobody\) may not read s"):
            await stranger.await_leader(limit())
        with pytest.raises(NotAllowed, match="may not read s"):
            await stranger.get("k")
        with pytest.raises(NotAllowed, match="may not read s"):
            await stranger.put("k", 2)
        assert not stranger.part.core.machine.size, "nothing was sent to it"


async def test_a_declared_voter_without_the_right_founds_nothing_and_learns_why(groups) -> None:
    async with groups.open(names=(), voters=("a", "reader")) as group:
        await group.start("a", credentials=called("a"), roles=ROLES)
        status = group.lives["a"].endpoint.subscribe_status()
        store = await group.start("reader", credentials=called("reader"), forwarding=False)
        with pytest.raises(NotAllowed, match=r"'reader' \(role reader\) may not vote s"):
            await store.await_leader(limit())
        refused = await store.put("k", 1)
        with pytest.raises(NotAllowed, match="may not vote s: it was not applied"):
            await refused.applied()
        with pytest.raises(NoQuorum, match="no answer of reader"):
            await group["a"].await_leader(1)
        while (await status.get()).status is not StatusCode.NOT_ALLOWED:
            pass


async def test_a_reader_neither_deposes_a_leader_nor_bars_a_voter(groups) -> None:
    async with groups.open(names=()) as group:
        await start_voters(group)
        leader = await group.await_leader()
        reader = await learn(group, "reader")
        await reader.await_leader(limit())
        core, there = reader.part.core, group.lives[leader].endpoint
        term = group[leader].statistics().epoch
        barring = [Barred(each, None, "no") for each in (Right.VOTE, Right.READ)]
        for content in (HigherTerm(term + 9), *barring):
            for payload in core.write(content):
                group.lives["reader"].endpoint.loop.send_command(
                    group_topic("s"), there.node_id(), payload
                )
        refusals = there.loop.core.authorisation.refusals
        before = refusals.total
        await groups.until(lambda: refusals.total >= before + 3)
        await (await group[leader].put("k", 1)).applied()
        assert group[leader].is_leader()
        assert group[leader].statistics().epoch == term
        assert group[leader].part.core.bar.text is None


async def test_a_leader_that_loses_the_right_to_vote_is_not_heard_until_it_has_it_again(
    groups,
) -> None:
    async with groups.open(names=()) as group:
        await start_voters(group)
        lost = await group.await_leader()
        await (await group[lost].put("k", 1)).applied()
        status = group.lives[lost].endpoint.subscribe_status()
        others = [name for name in VOTERS if name != lost]
        change_roles(group, "".join(others), **{lost: "demoted"})
        for name in others:
            await groups.until(lambda name=name: group[name].leader() in others)
        while (event := await status.get()).status is not StatusCode.NOT_ALLOWED:
            pass
        assert f"'{lost}' (role demoted) may not vote s" in event.reason
        await (await group[others[0]].put("k", 2)).applied()
        with pytest.raises(NotAllowed, match="may not vote s"):
            await group[lost].read("linear").get("k")
        change_roles(group, "".join(others))
        assert await group[lost].read("linear").get("k") == 2
        await (await group[lost].put("k", 3)).applied()


async def test_a_learner_that_loses_the_right_to_read_ends_and_says_why(groups) -> None:
    async with groups.open(names=()) as group:
        await start_voters(group)
        reader, writer = await learn(group, "reader"), await learn(group, "writer")
        await (await writer.put("k", 1)).applied()
        assert await reader.read("linear").get("k") == 1
        change_roles(group, "abc", reader="nobody")
        await groups.until(lambda: reader.runner.error is not None)
        with pytest.raises(NotAllowed, match=r"'reader' \(role nobody\) may not read s"):
            await reader.get("k")
        await (await writer.put("k", 2)).applied()
        assert reader.part.core.machine.revision == 1


class Told:
    """A replica that writes each word as the bytes of its name."""

    def __init__(self, content: object) -> None:
        self.letter = Letter(MemberId("d", 1), None, content)

    def read(self, payload: bytes) -> Letter:
        return self.letter

    def is_voter(self, member: MemberId) -> bool:
        return member.name == "a"

    def write(self, word: Barred) -> list[bytes]:
        return [word.right.encode()]


def test_a_refusal_is_answered_unless_it_is_one_itself() -> None:
    sender, guard = EndpointId(b"d" * 16), GroupGuard("s", "'d' (role some)", Rights(read=True))
    refused = LetterGate(sender, guard, Told(HigherTerm(9)), right_of).examine(b"")
    assert refused == Refusal("'d' (role some) may not vote s", (Unicast(sender, b"vote"),))
    again = Barred(Right.VOTE, None, "no")
    refused = LetterGate(sender, guard, Told(again), right_of).examine(b"")
    assert refused == Refusal("'d' (role some) may not vote s", ())


async def test_a_group_that_signs_agrees_over_a_relay_that_changes_letters(groups) -> None:
    count = 0

    def meddle(frame: Passing):
        nonlocal count
        count += 1
        if frame.header.type is PackedType.COMMAND and count % 3 == 0:
            body = bytearray(frame.payloads[0])
            body[len(body) // 2] ^= 1
            yield replace(frame, payloads=[bytes(body), *frame.payloads[1:]])
        yield frame

    with trio.fail_after(limit()):
        async with TwistingRelay(meddle, credentials=called("relay")) as relay:
            port = await relay.listen()
            async with groups.open(names=()) as group:
                for name in VOTERS:
                    endpoint = Endpoint(name=name, credentials=called(name), sign=True)
                    life = await group.adopt(name, endpoint)
                    assert await endpoint.peer("127.0.0.1", port, timeout=limit())
                    await group.attach(life, VOTERS)
                await group.await_leader()
                for name in VOTERS:
                    receipts = [await group[name].put((name, each), each) for each in range(30)]
                    for receipt in receipts:
                        await receipt.applied()
                for name in VOTERS:
                    assert len(await group[name].read("linear").keys()) == 90
                forged = [
                    group.lives[name].endpoint.statistics().messages_forged for name in VOTERS
                ]
                assert min(forged) > 0
