"""Log machines as one group, in the test's hands: see ``tests.stores.table.lab``."""

from __future__ import annotations

from itertools import count

from stores.group.clock import Times
from stores.group.machine import Answer
from stores.log.bodies import Write
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.log.messages import Requests
from stores.log.requests import LogRequests
from stores.outcomes import Applied
from stores.table.bodies import Register, Registration
from tests.stores.table import lab
from tests.stores.table.lab import SECOND_NS, writer_id
from wire.decoding import decode
from wire.encoding import encode

SIZE_MAX = 1 << 20
START_NS = 10**18


class LogLab(lab.Lab):
    """A leader and its followers; entries are committed when the test says so."""

    codec = LogCodec()

    def __init__(self, followers=1, partitions=2):
        self.partitions = partitions
        super().__init__(followers)

    def machine(self):
        return LogMachine(partition_count=self.partitions)

    @property
    def now(self):
        return Times(self.now_ns, START_NS + self.now_ns)

    def shown(self, machine):
        return shown(machine)

    def tick(self, ticks=5):
        """Have the leader look at its clock, as often as it takes for a look at retention."""
        for _ in range(ticks):
            self.expire()


def shown(machine):
    """Give all that readers see."""
    spans = machine.partitions.spans()
    entries = {number: entries_of(machine, number) for number in range(len(spans))}
    used = machine.used
    assert used[0] == sum(span.end - span.start for span in spans)
    assert used == machine.partitions.used()
    return spans, entries, machine.all_cursors()


def runs_of(machine, partition):
    """Give all runs of a partition, as a reader gets them one by one."""
    span = machine.partitions[partition].span
    at, runs = span.start, []
    while at < span.end:
        found = machine.read(partition, at, 1)
        assert found, (machine, partition, at)
        assert found[0].first_offset <= at < found[0].end
        assert not runs or found[0].timestamp_ns >= runs[-1].timestamp_ns
        runs += found
        at = found[-1].end
    assert not machine.read(partition, span.end, SIZE_MAX)
    return runs


def entries_of(machine, partition=0):
    """Give what can be read: offsets with values."""
    span = machine.partitions[partition].span
    found = {}
    for run in runs_of(machine, partition):
        for offset, value in enumerate(run.entries()[1::2], run.first_offset):
            if span.start <= offset < span.end:
                found[offset] = decode(value)
    return found


class LogHandle:
    """A registered writer: its calls become requests, which are judged when it is sealed."""

    def __init__(self, log_lab, number=1):
        self.lab = log_lab
        self.writer = writer_id(number)
        self.resolved = 0
        self.judged, self.sent = [], []
        registered = log_lab.ask(Register(self.writer))
        assert isinstance(registered, Registration)
        self.number = registered.number
        self.requests = LogRequests(self._perform)
        self.tokens = count(1)

    def _perform(self, first, requests):
        write = Write(self.number, Requests(self.writer, first, self.resolved, requests))
        self.sent.append(write)
        self.judged.append(self.lab.judge(write))

    def seal(self):
        self.requests.seal()
        return self.judged[-1]

    def gather(self, value, partition=0, producer=None, sequence=0, key=None):
        """Ask for an append that travels with those that come before it is sealed."""
        flat = (None if key is None else encode(key), encode(value))
        return self.requests.append(partition, flat, producer, sequence)

    def append(self, value, partition=0, producer=None, sequence=0):
        self.gather(value, partition, producer, sequence)
        return self.seal()

    def append_batch(self, values, partition=0):
        flat = [item for value in values for item in (None, encode(value))]
        self.requests.append(partition, tuple(flat))
        return self.seal()

    def move_cursor(self, consumer, *positions):
        self.requests.move_cursor(consumer, positions)
        return self.seal()

    def forget_consumer(self, consumer):
        self.requests.forget_consumer(consumer)
        return self.seal()

    def trim(self, offset, partition=0):
        self.requests.trim(partition, offset)
        return self.seal()

    def outcomes(self):
        """Commit all, and give what became of the latest requests that were sealed."""
        self.lab.commit()
        last = self.judged[-1]
        return last.value if isinstance(last, Answer) else self.lab.answers[last]

    @property
    def result(self):
        """What became of the latest request."""
        return flat(self.outcomes())[-1][1]

    @property
    def offset(self):
        """Where the latest request appended."""
        assert isinstance(self.result, Applied)
        return self.result.revision


def flat(outcomes):
    """Give the result of each request: outcomes are joined as it comes."""
    return [
        (number, outcome.between(number - 1, number).result)
        for outcome in outcomes
        for number in range(outcome.first_request, outcome.last_request + 1)
    ]


__all__ = ["SECOND_NS", "LogHandle", "LogLab", "entries_of", "flat", "runs_of", "shown"]
