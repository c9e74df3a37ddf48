"""The safeguards of logs whose follower is promoted."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

PROMOTED_LOGS = ("tests/stores/log/test_log_promotion.py",)

LOG_SUCCESSION = [
    Safeguard(
        "a keeper that hears of a later term gives up",
        "two keepers acknowledge appends to one log",
        "stores/log/keeper.py",
        "        if self._rivals.is_fenced(hello.known_epoch):\n",
        "        if False:\n",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "a follower takes in what its keeper remembers of producers and writers",
        "what a producer repeats after a promotion stands in the log twice",
        "stores/log/copy.py",
        "                self.memory.follow(event)\n",
        "                pass\n",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "a follower takes in a commit of its keeper whole",
        "an entry whose producer is not remembered is appended again after a promotion",
        "stores/log/copy.py",
        "        if isinstance(event, Remembered) and event.is_last:\n",
        "        if True:\n",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "a follower acknowledges what is in its backend",
        "an append is acknowledged that no follower has when all lose power",
        "stores/log/follower.py",
        "        committed = self.copy.committed_position\n",
        "        committed = sequence\n",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "receipts of a log wait for replicas",
        "an acknowledged append is lost with its keeper",
        "stores/log/keeper.py",
        "        self._release(self._gate.pass_through(sequence, answers))\n",
        "        self._release(answers)\n",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "who joins is not told of what waits for a commit",
        "a producer is told after a promotion that something is there that never was",
        "stores/log/memory.py",
        "if each[2] < ends[each[1]])",
        "if True)",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "what a deposed keeper alone has is cut off",
        "a follower serves entries that its keeper never had",
        "stores/log/copy.py",
        "            self._stage.cut_off(partition, own)\n            self.ends[partition] = own\n",
        "            pass\n",
        PROMOTED_LOGS,
    ),
    Safeguard(
        "the file of a copy is not led from without a promotion",
        "a deposed keeper's script that starts it again takes the lead, with what it has",
        "stores/disk/log.py",
        "            if kept and role is Role.COPY:\n",
        "            if False:\n",
        ("tests/endpoint/replicas/logs/test_logs.py",),
    ),
    Safeguard(
        "a deposed keeper follows when it is started again",
        "a deposed keeper's script that starts it again takes the lead, with what it has",
        "stores/disk/log.py",
        "            if kept and role is Role.DEPOSED:\n",
        "            if False:\n",
        ("tests/endpoint/replicas/logs/test_log_promotion.py",),
    ),
]
