"""Random programs at a leader and its followers: what holds whatever is asked, lost and undone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from stores.group.terms import FORCED_TERMS
from stores.log import judge, limits, parts, producers
from stores.log.bodies import ChangeRetention
from stores.log.machine import LogMachine
from stores.log.partitions import Retention
from stores.log.requests import LogRequests
from stores.quota import Quota
from stores.table import writers
from stores.table.bodies import ChangeQuota
from tests.stores.log.lab import SECOND_NS, LogHandle, LogLab, shown
from wire.encoding import encode

HANDLES = st.integers(0, 2)
PARTITIONS = st.sampled_from([0, 0, 0, 1, 1, 2])
"""There is no partition 2."""
OFFSETS = st.integers(0, 12)
CONSUMERS = st.sampled_from("cd")
PRODUCERS = st.sampled_from([None, None, "p", "q", "r"])
SEQUENCES = st.integers(0, 8)
SIZES = st.sampled_from([1, 1, 2, 5])

WRITES = st.one_of(
    st.tuples(st.just("append"), HANDLES, PARTITIONS, PRODUCERS, SEQUENCES, SIZES),
    st.tuples(st.just("append"), HANDLES, PARTITIONS, PRODUCERS, SEQUENCES, SIZES),
    st.tuples(
        st.just("move_cursor"),
        HANDLES,
        CONSUMERS,
        st.lists(st.tuples(PARTITIONS, OFFSETS), min_size=1, max_size=2),
    ),
    st.tuples(st.just("forget_consumer"), HANDLES, CONSUMERS),
    st.tuples(st.just("trim"), HANDLES, PARTITIONS, OFFSETS),
)
EVENTS = st.one_of(
    st.tuples(st.just("seal"), HANDLES),
    st.tuples(st.just("commit"), st.sampled_from([1, 1, 2, 4])),
    st.tuples(st.just("time"), st.sampled_from([0, SECOND_NS, 5 * SECOND_NS])),
    st.tuples(st.just("quota"), st.sampled_from([None, 4, 9])),
    st.tuples(st.just("retention"), st.sampled_from([{}, {"count": 4}, {"age_ns": SECOND_NS}])),
    st.tuples(st.just("repeat"), HANDLES, st.integers(0, 5)),
    st.tuples(st.just("register"), HANDLES),
    st.tuples(st.just("swap")),
    st.tuples(st.just("lose")),
    st.tuples(st.just("force")),
)
PROGRAMS = st.lists(WRITES | EVENTS, min_size=10, max_size=40)


def append(requests, partition, producer, sequence, size):
    flat = [item for number in range(size) for item in (None, encode((sequence, number)))]
    requests.append(partition, tuple(flat), producer, sequence)


def move_cursor(requests, consumer, positions):
    requests.move_cursor(consumer, tuple(positions))


CALLS = {
    "append": append,
    "move_cursor": move_cursor,
    "forget_consumer": LogRequests.forget_consumer,
    "trim": LogRequests.trim,
}


class Program:
    """Runs one program, and checks at each step that nothing staged shows."""

    def __init__(self):
        self.lab = LogLab(followers=2)
        self.handles = {number: LogHandle(self.lab, number) for number in range(3)}
        self.plain = LogMachine()
        """Never leads: it applies what is committed, and that is all."""
        self.replayed = 0

    def run(self, program):
        for what, *arguments in program:
            self.step(what, *arguments)
            self.check()
        for handle in self.handles.values():
            handle.requests.seal()
        self.lab.commit()
        self.check()
        self.lab.check()

    def step(self, what, *arguments):
        if what in CALLS:
            number, *rest = arguments
            CALLS[what](self.handles[number].requests, *rest)
        else:
            getattr(self, what)(*arguments)

    def seal(self, number):
        self.handles[number].requests.seal()

    def commit(self, count):
        self.lab.commit(count)

    def time(self, span_ns):
        self.lab.now_ns += span_ns
        self.lab.tick()

    def quota(self, limit):
        self.lab.judge(ChangeQuota(Quota(max_entries=limit)))

    def retention(self, rule):
        self.lab.judge(ChangeRetention(Retention(**rule)))

    def repeat(self, number, back):
        sent = self.handles[number].sent
        if sent:
            self.lab.judge(sent[-1 - back % len(sent)])

    def register(self, number):
        self.seal(number)
        self.lab.commit()
        self.handles[number] = LogHandle(self.lab, number + 3 * (self.lab.committed % 80))

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
            handle.requests._gathered.clear()
            handle.sent = [
                sent
                for sent in handle.sent
                if sent.asked.first_request + len(sent.asked.requests) - 1 <= last
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


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Have programs reach the limits."""
    monkeypatch.setattr(writers, "WRITERS_MAX", 4)
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    monkeypatch.setattr(judge, "CONSUMERS_MAX", 1)
    monkeypatch.setattr(limits, "BLOCK_COUNT_MAX", 4)
    monkeypatch.setattr("stores.log.partitions.BLOCK_COUNT_MAX", 4)


@settings(deadline=None, max_examples=300)
@given(PROGRAMS)
def test_what_a_leader_judges_and_applies_followers_apply_alike(program):
    Program().run(program)


@settings(deadline=None, max_examples=300)
@given(PROGRAMS)
def test_the_same_is_judged_by_a_leader_that_stages_and_by_one_that_commits_at_once(program):
    """The staged view is the state that it will be, as far as requests are judged by it.

    Left out are steps that lose entries, and what the eviction of a producer changes.
    """
    kept = [step for step in program if step[0] in CALLS or step[0] in ("seal", "quota")]
    patient, prompt = Program(), Program()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "PRODUCERS_MAX", 9)
        for what, *arguments in kept:
            patient.step(what, *arguments)
            prompt.step(what, *arguments)
            if any(step[0] == "trim" for step in kept):
                patient.lab.commit()  # What a trim makes free is free once it is committed.
            prompt.lab.commit()
        patient.run([])
        prompt.run([])
    for one, other in zip(patient.handles.values(), prompt.handles.values(), strict=True):
        assert one.outcomes() == other.outcomes() if one.judged else not other.judged
    assert patient.lab.leader.digest() == prompt.lab.leader.digest()


@settings(deadline=None, max_examples=200)
@given(PROGRAMS, st.integers(1, 5), st.floats(0, 1))
def test_a_snapshot_is_the_whole_state(program, count_max, share):
    run = Program()
    run.run(program)
    append(run.handles[0].requests, 0, "p", 99, 1)
    run.handles[0].requests.seal()
    lab, machine = run.lab, run.lab.leader
    committed = lab.committed
    after = int(share * machine.position.index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "CHUNK_COUNT_MAX", count_max)
        frozen = machine.freeze(after)
    digest, seen = machine.digest(), shown(machine)
    lab.commit()
    copy = LogMachine()
    for position, body in lab.entries:
        if position.index <= after:
            copy.apply(position, body)
    copy.install([lab.codec.decode_part(lab.codec.encode_part(part)) for part in frozen])
    assert copy.digest() == digest
    assert shown(copy) == seen
    # It goes on alike: with the windows, the writers and the quota.
    for entry in lab.entries[committed:]:
        copy.apply(*entry)
    assert copy.digest() == machine.digest()
    later = lab.now._replace(elapsed_ns=lab.now_ns + 9 * SECOND_NS)
    due = [[one.due(later) for _ in range(5)][-1] for one in (copy, machine)]
    assert (due[0] is None) == (due[1] is None)
