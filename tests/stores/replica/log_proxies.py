"""A log's group with proxies outside of it: clocks, disks, mail and reads are the test's."""

from __future__ import annotations

from itertools import count

from stores.effects import IdleReached, Multicast, Resolve, ToProxy, Unicast
from stores.log.messages import (
    Answer,
    Fetch,
    Fetched,
    Found,
    Query,
    State,
    StateQuery,
    TimeQuery,
)
from stores.outcomes import Applied, Refused
from stores.replica.effects import QueryAnswered, ReadFor
from stores.replica.logs.outside import LogProxy
from tests.stores.replica.log_mesh import LogMesh
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

INCARNATION = 1_000_000


class LogAsker:
    """A proxy with all that it said, and its handle. Operations give numbers."""

    def __init__(self, mesh: LogProxyMesh, name: str, patience_ticks: int) -> None:
        self.mesh, self.name = mesh, name
        entity = EntityId(mesh.where[name], 0)
        self.core = LogProxy(entity, mesh.codec, INCARNATION, patience_ticks)
        self.outcomes: dict[int, Applied | Refused] = {}
        self.answers: dict[int, Answer] = {}
        self.idle: set[int] = set()
        self._numbers = count(1)

    def append(self, value: object, partition: int = 0) -> int:
        number = self.core.requests.append(partition, (None, encode(value)))
        self.flush()
        return number

    def fetch(self, *positions: tuple[int, int], wait_ticks: int = 0) -> int:
        return self.pose(Fetch(next(self._numbers), positions, 1_000_000, wait_ticks))

    def state(self) -> int:
        return self.pose(StateQuery(next(self._numbers)))

    def find(self, timestamp_ns: int) -> int:
        return self.pose(TimeQuery(next(self._numbers), timestamp_ns))

    def pose(self, query: Query) -> int:
        self.run(self.core.ask(query))
        return query.query

    def values(self, number: int) -> list[object]:
        """Give the values that a fetch has found; raises ``KeyError`` without an answer."""
        found = self.answers[number]
        assert isinstance(found, Fetched), found
        return [decode(value) for run in found.runs for value in run.entries()[1::2]]

    def told_state(self, number: int) -> State:
        found = self.answers[number]
        assert isinstance(found, State), found
        return found

    def flush(self) -> None:
        self.run(self.core.flush())

    def run(self, effects: list) -> None:
        self.mesh.take(self.name, effects)
        for effect in effects:
            match effect:
                case QueryAnswered(answer, group):
                    assert group == self.core.group, "it is known who answered"
                    assert answer.query not in self.answers, "a question is answered once"
                    self.answers[answer.query] = answer
                case IdleReached(token):
                    self.idle.add(token)
                case Resolve(outcome):
                    for request in range(outcome.first_request, outcome.last_request + 1):
                        assert request not in self.outcomes, f"request {request} resolved twice"
                        result = outcome.between(request - 1, request)
                        assert result is not None
                        self.outcomes[request] = result.result
                case _:
                    pass


class LogProxyMesh(LogMesh):
    """Replicas hear the group's topic, proxies their own; reads are done when the test says so."""

    def __init__(self, names: str = "abc") -> None:
        self.askers: dict[str, LogAsker] = {}
        self.reads: list[tuple[str, ReadFor]] = []
        self.is_reading = True
        super().__init__(names, dict.fromkeys(names, names), durable=False)

    def proxy(self, name: str = "p", patience_ticks: int = 100) -> LogAsker:
        self.where.setdefault(name, EndpointId(name.encode() * 16))
        asker = self.askers[name] = LogAsker(self, name, patience_ticks)
        asker.run(asker.core.start())
        asker.run(asker.core.survey([self.where[each] for each in self.cores]))
        self.work()
        return asker

    def take(self, name: str, effects: list) -> None:
        rest = []
        for effect in effects:
            match effect:
                case ToProxy(where, payload):
                    to = next(each for each in self.where if self.where[each] == where)
                    self.mail.append((name, to, payload))
                case ReadFor():
                    self.reads.append((name, effect))
                case Unicast(where) if name in self.cores and self._is_proxy(where):
                    pass  # It does not hear the group's topic.
                case _ if name in self.cores or isinstance(effect, Unicast | Multicast):
                    rest.append(effect)
        super().take(name, rest)

    def _is_proxy(self, where: EndpointId) -> bool:
        return any(self.where[name] == where for name in self.askers)

    def work(self) -> None:
        """Pass all letters on, do the writes, and the reads."""
        while True:
            while self.mail or any(self.writes[name] for name in self.cores):
                if self.mail:
                    self.deliver(*self.mail.popleft())
                else:
                    for name in self.cores:
                        if self.writes[name]:
                            self.write(name)
            if not self.is_reading or not self.reads:
                return
            self.read()

    def read(self) -> None:
        """Do the oldest read, as a driver does it."""
        name, asked = self.reads.pop(0)
        core, query = self.cores[name], asked.query
        machine = core.machine
        answer: Answer
        if isinstance(query, TimeQuery):
            answer = Found(query.query, machine.find(query.timestamp_ns))
        else:
            runs = [run for at in query.positions for run in machine.read(*at, query.size_max)]
            offsets = machine.goes_on(query.positions, query.seen, is_current=True)
            answer = Fetched(query.query, tuple(runs), offsets)
        self.take(name, core.was_read(asked.endpoint, asked.ticket, answer))

    def deliver(self, sender: str, to: str, payload: bytes) -> None:
        if {sender, to} & self.cut:
            return
        where = self.where[sender]
        if (asker := self.askers.get(to)) is not None:
            asker.run(asker.core.receive(where, payload))
        elif to in self.cores:
            core = self.cores[to]
            self.take(to, core.receive(where, payload))
            self.take(to, core.flush())

    def tick(self, names: str | None = None) -> None:
        super().tick(names)
        for asker in self.askers.values():
            asker.run(asker.core.tick(self.now_ns))

    def ticks(self, number: int) -> None:
        """Let time pass, with all that happens meanwhile."""
        for _ in range(number):
            self.tick()
            self.work()
