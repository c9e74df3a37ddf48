"""A follower becomes the keeper: what it goes on with, and what is refused to the old one."""

from __future__ import annotations

import pytest

from stores import effects as fx
from stores.log.limits import PRODUCER_WINDOW
from stores.log.memory import Memory, Remembered, in_parts
from stores.log.producers import ProducerRow
from stores.outcomes import Applied
from wire.errors import ErrorCode, PromotionRefused


def fill(world, keeper, count: int, partition: int = 0) -> None:
    for number in range(count):
        keeper.append(number, partition)
        world.settle()


@pytest.fixture
def pair(world):
    """Give a keeper with two entries in each of two partitions, and a follower that has them."""
    keeper, follower = world.keeper(partitions=2), world.follower()
    fill(world, keeper, 2)
    fill(world, keeper, 2, partition=1)
    world.run(5)
    return keeper, follower


def cut_off(world, node) -> None:
    """Have nobody hear of a node, nor it of anybody, from now on."""
    world.kill(node)
    world.mail = [mail for mail in world.mail if node.endpoint not in mail[:2]]
    world.notice_gone(node)


def come_back(world, node) -> None:
    world.keepers.append(node)


def test_a_follower_goes_on_where_it_is_in_a_later_term(world, pair):
    keeper, follower = pair
    cut_off(world, keeper)
    waiting = follower.append("asked of nobody")
    follower.promote(force=False)
    world.settle()
    assert follower.core.epoch >> 48 == (keeper.core.epoch >> 48) + 1
    assert follower.outcomes == {waiting: Applied(2)}
    assert follower.read() == {0: 0, 1: 1, 2: "asked of nobody"}


def test_what_producers_repeat_after_a_promotion_is_there_once(world, pair):
    keeper, follower = pair
    first = [keeper.append(f"p{number}", 1, "till", number) for number in range(3)]
    keeper.core.requests.move_cursor("consumer", ((1, 3),))
    world.settle()
    cut_off(world, keeper)
    follower.promote()
    again = [follower.append(f"p{number}", 1, "till", number) for number in range(4)]
    world.settle()
    repeated = [follower.outcomes[request] for request in again[:3]]
    offsets = [keeper.outcomes[request].revision for request in first]
    assert repeated == [Applied(offset, answer=False) for offset in offsets]
    assert follower.outcomes[again[3]] == Applied(5)
    assert follower.core.cursors == {"consumer": {1: 3}}


@pytest.mark.parametrize("comes_late", [False, True])
def test_what_writers_ask_again_after_a_promotion_is_there_once(world, pair, comes_late):
    """The last keeper did it, and its answer was lost; the heir followed, or caught up."""
    keeper, follower = pair
    if comes_late:
        world.kill(follower)
    proxy = world.proxy()
    world.run(2)
    request = proxy.append("once")
    proxy.flush()
    while keeper.committing is None:
        world.deliver()
    keeper.commit()
    world.mail = [mail for mail in world.mail if mail[1] != proxy.endpoint]
    if comes_late:
        world.readers.remove(proxy)
        follower = world.follower()
        world.run(5)
        world.readers.append(proxy)
    else:
        world.settle()
    cut_off(world, keeper)
    assert proxy.outcomes == {}
    follower.promote()
    world.run(30)
    assert proxy.outcomes == {request: Applied(2)}
    assert list(follower.read().values()).count("once") == 1


def test_of_a_commit_that_came_half_nothing_is_seen_and_a_promotion_says_so(world, pair):
    keeper, follower = pair
    request = keeper.append("half", 0, "till", 1)
    keeper.flush()
    held = []

    def receive(event, sequence, consume=follower.core.copy.consume):
        if isinstance(event, Remembered):
            held.append(event)  # it does not come
        else:
            consume(event, sequence)

    follower.core.copy.consume = receive
    world.settle()
    assert request in keeper.outcomes
    assert held
    assert follower.read() == {0: 0, 1: 1}
    cut_off(world, keeper)
    with pytest.raises(PromotionRefused, match="1 events of the master are missing"):
        follower.promote(force=False)
    follower.promote()
    again = follower.append("half", 0, "till", 1)
    world.settle()
    assert follower.outcomes[again] == Applied(2)
    assert follower.read() == {0: 0, 1: 1, 2: "half"}


@pytest.mark.parametrize("is_deposed_by_reader", [False, True])
def test_a_deposed_keeper_acknowledges_nothing_and_follows(world, pair, is_deposed_by_reader):
    keeper, follower = pair
    other = world.follower()
    world.run(5)
    cut_off(world, keeper)
    late = keeper.append("late")
    keeper.flush()
    keeper.commit()
    assert keeper.outcomes[late] == Applied(2), "it cannot know"
    under_way = keeper.append("under way")
    keeper.flush()
    follower.promote()
    follower.append("instead")
    world.run(5)
    if is_deposed_by_reader:
        cut_off(world, follower)
        world.run(30)
    come_back(world, keeper)
    while keeper.deposed is None:
        world.tick()
        while world.mail:
            world.deliver()
    world.run(30)
    assert keeper.outcomes[under_way].code is ErrorCode.FENCED
    assert any(isinstance(told, fx.Deposed) for told in keeper.told)
    assert keeper in world.readers
    if is_deposed_by_reader:
        assert keeper.core.phase.value == "searching for the keeper"
        come_back(world, follower)
    request = keeper.append("through the new one")
    world.run(40)
    assert keeper.outcomes[request] == Applied(3)
    expected = {0: 0, 1: 1, 2: "instead", 3: "through the new one"}
    assert follower.read() == keeper.read() == other.read() == expected


def test_a_keeper_of_an_earlier_term_is_not_followed_even_if_it_is_the_only_one(world, pair):
    keeper, follower = pair
    proxy, third = world.proxy(), world.follower()
    world.run(5)
    cut_off(world, keeper)
    follower.promote()
    world.run(5)
    cut_off(world, follower)
    keeper = world.keeper(keeper.backend)
    request = proxy.append("not there")
    world.run(40)
    assert proxy.outcomes == {}
    assert keeper in world.readers, "both told it that it was deposed"
    assert third.core.contact.is_lost
    come_back(world, follower)
    world.run(40)
    assert proxy.outcomes == {request: Applied(2)}


def test_a_late_welcome_of_an_earlier_term_is_not_followed(world, pair):
    keeper, follower = pair
    proxy = world.proxy()
    world.deliver()  # its hello
    ((_, _, welcome),) = [each for each in world.mail if each[1] == proxy.endpoint]
    world.run(5)
    cut_off(world, keeper)
    follower.promote()
    world.run(5)
    assert proxy.core.contact.seeker.leader.entity == follower.core.entity
    cut_off(world, follower)
    proxy.receive(keeper.endpoint, welcome)
    assert proxy.core.contact.is_lost


def test_a_deposed_keeper_that_is_started_again_follows(world, pair):
    keeper, follower = pair
    cut_off(world, keeper)
    follower.promote()
    come_back(world, keeper)
    world.run(30)
    assert keeper in world.readers
    world.kill(keeper)
    again = world.keeper(keeper.backend)
    assert again in world.readers
    follower.append("more")
    world.run(30)
    assert again.read() == follower.read()


def test_a_deposed_keeper_copies_only_what_it_lacks(world, pair):
    keeper, follower = pair
    for number in range(600):
        keeper.append(number)
        keeper.flush()
        keeper.commit()
    world.settle()
    world.run(5)
    cut_off(world, keeper)
    keeper.append("lost")
    keeper.flush()
    keeper.commit()
    follower.promote()
    follower.append("instead")
    world.settle()
    come_back(world, keeper)
    cleared = []
    while keeper not in world.readers:
        world.run(1)
    keeper.core.copy.clear = lambda *what: cleared.append(what)
    world.run(30)
    assert cleared == []
    assert keeper.read() == follower.read()
    assert keeper.read()[602] == "instead"


def test_receipts_wait_until_followers_have_it_in_their_backends(world):
    keeper = world.keeper(replicas=1)
    follower, proxy = world.follower(), world.proxy()
    world.run(5)
    own, others = keeper.append("own"), proxy.append("another's")
    proxy.flush()
    keeper.flush()
    for _ in range(20):
        while world.mail:
            world.deliver()
        keeper.commit()
        world.tick()
    assert keeper.read(), "it is there"
    assert own not in keeper.outcomes, "but no follower has it"
    assert proxy.outcomes == {}
    assert "receipts wait for 1 followers" in keeper.core.explain_idle()
    follower.commit()
    world.run(2)
    assert isinstance(keeper.outcomes[own], Applied)
    assert isinstance(proxy.outcomes[others], Applied)


def test_a_restarted_keeper_tells_nobody_what_no_follower_has(world):
    keeper = world.keeper(replicas=1)
    proxy = world.proxy()
    world.run(5)
    request = proxy.append("only here")
    world.run(5)
    assert keeper.read() == {0: "only here"}
    world.kill(keeper)
    keeper = world.keeper(keeper.backend, replicas=1)
    world.run(40)
    assert proxy.outcomes == {}
    follower = world.follower()
    world.run(10)
    assert follower.read() == {0: "only here"}
    assert proxy.outcomes == {request: Applied(0)}


def test_a_promotion_that_would_lose_something_is_refused(world, pair):
    keeper, follower = pair
    with pytest.raises(PromotionRefused, match="its master is alive"):
        follower.promote(force=False)
    world.kill(keeper)
    world.mail.clear()
    empty = world.follower()
    with pytest.raises(PromotionRefused, match="never had"):
        empty.promote(force=True)
    world.kill(follower)
    restarted = world.follower(follower.backend)
    with pytest.raises(PromotionRefused, match="not level"):
        restarted.promote(force=False)
    restarted.promote()
    assert restarted.read() == {0: 0, 1: 1}


def test_a_follower_that_was_not_promoted_goes_on(world, pair):
    keeper, follower = pair
    follower.carry_out(follower.core.pause())
    fill(world, keeper, 1)
    assert 2 not in follower.read()
    follower.carry_out(follower.core.go_on())
    world.run(10)
    assert follower.read() == keeper.read()


def test_a_follower_that_was_away_for_a_moment_is_told_only_what_it_does_not_remember(world, pair):
    keeper, follower = pair
    for name in ("a", "b"):
        keeper.append(name, 0, name, 1)
    world.settle()
    position = follower.core.copy.position
    keeper.append("more", 0, "b", 2)
    world.settle()
    memory = keeper.core._memory
    (page,) = memory.since(position, keeper.core.partitions.ends())
    assert [(row.name, row.appended[-1][0]) for row in page.producers] == [("b", 2)]
    (page,) = memory.since(None, keeper.core.partitions.ends())
    assert [row.name for row in page.producers] == ["a", "b"]


def test_what_waits_for_a_commit_is_not_told_to_who_joins(world, pair):
    keeper, _ = pair
    keeper.append("staged", 0, "till", 1)
    keeper.flush()
    (page,) = keeper.core._memory.since(None, keeper.core.partitions.ends())
    assert page.producers == ()


def test_a_large_memory_comes_in_pages(world):
    keeper = world.keeper()
    count = 40
    for name in range(count):
        for sequence in range(PRODUCER_WINDOW):
            keeper.append(None, 0, f"producer {name}", sequence)
        world.settle()
    follower = world.follower()
    world.run(5)
    assert len(keeper.core._memory.since(None, (1 << 40,))) > 2
    assert list(follower.core.copy.memory.producers.rows()) == list(
        keeper.core._memory.producers.rows()
    )


def test_parts_of_a_memory_are_put_together_again():
    rows = [ProducerRow(f"p{number}", ((1, 0, number),), 1) for number in range(30_000)]
    parts = in_parts([], rows, (), ("gone",))
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    memory = Memory()
    for part in parts:
        memory.follow(part)
    assert len(memory.producers) == 10_000, "those that were idle longest are forgotten"
