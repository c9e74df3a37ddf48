"""What a person orders of the members is done by the leader once, however often it is told."""

from __future__ import annotations

import pytest

from stores.group.membership import IN_TOUCH_TICKS, Wanted
from stores.group.messages import Echo
from stores.group.positions import MemberId
from stores.group.words import Order
from stores.replica.asked.steering import Steering, obey
from tests.stores.group.disk import Disk, empty_file
from tests.stores.group.stage import Stage


@pytest.fixture
def stage():
    """Give four declared voters that were in touch with a for long, and a learner."""
    stage = Stage("abcde", voters="abcd", wanted=Wanted(names=frozenset("abcd")))
    stage.settle_in()
    stage.tick("abcde", times=IN_TOUCH_TICKS + 1, links=["abcde"], sync="abcde")
    return stage


def voters(stage, leader="a"):
    return "".join(sorted(each.name for each in stage.members[leader].journal.voters.current))


def carry(stage, steering, steers):
    for steer in steers:
        answer, effects = obey(stage.members["a"], steer)
        stage.carry(stage.members["a"], effects)
        stage.carry(stage.members["a"], stage.members["a"].settle())
        steering.hear(answer)


def steer(stage, *orders, ticks=30, links=("abcde",)):
    """Give orders at the leader at once; gives the voters after each tick, and what is left."""
    steering, seen = Steering(), []
    begun = [steering.begin(token, *each) for token, each in enumerate(orders)]
    carry(stage, steering, begun)
    for _ in range(ticks):
        stage.tick("abcde", links=links, sync="abcde")
        carry(stage, steering, steering.tick())
        seen.append(voters(stage))
    return seen, [steering.explain(token) for token in range(len(orders))]


def test_a_declared_voter_loses_its_vote_once(stage):
    seen, left = steer(stage, (Order.REMOVE, "b"), ticks=3 * IN_TOUCH_TICKS)
    assert left == [""]
    assert [now for now, then in zip(seen, ["", *seen], strict=False) if now != then] == [
        "abcd",
        "acd",
    ]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_orders_of_one_moment_are_done_one_after_the_other(stage, is_reversed):
    orders = [(Order.REMOVE, "b"), (Order.ADD, "e")]
    _, left = steer(stage, *(reversed(orders) if is_reversed else orders), ticks=15)
    assert left == ["", ""]
    assert voters(stage) == "acde"


def test_a_learner_that_is_gone_is_given_no_vote_and_why_is_said(stage):
    seen, left = steer(stage, (Order.ADD, "e"), links=["abcd"])
    assert left == ["the new voter is not in touch"]
    assert set(seen) == {"abcd"}
    assert steer(stage, (Order.ADD, "e"))[1] == [""]


def test_a_name_that_is_to_have_a_vote_and_has_none_is_removed(stage):
    """As between a voter's two lives, one of which is removed and the other one not yet added."""
    leader = stage.members["a"]
    others = tuple(each for each in leader.journal.voters.current if each.name != "b")
    leader.leading.electorate._put(others)
    stage.do("a", "probe")
    stage.pass_on("abcde", sync="abcde")
    assert leader.state.is_voters_committed
    assert steer(stage, (Order.REMOVE, "b"), ticks=15)[1] == [""]
    stage.tick("abcde", times=IN_TOUCH_TICKS, links=["abcde"], sync="abcde")
    assert (voters(stage), leader.journal.voters.dismissed) == ("acd", ("b",))


def test_names_that_are_removed_already_are_not_removed_again(stage):
    orders = (Order.REMOVE, "b"), (Order.REMOVE, "e")
    assert steer(stage, *orders)[1] == ["", ""]
    leader = stage.members["a"]
    assert set(leader.journal.voters.dismissed) == {"b", "e"}
    end = leader.journal.end
    assert steer(stage, *orders)[1] == ["", ""]
    assert leader.journal.end == end


@pytest.mark.parametrize("theirs", [Wanted(names=frozenset("abcde")), Wanted(count=5)])
@pytest.mark.parametrize("ours", [Wanted(names=frozenset("abcd")), Wanted(count=5)])
def test_a_name_that_is_away_is_removed_whatever_its_leader_was_given(ours, theirs):
    stage = Stage("abcde", voters="abcd", wanted=ours)
    stage.crash(*"be")
    stage.settle_in()
    assert steer(stage, (Order.REMOVE, "e"), ticks=15)[1] == [""]
    stage.wanted = theirs
    stage.start("b")
    stage.start("e")
    stage.tick("abcde", times=IN_TOUCH_TICKS, links=["abcde"], sync="abcde")
    stage.crash("a")
    assert stage.elect("b", "cd")
    stage.tick("bcde", times=2 * IN_TOUCH_TICKS, links=["bcde"], sync="bcde")
    assert voters(stage, "b") == "abcd"


def test_a_leader_that_is_removed_says_so_of_itself_while_it_leads(stage):
    leader = stage.members["a"]
    others = tuple(each for each in leader.journal.voters.current if each.name != "a")
    assert stage.change("a", others) is None
    own = next(each for each in leader.members() if each.member.name == "a")
    assert (own.is_voter, own.is_dismissed) == (False, True)


def test_a_voter_that_was_removed_by_hand_is_added_by_hand(stage):
    steer(stage, (Order.REMOVE, "b"))
    assert voters(stage) == "acd"
    assert steer(stage, (Order.ADD, "b"))[1] == [""]
    assert voters(stage) == "abcd"


@pytest.fixture
def by_hand():
    """Give four voters, of which d was added by hand: no leader makes it one by itself."""
    stage = Stage("abcde", voters="abcd", wanted=Wanted(names=frozenset("abc")))
    stage.settle_in()
    return stage


def test_a_voter_that_no_leader_replaces_by_itself_is_given_its_vote_in_its_next_life(by_hand):
    by_hand.crash("d")
    by_hand.ids["d"] = life = MemberId("d", 1)
    by_hand.disks["d"] = Disk(life, empty_file())
    by_hand.start("d")
    by_hand.tick("abcde", times=2 * IN_TOUCH_TICKS, links=["abcde"], sync="abcde")
    assert life not in by_hand.members["a"].journal.voters.current
    assert steer(by_hand, (Order.ADD, "d"))[1] == [""]
    found = by_hand.members["a"].journal.voters
    assert (voters(by_hand), found.dismissed) == ("abcd", ())
    assert life in found.current


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_voter_that_is_there_or_has_no_next_life_in_touch_keeps_its_vote(by_hand, is_heard):
    before = by_hand.members["a"].journal.voters.changed_at
    if not is_heard:
        by_hand.crash("d")
    by_hand.do("a", "receive", MemberId("d", 1), Echo(by_hand.members["a"].ballot.term, 1))
    if not is_heard:
        by_hand.tick("abce", times=IN_TOUCH_TICKS, links=["abce"], sync="abce")
    assert steer(by_hand, (Order.ADD, "d"))[1] == [""]
    assert by_hand.members["a"].journal.voters.changed_at == before
