"""A group with proxies outside of it: clocks, disks and mail are the test's."""

from __future__ import annotations

from itertools import count

from stores.actions import Initial
from stores.effects import IdleReached, Multicast, ReadAnswered, Resolve, ToProxy, Unicast
from stores.outcomes import Applied, Refused
from stores.questions import (
    LookUpCommand,
    Question,
    ReadAnswerCommand,
    ReadRefusedCommand,
)
from stores.replica.tables.outside import TableProxy
from tests.stores.replica.test_core import CODEC, Mesh
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId
from wire.values import Value

INCARNATION = 1_000_000


class Asker:
    """A proxy with all that it said, and its handle. Operations give the request's number."""

    def __init__(self, mesh: ProxyMesh, name: str, incarnation: int, buffer_ticks: int) -> None:
        self.mesh = mesh
        self.name = name
        entity = EntityId(mesh.where[name], 0)
        self.core = TableProxy(entity, CODEC, incarnation, buffer_ticks)
        self.outcomes: dict[int, Applied | Refused] = {}
        self.answers: dict[int, ReadAnswerCommand | ReadRefusedCommand] = {}
        self.idle: set[int] = set()
        self.told: list[object] = []
        self._numbers = count(1)

    def put(self, key: Value, value: Value) -> int:
        return self.core.requests.put(encode(key), encode(value))

    def put_unique(self, key: Value, value: Value) -> int:
        return self.core.requests.put_unique(encode(key), encode(value))

    def erase(self, key: Value) -> int:
        return self.core.requests.erase(encode(key))

    def increment(self, key: Value, amount: Value = 1) -> int:
        return self.core.requests.add(encode(key), encode(amount), Initial.NUMBER)

    def subtract(self, key: Value, amount: Value) -> int:
        return self.core.requests.subtract(encode(key), encode(amount))

    def ask(self, key: Value, *, is_for_master: bool = False, revision_min: int = 0) -> int:
        question = LookUpCommand(next(self._numbers), revision_min, encode(key), True)
        return self.pose(question, is_for_master=is_for_master)

    def pose(self, question: Question, *, is_for_master: bool = False) -> int:
        self.run(self.core.ask(question, is_for_master=is_for_master))
        return question.number

    def answer(self, number: int) -> Value:
        """Give the value that a question has found; raises ``KeyError`` without an answer."""
        found = self.answers[number]
        assert isinstance(found, ReadAnswerCommand), found
        return decode(found.rows.values[0]) if found.rows else None

    def survey(self, *names: str) -> None:
        """Learn which replicas there are, the nearest first."""
        self.run(self.core.survey([self.mesh.where[name] for name in names]))

    def flush(self) -> None:
        self.run(self.core.flush())

    def run(self, effects: list) -> None:
        self.mesh.take(self.name, effects)
        for effect in effects:
            match effect:
                case ReadAnswered(token, answer, _):
                    assert token not in self.answers, f"question {token} answered twice"
                    self.answers[token] = answer
                case IdleReached(token):
                    self.idle.add(token)
                case Resolve(outcome):
                    for request in range(outcome.first_request, outcome.last_request + 1):
                        assert request not in self.outcomes, f"request {request} resolved twice"
                        result = outcome.between(request - 1, request)
                        assert result is not None
                        self.outcomes[request] = result.result
                case Unicast() | Multicast():
                    pass
                case _:
                    self.told.append(effect)


class ProxyMesh(Mesh):
    """Replicas hear the group's topic, proxies their own."""

    def __init__(self, names: str = "abc", *, durable: bool = False, **more: object) -> None:
        self.askers: dict[str, Asker] = {}
        super().__init__(names, durable=durable, **more)

    def proxy(
        self,
        *nearest: str,
        name: str = "p",
        buffer_ticks: int = 1_200,
        incarnation: int = INCARNATION,
    ) -> Asker:
        """Start a proxy that knows of these replicas, or of all."""
        self.where.setdefault(name, EndpointId(name.encode() * 16))
        asker = self.askers[name] = Asker(self, name, incarnation, buffer_ticks)
        asker.run(asker.core.start())
        asker.survey(*(nearest or self.cores))
        return asker

    def take(self, name: str, effects: list) -> None:
        rest = []
        for effect in effects:
            match effect:
                case ToProxy(where, payload):
                    to = next(each for each in self.where if self.where[each] == where)
                    self.mail.append((name, to, payload))
                case Unicast(where) if name in self.cores and self._is_proxy(where):
                    pass  # It does not hear the group's topic.
                case _ if name in self.cores or isinstance(effect, Unicast | Multicast):
                    rest.append(effect)
        super().take(name, rest)

    def _is_proxy(self, where: EndpointId) -> bool:
        return any(self.where[name] == where for name in self.askers)

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

    def work(self) -> None:
        """Pass all letters on, look up all pages, and do the writes of disks that are not slow."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do one thing of these; tells whether there was any."""
        for asker in self.askers.values():
            asker.flush()
        if self.mail:
            self.deliver(*self.mail.popleft())
            return True
        for name, core in self.cores.items():
            if core.has_work:
                self.take(name, core.work())
                return True
            if name not in self.slow and self.writes[name]:
                self.write(name)
                return True
        return False

    def tick(self, names: str | None = None) -> None:
        super().tick(names)
        for name, asker in self.askers.items():
            if names is None or name in names:
                asker.run(asker.core.tick(self.now_ns))

    def ticks(self, number: int) -> None:
        """Let time pass, with all that happens meanwhile."""
        for _ in range(number):
            self.tick()
            self.work()

    def crash(self, name: str) -> None:
        """End a replica without a word; all others notice that its endpoint is gone."""
        del self.cores[name]
        self.cut.add(name)
        for other, core in self.cores.items():
            self.take(other, core.peer_unreachable(self.where[name]))
        for asker in self.askers.values():
            asker.run(asker.core.peer_unreachable(self.where[name]))
