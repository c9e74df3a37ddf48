"""The same requests at a keeper of today and at the machine: outcomes, entries, cursors, spans."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from stores.log.bodies import ChangeRetention, Write
from stores.log.keeper import Keeper
from stores.log.messages import Requests
from stores.log.partitions import Retention
from stores.quota import Quota
from stores.table.bodies import ChangeQuota, Register
from tests.stores.log.conftest import LogWorld
from tests.stores.log.lab import SECOND_NS, START_NS, LogLab, flat, runs_of, shown
from tests.stores.log.test_log_machine_property import CALLS, EVENTS, WRITES
from tests.stores.table.lab import writer_id

PROGRAMS = st.lists(WRITES | EVENTS, max_size=40)
RULES = st.sampled_from([{}, {"count": 4}, {"age_ns": 2 * SECOND_NS}, {"size": 40}])
PARTITIONS = 2


class Both:
    """A keeper whose disk is quick, and a group of one that commits at once."""

    def __init__(self, rule):
        self.lab = LogLab(followers=1, partitions=PARTITIONS)
        self.world = LogWorld()
        self.node = self.world.keeper(partitions=PARTITIONS, retention=Retention(**rule))
        assert isinstance(self.node.core, Keeper)
        self.writer = writer_id(1)
        self.number = self.lab.ask(Register(self.writer)).number
        self.lab.ask(ChangeRetention(Retention(**rule)))
        self.outcomes = []
        self.perform = self.node.core._on_local
        self.node.core.requests.serve(self._perform)
        self.set_clock()

    def _perform(self, first, requests):
        self.perform(first, requests)
        asked = Requests(self.writer, first, first - 1, requests)
        self.outcomes += self.lab.ask(Write(self.number, asked))

    def set_clock(self):
        self.world.now_ns = START_NS + 10**10 + self.lab.now_ns

    def step(self, what, *arguments):
        lab, node = self.lab, self.node
        if what == "time":
            lab.now_ns += arguments[0]
            self.set_clock()
            for _ in range(5):
                node.tick()
                node.commit()
            lab.tick()
            lab.commit()
        elif what == "quota":
            quota = Quota(max_entries=arguments[0])
            lab.ask(ChangeQuota(quota))
            node.carry_out(node.core.set_quota(quota))
        elif what in CALLS:
            CALLS[what](node.core.requests, *arguments[1:])
        if what in ("seal", "commit"):
            node.flush()
            node.commit()
            self.check()

    def check(self):
        machine, core = self.lab.leader, self.node.core
        assert machine.partitions.spans() == core.partitions.spans()
        assert machine.used == core.partitions.used()
        assert dict(machine.all_cursors()) == {
            name: tuple(sorted(at.items())) for name, at in core.cursors.items()
        }
        assert dict(flat(self.outcomes)) == self.node.outcomes
        for partition in range(PARTITIONS):
            for kept in runs_of(machine, partition):
                (run,) = self.node.backend.read(partition, max(kept.first_offset, 0), 1)
                assert (kept.first_offset, kept.body) == (run.first_offset, run.body)
        rows = [(row.name, row.appended, row.floor) for row in machine._producers.rows()]
        known = core._memory.producers.rows()
        assert rows == [(row.name, row.appended, row.floor) for row in known]


@settings(deadline=None, max_examples=300)
@given(PROGRAMS, RULES)
def test_a_program_means_the_same(program, rule):
    both = Both(rule)
    for step in program:
        both.step(*step)
    both.step("seal")
    both.lab.check()
    assert shown(both.lab.leader)
