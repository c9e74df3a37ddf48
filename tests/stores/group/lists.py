"""A tiny machine for the model: lists that grow, and a ledger of writers, as tables have one."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from stores.group.clock import Times
from stores.group.machine import Answer, Append, Machine, Staged
from wire.errors import DecodeError

WRITERS_MAX = 6
"""So few that writers are evicted in most runs."""


class Register(NamedTuple):
    """Ask for a number to write under; a repeated nonce is answered with the same number."""

    nonce: str


class Push(NamedTuple):
    """Append a value to a list, once, however often this is sent."""

    writer: int
    request: int
    key: int
    value: str


class Noop(NamedTuple):
    """Only grow the journal."""


@dataclass(frozen=True)
class Registered:
    nonce: str
    evicted: int | None


@dataclass(frozen=True)
class Pushed:
    push: Push
    position: int


class Unknown(NamedTuple):
    """The writer was evicted: whether the request was done cannot be told."""


@dataclass
class Writer:
    nonce: str
    request: int = 0
    answer: object = None
    index: int = 0
    """Where the entry of that request is."""


@dataclass
class State:
    lists: dict[int, tuple[str, ...]] = field(default_factory=dict)
    writers: dict[int, Writer] = field(default_factory=dict)
    """By number, that which was idle longest first."""

    def copy(self) -> State:
        writers = {number: Writer(**vars(writer)) for number, writer in self.writers.items()}
        return State(dict(self.lists), writers)

    def apply(self, index: int, body: object) -> object:
        if isinstance(body, Registered):
            if body.evicted is not None:
                del self.writers[body.evicted]
            self.writers[index] = Writer(body.nonce, index=index)
            return index
        if isinstance(body, Pushed):
            push, values = body.push, self.lists.get(body.push.key, ())
            assert body.position == len(values) + 1, ("machines diverged", body, len(values))
            self.lists[push.key] = (*values, push.value)
            writer = self.writers.pop(push.writer)
            writer.request, writer.answer, writer.index = push.request, body.position, index
            self.writers[push.writer] = writer
            return body.position
        return None


class Lists(Machine):
    """The machine. Its staged state is a second one, made when a member begins to lead."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state or State()
        self.staged: State | None = None
        self.traffic = 0
        self.is_timed = True
        self.led_at: Times | None = None
        self.led_term: int | None = None
        self.judged_at: Times | None = None
        self.due_ns: int | None = None
        """The elapsed time at which something expires, once."""

    def judge(self, request, now):
        self.judged_at = now
        if self.staged is None:
            self.staged = self.state.copy()
        match request:
            case Register(nonce=nonce):
                return self._judge_nonce(nonce)
            case Push():
                return self._judge_push(request)
        return Append(request)

    def _judge_nonce(self, nonce):
        writers = self.staged.writers
        for number, writer in writers.items():
            if writer.nonce == nonce:
                return Answer(number) if number in self.state.writers else Staged(number)
        is_full = len(writers) >= WRITERS_MAX
        return Append(Registered(nonce, next(iter(writers)) if is_full else None))

    def _judge_push(self, push):
        writer = self.staged.writers.get(push.writer)
        if writer is None:
            return Answer(Unknown())
        if writer.request >= push.request:
            known = self.state.writers.get(push.writer)
            is_applied = known is not None and known.request >= push.request
            return Answer(known.answer) if is_applied else Staged(writer.index)
        return Append(Pushed(push, len(self.staged.lists.get(push.key, ())) + 1))

    def due(self, now):
        if self.due_ns is None or now.elapsed_ns < self.due_ns:
            return None
        self.due_ns = None
        return Noop()

    def has_deadlines(self):
        return self.is_timed

    def lead(self, now, term):
        self.led_at, self.led_term = now, term

    def stage(self, position, body):
        if self.staged is None:
            self.staged = self.state.copy()
        self.staged.apply(position.index, body)

    def changes_of(self, body):
        return 1

    def size_of(self, body):
        return len(body.push.value) if isinstance(body, Pushed) else 0

    def undo(self):
        self.staged = None

    def apply(self, position, body):
        self.traffic += self.size_of(body)
        return self.state.apply(position.index, body)

    def freeze(self, after=0):
        """Give a part for each list and one for the writers, so that snapshots have several."""
        state = self.state.copy()
        return (*sorted(state.lists.items()), state.writers)

    def prepare(self, number, part):
        return part

    @staticmethod
    def whole(parts):
        """Give what a disk has once these parts are installed: they leave out nothing."""
        return tuple(parts)

    def install(self, parts):
        if not parts or not isinstance(parts[-1], dict):
            raise DecodeError("a snapshot without its last part")
        *lists, writers = parts
        self.state = State(dict(lists), writers).copy()
        self.staged = None

    def digest(self):
        writers = sorted((number, vars(writer)) for number, writer in self.state.writers.items())
        return sha256(repr((sorted(self.state.lists.items()), writers)).encode()).digest()
