"""The model of replica groups (``tests.stores.group``) over the machine of stores.

Its lists are vectors under integer keys. They grow by pushes, and by batches that insist on what
was read: compare and set. Each batch leaves a key of its own that expires.
"""

from __future__ import annotations

from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

import pytest

from stores.actions import (
    AddCommand,
    BatchCommand,
    BatchResultCommand,
    Guard,
    GuardKind,
    Initial,
    PutCommand,
    Step,
    StepKind,
    WriterId,
)
from stores.group.machine import Answer
from stores.outcomes import Refused
from stores.table import bodies, parts, writers
from stores.table.codec import decode_body, decode_part, encode_body, encode_part
from stores.table.machine import TableMachine
from tests.stores.group import checks, disk, world
from tests.stores.group.checks import Violation
from tests.stores.group.client import Client
from tests.stores.group.lists import Noop, Push, Register, Unknown
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import ErrorCode

WRITERS_MAX = 6
"""As few as the tiny machine has."""

LEASE_NS = 1_500_000_000


class Try(NamedTuple):
    """Push a value, or do so if the list is still as it was read."""

    writer: int
    request: int
    key: int
    value: str
    expected: tuple[str, ...] | None
    nonce: str


class Missed(NamedTuple):
    """The list was another one: nothing was pushed."""


class Forgotten(NamedTuple):
    """The writer has heard of it: what asks is a late copy, and no client waits for it."""


def writer_of(nonce):
    return WriterId(sha256(nonce.encode()).digest())


class State(NamedTuple):
    """What the model looks at."""

    machine: TableMachine

    @property
    def lists(self):
        entries = ((decode(key), decode(self.machine.get(key))) for key in self.machine)
        return {key: value for key, value in entries if type(key) is int}


class TableLists(TableMachine):
    """The machine, asked as the tiny one is. Bodies and snapshots pass through their bytes."""

    digests = {}  # noqa: RUF012  # what members found at one index, in one world

    @property
    def state(self):
        return State(self)

    def judge(self, request, now):
        judgement = super().judge(translated(request), now)
        if isinstance(judgement, Answer):
            return Answer(self.told(judgement.value, request))
        return judgement

    def apply(self, position, body):
        body = (
            body if self._overlay._done or self._overlay._queue else decode_body(encode_body(body))
        )
        answer = super().apply(position, body)
        if isinstance(body, bodies.Compared):
            self._compare_with_others(position)
        match answer:
            case bodies.Registration(number):
                return number
            case (outcome,):
                return self.place(outcome, body.actions[0])
        return answer

    def _compare_with_others(self, position):
        """Check at once that members that applied the same have the same."""
        found = None
        while found is None:
            found = self.compare()
        first = self.digests.setdefault(position.index, found)
        if first != found:
            raise Violation(f"machines differ at {position}: {first} and {found}")

    def told(self, answer, request):
        """Give an answer that needs no entry in the words of the tiny machine."""
        match answer:
            case bodies.Registration(number):
                return number
            case bodies.UnknownWriter():
                return Unknown()
            case (outcome,) if isinstance(outcome.result, Refused):
                return missed(outcome)
            case bodies.SessionGranted() | bodies.SessionHeard():
                return answer
            case (_,) if isinstance(request, bodies.Write):
                return True
            case (_,):
                return self.state.lists[request.key].index(request.value) + 1
        raise Violation(f"{request} got {answer}")

    @staticmethod
    def place(outcome, action):
        """Give at which place the value of a push is."""
        match action:
            case PutCommand(_, _, _, (_, value)):
                return len(decode(value))
            case BatchResultCommand(_, _, _, (change, _)):
                return len(decode(change.value))
        return missed(outcome)

    @staticmethod
    def whole(parts):
        return tuple(parts)

    def freeze(self, after=0):
        return tuple(encode_part(part) for part in super().freeze(after))

    def install(self, parts):
        super().install([decode_part(part) for part in parts])


def missed(outcome):
    if outcome.result.code is ErrorCode.REQUEST_TIMEOUT:
        return Forgotten()
    if outcome.result.code not in (ErrorCode.GUARD_FAILED, ErrorCode.SESSION_EXPIRED):
        raise Violation(f"a push was refused: {outcome}")
    return Missed()


def translated(request):
    match request:
        case Register(nonce):
            return bodies.Register(writer_of(nonce))
        case Noop():
            return bodies.Compare(0)
        case Try(number, asked, key, value, expected, nonce):
            writer, name = writer_of(nonce), encode(key)
            if expected is None:
                pairs = [name, encode(value)]
                action = AddCommand(writer, asked, None, Initial.VECTOR, pairs)
            else:
                guard = Guard(GuardKind.VALUE, name, value=encode(expected))
                if not expected:
                    guard = Guard(GuardKind.ABSENT, name)
                steps = (
                    Step(StepKind.PUT, name, encode((*expected, value))),
                    Step(StepKind.PUT, encode(("lease", value)), encode(1), None, LEASE_NS),
                )
                action = BatchCommand(writer, asked, (guard,), steps, None)
            return bodies.Write(number, (action,), asked - 1)
        case _:
            return request


class TableClient(Client):
    """Numbers its pushes without a gap, and makes every other one a compare and set."""

    asked = 0
    nonce = ""

    def __init__(self, *arguments):
        self.seen = {}
        super().__init__(*arguments)

    def ask(self):
        if self.begun is not None:
            kind, key, request = self.what
            if isinstance(request, Push):
                self.asked += 1
                is_comparing = key in self.seen and self.random.random() < 0.5
                expected = self.seen[key] if is_comparing else None
                tried = Try(self.writer, self.asked, key, request.value, expected, self.nonce)
                self.what = kind, key, tried
            elif kind == "register":
                self.nonce = request.nonce
        super().ask()

    def finish(self, name, result):
        kind, key, _ = self.what
        if kind == "register":
            self.asked = 0
        elif kind == "read":
            self.seen[key] = result
        if isinstance(result, Unknown):
            if writer_of(self.nonce) not in self.world.witness.evicted:
                raise Violation(f"unknown outcome for {self.nonce}, which was not evicted")
            self.world.witness.evicted.add(self.writer)
        if isinstance(result, Forgotten):
            raise Violation(f"an outcome is forgotten that was never told: {self.what}")
        if isinstance(result, Missed):
            self.world.figures["missed"] += 1
            del self.seen[key]
            self.goal, self.begun = name, None
            self.world.after(self.pause_ms(), self.begin)
        else:
            super().finish(name, result)


@contextmanager
def over_tables():
    """Have the model run over the machine of stores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "Lists", TableLists)
        patch.setattr(disk, "Lists", TableLists)
        patch.setattr(world, "Client", TableClient)
        patch.setattr(checks, "Registered", bodies.Registered)
        patch.setattr(writers, "WRITERS_MAX", WRITERS_MAX)
        patch.setattr(parts, "CHUNK_COUNT_MAX", 2)
        patch.setattr(TableLists, "digests", {})
        yield


def run_seed(seed):
    """Run one world; gives what was violated, or ``None``, and figures."""
    with over_tables():
        return world.run_seed(seed)
