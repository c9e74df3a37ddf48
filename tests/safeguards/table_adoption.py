"""The safeguards of what clones hold when their master starts again, and of comparisons."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_CLAIM = ("tests/stores/replica/test_claim.py",)
_WORLD = ("tests/stores/replica/test_handing_over.py",)
_MEMBER = ("tests/stores/group/test_member.py",)
_STORES = ("tests/endpoint/replicas/stores/test_adoption.py",)
_HALF_MADE = ("tests/endpoint/replicas/logs/test_half_made_leads.py",)
_COMPARING = ("tests/stores/replica/test_comparing.py",)
_FOLDER = "stores/replica"


def _kept(
    name: str, why: str, file: str, text: str, replacement: str, tests: tuple[str, ...] = _WORLD
) -> Safeguard:
    return Safeguard(f"what clones hold: {name}", why, file, text, replacement, tests)


ADOPTION = [
    _kept(
        "a master takes over what the best clone has",
        "a restarted master leads on with the older of two states, and the newer one is lost",
        f"{_FOLDER}/claim.py",
        "        best = max(ours, key=lambda where: (ours[where].end, where), default=None)\n",
        "        best = min(ours, key=lambda where: (ours[where].end, where), default=None)\n",
        _CLAIM,
    ),
    _kept(
        "a master waits for all announced clones",
        "the clone that has most answers second, and is left out",
        f"{_FOLDER}/claim.py",
        "        return not self._missing and not is_led and is_content\n",
        "        return not is_led and is_content\n",
        _CLAIM,
    ),
    _kept(
        "a regressed master takes over from none that lacks what it acknowledged",
        "what a receipt was given for is lost, and the master says nothing",
        f"{_FOLDER}/claim.py",
        "        if self._mark is not None:\n            return max(self._mark, self._own.end)\n",
        "",
        _CLAIM,
    ),
    _kept(
        "a master that ended while it took over goes on with no less than it has",
        "entries that had come already are lost for those of a clone that has less",
        f"{_FOLDER}/claim.py",
        "            return max(self._mark, self._own.end)\n",
        "            return self._mark\n",
        _CLAIM,
    ),
    _kept(
        "a file that is filled by what clones hold says so until it has all of it",
        "its master is killed meanwhile, and leads with a part the next time",
        f"{_FOLDER}/life.py",
        "                member.ballot.doubt()",
        "                pass",
        _HALF_MADE,
    ),
    _kept(
        "a keeper that was killed while it took over is known by its ballot",
        "its file looks like a follower's, and a person has to sort it out",
        "endpoint/replicas/logs/attachments.py",
        "    return is_promoted or is_taking_over or is_without_its_ballot\n",
        "    return False\n",
        _HALF_MADE,
    ),
    _kept(
        "a clone that said what it holds hears no older leader",
        "it takes on more than the master knows of, and follows it no further",
        f"{_FOLDER}/adopting.py",
        "        return not is_forced(content.term, self._promised_term)\n",
        "        return False\n",
    ),
    _kept(
        "a clone that holds nothing leaves only a group without a leader",
        "in reach of two masters it goes from one to the other, and greets all each time",
        f"{_FOLDER}/adopting.py",
        "        return self._stranded_ticks >= STRANDED_TICKS\n",
        "        return True\n",
        ("tests/stores/replica/test_clone.py",),
    ),
    _kept(
        "a member that cedes counts no word but the heir's",
        "it acknowledges entries that die with it",
        "stores/group/electorate.py",
        "        self._put((voter,))\n",
        "        self._put((self._ballot.member,))\n",
        _MEMBER,
    ),
    _kept(
        "a learner keeps what a voter alone may have acknowledged",
        "a master that took over with less cuts what its clones have, without a word",
        "stores/group/following.py",
        "        if was_alone and is_forced(self._ballot.term, journal.end.term):\n",
        "        if False:\n",
        _MEMBER,
    ),
    _kept(
        "terms that are taken by force are drawn",
        "two clones that are promoted apart lead in one term, and others follow both in turn",
        "stores/group/election.py",
        "begin + self._draw(0, DRAWN_TERMS - 1)",
        "begin",
        _MEMBER,
    ),
    _kept(
        "who has nothing of a lead by force does not go on in its terms",
        "two masters lead one term, and a clone applies what one says upon what the other said",
        "stores/group/election.py",
        "        return is_of_another_lead(self._ballot.term, self._journal.end.term)\n",
        "        return False\n",
        _MEMBER,
    ),
    _kept(
        "a clone that was promoted cedes to none",
        "a master that starts meanwhile says for ever that it leads, and leads nothing",
        f"{_FOLDER}/adopting.py",
        "            if self._has_master:\n",
        "            if False:\n",
        ("tests/stores/replica/test_handing_over.py",),
    ),
    _kept(
        "a clone that comes over is no conflict any more",
        "a person ends a replica that is content, as its master is told of as of another group",
        f"{_FOLDER}/arrival.py",
        '            self._conflict = ""  # It left that group, or came over.\n',
        "            pass\n",
        ("tests/stores/replica/test_following.py",),
    ),
    _kept(
        "a deposed master notes it for good",
        "it starts again alone, and acknowledges what is lost when it meets the other one",
        "stores/group/member.py",
        "        self.ballot.doubt()\n        return self._settle([])\n",
        "        return self._settle([])\n",
        _STORES,
    ),
    _kept(
        "a master that others have more than is regressed",
        "an older file, put back with its ballot, leads before it has what clones have",
        f"{_FOLDER}/life.py",
        "            made.ballot.doubt()\n",
        "",
        _STORES,
    ),
    _kept(
        "a comparison has a number of its leader's own",
        "a digest that was taken for another leader tells of a difference that is none",
        f"{_FOLDER}/comparing.py",
        "        number = own.epoch % (1 << 31) << 31 | self._count\n",
        "        number = self._count\n",
        _COMPARING,
    ),
    _kept(
        "a silent member holds up no comparison for ever",
        "verify() never ends while a member does not answer",
        f"{_FOLDER}/comparing.py",
        "            found.ticks_left -= 1\n",
        "",
        _COMPARING,
    ),
    _kept(
        "a learner that closed is forgotten",
        "a master keeps its journal, and waits, for a clone that is gone",
        "stores/group/leading.py",
        "            self.feeding.forget(member)\n",
        "            pass\n",
        _MEMBER,
    ),
    _kept(
        "dead lives are forgotten",
        "a master whose clones restart often gathers their ids until it takes no more",
        "stores/group/feeding.py",
        "                self.forget(member)\n",
        "                pass\n",
        _MEMBER,
    ),
    _kept(
        "a member that was forgotten learns it",
        "a clone that is taken for gone waits for ever for what it lacks",
        "stores/group/feeding.py",
        "            self._collected.append(Send(sender, word))\n",
        "",
        _MEMBER,
    ),
    _kept(
        "what a copy is given anew is told as differences",
        "readers of a deposed master's events are told of all its keys as if they were new",
        "endpoint/replicas/stores/part.py",
        "        self.core.machine.carry_over(old.machine)\n",
        "",
        ("tests/endpoint/replicas/stores/test_farewells.py",),
    ),
]
