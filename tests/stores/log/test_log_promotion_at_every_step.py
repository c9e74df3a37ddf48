"""The keeper is lost at every single step, and a follower promoted: what was acknowledged stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stores.log.follower import Phase
from stores.outcomes import Applied

HEALING_TICKS = 60
ROUNDS = 2


class Story:
    """A keeper with one replica, two followers and a proxy that all append; one comes late."""

    def __init__(self, world: Any, replicas: int = 1) -> None:
        self.world = world
        self.replicas = replicas
        self.keeper = self.start_keeper()
        self.first = world.follower()
        self.proxy = world.proxy()
        self.second: Any = None
        self.asked: list[tuple[Any, int, int, str]] = []
        self.lost: list[Any] = []
        """Nodes whose handles nobody asks any more."""

    def start_keeper(self, backend: Any = None) -> Any:
        return self.world.keeper(backend, partitions=2, replicas=self.replicas)

    def steps(self) -> Iterator[None]:
        yield from self.everything_under_way()
        for number in range(ROUNDS):
            for node in dict.fromkeys((self.keeper, self.first, self.proxy)):
                if node in self.world.nodes:
                    self.append(node, number)
                    node.flush()
                    yield
            yield from self.everything_under_way()
            if self.second is None:
                self.second = self.world.follower()
            self.world.tick()
            yield from self.everything_under_way()

    def append(self, node: Any, number: int) -> None:
        partition = number % 2
        name = f"node {int.from_bytes(node.endpoint, 'big')}"
        for producer in (None, name):
            value = f"{name} {producer} {number}"
            sequence = number if producer else 0
            request = node.append(value, partition, producer, sequence)
            self.asked.append((node, request, partition, value))
        node.core.requests.move_cursor(name, ((partition, 0),))

    def everything_under_way(self) -> Iterator[None]:
        world = self.world
        while world.mail or any(node.committing for node in world.nodes):
            if world.mail:
                world.deliver()
            else:
                next(node for node in world.nodes if node.committing).commit()
            yield

    # -- what happens

    def lose_the_keeper(self, *, commits: bool, is_heard: bool) -> None:
        gone = self.keeper
        self.world.kill(gone, commits=commits)
        self.lost.append(gone)
        mail = self.world.mail
        if not is_heard:
            mail[:] = [each for each in mail if each[0] != gone.endpoint]
        mail[:] = [each for each in mail if each[1] != gone.endpoint]
        for _ in self.everything_under_way():
            pass
        self.world.notice_gone(gone)

    def promote_the_best(self) -> Any:
        followers = [node for node in (self.first, self.second) if node is not None]
        best = max(followers, key=lambda node: sum(node.core.copy.ends))
        if best.core.copy.log_id:
            best.promote(replicas=self.replicas)
            self.keeper = best
            return best
        return None

    def heal(self) -> None:
        self.world.run(HEALING_TICKS)

    def check(self) -> None:
        (keeper,) = self.world.keepers
        found: dict[tuple[int, int], Any] = {}
        for partition in range(2):
            read = keeper.read(partition)
            found |= {(partition, offset): value for offset, value in read.items()}
        values = list(found.values())
        assert len(values) == len(set(values)), "something is there twice"
        for node, request, partition, value in self.asked:
            outcome = node.outcomes.get(request)
            if isinstance(outcome, Applied):
                assert found[(partition, outcome.revision)] == value, "it was acknowledged"
            elif node not in self.lost:
                raise AssertionError(f"{node.core} has no answer to {request}: {outcome}")
        for node in self.world.readers:
            if node.backend is not None:
                assert node.core.phase is Phase.SYNCED
                assert node.core.cursors == keeper.core.cursors
                assert [node.read(number) for number in range(2)] == [
                    keeper.read(number) for number in range(2)
                ]
                self.check_memory(node.core.copy.memory, keeper.core._memory)

    def check_memory(self, copy: Any, memory: Any) -> None:
        """A follower remembers what its keeper does."""
        assert sorted(copy.producers.rows(), key=str) == sorted(memory.producers.rows(), key=str)
        last = lambda each: {row.writer: row.last_request for row in each.ledger.records()}  # noqa: E731 - a line
        assert last(copy) == last(memory)


def lose_it(story: Story, *, commits: bool = False, is_heard: bool = False) -> None:
    """Lose the keeper for good; a follower leads."""
    story.lose_the_keeper(commits=commits, is_heard=is_heard)
    if story.promote_the_best() is None:
        story.keeper = story.start_keeper(story.keeper.backend)


def lose_it_after_its_commit(story: Story) -> None:
    lose_it(story, commits=True)


def lose_it_after_it_was_heard(story: Story) -> None:
    lose_it(story, commits=True, is_heard=True)


def have_it_return(story: Story) -> None:
    """Kill the keeper; when a follower leads, start it again: it knows nothing of that."""
    old = story.keeper
    story.lose_the_keeper(commits=True, is_heard=False)
    heir = story.promote_the_best()
    if heir is None:
        story.keeper = story.start_keeper(old.backend)
        return
    story.start_keeper(old.backend)
    story.world.keepers.append(heir)


def have_it_cut_off_and_return(story: Story) -> None:
    """Cut the keeper off; it goes on for a while, and meets the one that leads."""
    old = story.keeper
    story.lose_the_keeper(commits=False, is_heard=False)
    heir = story.promote_the_best()
    if heir is not None:
        old.append("to nobody", 0)
        old.flush()
        old.commit()
        story.world.mail[:] = [each for each in story.world.mail if each[0] != old.endpoint]
    story.world.keepers.append(old)


def promote_while_it_lives(story: Story) -> None:
    """Somebody promotes a follower by force though the keeper is well, as with all followers as
    replicas nothing acknowledged is lost by.
    """  # noqa: D205 - one thought
    story.lost.append(story.keeper)  # what was under way there is refused as unknown
    story.promote_the_best()


FAULTS: list[Callable[[Story], None]] = [
    lose_it,
    lose_it_after_its_commit,
    lose_it_after_it_was_heard,
    have_it_return,
    have_it_cut_off_and_return,
    promote_while_it_lives,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_was_acknowledged_is_there_once_and_in_place(make_world, fault):
    step, is_over = 0, False
    replicas = 2 if fault is promote_while_it_lives else 1
    while not is_over:
        story, is_over = Story(make_world(), replicas), True
        for number, _ in enumerate(story.steps()):
            if number == step:
                fault(story)
                is_over = False
        for _ in range(replicas):
            story.world.follower()  # so that receipts have their replicas
        story.heal()
        story.check()
        step += 1
    assert step > 40
