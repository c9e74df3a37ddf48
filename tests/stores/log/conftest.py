"""A small world for logs: keepers, followers and proxies wired by their effects, in our hands."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from peermesh.testing.simulation.log_backend import KeptLogBackend
from stores import effects as fx
from stores.epochs import promoted, started_at
from stores.log import effects as log_fx
from stores.log.changes import LoadedLog, LogChanges, Role
from stores.log.follower import Follower, Phase
from stores.log.keeper import Keeper
from stores.log.messages import Answer, Fetch, Query
from stores.log.partitions import Retention
from stores.log.proxy import Proxy
from stores.log.requests import LogRequests
from stores.log.runs import Run
from stores.outcomes import Applied, Refused
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import BackendFailure, DecodeError
from wire.identifiers import EndpointId, EntityId
from wire.values import Value

TICK_NS = 100_000_000
START_NS = 1 << 14
"""Nobody starts twice within it."""
SIZE_MAX = 1 << 20


class CopyLogBackend(KeptLogBackend):
    """One that is a copy for whom it is loaded as a copy, as drivers see to."""

    def load_follower(self) -> LoadedLog:
        self.role = Role.COPY
        return super().load_follower()


class Node:
    """A core at work: its effects go to the world, what it tells stays here."""

    def __init__(self, world: LogWorld, core: Any, backend: Any) -> None:
        self.world = world
        self.core = core
        self.backend = backend
        self.committing: log_fx.PersistLog | None = None
        self.deposed: fx.Deposed | None = None
        self.outcomes: dict[int, Applied | Refused] = {}
        self.told: list[object] = []
        self.answers: dict[int, Answer] = {}
        self.errors: list[DecodeError] = []

    @property
    def endpoint(self) -> EndpointId:
        return self.core.entity.endpoint

    # -- what users do

    def append(
        self, value: Value, partition: int = 0, producer: str | None = None, sequence: int = 0
    ) -> int:
        return self.core.requests.append(partition, (None, encode(value)), producer, sequence)

    def read(self, partition: int = 0, offset: int | None = None) -> dict[int, Value]:
        """Read what is committed here, as handles do: offsets with values."""
        span = self.core.partitions[partition].span
        at = span.start if offset is None else offset
        found: dict[int, Value] = {}
        while at < span.end:
            runs = self.backend.read(partition, at, SIZE_MAX)
            assert runs, f"{self.core} has nothing at {at} of {span}"
            for run in runs:
                found |= entries_of(run, at, span.end)
                at = run.end
        return found

    def ask(self, query: Query) -> None:
        self.carry_out(self.core.ask(query))

    # -- what drivers do

    def flush(self) -> None:
        self.carry_out(self.core.flush(self.world.now_ns))

    def tick(self) -> None:
        self.carry_out(self.core.tick(self.world.now_ns))
        self.flush()

    def commit(self) -> None:
        """Finish the commit that is under way, if there is one."""
        if self.committing is not None:
            effect, self.committing = self.committing, None
            self.backend.commit(effect.changes)
            self.carry_out(self.core.persisted(effect.token))
        if self.deposed is not None:
            self._step_down(self.deposed)

    def _step_down(self, deposed: fx.Deposed) -> None:
        """Become the follower of a keeper that was promoted, as drivers do."""
        self.deposed = None
        self.backend.commit(LogChanges(role=Role.DEPOSED, known_epoch=deposed.epoch))
        legacy, requests = self.core.legacy(deposed.epoch), self.core.requests
        self.core = follower_of(self.core.entity, self.world.now_ns, legacy, requests=requests)
        self.world.keepers.remove(self)
        self.world.readers.append(self)
        self.carry_out(self.core.start())

    def promote(self, *, replicas: int = 0, force: bool = True) -> None:
        """Become the keeper, as drivers do it."""
        follower, now_ns = self.core, self.world.next_start()
        assessment = follower.assess(now_ns)
        assessment.check("log", is_forced=force)
        epoch = promoted(assessment.known_epoch, now_ns)
        self.carry_out(follower.pause())
        while not follower.copy.is_settled:
            self.commit()
        self.backend.commit(follower.copy.promote(epoch))
        unanswered = follower.unanswered()
        self.core = Keeper(follower.entity, follower.copy.legacy(epoch), Retention(), replicas)
        self.world.readers.remove(self)
        self.world.keepers.append(self)
        self.carry_out(self.core.inherit(follower.requests, unanswered))
        self.flush()

    def receive(self, sender: EndpointId, payload: bytes) -> None:
        try:
            self.carry_out(self.core.receive(sender, payload, self.world.now_ns))
        except DecodeError as error:
            self.errors.append(error)
        self.flush()

    def carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case fx.Unicast(to, payload):
                    self.world.post(self, to, payload)
                case fx.ToOwnKind(to, payload):
                    self.world.call(self, to, payload)
                case fx.Multicast(payload):
                    self.world.shout(self, payload)
                case fx.Resolve(outcome):
                    self._on_outcome(outcome)
                case log_fx.PersistLog():
                    assert self.committing is None, "there is one commit at a time"
                    self.committing = effect
                case log_fx.ReadFor(reader, query):
                    self.carry_out(self._read_for(reader, query))
                case fx.Deposed():
                    self.told.append(effect)
                    self.deposed = effect
                case log_fx.Answered(answer):
                    self.answers[answer.query] = answer
                case _:
                    self.told.append(effect)

    def _on_outcome(self, outcome: Any) -> None:
        for request in range(outcome.first_request, outcome.last_request + 1):
            assert request not in self.outcomes, f"request {request} has two outcomes"
            result = outcome.result
            if isinstance(result, Applied):
                offset = result.revision + request - outcome.first_request
                result = Applied(offset, result.answer)
            self.outcomes[request] = result

    def _read_for(self, reader: EntityId, query: Any) -> list[Any]:
        try:
            runs, found = self._look_up(query)
        except BackendFailure as error:
            return self.core.read_failed(reader, query, error)
        return self.core.was_read(reader, query, runs, found)

    def _look_up(self, query: Any) -> tuple[list[Run], int | None]:
        if not isinstance(query, Fetch):
            return [], self.backend.find(query.partition, query.timestamp_ns)
        runs: list[Run] = []
        for partition, offset in query.positions:
            if offset >= self.core.partitions[partition].start:
                runs += self.backend.read(partition, offset, query.size_max)
        return runs, None


def follower_of(
    entity: EntityId,
    now_ns: int,
    loaded: LoadedLog,
    patience_ticks: int | None = None,
    requests: LogRequests | None = None,
) -> Follower:
    return Follower(
        entity,
        now_ns,
        loaded,
        patience_ticks=patience_ticks,
        stale_interval_ns=None,
        requests=requests,
    )


def entries_of(run: Run, at: int, end: int) -> dict[int, Value]:
    values = run.entries()[1::2]
    offsets = range(run.first_offset, run.end)
    return {
        offset: decode(value)
        for offset, value in zip(offsets, values, strict=True)
        if at <= offset < end
    }


class LogWorld:
    """Nodes, and the messages between them: nothing moves unless it is told to."""

    def __init__(self) -> None:
        self.now_ns = 10**18
        self.keepers: list[Node] = []
        self.readers: list[Node] = []
        self.mail: list[tuple[EndpointId, EndpointId, bytes]] = []
        self._numbers = count(1)

    # -- who is there

    def keeper(
        self,
        backend: Any = None,
        partitions: int = 1,
        retention: Retention | None = None,
        replicas: int = 0,
    ) -> Node:
        backend = backend or CopyLogBackend()
        loaded = backend.load_keeper(started_at(self.next_start()), partitions)
        if loaded.role is Role.DEPOSED:
            core = follower_of(self._entity(), self.now_ns, loaded)
            return self._start(Node(self, core, backend))
        core = Keeper(self._entity(), loaded, retention or Retention(), replicas)
        node = Node(self, core, backend)
        self.keepers = [node]
        return node

    def next_start(self) -> int:
        """Give the time to somebody who starts: nobody else has the same."""
        self.now_ns += START_NS
        return self.now_ns

    def follower(self, backend: Any = None, patience_ticks: int | None = None) -> Node:
        backend = backend or CopyLogBackend()
        loaded = backend.load_follower()
        core = follower_of(self._entity(), self.now_ns, loaded, patience_ticks)
        return self._start(Node(self, core, backend))

    def proxy(self, patience_ticks: int | None = None) -> Node:
        core = Proxy(self._entity(), self.now_ns, patience_ticks)
        return self._start(Node(self, core, None))

    def _start(self, node: Node) -> Node:
        self.readers.append(node)
        node.carry_out(node.core.start())
        return node

    def _entity(self) -> EntityId:
        return EntityId(EndpointId(next(self._numbers).to_bytes(16, "big")), 1)

    @property
    def nodes(self) -> list[Node]:
        return [*self.keepers, *self.readers]

    def kill(self, node: Node, *, commits: bool = False) -> None:
        """End a process; the commit under way may be finished, or not."""
        if commits and node.committing is not None:
            node.backend.commit(node.committing.changes)
        for nodes in (self.keepers, self.readers):
            if node in nodes:
                nodes.remove(node)

    def notice_gone(self, gone: Node) -> None:
        """Have everybody hear that an endpoint is unreachable."""
        for node in self.nodes:
            node.carry_out(node.core.peer_unreachable(gone.endpoint))

    # -- messages

    def post(self, sender: Node, to: EndpointId, payload: bytes) -> None:
        self.mail.append((sender.endpoint, to, payload))

    def call(self, sender: Node, to: EndpointId | None, payload: bytes) -> None:
        """Tell one keeper, or all others."""
        for node in self.keepers:
            if node is not sender and to in (None, node.endpoint):
                self.mail.append((sender.endpoint, node.endpoint, payload))

    def shout(self, sender: Node, payload: bytes) -> None:
        others = self.readers if isinstance(sender.core, Keeper) else self.keepers
        for node in others:
            if type(node.core) is not Proxy:
                self.mail.append((sender.endpoint, node.endpoint, payload))

    def deliver(self, index: int = 0) -> None:
        sender, to, payload = self.mail.pop(index)
        for node in self.nodes:
            if node.endpoint == to:
                node.receive(sender, payload)

    def tick(self) -> None:
        self.now_ns += TICK_NS
        for node in self.nodes:
            node.tick()

    def settle(self) -> None:
        """Let everything arrive that is under way, and everything be committed."""
        for node in self.nodes:
            node.flush()
        while self.mail or any(node.committing or node.deposed for node in self.nodes):
            if self.mail:
                self.deliver()
            for node in self.nodes:
                node.commit()
                node.flush()

    def run(self, ticks: int) -> None:
        """Let time pass in a world where nothing goes wrong."""
        for _ in range(ticks):
            self.settle()
            self.tick()
        self.settle()


@pytest.fixture
def world() -> LogWorld:
    return LogWorld()


@pytest.fixture
def make_world():
    return LogWorld


@pytest.fixture
def make_disk():
    return CopyLogBackend


@pytest.fixture
def synced():
    """Tell whether a follower follows."""
    return lambda node: node.core.phase is Phase.SYNCED
