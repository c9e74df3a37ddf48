"""A small world for masters and clones as groups: all that they say and do is in the test's hands.

The cores are made as ``endpoint.replicas.part`` makes them. Letters are passed on one by
one, disks write when they are told to, and time passes when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from endpoint.replicas.stores.files import ReplicaFiles
from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.medium import DiskMedium
from peermesh.testing.simulation.replica_file import DiskReplica
from stores import effects as fx
from stores.actions import Initial
from stores.disk.ballot import SUFFIX
from stores.disk.founding import Founding
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.effects import WriteMark
from stores.group.member_parts import Stored
from stores.group.messages import Message
from stores.group.positions import START, MemberId
from stores.group.words import Letter, Word
from stores.outcomes import Applied, Outcome, Refused
from stores.quota import STORE_QUOTA, Quota
from stores.replica import beginning
from stores.replica.beginning import Beginning, Manner
from stores.replica.effects import AskDone, OrderDone, ReplicaEffect, ToDisk, Told
from stores.replica.lazy import RowKeeper
from stores.replica.roster import Roster
from stores.replica.tables.core import TableCore
from stores.table import Columns
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId
from wire.values import Value

TICK_NS = 100_000_000
BUFFER_TICKS = 1_200
"""What a clone that is not asked otherwise waits for its master."""

CODEC = GroupCodec(TableCodec())
Content = Message | Word
TOLD = (
    Told,
    AskDone,
    OrderDone,
    fx.MasterFound,
    fx.MasterLost,
    fx.Closed,
    fx.Changed,
    fx.QuotaCrossed,
)
"""What a driver tells its users."""


@dataclass(repr=False)
class Packet:
    """A letter on its way."""

    sender: EndpointId
    receiver: EndpointId
    payload: bytes

    @property
    def letter(self) -> Letter:
        return CODEC.decode(self.payload)

    @property
    def content(self) -> Content:
        return self.letter.content

    def __repr__(self) -> str:
        return f"<{self.sender[-1]}->{self.receiver[-1]} {self.content}>"


@dataclass(repr=False, eq=False)
class Node:
    """A core with all that it said, and its handle."""

    world: World
    core: TableCore
    files: ReplicaFiles | None = None
    is_master: bool = False
    commits: list[ToDisk] = field(default_factory=list)
    outcomes: dict[int, Applied | Refused] = field(default_factory=dict)
    log: list[ReplicaEffect] = field(default_factory=list)
    idle: set[int] = field(default_factory=set)
    deposed: list[EndpointId] = field(default_factory=list)
    """Whom it followed when it stopped to be a master."""
    is_alive: bool = True

    def __repr__(self) -> str:
        return f"<{'master' if self.is_master else 'clone'} {self.id[-1]}>"

    @property
    def id(self) -> EndpointId:
        return self.core.entity.endpoint

    @property
    def member(self) -> MemberId:
        return self.core.own

    @property
    def columns(self) -> Columns:
        """What readers see."""
        return self.core.machine.snapshot()

    @property
    def has_data(self) -> bool:
        member = self.core.member
        return member is not None and member.state.commit > 0

    @property
    def is_lost(self) -> bool:
        return not self.core.is_served

    # The handle, with values instead of bytes. Each operation gives its request number.

    def put(self, key: Value, value: Value, expiry_ns: int | None = None) -> int:
        return self.core.requests.put(encode(key), encode(value), expiry_ns)

    def put_unique(self, key: Value, value: Value, expiry_ns: int | None = None) -> int:
        return self.core.requests.put_unique(encode(key), encode(value), expiry_ns)

    def erase(self, key: Value) -> int:
        return self.core.requests.erase(encode(key))

    def add(self, key: Value, amount: Value, initial: Initial, expiry_ns: int | None = None) -> int:
        return self.core.requests.add(encode(key), encode(amount), initial, expiry_ns)

    def increment(self, key: Value, amount: Value = 1) -> int:
        return self.add(key, amount, Initial.NUMBER)

    def subtract(self, key: Value, amount: Value) -> int:
        return self.core.requests.subtract(encode(key), encode(amount))

    def get(self, key: Value) -> Value:
        found = self.core.machine.get(encode(key))
        return None if found is None else decode(found)

    def expires_at_ns(self, key: Value) -> int | None:
        """Give when a key expires, as a time of Unix."""
        found = self.core.machine.entry(encode(key))
        assert found is not None, key
        return None if found.expires_at_ns is None else found.expires_at_ns + self.core.epoch_ns

    def contents(self) -> dict[Value, Value]:
        return {decode(key): decode(value) for key, value in self.columns.values.items()}

    # What it said.

    def said(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.log if isinstance(effect, kind)]

    def sent(self, *kinds: type[Any]) -> list[Any]:
        """Give the contents of some kinds that it ever sent."""
        payloads = [
            each.payload for each in self.log if isinstance(each, fx.Unicast | fx.Multicast)
        ]
        contents = [CODEC.decode(payload).content for payload in payloads]
        return [each for each in contents if isinstance(each, kinds)]

    def is_idle(self, token: int) -> bool:
        return token in self.idle

    # What it is told.

    def hear(
        self, content: Content, sender: Node | MemberId, group: bytes | None = None
    ) -> list[ReplicaEffect]:
        """Hear what no node of this world has sent; gives what it does about it."""
        member = sender.member if isinstance(sender, Node) else sender
        where = sender.id if isinstance(sender, Node) else EndpointId(b"s" * 16)
        before = len(self.log)
        for payload in CODEC.encode(member, group or self.core.group, content):
            self.run(self.core.receive(where, payload))
        return self.log[before:]

    def run(self, effects: Iterable[ReplicaEffect]) -> None:
        self.world.carry_out(self, effects)

    def flush(self) -> None:
        self.run(self.core.flush())

    def work(self) -> None:
        self.run(self.core.work())

    def tick(self) -> None:
        self.run(self.core.tick(self.world.now_ns))
        self.flush()

    def resolve(self, outcome: Outcome) -> None:
        for request in range(outcome.first_request, outcome.last_request + 1):
            assert request not in self.outcomes, f"request {request} resolved twice"
            result = outcome.between(request - 1, request)
            assert result is not None
            self.outcomes[request] = result.result

    def observe(self, *, is_observed: bool = True) -> None:
        self.core.observe(is_observed=is_observed)

    def commit(self, *, is_told: bool = True) -> int:
        """Let the disk finish what it was given; gives its token."""
        assert self.files is not None
        job = self.commits.pop(0)
        self.files.write(job)
        if is_told:
            self.written(job.token)
        return job.token

    def written(self, token: int) -> None:
        """Learn that a write is on the disk."""
        self.run(self.core.persisted(token))
        self.flush()

    def promote(self, disk: Disk | None = None) -> None:
        """Become the master, in memory or in a file of its own."""
        if disk is not None:
            self._settle_in(disk)
        self.is_master = True
        self.run(self.core.force())
        self.world.let_lead(self)

    def _settle_in(self, disk: Disk) -> None:
        core = self.core
        files = self.world.files(disk, self)
        snapshot = core.pause()
        assert core.group is not None
        assert core.member is not None
        founding = Founding(core.group, core.own, self.world.now_ns)
        files.fill(founding, snapshot, core.member.ballot.promises)
        self.files = files
        keeper = RowKeeper(core.machine, snapshot.position.index)
        self.run(core.settle_in(snapshot, keeper))

    def step_aside(self) -> None:
        """Go on as a clone of the master that leads, and leave the file as it is."""
        old = self.core
        assert old.leader is not None
        self.deposed.append(old.roster.endpoint_of(old.leader) or old.entity.endpoint)
        self.is_master = False
        self.run(old.bequeath("the master was deposed"))
        self.commits.clear()
        if self.files is not None:
            self.files.close()
        self.files = None
        self.core = self.world.clone_core(old.entity)
        self.core.inherit(old.outbox)
        self.core.observe(is_observed=old.machine.telling.observer is not None)
        self.run(self.core.start())

    def crash(self) -> None:
        """Stop at once; what it has sent is still on its way."""
        self.is_alive = False
        self.world.nodes.remove(self)
        if self.files is not None:
            self.files.close()

    def close(self) -> None:
        """Say goodbye."""
        self.run(self.core.close("it is closed"))


class World:
    """Nodes, what is on its way between them, and the time."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * TICK_NS
        self.nodes: list[Node] = []
        self.packets: list[Packet] = []
        self.cut_off: set[EndpointId] = set()
        """Nothing goes in or out there."""
        self.stuck: set[EndpointId] = set()
        """The disk there takes nothing, and fails with nothing."""
        self.held_kinds: tuple[type[Any], ...] = ()
        """Letters with such contents are kept back."""
        self.held: list[Packet] = []
        self.recorder: Callable[[TableMachine, int], None] = lambda machine, reached: None
        """Is given the machine of each new master, before it applies anything; and the index of the
        latest state that some of its rows are of, if they come from a file."""
        self.voter_names: tuple[str, ...] = ()
        """Those of the group that elects, if there is one."""
        self._numbers = count(1)

    # -- nodes -----------------------------------------------------------------------------------

    def master(
        self, disk: Disk | Path | None = None, *, quota: Quota | None = None, **options: object
    ) -> Node:
        """Start a master that leads, and is known to no other one yet; options are its file's."""
        node = self._voter(next(self._numbers), disk, options, (), Manner(is_single=True))
        node.is_master = True
        self.nodes.append(node)
        self.recorder(node.core.machine, node.core._beginning.reached)
        node.run(node.core.start())
        self.let_lead(node)
        if quota is not None:
            node.run(node.core.set_quota(quota))
            while node.commits:
                node.commit()
        return node

    def voters(self, disks: Sequence[Disk | Path | None], **options: object) -> list[Node]:
        """Start a group that elects, one voter on each disk, and wait until it has a leader."""
        numbers = [next(self._numbers) for _ in disks]
        names = tuple(f"n{number}" for number in numbers)
        for number, disk in zip(numbers, disks, strict=True):
            self.nodes.append(self._voter(number, disk, options, names, Manner()))
        self.voter_names = names
        for node in self.nodes:
            node.run(node.core.start())
        for _ in range(100):
            self.tick()
            if all(node.core.is_served for node in self.nodes):
                return list(self.nodes)
        raise AssertionError([node.core.explain() for node in self.nodes])

    def restart(self, voter: Node, disk: Disk | Path) -> Node:
        """Start a voter of a group that elects again on its disk; it is killed if it is there."""
        if voter.is_alive:
            voter.crash()
        number = int.from_bytes(voter.id, "big")
        again = self._voter(number, disk, {}, self.voter_names, Manner())
        self.nodes.append(again)
        again.run(again.core.start())
        return again

    def _voter(
        self,
        number: int,
        disk: Disk | Path | None,
        options: Mapping[str, object],
        names: tuple[str, ...],
        manner: Manner,
    ) -> Node:
        """Make a voter of a group of these names, or of one that is alone."""
        entity, own = _entity(number), MemberId(f"n{number}", number)
        if disk is None:
            return Node(self, self._in_memory(entity, own, names or (own.name,), manner))
        files = self.files(disk, own, options)
        opened = files.load(Founding(_group(number), own, self.now_ns))
        machine = TableMachine("store s", STORE_QUOTA)
        machine.install(opened.parts)
        stored = opened.beginning.stored
        own, start = stored.promises.member, replace(opened.beginning, manner=manner)
        core = self._core(entity, own, names or (own.name,), machine, start, number)
        core.carrier.keeper = RowKeeper(machine, stored.applied)
        return Node(self, core, files)

    def clone(self, *, buffer_ticks: int = BUFFER_TICKS, stale_ns: int | None = None) -> Node:
        """Start a clone, which looks for a master."""
        entity = _entity(next(self._numbers))
        node = Node(self, self.clone_core(entity, buffer_ticks, stale_ns))
        self.nodes.append(node)
        node.run(node.core.start())
        return node

    def clone_core(
        self,
        entity: EntityId,
        buffer_ticks: int = BUFFER_TICKS,
        stale_ns: int | None = None,
    ) -> TableCore:
        own = MemberId(f"n{entity.endpoint[-1]}", next(self._numbers))
        manner = Manner(buffer_ticks, is_single=True, stale_ns=stale_ns)
        return self._in_memory(entity, own, (), manner)

    def _in_memory(
        self, entity: EntityId, own: MemberId, voters: tuple[str, ...], manner: Manner
    ) -> TableCore:
        stored = Stored(new_promises(own), NEW_SLOTS, START, (), (), 0, is_volatile=True)
        machine = TableMachine("store s", STORE_QUOTA)
        start = Beginning(stored, None, manner=manner)
        return self._core(entity, own, voters, machine, start, own.life)

    def _core(
        self,
        entity: EntityId,
        own: MemberId,
        voters: tuple[str, ...],
        machine: TableMachine,
        start: Beginning,
        number: int,
    ) -> TableCore:
        outside = beginning.World(
            draw=lambda least, most: min(most, least + number),
            monotonic_ns=lambda: self.now_ns,
            now_ns=lambda: self.now_ns,
            new_group=lambda: _group(number),
            vouches=lambda endpoint, name: True,
            may_vote=lambda: True,
        )
        roster = Roster(own, entity.endpoint, voters)
        return TableCore(entity, roster, machine, CODEC, start, outside)

    def files(
        self, disk: Disk | Path, owner: object, options: Mapping[str, object] = MappingProxyType({})
    ) -> ReplicaFiles:
        """Give the files of a replica on a disk, or SQLite's at a path."""
        if isinstance(disk, Path):
            return ReplicaFiles("s", {"path": disk, **options}, None, is_renamed=True)

        def opened(path: str, options: dict[str, Any]) -> tuple[DiskReplica, DiskMedium]:
            return DiskReplica(disk, owner, path, TableCodec(), options), DiskMedium(
                disk, path + SUFFIX
            )

        return ReplicaFiles("s", {"path": "s.db"}, opened, is_renamed=True)

    def let_lead(self, node: Node) -> None:
        """Let a master's disk do all that has to be done before it serves."""
        while not node.core.is_leader:
            assert node.commits, node.core.explain()
            node.commit()
        while node.commits:
            node.commit()

    # -- what they say ---------------------------------------------------------------------------

    def carry_out(self, node: Node, effects: Iterable[ReplicaEffect]) -> None:
        for effect in effects:
            node.log.append(effect)
            match effect:
                case fx.Multicast(payload):
                    others = [other.id for other in self.nodes if other is not node]
                    self.packets += [Packet(node.id, other, payload) for other in others]
                case fx.Unicast(to, payload):
                    self.packets.append(Packet(node.id, to, payload))
                case ToDisk():
                    assert not node.commits, "one write at a time"
                    node.commits.append(effect)
                case WriteMark():
                    assert node.files is not None
                    node.files.write_mark(effect)
                case fx.IdleReached(token):
                    node.idle.add(token)
                case fx.Resolve(outcome):
                    node.resolve(outcome)
                case _:
                    assert isinstance(effect, TOLD), "no master or clone asks for it"
        core = node.core
        is_led = core.leader not in (None, core.own)
        if node.is_master and node.is_alive and (is_led or core.is_deposed):
            node.step_aside()

    def deliver(self, packet: Packet) -> None:
        if self.cut_off & {packet.sender, packet.receiver}:
            return
        if isinstance(packet.content, self.held_kinds):
            self.held.append(packet)
            return
        for node in list(self.nodes):
            if node.id == packet.receiver:
                node.run(node.core.receive(packet.sender, packet.payload))
                node.flush()

    def settle(self) -> None:
        """Deliver and commit until nothing is on its way; no time passes."""
        for node in self.nodes:
            node.flush()
        while True:
            writing = [each for each in self.nodes if each.commits and each.id not in self.stuck]
            if not (self.packets or writing or any(node.core.has_work for node in self.nodes)):
                return
            if self.packets:
                self.deliver(self.packets.pop(0))
            elif writing:
                writing[0].commit()
            else:
                for node in self.nodes:
                    if node.core.has_work:
                        node.work()

    def tick(self, times: int = 1) -> None:
        """Let time pass, and everything arrive in between."""
        for _ in range(times):
            self.now_ns += TICK_NS
            for node in list(self.nodes):
                node.tick()
            self.settle()

    def close(self) -> None:
        """Let go of all files."""
        for node in self.nodes:
            if node.files is not None:
                node.files.close()

    def under_way(self, *kinds: type[Any]) -> list[Packet]:
        """Give the letters on their way with some kinds of content."""
        return [packet for packet in self.packets if isinstance(packet.content, kinds)]


def record(machine: TableMachine, reached: int, history: dict[int, dict[bytes, bytes]]) -> None:
    """Note every state that a master has, by its revision, once it is at ``reached``."""

    def note() -> None:
        if machine.position.index >= reached:
            history[machine.revision] = dict(machine.snapshot().values)

    def noted(method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            result = method(*arguments)
            note()
            return result

        return call

    note()
    for name in ("apply", "perform"):
        setattr(machine, name, noted(getattr(machine, name)))


def _entity(number: int) -> EntityId:
    return EntityId(EndpointId(number.to_bytes(16, "big")), 1)


def _group(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    """For properties, which need a new world for every example."""
    return World


@pytest.fixture
def pair(world: World) -> tuple[Node, Node]:
    """A master and a clone that know each other."""
    master, clone = world.master(), world.clone()
    world.tick()
    return master, clone
