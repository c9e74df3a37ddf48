"""Any schedule of a link that loses, duplicates and reorders, and of members that come and go."""

from __future__ import annotations

import functools
from random import Random

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from channels import ChannelConfig

MEMBERS_MAX = 3
IN_FLIGHT_MAX = 200
SILENCE_FACTOR_NEVER = 10_000
"""With it nobody is ever taken for dead, and a closed consumer is a bug."""


class ChannelMachine(RuleBasedStateMachine):
    """Safety: the checks of the world after every step. Liveness: ``teardown`` heals the link."""

    def __init__(self, world_type):
        super().__init__()
        self.world_type = world_type
        self.world = None

    @initialize(
        heartbeat_interval_ticks=st.integers(1, 5),
        connection_timeout_factor=st.sampled_from([2, 4, SILENCE_FACTOR_NEVER]),
        nack_timeout_ticks=st.integers(1, 5),
        carries_snapshot=st.booleans(),
        is_calm=st.booleans(),
        has_journal=st.booleans(),
    )
    def begin(self, is_calm, has_journal, **parameters):
        self.is_calm = is_calm
        self.world = self.world_type(ChannelConfig(**parameters), has_journal=has_journal)
        self.has_timeouts = parameters["connection_timeout_factor"] != SILENCE_FACTOR_NEVER
        self.may_close = self.has_timeouts

    @precondition(lambda self: len(self.world.members) < MEMBERS_MAX)
    @rule(producer_first=st.booleans())
    def join(self, producer_first):
        self.world.join(producer_first=producer_first)

    @precondition(lambda self: self.world.has_journal and len(self.world.members) < MEMBERS_MAX)
    @rule(data=st.data())
    def join_after(self, data):
        """Take in a member that has the beginning of the journal from elsewhere."""
        first = self.world.journal.first_sequence - 1
        after = data.draw(st.integers(first, self.world.producer.sequence))
        self.world.join(producer_first=True, after=after)

    @precondition(lambda self: self.world.has_journal and not self.is_calm)
    @rule(count=st.integers(1, 8))
    def compact(self, count):
        """Forget the journal's beginning; members that lack some of it begin anew."""
        self.may_close = True
        self.world.compact(count)

    @precondition(lambda self: not self.is_calm and self.world.members)
    @rule(data=st.data())
    def leave(self, data):
        handle = self._draw_member(data)
        self.world.leave(handle, producer_knows=data.draw(st.booleans()))

    @precondition(lambda self: not self.is_calm and self.world.members)
    @rule(data=st.data())
    def part(self, data):
        """Let the producer forget a member, or be replaced; members find out by themselves."""
        self.may_close = True
        if data.draw(st.booleans()):
            self.world.restart(self.world.producer.epoch + 1)
        else:
            self.world.forget(self._draw_member(data))

    @rule(count=st.integers(1, 5))
    def produce(self, count):
        self.world.produce(count)

    @precondition(lambda self: self.world.in_flight)
    @rule(count=st.integers(1, 10))
    def deliver_the_oldest(self, count):
        for _ in range(min(count, len(self.world.in_flight))):
            self.world.deliver()

    @precondition(lambda self: self.world.in_flight)
    @rule(data=st.data(), count=st.integers(1, 5))
    def deliver_any(self, data, count):
        for _ in range(min(count, len(self.world.in_flight))):
            self.world.deliver(self._draw_index(data))

    @precondition(lambda self: self.world.in_flight)
    @rule(data=st.data(), count=st.integers(1, 3))
    def lose(self, data, count):
        for _ in range(min(count, len(self.world.in_flight))):
            self.world.in_flight.pop(self._draw_index(data))

    @precondition(lambda self: 0 < len(self.world.in_flight) < IN_FLIGHT_MAX)
    @rule(data=st.data())
    def duplicate(self, data):
        self.world.in_flight.append(self.world.in_flight[self._draw_index(data)])

    @precondition(lambda self: self.world.in_flight)
    @rule(data=st.data(), at=st.integers(1, 4))
    def split(self, data, at):
        self.world.split(self._draw_index(data), at)

    @rule(count=st.integers(1, 6))
    def tick(self, count):
        for _ in range(count):
            self.world.tick()

    @rule()
    def replace_closed(self):
        self.world.replace_closed()

    @invariant()
    def all_promises_hold(self):
        if self.world is None:
            return
        self.world.check()
        reasons = [member.closed for member in self.world.members.values() if member.closed]
        assert self.may_close or not reasons, reasons

    def teardown(self):
        if self.world is None:
            return
        world = self.world
        config = world.config
        world.deliver_all()
        for _ in range(self._healing_ticks(config)):
            world.replace_closed()
            world.deliver_all()
            if not self.has_timeouts:
                world.forget_ghosts()  # raised by late requests, or left behind by closed members
            world.tick()
            world.check()
        world.deliver_all()
        world.check_all_equal()

    def _draw_member(self, data):
        return data.draw(st.sampled_from(list(self.world.members)))

    def _draw_index(self, data):
        return data.draw(st.integers(0, len(self.world.in_flight) - 1))

    @staticmethod
    def _healing_ticks(config):
        """At most two resets, each a silence, a new handshake, a heartbeat and what was lost."""
        factor = min(config.connection_timeout_factor, 4)
        reset_ticks = config.heartbeat_interval_ticks * (factor + 3)
        return 2 * (reset_ticks + 3 * config.nack_timeout_ticks)


def test_every_schedule_keeps_the_promises_and_heals(world_type):
    run_state_machine_as_test(
        functools.partial(ChannelMachine, world_type),
        settings=settings(max_examples=150, stateful_step_count=60, deadline=None),
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_storm_of_runs_over_a_bad_link_arrives_whole(world_type, seed):
    """Longer schedules than Hypothesis draws: deep buffers, runs cut anew, late copies."""
    random = Random(seed)
    world = world_type(ChannelConfig(connection_timeout_factor=1000, nack_timeout_ticks=2))
    handles = [world.join(producer_first=True) for _ in range(3)]
    world.deliver_all()
    for _ in range(60):
        world.produce(random.randint(1, 8))
        for _ in range(random.randint(0, 6)):
            index = random.randrange(len(world.in_flight))
            world.in_flight.append(world.in_flight[index])
            world.split(index, at=random.randint(1, 7))
        random.shuffle(world.in_flight)
        for _ in range(random.randint(0, len(world.in_flight))):
            if random.random() < 0.3:
                world.in_flight.pop()
            else:
                world.deliver(-1)
        world.tick()
        world.check()
    for _ in range(20):
        world.deliver_all()
        world.tick()
    world.check_all_equal()
    assert list(world.members) == handles
    for member in world.members.values():
        assert len(member.consumed) == world.producer.sequence - 1


@pytest.mark.parametrize("carries_snapshot", [False, True])
def test_a_replaced_producer_gets_all_members_back(world_type, carries_snapshot):
    world = world_type(ChannelConfig(carries_snapshot=carries_snapshot))
    for _ in range(3):
        world.join()
    world.deliver_all()
    world.produce(4)
    world.deliver_all()
    world.restart(epoch=2)
    for _ in range(12):
        world.replace_closed()
        world.deliver_all()
        world.tick()
    world.produce(2)
    for _ in range(12):
        world.deliver_all()
        world.tick()
    world.check()
    world.check_all_equal()
    assert {member.consumer.epoch for member in world.members.values()} == {2}
    assert all(len(member.consumed) == 2 for member in world.members.values())


def test_a_member_with_half_of_a_journal_gets_the_other_half(world_type):
    world = world_type(has_journal=True)
    world.produce(5)
    world.produce(3)
    world.join(producer_first=True, after=4)
    for _ in range(12):
        world.deliver_all()
        world.tick()
    world.check()
    world.check_all_equal()
    (member,) = world.members.values()
    assert [sequence for sequence, _ in member.consumed] == [5, 6, 7, 8, 9]
