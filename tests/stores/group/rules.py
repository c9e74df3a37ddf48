"""Which rules can be switched off, and what then has to notice it."""

from __future__ import annotations

from typing import NamedTuple

from tests.safeguards.safeguard import Safeguard
from tests.safeguards.table_group import GROUP


class Rule(NamedTuple):
    switch: str
    changes: tuple[Safeguard, ...]
    schedule: str
    """The schedule by hand that goes wrong without the rule."""


_WHY = "the model alone: it has no counterpart in the core"


def _in_model(switch: str, file: str, text: str, replacement: str) -> Rule:
    safeguard = Safeguard(switch, _WHY, f"tests/stores/group/{file}", text, replacement, ())
    return Rule(switch, (safeguard,), switch)


def _in_core(file: str, text: str, replacement: str) -> Safeguard:
    return Safeguard(
        "one of two", "either holds alone", f"stores/group/{file}", text, replacement, ()
    )


_TWICE = (
    _in_core(
        "ballot.py", "        is_whole = promises.is_whole and mark", "        is_whole = mark"
    ),
    _in_core(
        "ballot.py",
        "        if not self.is_whole or mark <= position:\n",
        "        if mark <= position:\n",
    ),
)
"""That regression is on the disk, and that the mark stays put meanwhile: either is enough."""

RULES = (
    *(Rule(each.name.removeprefix("group: "), (each,), each.name[7:]) for each in GROUP),
    Rule("regression_in_memory", _TWICE, "regressed_again"),
    _in_model(
        "memory_keeps_identity",
        "schedules.py",
        "    return MemberId(member.name, member.life + 1)\n",
        "    return member\n",
    ),
    _in_model(
        "no_ledger",
        "lists.py",
        "        if writer.request >= push.request:\n",
        "        if False:\n",
    ),
    _in_model(
        "writers_by_name",
        "lists.py",
        "            return index\n        if isinstance(body, Pushed)",
        "            self.writers[2] = Writer(body.nonce, index=2)\n"
        "            return 2\n        if isinstance(body, Pushed)",
    ),
)
