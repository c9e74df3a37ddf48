"""The safeguards of logs whose follower is promoted."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_MACHINE = ("tests/stores/log/test_log_machine.py",)

LOG_SUCCESSION = [
    Safeguard(
        "a keeper that hears of a later term gives up",
        "two keepers acknowledge appends to one log",
        "stores/replica/facts.py",
        "        return is_master and is_of_another_lead(term, self.epoch)\n",
        "        return False\n",
        ("tests/stores/replica/test_promotion.py",),
    ),
    Safeguard(
        "a follower takes in what its keeper remembers of producers and writers",
        "what a writer repeats after a promotion stands in the log twice",
        "stores/log/machine.py",
        "        self._writers.perform(body.writer, body.last_request, body.resolved, body.outcomes)\n",
        "",
        _MACHINE,
    ),
    Safeguard(
        "a follower takes in a commit of its keeper whole",
        "entries are there without the cursors that were moved with them",
        "stores/log/machine.py",
        "        apply_cursors(self.cursors, body.forgotten, body.moved)\n",
        "",
        _MACHINE,
    ),
    Safeguard(
        "a follower acknowledges what is in its backend",
        "an append is acknowledged that no follower has when all lose power",
        "stores/group/following.py",
        "        return min(self._state.journal.durable, self._consumer.next_sequence - 1)\n",
        "        return self._consumer.next_sequence - 1\n",
        ("tests/stores/group/test_group_schedules.py",),
    ),
    Safeguard(
        "the file of a copy is not led from without a promotion",
        "a deposed keeper's script that starts it again takes the lead, with what it has",
        "endpoint/replicas/logs/attachments.py",
        "        if wanted.leads_alone and leads is False:\n",
        "        if False:\n",
        ("tests/endpoint/replicas/logs/test_logs.py",),
    ),
    Safeguard(
        "a log of an earlier release that did not lead founds nothing",
        "a deposed keeper's script that starts it again takes the lead, with what it has",
        "stores/disk/log_founding.py",
        "        if refusal is not None:\n",
        "        if False:\n",
        ("tests/stores/disk/test_log_upgrade.py",),
    ),
]
