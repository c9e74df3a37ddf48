"""Each rule that is switched off is noticed: a rule that nothing misses is none, or is untested."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from tests.stores.group.product import load
from tests.stores.group.rules import RULES
from tests.stores.group.schedules import SCHEDULES

SEEDS = {"no_ledger": 5, "no_log_check": 10, "removed_votes_again": 5}
"""Rules that random worlds notice at once; ``--off`` of the command shows the others."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.switch)
def test_a_schedule_notices_a_rule_that_is_off(rule):
    model = load("tests.stores.group.schedules", rule.changes)
    with pytest.raises((model.Violation, AssertionError)):  # of that model, and not of this one
        getattr(model, rule.schedule)()


@pytest.mark.parametrize("rule", [each for each in RULES if each.switch in SEEDS])
def test_random_worlds_notice_a_rule_that_is_off(rule):
    model = load("tests.stores.group.world", rule.changes)
    assert any(model.run_seed(seed)[0] for seed in range(SEEDS[rule.switch]))


def test_every_schedule_belongs_to_a_rule():
    assert {schedule.__name__ for schedule in SCHEDULES} == {rule.schedule for rule in RULES}


def test_a_core_without_a_rule_leaves_the_one_with_all_rules_in_its_place() -> None:
    before = import_module("stores.group.member")
    load("tests.stores.group.schedules", ())
    assert sys.modules["stores.group.member"] is before
    assert sys.modules["stores.group"].member is before, "what patches it by name finds it there"
