"""A small world for stores: masters and clones wired by their effects, all in the test's hands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from stores import commands, effects as fx
from stores.actions import Initial, WriterId
from stores.asking import KnownReplica
from stores.clone import BUFFER_TICKS, Clone
from stores.commands import InternalCommand
from stores.disk.memory import MemoryBackend
from stores.effects import Effect
from stores.encoding import decode_command, encode_command
from stores.epochs import next_epoch, promoted
from stores.master import Master
from stores.outcomes import Applied, Refused, WriterRow
from stores.persistence import Changes, Loaded, StoreBackend
from stores.proxy import Proxy
from stores.table import Columns, Entry
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId
from wire.values import Value

TICK_NS = 100_000_000

Sending = fx.Unicast | fx.Multicast | fx.ToProxy | fx.ToClone | fx.ToOwnKind
ReadAnswer = commands.ReadAnswerCommand | commands.ReadRefusedCommand


class KeptBackend:
    """A disk that a test can look at: it keeps what was committed, across masters."""

    is_durable = True

    def __init__(self) -> None:
        self.epoch = 0
        self.revision = 0
        self.columns = Columns()
        self.writers: dict[WriterId, WriterRow] = {}

    def load(self, epoch_min: int) -> Loaded:
        self.epoch = next_epoch(self.epoch, epoch_min)
        rows = tuple(self.writers.values())
        return Loaded(self.epoch, self.revision, self.columns.copy(), rows)

    def commit(self, changes: Changes) -> None:
        if changes.is_cleared:
            self.columns = Columns()
        for key, value, revision, expires_at_ns in changes.rows:
            self.columns.set(key, Entry(value, revision, expires_at_ns))
        for key in changes.erased:
            self.columns.discard(key)
        for row in changes.writers:
            self.writers.pop(row.writer, None)
            self.writers[row.writer] = row
        for writer in changes.forgotten:
            self.writers.pop(writer, None)
        self.revision = changes.revision

    def close(self) -> None:
        pass


@dataclass(repr=False)
class Packet:
    """A command on its way."""

    sender: EndpointId
    receiver: EndpointId
    payload: bytes
    topic: str
    """Only those who hear that one get it: masters, clones, or proxies."""

    def __repr__(self) -> str:
        command = decode_command(self.payload)
        route = f"{self.sender[-1]}->{self.receiver[-1]}"
        return f"<{route} {command.content} session={command.session} of {command.sequence}>"


@dataclass(repr=False, eq=False)
class Node:
    """A core with all that it said, and its handle."""

    world: World
    core: Master | Clone | Proxy
    backend: StoreBackend | None = None
    commits: list[fx.Persist] = field(default_factory=list)
    outcomes: dict[int, Applied | Refused] = field(default_factory=dict)
    log: list[Effect] = field(default_factory=list)
    idle: set[int] = field(default_factory=set)
    answers: dict[int, ReadAnswer] = field(default_factory=dict)
    tokens: Iterator[int] = field(default_factory=lambda: count(1))
    is_alive: bool = True

    def __repr__(self) -> str:
        return f"<{type(self.core).__name__} {self.id[-1]}>"

    @property
    def id(self) -> EndpointId:
        return self.core.entity.endpoint

    @property
    def is_master(self) -> bool:
        return isinstance(self.core, Master)

    @property
    def topic(self) -> str:
        """What it hears."""
        return type(self.core).__name__

    @property
    def replica(self) -> Master | Clone:
        """The core, of what has a copy."""
        assert not isinstance(self.core, Proxy)
        return self.core

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
        found = self.replica.get(encode(key))
        return None if found is None else decode(found)

    def contents(self) -> dict[Value, Value]:
        keys = map(decode, self.replica.keys())
        return {key: self.get(key) for key in keys}

    # The handle of a proxy.

    def ask(self, key: Value, *, is_for_master: bool = False, revision_min: int = 0) -> int:
        """Ask for a key, and give the number of the question."""
        question = commands.LookUpCommand(next(self.tokens), revision_min, encode(key), True)
        return self.pose(question, is_for_master=is_for_master)

    def pose(self, question: commands.Question, *, is_for_master: bool = False) -> int:
        assert isinstance(self.core, Proxy)
        self.run(self.core.ask(question, is_for_master=is_for_master))
        return question.number

    def survey(self, *nodes: Node) -> None:
        """Learn which replicas there are, the nearest first."""
        assert isinstance(self.core, Proxy)
        self.run(self.core.survey([KnownReplica(node.id, node.is_master) for node in nodes]))

    def answer(self, number: int) -> Value:
        """Give the value that a question has found; raises ``KeyError`` without an answer."""
        found = self.answers[number]
        assert isinstance(found, commands.ReadAnswerCommand), found
        return None if not found.rows else decode(found.rows[0][1] or b"")

    # What it said.

    def said(self, kind: type[Effect]) -> list[Any]:
        return [effect for effect in self.log if isinstance(effect, kind)]

    def is_idle(self, token: int) -> bool:
        return token in self.idle

    # What it is told.

    def hear(
        self,
        content: commands.Content,
        *,
        sender: EntityId,
        session: int | None = None,
        epoch: int = 1,
        sequence: int = 1,
    ) -> None:
        """Hear a command that nobody in this world has sent."""
        payload = encode_command(InternalCommand(sequence, sender, session, epoch, content))
        self.run(self.core.receive(sender.endpoint, payload, self.world.now_ns))

    def run(self, effects: list[Effect]) -> None:
        self.world.carry_out(self, effects)

    def flush(self) -> None:
        self.run(self.core.flush(self.world.now_ns))

    def tick(self) -> None:
        self.run(self.core.tick(self.world.now_ns))
        self.flush()

    def work(self) -> None:
        """Take a step of longer work."""
        self.run(self.core.work(self.world.now_ns))
        self.flush()

    def commit(self) -> None:
        """Let the disk finish what it was given."""
        assert self.backend is not None
        effect = self.commits.pop(0)
        self.backend.commit(effect.changes)
        assert isinstance(self.core, Master)
        self.run(self.core.persisted(effect.token))
        self.flush()

    def promote(self, replicas: int = 0) -> None:
        """Become the master, in memory."""
        clone, now_ns = self.core, self.world.now_ns
        assert isinstance(clone, Clone)
        epoch = promoted(clone.assess(now_ns).known_epoch, now_ns)
        self.run(clone.pause())
        legacy, unanswered = clone.legacy(epoch), clone.unanswered()
        self.core = Master(clone.entity, legacy, is_durable=False, replicas=replicas)
        self.run(self.core.inherit(clone.requests, unanswered))
        self.flush()

    def step_down(self, deposed: fx.Deposed) -> None:
        """Become a clone of the master that was promoted."""
        master = self.core
        assert isinstance(master, Master)
        self.commits.clear()
        inheritance = master.bequeath(deposed)
        incarnation = self.world.next_incarnation()
        is_observed = master._table.observer is not None
        self.core = Clone(
            master.entity, incarnation, inheritance=inheritance, is_observed=is_observed
        )
        self.run(self.core.start())

    def crash(self) -> None:
        """Stop at once; what it has sent is still on its way."""
        self.is_alive = False
        self.world.nodes.remove(self)
        if self.backend is not None:
            self.backend.close()


class World:
    """Nodes, what is on its way between them, and the time."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * TICK_NS
        self.nodes: list[Node] = []
        self.packets: list[Packet] = []
        self.cut_off: set[EndpointId] = set()
        """Nothing goes in or out there."""
        self._numbers = count(1)

    def next_incarnation(self) -> int:
        return next(self._numbers) * 1_000_000

    def master(self, backend: StoreBackend | None = None, **options: Any) -> Node:
        number = next(self._numbers)
        entity = EntityId(EndpointId(number.to_bytes(16, "big")), 1)
        backend = MemoryBackend() if backend is None else backend
        loaded = backend.load(epoch_min=number)
        durable, now_ns = backend.is_durable, self.now_ns
        core = Master(entity, loaded, is_durable=durable, now_ns=now_ns, **options)
        node = Node(self, core, backend)
        self.nodes.append(node)
        return node

    def clone(self, **options: Any) -> Node:
        number = next(self._numbers)
        entity = EntityId(EndpointId(number.to_bytes(16, "big")), 1)
        node = Node(self, Clone(entity, incarnation=number * 1_000_000, **options))
        self.nodes.append(node)
        node.run(node.core.start())
        return node

    def proxy(self, *replicas: Node, buffer_ticks: int = BUFFER_TICKS) -> Node:
        """A proxy that knows of these, the nearest first."""
        number = next(self._numbers)
        entity = EntityId(EndpointId(number.to_bytes(16, "big")), 1)
        node = Node(self, Proxy(entity, number * 1_000_000, buffer_ticks))
        self.nodes.append(node)
        node.run(node.core.start())
        node.survey(*replicas)
        return node

    def carry_out(self, node: Node, effects: list[Effect]) -> None:
        for effect in effects:
            node.log.append(effect)
            match effect:
                case fx.Unicast() | fx.Multicast() | fx.ToProxy() | fx.ToClone() | fx.ToOwnKind():
                    self.packets += self._packets(node, effect)
                case fx.Deposed():
                    node.step_down(effect)
                case fx.ReadAnswered(token, answer, _):
                    assert token not in node.answers, f"question {token} answered twice"
                    node.answers[token] = answer
                case fx.Persist():
                    assert not node.commits, "one commit at a time"
                    node.commits.append(effect)
                case fx.IdleReached(token):
                    node.idle.add(token)
                case fx.Resolve(outcome):
                    for request in range(outcome.first_request, outcome.last_request + 1):
                        assert request not in node.outcomes, f"request {request} resolved twice"
                        result = outcome.between(request - 1, request)
                        assert result is not None
                        node.outcomes[request] = result.result

    def _packets(self, node: Node, effect: Sending) -> list[Packet]:
        to = None if isinstance(effect, fx.Multicast) else effect.to
        topic = "Clone" if node.is_master else "Master"
        if isinstance(effect, fx.ToProxy | fx.ToClone):
            topic = type(effect).__name__.removeprefix("To")
        elif isinstance(effect, fx.ToOwnKind):
            topic = node.topic
        hearers = [other.id for other in self.nodes if other.topic == topic and other is not node]
        receivers = hearers if to is None else [to]
        return [Packet(node.id, receiver, effect.payload, topic) for receiver in receivers]

    def deliver(self, packet: Packet) -> None:
        if self.cut_off & {packet.sender, packet.receiver}:
            return
        for node in self.nodes:
            if node.id == packet.receiver and node.topic == packet.topic:
                node.run(node.core.receive(packet.sender, packet.payload, self.now_ns))
                node.flush()

    def settle(self) -> None:
        """Deliver and commit until nothing is on its way; no time passes."""
        for node in self.nodes:
            node.flush()
        while self.packets or any(node.commits or node.core.has_work for node in self.nodes):
            if self.packets:
                self.deliver(self.packets.pop(0))
                continue
            if (
                busy := next((each for each in self.nodes if each.core.has_work), None)
            ) is not None:
                busy.work()
                continue
            next(node for node in self.nodes if node.commits).commit()

    def tick(self, times: int = 1) -> None:
        """Let time pass, and everything arrive in between."""
        for _ in range(times):
            self.now_ns += TICK_NS
            for node in list(self.nodes):
                node.tick()
            self.settle()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    """For properties, which need a new world for every example."""
    return World


@pytest.fixture(scope="session")
def make_kept_backend() -> type[KeptBackend]:
    return KeptBackend


@pytest.fixture
def pair(world: World) -> tuple[Node, Node]:
    """A master and a clone that know each other."""
    master, clone = world.master(), world.clone()
    world.settle()
    return master, clone
