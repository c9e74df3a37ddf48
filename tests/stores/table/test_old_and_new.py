"""The same requests at a master of today and at the machine: outcomes, entries, events, history."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from stores import effects as fx
from stores.master import Master
from stores.persistence import Loaded
from stores.quota import Quota
from stores.scanning import EVERYTHING
from stores.table import Columns
from stores.table.bodies import ChangeQuota, Register, Write
from stores.watches import Watcher
from tests.stores.table.lab import SECOND_NS, Lab, writer_id
from tests.stores.table.test_machine_property import CALLS, EVENTS, WRITES, write

PROGRAMS = st.lists(WRITES | EVENTS, max_size=40)
EPOCH = 1 << 48
ENTITY = writer_id(1).entity


class Both:
    """A master, and a group of one that commits at once."""

    def __init__(self):
        self.lab = Lab(followers=1)
        self.master = Master(
            ENTITY, Loaded(EPOCH, 0, Columns(), ()), is_durable=False, is_observed=True
        )
        self.said, self.outcomes, self.events = [], [], []
        self.lab.leader.observer = self.events.append
        self.writer = self.master.requests.writer
        self.number = self.lab.ask(Register(self.writer)).number
        self.watchers = [Watcher(core, EVERYTHING, None) for core in (self.master, self.lab.leader)]
        self.master.requests.serve(self._perform)

    def _perform(self, action):
        self.master._on_request(action)
        self.outcomes += self.lab.ask(Write(self.number, (action,)))

    def step(self, what, *arguments):
        lab = self.lab
        if what == "time":
            lab.now_ns += arguments[0]
            while lab.expire() is not None:
                lab.commit()
            self.said += self.master.tick(lab.now_ns)
        elif what == "quota":
            quota = Quota(max_entries=arguments[0])
            lab.ask(ChangeQuota(quota))
            self.said += self.master.set_quota(quota)
        elif what in CALLS:
            write(self.master.requests, what, *arguments[1:])
        self.said += self.master.flush(lab.now_ns)
        self.check()

    def check(self):
        assert self.lab.leader.snapshot() == self.master.snapshot()
        assert self.lab.leader.revision == self.master.revision
        assert len(self.lab.leader) == len(self.master.keys())
        assert self.lab.leader._overlay.committed.columns.size == self.master.size
        resolved = [effect.outcome for effect in self.said if isinstance(effect, fx.Resolve)]
        assert flat(self.outcomes) == flat(resolved)
        assert self.events == [effect for effect in self.said if isinstance(effect, fx.Changed)]
        first, second = (list(map(plain, told(watcher))) for watcher in self.watchers)
        assert first == second
        page = self.lab.leader.scan(EVERYTHING, 100)
        assert page == self.master.scan(EVERYTHING, 100)


def plain(item):
    """Leave positions out, which a master does not have."""
    return replace(item, position=None) if hasattr(item, "position") else item


def told(watcher):
    items = []
    while found := watcher.take():
        items += found
    return items


def flat(outcomes):
    """Give the result of each request: outcomes are joined as it comes."""
    return [
        (number, outcome.between(number - 1, number).result)
        for outcome in outcomes
        for number in range(outcome.first_request, outcome.last_request + 1)
    ]


@settings(deadline=None, max_examples=200)
@given(PROGRAMS)
def test_a_program_means_the_same(program):
    both = Both()
    both.lab.now_ns = SECOND_NS
    both.master.flush(SECOND_NS)
    for step in program:
        both.step(*step)
    both.lab.check()
