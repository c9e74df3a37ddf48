"""Schedules by hand: each goes wrong with one rule switched off, and holds with it.

Most are the textbook's; random worlds draw some of them in one run of many thousands.
"""

from __future__ import annotations

from channels import CumulativeAck, Nack
from stores.group.effects import Failed
from stores.group.membership import Wanted
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    Join,
    Keepalive,
    ToFollower,
    Vote,
    VoteGranted,
)
from stores.group.positions import MemberId, Position
from stores.group.quorum import ChangeRefusal
from tests.stores.group.checks import Violation
from tests.stores.group.disk import Disk, empty_file
from tests.stores.group.lists import WRITERS_MAX, Push, Register, Unknown
from tests.stores.group.stage import Stage, given, need


def vote_not_durable():
    """Member b votes for a and loses power before the vote is on its disk; then it votes for c."""
    stage = Stage()
    stage.saves_ballots = False
    for candidate in "ac":
        stage.members[candidate].election._stand(is_handed=True)  # both in term 1
    for candidate in "ac":
        member = stage.members[candidate]
        vote = Vote(1, Position(0, 0), is_handed=True)
        stage.deliver(member.id, stage.ids["b"], vote)
        granted = [letter for letter in stage.mail if isinstance(letter[2], VoteGranted)]
        given(len(granted) <= 2, "more votes than asked for")
        stage.crash("b")
        stage.start("b")
        stage.save("b")
        told = {letter[1] for letter in granted}
        need(len(told) <= 1, f"b voted for {told} in one term")
        stage.mail = granted


def no_log_check():
    """Member c lacks what a and b committed, and asks b for its vote."""
    stage = Stage()
    stage.settle_in()
    stage.write("a")
    stage.pass_on("ab", sync="ab")
    stage.clear()
    stage.elect("c", "b")


def ack_before_fsync():
    """Member b says that it has an entry, and loses power before it has."""
    stage = Stage()
    stage.settle_in()
    stage.write("a")
    stage.sync("a")
    stage.pass_on("ab")
    stage.tick("b", times=6, links=["ab"])
    stage.crash("a", "b")
    stage.start("b")
    stage.elect("b", "c")


def nack_acknowledges():
    """A NACK says what was consumed, not what is durable."""
    stage = Stage()
    stage.settle_in()
    stage.write("a", 2)
    stage.sync("a")
    second = [letter for letter in stage.mail if isinstance(letter[2], ToFollower)][2:]
    given(second, "two entries were not sent one by one")
    stage.mail = [letter for letter in stage.mail if letter not in second]
    stage.pass_on("ab")
    stage.write("a")
    stage.sync("a")
    stage.pass_on("ab")
    stage.clear()
    for _ in range(4):
        stage.do("b", "tick", stage.moment("b"))  # b lacks one and says so; nothing was synced
    words = [each[2] for each in stage.mail if isinstance(each[2], FromFollower)]
    given(any(isinstance(word.message, Nack) for word in words), "no nack")
    stage.pass_on("ab", kinds=(FromFollower,))
    stage.crash("a", "b")
    stage.start("b")
    stage.elect("b", "c")


def read_without_round():
    """Member a was deposed, does not know, and reads."""
    stage = Stage()
    stage.settle_in()
    given(stage.elect("b", "c"), "b is not elected")
    stage.tick("b", times=8, links=["bc"], sync="bc")
    _push(stage, "b", "bc")
    stage.told.clear()
    stage.do("a", "read", "caller")
    need(not stage.told, f"a stale read: {stage.told}")


def serve_before_own_term():
    """Member b has an acknowledged push, and does not know yet that it is committed."""
    stage = Stage()
    stage.settle_in()
    writer = _register(stage, "a", "abc")
    stage.do("a", "propose", "push", Push(writer, 1, 0, "v"))
    stage.pass_on("ab", kinds=(ToFollower, FromFollower), sync="ab")
    given(stage.told and stage.answer() == 1, "the push was not acknowledged")
    stage.crash("a")
    given(stage.elect("b", "c"), "b is not elected")
    stage.told.clear()
    stage.do("b", "read", "caller")
    stage.pass_on("bc")
    reads = [each for each in stage.told if not isinstance(each, Failed)]
    need(all(lists.get(0) == ("v",) for _, lists in reads), f"a stale read: {reads}")


def regressed_votes():
    """Member b gets an older file back, and is asked by c, which has no more than that."""
    stage = Stage()
    stage.settle_in()
    old = stage.disks["b"].file
    stage.write("a")
    stage.pass_on("ab", sync="ab")
    stage.crash("a", "b")
    stage.disks["b"].file = old
    stage.start("b")
    stage.elect("c", "b")


def memory_keeps_identity():
    """Member b was in memory, restarts, and is asked by c, which lacks what b acknowledged."""
    stage = Stage()
    stage.settle_in()
    stage.write("a")
    stage.pass_on("ab", sync="ab")
    stage.crash("a", "b")
    life = new_life(stage.ids["b"])
    stage.ids["b"] = life
    stage.disks["b"] = Disk(life, empty_file(stage.witness.config[1]))
    stage.start("b")
    stage.elect("c", "b")


def new_life(member):
    """Give the identity of a member whose ballot is gone: another one."""
    return MemberId(member.name, member.life + 1)


def changes_at_once():
    """Two leaders change the voters, each by one, before either commits anything."""
    stage = Stage("abcde", voters="abcd")
    stage.settle_in()
    a, b, c, d, e = (stage.ids[name] for name in "abcde")
    given(stage.change("a", (a, b, c, d, e)) is None, "a's change")
    stage.pass_on("ae", sync="ae")
    stage.crash("a")
    given(stage.elect("b", "cd"), "b is not elected")
    stage.sync("b")
    stage.tick("b", times=2, links=["bc"])  # c joins; nothing of term 2 is on its disk
    stage.change("b", (b, c, d))
    stage.tick("b", times=3, links=["bc"], sync="bc")
    stage.clear()
    stage.start("a")
    stage.elect("a", "de")


def removed_stays_silent():
    """Member a alone has its own removal; d is down; neither b nor c wins against a's journal."""
    stage = Stage("abcd")
    stage.settle_in()
    stage.crash("d")
    others = tuple(stage.ids[name] for name in "bcd")
    given(stage.change("a", others) is None, "a's change")
    stage.sync("a")
    stage.clear()
    stage.crash("a")
    stage.start("a")
    stage.tick("abc", times=200, links=["abc"], sync="abc")
    need(any(map(stage.is_ready, "abc")), "no member leads after 200 ticks")


def _learner_is_ahead():
    """Learner d alone has b's entry; only a, whose journal is older, takes d for a voter."""
    stage = Stage("abcd", voters="abc")
    stage.settle_in()
    given(stage.change("a", tuple(stage.ids.values())) is None, "a's change")
    stage.sync("a")
    stage.clear()
    given(stage.elect("b", "c"), "b is not elected")
    stage.tick("b", times=6, links=["bd"], sync="bd")
    ahead = stage.members["d"].journal.end
    given(ahead > stage.members["a"].journal.end, "d does not have b's entry")
    stage.crash("b")
    stage.tick("acd", times=200, links=["acd"], sync="acd")
    return stage


def learners_stay_silent():
    """Neither a, without d's vote, nor c, without a's, wins; d would with both."""
    stage = _learner_is_ahead()
    need(any(map(stage.is_ready, "ac")), "no voter leads after 200 ticks")


def learner_leads_for_nothing():
    """Learner d leads, and steps down before a and c have what stands in their way."""
    stage = _learner_is_ahead()
    need(any(map(stage.is_ready, "ac")), "no voter leads after 200 ticks")


def two_is_enough():
    """Two of five have an entry, and are gone."""
    stage = Stage("abcde")
    stage.settle_in()
    stage.write("a")
    stage.pass_on("ab", sync="ab")
    stage.crash("a", "b")
    stage.elect("c", "de")


def no_truncation():
    """Member a has a tail that no other has, under a leader with other entries."""
    stage = _diverged()
    stage.tick("b", times=8, links=["abc"], sync="abc")
    given(stage.is_ready("b"), "b has committed nothing")
    journals = {name: stage.members[name].journal for name in "ab"}
    ends = {journal.end for journal in journals.values()}
    need(len(ends) == 1, f"a kept its tail: {journals}")


def join_twice():
    """A second copy of a Join, of a session that is over, comes while a later one stands."""
    stage = Stage()
    stage.settle_in()
    b = stage.members["b"]
    end = b.journal.end
    stage.deliver(b.id, stage.ids["a"], Join(b.ballot.term, 1, (Position(0, 0),)))
    admitted = [letter for letter in stage.mail if isinstance(letter[2], Admitted)]
    need(not admitted, f"an old session of {end} was begun again")


def commit_old_term():
    """Raft, figure 8: an entry of an old term, on a majority, is overwritten by a later leader."""
    stage = Stage("abcde")
    given(stage.elect("a", "bc"), "a leads term 1")
    stage.sync("a")
    stage.tick("a", times=2, links=["ab"])
    stage.sync("b")  # a's first entry is on a and b
    stage.crash("a", "b")
    given(stage.elect("e", "cd"), "e leads term 2")
    stage.sync("e")  # another entry of that index, on e alone
    stage.crash("e")
    stage.start("a")
    stage.start("b")
    for _ in range(2):
        elected = stage.elect("a", "bc")
    given(elected, "a leads term 3")
    for _ in range(3):
        stage.tick("a", links=["ab", "ac"])
    writes = stage.writes["c"]
    given(writes and len(writes[0].entries) == 2, "c gets both entries at once")
    write = writes.pop(0)
    # Only the first of them gets onto c's disk before the power is cut.
    half = type(write)(write.token, write.snapshot, write.keep, write.entries[:1])
    stage.disks["c"].file = stage.disks["c"].file.persist(half)
    stage.members["c"].journal._write.limit = write.keep + 1
    stage.do("c", "persisted", write.token)
    stage.pass_on("ac")
    stage.crash("a", "b", "c")
    stage.start("b")
    stage.start("e")
    for _ in range(2):
        stage.elect("e", "bd")
    stage.tick("e", times=10, links=["ebd"], sync="ebd")
    given(stage.is_ready("e"), "e leads a later term")


def lease_ignores_drift():
    """A lease as long as the election's minimum, and clocks that are 5 % off each way."""
    stage = Stage()
    stage.settle_in()
    stage.tick("a", links=["abc"], sync="abc")  # the last round that b and c hear
    stage.tick("bc", times=10)  # a second for them is 9.05 ticks for a
    given(stage.elect("b", "c"), "b is not elected")
    stage.tick("b", times=8, links=["bc"], sync="bc")
    _push(stage, "b", "bc")
    stage.tick("a", times=9)
    stage.told.clear()
    stage.do("a", "read", "caller")
    need(not stage.told, f"a stale read: {stage.told}")


def refuses_in_silence():
    """Member a has the longer journal, c the higher term: without an answer neither ever leads."""
    stage = Stage()
    stage.settle_in()
    stage.crash("b")
    stage.write("a")
    stage.sync("a")
    stage.clear()
    stage.crash("a")
    for _ in range(2):
        stage.elect("c", "b")
    stage.clear()
    stage.start("a")
    stage.tick("ac", times=300, links=["ac"], sync="ac")
    need(any(map(stage.is_ready, "ac")), "two of three are in touch, and none leads")


def removes_the_last_healthy():
    """Of a, b, c and e one is gone, and b regressed: without d no majority makes b whole."""
    stage = Stage("abcde")
    stage.settle_in()
    old = stage.disks["b"].file
    stage.write("a")
    stage.pass_on("abcde", sync="abcde")
    stage.crash("b", "e")
    stage.disks["b"].file = old._replace(entries=old.entries[:-1])
    given(not stage.start("b").ballot.is_whole, "b is not regressed")
    stage.tick("acd", times=6, links=["acd"], sync="acd")
    stage.change("a", tuple(stage.ids[name] for name in "abce"))
    stage.sync("a")
    stage.clear()
    stage.crash("a")
    stage.start("a")
    stage.tick("abcd", times=300, links=["abcd"], sync="abcd")
    need(any(map(stage.is_ready, "abcd")), "no member leads after 300 ticks")


def three_become_two():
    """A healthy voter of three is removed, and another one is lost."""
    stage = Stage()
    stage.settle_in()
    stage.change("a", (stage.ids["a"], stage.ids["b"]))
    stage.tick("abc", times=6, links=["abc"], sync="abc")
    stage.crash("b")
    stage.tick("ac", times=100, links=["ac"], sync="ac")
    need(any(map(stage.is_ready, "ac")), "the loss of one of three ended the group")


def replaces_the_living():
    """A second endpoint takes the name of a voter that is there."""
    stage = Stage("abcd", wanted=Wanted(names=frozenset("abcd")))
    stage.settle_in()
    leader, double = stage.members["a"], MemberId("b", 7)
    stage.deliver(double, leader.id, Join(1, 1, (Position(0, 0),), wants_vote=True))
    for _ in range(120):
        stage.tick("abcd", links=["abcd"], sync="abcd")
        done = CumulativeAck(1, leader.journal.end.index)
        stage.deliver(double, leader.id, FromFollower(1, 1, is_whole=True, message=done))
        stage.deliver(double, leader.id, Echo(1, 1 << 40))
    status = {each.member: each for each in leader.members()}
    given(status[double].match == leader.journal.end.index, "the other b is not level")
    voters = leader.journal.voters.current
    need(voters == tuple(stage.ids.values()), f"the voters are {voters}")


def removed_votes_again():
    """A person removes b, which is declared; another one leads then, and b comes back anew."""
    stage = _without_b()
    stage.crash("b")
    stage.ids["b"] = life = MemberId("b", 1)
    stage.disks["b"] = Disk(life, empty_file())
    stage.start("b")
    _give_time_under(stage, "c")


def snapshot_forgets_removals():
    """Member d was away when a person removed b, and leads after a snapshot."""
    stage = _without_b(away="d")
    leader = stage.members["a"]
    leader.excessive = leader.state.commit
    given(leader.compact(leader.state.commit), "nothing is let go")
    stage.start("d")
    stage.tick("abcd", times=9, links=["abcd"], sync="abcd")
    given(stage.members["d"].journal.floor.index, "d has taken no snapshot")
    _give_time_under(stage, "d")


def _without_b(away=""):
    stage = Stage("abcd", wanted=Wanted(names=frozenset("abcd")))
    stage.settle_in()
    stage.crash(*away)
    leader = stage.members["a"]
    voters = tuple(each for each in leader.journal.voters.current if each.name != "b")
    given(stage.change("a", voters) is None, "b is not removed")
    stage.tick("abcd", times=3, links=["abcd"], sync="abcd")
    given(leader.state.is_voters_committed, "that b is removed is not committed")
    return stage


def _give_time_under(stage, leader):
    given(stage.elect(leader, "ab"), f"{leader} is not elected")
    stage.tick("abcd", times=120, links=["abcd"], sync="abcd")
    given(stage.leader() == leader, f"{leader} does not lead")
    voters = [each.name for each in stage.members[leader].journal.voters.current]
    need("b" not in voters, f"the voters are {voters}")


def mark_is_index():
    """An older file comes back, whose tail of an older term is longer than what was durable."""
    stage, old = _with_longer_file()
    stage.crash("a", "b")
    stage.disks["a"].file = old
    stage.start("a")
    stage.elect("a", "c")


def regressed_again():
    """A regressed member joins and truncates, and restarts before that is on its disk."""
    stage, old = _with_longer_file()
    stage.crash("a")
    stage.disks["a"].file = old
    stage.start("a")
    stage.tick("b", times=4, links=["ab"], sync="b")
    stage.crash("a", "b")
    stage.start("a")
    stage.elect("a", "c")


def echoes_for_an_earlier_life():
    """Member b lost what it had; its new session is not heard of, and its echo is."""
    stage = Stage("abcd")
    stage.settle_in()
    old = stage.disks["b"].file
    stage.write("a")
    stage.pass_on("abcd", sync="abcd")
    stage.crash("b", "c", "d")
    stage.disks["b"].file = old._replace(entries=old.entries[:-1])
    given(not stage.start("b").ballot.is_whole, "b is not regressed")
    wanted = tuple(stage.ids[name] for name in "abc")
    refusal = stage.do("a", "change", wanted)
    given(refusal is ChangeRefusal.UNCONFIRMED, f"the change is {refusal}")
    stage.do("a", "tick", stage.moment("a"))
    stage.pass_on("ab", kinds=(Keepalive, Echo))
    need(stage.do("a", "change", wanted) is not None, "a lost voter counts for a change")


class Tear:
    """A power cut that tears every slot that was not synced."""

    @staticmethod
    def choice(outcomes):
        return outcomes[-1]


def marks_alternate():
    """A power cut tears each slot that was not synced; one has to be left."""
    stage = Stage()
    stage.settle_in()
    stage.saves_ballots = False
    for _ in range(4):
        stage.write("a")
        stage.pass_on("abc", sync="abc")
    stage.crash(*"abc")
    stage.saves_ballots = True
    for name in "abc":
        stage.disks[name].power_cut(Tear)
        stage.start(name)
    stage.tick("abc", times=300, links=["abc"], sync="abc")
    need(any(map(stage.is_ready, "abc")), "no member leads after a power cut of all")


def no_mark_is_whole():
    """No slot can be read, and the file is an older one."""
    stage = Stage()
    stage.settle_in()
    old = stage.disks["b"].file
    stage.write("a")
    stage.pass_on("ab", sync="ab")
    stage.crash("a", "b")
    stage.disks["b"].file = old
    stage.disks["b"].slots = [None] * len(stage.disks["b"].slots)
    stage.start("b")
    stage.elect("b", "c")


def term_mark_unsynced():
    """The first entry of a term is acknowledged, and the power cut takes its mark back."""
    stage, old = _with_longer_file()
    stage.crash("a", "b")
    stage.disks["a"].slots = list(stage.disks["a"].synced_slots)
    stage.disks["a"].file = old
    stage.start("a")
    stage.elect("a", "c")


def answers_at_once():
    """A deposed leader is asked by a writer that registered with the next one."""
    stage = Stage()
    stage.settle_in()
    given(stage.elect("b", "c"), "b is not elected")
    stage.tick("b", times=8, links=["bc"], sync="bc")
    writer = _register(stage, "b", "bc")
    stage.told.clear()
    stage.do("a", "propose", "push", Push(writer, 1, 0, "v"))
    need(not stage.told, f"a deposed leader answers: {stage.told}")


def answers_uncommitted():
    """An eviction is appended, and lost: what it had refused would have been done."""
    stage = Stage()
    stage.settle_in()
    writer = _register(stage, "a", "abc")
    for number in range(WRITERS_MAX - 1):
        _register(stage, "a", "abc", f"other {number}")
    stage.told.clear()
    stage.do("a", "propose", "evicts", Register("one too many"))
    stage.do("a", "propose", "push", Push(writer, 1, 0, "v"))
    stage.pass_on("abc", kinds=(Keepalive, Echo))
    need(not stage.told, f"an answer rests on what is not committed: {stage.told}")


def no_ledger():
    """A push is repeated after a change of the leader."""
    stage = Stage()
    stage.settle_in()
    writer = _push(stage, "a", "abc")
    stage.tick("a", times=2, links=["abc"], sync="abc")
    given(stage.elect("b", "c"), "b is not elected")
    stage.tick("b", times=8, links=["abc"], sync="abc")
    stage.do("b", "propose", "again", Push(writer, 1, 0, "v"))
    stage.pass_on("abc", sync="abc")
    lists = stage.members["b"].state.machine.state.lists
    need(lists[0] == ("v",), f"pushed twice: {lists}")


def writers_by_name():
    """Late copies of a registration and of its push, after the writer was evicted."""
    stage = Stage()
    stage.settle_in()
    writer = _push(stage, "a", "abc")
    for number in range(WRITERS_MAX):
        _register(stage, "a", "abc", f"other {number}")
    _register(stage, "a", "abc")
    stage.do("a", "propose", "again", Push(writer, 1, 0, "v"))
    stage.pass_on("abc", sync="abc")
    need(stage.answer() == Unknown(), f"the answer was {stage.answer()}")


# -- parts of them -------------------------------------------------------------------------------


def _register(stage, leader, link, nonce="w"):
    stage.do(leader, "propose", "register", Register(nonce))
    stage.pass_on(link, sync=link)
    return stage.answer()


def _push(stage, leader, link):
    writer = _register(stage, leader, link)
    stage.do(leader, "propose", "push", Push(writer, 1, 0, "v"))
    stage.pass_on(link, sync=link)
    given(stage.answer() == 1, "the push was not acknowledged")
    return writer


def _diverged():
    """Have a with a long tail of term 1 on its disk, and b elected in term 2 without it."""
    stage = Stage()
    stage.settle_in()
    stage.write("a", 6)
    stage.sync("a")
    stage.clear()
    given(stage.elect("b", "c"), "b is not elected")
    stage.clear()
    return stage


def _with_longer_file():
    """Have a and b commit in term 2; gives a's file from before, longer and of term 1."""
    stage = _diverged()
    old = stage.disks["a"].file
    stage.sync("b")
    stage.tick("b", times=8, links=["ab"], sync="ab")
    given(stage.is_ready("b"), "b has committed nothing")
    given(stage.disks["a"].file.end.index < old.end.index, "the old file is not longer")
    return stage, old


__all__ = ["SCHEDULES", "Violation"]

SCHEDULES = (
    vote_not_durable,
    no_log_check,
    ack_before_fsync,
    nack_acknowledges,
    read_without_round,
    serve_before_own_term,
    regressed_votes,
    memory_keeps_identity,
    changes_at_once,
    removed_stays_silent,
    learners_stay_silent,
    learner_leads_for_nothing,
    two_is_enough,
    no_truncation,
    join_twice,
    commit_old_term,
    lease_ignores_drift,
    refuses_in_silence,
    removes_the_last_healthy,
    three_become_two,
    replaces_the_living,
    removed_votes_again,
    snapshot_forgets_removals,
    mark_is_index,
    regressed_again,
    echoes_for_an_earlier_life,
    marks_alternate,
    no_mark_is_whole,
    term_mark_unsynced,
    answers_at_once,
    answers_uncommitted,
    no_ledger,
    writers_by_name,
)
