"""Letters of a log's replicas: read, written again, and taken in by a leader and a learner."""

from __future__ import annotations

from collections.abc import Iterator

from stores.group.codec import GroupCodec
from stores.log.bodies import ChangeRetention
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.log.partitions import Retention
from stores.quota import STORE_QUOTA
from stores.replica.beginning import Beginning, World
from stores.replica.logs.core import LogCore
from stores.replica.roster import Roster
from tests.fuzz.pair import Pair
from wire.encoding import encode
from wire.identifiers import EntityId

CODEC = GroupCodec(LogCodec())
SIZE_MAX = 1 << 20


def _make(entity: EntityId, roster: Roster, beginning: Beginning, world: World) -> LogCore:
    return LogCore(entity, roster, LogMachine("log l", 2, STORE_QUOTA), CODEC, beginning, world)


def check(data: bytes) -> None:
    """Feed a leader and a learner."""
    pair = Pair(CODEC, _make)
    for _ in pair.feed(data):
        for core in (pair.master, pair.clone):
            _check_state(core.machine)


def _check_state(machine: LogMachine) -> None:
    """See that partitions have all entries that they say they have."""
    for number, span in enumerate(machine.partitions.spans()):
        at = span.start
        assert at <= span.end
        while at < span.end:
            found = machine.read(number, at, SIZE_MAX)
            assert found[0].first_offset <= at < found[-1].end
            at = found[-1].end


def seeds() -> Iterator[bytes]:
    """Give a conversation of a leader and a learner that appends, and its letters one by one."""
    pair = Pair(CODEC, _make)
    pair.begin()
    requests, key = pair.clone.requests, encode("k")
    requests.append(0, (key, encode(1), None, encode(2)))
    requests.append(1, (None, encode("x")), "sensor", 4)
    requests.move_cursor("worker", ((0, 1),))
    requests.trim(0, 1)
    pair.converse(6)
    pair.carry(pair.clone.begin_ask(9, ChangeRetention(Retention(count=1))), 0)
    requests.forget_consumer("worker")
    pair.converse(6)
    yield from pair.seeds()
