"""Logs over links that lose, repeat and reorder, and processes that crash: what holds."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stores.log.follower import Phase
from stores.outcomes import Applied
from wire.values import Value

PARTITIONS = 2
ROUNDS_TO_HEAL = 80


class Histories(RuleBasedStateMachine):
    """A keeper, two followers and a proxy, each of them killed at any time."""

    make_world: Any
    make_disk: Any
    is_durable: bool

    @initialize()
    def begin(self) -> None:
        self.world = self.make_world()
        self.disk = self.make_disk()
        self.world.keeper(self.disk, PARTITIONS)
        self.keeper_past: dict[tuple[int, int], Value] = {}
        """What the keeper ever showed."""
        self.asked: list[tuple[Any, int, int, Value]] = []
        """Who appended: node, request, partition, value."""
        self.next_value = 0
        self.sequence = 0
        self.committed: dict[int, int] = {}
        self.world.follower()
        self.world.follower()
        self.world.proxy()

    @property
    def keeper(self) -> Any:
        return self.world.keepers[0]

    def pick(self, data: st.DataObject, nodes: list[Any]) -> Any:
        return nodes[data.draw(st.integers(0, len(nodes) - 1), label="node")]

    # -- what users do

    @rule(data=st.data(), partition=st.integers(0, PARTITIONS - 1))
    def append(self, data: st.DataObject, partition: int) -> None:
        node = self.pick(data, self.world.nodes)
        self.next_value += 1
        request = node.append(self.next_value, partition)
        self.asked.append((node, request, partition, self.next_value))

    @rule(data=st.data(), repeats=st.integers(0, 2))
    def append_as_producer(self, data: st.DataObject, repeats: int) -> None:
        """A producer appends what it may have appended before, by whatever handle."""
        node = self.pick(data, self.world.nodes)
        if not repeats:
            self.sequence += 1
        if self.sequence:
            value = f"sequence {self.sequence}"
            request = node.append(value, 0, "producer", self.sequence)
            self.asked.append((node, request, 0, value))

    @rule(data=st.data(), partition=st.integers(0, PARTITIONS - 1))
    def move_cursor(self, data: st.DataObject, partition: int) -> None:
        offset = self.keeper.core.partitions[partition].end
        node = self.pick(data, self.world.nodes)
        node.core.requests.move_cursor("consumer", ((partition, offset),))

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        end = self.keeper.core.partitions[0].end
        self.keeper.core.requests.trim(0, data.draw(st.integers(0, end), label="offset"))

    # -- what the world does

    @rule(data=st.data(), count=st.integers(1, 6))
    def deliver(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.world.mail))):
            last = min(3, len(self.world.mail) - 1)
            self.world.deliver(data.draw(st.integers(0, last), label="message"))

    @rule(ticks=st.integers(1, 6))
    def work(self, ticks: int) -> None:
        """Have nothing go wrong for a while: otherwise hardly anybody would meet."""
        self.world.run(ticks)

    @rule(data=st.data(), partition=st.integers(0, PARTITIONS - 1), rounds=st.integers(1, 4))
    def append_and_work(self, data: st.DataObject, partition: int, rounds: int) -> None:
        """Have an append get some way, but maybe not its answer."""
        self.append(data, partition)
        for node in self.world.nodes:
            node.flush()
        for _ in range(rounds):
            for _ in range(len(self.world.mail)):
                self.world.deliver()
            self.keeper.commit()

    @rule(data=st.data())
    @precondition(lambda self: self.world.mail)
    def lose(self, data: st.DataObject) -> None:
        del self.world.mail[data.draw(st.integers(0, len(self.world.mail) - 1), label="message")]

    @rule()
    def lose_all(self) -> None:
        self.world.mail.clear()

    @rule(data=st.data())
    @precondition(lambda self: self.world.mail)
    def repeat(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.world.mail) - 1), label="message")
        self.world.mail.append(self.world.mail[index])

    @rule()
    def flush(self) -> None:
        for node in self.world.nodes:
            node.flush()

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.pick(data, self.world.nodes).commit()

    @rule(count=st.sampled_from((1, 3, 30)))
    def pass_time(self, count: int) -> None:
        for _ in range(count):
            self.world.tick()

    @rule(commits=st.booleans(), is_noticed=st.booleans(), is_heard=st.booleans())
    def kill_keeper(self, *, commits: bool, is_noticed: bool, is_heard: bool) -> None:
        gone = self.keeper
        self.world.kill(gone, commits=commits)
        if not is_heard:
            self.world.mail = [mail for mail in self.world.mail if mail[0] != gone.endpoint]
        self.disk = self.disk if self.is_durable else self.make_disk()
        self.world.now_ns += 1
        self.world.keeper(self.disk, PARTITIONS)
        if not self.is_durable:
            self.keeper_past.clear()
        if is_noticed:
            self.world.notice_gone(gone)

    @rule(data=st.data(), commits=st.booleans(), keeps=st.booleans())
    def kill_follower(self, data: st.DataObject, *, commits: bool, keeps: bool) -> None:
        followers = [node for node in self.world.readers if node.backend is not None]
        gone = self.pick(data, followers)
        self.world.kill(gone, commits=commits)
        self.world.now_ns += 1
        self.world.follower(gone.backend if keeps else None)

    @rule()
    def kill_proxy(self) -> None:
        gone = next(node for node in self.world.readers if node.backend is None)
        self.world.kill(gone)
        self.world.now_ns += 1
        self.world.proxy()

    # -- what holds at any time

    @invariant()
    def what_was_true_stays_true(self) -> None:
        if hasattr(self, "world"):
            self.the_keeper_shows_what_it_ever_showed()
            self.nothing_is_there_twice()
            if self.is_durable:  # a follower of a keeper that forgot all cannot know yet
                self.followers_show_nothing_else()
                self.what_was_acknowledged_is_there()

    def the_keeper_shows_what_it_ever_showed(self) -> None:
        for partition in range(PARTITIONS):
            for offset, value in self.keeper.read(partition).items():
                assert self.keeper_past.setdefault((partition, offset), value) == value

    def nothing_is_there_twice(self) -> None:
        values = list(self.keeper_past.values())
        assert len(values) == len(set(values))

    def followers_show_nothing_else(self) -> None:
        for node in self.world.readers:
            if node.backend is not None:
                for partition in range(len(node.core.partitions)):
                    for offset, value in node.read(partition).items():
                        assert self.keeper_past[(partition, offset)] == value

    def what_was_acknowledged_is_there(self) -> None:
        for node, request, partition, value in self.asked:
            outcome = node.outcomes.get(request)
            if isinstance(outcome, Applied):
                assert outcome.revision < self.keeper.core.partitions[partition].end
                if outcome.revision >= self.keeper.core.partitions[partition].start:
                    assert self.keeper_past[(partition, outcome.revision)] == value

    def teardown(self) -> None:
        """When nothing goes wrong any more, everything comes right."""
        if not hasattr(self, "world"):
            return
        self.world.run(ROUNDS_TO_HEAL)
        for node, request, _, _ in self.asked:
            if node in self.world.nodes:
                assert request in node.outcomes, f"{node.core} has no answer to {request}"
        self.what_was_true_stays_true()
        for node in self.world.readers:
            if node.backend is not None:
                assert node.core.phase is Phase.SYNCED, node.core
                assert node.core.cursors == self.keeper.core.cursors
                for partition in range(PARTITIONS):
                    assert node.read(partition) == self.keeper.read(partition)
                    span = self.keeper.core.partitions[partition].span
                    assert node.core.partitions[partition].span == span


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "memory"])
def test_histories(make_world, make_disk, is_durable):
    class Given(Histories):
        pass

    Given.make_world, Given.make_disk = staticmethod(make_world), staticmethod(make_disk)
    Given.is_durable = is_durable
    run_state_machine_as_test(Given)
