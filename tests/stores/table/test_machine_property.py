"""Random programs at a leader and its followers: what holds whatever is asked, lost and undone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from stores.actions import Guard, GuardKind, Initial, Step, StepKind, request_range
from stores.group.terms import FORCED_TERMS
from stores.quota import Quota
from stores.requests import Requests
from stores.scanning import EVERYTHING
from stores.table import parts, writers
from stores.table.bodies import ChangeQuota, Compare
from stores.table.codec import decode_part, encode_part
from stores.table.machine import TableMachine
from tests.stores.table.lab import SECOND_NS, Handle, Lab, shown
from wire.encoding import encode
from wire.values import Set

KEYS = st.integers(0, 2)
VALUES = st.sampled_from([1, 2, 3, "text", (1,), Set([1])])
SPANS = st.sampled_from([None, None, 0, SECOND_NS, 3 * SECOND_NS])
HANDLES = st.integers(0, 2)
INITIALS = st.sampled_from([Initial.NUMBER] * 5 + list(Initial))


def steps():
    put = st.builds(
        lambda k, v, e: Step(StepKind.PUT, encode(k), encode(v), None, e), *(KEYS, VALUES, SPANS)
    )
    erase = st.builds(lambda k: Step(StepKind.ERASE, encode(k)), KEYS)
    add = st.builds(
        lambda k, v, i: Step(StepKind.ADD, encode(k), encode(v), i), *(KEYS, VALUES, INITIALS)
    )
    return st.lists(st.one_of(put, erase, add), min_size=1, max_size=4)


def guards():
    absent = st.builds(lambda k: Guard(GuardKind.ABSENT, encode(k)), KEYS)
    value = st.builds(lambda k, v: Guard(GuardKind.VALUE, encode(k), encode(v)), KEYS, VALUES)
    revision = st.builds(
        lambda k, r: Guard(GuardKind.REVISION, encode(k), revision=r), *(KEYS, st.integers(0, 9))
    )
    return st.lists(st.one_of(absent, value, revision), max_size=2)


WRITES = st.one_of(
    st.tuples(
        st.just("put"), HANDLES, st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), SPANS
    ),
    st.tuples(st.just("put_unique"), HANDLES, KEYS, VALUES, SPANS),
    st.tuples(st.just("erase"), HANDLES, st.lists(KEYS, min_size=1, max_size=3)),
    st.tuples(
        st.just("add"), HANDLES, st.lists(KEYS, min_size=1, max_size=3), VALUES, INITIALS, SPANS
    ),
    st.tuples(st.just("subtract"), HANDLES, st.lists(KEYS, min_size=1, max_size=3), VALUES),
    st.tuples(st.just("clear"), HANDLES),
    st.tuples(st.just("batch"), HANDLES, guards(), steps(), st.none() | steps()),
)
EVENTS = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from([1, 1, 2, 4])),
    st.tuples(st.just("time"), st.sampled_from([SECOND_NS, 5 * SECOND_NS])),
    st.tuples(st.just("quota"), st.sampled_from([None, 3, 5])),
    st.tuples(st.just("repeat"), HANDLES, st.integers(0, 5)),
    st.tuples(st.just("register"), HANDLES),
    st.tuples(st.just("scan")),
    st.tuples(st.just("compare")),
    st.tuples(st.just("swap")),
    st.tuples(st.just("lose")),
    st.tuples(st.just("force")),
)
PROGRAMS = st.lists(WRITES | EVENTS, min_size=10, max_size=40)


def put(requests, pairs, span):
    for key, value in pairs:
        requests.put(encode(key), encode(value), span)


def erase(requests, keys):
    for key in keys:
        requests.erase(encode(key))


def add(requests, keys, value, initial, span):
    for key in keys:
        requests.add(encode(key), encode(value), initial, span)


def subtract(requests, keys, value):
    for key in keys:
        requests.subtract(encode(key), encode(value))


def put_unique(requests, key, value, span):
    requests.put_unique(encode(key), encode(value), span)


CALLS = {
    "put": put,
    "put_unique": put_unique,
    "erase": erase,
    "add": add,
    "subtract": subtract,
    "clear": Requests.clear,
    "batch": Requests.batch,
}


def write(requests, kind, *arguments):
    """Have a handle's requests ask for one thing."""
    CALLS[kind](requests, *arguments)
    requests.seal()


class Program:
    """Runs one program, and checks at each step that nothing staged shows."""

    def __init__(self):
        self.lab = Lab(followers=2)
        self.handles = {number: Handle(self.lab, number) for number in range(3)}
        self.plain = TableMachine()
        self.replayed = 0
        """The plain machine never leads: it applies what is committed, and that is all."""

    def run(self, program):
        for what, *arguments in program:
            self.step(what, *arguments)
            self.check()
        self.lab.commit()
        self.check()
        self.lab.check()

    def step(self, what, *arguments):
        if what in CALLS:
            number, *rest = arguments
            write(self.handles[number].requests, what, *rest)
        else:
            getattr(self, what)(*arguments)

    def commit(self, count):
        self.lab.commit(count)

    def time(self, span_ns):
        self.lab.now_ns += span_ns
        self.lab.expire()

    def quota(self, limit):
        self.lab.judge(ChangeQuota(Quota(max_entries=limit)))

    def repeat(self, number, back):
        sent = self.handles[number].sent
        if sent:
            self.lab.judge(sent[-1 - back % len(sent)])

    def register(self, number):
        self.lab.commit()
        self.handles[number] = Handle(self.lab, number + 3 * (self.lab.committed % 80))

    def scan(self):
        self.lab.leader.scan(EVERYTHING, 100)

    def compare(self):
        self.lab.judge(Compare(1))

    def swap(self):
        self.lab.swap()

    def force(self):
        self.lab.swap()
        self.lab.term += FORCED_TERMS

    def lose(self):
        lab = self.lab
        before = shown(lab.leader), lab.leader.digest()
        lab.lose()
        assert (shown(lab.leader), lab.leader.digest()) == before
        for handle in self.handles.values():
            last = handle.requests.last_request = self.last_request(handle)
            handle.sent = [
                sent for sent in handle.sent if request_range(sent.requests[-1])[1] <= last
            ]

    def last_request(self, handle):
        """What the group knows of a writer: it asks again for all that is lost."""
        rows = {row.writer: row for row in self.lab.leader._writers.rows()}
        row = rows.get(handle.writer)
        return handle.requests.last_request if row is None else row.last_request

    def check(self):
        while self.replayed < self.lab.committed:
            self.plain.apply(*self.lab.entries[self.replayed])
            self.replayed += 1
        assert shown(self.lab.leader) == shown(self.plain)
        assert self.lab.leader.digest() == self.plain.digest()
        page = self.lab.leader.scan(EVERYTHING, 100)
        assert dict(page.entries) == shown(self.plain)[0]


@settings(deadline=None, max_examples=300)
@given(PROGRAMS)
def test_what_a_leader_judges_and_applies_followers_apply_alike(program):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "WRITERS_MAX", 4)
        Program().run(program)


@settings(deadline=None, max_examples=200)
@given(PROGRAMS, st.integers(1, 5))
def test_a_snapshot_is_the_whole_state(program, count_max):
    run = Program()
    run.run(program)
    for _ in range(3):
        write(run.handles[0].requests, "add", [0, 9], 1, Initial.VECTOR, None)
    machine = run.lab.leader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "CHUNK_COUNT_MAX", count_max)
        patch.setattr(parts, "ENTRY_SIZE", 0)
        frozen = machine.freeze()
    digest, seen = machine.digest(), shown(machine)
    run.lab.commit()
    copy = TableMachine()
    copy.install([decode_part(encode_part(part)) for part in frozen])
    assert copy.digest() == digest
    assert shown(copy) == seen
    # It goes on alike: with the expiries, the writers and the quota.
    for position, body in run.lab.entries[run.lab.committed - 3 :]:
        copy.apply(position, body)
    assert copy.digest() == machine.digest()
    later = run.lab.now._replace(elapsed_ns=run.lab.now_ns + 9 * SECOND_NS)
    due = [one.due(later) for one in (copy, machine)]
    assert set(due[0].keys if due[0] else ()) == set(due[1].keys if due[1] else ())
