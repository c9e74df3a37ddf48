"""Lets a real master and two real clones talk, and writes down which letters go between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from channels import Event
from stores.effects import MasterFound, Multicast, Resolve, Unicast
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.effects import WriteMark
from stores.group.entries import ActionEntry, Entry
from stores.group.member_parts import Stored
from stores.group.messages import FromFollower, ToFollower
from stores.group.positions import START, MemberId
from stores.group.words import Answered, Ask, Greeting, Letter
from stores.outcomes import Applied
from stores.replica import beginning
from stores.replica.beginning import Beginning, Manner
from stores.replica.effects import ReplicaEffect, ToDisk
from stores.replica.lazy import RowKeeper
from stores.replica.roster import Roster
from stores.replica.tables.core import TableCore
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

TICK_NS: Final = 100_000_000
MASTER: Final = "Master"
NAMES: Final = ("Clone", MASTER, "Other")
CODEC: Final = GroupCodec(TableCodec())


@dataclass(slots=True)
class StoreTalk:
    """A master with a disk, two clones, and what is on its way between them."""

    steps: list[str] = field(default_factory=list)
    cores: dict[str, TableCore] = field(default_factory=dict)
    wire: deque[tuple[str, str, bytes]] = field(default_factory=deque)
    jobs: deque[int] = field(default_factory=deque)
    """The tokens of what the disk was asked for."""
    started: list[str] = field(default_factory=list)
    now_ns: int = TICK_NS

    def __post_init__(self) -> None:
        """Build the three; none knows another yet."""
        for name in NAMES:
            self.cores[name] = self._core(name)

    def _core(self, name: str) -> TableCore:
        is_master, number = name == MASTER, NAMES.index(name) + 1
        own, endpoint = MemberId(name, number), EndpointId(bytes(15) + bytes((number,)))
        stored = Stored(new_promises(own), NEW_SLOTS, START, (), (), 0, is_volatile=not is_master)
        machine = TableMachine("store s")
        core = TableCore(
            EntityId(endpoint, 1),
            Roster(own, endpoint, (name,) if is_master else ()),
            machine,
            CODEC,
            Beginning(stored, None, manner=Manner(is_single=True)),
            beginning.World(
                draw=lambda least, most: least,
                monotonic_ns=lambda: self.now_ns,
                now_ns=lambda: self.now_ns,
                new_group=lambda: bytes(16),
                vouches=lambda endpoint, name: True,
                may_vote=lambda: True,
            ),
        )
        if is_master:
            core.carrier.keeper = RowKeeper(machine, 0)
        return core

    def attach(self) -> Sequence[str]:
        """Let a master begin, and then both clones find it."""
        self.start(MASTER)
        self.run()
        self.start("Clone")
        steps = self.run()
        self.start("Other")
        return [*steps, *self.run()]

    def start(self, name: str) -> None:
        """Have one of them hear the others from now on."""
        self.started.append(name)
        self.carry_out(name, self.cores[name].start())

    def put(self) -> Sequence[str]:
        """Let the first clone's handle put a key, as its second request."""
        clone = self.cores["Clone"]
        for value in ("before", "value"):
            clone.requests.put(encode("key"), encode(value))
            self.steps = ["Note over Clone: put"]
            self.carry_out("Clone", clone.flush())
            steps = self.run()
        return steps

    def run(self) -> Sequence[str]:
        """Deliver everything; the disk has written when nothing else is under way."""
        while self.wire or self.jobs or any(core.has_work for core in self.cores.values()):
            if self.wire:
                self.deliver(*self.wire.popleft())
            elif not self.jobs:
                for name, core in self.cores.items():
                    self.carry_out(name, core.work() if core.has_work else [])
            else:
                self.steps.append(f"Note over {MASTER}: written")
                self.carry_out(MASTER, self.cores[MASTER].persisted(self.jobs.popleft()))
        steps, self.steps = self.steps, []
        return steps

    def deliver(self, sender: str, to: str, payload: bytes) -> None:
        """Hand a letter over, and settle as the endpoint's loop does."""
        core = self.cores[to]
        self.steps.append(f"{sender}->>{to}: {_said(CODEC.decode(payload))}")
        where = self.cores[sender].entity.endpoint
        self.carry_out(to, core.receive(where, payload))
        self.carry_out(to, core.flush())

    def carry_out(self, name: str, effects: Iterable[ReplicaEffect]) -> None:
        """Do what a replica asks."""
        for effect in effects:
            match effect:
                case Unicast(where, payload):
                    to = next(
                        each for each in self.cores if self.cores[each].entity.endpoint == where
                    )
                    self.wire.append((name, to, payload))
                case Multicast(payload):
                    self.wire.extend((name, to, payload) for to in self.started if to != name)
                case ToDisk(token):
                    self.jobs.append(token)
                    self.note(name, "ToDisk")
                case Resolve(outcome):
                    assert isinstance(outcome.result, Applied), outcome
                    self.note(name, f"Resolve, revision {outcome.result.revision}")
                case MasterFound():
                    self.note(name, "MasterFound")
                case WriteMark():
                    pass  # It waits for no disk.
                case _:
                    raise AssertionError(f"{effect} has no place in this picture")

    def note(self, name: str, text: str) -> None:
        """Write down what the driver has to do."""
        self.steps.append(f"Note over {name}: {text}")


def _said(letter: Letter) -> str:
    content = letter.content
    name = type(content).__name__
    match content:
        case Greeting(is_question=True):
            return f"{name}?"
        case Ask(_, request):
            return f"{name} ({type(request).__name__})"
        case Answered(_, answer):
            what = "outcomes" if isinstance(answer, tuple) else type(answer).__name__
            return f"{name} ({what})"
        case ToFollower(message=Event(payloads=entries)):
            return f"{name} ({', '.join(map(_entry_name, entries))})"
        case ToFollower(message=message) | FromFollower(message=message):
            return f"{name} ({type(message).__name__})"
        case _:
            return name


def _entry_name(entry: Entry) -> str:
    what = entry.body if isinstance(entry, ActionEntry) else entry
    return type(what).__name__
