"""Table machines as one group, in the test's hands: a journal, a leader and its followers.

What followers apply has been through its bytes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from stores.actions import Guard, GuardKind, Initial, Step, StepKind, WriterId
from stores.group.clock import Times
from stores.group.machine import Answer, Append, Staged
from stores.group.positions import Position
from stores.requests import Requests
from stores.table.bodies import Register, Registration, Write
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

SECOND_NS = 1_000_000_000


def writer_id(number):
    return WriterId.of(EntityId(EndpointId(bytes(15) + bytes((number,))), 1), 7)


class Lab:
    """A leader and its followers; entries are committed when the test says so."""

    codec = TableCodec()

    def __init__(self, followers=1):
        self.leader = self.machine()
        self.followers = [self.machine() for _ in range(followers)]
        self.entries = []
        self.committed = 0
        self.term = 1
        self.now_ns = 0
        self.answers = {}

    def machine(self):
        """Make one that has applied nothing."""
        return TableMachine()

    @property
    def machines(self):
        return [self.leader, *self.followers]

    @property
    def now(self):
        return Times(self.now_ns, 0)

    # -- the way of a request --------------------------------------------------------------------

    def judge(self, request):
        """Judge, and append what is to be appended; gives the judgement, or the entry's index."""
        judgement = self.leader.judge(request, self.now)
        return self.append(judgement.body) if isinstance(judgement, Append) else judgement

    def append(self, body):
        position = Position(self.term, len(self.entries) + 1)
        self.entries.append((position, body))
        self.leader.stage(position, body)
        return position.index

    def expire(self):
        """Have the leader look at its clock."""
        body = self.leader.due(self.now)
        return None if body is None else self.append(body)

    def commit(self, count=None):
        """Commit the next entries, or all; gives the answer to the last one."""
        end = len(self.entries) if count is None else min(self.committed + count, len(self.entries))
        answer = None
        while self.committed < end:
            position, body = self.entries[self.committed]
            self.committed += 1
            answer = self.answers[position.index] = self.leader.apply(position, body)
            for follower in self.followers:
                data = self.codec.encode(body)
                copy = self.codec.decode(data)
                # Written without the bytes that it came in.
                assert self.codec.encode(replace(copy)) == data
                assert follower.apply(position, copy) == answer
        return answer

    def lose(self):
        """Have the leader lose what is not committed; the next term begins."""
        del self.entries[self.committed :]
        self.leader.undo()
        self.term += 1

    def swap(self):
        """Have a follower lead, with what the old leader had appended."""
        self.leader.undo()
        self.followers.append(self.leader)
        self.leader = self.followers.pop(0)
        self.term += 1
        for position, body in self.entries[self.committed :]:
            self.leader.stage(position, body)

    def ask(self, request):
        """Give the answer to a request, with all before it committed."""
        judgement = self.judge(request)
        self.commit()
        if isinstance(judgement, Answer):
            return judgement.value
        return self.answers[judgement.index if isinstance(judgement, Staged) else judgement]

    def shown(self, machine):
        """Give all that readers see."""
        return shown(machine)

    def check(self):
        """All members show the same, staged or not."""
        assert len({machine.digest() for machine in self.machines}) == 1
        first, *others = [self.shown(machine) for machine in self.machines]
        for other in others:
            assert other == first


def shown(machine):
    """Give all that readers see."""
    entries = {key: machine.entry(key) for key in machine}
    assert len(machine) == len(entries)
    assert {key: machine.get(key) for key in entries} == {
        key: entry.value for key, entry in entries.items()
    }
    return entries, machine.revision


class Handle:
    """A registered writer: its calls become requests, which are judged at once."""

    def __init__(self, lab, number=1):
        self.lab = lab
        self.writer = writer_id(number)
        self.resolved = 0
        self.judged = []
        self.sent = []
        registered = lab.ask(Register(self.writer))
        assert isinstance(registered, Registration)
        self.number = registered.number
        self.requests = Requests(self.writer, self._perform)
        self.tokens = count(1)

    def _perform(self, action):
        write = Write(self.number, (action,), self.resolved)
        self.sent.append(write)
        self.judged.append(self.lab.judge(write))

    def seal(self):
        self.requests.seal()
        return self.judged[-1]

    def put(self, key, value, expiry_ns=None):
        self.requests.put(encode(key), encode(value), expiry_ns)
        return self.seal()

    def put_all(self, pairs):
        for key, value in pairs:
            self.requests.put(encode(key), encode(value))
        return self.seal()

    def put_unique(self, key, value):
        self.requests.put_unique(encode(key), encode(value))
        return self.judged[-1]

    def erase(self, key):
        self.requests.erase(encode(key))
        return self.seal()

    def clear(self):
        self.requests.clear()
        return self.judged[-1]

    def increment(self, key, amount=1, expiry_ns=None):
        self.requests.add(encode(key), encode(amount), Initial.NUMBER, expiry_ns)
        return self.seal()

    def subtract(self, key, amount=1):
        self.requests.subtract(encode(key), encode(amount))
        return self.seal()

    def compare_and_set(self, key, value, revision):
        guard = Guard(GuardKind.REVISION, encode(key), revision=revision)
        self.requests.batch([guard], [Step(StepKind.PUT, encode(key), encode(value))])
        return self.judged[-1]

    def batch(self, guards, steps, otherwise=None):
        self.requests.batch(guards, steps, otherwise)
        return self.judged[-1]

    def outcomes(self):
        """Commit all, and give what became of the latest action."""
        self.lab.commit()
        last = self.judged[-1]
        return last.value if isinstance(last, Answer) else self.lab.answers[last]

    @property
    def result(self):
        """What became of the latest request."""
        return self.outcomes()[-1].result


def value_of(machine, key):
    found = machine.get(encode(key))
    return None if found is None else decode(found)


def contents(machine):
    return {decode(key): value_of(machine, decode(key)) for key in machine}
