"""A member that lies costs those that hear it refusals, and nothing else.

What it says is what an honest one would say, with a number, a name or an entry of it changed. The
codec has let it pass: it is not of the kind that no bytes of ours could have.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from random import Random

import pytest

from stores.group.followers import SILENT_TICKS
from stores.group.messages import Admitted, SnapshotPart
from stores.group.positions import MemberId
from tests.stores.group.stage import Stage
from wire.errors import DecodeError

SEEDS = 150
STEPS = 25


class Blind:
    """Looks for no violation: no group keeps its word with a voter that lies."""

    def see(self, *_):
        pass


class Lies:
    """A group with a liar, and a learner that was away, so that it takes a snapshot."""

    def __init__(self, seed):
        self.random = random = Random(seed)
        voters = random.choice(("abc", "a"))
        self.stage = stage = Stage("abcd", voters, is_volatile=random.random() < 0.3)
        stage.settle_in()
        stage.witness = Blind()
        self.write_and_compact()
        stage.tick("abcd", times=3, links=["abcd"], sync="abcd")
        stage.crash("d")
        stage.tick("abc", times=SILENT_TICKS + 5, links=["abc"], sync="abc")
        self.liar = stage.ids[random.choice("aaabd")]
        self.heard = set()
        self.write_and_compact()
        stage.pass_on("abc", sync="abc")
        self.write_and_compact()
        stage.start("d")

    def write_and_compact(self):
        leader = self.stage.leader()
        if leader is not None and self.stage.is_ready(leader):
            self.stage.write(leader, self.random.randrange(1, 5))
            member = self.stage.members[leader]
            member.compact(member.state.commit)

    def run(self):
        for _ in range(STEPS):
            if self.random.random() < 0.3:
                self.write_and_compact()
            for name, member in self.stage.members.items():
                if member.id == self.liar or self.random.random() < 0.8:
                    self.stage.now[name] += 100_000_000
                    self.try_("tick", name, self.stage.moment(name))
            for _ in range(4):
                self.pass_on()

    def pass_on(self):
        self.stage.sync(*[name for name in self.stage.names if self.random.random() < 0.7])
        mail, self.stage.mail = self.stage.mail, []
        for sender, to, message in mail:
            said = message
            chance = 0.8 if isinstance(message, (Admitted, SnapshotPart)) else 0.3
            if sender == self.liar and self.random.random() < chance:
                said = self.changed(message, self.stage.members[to.name])
            self.heard.add((type(said), said != message))
            self.try_("receive", to.name, sender, said)

    def try_(self, call, name, *arguments):
        try:
            self.stage.do(name, call, *arguments)
        except DecodeError:
            assert call == "receive"

    def changed(self, value, member):
        """Give it with one thing changed; ``member`` is who hears it."""
        random = self.random
        match value:
            case bool():
                return not value
            case Enum() | MemberId() | str() | bytes() | None:
                return value
            case int():
                term, journal, commit = member.ballot.term, member.journal, member.state.commit
                near = random.choice((0, 1, term, journal.end.index, commit, journal.floor.index))
                return random.choice((near, near + 1, max(near - 1, 0), value + 1, 2**62))
            case tuple() if hasattr(value, "_replace"):
                name = random.choice(value._fields)
                return value._replace(**{name: self.changed(getattr(value, name), member)})
            case tuple() if value:
                at = random.randrange(len(value))
                rest = value[at + 1 :]
                item = () if random.random() < 0.3 else (self.changed(value[at], member),)
                return value[:at] + item + rest
            case _ if is_dataclass(value):
                name = random.choice(fields(value)).name
                return replace(value, **{name: self.changed(getattr(value, name), member)})
        return value


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS // 5))
def test_a_member_that_lies_costs_nothing_but_refusals(first):
    for seed in range(first, first + SEEDS // 5):
        Lies(seed).run()


def test_liars_lie_about_all_that_a_snapshot_takes():
    heard = set()
    for seed in range(20):
        lies = Lies(seed)
        lies.run()
        heard |= lies.heard
    assert {(Admitted, True), (SnapshotPart, True)} <= heard
