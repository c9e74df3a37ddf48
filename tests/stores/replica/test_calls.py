"""How much Python one put takes at a clone and its master: calls are counted, as times differ."""

from __future__ import annotations

import sys
from types import FrameType

from stores.effects import Multicast, Resolve, Unicast
from stores.group.codec import GroupCodec
from stores.replica.beginning import Beginning, World
from stores.replica.roster import Roster
from stores.replica.tables.core import TableCore
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from tests.fuzz.pair import CLONE, MASTER, TICK_NS, TO_CLONE, TO_MASTER, Pair
from wire.identifiers import EntityId

CALLS_MAX = 325
"""A few more than there are: it was 439 when each step asked several times who leads."""


def make(entity: EntityId, roster: Roster, beginning: Beginning, world: World) -> TableCore:
    return TableCore(entity, roster, TableMachine(), GroupCodec(TableCodec()), beginning, world)


def test_one_put_until_it_is_visible_takes_so_many_calls() -> None:
    pair = Pair(GroupCodec(TableCodec()), make)
    pair.begin()
    master, clone = pair.master, pair.clone
    assert isinstance(clone, TableCore)

    def put() -> None:
        clone.requests.put(b"\x63key", b"\x65value")
        (ask,) = clone.flush()
        assert isinstance(ask, Unicast)
        (entry,) = master.receive(CLONE, ask.payload)
        assert isinstance(entry, Multicast)
        told = clone.receive(MASTER, entry.payload)
        assert [type(each) for each in told] == [Unicast, Resolve], "it acknowledges the entry"
        for core in (master, clone):
            assert not core.flush()
            assert not core.has_work

    clone.requests.put(b"\x63key", b"\x65value")  # The writer registers.
    pair.carry(clone.flush(), TO_MASTER)
    for _ in range(3):
        pair.now_ns += TICK_NS
        pair.carry(master.tick(pair.now_ns), TO_CLONE)
        pair.carry(clone.tick(pair.now_ns), TO_MASTER)
    put()
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        put()
    finally:
        sys.setprofile(before)
    assert calls <= CALLS_MAX, calls
