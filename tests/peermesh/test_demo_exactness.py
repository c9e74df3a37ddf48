"""The demo's protocol against everything that can go wrong: in no order is a line lost or double.

The machine plays the network, the processes and their deaths around the real intake and the real
batches. Whatever happens, the counts in the store are those of the lines up to its checkpoint; and
once the trouble ends, so does the input.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from peermesh.demo.intake import LINGER_SECONDS, RETRY_SECONDS, EventBatch, Intake
from peermesh.demo.protocol import BATCH_SIZE_MAX, CHECKPOINT, Checkpoint, commit
from peermesh.demo.tally import tally_events
from stores.actions import GuardKind, StepKind
from stores.batch import Batch
from wire.decoding import decode
from wire.encoding import encode

LINES = [b'{"a": %d}' % (number % 3) if number % 5 else b"bad" for number in range(1, 31)]
BATCH_LINES = 4
CHECKPOINT_KEY = encode(CHECKPOINT)


class Table:
    """The master's store: batches in full or not at all."""

    def __init__(self):
        self.content: dict[bytes, bytes] = {}

    def apply(self, batch: Batch) -> bool:
        for guard in batch.guards:
            found = self.content.get(guard.key)
            holds = found is None if guard.kind is GuardKind.ABSENT else found == guard.value
            if not holds:
                return False
        for step in batch.steps:
            added = step.operand
            if step.kind is StepKind.ADD and step.key in self.content:
                added = encode(decode(self.content[step.key]) + decode(step.operand))
            self.content[step.key] = added
        return True

    @property
    def checkpoint(self) -> Checkpoint:
        found = self.content.get(CHECKPOINT_KEY)
        return Checkpoint.of(None if found is None else decode(found))

    @property
    def counts(self) -> dict[bytes, int]:
        return {key: decode(value) for key, value in self.content.items() if key != CHECKPOINT_KEY}


def expected(lines: int):
    (tally,) = tally_events("a", enumerate(LINES[:lines], start=1))
    return tally


class World(RuleBasedStateMachine):
    """A sensor, a job and a store, and the wires between them."""

    @initialize()
    def begin(self):
        self.table = Table()
        self.now = 0.0
        self.position: int | None = None  # the sensor's next line
        self.events: deque[tuple[int, bytes | None]] = deque()  # sensor to job
        self.requests: deque[int] = deque()  # job to sensor
        self.writes: deque[tuple[int, Batch]] = deque()  # jobs to store, with whose it is
        self.intake: Intake | None = None
        self.lives = 0
        self.is_done = False
        self.awaited: Checkpoint | None = None  # the job waits for a receipt, and then is there
        self.start_job()

    # The processes.

    def start_job(self):
        self.lives += 1
        self.synchronize()

    def synchronize(self):
        self.awaited = None
        self.checkpoint = self.table.checkpoint
        self.intake = Intake(self.checkpoint.lines, self.now, BATCH_LINES)
        self.requests.append(self.intake.due)

    def ask(self, line: int | None):
        if line is not None:
            self.requests.append(line)

    @rule()
    def job_is_killed_and_starts_again(self):
        self.is_done = False
        self.start_job()

    @rule(survive=st.integers(0, 20))
    def sensor_is_killed_and_starts_again(self, survive):
        self.position = None
        while len(self.events) > survive:
            self.events.pop()
        self.requests.clear()
        lost, self.writes = self.writes, deque()
        if lost and self.awaited is not None:
            self.synchronize()  # the receipt says that nobody knows

    @rule(lines=st.integers(1, 12))
    def sensor_publishes(self, lines):
        for _ in range(lines):
            if self.position is None:
                return
            if self.position > len(LINES):
                self.events.append((self.position, None))
                self.position = None
            else:
                self.events.append((self.position, LINES[self.position - 1]))
                self.position += 1

    @rule()
    def sensor_hears_a_request(self):
        if self.requests:
            self.position = self.requests.popleft()

    # The wires.

    @rule(count=st.integers(1, 8))
    def events_are_lost(self, count):
        for _ in range(min(count, len(self.events))):
            self.events.popleft()

    @rule(index=st.integers(0, 10))
    def an_event_comes_twice(self, index):
        if self.events:
            self.events.insert(index, self.events[0])

    @rule()
    def a_request_is_lost(self):
        if self.requests:
            self.requests.popleft()

    @rule(seconds=st.floats(0, 3))
    def time_passes(self, seconds):
        self.now += seconds
        if self.awaited is None and not self.is_done:
            self.ask(self.intake.tick(self.now))

    # The job.

    @rule(count=st.integers(1, 8))
    def job_hears_events(self, count):
        for _ in range(count):
            if not self.events or self.awaited is not None or self.is_done:
                return
            if self.intake.is_ready(self.now):
                return
            self.ask(self.intake.receive(*self.events.popleft(), self.now))

    @rule(lines=st.integers(1, 12))
    def all_goes_well_up_to_a_write(self, lines):
        """Get there often: the worst accidents happen around writes."""
        self.sensor_hears_a_request()
        self.sensor_publishes(lines)
        self.job_hears_events(lines)
        if self.awaited is None and not self.is_done:
            self.job_counts_a_batch()

    @precondition(lambda self: self.awaited is None and not self.is_done)
    @rule()
    def job_counts_a_batch(self):
        if not self.intake.is_ready(self.now):
            return
        batch = self.intake.take(self.now)
        self.is_last = batch.is_last
        if batch.events:
            self.write(batch)
        else:
            self.is_done = True

    def write(self, batch: EventBatch):
        (tally,) = tally_events("a", batch.events)
        changes, after = commit(self.checkpoint, tally, batch.events[-1][0])
        self.awaited = after
        self.writes.append((self.lives, changes))

    @rule()
    def store_takes_a_write(self):
        """One of this job, or of one that was killed long ago."""
        if not self.writes:
            return
        life, changes = self.writes.popleft()
        is_applied = self.table.apply(changes)
        if life != self.lives or self.awaited is None:
            return
        if is_applied:
            self.checkpoint, self.awaited = self.awaited, None
            self.is_done = self.is_last
        else:
            self.synchronize()

    # The truth.

    @invariant()
    def counts_and_checkpoint_agree(self):
        tally = expected(self.table.checkpoint.lines)
        assert self.table.counts == tally.counts
        assert self.table.checkpoint.bad == tally.bad

    @invariant()
    def a_job_that_is_done_has_done_all(self):
        if self.is_done:
            assert self.table.checkpoint.lines == len(LINES)

    def teardown(self):
        """Let everything work from now on: it has to come to its end soon."""
        for _ in range(200):
            if self.is_done:
                break
            self.sensor_hears_a_request()
            self.sensor_publishes(50)
            while self.events and self.awaited is None and not self.intake.is_ready(self.now):
                self.job_hears_events(1)
            if self.awaited is None:
                self.job_counts_a_batch()
            self.store_takes_a_write()
            self.time_passes(RETRY_SECONDS)
        assert self.is_done, "the job waits for something that nobody does"
        self.counts_and_checkpoint_agree()


TestWorld = World.TestCase


# The intake by itself.


def test_lines_are_taken_in_order_and_only_once():
    intake = Intake(0, 0.0, 3)
    for number in (1, 1, 2, 1, 3):
        assert intake.receive(number, b"x", 0.0) is None
    assert intake.is_ready(0.0)
    assert [number for number, _ in intake.take(0.0).events] == [1, 2, 3]


def test_a_gap_is_asked_for_once_and_again_when_nothing_comes():
    intake = Intake(10, 0.0)
    assert intake.receive(11, b"x", 0.0) is None
    assert intake.receive(13, b"x", 0.0) == 12
    assert intake.receive(14, b"x", 0.1) is None, "it was asked for already"
    assert intake.receive(15, b"x", RETRY_SECONDS) == 12
    assert intake.receive(12, b"x", RETRY_SECONDS) is None
    assert intake.receive(14, b"x", RETRY_SECONDS) == 13, "what was asked for came: a new gap"


def test_silence_is_asked_about():
    intake = Intake(0, 0.0)
    assert intake.tick(RETRY_SECONDS / 2) is None
    assert intake.tick(RETRY_SECONDS) == 1
    assert intake.tick(RETRY_SECONDS * 1.5) is None
    assert intake.tick(RETRY_SECONDS * 2) == 1


def test_a_batch_waits_for_more_but_not_for_long():
    intake = Intake(0, 0.0)
    assert not intake.is_ready(100.0)
    intake.receive(1, b"x", 100.0)
    assert not intake.is_ready(100.0 + LINGER_SECONDS / 2)
    assert intake.is_ready(100.0 + LINGER_SECONDS)


def test_a_batch_of_large_lines_has_fewer_of_them():
    intake = Intake(0, 0.0)
    for number in (1, 2, 3):
        assert not intake.is_ready(0.0)
        intake.receive(number, b"x" * (BATCH_SIZE_MAX // 3 + 1), 0.0)
    assert intake.is_ready(0.0)
    assert len(intake.take(0.0).events) == 3
    intake.receive(4, b"x", 0.0)
    assert not intake.is_ready(0.0), "what was taken does not count any more"


def test_the_end_comes_after_all_lines_and_ends_the_asking():
    intake = Intake(0, 0.0, 2)
    for number in (1, 2, 3):
        intake.receive(number, b"x", 0.0)
    assert intake.receive(5, None, 0.0) == 4, "an end behind a gap is no end yet"
    assert intake.receive(4, None, 0.0) is None
    first, second = intake.take(0.0), intake.take(0.0)
    assert (len(first.events), first.is_last) == (2, False)
    assert (len(second.events), second.is_last) == (1, True)
    assert intake.tick(100.0) is None


def test_the_end_may_be_all_that_is_left():
    intake = Intake(7, 0.0)
    intake.receive(8, None, 0.0)
    assert intake.take(0.0) == EventBatch((), is_last=True)


def test_a_batch_of_a_job_that_was_killed_cannot_be_counted_twice():
    table = Table()
    (tally,) = tally_events("a", [(1, LINES[0])])
    of_the_dead, _ = commit(Checkpoint(), tally, 1)
    of_the_living, _ = commit(table.checkpoint, tally, 1)
    assert table.apply(of_the_living)
    assert not table.apply(of_the_dead)
    assert table.counts == expected(1).counts


@given(st.integers(0, 10), st.integers(0, 10))
def test_a_checkpoint_survives_the_store(lines, bad):
    checkpoint = Checkpoint(lines, bad)
    assert Checkpoint.of(decode(encode(checkpoint.value()))) == checkpoint


def test_what_is_no_checkpoint_is_refused():
    with pytest.raises(Exception, match="no checkpoint of the demo"):
        Checkpoint.of("x")
