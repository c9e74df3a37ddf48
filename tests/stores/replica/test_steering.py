"""What a person orders of the members is done by the leader once, however often it is told."""

from __future__ import annotations

import pytest

from stores.group.electorate import HEALTHY_TICKS
from stores.group.entries import VotersEntry
from stores.group.membership import IN_TOUCH_TICKS, Wanted
from stores.group.messages import Echo
from stores.group.positions import MemberId
from stores.group.roles import DEFAULT_TIMING
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


def start_anew(stage, name):
    """Start a member without its ballot: another life of its name."""
    stage.crash(name)
    stage.ids[name] = life = MemberId(name, 1)
    stage.disks[name] = Disk(life, empty_file())
    stage.start(name)
    return life


def test_a_voter_that_no_leader_replaces_by_itself_is_given_its_vote_in_its_next_life(by_hand):
    life = start_anew(by_hand, "d")
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


def test_what_asks_for_its_vote_as_soon_as_it_is_there_waits_until_its_last_life_counts_as_gone(
    by_hand,
):
    life = start_anew(by_hand, "d")
    by_hand.tick("abcde", times=2, links=["abcde"], sync="abcde")
    assert "d is there again" in steer(by_hand, (Order.ADD, "d"), ticks=3)[1][0]
    assert steer(by_hand, (Order.ADD, "d"), ticks=50)[1] == [""]
    assert life in by_hand.members["a"].journal.voters.current


def test_a_voter_that_only_pauses_keeps_its_vote_from_another_endpoint_of_its_name(by_hand):
    leader, other = by_hand.members["a"], MemberId("d", 1)
    before = leader.journal.voters.changed_at
    by_hand.tick("abcde", times=DEFAULT_TIMING.timeout_ticks_max, links=["abcde"], sync="abcde")
    by_hand.tick("abce", times=HEALTHY_TICKS + 1, links=["abce"], sync="abce")
    by_hand.do("a", "receive", other, Echo(leader.ballot.term, leader.leading._rounds.round))
    assert "d is there again" in steer(by_hand, (Order.ADD, "d"), ticks=0)[1][0]
    assert steer(by_hand, (Order.ADD, "d"))[1] == [""]
    assert leader.journal.voters.changed_at == before


def test_a_name_is_not_dismissed_between_its_two_lives(by_hand):
    """The order may break off before the second step, and meant no removal."""
    start_anew(by_hand, "d")
    by_hand.tick("abcde", times=IN_TOUCH_TICKS, links=["abcde"], sync="abcde")
    steer(by_hand, (Order.ADD, "d"))
    journal = by_hand.members["a"].journal
    changes = [
        (len(each.voters), each.dismissed)
        for each in journal.payloads(journal.floor.index + 1, journal.end_index)
        if isinstance(each, VotersEntry)
    ]
    assert changes == [(3, ()), (4, ())]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_orders_that_contradict_each_other_as_a_life_is_replaced_come_to_an_end(
    by_hand, is_reversed
):
    start_anew(by_hand, "d")
    by_hand.tick("abcde", times=2 * IN_TOUCH_TICKS, links=["abcde"], sync="abcde")
    orders = [(Order.ADD, "d"), (Order.REMOVE, "d"), (Order.ADD, "d")]
    left = steer(by_hand, *(reversed(orders) if is_reversed else orders), ticks=60)[1]
    assert left == ["", "", ""]
    found = by_hand.members["a"].journal.voters
    assert (voters(by_hand), found.dismissed) in [("abcd", ()), ("abc", ("d",))]
