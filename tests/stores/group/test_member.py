"""What a member does in each part of its life, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from channels import CumulativeAck, Event, Nack, UnknownConsumer
from stores.group import electorate, followers, following, leading, membership, reads, snapshots
from stores.group.clock import Moment
from stores.group.effects import (
    Broadcast,
    Committed,
    Failed,
    HistoryConflict,
    LeaderChanged,
    Replied,
    Send,
    Setback,
    StageParts,
    SyncMarks,
    WholenessChanged,
    WriteMark,
)
from stores.group.entries import ActionEntry, TimeEntry, VotersEntry
from stores.group.limits import JOURNAL_CHANNEL
from stores.group.machine import Answer, Done
from stores.group.membership import Wanted
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    HigherTerm,
    Join,
    Keepalive,
    PreVote,
    PreVoteGranted,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
    SnapshotPart,
    TimeoutNow,
    ToFollower,
)
from stores.group.positions import START, MemberId, Position
from stores.group.quorum import ChangeRefusal
from stores.group.roles import DEFAULT_TIMING, Role
from stores.group.terms import is_forced
from tests.stores.group.disk import Disk, empty_file
from tests.stores.group.lists import Noop, Push, Pushed, Register, Registered, Unknown
from tests.stores.group.stage import TICK_NS, Stage
from wire.errors import DecodeError


@pytest.fixture
def stage():
    """Give three voters that follow a."""
    stage = Stage()
    stage.settle_in()
    return stage


def mail_of(stage, kind, to=None):
    return [
        message
        for _, receiver, message in stage.mail
        if isinstance(message, kind) and (to is None or receiver.name == to)
    ]


def spied(stage):
    """Have a list of all effects from now on."""
    seen = []
    see = stage.witness.see
    stage.witness.see = lambda who, effect: (seen.append(effect), see(who, effect))
    return seen


def level(stage):
    return {member.state.machine.digest() for member in stage.members.values()}


# -- requests ------------------------------------------------------------------------------------


def test_a_request_is_answered_once_a_majority_has_it_on_the_disk(stage):
    stage.do("a", "propose", "caller", Register("w"))
    stage.pass_on("ab")
    assert stage.told == []
    stage.sync("a")
    assert stage.told == []
    stage.sync("b")
    stage.pass_on("ab", kinds=(FromFollower,))
    assert stage.told == [Replied("caller", 2, is_in_entry=True)]


def test_the_leader_need_not_have_it_on_its_own_disk(stage):
    stage.do("a", "propose", "caller", Register("w"))
    stage.pass_on("abc", sync="bc")
    assert stage.told == [Replied("caller", 2, is_in_entry=True)]
    assert stage.members["a"].journal.durable == 1


def test_a_follower_names_its_leader(stage):
    stage.do("b", "propose", "caller", Noop())
    assert stage.told == [Failed("caller", Setback.NOT_LEADER, stage.ids["a"])]


def test_requests_before_a_leaders_first_entry_is_committed_are_refused():
    stage = Stage()
    assert stage.elect("a", "b")
    stage.do("a", "propose", "caller", Noop())
    stage.do("a", "read", "reader")
    setbacks = [(each.caller, each.setback) for each in stage.told]
    assert setbacks == [("caller", Setback.NOT_READY), ("reader", Setback.NOT_READY)]
    assert not stage.members["a"].has_room
    stage.told.clear()
    stage.do("a", "propose_all", [("first", Noop()), ("second", Noop())])
    assert [each.caller for each in stage.told] == ["first", "second"]


def test_a_repeated_request_under_way_is_answered_with_the_first(stage):
    stage.do("a", "propose", "first", Register("w"))
    stage.pass_on("abc", sync="abc")
    push = Push(2, 1, 0, "v")
    stage.told.clear()
    for caller in ("second", "third"):
        stage.do("a", "propose", caller, push)
    stage.pass_on("abc", sync="abc")
    assert stage.told == [
        Replied("second", 1, is_in_entry=True),
        Replied("third", 1, is_in_entry=True),
    ]


def test_without_a_majority_a_leader_takes_so_much_and_no_more(stage, monkeypatch):
    monkeypatch.setattr(leading, "UNCOMMITTED_MAX", 3)
    stage.write("a", 3)
    assert not stage.members["a"].has_room
    stage.do("a", "propose", "caller", Noop())
    assert stage.told == [Failed("caller", Setback.NO_ROOM, stage.ids["a"])]
    stage.pass_on("abc", sync="abc")
    assert stage.members["a"].has_room


def test_without_a_majority_a_leader_takes_so_many_bytes_and_no_more(stage, monkeypatch):
    monkeypatch.setattr(leading, "UNCOMMITTED_SIZE_MAX", 10)
    for leader in "aab":
        if stage.leader() != leader:
            stage.settle_in(leader)
        stage.do(leader, "propose", "writer", Register(f"another {len(stage.told)}"))
        stage.pass_on("abc", sync="abc")
        number = stage.answer()
        for request in (1, 2):
            assert stage.members[leader].has_room
            stage.do(leader, "propose", "caller", Push(number, request, 0, "x" * 5))
        assert not stage.members[leader].has_room
        stage.do(leader, "propose", "late", Push(number, 3, 0, ""))
        assert stage.told[-1] == Failed("late", Setback.NO_ROOM, stage.ids[leader])
        stage.pass_on("abc", sync="abc")
        assert stage.members[leader].has_room


def _acknowledged(stage):
    """Have an entry of a on the disks of a and b, without the last step of a's turn."""
    stage.write("a")
    stage.sync("a", "b")
    stage.pass_on("ab", kinds=(ToFollower,), sync="b")
    (ack,) = [letter for letter in stage.mail if isinstance(letter[2], FromFollower)]
    stage.clear()
    leader = stage.members["a"]
    before = leader.state.commit
    effects = leader.receive(ack[0], ack[2])
    assert leader.state.commit == before + 1
    assert not [each for each in effects if isinstance(each, Broadcast)], "it waits for the turn"
    return leader


def test_a_commit_is_told_once_at_the_end_of_the_leader_s_turn(stage):
    leader = _acknowledged(stage)
    assert leader.has_word
    (told,) = leader.settle()
    assert isinstance(told.message, Keepalive)
    assert told.message.commit == leader.state.commit
    assert not leader.has_word
    assert leader.settle() == []


def test_an_entry_of_the_same_turn_tells_the_commit(stage):
    leader = _acknowledged(stage)
    effects = leader.propose("caller", Noop())
    (told,) = [each for each in effects if isinstance(each, Broadcast)]
    assert isinstance(told.message.message, Event)
    assert told.message.commit == leader.state.commit
    assert leader.settle() == []


def test_a_commit_that_no_last_step_told_is_told_at_the_next_tick(stage):
    leader = _acknowledged(stage)
    effects = leader.tick(stage.moment("a"))
    (told,) = [each for each in effects if isinstance(each, Broadcast)]
    assert told.message.commit == leader.state.commit
    assert not leader.has_word


def test_learners_that_come_first_keep_no_voter_out(monkeypatch):
    monkeypatch.setattr(followers, "FOLLOWERS_MAX", 2)
    stage = Stage("abcde", voters="abc")
    assert stage.elect("a", "bc")
    stage.tick("a", times=3, links=["ade"], sync="abcde")
    assert not stage.is_ready("a")
    stage.tick("a", times=3, links=["abcde"], sync="abcde")
    assert stage.is_ready("a")


def test_what_waits_at_a_leader_that_is_deposed_has_an_unknown_outcome(stage):
    stage.do("a", "propose", "caller", Noop())
    stage.do("a", "read", "reader")
    stage.clear()
    assert stage.elect("b", "c")
    stage.tick("b", links=["abc"])
    assert [(each.caller, each.setback) for each in stage.told] == [
        ("caller", Setback.UNKNOWN),
        ("reader", Setback.NOT_LEADER),
    ]
    assert stage.members["a"].leading is None


def test_what_was_staged_by_a_deposed_leader_is_forgotten(stage):
    stage.do("a", "propose", "caller", Register("w"))
    stage.clear()
    assert stage.elect("b", "c")
    stage.tick("b", times=8, links=["abc"], sync="abc")
    assert stage.elect("a", "bc")
    stage.tick("a", times=8, links=["abc"], sync="abc")
    stage.do("a", "propose", "other", Register("w"))
    stage.pass_on("abc", sync="abc")
    (registered,) = [each for each in stage.told if isinstance(each, Replied)]
    assert registered.answer > 3
    stage.tick("a", links=["abc"])
    assert len(level(stage)) == 1


def test_callers_whose_entries_are_committed_at_once_are_all_answered(stage):
    seen = spied(stage)
    leader = stage.members["a"]
    leader.state.machine.due_ns = 0
    leader.leading.do_due(leader.state.clock.times)  # an entry that no caller waits for
    stage.do("a", "propose_all", [("first", Register("w")), ("second", Noop())])
    stage.pass_on("abc", sync="bc")
    assert stage.told == [
        Replied("first", 3, is_in_entry=True),
        Replied("second", None, is_in_entry=True),
    ]
    assert Committed(2, 4) in seen


def test_each_entry_is_told_of_as_committed_once():
    stage = Stage()
    seen = {name: [] for name in "abc"}
    stage.witness.see = lambda who, effect: seen[who.id.name].append(effect)
    stage.settle_in()
    for count in (1, 3):
        stage.write("a", count)
        stage.pass_on("abc", sync="abc")
    for name, effects in seen.items():
        spans = [each for each in effects if isinstance(each, Committed)]
        told = [index for span in spans for index in range(span.first, span.last + 1)]
        assert told == [1, 2, 3, 4, 5], name


def test_a_request_is_judged_at_the_groups_time(stage):
    leader = stage.members["a"]
    before = leader.state.clock.times
    leader.run_to(Moment(*(ns + 50 for ns in stage.moment("a"))))
    stage.do("a", "propose", "caller", Register("w"))
    at = leader.state.machine.judged_at
    assert (at.elapsed_ns - before.elapsed_ns, at.stamp_ns - before.stamp_ns) == (50, 50)


# -- one voter, and no disks -----------------------------------------------------------------------


@pytest.fixture
def alone():
    """Give the only voter of a group without disks, which leads, and a learner that is away."""
    stage = Stage("ab", voters="a", is_volatile=True)
    stage.crash("b")
    stage.tick("a", times=3)
    stage.told.clear()
    return stage


def test_a_voter_alone_without_a_disk_decides_at_once_and_keeps_no_entry(alone):
    member = alone.members["a"]
    position = Position(1, member.journal.end.index + 1)
    done = member.decide(Register("w"))
    assert done == Done(Registered("w", None), position.index)
    assert member.state.machine.judged_at == member.state.clock.times
    assert member.state.machine.state.writers[position.index].nonce == "w"
    assert member.state.commit == position.index
    assert member.journal.floor == member.journal.end == position
    assert member.decide(Push(99, 1, 0, "v")) == Answer(Unknown())
    assert member.journal.end == position, "a refusal is no entry"
    assert member.settle() == []


def test_what_is_decided_at_once_is_answered_at_once(alone):
    index = alone.members["a"].journal.end.index + 1
    for caller, request in (("first", Register("w")), ("second", Push(99, 1, 0, "v"))):
        alone.do("a", "propose", caller, request)
    assert alone.told == [
        Replied("first", index, is_in_entry=True),
        Replied("second", Unknown(), is_in_entry=False),
    ]


def test_a_learner_gets_what_was_decided_without_it_and_then_each_entry(alone):
    member = alone.members["a"]
    writer = member.decide(Register("w")).value
    learner = alone.start("b")
    alone.tick("a", times=2, links=["ab"])
    assert learner.journal.floor == member.journal.end, "it took a snapshot"
    for request in range(1, 3):
        done = member.decide(Push(writer, request, 7, "v"))
        assert done == Done(Pushed(Push(writer, request, 7, "v"), request), request)
    assert member.journal.durable == member.state.commit == writer + 2
    entries = member.journal.payloads(writer + 1, writer + 2)
    assert [(entry.term, entry.body.position) for entry in entries] == [(1, 1), (1, 2)]
    alone.carry(member, member.settle())
    alone.pass_on("ab")
    assert learner.state.commit == writer + 2
    assert len(level(alone)) == 1


def test_where_others_have_a_word_or_something_waits_nothing_is_decided_at_once(alone):
    member = alone.members["a"]
    member.state.machine.due_ns = 0
    member.leading.do_due(member.state.clock.times)
    assert member.decide(Noop()) is None, "an entry is not committed yet"
    alone.tick("a")
    assert member.decide(Noop()) is not None
    end = member.journal.end
    alone.saves_ballots = False
    member.concede()
    assert member.decide(Noop()) is None, "its word waits for the disk"
    assert Stage("a", is_volatile=True).members["a"].decide(Noop()) is not None
    with_disk = Stage("ab", voters="a")
    with_disk.settle_in()
    assert with_disk.members["a"].decide(Noop()) is None
    two = Stage("ab", is_volatile=True)
    two.settle_in()
    assert two.members["a"].decide(Noop()) is two.members["b"].decide(Noop()) is None
    assert two.members["b"].settle() == []
    assert member.journal.end == end


# -- reads ---------------------------------------------------------------------------------------


def test_reads_of_one_step_share_a_round_and_wait_for_a_majority(stage):
    member = stage.members["a"]
    effects = member.leading.read("first") + member.leading.read("second")
    assert effects == []
    stage.do("a", "read", "third")
    assert len(mail_of(stage, Keepalive)) == 2
    assert stage.told == []
    stage.pass_on("ab")
    assert [effect.caller for effect, _ in stage.told] == ["first", "second", "third"]


def test_reads_that_come_while_a_round_is_under_way_share_the_next(stage):
    for caller in range(5):
        stage.do("a", "read", caller)
    assert len(mail_of(stage, Keepalive, "b")) == 1
    stage.pass_on("ab", rounds=2)
    assert [effect.caller for effect, _ in stage.told] == [0]
    assert len(mail_of(stage, Keepalive, "b")) == 1
    stage.pass_on("ab")
    assert [effect.caller for effect, _ in stage.told] == [0, 1, 2, 3, 4]


def test_a_round_that_gets_lost_holds_reads_up_until_the_next_tick(stage):
    for caller in range(2):
        stage.do("a", "read", caller)
        stage.clear()
    stage.do("a", "read", "caller")
    assert stage.mail == []
    stage.tick("a", links=["ab"])
    assert len(stage.told) == 3


def test_a_single_voter_reads_at_once_and_tells_its_learners_nothing():
    stage = Stage("ab", voters="a")
    stage.settle_in()
    stage.do("a", "read", "caller")
    assert len(stage.told) == 1
    assert stage.mail == []


def test_a_single_voter_sends_its_entries_once_they_are_on_its_disk():
    stage = Stage("ab", voters="a")
    stage.settle_in()
    stage.write("a", 2)
    assert mail_of(stage, ToFollower) == []
    stage.sync("a")
    words = mail_of(stage, ToFollower, "b")
    sent = [(word.message.first_sequence, len(word.message.payloads)) for word in words]
    assert sent == [(2, 1), (3, 1)]
    assert [word.commit for word in words] == [2, 3], "it is committed then"


def test_a_read_is_not_behind_an_answer_that_waits_for_a_commit(stage):
    stage.do("a", "propose", "writer", Register("w"))
    stage.do("a", "propose", "refused", Push(99, 1, 0, "v"))
    stage.do("a", "read", "reader")
    stage.pass_on("abc", kinds=(Keepalive, Echo))
    assert [effect.caller for effect, _ in stage.told] == ["reader"]
    stage.pass_on("abc", sync="abc")
    assert stage.told[1:] == [Replied("writer", 2, is_in_entry=True), Replied("refused", Unknown())]


def test_an_answer_whose_commit_never_comes_fails_with_its_leader(stage):
    stage.write("a")
    stage.do("a", "propose", "refused", Push(99, 1, 0, "v"))
    stage.pass_on("abc", kinds=(Keepalive, Echo))
    stage.clear()
    assert stage.told == []
    stage.do("a", "receive", stage.ids["c"], HigherTerm(5))
    setbacks = [(each.caller, each.setback) for each in stage.told]
    assert ("refused", Setback.NOT_LEADER) in setbacks


def test_answers_that_wait_for_a_commit_have_the_same_limit(stage, monkeypatch):
    monkeypatch.setattr(reads, "READS_MAX", 1)
    stage.write("a")
    stage.do("a", "propose", "first", Push(99, 1, 0, "v"))
    stage.pass_on("abc", kinds=(Keepalive, Echo))
    stage.do("a", "propose", "second", Push(99, 1, 0, "v"))
    assert stage.told == [Failed("second", Setback.NO_ROOM, stage.ids["a"])]


def test_an_echo_of_an_earlier_round_confirms_no_later_read(stage):
    stage.do("a", "read", "caller")
    round_number = mail_of(stage, Keepalive)[0].round
    for name in "bc":
        stage.deliver(stage.ids[name], stage.ids["a"], Echo(1, round_number - 1))
    assert stage.told == []
    stage.deliver(stage.ids["b"], stage.ids["a"], Echo(1, round_number + 99))
    assert len(stage.told) == 1


def test_echoes_do_not_wait_for_the_disk(stage):
    stage.write("a")
    stage.pass_on("ab")
    stage.do("a", "read", "caller")
    stage.pass_on("ab")
    assert stage.writes["b"]
    assert len(stage.told) == 1


def test_a_followers_read_sees_what_its_leader_had_committed(stage):
    stage.do("a", "propose", None, Register("w"))
    stage.pass_on("ac", sync="ac")
    stage.clear()
    stage.told.clear()
    assert stage.members["b"].state.commit < stage.members["a"].state.commit
    stage.do("b", "read", "caller")
    stage.pass_on("abc", sync="abc")
    assert stage.told == []
    stage.tick("ab", times=6, links=["abc"], sync="abc")
    assert [each[0].caller for each in stage.told if isinstance(each, tuple)] == ["caller"]


def test_a_followers_read_begins_once(stage):
    stage.do("b", "read", "caller")
    stage.pass_on("abc")
    stage.write("a", 2)
    stage.pass_on("abc", sync="abc")
    assert [each[0].caller for each in stage.told if isinstance(each, tuple)] == ["caller"]


def test_without_a_leader_a_read_fails_at_once():
    stage = Stage()
    stage.do("a", "read", "caller")
    assert stage.told == [Failed("caller", Setback.NOT_LEADER, None)]


def test_a_followers_reads_fail_when_its_leader_is_gone(stage):
    stage.do("b", "read", "caller")
    stage.clear()
    assert stage.elect("c", "a")
    stage.tick("c", links=["bc"])
    assert stage.told == [Failed("caller", Setback.NOT_LEADER, None)]


def test_a_followers_read_that_waits_for_its_commit_fails_with_its_leader(stage):
    stage.do("a", "propose", None, Register("w"))
    stage.pass_on("ac", sync="ac")
    stage.told.clear()
    stage.mail = [letter for letter in stage.mail if letter[1].name != "b"]
    stage.do("b", "read", "caller")
    stage.pass_on("ab", kinds=(ReadIndex,))
    stage.pass_on("ac", kinds=(Keepalive, Echo))
    stage.pass_on("ab", kinds=(ReadFrom,))
    stage.clear()
    assert stage.told == []
    stage.do("b", "receive", stage.ids["c"], HigherTerm(5))
    assert stage.told == [Failed("caller", Setback.NOT_LEADER, None)]


def test_reads_that_wait_have_a_limit(stage, monkeypatch):
    monkeypatch.setattr(reads, "READS_MAX", 1)
    for caller in ("first", "second"):
        stage.do("a", "read", caller)
    assert stage.told == [Failed("second", Setback.NO_ROOM, stage.ids["a"])]
    stage.deliver(stage.ids["b"], stage.ids["a"], ReadIndex(1, 7))
    assert len(stage.told) == 1


def test_a_read_that_nobody_asked_for_may_be_forgotten():
    stage = Stage()
    stage.members["a"].forget_read("caller")
    stage.settle_in()
    stage.members["b"].forget_read("caller")
    stage.do("b", "read", "caller")
    stage.members["b"].forget_read("stranger")
    stage.pass_on("abc")
    assert [effect.caller for effect, _ in stage.told] == ["caller"]


def test_reads_that_wait_for_their_commit_have_the_same_limit(stage, monkeypatch):
    monkeypatch.setattr(following, "READS_MAX", 2)
    stage.write("a")
    stage.pass_on("ac", sync="ac")
    stage.mail = [letter for letter in stage.mail if letter[1].name != "b"]
    stage.told.clear()
    for caller in ("first", "second"):
        stage.do("b", "read", caller)
        stage.pass_on("ab", kinds=(ReadIndex,))
        stage.pass_on("ac", kinds=(Keepalive, Echo))
        stage.pass_on("ab", kinds=(ReadFrom,))
    assert stage.told == []
    stage.do("b", "read", "third")
    assert stage.told == [Failed("third", Setback.NO_ROOM, stage.ids["a"])]


def test_a_read_that_is_asked_again_takes_no_more_room(stage, monkeypatch):
    monkeypatch.setattr(following, "READS_MAX", 1)
    for _ in range(3):
        stage.do("b", "read", "caller")
    assert len({message.ticket for message in mail_of(stage, ReadIndex)}) == 1
    stage.do("b", "read", "other")
    assert stage.told == [Failed("other", Setback.NO_ROOM, stage.ids["a"])]
    stage.members["b"].forget_read("caller")
    stage.do("b", "read", "other")
    assert len(stage.told) == 1
    stage.clear()
    stage.do("b", "read", "other")
    stage.pass_on("abc", sync="abc")
    assert [each[0].caller for each in stage.told[1:]] == ["other"]


# -- following -----------------------------------------------------------------------------------


def test_a_new_commit_index_leaves_at_once_and_not_with_the_next_tick(stage):
    stage.write("a")
    stage.pass_on("abc", sync="abc")
    commits = {member.state.commit for member in stage.members.values()}
    assert commits == {2}


def said(stage, name):
    """Give the messages of a member that are on their way."""
    return [message for sender, _, message in stage.mail if sender.name == name]


def test_a_round_is_echoed_once_and_an_idle_follower_says_nothing_else(stage):
    stage.do("a", "tick", stage.moment("a"))
    (word,) = mail_of(stage, Keepalive, "b")
    stage.clear()
    stage.deliver(stage.ids["a"], stage.ids["b"], word)
    assert said(stage, "b") == [Echo(1, word.round)]
    stage.clear()
    stage.deliver(stage.ids["a"], stage.ids["b"], word)
    assert stage.mail == []


def test_the_first_round_of_each_leader_is_echoed(stage):
    assert stage.elect("b", "ac")
    stage.pass_on("abc", kinds=(Keepalive,))
    term = stage.members["b"].ballot.term
    assert mail_of(stage, Echo, "b") == [Echo(term, 1)] * 2


def test_a_leader_tells_whom_it_feeds(stage):
    feeding = stage.members["a"].leading.feeding
    assert [feeding.feeds(stage.ids[name]) for name in "abc"] == [False, True, True]
    stage.crash("b")
    stage.start("b")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive, Join, Admitted))
    assert not feeding.feeds(stage.ids["b"]), "it has not acknowledged its session"
    stage.pass_on("ab")
    assert feeding.feeds(stage.ids["b"])


def test_a_join_without_an_answer_is_repeated_in_a_new_session_ahead_of_the_echo(stage):
    stage.crash("b")
    stage.start("b")
    joined, sessions = [], []
    for turn in range(3 * following.JOIN_TICKS + 1):
        stage.do("b", "tick", stage.moment("b"))
        stage.do("a", "tick", stage.moment("a"))
        stage.pass_on("ab", kinds=(Keepalive,))
        *joins, echo = said(stage, "b")
        assert isinstance(echo, Echo)
        joined += [turn] * len(joins)
        sessions += [join.session for join in joins]
        stage.clear()
    assert joined == [0, following.JOIN_TICKS, 3 * following.JOIN_TICKS]
    assert sessions[0] > 1 << 32, "greater than all of its last start"
    assert sessions == list(range(sessions[0], sessions[0] + 3))


def test_a_follower_tells_how_many_entries_it_is_behind(stage):
    assert stage.start("c").missing_count == 0
    assert Stage().members["a"].missing_count == 0
    stage.write("a", 3)
    stage.clear()
    assert stage.members["b"].missing_count == 0, "it has not heard of them"
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive,))
    assert stage.members["b"].missing_count == 3
    stage.tick("ab", times=4, links=["ab"])
    assert stage.members["b"].missing_count == 0


def test_a_learner_may_acknowledge_several_entries_at_once_or_at_a_round():
    stage = Stage("ab", voters="a", ack_entries=3)
    stage.settle_in()
    acknowledged = []

    def write():
        stage.write("a")
        stage.pass_on("ab", sync="ab", kinds=(ToFollower,))
        acknowledged.extend(word.message.sequence for word in mail_of(stage, FromFollower))
        stage.clear()

    for _ in range(5):
        write()
    assert acknowledged == [4]
    stage.do("a", "welcome", stage.ids["b"])
    stage.pass_on("ab", kinds=(Keepalive,))
    assert stage.mail == [], "that was no new round"
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive,))
    assert len(mail_of(stage, Echo)) == 1
    (word,) = mail_of(stage, FromFollower)
    assert word.message == CumulativeAck(1, 6)
    stage.clear()
    write()
    write()
    assert acknowledged == [4]
    write()
    assert acknowledged == [4, 9]


def test_an_acknowledgement_that_gets_lost_is_said_again(stage):
    stage.write("a")
    stage.pass_on("ab", kinds=(ToFollower,), sync="ab")
    stage.clear()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive, Echo))
    assert stage.members["a"].state.commit == 1
    stage.tick("b", times=JOURNAL_CHANNEL.heartbeat_interval_ticks, links=["ab"])
    assert stage.members["a"].state.commit == 2


def test_a_late_follower_gets_the_journal_ahead_of_its_acknowledgements(monkeypatch):
    monkeypatch.setattr(followers, "CATCH_UP_ENTRIES", 4)
    monkeypatch.setattr(followers, "CATCH_UP_RUN", 2)
    stage = Stage("abcd", voters="abc")
    stage.crash("d")
    stage.settle_in()
    stage.write("a", 8)
    stage.pass_on("abc", sync="abc")
    stage.clear()
    stage.start("d")
    stage.do("a", "tick", stage.moment("a"))
    for kind in (Keepalive, Join, Admitted):
        stage.pass_on("ad", kinds=(kind,))
    stage.mail = [letter for letter in stage.mail if isinstance(letter[2], ToFollower)]

    def runs():
        words = mail_of(stage, ToFollower, "d")
        return [(word.message.first_sequence, len(word.message.payloads)) for word in words]

    assert stage.members["a"].leading.feeding.wanted_index == 0, "it may ask for all"
    for sent in ([(1, 2), (3, 2)], [(5, 2), (7, 2)], [(9, 1)], []):
        assert runs() == sent
        assert {word.commit for word in mail_of(stage, ToFollower)} <= {9}
        stage.pass_on("ad", kinds=(ToFollower,))
        stage.sync("d")
        stage.pass_on("ad", kinds=(FromFollower,))
    assert stage.members["d"].state.commit == 9
    assert len(level(stage)) == 1


def test_what_gets_lost_on_the_way_to_a_late_follower_is_asked_for():
    stage = Stage("abcd", voters="abc")
    stage.crash("d")
    stage.settle_in()
    stage.write("a", 600)
    stage.pass_on("abc", sync="abc")
    stage.start("d")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join))
    lost = mail_of(stage, ToFollower, "d")
    assert lost
    stage.mail = [letter for letter in stage.mail if letter[2] not in lost]
    stage.tick("ad", times=12, links=["ad"], sync="d")
    assert stage.members["d"].journal.end == stage.members["a"].journal.end


def with_snapshot(*, lists=30):
    """Have d too far behind for a's journal."""
    stage = Stage("abcd", voters="abc")
    stage.crash("d")
    stage.settle_in()
    stage.do("a", "propose", None, Register("w"))
    stage.pass_on("abc", sync="abc")
    for number in range(1, lists + 1):
        stage.do("a", "propose", None, Push(2, number, number, "v"))
    stage.pass_on("abc", sync="abc")
    leader = stage.members["a"]
    assert leader.compact(leader.state.commit) == leader.state.commit
    stage.start("d")
    return stage


def test_a_follower_without_the_journals_beginning_gets_a_snapshot_in_windows():
    stage = with_snapshot()
    stage.tick("a", links=[])
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", rounds=2)
    (admitted,) = mail_of(stage, Admitted)
    assert admitted.snapshot.part_count == 31
    assert len(mail_of(stage, SnapshotPart)) == 8
    stage.pass_on("ad", sync="d")
    stage.tick("a", times=2, links=["ad"], sync="d")
    assert stage.members["d"].journal.floor.index == admitted.agreed
    assert len(level(stage)) == 1
    assert stage.disks["d"].file.applied == admitted.agreed


def test_a_snapshot_lets_reads_begin_that_wait_for_what_is_in_it():
    stage = with_snapshot()
    stage.told.clear()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive,))
    stage.do("d", "read", "caller")
    stage.pass_on("ad", kinds=(ReadIndex,))
    stage.pass_on("abc", kinds=(Keepalive, Echo))
    stage.pass_on("ad", kinds=(ReadFrom,))
    assert stage.told == []
    stage.pass_on("ad", kinds=(Join, Admitted, SnapshotPart, SnapshotAck))
    assert [effect.caller for effect, _ in stage.told] == ["caller"]


def test_parts_that_get_lost_are_sent_again_and_entries_follow():
    stage = with_snapshot()
    stage.tick("a", links=["ad"], sync="d")
    stage.write("a", 2)
    stage.pass_on("abc", sync="abc")
    for turn in range(60):
        kept = [letter for at, letter in enumerate(stage.mail) if (at + turn) % 3]
        stage.mail = kept
        stage.tick("ad", links=[])
        stage.do("a", "tick", stage.moment("a"))
        stage.pass_on("ad", rounds=1, sync="d")
    stage.tick("ad", times=10, links=["ad"], sync="d")
    assert len(level(stage)) == 1


def test_a_snapshot_of_which_nothing_comes_is_given_up_and_asked_for_anew():
    stage = with_snapshot()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted))
    stage.clear()
    member = stage.members["d"]
    session = member._following._session

    def turn():
        stage.do("d", "tick", stage.moment("d"))
        stage.do("a", "tick", stage.moment("a"))
        stage.pass_on("ad", kinds=(Keepalive,))
        stage.pass_on("abc", kinds=(Keepalive, Echo))
        joins = mail_of(stage, Join)
        stage.clear()
        return joins

    for _ in range(following.SNAPSHOT_TICKS):
        assert turn() == []
    (join,) = turn()
    assert join.session == session + 1


def with_parts_on_the_disk():
    """Have a snapshot for d, whose machine leaves the values of lists to the disk."""
    stage = with_snapshot(lists=2)
    member, seen = stage.members["d"], spied(stage)
    machine, parts = member.state.machine, {}
    install = machine.install

    def prepare(number, part):
        parts[number] = part
        return part if isinstance(part, dict) else number

    machine.prepare = prepare
    machine.install = lambda kept: install(
        [parts[each] if isinstance(each, int) else each for each in kept]
    )
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted, SnapshotPart))
    return stage, [effect for effect in seen if isinstance(effect, StageParts)], seen


def test_parts_that_the_machine_does_not_keep_are_acknowledged_once_they_are_on_the_disk():
    stage, (write,), seen = with_parts_on_the_disk()
    leader, member = stage.members["a"], stage.members["d"]
    lists = leader.state.machine.state.lists
    assert (write.is_first, write.parts) == (True, ((1, lists[1]),))
    assert {ack.count for ack in mail_of(stage, SnapshotAck)} == {0}
    seen.clear()
    stage.do("d", "parts_staged", write.token - 1)
    stage.do("d", "parts_staged", write.token + 1)
    assert seen == [], "that was another write"
    stage.do("d", "parts_staged", write.token)
    (ack,) = [each.message for each in seen if isinstance(each, Send)]
    assert ack.count == 1
    (second,) = [each for each in seen if isinstance(each, StageParts)]
    assert (second.is_first, second.parts) == (False, ((2, lists[2]),))
    assert second.token != write.token
    stage.do("d", "parts_staged", second.token)
    assert member.state.machine.digest() == leader.state.machine.digest()
    stage.do("d", "parts_staged", second.token)
    assert member.state.commit == member.journal.floor.index == leader.state.commit


def test_a_write_of_a_snapshot_that_was_given_up_counts_for_no_later_one():
    stage, (write,), seen = with_parts_on_the_disk()
    member = stage.members["d"]
    for name in "ad":
        stage.do(name, "receive", stage.ids["b"], HigherTerm(2))
    seen.clear()
    stage.do("d", "parts_staged", write.token)
    assert seen == []
    assert stage.elect("a", "bc")
    stage.tick("a", times=3, links=["abc"], sync="abc")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted, SnapshotPart))
    (second,) = [each for each in seen if isinstance(each, StageParts)]
    assert second.is_first
    seen.clear()
    stage.do("d", "parts_staged", write.token)
    assert seen == []
    assert member._following._receiving.count == 0


def test_parts_of_a_second_snapshot_wait_until_the_first_one_is_on_the_disk():
    stage, (write,), seen = with_parts_on_the_disk()
    for token in (write.token, write.token + 1):
        stage.do("d", "parts_staged", token)
    leader, member = stage.members["a"], stage.members["d"]
    assert member.journal.durable < member.journal.floor.index
    for name in "ad":
        stage.do(name, "receive", stage.ids["b"], HigherTerm(2))
    assert stage.elect("a", "bc")
    stage.tick("a", links=["abc"], sync="abc")
    stage.do("a", "propose", None, Push(2, 3, 1, "v"))
    stage.pass_on("abc", sync="abc")
    assert leader.compact(leader.state.commit) > member.journal.floor.index
    seen.clear()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted, SnapshotPart))
    assert [each for each in seen if isinstance(each, StageParts)] == []
    stage.sync("d")
    (write,) = [each for each in seen if isinstance(each, StageParts)]
    assert write.is_first


def test_parts_of_another_session_and_those_after_the_last_are_ignored():
    stage = with_snapshot(lists=2)
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted))
    first, *parts = mail_of(stage, SnapshotPart)
    a, d = stage.ids["a"], stage.ids["d"]
    stage.clear()
    stage.deliver(a, d, replace(first, session=first.session - 1))
    assert stage.mail == []
    for part in (first, *parts):
        stage.deliver(a, d, part)
    assert stage.members["d"].state.commit == stage.members["a"].state.commit
    stage.clear()
    stage.deliver(a, d, parts[-1])
    assert stage.mail == []


def test_a_snapshot_is_acknowledged_as_soon_as_it_is_on_the_disk():
    stage = with_snapshot()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted, SnapshotPart, SnapshotAck))
    index = stage.members["d"].journal.floor.index
    assert index == stage.members["a"].state.commit
    stage.clear()
    stage.sync("d")
    assert [word.message for word in mail_of(stage, FromFollower)] == [CumulativeAck(1, index)]
    assert stage.disks["d"].mark == Position(1, index)


def test_an_answer_that_comes_twice_begins_no_snapshot_again():
    stage = with_snapshot()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join))
    (admitted,) = mail_of(stage, Admitted)
    stage.pass_on("ad", kinds=(Admitted, SnapshotPart))
    stage.clear()
    stage.deliver(stage.ids["a"], stage.ids["d"], admitted)
    assert stage.mail == []


def test_a_snapshot_that_cannot_be_read_is_given_up_in_its_session_alone():
    stage = with_snapshot()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join))
    feeding, d = stage.members["a"].leading.feeding, stage.ids["d"]
    (admitted,) = mail_of(stage, Admitted)
    feeding.give_up(d, admitted.session - 1)
    feeding.give_up(MemberId("stranger", 1), admitted.session)
    assert len(feeding.sendings()) == 1
    feeding.give_up(d, admitted.session)
    assert feeding.sendings() == []
    stage.clear()
    for _ in range(snapshots.RESEND_TICKS):
        stage.do("a", "tick", stage.moment("a"))
    assert mail_of(stage, SnapshotPart) == []


def test_two_followers_share_a_frozen_state():
    stage = Stage("abcde", voters="abc")
    stage.crash("d", "e")
    stage.settle_in()
    stage.write("a", 3)
    stage.pass_on("abc", sync="abc")
    leader = stage.members["a"]
    leader.compact(leader.state.commit)
    frozen = []
    freeze = leader.state.machine.freeze
    leader.state.machine.freeze = lambda after: frozen.append(after) or freeze()
    for name in "de":
        join = Join(1, 1, (START,))
        stage.deliver(stage.ids[name], stage.ids["a"], join)
    assert frozen == [0]


def test_a_snapshot_for_a_member_that_has_more_is_not_shared_with_one_that_has_less():
    stage = Stage("abcde", voters="abc")
    stage.crash("d", "e")
    stage.settle_in()
    stage.write("a", 3)
    stage.pass_on("abc", sync="abc")
    leader = stage.members["a"]
    leader.compact(leader.state.commit)
    frozen = []
    freeze = leader.state.machine.freeze
    leader.state.machine.freeze = lambda after: frozen.append(after) or freeze()
    for name, session, index in (("d", 1, 2), ("e", 1, 0), ("d", 2, 3)):
        join = Join(1, session, (START, Position(1, index))[: 1 + bool(index)])
        stage.deliver(stage.ids[name], stage.ids["a"], join)
    assert frozen == [2, 0], "what leaves out less is good for all"


def test_a_follower_that_claims_what_was_not_sent_gets_it():
    stage = Stage("ab", voters="a")
    stage.tick("a", times=12, sync="a")
    stage.do("a", "propose", None, Register("w"))
    leader = stage.members["a"]
    assert leader.state.commit < leader.journal.end.index, "it waits for the disk"
    stage.clear()
    stage.deliver(stage.ids["b"], stage.ids["a"], Join(1, 1 << 40, (Position(1, 1 << 40),)))
    (admitted,) = mail_of(stage, Admitted)
    assert admitted.agreed == leader.state.commit
    stage.sync("a")
    (sent,) = (
        each.message for each in mail_of(stage, ToFollower) if isinstance(each.message, Event)
    )
    assert sent.first_sequence == admitted.agreed + 1


def with_more_to_apply():
    """Have d with entries that it does not know to be committed, behind the beginning of a's."""
    stage = Stage("abcd", voters="abc")
    stage.settle_in()
    stage.write("a", 3)
    stage.pass_on("abcd", kinds=(ToFollower, FromFollower), sync="abcd")
    member = stage.members["d"]
    stage.crash("d")
    stage.tick("a", times=120, links=["abc"], sync="abc")  # Its session is over.
    stage.write("a", 3)
    stage.pass_on("abc", sync="abc")
    leader = stage.members["a"]
    leader.compact(leader.state.commit)
    stage.start("d")
    return stage, stage.members["d"].state.commit, member.journal.end.index


def test_a_member_applies_what_both_journals_share_before_a_snapshot_that_leaves_it_out():
    stage, commit, end = with_more_to_apply()
    assert commit < end
    member = stage.members["d"]
    applied = []
    install = member.state.machine.install
    member.state.machine.install = lambda parts: (
        applied.append(member.state.commit) or install(parts)
    )
    seen = spied(stage)
    stage.tick("a", times=12, links=["abcd"], sync="d")
    spans = [(each.first, each.last) for each in seen if isinstance(each, Committed)]
    floor = member.journal.floor.index
    assert spans[:2] == [(commit + 1, end), (end + 1, floor)]
    assert None not in seen
    assert applied == [end]
    assert member.journal.floor.index > end
    assert len(level(stage)) == 1


def offer_a_snapshot(stage, change):
    """Have d hear of the snapshot that it is offered, with its head changed."""
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join))
    (admitted,) = mail_of(stage, Admitted, "d")
    head = change(admitted.snapshot)
    stage.deliver(stage.ids["a"], stage.ids["d"], replace(admitted, snapshot=head))


def refuse_a_snapshot(stage, change, match):
    """See that d refuses it."""
    member = stage.members["d"]
    before = member.state.machine.digest(), member.journal.end
    offer_a_snapshot(stage, change)
    with pytest.raises(DecodeError, match=match):
        stage.pass_on("ad", kinds=(SnapshotPart, SnapshotAck))
    assert (member.state.machine.digest(), member.journal.end) == before


def test_a_snapshot_that_leaves_out_what_a_member_lacks_is_refused():
    stage, _, end = with_more_to_apply()

    def leave_out_more(head):
        assert head.after == end
        return replace(head, after=end + 1)

    refuse_a_snapshot(stage, leave_out_more, f"leaves out entries up to {end + 1}")


def test_a_snapshot_that_ends_before_what_is_committed_is_refused():
    stage, commit, _ = with_more_to_apply()

    def end_sooner(head):
        return replace(head, position=replace(head.position, index=commit - 1), after=0)

    refuse_a_snapshot(stage, end_sooner, f"ends at {commit - 1}, and {commit} is committed here")


def test_a_snapshot_may_end_at_what_is_committed():
    stage, commit, _ = with_more_to_apply()

    def end_there(head):
        return replace(head, position=replace(head.position, index=commit), after=0)

    offer_a_snapshot(stage, end_there)
    stage.pass_on("ad", kinds=(SnapshotPart, SnapshotAck))
    assert stage.members["d"]._following.is_joined


def test_a_follower_whose_disk_is_behind_leaves_its_channel_and_joins_again(stage):
    stage.write("a", 1)
    following = stage.members["b"]._following
    assert following.is_joined
    following.tick(is_disk_behind=True)
    assert not following.is_joined
    following.tick(is_disk_behind=True)
    stage.tick("ab", times=4, links=["ab"])
    assert following.is_joined


def test_a_snapshot_acknowledgement_of_another_session_counts_for_nothing():
    stage = with_snapshot()
    stage.deliver(stage.ids["d"], stage.ids["a"], Join(1, 5, (START,)))
    stage.clear()
    for session, count in ((4, 8), (5, 99)):
        stage.deliver(stage.ids["d"], stage.ids["a"], SnapshotAck(1, session, count))
    assert stage.mail == []


def test_an_acknowledgement_of_an_earlier_session_counts_for_nothing(stage):
    stage.write("a")
    stage.sync("a")
    stage.clear()
    late = FromFollower(1, 1, is_whole=True, message=CumulativeAck(1, 2))
    stage.deliver(stage.ids["b"], stage.ids["a"], late)
    assert stage.members["a"].state.commit == 1


def test_a_word_of_another_session_is_answered_as_one_of_that_session(stage):
    b = stage.members["b"]
    session = b._following._session
    for other in (session - 1, session + 1):
        late = FromFollower(1, other, is_whole=True, message=CumulativeAck(1, 1))
        stage.deliver(b.id, stage.ids["a"], late)
        assert mail_of(stage, ToFollower, "b") == [ToFollower(1, other, UnknownConsumer(1))]
        stage.pass_on("ab")
        assert b._following.is_joined, "its own session goes on"
    stage.write("a")
    stage.pass_on("ab", sync="b")
    assert b.journal.durable == 2


def test_what_a_follower_asks_for_again_says_what_is_committed(stage):
    stage.write("a", 2)
    stage.pass_on("ac", sync="ac")
    stage.clear()
    b = stage.members["b"]
    session = b._following._session
    word = FromFollower(1, session, is_whole=True, message=Nack(1, (2, 3)))
    stage.deliver(b.id, stage.ids["a"], word)
    entries = stage.members["a"].journal.payloads(2, 3)
    assert mail_of(stage, ToFollower) == [ToFollower(1, session, Event(1, 2, entries), 3)]
    stage.pass_on("ab", kinds=(ToFollower,))
    assert b.state.commit == 3


def test_a_follower_whose_words_make_no_sense_has_to_join_again(stage):
    b = stage.members["b"]
    session = b._following._session
    for words in (Nack(1, (3, 2)), CumulativeAck(1, 1)):
        word = FromFollower(1, session, is_whole=True, message=words)
        stage.deliver(b.id, stage.ids["a"], word)
    assert mail_of(stage, ToFollower) == [ToFollower(1, session, UnknownConsumer(1), 0)]
    stage.tick("ab", times=6, links=["ab"])
    assert b._following._session == session + 1
    assert b._following.is_joined


def test_a_join_that_comes_twice_is_answered_once(stage):
    stage.crash("b")
    stage.start("b")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive,))
    (join,) = mail_of(stage, Join)
    stage.pass_on("ab", kinds=(Join,))
    stage.clear()
    stage.deliver(stage.ids["b"], stage.ids["a"], join)
    assert mail_of(stage, Admitted) == []


def test_an_acknowledgement_of_a_snapshot_that_nobody_gets_is_ignored(stage):
    session = stage.members["b"]._following._session
    for name, number in (("b", session), ("c", session), ("a", session)):
        stage.deliver(stage.ids[name], stage.ids["a"], SnapshotAck(1, number, 1))
    stage.do("a", "receive", MemberId("stranger", 1), SnapshotAck(1, session, 1))
    assert stage.mail == []


def test_a_member_that_is_not_whole_is_counted_by_nobody(stage):
    stage.write("a")
    stage.sync("a")
    session = stage.members["a"].leading._followers.get(stage.ids["b"]).session
    word = FromFollower(1, session, is_whole=False, message=CumulativeAck(1, 2))
    stage.deliver(stage.ids["b"], stage.ids["a"], word)
    assert stage.members["a"].state.commit == 1
    word = FromFollower(1, session, is_whole=True, message=CumulativeAck(1, 2))
    stage.deliver(stage.ids["b"], stage.ids["a"], word)
    assert stage.members["a"].state.commit == 2


def test_a_regressed_member_is_whole_with_all_that_its_leader_had(stage):
    old = stage.disks["b"].file
    stage.write("a", 3)
    stage.pass_on("abc", sync="abc")
    stage.crash("b")
    stage.disks["b"].file = old
    member = stage.start("b")
    assert not member.ballot.is_whole
    seen = spied(stage)
    stage.tick("a", times=2, links=["ab"])
    assert not member.ballot.is_whole
    stage.tick("a", times=2, links=["ab"], sync="b")
    assert member.ballot.is_whole
    assert WholenessChanged(is_whole=True) in seen
    assert stage.disks["b"].promises.is_whole
    assert stage.disks["b"].mark == member.journal.end


def test_a_regressed_member_is_not_whole_with_a_snapshot_alone():
    stage = Stage("abcd", voters="abc")
    stage.settle_in()
    old = stage.disks["d"].file
    stage.write("a", 3)
    stage.pass_on("abcd", sync="abcd")
    stage.crash("d")
    stage.disks["d"].file = old
    stage.tick("a", times=120, links=["abc"], sync="abc")  # Its session is over.
    leader = stage.members["a"]
    leader.compact(leader.state.commit)
    member = stage.start("d")
    assert not member.ballot.is_whole
    stage.write("a")
    stage.clear()
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ad", kinds=(Keepalive, Join, Admitted, SnapshotPart, SnapshotAck), sync="d")
    assert member.journal.floor.index == member.journal.durable == leader.journal.end_index - 1
    assert not member.ballot.is_whole, "its leader had an entry more"
    stage.pass_on("ad", sync="d")
    assert member.ballot.is_whole
    assert stage.disks["d"].mark == leader.journal.end


def test_entries_that_no_leader_of_the_term_has_end_the_session(stage):
    member = stage.members["b"]
    end = member.journal.end
    for term in (0, 2):
        stage.tick("a", times=6, links=["ab"], sync="b")
        forged = Event(1, member.journal.end.index + 1, (ActionEntry(term, "x"),))
        stage.deliver(stage.ids["a"], stage.ids["b"], ToFollower(1, None, forged, commit=2))
        assert member.journal.end == end
        assert not member._following.is_joined


@pytest.mark.parametrize("session", [-1, 0, 1])
def test_an_answer_beyond_the_journal_begins_no_session(stage, session):
    stage.crash("b")
    member = stage.start("b")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive,))
    stage.clear()
    word = Admitted(1, member._following._session + session, 99, 99, None)
    stage.deliver(stage.ids["a"], stage.ids["b"], word)
    assert member.journal.end == Position(1, 1)


def test_an_answer_to_another_join_begins_no_session_and_one_that_comes_twice_no_second(stage):
    stage.crash("b")
    member = stage.start("b")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive, Join))
    (admitted,) = mail_of(stage, Admitted, "b")
    stage.clear()
    for session in (-1, 1):
        word = replace(admitted, session=admitted.session + session)
        stage.deliver(stage.ids["a"], stage.ids["b"], word)
        assert not member._following.is_joined
    stage.deliver(stage.ids["a"], stage.ids["b"], admitted)
    assert member._following.is_joined
    assert len(said(stage, "b")) == 1
    stage.deliver(stage.ids["a"], stage.ids["b"], admitted)
    assert len(said(stage, "b")) == 1


def test_a_write_that_ends_after_its_session_is_acknowledged_to_nobody(stage):
    stage.write("a")
    stage.pass_on("ab")
    member = stage.members["b"]
    stage.deliver(stage.ids["c"], stage.ids["b"], HigherTerm(5))
    assert not member._following.is_joined
    stage.clear()
    stage.sync("b")
    assert member.journal.durable == 2
    assert stage.mail == []


# -- leaders come and go -------------------------------------------------------------------------


def test_who_leads_is_said_at_once_and_to_a_member_that_comes(stage):
    assert stage.elect("b", "ac")
    assert [message.round for message in mail_of(stage, Keepalive, "c")] == [1]
    stage.pass_on("abc", sync="abc")
    stage.do("b", "welcome", stage.ids["c"])
    ((sender, receiver, word),) = stage.mail
    assert (sender, receiver) == (stage.ids["b"], stage.ids["c"])
    leader = stage.members["b"]
    times, end = leader.state.clock.times, leader.journal.end_index
    assert word == Keepalive(leader.ballot.term, 1, leader.state.commit, end, times)
    stage.clear()
    stage.do("a", "welcome", stage.ids["c"])
    assert stage.mail == [], "it does not lead"


def test_a_round_that_is_asked_for_begins_at_once(stage):
    round_number = stage.members["a"].leading._rounds.round
    stage.do("a", "probe")
    assert [word.round for word in mail_of(stage, Keepalive, "b")] == [round_number + 1]
    stage.clear()
    stage.do("b", "probe")
    assert stage.mail == []


def test_a_hand_over_goes_to_a_level_voter_without_a_timeout(stage):
    stage.write("a")
    stage.sync("a")
    stage.clear()
    assert stage.do("a", "transfer", stage.ids["b"])
    stage.do("a", "propose", "caller", Noop())
    assert stage.told[-1] == Failed("caller", Setback.NOT_READY, stage.ids["a"])
    stage.do("a", "tick", stage.moment("a"))
    assert mail_of(stage, TimeoutNow) == [], "it lacks an entry"
    stage.tick("abc", times=6, links=["abc"], sync="abc")
    assert stage.leader() == "b"


def test_a_hand_over_that_does_not_come_about_is_given_up(stage):
    stage.write("a")
    stage.clear()
    assert stage.do("a", "transfer", stage.ids["b"])
    stage.tick("ac", times=12, links=["ac"], sync="ac")
    stage.do("a", "propose", "caller", Register("w"))
    stage.pass_on("ac", sync="ac")
    assert isinstance(stage.told[-1], Replied)


def test_a_hand_over_waits_for_its_heir_as_long_as_the_shortest_timeout(stage):
    stage.write("a")
    stage.clear()
    assert stage.do("a", "transfer", stage.ids["b"])
    stage.tick("a", times=DEFAULT_TIMING.timeout_ticks_min, links=["ac"], sync="ac")
    assert not stage.is_ready("a")
    stage.tick("a", links=["ac"], sync="ac")
    assert stage.is_ready("a")


@pytest.mark.parametrize("to", ["a", "d", "e"])
def test_a_hand_over_goes_to_another_voter_in_touch_alone(to):
    stage = Stage("abcde", voters="abcd")
    stage.crash("d")
    stage.settle_in()
    assert not stage.do("a", "transfer", stage.ids[to])
    assert not stage.do("b", "transfer", stage.ids["c"])


def test_a_leader_without_a_majority_steps_down(stage):
    stage.tick("a", times=19)
    assert stage.members["a"].role is Role.LEADER
    stage.tick("a", times=12)
    assert stage.members["a"].role is not Role.LEADER


def test_a_leader_that_nobody_echoes_steps_down_after_the_longest_timeout():
    stage = Stage()
    assert stage.elect("a", "bc")
    stage.clear()
    stage.tick("a", times=DEFAULT_TIMING.timeout_ticks_max, sync="a")
    assert stage.members["a"].role is Role.LEADER
    stage.tick("a")
    assert stage.members["a"].role is not Role.LEADER


def test_marks_are_synced_in_the_step_in_which_a_leader_steps_down(stage):
    stage.tick("a", links=["abc"])  # The last one comes when marks are to be synced.
    member, disk = stage.members["a"], stage.disks["a"]
    stage.tick("a", times=20)
    assert member.role is Role.LEADER
    stage.write("a")
    stage.sync("a")
    assert disk.mark == member.journal.end
    assert disk.synced_slots != disk.slots
    stage.tick("a")
    assert member.role is not Role.LEADER
    assert disk.synced_slots == disk.slots


@pytest.mark.parametrize("voters", ["a", "abc"])
def test_a_voter_that_starts_writes_and_syncs_its_mark(voters):
    stage = Stage(voters)
    stage.sync("a")
    stage.crash("a")
    seen = spied(stage)
    end = stage.disks["a"].file.end
    stage.start("a")
    (mark,) = [effect for effect in seen if isinstance(effect, WriteMark)]
    assert mark.mark == end
    terms = [effect.term for effect in seen if isinstance(effect, LeaderChanged)]
    assert terms == [2][: voters == "a"], "no other voter was to be heard"
    assert SyncMarks(mark.number) in seen


@pytest.mark.parametrize("word", ["unreachable", "farewell"])
def test_who_hears_that_its_leader_is_gone_asks_for_votes_soon(stage, word):
    soon = DEFAULT_TIMING.hint_ticks_max + 1
    stage.do("b", word, stage.ids["c"])
    stage.tick("b", times=soon, links=["b"])
    assert stage.members["b"].role is Role.FOLLOWER
    stage.do("b", word, stage.ids["a"])
    stage.tick("b", times=soon, links=["b"])
    assert stage.members["b"].role is Role.ASKING


def test_a_late_word_of_an_earlier_lead_is_not_followed(stage):
    for name in "ba":
        others = "".join(set("abc") - {name})
        assert stage.elect(name, others)
        stage.tick(name, times=2, links=["abc"], sync="abc")
    a, b = stage.members["a"], stage.members["b"]
    assert (a.ballot.term, b.leader) == (3, a.id)
    late = Keepalive(1, 1 << 40, 0, 99, a.state.clock.times)
    stage.deliver(a.id, b.id, late)
    assert said(stage, "b") == [HigherTerm(3)]
    assert b.missing_count == 0


def test_a_leader_is_told_of_when_it_is_first_heard(stage):
    seen = spied(stage)
    assert stage.elect("b", "a")
    stage.pass_on("bc", kinds=(Keepalive,))
    changed = [effect for effect in seen if isinstance(effect, LeaderChanged)]
    assert changed == [
        LeaderChanged(2, None),
        LeaderChanged(2, None),
        LeaderChanged(2, stage.ids["b"]),
        LeaderChanged(2, stage.ids["b"]),
    ], "by b and a, by b, by c"


def test_busy_reads_wear_out_no_lead(stage):
    for _ in range(200):
        stage.do("a", "read", "caller")
        stage.clear()
    stage.tick("a")
    assert stage.members["a"].role is Role.LEADER


def test_a_leader_whose_disk_is_stuck_hands_over(stage):
    stage.write("a")
    stage.pass_on("abc", sync="bc")
    stage.tick("abc", times=30, links=["abc"], sync="bc")
    assert stage.leader() in ("b", "c")


def test_a_disk_is_stuck_after_the_shortest_timeout(stage):
    for _ in range(2):
        stage.write("a")
        stage.pass_on("abc", sync="bc")
        stage.tick("a", times=DEFAULT_TIMING.timeout_ticks_min + 1, links=["abc"], sync="bc")
        assert stage.leader() == "a"
        stage.sync("a")
    stage.write("a")
    stage.tick("a", times=DEFAULT_TIMING.timeout_ticks_min + 2, links=["abc"], sync="bc")
    assert stage.members["a"].role is not Role.LEADER


def test_a_leader_that_writes_all_the_time_keeps_the_lead(stage):
    for _ in range(60):
        stage.write("a")
        stage.tick("abc", links=["abc"], sync="bc")
        stage.sync("a")
        stage.pass_on("abc", sync="abc")
    assert stage.leader() == "a"


def test_a_leader_hands_over_to_a_voter_that_is_there_before_a_longer_journal(stage):
    stage.write("a")
    stage.pass_on("ac", sync="ac")
    stage.crash("c")
    stage.tick("ab", times=25, links=["ab"], sync="a")
    status = {each.member.name: each.match for each in stage.members["a"].members()}
    assert status["c"] > status["b"]
    stage.write("a")
    for _ in range(40):
        if stage.members["a"].role is Role.LEADER:
            stage.tick("ab", links=["ab"])
    assert stage.leader() == "b"


def test_of_those_that_are_there_the_one_with_the_longest_journal_takes_over(stage):
    stage.write("a")
    stage.pass_on("ac", sync="ac")
    (word,) = stage.members["a"].leading.electorate.pass_on()
    assert word.to == stage.ids["c"]


def test_a_leader_without_other_voters_has_nobody_take_over():
    stage = Stage("ab", voters="a")
    stage.settle_in()
    assert stage.members["a"].leading.electorate.pass_on() == []


def test_a_pause_below_the_shortest_timeout_deposes_nobody(stage):
    stage.tick("bc", times=9, links=["bc"])
    assert {stage.members[name].role for name in "bc"} == {Role.FOLLOWER}
    stage.tick("a", links=["abc"])
    assert stage.leader() == "a"


def test_a_forced_lead_needs_no_majority_and_is_far_ahead(stage):
    stage.crash("a", "b")
    stage.do("c", "force")
    stage.sync("c")
    member = stage.members["c"]
    assert 1 << 32 <= member.ballot.term < 3 << 31
    assert member.journal.voters.current == (stage.ids["c"],)
    stage.do("c", "propose", "caller", Register("w"))
    stage.sync("c")
    assert isinstance(stage.told[-1], Replied)


def test_a_leader_that_is_forced_leads_a_term_far_ahead_too(stage):
    stage.crash("b", "c")
    stage.tick("a", times=electorate.HEALTHY_TICKS + 1)
    stage.do("a", "propose", "caller", Noop())
    stage.do("a", "force")
    stage.sync("a")
    member = stage.members["a"]
    assert member.role is Role.LEADER
    assert 1 << 32 <= member.ballot.term < 3 << 31
    assert member.journal.voters.current == (stage.ids["a"],)
    assert stage.told == [Failed("caller", Setback.UNKNOWN, None)]
    assert stage.is_ready("a")


@pytest.mark.parametrize("there", ["abc", "ab", "ac"])
def test_a_leader_with_a_majority_behind_it_has_nothing_to_force(stage, there):
    stage.crash(*set("abc") - set(there))
    stage.tick(there, times=electorate.HEALTHY_TICKS + 1, links=[there], sync=there)
    member = stage.members["a"]
    term, voters = member.ballot.term, member.journal.voters.current
    stage.do("a", "propose", "caller", Noop())
    stage.do("a", "force")
    stage.pass_on(there, sync=there)
    assert (member.ballot.term, member.journal.voters.current) == (term, voters)
    assert stage.told == [Replied("caller", None, is_in_entry=True)]


def test_a_leader_whose_voters_are_in_touch_and_not_whole_is_forced(stage):
    for name in "bc":
        stage.members["a"].leading._followers.get(stage.ids[name]).is_whole = False
    stage.do("a", "force")
    assert stage.members["a"].journal.voters.current == (stage.ids["a"],)


def test_a_leader_of_two_that_follows_none_is_forced():
    stage = Stage("ab")
    stage.settle_in()
    stage.crash("b")
    stage.tick("a", times=electorate.HEALTHY_TICKS + 1)
    stage.do("a", "force")
    assert stage.members["a"].journal.voters.current == (stage.ids["a"],)


def test_a_leader_that_is_no_voter_of_its_own_is_forced():
    stage = Stage("abcd")
    stage.settle_in()
    assert stage.change("a", tuple(stage.ids[name] for name in "bcd")) is None
    stage.do("a", "force")
    assert stage.members["a"].journal.voters.current == (stage.ids["a"],)


def test_a_regressed_member_that_is_forced_is_whole_and_leads_again_after_a_restart(stage):
    old = stage.disks["b"].file
    stage.write("a", 3)
    stage.pass_on("abc", sync="abc")
    stage.crash("a", "b", "c")
    stage.disks["b"].file = old
    assert not stage.start("b").ballot.is_whole
    seen = []  # What a majority had is lost: that was said.
    stage.witness.see = lambda who, effect: seen.append(effect)
    stage.do("b", "force")
    assert LeaderChanged(stage.members["b"].ballot.term, stage.ids["b"]) in seen
    assert stage.disks["b"].mark == old.end
    stage.sync("b")
    stage.crash("b")
    assert stage.start("b").ballot.is_whole
    stage.tick("b", times=30, sync="b")
    assert stage.is_ready("b")


def test_what_is_committed_is_not_cut_by_a_forced_leader_that_lacks_it(stage):
    stage.write("a", 3)
    stage.pass_on("ab", sync="ab")
    stage.crash("a")
    stage.clear()
    seen = []
    stage.witness.see = lambda who, effect: seen.append(effect)
    stage.do("c", "force")
    stage.sync("c")
    stage.tick("c", times=3, links=["bc"], sync="bc")
    (conflict,) = [each for each in seen if isinstance(each, HistoryConflict)]
    assert (conflict.leader, conflict.agreed, conflict.kept) == (stage.ids["c"], 1, 4)
    assert stage.members["b"].journal.end == Position(1, 4)
    stage.tick("bc", times=following.CONFLICT_TICKS - 1, links=["bc"], sync="bc")
    assert seen.count(conflict) == 1
    stage.tick("bc", links=["bc"], sync="bc")
    assert seen.count(conflict) == 2


def test_two_that_are_forced_out_of_reach_of_each_other_have_terms_of_their_own(stage):
    stage.crash("a")
    stage.witness.see = lambda who, effect: None  # what a majority had is lost: that was said
    for name in "bc":
        stage.do(name, "force")
        stage.sync(name)
    terms = {stage.members[name].ballot.term for name in "bc"}
    assert len(terms) == 2
    stage.do("b", "force")
    assert all(is_forced(stage.members["b"].ballot.term, term) for term in terms)


def test_who_hears_of_a_forced_lead_and_has_nothing_of_it_does_not_go_on_in_its_terms(stage):
    stage.do("c", "force")
    stage.sync("c")
    stage.clear()
    term = stage.members["c"].ballot.term
    for name in "ab":
        stage.deliver(stage.ids["c"], stage.ids[name], HigherTerm(term))
    stage.tick("ab", times=200, links=["ab"], sync="ab")
    assert {stage.members[name].ballot.term for name in "ab"} == {term}
    assert stage.leader() == "c"
    stage.tick("abc", times=10, links=["abc"], sync="abc")
    leader = stage.ids["c"]
    assert {stage.members[name].leader for name in "abc"} == {leader}
    assert {stage.members[name].journal.voters.current for name in "abc"} == {(leader,)}


def test_who_has_something_of_a_forced_lead_goes_on_after_it(stage):
    stage.do("c", "force")
    stage.tick("abc", times=10, links=["abc"], sync="abc")
    for names in ("ca", "cab"):
        for _ in range(2):  # The second one has a majority's echo.
            stage.do("c", "change", tuple(stage.ids[name] for name in names))
            stage.tick("abc", times=10, links=["abc"], sync="abc")
    assert len(stage.members["a"].journal.voters.current) == 3, "they are voters again"
    term = stage.members["c"].ballot.term
    stage.crash("c")
    stage.tick("ab", times=100, links=["ab"], sync="ab")
    assert stage.leader() in ("a", "b")
    assert stage.members["a"].ballot.term > term


# -- a lead that is ceded --------------------------------------------------------------------------


@pytest.fixture
def ceding():
    """Give a voter that is lost, with a learner that has what it had, and another member."""
    stage = Stage("abc", voters="a")
    stage.settle_in()
    stage.write("a", 3)
    stage.sync("a")
    for sender, to, message in list(stage.mail):
        if to == stage.ids["b"] and isinstance(message, ToFollower):
            stage.deliver(sender, to, replace(message, commit=0))  # as with another voter
    stage.sync("b")
    stage.crash("a")
    stage.clear()
    return stage


def test_a_member_that_cedes_leads_until_the_other_one_has_all_of_it(ceding):
    stage = ceding
    had = stage.members["b"].journal.end
    stage.do("b", "cede", stage.ids["c"])
    stage.sync("b")
    assert stage.leader() == "b"
    assert stage.members["b"].state.commit <= had.index, "its own word counts for nothing"
    term = stage.members["b"].ballot.term
    stage.do("b", "cede", stage.ids["c"])
    assert stage.members["b"].ballot.term == term
    stage.tick("b", times=3, links=["bc"], sync="bc")
    stage.pass_on("bc", sync="bc")
    assert stage.is_ready("c")
    member = stage.members["c"]
    assert member.ballot.term == term + 1, "it ceded once"
    assert member.journal.voters.current == (stage.ids["c"],)
    assert member.state.commit >= had.index
    assert stage.members["b"].role is Role.LEARNER


def test_a_member_that_ceded_to_one_that_is_lost_cedes_to_the_next_one(ceding):
    stage = ceding
    stage.do("b", "cede", MemberId("gone", 7))
    stage.tick("b", times=30, sync="b")
    assert stage.leader() is None
    stage.do("b", "cede", stage.ids["c"])
    stage.sync("b")
    stage.tick("b", times=3, links=["bc"], sync="bc")
    stage.pass_on("bc", sync="bc")
    assert stage.is_ready("c")


def test_a_member_that_had_to_stop_before_the_other_one_had_all_cedes_anew(ceding):
    stage = ceding
    stage.do("b", "cede", stage.ids["c"])
    stage.tick("b", times=30, sync="b")
    assert stage.leader() is None
    term = stage.members["b"].ballot.term
    stage.do("b", "cede", stage.ids["c"])
    assert is_forced(stage.members["b"].ballot.term, term)
    assert stage.leader() == "b"


def test_a_member_that_is_not_whole_cedes_nothing(ceding):
    stage = ceding
    stage.do("b", "concede")
    stage.do("b", "cede", stage.ids["c"])
    assert stage.leader() is None
    assert stage.members["b"].journal.voters.current == (stage.ids["a"],)


def test_a_learner_keeps_what_a_voter_alone_may_have_acknowledged(ceding):
    stage = ceding
    behind = stage.members["c"].journal.end
    assert behind < stage.members["b"].journal.end
    assert stage.members["b"].state.commit < stage.members["b"].journal.end.index
    seen = []
    stage.witness.see = lambda who, effect: seen.append(effect)
    had = stage.members["b"].journal.end
    stage.do("c", "cede", stage.ids["c"])
    stage.sync("c")
    stage.tick("c", times=3, links=["bc"], sync="bc")
    (conflict,) = [each for each in seen if isinstance(each, HistoryConflict)]
    assert conflict.kept == had.index
    assert stage.members["b"].journal.end == had


# -- voters --------------------------------------------------------------------------------------


@pytest.fixture
def four():
    """Give four voters that follow a."""
    stage = Stage("abcd")
    stage.settle_in()
    return stage


def test_a_change_waits_for_a_round_of_its_own(four):
    """Two voters are lost, and their last echoes are a moment old."""
    a, b, c, d = (four.ids[name] for name in "abcd")
    four.crash("b", "c")
    assert four.do("a", "change", (a, b, c)) is ChangeRefusal.UNCONFIRMED
    four.tick("ad", times=electorate.HEALTHY_TICKS, links=["ad"], sync="ad")
    assert four.do("a", "change", (a, b, c)) is ChangeRefusal.UNCONFIRMED
    four.tick("ad", links=["ad"], sync="ad")
    assert four.do("a", "change", (a, b, c)) is ChangeRefusal.TOO_FEW_HEALTHY
    assert four.do("a", "change", (a, b, d)) is ChangeRefusal.UNCONFIRMED
    assert four.members["a"].journal.voters.current == (a, b, c, d)


def test_the_round_of_a_change_counts_for_a_while(four, monkeypatch):
    a, b, _, d = (four.ids[name] for name in "abcd")
    assert four.do("a", "change", (a, b, d)) is ChangeRefusal.UNCONFIRMED
    four.tick("abcd", times=electorate.CHANGE_TICKS + 1, links=["abcd"], sync="abcd")
    assert four.do("a", "change", (a, b, d)) is ChangeRefusal.UNCONFIRMED, "it is of long ago"
    four.tick("abcd", links=["abcd"], sync="abcd")
    assert four.do("a", "change", (a, b, d)) is None


def test_the_round_of_a_change_counts_for_a_second(four):
    a, b, _, d = (four.ids[name] for name in "abcd")
    assert four.do("a", "change", (a, b, d)) is ChangeRefusal.UNCONFIRMED
    four.tick("abcd", times=electorate.CHANGE_TICKS, links=["abcd"], sync="abcd")
    assert four.do("a", "change", (a, b, d)) is None


@pytest.fixture
def learning():
    """Give three voters and a learner that follow a."""
    stage = Stage("abcd", voters="abc")
    stage.settle_in()
    return stage


def test_a_new_voter_has_to_be_in_touch(learning):
    everyone = tuple(learning.ids.values())
    learning.crash("d")
    learning.tick("abc", times=electorate.HEALTHY_TICKS + 1, links=["abc"], sync="abc")
    assert learning.change("a", everyone) is ChangeRefusal.SILENT
    assert learning.members["a"].journal.voters.current == everyone[:3]


def test_a_new_voter_has_to_echo_the_round_of_the_change(learning):
    """Its last echo is a moment old."""
    everyone = tuple(learning.ids.values())
    learning.crash("d")
    assert learning.change("a", everyone) is ChangeRefusal.UNCONFIRMED
    learning.tick("abc", times=2, links=["abc"], sync="abc")
    assert learning.change("a", everyone) is ChangeRefusal.UNCONFIRMED
    learning.start("d")
    learning.tick("abcd", times=3, links=["abcd"], sync="abcd")
    assert learning.change("a", everyone) is None


def test_a_new_voter_that_is_in_touch_and_behind_is_not_level(learning):
    learning.write("a")
    learning.pass_on("abc", sync="abc")
    learning.tick("abcd", times=2, links=["abcd"], sync="abc")
    assert learning.change("a", tuple(learning.ids.values())) is ChangeRefusal.NOT_LEVEL


def test_a_change_waits_for_one_that_waits_for_its_round(four):
    a, b, c, d = (four.ids[name] for name in "abcd")
    assert four.do("a", "change", (a, b, c)) is ChangeRefusal.UNCONFIRMED
    assert four.do("a", "change", (a, b, d)) is ChangeRefusal.UNDER_WAY
    four.tick("abcd", times=electorate.CHANGE_TICKS, links=["abcd"], sync="abcd")
    assert four.do("a", "change", (a, b, d)) is ChangeRefusal.UNDER_WAY
    assert four.do("a", "change", (a, b, c, d)) is ChangeRefusal.NO_CHANGE, "it is never possible"
    assert four.do("a", "change", (a, b, c)) is None
    four.pass_on("abcd", sync="abcd")
    assert four.members["a"].journal.voters.current == (a, b, c)


def test_a_change_waits_for_no_other_that_is_not_asked_for_any_more(four):
    a, b, c, d = (four.ids[name] for name in "abcd")
    assert four.do("a", "change", (a, b, c)) is ChangeRefusal.UNCONFIRMED
    four.tick("abcd", times=electorate.CHANGE_TICKS + 1, links=["abcd"], sync="abcd")
    assert four.change("a", (a, b, d)) is None


def test_a_leader_adds_none_by_itself_while_another_change_waits(declared):
    declared.members["a"].leading.electorate.put_alone(declared.ids["a"])
    declared.do("a", "probe")
    declared.pass_on("abcd", sync="abcd")
    a, c = declared.ids["a"], declared.ids["c"]
    assert declared.do("a", "change", (a, c)) is ChangeRefusal.UNCONFIRMED
    declared.tick("abcd", times=2, links=["abcd"], sync="abcd")
    assert declared.members["a"].journal.voters.current == (a,)
    assert declared.do("a", "change", (a, c)) is None


def test_a_change_waits_for_the_one_before(four):
    a, b, c, d = (four.ids[name] for name in "abcd")
    assert four.change("a", (a, b, c)) is None
    assert four.change("a", (a, b, c, d)) is ChangeRefusal.UNDER_WAY
    four.pass_on("abcd", sync="abcd")
    assert four.change("a", (a, b, c, d)) is None
    assert four.change("b", (a, b, c)) is ChangeRefusal.NOT_READY


def test_a_leader_that_removed_itself_hands_over_once_that_is_committed(four):
    assert four.change("a", tuple(four.ids[name] for name in "bcd")) is None
    assert four.members["a"].role is Role.LEADER
    four.tick("abcd", times=6, links=["abcd"], sync="abcd")
    assert four.leader() in ("b", "c", "d")
    assert four.members["a"].role is Role.LEARNER


def test_a_removed_member_that_is_ahead_asks_until_the_voters_have_answered(four):
    a, b, c, d = (four.ids[name] for name in "abcd")
    assert four.change("a", (b, c, d)) is None
    four.sync("a")
    four.deliver(b, a, HigherTerm(2))
    member = four.members["a"]
    assert member.role is Role.LEARNER
    four.deliver(b, a, PreVote(3, Position(1, 1)))
    assert member.role is Role.ASKING
    four.tick("a")
    for voter in (b, c):
        four.deliver(voter, a, PreVoteGranted(3))
    assert member.role is Role.CANDIDATE


def test_a_removed_leader_tells_what_was_committed_as_it_steps_down(four):
    seen = spied(four)
    assert four.change("a", tuple(four.ids[name] for name in "bcd")) is None
    four.do("a", "propose", "caller", Noop())
    four.pass_on("abcd", kinds=(ToFollower,))
    four.sync("b", "c")
    seen.clear()
    for sender, to, message in list(four.mail):
        if isinstance(message, FromFollower) and message.message.sequence == 3:
            four.deliver(sender, to, message)
    assert four.members["a"].role is Role.LEARNER
    assert Committed(2, 3) in seen
    assert four.told == [Replied("caller", None, is_in_entry=True)]


def test_the_own_disk_of_a_removed_leader_counts_for_nothing(four):
    assert four.change("a", tuple(four.ids[name] for name in "bcd")) is None
    four.pass_on("ab", sync="ab")
    assert four.members["a"].state.commit == 1


def test_of_three_voters_one_that_is_lost_may_be_removed(stage):
    a, b = stage.ids["a"], stage.ids["b"]
    assert stage.change("a", (a, b)) is ChangeRefusal.LAST_OF_THREE
    stage.crash("c")
    stage.tick("ab", times=30, links=["ab"], sync="ab")
    assert stage.change("a", (a, b)) is None


def test_another_life_of_a_voter_replaces_the_lost_one_by_itself():
    stage = Stage(wanted=Wanted(names=frozenset("abc")))
    stage.settle_in()
    stage.crash("c")
    life = MemberId("c", 1)
    stage.ids["c"], stage.disks["c"] = life, Disk(life, empty_file())
    stage.start("c")
    assert stage.members["c"].role is Role.LEARNER
    stage.tick("abc", times=60, links=["abc"], sync="abc")
    assert stage.members["a"].journal.voters.current == (
        stage.ids["a"],
        stage.ids["b"],
        MemberId("c", 0),
    )
    stage.tick("abc", times=60, links=["abc"], sync="abc")
    assert set(stage.members["a"].journal.voters.current) == set(stage.ids.values())
    changes = [
        entry.voters
        for entry in stage.members["a"].journal.payloads(1, stage.members["a"].journal.end.index)
        if isinstance(entry, VotersEntry)
    ]
    assert [len(voters) for voters in changes] == [2, 3]
    assert stage.members["c"].role is Role.FOLLOWER


@pytest.fixture
def declared():
    """Give four declared voters that were in touch with a for long."""
    stage = Stage("abcd", wanted=Wanted(names=frozenset("abcd")))
    stage.settle_in()
    stage.tick("abcd", times=membership.IN_TOUCH_TICKS + 1, links=["abcd"], sync="abcd")
    return stage


def remove(stage, name):
    """Take a vote at leader a, as a person does; gives the voters that stay."""
    voters = stage.members["a"].journal.voters.current
    others = tuple(each for each in voters if each.name != name)
    assert stage.change("a", others) is None
    stage.tick("abcd", times=2 * membership.IN_TOUCH_TICKS, links=["abcd"], sync="abcd")
    return stage.members["a"].journal.voters.current


def test_a_declared_voter_whose_vote_a_person_took_is_not_added_while_it_is_in_touch(declared):
    everyone = declared.members["a"].journal.voters.current
    assert remove(declared, "b") == tuple(each for each in everyone if each.name != "b")
    declared.tick("abcd", times=followers.BREAK_TICKS - 2, links=["acd"], sync="acd")
    declared.tick("abcd", times=2 * membership.IN_TOUCH_TICKS, links=["abcd"], sync="abcd")
    assert declared.ids["b"] not in declared.members["a"].journal.voters.current


def test_a_voter_that_is_removed_at_the_first_asking_is_not_added_either():
    """The one that stays has no one to ask."""
    stage = Stage("ab", wanted=Wanted(names=frozenset("ab")))
    stage.settle_in()
    stage.tick("ab", times=membership.IN_TOUCH_TICKS + 1, links=["ab"], sync="ab")
    assert stage.do("a", "change", (stage.ids["a"],)) is None
    stage.tick("ab", times=9, links=["ab"], sync="ab")
    assert stage.members["a"].journal.voters.current == (stage.ids["a"],)


def test_a_declared_voter_whose_vote_a_person_took_has_none_as_it_comes_back(declared):
    remove(declared, "b")
    declared.tick("abcd", times=followers.BREAK_TICKS + 2, links=["acd"], sync="acd")
    declared.tick("abcd", times=2 * membership.IN_TOUCH_TICKS, links=["abcd"], sync="abcd")
    assert declared.ids["b"] not in declared.members["a"].journal.voters.current
    status = {each.member.name: each for each in declared.members["a"].members()}
    assert [name for name in "abcd" if status[name].is_dismissed] == ["b"]


def test_a_removed_voter_that_does_not_know_it_and_hears_no_leader_disturbs_none(declared):
    declared.crash("b")
    remove(declared, "b")
    declared.start("b")
    declared.tick("abcd", times=200, links=["acd", "bc"], sync="abcd")
    assert declared.ids["b"] in declared.members["b"].journal.voters.current
    assert [declared.members[name].ballot.term for name in "abcd"] == [1, 1, 1, 1]
    assert declared.leader() == "a"


def test_what_a_person_took_and_gave_holds_over_a_restart_of_all(declared):
    remove(declared, "b")
    voters = declared.members["a"].journal.voters
    assert (len(voters.current), voters.dismissed) == (3, ("b",))
    assert declared.change("a", (*voters.current, declared.ids["b"])) is None
    declared.tick("abcd", times=3, links=["abcd"], sync="abcd")
    declared.crash(*"abcd")
    for name in "abcd":
        declared.start(name)
    voters = declared.members["c"].journal.voters
    assert (len(voters.current), voters.dismissed) == (4, ())


def test_who_leads_alone_by_force_votes_and_leaves_the_others_dismissed(declared):
    remove(declared, "b")
    declared.members["a"].leading.electorate.dismiss("x")
    declared.tick("abcd", times=3, links=["abcd"], sync="abcd")
    declared.crash(*"acd")
    declared.do("b", "force")
    voters = declared.members["b"].journal.voters
    assert (voters.current, voters.dismissed) == ((declared.ids["b"],), ("x",))


def test_a_leader_that_replaces_an_earlier_life_dismisses_no_name(declared):
    declared.crash("b")
    declared.ids["b"] = life = MemberId("b", 1)
    declared.disks["b"] = Disk(life, empty_file())
    declared.start("b")
    declared.tick("abcd", times=2 * membership.IN_TOUCH_TICKS, links=["abcd"], sync="abcd")
    voters = declared.members["a"].journal.voters
    assert life in voters.current
    assert voters.dismissed == ()


def test_no_name_is_dismissed_while_a_change_is_not_committed(declared):
    electors = declared.members["a"].leading.electorate
    assert electors.dismiss("x") is None
    assert electors.dismiss("y") is ChangeRefusal.UNDER_WAY
    assert declared.do("b", "dismiss", "y") is ChangeRefusal.NOT_READY
    declared.do("a", "settle")
    declared.tick("abcd", times=3, links=["abcd"], sync="abcd")
    assert declared.members["d"].journal.voters.dismissed == ("x",)


def test_members_tell_how_far_each_is(stage):
    stage.write("a", 2)
    stage.pass_on("ab", sync="ab")
    status = {each.member.name: each for each in stage.members["a"].members()}
    assert [(name, status[name].match, status[name].is_voter) for name in "abc"] == [
        ("a", 3, True),
        ("b", 3, True),
        ("c", 1, True),
    ]
    assert (status["a"].is_whole, status["a"].silent_ticks) == (True, 0)
    assert stage.members["b"].members() == []


# -- the journal's beginning, and time -----------------------------------------------------------


def test_followers_in_session_keep_the_journal_for_what_they_lack(stage):
    leader = stage.members["a"]
    stage.write("a", 4)
    stage.pass_on("ab", sync="ab")
    assert leader.state.commit == 5
    assert leader.compact(5) == 1
    stage.tick("ac", times=6, links=["ac"], sync="c")
    assert leader.compact(5) == 5


def test_nothing_that_is_not_durable_and_committed_is_compacted(stage):
    leader = stage.members["a"]
    stage.write("a", 2)
    stage.pass_on("abc", sync="bc")
    assert leader.state.commit == 3
    assert leader.compact(3) == 1
    stage.sync("a")
    assert leader.compact(2) == 2, "as far as it was asked for"
    assert leader.compact(1) == 2
    stage.write("a")
    stage.pass_on("ab", kinds=(ToFollower,), sync="b")
    follower = stage.members["b"]
    assert follower.journal.durable == 4
    assert follower.compact(4) == follower.state.commit == 3


def test_without_deadlines_the_clock_of_an_idle_group_is_not_journalled(stage):
    stage.members["a"].state.machine.is_timed = False
    stage.tick("a", times=220, links=["abc"], sync="abc")
    assert stage.members["a"].journal.end == Position(1, 1)


def test_a_machine_learns_when_its_member_begins_to_lead(stage):
    a, b = stage.members["a"], stage.members["b"]
    assert a.state.machine.led_at is not None
    assert b.state.machine.led_at is None
    assert a.state.machine.led_term == 1
    stage.tick("a", times=5, links=["abc"])
    assert stage.elect("b", "c")
    assert b.state.machine.led_at.elapsed_ns >= 5 * TICK_NS


def test_the_groups_clock_is_journalled(stage):
    stage.tick("a", times=120, links=["abc"], sync="abc")
    journal = stage.members["a"].journal
    times = [each for each in journal.payloads(1, journal.end.index) if isinstance(each, TimeEntry)]
    assert len(times) == 1
    stage.crash(*"abc")
    for name in "abc":
        stage.now[name] = 0
        stage.start(name)
    stage.settle_in()
    assert stage.members["a"].state.clock.times.elapsed_ns >= times[0].times.elapsed_ns


def actions(stage, name="a"):
    journal = stage.members[name].journal
    entries = journal.payloads(journal.first_sequence, journal.end_index)
    return [entry.body for entry in entries if isinstance(entry, ActionEntry)]


def test_what_time_brings_about_is_an_entry_at_its_time_and_no_sooner(stage):
    leader = stage.members["a"]
    leader.state.machine.due_ns = leader.state.clock.times.elapsed_ns + 3 * TICK_NS
    stage.tick("a", times=2, links=["abc"])
    assert actions(stage) == []
    stage.tick("a", links=["abc"], sync="abc")
    assert actions(stage) == actions(stage, "b") == [Noop()]
    assert leader.state.commit == leader.journal.end_index


def test_what_is_due_between_two_ticks_is_done_when_its_owner_says_so(stage):
    leader = stage.members["a"]
    leader.state.machine.due_ns = leader.state.clock.times.elapsed_ns + 1
    stage.do("a", "do_due")
    assert actions(stage) == []
    stage.do("b", "do_due")
    assert stage.mail == [], "it does not lead"
    stage.now["a"] += 1
    leader.run_to(stage.moment("a"))
    stage.do("a", "do_due")
    stage.pass_on("abc")
    assert actions(stage) == actions(stage, "b") == [Noop()]


def test_nothing_is_done_that_is_due_before_a_leader_is_ready():
    stage = Stage()
    assert stage.elect("a", "bc")
    leader = stage.members["a"]
    leader.state.machine.due_ns = 0
    stage.do("a", "do_due")
    stage.tick("a")
    assert actions(stage) == []
    stage.tick("a", times=2, links=["abc"], sync="abc")
    assert actions(stage) == [Noop()]


def times_journalled(stage):
    journal = stage.members["a"].journal
    entries = enumerate(journal.payloads(1, journal.end_index), 1)
    return [index for index, entry in entries if isinstance(entry, TimeEntry)]


def test_the_clock_is_journalled_after_its_ticks_and_not_while_other_entries_bear_it():
    stage = Stage()
    assert stage.elect("a", "bc")
    stage.pass_on("abc", sync="abc")
    assert stage.is_ready("a")
    ticks = leading.JOURNALLED_CLOCK_TICKS
    stage.tick("a", times=ticks - 1, links=["abc"], sync="abc")
    assert times_journalled(stage) == []
    stage.tick("a", links=["abc"], sync="abc")
    assert times_journalled(stage) == [2]
    stage.tick("a", times=ticks - 1, links=["abc"], sync="abc")
    assert times_journalled(stage) == [2]
    leader = stage.members["a"]
    leader.state.machine.due_ns = leader.state.clock.times.elapsed_ns
    stage.do("a", "do_due")
    stage.tick("a", times=ticks - 1, links=["abc"], sync="abc")
    assert times_journalled(stage) == [2]
    stage.tick("a", links=["abc"], sync="abc")
    assert times_journalled(stage) == [2, 4]


def test_words_of_another_term_or_of_another_than_the_leader_are_ignored(stage):
    stage.write("a")
    (word,) = mail_of(stage, ToFollower, "b")
    stage.clear()
    stage.deliver(stage.ids["c"], stage.ids["b"], word)
    stage.deliver(stage.ids["a"], stage.ids["b"], ToFollower(0, None, word.message))
    assert stage.members["b"].journal.end.index == 1
    for message in (Echo(0, 1), Join(2, 1 << 40, (START,)), ReadIndex(0, 1)):
        stage.deliver(stage.ids["b"], stage.ids["a"], message)
    assert stage.mail == []


def test_a_member_shows_itself_in_one_line(stage):
    assert repr(stage.members["a"]) == (
        "<Member a.0 LEADER term=1 leader=a.0 commit=1 <Journal floor=0:0 end=1:1 durable=1>>"
    )


# -- members that are gone -------------------------------------------------------------------------


@pytest.fixture
def followed():
    """Give a single voter that a learner follows."""
    stage = Stage("ab", voters="a")
    stage.settle_in()
    stage.write("a")
    stage.pass_on("ab", sync="ab")
    return stage


def known(stage):
    return [status.member.name for status in stage.members["a"].members()]


def test_a_learner_that_says_farewell_is_forgotten_at_once(followed):
    stage = followed
    assert known(stage) == ["a", "b"]
    stage.do("a", "farewell", stage.ids["b"])
    assert known(stage) == ["a"]
    stage.write("a")
    stage.sync("a")
    assert stage.members["a"].leading.feeding.wanted_index == stage.members["a"].journal.end.index


def test_a_voter_that_says_farewell_keeps_its_place(stage):
    stage.do("a", "farewell", stage.ids["c"])
    assert known(stage) == ["a", "b", "c"]


def test_a_learner_that_was_forgotten_and_is_there_joins_again(followed):
    stage = followed
    stage.do("a", "farewell", stage.ids["b"])
    stage.write("a", 3)
    stage.sync("a")
    stage.clear()
    stage.tick("ab", times=30, links=["ab"], sync="ab")
    assert known(stage) == ["a", "b"]
    assert stage.members["b"].journal.end == stage.members["a"].journal.end


def test_dead_lives_of_learners_are_forgotten_within_a_term(followed):
    stage = followed
    member = stage.members["a"]
    for life in range(1, 300):
        stage.do("a", "receive", MemberId("b", life), Join(member.ballot.term, 1, (START,)))
        stage.do("a", "receive", MemberId("b", life), Echo(member.ballot.term, 1))
        stage.tick("a", times=2, sync="a")
    assert len(known(stage)) < 60
    stage.tick("a", times=101, sync="a")
    assert known(stage) == ["a"]


@pytest.mark.parametrize("voters", ["ac", "abc"], ids=["a learner", "a voter"])
def test_a_member_that_dies_during_its_snapshot_does_not_keep_it(voters):
    stage = Stage("abc", voters=voters)
    stage.settle_in()
    stage.write("a", 30)
    stage.pass_on("abc", sync="abc")
    stage.tick("ac", times=3, links=["ac"], sync="ac")
    leading_ = stage.members["a"].leading
    stage.members["a"].compact(stage.members["a"].state.commit)
    term = stage.members["a"].ballot.term
    stage.do("a", "receive", stage.ids["b"], Join(term, 1 << 40, (START,)))
    assert leading_.feeding.sendings()
    stage.crash("b")
    stage.tick("ac", times=80, links=["ac"], sync="ac")
    assert leading_.feeding.sendings(), "it may only be slow"
    stage.tick("ac", times=22, links=["ac"], sync="ac")
    assert not leading_.feeding.sendings()


@pytest.mark.parametrize("count", [0, 3])
def test_a_follower_that_joins_learns_at_once_what_of_its_journal_is_committed(count):
    stage = Stage("ab", voters="a")
    stage.settle_in()
    stage.write("a", count)
    stage.pass_on("ab", sync="ab")
    stage.crash("b")
    stage.start("b")
    stage.tick("a", links=["ab"], sync="ab")
    assert stage.members["b"].state.commit == stage.members["a"].state.commit
