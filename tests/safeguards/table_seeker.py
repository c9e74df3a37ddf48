"""The safeguards of the one rule by which readers of stores and logs follow a leader."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

SEEKER_TESTS = ("tests/stores/test_seeker.py", "tests/stores/test_one_rule.py")

SEEKER = [
    Safeguard(
        "the later leader leads",
        "readers stay with a leader that was replaced",
        "stores/seeker.py",
        "if self.leader is None or sender > self.leader:",
        "if self.leader is None:",
        SEEKER_TESTS,
    ),
    Safeguard(
        "readers follow no leader of an earlier term",
        "what is written at a leader that was deposed is lost when it hears of it",
        "stores/seeker.py",
        "        if self._is_fenced(sender):\n",
        "        if False:\n",
        SEEKER_TESTS,
    ),
    Safeguard(
        "a rival is believed at its third heartbeat",
        "late messages of the last leader look like a second one, and an alarm is given",
        "stores/seeker.py",
        "            if count + 1 == RIVAL_COUNT:\n",
        "            if not count:\n",
        SEEKER_TESTS,
    ),
    Safeguard(
        "heartbeats of a rival have a pause between them",
        "messages that a cut link brings together look like a second leader",
        "stores/seeker.py",
        "        if self._tick - last >= RIVAL_PAUSE_TICKS:\n",
        "        if True:\n",
        SEEKER_TESTS,
    ),
    Safeguard(
        "rivals that are remembered are counted",
        "an endpoint that invents leaders fills the memory of every reader",
        "stores/seeker.py",
        "        if other not in self._rivals and len(self._rivals) >= RIVALS_MAX:\n",
        "        if False:\n",
        SEEKER_TESTS,
    ),
    Safeguard(
        "silence of a leader",
        "a reader whose leader is gone looks well",
        "stores/seeker.py",
        "        if self._silent_ticks >= SILENCE_TICKS:\n",
        "        if False:\n",
        SEEKER_TESTS,
    ),
]
