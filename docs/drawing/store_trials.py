"""Lets a real master and two real clones talk, and writes down which commands go between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stores.actions import Action
from stores.clone import Clone
from stores.commands import Actions, InternalCommand
from stores.effects import Effect, MasterFound, Multicast, Persist, Resolve, Unicast
from stores.encoding import decode_action, decode_command
from stores.master import Master
from stores.outcomes import Applied
from stores.persistence import Loaded
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

NOW_NS: Final = 10**9
INCARNATION: Final = 1
EPOCH: Final = 1

Store = Master | Clone


def _entity(number: int) -> EntityId:
    return EntityId(EndpointId(bytes(15) + bytes((number,))), 1)


@dataclass(slots=True)
class StoreTalk:
    """A master with a durable backend, two clones, and what is on its way between them."""

    steps: list[str] = field(default_factory=list)
    names: dict[EndpointId, str] = field(default_factory=dict)
    stores: dict[EndpointId, Store] = field(default_factory=dict)
    wire: deque[tuple[EndpointId, EndpointId, bytes]] = field(default_factory=deque)
    commits: deque[tuple[Master, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Build the three; none knows another yet."""
        self._join("Clone", Clone(_entity(1), INCARNATION))
        self._join("Master", Master(_entity(2), Loaded(epoch=EPOCH), is_durable=True))
        self._join("Other", Clone(_entity(3), INCARNATION))

    def _join(self, name: str, store: Store) -> None:
        self.names[store.entity.endpoint] = name
        self.stores[store.entity.endpoint] = store

    def find(self, name: str) -> Store:
        """Give the store of that name."""
        (endpoint,) = (each for each, known in self.names.items() if known == name)
        return self.stores[endpoint]

    def attach(self) -> Sequence[str]:
        """Let both clones find their master."""
        for name in ("Clone", "Other"):
            clone = self.find(name)
            assert isinstance(clone, Clone), name
            self.carry_out(clone, clone.start())
        return self.run()

    def put(self) -> Sequence[str]:
        """Let the first clone's handle put a key."""
        clone = self.find("Clone")
        clone.requests.put(encode("key"), encode("value"))
        self.steps.append("Note over Clone: put")
        self.carry_out(clone, clone.flush(NOW_NS))
        return self.run()

    def run(self) -> Sequence[str]:
        """Deliver everything; commits end when nothing else is under way. Gives the new steps."""
        while self.wire or self.commits:
            if self.wire:
                self.deliver(*self.wire.popleft())
            else:
                master, token = self.commits.popleft()
                self.steps.append("Note over Master: persisted")
                self.carry_out(master, master.persisted(token))
        steps, self.steps = self.steps, []
        return steps

    def deliver(self, sender: EndpointId, to: EndpointId, payload: bytes) -> None:
        """Hand a command over, and settle as the endpoint's loop does."""
        store = self.stores[to]
        said = _said(decode_command(payload))
        self.steps.append(f"{self.names[sender]}->>{self.names[to]}: {said}")
        self.carry_out(store, store.receive(sender, payload, NOW_NS))
        self.carry_out(store, store.flush(NOW_NS))

    def carry_out(self, store: Store, effects: Sequence[Effect]) -> None:
        """Do what a store asks."""
        here = store.entity.endpoint
        for effect in effects:
            match effect:
                case Unicast(to, payload):
                    self.wire.append((here, to, payload))
                case Multicast(payload):
                    for to in self.hearers(store):
                        self.wire.append((here, to, payload))
                case Persist(token):
                    assert isinstance(store, Master), store
                    self.commits.append((store, token))
                    self.note(store, "Persist")
                case Resolve(outcome):
                    assert isinstance(outcome.result, Applied), outcome
                    self.note(store, f"Resolve, revision {outcome.result.revision}")
                case MasterFound():
                    self.note(store, "MasterFound")
                case _:
                    raise AssertionError(f"{effect} has no place in this picture")

    def hearers(self, store: Store) -> list[EndpointId]:
        """Say who hears a store's multicasts: a master's clones, or the master."""
        kind: Callable[[Store], bool] = (
            (lambda each: isinstance(each, Clone))
            if isinstance(store, Master)
            else (lambda each: isinstance(each, Master))
        )
        return [endpoint for endpoint, each in self.stores.items() if kind(each)]

    def note(self, store: Store, text: str) -> None:
        """Write down what the driver has to do."""
        self.steps.append(f"Note over {self.names[store.entity.endpoint]}: {text}")


def _said(command: InternalCommand) -> str:
    match command.content:
        case Actions(payloads):
            names = [_action_name(decode_action(payload)) for payload in payloads]
            return f"Actions ({', '.join(names)})"
        case content:
            return type(content).__name__


def _action_name(action: Action) -> str:
    return type(action).__name__
