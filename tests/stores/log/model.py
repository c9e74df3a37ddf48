"""The model of replica groups (``tests.stores.group``) over the machine of logs.

Its lists are partitions. They grow by appends, half of them of named producers, which also repeat
themselves by other handles; with each goes a cursor of its own.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

import pytest

from stores.group.machine import Answer
from stores.log import bodies, messages, parts, producers, windows
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.log.partitions import KEEP_ALL
from stores.outcomes import Applied, Refused
from stores.table import bodies as table_bodies, writers
from tests.stores.group import checks, disk, world
from tests.stores.group.checks import Violation
from tests.stores.group.client import KEYS, Client
from tests.stores.group.lists import Noop, Push, Register, Unknown
from tests.stores.log.lab import entries_of
from tests.stores.table.model import Forgotten, writer_of
from wire.encoding import encode
from wire.errors import ErrorCode

WRITERS_MAX = 6
"""As few as the tiny machine has."""

CODEC = LogCodec()


class Appended(NamedTuple):
    """Append a value to a list, once, however often this is sent."""

    writer: int
    request: int
    key: int
    value: str
    producer: str | None
    nonce: str


class State(NamedTuple):
    """What the model looks at."""

    machine: LogMachine

    @property
    def lists(self):
        return self

    def get(self, key, default):
        machine = self.machine
        if key >= len(machine.partitions):
            return default
        return tuple(entries_of(machine, key).values())


class LogLists(LogMachine):
    """The machine, asked as the tiny one is. Bodies and snapshots pass through their bytes."""

    digests = {}  # noqa: RUF012  # what members were at one index, in one world
    wholes = {}  # noqa: RUF012  # by the parts of a snapshot: all parts of what it comes to

    def __init__(self):
        super().__init__(partition_count=KEYS)

    @property
    def state(self):
        return State(self)

    @classmethod
    def whole(cls, parts):
        """Give what a disk has after an installation."""
        return cls.wholes.get(tuple(parts), tuple(parts))

    def judge(self, request, now):
        judgement = super().judge(translated(request), now)
        if isinstance(judgement, Answer):
            return Answer(self.told(judgement.value, request))
        return judgement

    def apply(self, position, body):
        if self._staged is None:
            body = CODEC.decode(CODEC.encode(body))
        answer = super().apply(position, body)
        self._compare_with_others(position)
        match answer:
            case table_bodies.Registration(number):
                return number
            case (outcome, *_):
                return self.place(outcome)
        return answer

    def _compare_with_others(self, position):
        """Check now and then that members that applied the same are the same."""
        if position.index % 8 == 0:
            found = self.digest()
            if self.digests.setdefault(position, found) != found:
                raise Violation(f"machines differ at {position}")

    @staticmethod
    def place(outcome):
        """Give at which place the value of an append is."""
        match outcome.result:
            case Applied(offset):
                return offset + 1
            case Refused(ErrorCode.REQUEST_TIMEOUT):
                return Forgotten()
        raise Violation(f"an append was refused: {outcome}")

    def told(self, answer, request):
        """Give an answer that needs no entry in the words of the tiny machine."""
        match answer:
            case table_bodies.Registration(number):
                return number
            case table_bodies.UnknownWriter():
                return Unknown()
            case (outcome, *_):
                return self.place(outcome)
        raise Violation(f"{request} got {answer}")

    def freeze(self, after=0):
        return tuple(CODEC.encode_part(part) for part in super().freeze(after))

    def install(self, parts):
        super().install([CODEC.decode_part(part) for part in parts])
        self.wholes[tuple(parts)] = self.freeze()


def translated(request):
    match request:
        case Register(nonce):
            return table_bodies.Register(writer_of(nonce))
        case Noop():
            return bodies.ChangeRetention(KEEP_ALL)
        case Appended(number, asked, key, value, producer, nonce):
            sequence = int(value.partition(":")[2])
            append = messages.Append(key, producer, sequence, (None, encode(value)))
            done = messages.MoveCursor(nonce, ((key, 0),))
            first = 2 * asked - 1
            requests = messages.Requests(writer_of(nonce), first, first - 1, (append, done))
            return bodies.Write(number, requests)


class LogClient(Client):
    """Numbers its appends without a gap, and names itself in every other one.

    What has no known outcome, as its writer was evicted, it repeats as another writer, if it has
    named itself.
    """

    asked = 0
    nonce = ""
    lost = None

    def begin(self):
        if self.lost is None or self.writer is None or self.is_stopping:
            super().begin()
            return
        self.request += 1
        self.begun, key, value = self.lost
        self.lost = None
        self.world.figures["repeated"] += 1
        self.what = ("push", key, self.append(key, value, is_named=True))
        self.ask()

    def ask(self):
        if self.begun is not None:
            kind, key, request = self.what
            if isinstance(request, Push):
                is_named = self.random.random() < 0.5
                self.what = kind, key, self.append(key, request.value, is_named=is_named)
            elif kind == "register":
                self.nonce = request.nonce
        super().ask()

    def append(self, key, value, *, is_named):
        self.asked += 1
        producer = f"till {self.number}" if is_named else None
        return Appended(self.writer, self.asked, key, value, producer, self.nonce)

    def finish(self, name, result):
        kind, key, request = self.what
        if kind == "register":
            self.asked = 0
        if isinstance(result, Unknown):
            if writer_of(self.nonce) not in self.world.witness.evicted:
                raise Violation(f"unknown outcome for {self.nonce}, which was not evicted")
            self.world.witness.evicted.add(self.writer)
            if request.producer is not None:
                self.lost = self.begun, key, request.value
        if isinstance(result, Forgotten):
            raise Violation(f"an outcome is forgotten that was never told: {self.what}")
        super().finish(name, result)


@contextmanager
def over_logs():
    """Have the model run over the machine of logs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "Lists", LogLists)
        patch.setattr(disk, "Lists", LogLists)
        patch.setattr(world, "Client", LogClient)
        patch.setattr(checks, "Registered", table_bodies.Registered)
        patch.setattr(writers, "WRITERS_MAX", WRITERS_MAX)
        patch.setattr(producers, "PRODUCER_WINDOW", 4)
        patch.setattr(windows, "BLOCK_COUNT", 2)
        patch.setattr(parts, "CHUNK_COUNT_MAX", 16)
        patch.setattr(LogLists, "digests", {})
        patch.setattr(LogLists, "wholes", {})
        yield


def run_seed(seed):
    """Run one world; gives what was violated, or ``None``, and figures."""
    with over_logs():
        return world.run_seed(seed)
