"""The rules of a replica group: each can be switched off, and is missed then.

``tests/stores/group`` switches them off, too, under these names, in worlds and schedules of a model.
"""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_SCHEDULES = ("tests/stores/group/test_group_schedules.py",)

_SILENT = (
    "        PreVote: (*_VOTING[PreVote], Move(Election.is_ahead, Election.ask_around, Role.ASKING)),\n",
    "        PreVote: _VOTING[PreVote],\n",
)
"""A member without a vote never asks for votes."""


def _rule(switch: str, why: str, file: str, text: str, replacement: str) -> Safeguard:
    return Safeguard(f"group: {switch}", why, f"stores/group/{file}", text, replacement, _SCHEDULES)


GROUP = [
    _rule(
        "vote_not_durable",
        "a member votes for two candidates of one term, and both lead",
        "ballot.py",
        "        if not is_awaited and not self._is_dirty and self._saving is None:\n",
        "        if True:\n",
    ),
    _rule(
        "no_log_check",
        "a candidate leads that lacks what was acknowledged",
        "election.py",
        "        return event.last >= self._journal.end\n",
        "        return True\n",
    ),
    _rule(
        "ack_before_fsync",
        "an acknowledged entry is gone after a power cut of the leader and one follower",
        "following.py",
        "        return min(self._state.journal.durable, self._consumer.next_sequence - 1)\n",
        "        return self._consumer.next_sequence - 1\n",
    ),
    _rule(
        "nack_acknowledges",
        "what a follower has taken in counts as if it were on its disk",
        "feeding.py",
        "        if isinstance(message.message, CumulativeAck):\n            done = min(message.message.sequence, self._journal.end.index)\n",
        "        if True:\n            done = self._producer.acknowledged(sender) or 0\n",
    ),
    _rule(
        "read_without_round",
        "a deposed leader reads what is overwritten already",
        "reads.py",
        "        while self._asked and self._asked[0].round <= self._heard:\n",
        "        while self._asked:\n",
    ),
    _rule(
        "serve_before_own_term",
        "a new leader reads less than what was acknowledged",
        "leading.py",
        "        return self._has_committed and not self.electorate.is_handing_over\n",
        "        return not self.electorate.is_handing_over\n",
    ),
    _rule(
        "regressed_votes",
        "a member with an older file elects a leader that lacks what it had acknowledged",
        "ballot.py",
        "        is_whole = promises.is_whole and mark is not None and mark <= end\n",
        "        is_whole = True\n",
    ),
    _rule(
        "changes_at_once",
        "two majorities without a common voter decide side by side",
        "member.py",
        "        if self.leading is None or not self.leading.is_ready:\n",
        "        if self.leading is None:\n",
    ),
    _rule(
        "removed_stays_silent",
        "a group stands still, because only a removed voter knows of its removal",
        "election.py",
        *_SILENT,
    ),
    _rule(
        "echoes_for_an_earlier_life",
        "a change of the voters counts on a member that lost what it had",
        "following.py",
        "        return self._ballot.is_whole or is_known\n",
        "        return True\n",
    ),
    _rule(
        "learners_stay_silent",
        "a group stands still, because only its learner has an entry, and its vote is needed",
        "election.py",
        *_SILENT,
    ),
    _rule(
        "learner_leads_for_nothing",
        "a learner that was elected steps down before the voters have what it has",
        "leading.py",
        "        return self._has_committed and self.electorate.is_removed\n",
        "        return self.electorate.is_removed\n",
    ),
    _rule(
        "two_is_enough",
        "two of five have an acknowledged entry, and are gone",
        "quorum.py",
        "    return len(voters) // 2 + 1\n",
        "    return min(2, len(voters))\n",
    ),
    _rule(
        "no_truncation",
        "a follower keeps entries that its leader does not have",
        "journal.py",
        "                return min(end.index, mine[end.term])\n",
        "                return min(ends[-1].index, self.end.index)\n",
    ),
    _rule(
        "join_twice",
        "a late message ends a session that stands",
        "feeding.py",
        "        if follower is None or message.session <= follower.session:\n",
        "        if follower is None:\n",
    ),
    _rule(
        "commit_old_term",
        "an entry counts as committed that a later leader overwrites",
        "leading.py",
        "        if index < first or self._journal.term_at(index) != self._ballot.term:\n",
        "        if index < first:\n",
    ),
    _rule(
        "lease_ignores_drift",
        "a leader with a slow clock reads on its own, while another one writes",
        "reads.py",
        "        self._heard = agreed(voters, lambda voter: self._echoed(voter, echoed))\n",
        "        self._heard = agreed(voters, lambda voter: self._echoed(voter, echoed)) + 10\n",
    ),
    _rule(
        "refuses_in_silence",
        "of two members one has the longer journal, the other the higher term, and none ever leads",
        "election.py",
        "        return [Send(sender, HigherTerm(self._ballot.term))]\n",
        "        return []\n",
    ),
    _rule(
        "removes_the_last_healthy",
        "a group has voters left that can elect no leader again",
        "quorum.py",
        "        return ChangeRefusal.TOO_FEW_HEALTHY\n",
        "        pass\n",
    ),
    _rule(
        "three_become_two",
        "a group that survives one loss is made one that survives none",
        "quorum.py",
        "        return ChangeRefusal.LAST_OF_THREE\n",
        "        pass\n",
    ),
    _rule(
        "replaces_the_living",
        "an endpoint that takes the name of a voter takes its vote, too",
        "electorate.py",
        "            gone = [voter for voter in current if not self.is_there(voter)]\n",
        "            gone = current\n",
    ),
    _rule(
        "removed_votes_again",
        "a vote that a person took is back under the next leader, or with its replica",
        "followers.py",
        "            and member.name not in self._voters.dismissed\n",
        "",
    ),
    _rule(
        "snapshot_forgets_removals",
        "a leader that began with a snapshot gives a vote back that a person took",
        "applied_state.py",
        "        return Snapshot(position, voters, self.clock.times, parts, after, dismissed)\n",
        "        return Snapshot(position, voters, self.clock.times, parts, after)\n",
    ),
    _rule(
        "mark_is_index",
        "an older file with a longer tail of an older term passes for whole",
        "ballot.py",
        "mark is not None and mark <= end\n",
        "mark is not None and mark.index <= end.index\n",
    ),
    _rule(
        "answers_at_once",
        "a deposed leader refuses what the group would do, by a state that is over",
        "leading.py",
        "            return self._rounds.add(replied, caller, self._journal.end_index)\n",
        "            return [replied]\n",
    ),
    _rule(
        "answers_uncommitted",
        "a request is refused because of another one that is lost with its leader",
        "reads.py",
        "            if answer.index > commit:\n",
        "            if False:\n",
    ),
    _rule(
        "marks_alternate",
        "a power cut leaves no mark that can be read, and no member that counts",
        "ballot.py",
        "        return [WriteMark(self._open, self.number, mark)]\n",
        "        return [WriteMark(self.number % SLOT_COUNT, self.number, mark)]\n",
    ),
    _rule(
        "no_mark_is_whole",
        "a member whose marks are gone counts, whatever file it has",
        "ballot.py",
        "mark is not None and mark <= end\n",
        "(mark is None or mark <= end)\n",
    ),
    _rule(
        "term_mark_unsynced",
        "after a power cut an older file of an older term passes for whole",
        "ballot.py",
        "        if durable.term > mark.term:\n",
        "        if False:\n",
    ),
]

GROUP_CORE = [
    Safeguard(
        "group core: a lowered mark is synced before the journal is cut",
        "after a power cut members that lack nothing count for nothing, and a group stands still",
        "stores/group/ballot.py",
        "        return self._await_mark(position)\n",
        "        return self._marks.write(position)\n",
        ("tests/stores/group/test_ballot.py",),
    ),
    Safeguard(
        "group core: a change of the voters waits for a round of its own",
        "a voter is removed while others are lost without a word yet, and the rest elects none",
        "stores/group/electorate.py",
        "            if self._refusal_of(voters, asked.round) is not None:\n",
        "            if False:\n",
        ("tests/stores/group/test_member.py",),
    ),
    Safeguard(
        "group core: a change of the voters waits while another one waits for its round",
        "two that are asked for at once throw away each other's round until both time out",
        "stores/group/electorate.py",
        "        if asked is not None and asked.voters != voters:\n",
        "        asked = asked if asked is None or asked.voters == voters else None\n"
        "        if False:\n",
        ("tests/stores/replica/test_steering.py",),
    ),
    Safeguard(
        "group core: a new voter is in touch",
        "a learner that is gone is given a vote, and the group survives one loss less",
        "stores/group/quorum.py",
        "    if not all(map(has_echoed, added)):\n",
        "    if False:\n",
        ("tests/stores/replica/test_steering.py",),
    ),
    Safeguard(
        "group core: a person gives no vote to a second endpoint of a voter's name",
        "an endpoint that takes the name of a voter takes its vote, too, once the voter is added anew",
        "stores/replica/asked/steering.py",
        "    return is_in_touch and not electorate.is_there(voter)\n",
        "    return is_in_touch\n",
        ("tests/stores/replica/test_steering.py",),
    ),
    Safeguard(
        "group core: of too many removed names the declared ones are kept",
        "a voter that was removed gets its vote back after some dozens of names that were mistyped",
        "stores/group/membership.py",
        "    spare = [name for name in names if name not in declared]\n",
        "    spare = names\n",
        ("tests/stores/group/test_membership.py",),
    ),
    Safeguard(
        "group core: a name without a vote can be removed, too",
        "a replica is said to vote no more, and is given a vote as it comes back",
        "stores/replica/asked/steering.py",
        "        case Order.REMOVE if name not in member.journal.voters.dismissed:",
        "        case Order.REMOVE if False:",
        ("tests/stores/replica/test_steering.py",),
    ),
    Safeguard(
        "group core: no lead is taken by force from a leader whose snapshot is on its way",
        "a replica that has nothing yet leads a healthy group, and what all others have counts no more",
        "endpoint/replicas/part.py",
        "        if leader is not None and leader != self.core.own:",
        "        if self.core.is_served and not self.core.is_leader:",
        ("tests/endpoint/replicas/groups/test_learners.py",),
    ),
    Safeguard(
        "group core: a group begins in a term of its own time",
        "fencing tokens repeat once a group in memory is lost, and a holder of before passes for the latest",
        "stores/replica/arrival.py",
        "        term = founding_term(self._world.now_ns())\n",
        "        term = 1\n",
        ("tests/stores/replica/test_master.py",),
    ),
    Safeguard(
        "group core: that a vote was taken is told of what is so now",
        "a replica that votes again is told that it does not, as it catches up",
        "stores/replica/facts.py",
        "        if member is None or not self.is_served or member.missing_count:\n",
        "        if member is None or not self.is_served:\n",
        ("tests/stores/replica/test_core.py",),
    ),
    Safeguard(
        "group core: files keep the names whose vote a person took",
        "a group that starts again gives a vote back that a person took",
        "stores/disk/machine_meta.py",
        '        tuple(found.get("dismissed", ())),  # Files of earlier builds have none.\n',
        "        (),\n",
        ("tests/stores/disk/test_replica.py", "tests/stores/disk/test_log_replica.py"),
    ),
    Safeguard(
        "group core: a leader that a majority follows has nothing to force",
        "a healthy group is made one of a single voter, without a word",
        "stores/group/member.py",
        "        if self.leading is not None and self.leading.electorate.is_backed:\n",
        "        if False:\n",
        ("tests/stores/group/test_member.py",),
    ),
    Safeguard(
        "group core: only a member that asks for a vote is given one by itself",
        "an observer that leaves takes a vote along, and a majority with it",
        "stores/group/followers.py",
        "            if follower.wants_vote\n            and self.is_healthy(member, BREAK_TICKS)\n",
        "            if self.is_healthy(member, BREAK_TICKS)\n",
        ("tests/endpoint/replicas/groups/test_counted_voters.py",),
    ),
    Safeguard(
        "group core: to ask for a vote takes the right to vote",
        "a reader becomes a voter whose votes are refused, and the group stands still",
        "stores/group/rights.py",
        "    if isinstance(content, Join) and content.wants_vote:\n",
        "    if False:\n",
        ("tests/stores/group/test_group_rights.py",),
    ),
    Safeguard(
        "group core: a founder has heard more than half of the number",
        "one that lost its memory founds a second group before it meets its own",
        "stores/replica/roster.py",
        "        return is_enough and self._founding.knows_none\n",
        "        return self._founding.knows_none\n",
        ("tests/endpoint/replicas/groups/test_counted_voters.py",),
    ),
    Safeguard(
        "group core: voters follow however many learners there are",
        "an endpoint that may read invents so many learners that no majority is heard",
        "stores/group/followers.py",
        "(len(self._known) < FOLLOWERS_MAX or member in self._voters.current):\n",
        "len(self._known) < FOLLOWERS_MAX:\n",
        ("tests/stores/group/test_membership.py",),
    ),
    Safeguard(
        "group core: bytes that wait for a majority are counted",
        "a leader without a majority takes entries of 16 MiB until its memory is full",
        "stores/group/leading.py",
        " or size >= UNCOMMITTED_SIZE_MAX\n",
        "\n",
        ("tests/stores/group/test_member.py",),
    ),
    Safeguard(
        "group core: an endpoint has one member",
        "an endpoint that may read fills the memory of others with members that it invents",
        "stores/replica/roster.py",
        "            if endpoint in self._at:\n                del self._where[self._at[endpoint]]\n",
        "",
        ("tests/stores/replica/test_roster.py",),
    ),
    Safeguard(
        "group: no follower has what was not sent",
        "one that says so ends the leader's replica",
        "stores/group/feeding.py",
        "min(self._journal.agreed(message.ends), self.end)",
        "self._journal.agreed(message.ends)",
        (
            "tests/stores/group/test_member.py::test_a_follower_that_claims_what_was_not_sent_gets_it",
        ),
    ),
    Safeguard(
        "group: a snapshot ends behind what is committed",
        "a leader that says otherwise ends the replica of its follower",
        "stores/group/following.py",
        "        if last < known:\n",
        "        if False:\n",
        (
            "tests/stores/group/test_member.py::test_a_snapshot_that_ends_before_what_is_committed_is_refused",
        ),
    ),
]
"""What no schedule of the model shows, and tests of the core do."""
