"""Hostile peers and stores: lies about numbers, unasked answers, commands out of place."""

from __future__ import annotations

import pytest

from peermesh.testing.hostile import HostilePeer
from peermesh.testing.time_limits import limit
from stores.actions import WriterId
from stores.commands import (
    AckCloneCommand,
    Actions,
    BarrierAnswerCommand,
    Content,
    CumulativeAckCommand,
    DetachCommand,
    HandshakeRequestCommand,
    HistoryRequestCommand,
    InternalCommand,
    KeepaliveCommand,
    MasterClosedCommand,
    NackCommand,
    ProclaimCommand,
    RetransmitFailedCommand,
    SnapshotChunkCommand,
    SnapshotRequestCommand,
    UnknownConsumerCommand,
)
from stores.encoding import encode_command
from stores.log.encoding import encode_message
from stores.log.limits import FETCHES_MAX, OFFSET_END
from stores.log.messages import Admitted, Fetch, Fetched, Hello, Join, Proclaim
from stores.snapshots import Chunk
from wire.encoding import encode
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId
from wire.messages import PackedType, Ping, Pong
from wire.topics import log_topics, store_topics

FAR = 2**62
TO_MASTER, TO_CLONES = store_topics("some")


def questions(sender: EntityId) -> list[Content]:
    """Give what a clone or writer asks, made nonsense of."""
    writer = WriterId.of(sender, 1)
    return [
        HandshakeRequestCommand(writer, FAR),
        HandshakeRequestCommand(writer),
        CumulativeAckCommand(),
        NackCommand((FAR, FAR + 1)),
        NackCommand((1, 2, 3)),
        SnapshotRequestCommand(tuple(range(10**6, 10**6 + 8))),
        HistoryRequestCommand(0, FAR),
    ]


def answers() -> list[Content]:
    """Give what a master says, and what one says that takes over.

    Whoever may send commands to a store may lead it, so that these are lies in another's name only.
    """
    chunk = Chunk(0, False, [encode("k"), encode("forged")], [FAR], [])
    return [
        KeepaliveCommand(is_urgent=True),
        RetransmitFailedCommand(),
        UnknownConsumerCommand(),
        AckCloneCommand(5, FAR, 0, (), 0, chunk),
        SnapshotChunkCommand(chunk),
        BarrierAnswerCommand(7),
        Actions([b"no action"]),
        MasterClosedCommand(ErrorCode.UNSPECIFIED, "no more"),
        ProclaimCommand(),
        DetachCommand(),
    ]


def commands(sender: EntityId, contents: list[Content], *epochs: int | None) -> list[bytes]:
    """Write them with all sorts of numbers, of these epochs.

    An epoch beyond the master's says that somebody else leads, which who may send commands may say.
    """
    return [
        encode_command(InternalCommand(sequence, sender, session, epoch, content))
        for content in contents
        for sequence in (0, 1, FAR)
        for session in (None, 1)
        for epoch in epochs
    ]


async def say_all(raw: HostilePeer, topic: str, payloads: list[bytes], to: EndpointId) -> None:
    for at in range(0, len(payloads), 50):
        some = payloads[at : at + 50]
        await raw.send(raw.node(topic, *some, to=to, kind=PackedType.COMMAND))
    await raw.send(Ping(1, 0))
    assert await raw.receive_some(Pong) is not None


@pytest.mark.parametrize("is_spoofed", [False, True], ids=["in its own name", "in another's"])
async def test_lies_about_a_store_lead_nowhere_and_honest_replicas_agree(kit, is_spoofed) -> None:
    async with (
        kit.besieged() as siege,
        siege.hub.attach_master("some") as master,
        siege.friend.attach_clone("some") as clone,
    ):
        await (await master.put("k", "honest")).applied()
        assert await clone.await_idle(timeout=limit())
        async with kit.raw(siege.hub, siege.port) as raw:
            clone_id = master_id = EntityId(raw.local, 1)
            epochs, lies = (None, 1), []
            if is_spoofed:
                clone_id, master_id = clone.runner.core.entity, master.runner.core.entity
                epochs, lies = (None, 1, FAR), answers()
            to_master = commands(clone_id, questions(clone_id) + lies, *epochs)
            to_clone = commands(master_id, questions(master_id) + lies, *epochs)
            await say_all(raw, TO_MASTER, to_master, siege.hub.node_id())
            await say_all(raw, TO_CLONES, to_clone, siege.friend.node_id())
            for number in range(20):
                receipt = await (master if number % 2 else clone).put("k", number)
                await receipt.applied()
            assert await clone.await_idle(timeout=limit())
            assert await clone.get("k") == await master.get("k") == 19
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
                Join(FAR, FAR, FAR, (OFFSET_END - 1,), FAR),
                Join(1, 1, 1, (0,) * 1_000, 0),
                Fetch(1, ((1_000, OFFSET_END - 1),), FAR, FAR),
                Fetched(1, (), (), ()),
                Admitted(FAR, 1, FAR, 1, FAR, (0,), (0,), (0,), (), True, ()),
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
