"""Readers of stores and of logs follow by one rule: the same leader, with the same doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from stores import commands
from stores.clone import Clone
from stores.effects import MasterFound, MasterLost, SecondMaster, Unicast
from stores.encoding import encode_command
from stores.epochs import promoted, started_at
from stores.log.effects import LogEffect
from stores.log.encoding import encode_message
from stores.log.messages import Welcome
from stores.log.proxy import Proxy as LogProxy
from stores.proxy import Proxy
from stores.seeker import HEARTBEAT_TICKS, RIVAL_COUNT
from stores.snapshots import Chunk
from wire.identifiers import EndpointId, EntityId

READER: Final = EntityId(EndpointId(b"r" * 16), 1)
LOW: Final = EntityId(EndpointId(b"a" * 16), 1)
HIGH: Final = EntityId(EndpointId(b"b" * 16), 1)
BEFORE: Final = started_at(10**18)
AFTER: Final = started_at(2 * 10**18)

Reader = Clone | Proxy | LogProxy


def welcome_of(reader: Reader, leader: EntityId, epoch: int) -> bytes:
    """Give what a leader answers when it takes such a reader in."""
    content: commands.Content
    if isinstance(reader, LogProxy):
        return encode_message(leader, Welcome(epoch, 1, 7, 1, 0, 0, ()))
    if isinstance(reader, Clone):
        content = commands.AckCloneCommand(5, 0, 0, (), 0, Chunk(0, True, [], [], []))
    else:
        content = commands.OutcomesCommand(1, 0, 0, ())
    return encode_command(commands.InternalCommand(0, leader, None, epoch, content))


def hear(reader: Reader, leader: EntityId, epoch: int) -> list[LogEffect]:
    """Have a leader take the reader in, and give what the reader tells of leaders."""
    effects = reader.receive(leader.endpoint, welcome_of(reader, leader, epoch), 1)
    return [each for each in effects if isinstance(each, MasterFound | MasterLost | SecondMaster)]


@pytest.fixture(
    params=[
        lambda: Clone(READER, 1),
        lambda: Proxy(READER, 1, 1_200),
        lambda: LogProxy(READER, 1, None),
    ],
    ids=["clone", "proxy", "reader of a log"],
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


def test_every_reader_tells_a_leader_of_an_earlier_term_that_it_is_deposed(reader: Reader) -> None:
    hear(reader, HIGH, promoted(BEFORE, 0))
    effects = reader.receive(LOW.endpoint, welcome_of(reader, LOW, AFTER), 1)
    assert [each.to for each in effects if isinstance(each, Unicast)] == [LOW.endpoint]


def test_every_reader_says_that_its_leader_was_replaced(reader: Reader) -> None:
    hear(reader, LOW, BEFORE)
    assert hear(reader, HIGH, AFTER) == [
        MasterLost(LOW, f"the master at {HIGH} took over"),
        MasterFound(HIGH, AFTER),
    ]
