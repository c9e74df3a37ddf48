"""Letters of masters and clones: read, written again, and taken in by a master and a clone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stores.effects import Multicast, Unicast
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.member import Stored
from stores.group.positions import START, MemberId
from stores.quota import STORE_QUOTA
from stores.replica.beginning import Beginning, Manner, World
from stores.replica.core import GroupCore
from stores.replica.effects import ReplicaEffect
from stores.replica.roster import Roster
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from wire.encoding import encode
from wire.errors import DecodeError
from wire.identifiers import EndpointId, EntityId

CODEC = GroupCodec(TableCodec())
MASTER, CLONE = (EndpointId(bytes(15) + last) for last in (b"\x01", b"\x02"))
TO_MASTER, TO_CLONE, TICK = range(3)
TICK_NS = 100_000_000


class Clock:
    """The time of both."""

    now_ns = TICK_NS


def _core(clock: Clock, where: EndpointId, *voters: str) -> GroupCore:
    own = MemberId("m" if voters else "c", where[-1])
    world = World(
        draw=lambda least, most: least,
        monotonic_ns=lambda: clock.now_ns,
        now_ns=lambda: clock.now_ns,
        new_group=lambda: bytes(16),
        vouches=lambda endpoint, name: True,
    )
    stored = Stored(new_promises(own), NEW_SLOTS, START, (), (), 0, is_volatile=True)
    beginning = Beginning(stored, None, manner=Manner(is_single=True))
    machine = TableMachine("store s", STORE_QUOTA)
    roster = Roster(own, where, voters)
    return GroupCore(EntityId(where, 1), roster, machine, CODEC, beginning, world)


def _pair() -> tuple[Clock, GroupCore, GroupCore]:
    clock = Clock()
    return clock, _core(clock, MASTER, "m"), _core(clock, CLONE)


def check(data: bytes) -> None:
    """Take the bytes apart: where to, a length in two bytes, and a letter; and so on."""
    clock, master, clone = _pair()
    master.start()
    clone.start()
    while data:
        where, size = data[0] % 3, int.from_bytes(data[1:3])
        letter, data = data[3 : 3 + size], data[3 + size :]
        clock.now_ns += TICK_NS
        if where == TICK:
            master.tick(clock.now_ns)
            clone.tick(clock.now_ns)
            continue
        try:
            _check_form(letter)
            core, sender = (master, CLONE) if where == TO_MASTER else (clone, MASTER)
            core.receive(sender, letter, clock.now_ns)
        except DecodeError:
            pass
        master.flush(clock.now_ns)
        clone.flush(clock.now_ns)
        for core in (master, clone):
            assert core.revision >= 0
            assert all(core.machine.get(key) is not None for key in core.machine)


def _check_form(data: bytes) -> None:
    letter = CODEC.decode(data)
    try:
        CODEC.decode(data + b"\0")
    except DecodeError:
        pass
    else:
        raise AssertionError("bytes after the end were overlooked")
    for again in CODEC.encode(letter.sender, letter.group, letter.content):
        assert CODEC.decode(again).sender == letter.sender


def seeds() -> Iterator[bytes]:
    """Give a conversation of a master and a clone that writes, and its letters one by one."""
    clock, master, clone = _pair()
    said: list[bytes] = []

    def carry(effects: Iterable[ReplicaEffect], where: int) -> None:
        for effect in effects:
            if isinstance(effect, (Unicast, Multicast)):
                said.append(bytes((where,)) + len(effect.payload).to_bytes(2) + effect.payload)
                to_master = where == TO_MASTER
                core, sender, back = (
                    (master, CLONE, TO_CLONE) if to_master else (clone, MASTER, TO_MASTER)
                )
                carry(core.receive(sender, effect.payload, clock.now_ns), back)
                carry(core.flush(clock.now_ns), back)

    carry(master.start(), TO_CLONE)
    carry(clone.start(), TO_MASTER)
    key = encode("k")
    clone.requests.put(key, encode(1))
    clone.requests.put_unique(encode("u"), encode(2), 5 * TICK_NS)
    clone.requests.subtract(key, encode(1))
    clone.requests.erase(encode("u"))
    clone.requests.clear()
    carry(clone.flush(clock.now_ns), TO_MASTER)
    carry(clone.begin_idle(1), TO_MASTER)
    for _ in range(12):
        clock.now_ns += TICK_NS
        carry(master.tick(clock.now_ns), TO_CLONE)
        carry(clone.tick(clock.now_ns), TO_MASTER)
    yield b"".join(said) + bytes((TICK, 0, 0))
    yield from dict.fromkeys(said)
