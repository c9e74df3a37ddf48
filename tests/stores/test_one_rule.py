"""Readers of stores and of logs follow by one rule: the same leader, with the same doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from stores.effects import MasterFound, MasterLost, SecondMaster
from stores.group.codec import GroupCodec
from stores.group.positions import MemberId
from stores.group.words import Leads
from stores.log.codec import LogCodec
from stores.replica.logs.outside import LogProxy
from stores.replica.tables.outside import TableProxy
from stores.seeker import HEARTBEAT_TICKS, RIVAL_COUNT
from stores.table.codec import TableCodec
from wire.identifiers import EndpointId, EntityId

READER: Final = EntityId(EndpointId(b"r" * 16), 0)
LOW: Final = EntityId(EndpointId(b"a" * 16), 0)
HIGH: Final = EntityId(EndpointId(b"b" * 16), 0)
CODEC: Final = GroupCodec(TableCodec())
LOG_CODEC: Final = GroupCodec(LogCodec())
BEFORE: Final = 1
AFTER: Final = 2

Reader = TableProxy | LogProxy


def welcome_of(reader: Reader, leader: EntityId, epoch: int) -> bytes:
    """Give what a leader answers when it takes such a reader in."""
    (payload,) = CODEC.encode(MemberId("m", 1), b"g" * 16, Leads(1, epoch))
    return payload


def hear(reader: Reader, leader: EntityId, epoch: int) -> list[object]:
    """Have a leader take the reader in, and give what the reader tells of leaders."""
    effects = reader.receive(leader.endpoint, welcome_of(reader, leader, epoch))
    return [each for each in effects if isinstance(each, MasterFound | MasterLost | SecondMaster)]


@pytest.fixture(
    params=[
        lambda: TableProxy(READER, CODEC, 1, 1_200),
        lambda: LogProxy(READER, LOG_CODEC, 1, 1_200),
    ],
    ids=["proxy of a store", "reader of a log"],
)
def reader(request: pytest.FixtureRequest) -> Reader:
    make: Callable[[], Reader] = request.param
    made = make()
    made.start()
    return made


def test_of_two_leaders_of_one_epoch_every_reader_follows_the_higher_entity(
    reader: Reader,
) -> None:
    hear(reader, LOW, AFTER)
    assert hear(reader, HIGH, AFTER)[-1] == MasterFound(HIGH, AFTER)
    assert not [each for each in hear(reader, LOW, AFTER) if isinstance(each, MasterFound)]


def test_no_reader_takes_late_messages_of_the_last_leader_for_a_rival(reader: Reader) -> None:
    hear(reader, HIGH, AFTER)
    for _ in range(10 * RIVAL_COUNT):
        assert hear(reader, LOW, BEFORE) == []


def test_every_reader_tells_once_of_a_rival_that_goes_on_speaking(reader: Reader) -> None:
    hear(reader, HIGH, AFTER)
    told = []
    for _ in range(3 * RIVAL_COUNT):
        told += hear(reader, LOW, BEFORE)
        for _ in range(HEARTBEAT_TICKS):
            reader.tick(1)
        hear(reader, HIGH, AFTER)
    assert told == [SecondMaster(LOW, BEFORE)]


def test_every_reader_says_that_its_leader_was_replaced(reader: Reader) -> None:
    hear(reader, LOW, BEFORE)
    assert hear(reader, HIGH, AFTER) == [
        MasterLost(LOW, f"the master at {HIGH} took over"),
        MasterFound(HIGH, AFTER),
    ]
