"""The safeguards of what drives a replica of a group: its words, its disk, its clock, its rights."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_CORE = ("tests/stores/replica/test_core.py",)
_RIGHTS = ("tests/endpoint/replicas/groups/test_replica_rights.py",)
_LEARNERS = ("tests/endpoint/replicas/groups/test_learners.py",)
_FILES = ("tests/endpoint/replicas/groups/test_replica_files.py",)
_FOLDER = "stores/replica"
_IN_MEMORY = "        if keeper is None:\n            self._instant.append(write)\n"
_QUEUE = f"{_FOLDER}/write_queue.py"


def _driver(name: str, why: str, file: str, text: str, replacement: str) -> Safeguard:
    return Safeguard(f"attached replica: {name}", why, file, text, replacement, _CORE)


DRIVER = [
    _driver(
        "a vote leaves after its ballot is written",
        "after a power cut a voter votes for another candidate of the same term, and both lead",
        _QUEUE,
        _IN_MEMORY,
        _IN_MEMORY.replace(":", " or isinstance(write, SavePromises):", 1),
    ),
    _driver(
        "an acknowledgement leaves after its journal is written",
        "a receipt is given for what a power cut of two voters takes back",
        _QUEUE,
        _IN_MEMORY,
        _IN_MEMORY.replace(":", " or isinstance(write, Persist):", 1),
    ),
    _driver(
        "a write that failed counts for nothing",
        "a voter with a full disk acknowledges what it has not",
        f"{_FOLDER}/core.py",
        "        self._end(ErrorCode.BACKEND_FAILURE, text)\n        return self._take()\n",
        "        return self.persisted(token)\n",
    ),
    _driver(
        "a linear read waits for its round",
        "a reader at a deposed leader misses what was acknowledged before it asked",
        f"{_FOLDER}/asked/waits.py",
        "            return wait.is_current\n",
        "            return True\n",
    ),
    Safeguard(
        "attached replica: an order is given again until it is done",
        "a change of the voters whose first asking is lost, or that has to wait, is never made",
        f"{_FOLDER}/asked/steering.py",
        "                due.append(Steer(token, each.order, each.name))\n",
        "                pass\n",
        ("tests/endpoint/replicas/groups/test_members.py",),
    ),
    _driver(
        "an unknown outcome is told as unknown",
        "a writer repeats as new what the group has done already",
        f"{_FOLDER}/asked/outbox.py",
        "            parcel.was_sent = True\n",
        "",
    ),
    _driver(
        "what is still gathered has no outcome",
        "statistics leave out what was asked last, and it is never refused for want of a leader",
        f"{_FOLDER}/asked/outbox.py",
        "        return self._count + (not self._gathering.is_sealed)\n",
        "        return self._count\n",
    ),
    _driver(
        "only a voter that is alone decides at once",
        "a leader in memory acknowledges what no other voter has, and it is lost with it",
        "stores/group/leading.py",
        "        is_alone = journal.is_volatile and journal.voters.current == (self._ballot.member,)\n",
        "        is_alone = journal.is_volatile\n",
    ),
    _driver(
        "only a voter without a disk decides at once",
        "a store that is alone on its disk acknowledges what a power cut takes back",
        "stores/group/leading.py",
        "        is_alone = journal.is_volatile and journal.voters.current == (self._ballot.member,)\n",
        "        is_alone = journal.voters.current == (self._ballot.member,)\n",
    ),
    _driver(
        "entries are kept for those that follow",
        "a member that follows lacks what was decided at once, and begins anew at each entry",
        "stores/group/leading.py",
        "            if self._followers:\n",
        "            if False:\n",
    ),
    _driver(
        "a voter that is alone waits for its disk",
        "a store that is alone fails its writers, and takes none for seconds, when its disk is slow",
        "stores/group/leading.py",
        "        return is_late and self._journal.voters.current != (self._ballot.member,)\n",
        "        return is_late\n",
    ),
    _driver(
        "after a pause the inbox is read before a timer fires",
        "an endpoint that was stopped for a moment deposes a leader whose words it has",
        f"{_FOLDER}/core.py",
        "        if self._is_closed or self._is_paused or is_pause_over:\n",
        "        if self._is_closed or self._is_paused:\n",
    ),
    _driver(
        "who does not vouch is not heard",
        "an endpoint speaks as a member whose name it has not",
        f"{_FOLDER}/core.py",
        "        if self._is_closed or self._is_paused or not is_vouched:\n",
        "        if self._is_closed:\n",
    ),
    Safeguard(
        "attached replica: a founder waits for every voter",
        "a founder that lost its disk founds a second group beside the one that is cut off",
        "stores/group/founding.py",
        "        missing = [name for name in self._voters if name not in names]\n"
        "        if missing:\n",
        "        missing = [name for name in self._voters if name not in names]\n"
        "        if len(names) * 2 > len(self._voters):\n"
        "            for name in missing:\n"
        "                known = Known(MemberId(name, 0), None, self._voters)\n"
        "                self._known[EndpointId(name.encode().ljust(16)[:16])] = known\n"
        "        elif missing:\n",
        (f"{_CORE[0]}::test_nothing_is_founded_while_one_voter_has_not_answered",),
    ),
    _driver(
        "lists of voters that differ found nothing",
        "two voters count majorities of different groups of voters",
        "stores/group/founding.py",
        "            if each.voters != self._voters:\n",
        "            if False:\n",
    ),
    Safeguard(
        "attached replica: it needs the right to vote",
        "who may only write has a replica that no other one hears, and waits for ever",
        "endpoint/replicas/attachments.py",
        'self._check_right(name, "read" if is_learner else "vote")',
        'self._check_right(name, "read")',
        _RIGHTS,
    ),
    Safeguard(
        "attached replica: a member has its certificate's name",
        "a certificate of any name is enough to take the vote of another endpoint",
        "endpoint/replicas/making.py",
        "        if authorisation.believed_name(endpoint, known) == name:\n",
        "        if authorisation.believed_name(endpoint, known) is not None:\n",
        _RIGHTS,
    ),
    Safeguard(
        "attached replica: a voter's name takes the right to vote",
        "a reader that calls itself as a voter acknowledges what no disk of a voter has",
        "stores/group/rights.py",
        "    if wanted is Right.READ and is_voter(letter.sender):\n",
        "    if False:\n",
        ("tests/stores/group/test_group_rights.py",),
    ),
    Safeguard(
        "attached replica: a refusal is not answered",
        "two replicas that refuse each other say so for ever",
        "endpoint/replicas/guarding.py",
        "        is_answered = not isinstance(letter.content, Barred)\n",
        "        is_answered = True\n",
        _RIGHTS,
    ),
    Safeguard(
        "attached replica: each letter is judged by the rights of its sender",
        "a reader deposes the leader of a group with one word",
        "endpoint/replicas/runner.py",
        "        guard = self.guarding.guard(sender)\n",
        "        guard = None\n",
        _RIGHTS,
    ),
    Safeguard(
        "attached replica: what may not read is sent nothing of the group",
        "a writer hears all that is written",
        "handshake/roles.py",
        "_COPIES: Final = (CLONE_SUFFIX, *GROUP_SUFFIXES, ",
        "_COPIES: Final = (CLONE_SUFFIX, ",
        ("tests/handshake/test_roles.py",),
    ),
    Safeguard(
        "attached replica: it hears its own group alone",
        "a learner takes the history of another group of its store's name for the rest of its own",
        f"{_FOLDER}/core.py",
        "        elif letter.group == self.group and self.member is not None:\n",
        "        elif self.member is not None:\n",
        _LEARNERS,
    ),
    Safeguard(
        "attached replica: a learner sets a file of an earlier release aside",
        "a learner founds a group of its own out of an old file, beside the one that it is to follow",
        "endpoint/replicas/files.py",
        "self._rows.set_aside() if is_learner else None",
        "None",
        _FILES,
    ),
    Safeguard(
        "attached replica: a file set aside overwrites none",
        "the second old file of a learner replaces the first one",
        "stores/disk/sqlite.py",
        "    while os.path.exists(name):\n",
        "    while False:\n",
        _FILES,
    ),
    _driver(
        "a leader whose disk failed hands over",
        "a group waits for an election timeout, though its leader knows that it cannot lead",
        f"{_FOLDER}/life.py",
        "        if self.member is not None and self.member.leading is not None:\n"
        "            for effect in self.member.leading.electorate.pass_on():\n",
        "        if self.member is not None and self.member.leading is not None:\n"
        "            for effect in ():\n",
    ),
]
