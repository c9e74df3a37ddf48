"""Hostile peers and stores: lies about numbers, unasked answers, commands out of place."""

from __future__ import annotations

from peermesh.testing.hostile import HostilePeer
from peermesh.testing.time_limits import limit
from stores.group.codec import GroupCodec
from stores.group.messages import Message, SnapshotPart
from stores.group.positions import MemberId
from stores.group.words import OUTSIDE, Answered, Ask, Word
from stores.log.codec import LogCodec
from stores.log.limits import OFFSET_END
from stores.log.messages import Fetch, TimeQuery
from stores.table.codec import TableCodec
from tests.stores.replica.lies import FAR, answers, questions
from wire.identifiers import EndpointId, EntityId
from wire.messages import PackedType, Ping, Pong
from wire.topics import group_topic, log_group_topic

CODEC = GroupCodec(TableCodec())
TOPIC = group_topic("some")
LOG_CODEC = GroupCodec(LogCodec())
LOG_TOPIC = log_group_topic("some")


def letters(
    own: MemberId,
    groups: list[bytes | None],
    said: list[Message | Word],
    codec: GroupCodec = CODEC,
) -> list[bytes]:
    return [
        payload
        for group in groups
        for content in said
        for payload in codec.encode(own, group, content)
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
        siege.friend.attach_log_clone("some") as clone,
    ):
        await (await log.append("honest")).applied()
        assert await clone.await_idle(timeout=limit())
        core, own = log.part.core, MemberId("x", FAR)
        groups = [core.group, None, b"h" * 16]
        async with kit.raw(siege.hub, siege.port) as raw:
            me = EntityId(raw.local, 1)
            lies = [*questions(me, core.epoch, FAR), *answers(own, core.epoch - 1, FAR)]
            said = [word for word in lies if not isinstance(word, (Ask, Answered, SnapshotPart))]
            far = [Fetch(1, ((1_000, OFFSET_END - 1),), FAR, FAR), TimeQuery(2, FAR)]
            said += [Ask(number, each) for number, each in enumerate(far)]
            payloads = [
                *letters(own, groups, said, LOG_CODEC),
                *letters(OUTSIDE, groups, said, LOG_CODEC),
            ]
            asks = [Ask(number, Fetch(number, ((0, 9),), 1, FAR)) for number in range(10, 10_000)]
            payloads += letters(OUTSIDE, [core.group], asks, LOG_CODEC)
            await say_all(raw, LOG_TOPIC, payloads, siege.hub.node_id())
            await say_all(raw, LOG_TOPIC, payloads, siege.friend.node_id())
            for number in range(5):
                position = await (await log.append(number)).applied()
                assert position.offset == number + 1
            assert await clone.await_idle(timeout=limit())
            assert [each.value for each in await clone.read(0, 0)] == ["honest", *range(5)]
        await siege.check()
