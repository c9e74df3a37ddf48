"""A leader alone and a learner of one group, fed with letters: for stores and for logs alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stores.effects import Multicast, Unicast
from stores.group.applied_state import CannotApply
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.member_parts import Stored
from stores.group.positions import START, MemberId
from stores.replica.beginning import Beginning, Manner, World
from stores.replica.core import GroupCore
from stores.replica.effects import ReplicaEffect
from stores.replica.roster import Roster
from wire.errors import DecodeError
from wire.identifiers import EndpointId, EntityId

MASTER, CLONE = (EndpointId(bytes(15) + last) for last in (b"\x01", b"\x02"))
TO_MASTER, TO_CLONE, TICK = range(3)
TICK_NS = 100_000_000

Make = Callable[[EntityId, Roster, Beginning, World], GroupCore]


class Pair:
    """Both, their time, and what they say to each other."""

    def __init__(self, codec: GroupCodec, make: Make) -> None:
        self.now_ns = TICK_NS
        self.said: list[bytes] = []
        """All letters, as ``feed`` takes them."""
        self._codec = codec
        self._make = make
        self.master = self._core(MASTER, "m")
        self.clone = self._core(CLONE)

    def _core(self, where: EndpointId, *voters: str) -> GroupCore:
        own = MemberId("m" if voters else "c", where[-1])
        world = World(
            draw=lambda least, most: least,
            monotonic_ns=lambda: self.now_ns,
            now_ns=lambda: self.now_ns,
            new_group=lambda: bytes(16),
            vouches=lambda endpoint, name: True,
            may_vote=lambda: True,
        )
        stored = Stored(new_promises(own), NEW_SLOTS, START, (), (), 0, is_volatile=True)
        beginning = Beginning(stored, None, manner=Manner(is_single=True))
        return self._make(EntityId(where, 1), Roster(own, where, voters), beginning, world)

    def feed(self, data: bytes) -> Iterator[None]:
        """Take the bytes apart: where to, a length in two bytes, and a letter; and so on."""
        self.master.start()
        self.clone.start()
        while data:
            where, size = data[0] % 3, int.from_bytes(data[1:3])
            letter, data = data[3 : 3 + size], data[3 + size :]
            self.now_ns += TICK_NS
            if where == TICK:
                self.master.tick(self.now_ns)
                self.clone.tick(self.now_ns)
                continue
            try:
                self._check_form(letter)
                to_master = where == TO_MASTER
                core, sender = (self.master, CLONE) if to_master else (self.clone, MASTER)
                core.receive(sender, letter)
            except DecodeError:
                pass
            except CannotApply:
                return  # So its replica ends.
            self.master.flush()
            self.clone.flush()
            yield

    def _check_form(self, data: bytes) -> None:
        letter = self._codec.decode(data)
        try:
            self._codec.decode(data + b"\0")
        except DecodeError:
            pass
        else:
            raise AssertionError("bytes after the end were overlooked")
        for again in self._codec.encode(letter.sender, letter.group, letter.content):
            assert self._codec.decode(again).sender == letter.sender

    # A conversation.

    def carry(self, effects: Iterable[ReplicaEffect], where: int) -> None:
        """Pass letters on, and what they bring about."""
        for effect in effects:
            if isinstance(effect, (Unicast, Multicast)):
                self.said.append(bytes((where,)) + len(effect.payload).to_bytes(2) + effect.payload)
                to_master = where == TO_MASTER
                core, sender, back = (
                    (self.master, CLONE, TO_CLONE) if to_master else (self.clone, MASTER, TO_MASTER)
                )
                self.carry(core.receive(sender, effect.payload), back)
                self.carry(core.flush(), back)

    def begin(self) -> None:
        """Start both."""
        # As at endpoints: none hears anything before it is started.
        told = (self.master.start(), TO_CLONE), (self.clone.start(), TO_MASTER)
        for effects, where in told:
            self.carry(effects, where)

    def converse(self, ticks: int) -> None:
        """Have the clone send what was asked there, and time pass."""
        self.carry(self.clone.flush(), TO_MASTER)
        self.carry(self.clone.begin_idle(1), TO_MASTER)
        for _ in range(ticks):
            self.now_ns += TICK_NS
            self.carry(self.master.tick(self.now_ns), TO_CLONE)
            self.carry(self.clone.tick(self.now_ns), TO_MASTER)

    def seeds(self) -> Iterator[bytes]:
        """Give the conversation, and its letters one by one."""
        yield b"".join(self.said) + bytes((TICK, 0, 0))
        yield from dict.fromkeys(self.said)
