"""Hostile peers and stores: lies about numbers, unasked answers, commands out of place."""

from __future__ import annotations

from peermesh.testing.hostile import HostilePeer
from peermesh.testing.time_limits import limit
from stores.actions import WriterId
from stores.group.codec import GroupCodec
from stores.group.messages import (
    Message,
)
from stores.group.positions import MemberId
from stores.group.words import (
    OUTSIDE,
    Word,
)
from stores.log import messages as log_messages
from stores.log.encoding import encode_message
from stores.log.limits import FETCHES_MAX, OFFSET_END
from stores.log.messages import Fetch, Fetched, Hello, Proclaim
from stores.table.codec import TableCodec
from tests.stores.replica.lies import FAR, answers, questions
from wire.identifiers import EndpointId, EntityId
from wire.messages import PackedType, Ping, Pong
from wire.topics import group_topic, log_topics

CODEC = GroupCodec(TableCodec())
TOPIC = group_topic("some")


def letters(own: MemberId, groups: list[bytes | None], said: list[Message | Word]) -> list[bytes]:
    return [
        payload
        for group in groups
        for content in said
        for payload in CODEC.encode(own, group, content)
    ]


async def say_all(raw: HostilePeer, topic: str, payloads: list[bytes], to: EndpointId) -> None:
    for at in range(0, len(payloads), 50):
        some = payloads[at : at + 50]
        await raw.send(raw.node(topic, *some, to=to, kind=PackedType.COMMAND))
    await raw.send(Ping(1, 0))
    assert await raw.receive_some(Pong) is not None


async def test_lies_about_a_store_lead_nowhere_and_honest_replicas_agree(kit) -> None:
    async with (
        kit.besieged() as siege,
        siege.hub.attach_master("some") as master,
        siege.friend.attach_clone("some") as clone,
    ):
        await (await master.put("k", "honest")).applied()
        assert await clone.await_idle(timeout=limit())
        core = master.part.core
        groups, own = [core.group, None, b"h" * 16], MemberId("x", FAR)
        async with kit.raw(siege.hub, siege.port) as raw:
            asked = [
                *questions(EntityId(raw.local, 1), core.epoch, FAR),
                *questions(EntityId(raw.local, 1), core.epoch - 1, FAR),
                *answers(own, core.epoch - 1, FAR),
            ]
            said = [*letters(own, groups, asked), *letters(OUTSIDE, groups, asked)]
            await say_all(raw, TOPIC, said, siege.hub.node_id())
            await say_all(raw, TOPIC, said, siege.friend.node_id())
            for number in range(20):
                receipt = await (master if number % 2 else clone).put("k", number)
                await receipt.applied()
            assert await clone.await_idle(timeout=limit())
            assert await clone.get("k") == await master.get("k") == 19
            assert await clone.verify(timeout=limit())
        await siege.check()


async def test_a_log_is_asked_for_nonsense_and_without_end(kit) -> None:
    async with (
        kit.besieged() as siege,
        siege.hub.attach_log("some") as log,
    ):
        await (await log.append("honest")).applied()
        keeper = log_topics("some")[0]
        async with kit.raw(siege.hub, siege.port) as raw:
            me = EntityId(raw.local, 1)
            writer = WriterId.of(me, 1)
            words = [
                Hello(FAR, 1, writer, FAR),
                log_messages.Join(FAR, FAR, FAR, (OFFSET_END - 1,), FAR),
                log_messages.Join(1, 1, 1, (0,) * 1_000, 0),
                Fetch(1, ((1_000, OFFSET_END - 1),), FAR, FAR),
                Fetched(1, (), (), ()),
                log_messages.Admitted(FAR, 1, FAR, 1, FAR, (0,), (0,), (0,), (), True, ()),
                Proclaim(1),
            ]
            waiting = [Fetch(number, ((0, 1),), 1, FAR) for number in range(2 * FETCHES_MAX)]
            said = [encode_message(me, word) for word in (*words, *waiting)]
            await say_all(raw, keeper, said, siege.hub.node_id())
            assert len(log.part.core._readers._waiting) == FETCHES_MAX
            for number in range(5):
                position = await (await log.append(number)).applied()
                assert position.offset == number + 1
        await siege.check()
