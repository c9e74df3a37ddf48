"""Letters of masters and clones: read, written again, and taken in by a master and a clone."""

from __future__ import annotations

from collections.abc import Iterator

from stores.group.codec import GroupCodec
from stores.group.positions import MemberId
from stores.group.words import Answered
from stores.questions import ReadAnswerCommand
from stores.quota import STORE_QUOTA
from stores.replica.beginning import Beginning, World
from stores.replica.roster import Roster
from stores.replica.tables.core import TableCore
from stores.table.bodies import Found, Stamp
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from stores.table.rows import Rows
from tests.fuzz.pair import TICK_NS, TO_CLONE, Pair
from wire.encoding import encode
from wire.identifiers import EntityId

CODEC = GroupCodec(TableCodec())


def _make(entity: EntityId, roster: Roster, beginning: Beginning, world: World) -> TableCore:
    return TableCore(entity, roster, TableMachine("store s", STORE_QUOTA), CODEC, beginning, world)


def check(data: bytes) -> None:
    """Feed a master and a clone."""
    pair = Pair(CODEC, _make)
    for _ in pair.feed(data):
        for core in (pair.master, pair.clone):
            assert core.revision >= 0
            assert all(core.machine.get(key) is not None for key in core.machine)


def seeds() -> Iterator[bytes]:
    """Give a conversation of a master and a clone that writes, its letters, and a page of rows."""
    pair = Pair(CODEC, _make)
    pair.begin()
    requests, key = pair.clone.requests, encode("k")
    requests.put(key, encode(1))
    requests.put_unique(encode("u"), encode(2), 5 * TICK_NS)
    requests.subtract(key, encode(1))
    requests.erase(encode("u"))
    requests.clear()
    pair.converse(12)
    yield from pair.seeds()
    rows = Rows([key, encode("u")], [encode(1), encode("two")], [3, 4], [None, 5])
    page = Answered(1, Found(Stamp(1, 4), ReadAnswerCommand(1, rows, b"next")))
    for letter in CODEC.encode(MemberId("m", 1), bytes(16), page):
        yield bytes((TO_CLONE,)) + len(letter).to_bytes(2) + letter
