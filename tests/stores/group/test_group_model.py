"""Random worlds around real members: see ``world``. ``python -m tests.stores.group`` runs many."""

from __future__ import annotations

import pytest

from tests.stores.group.world import World, run_seed

SEEDS = 24
"""Some seconds; the command runs as many as wanted."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_group_keeps_its_promises_in_a_random_world(seed):
    failure, figures = run_seed(seed)
    assert failure is None
    assert figures["operations"] > 50


def test_a_seed_is_one_world():
    assert run_seed(3) == run_seed(3)


def test_random_worlds_draw_every_kind_of_fault():
    total = sum((run_seed(seed)[1] for seed in range(8)), start=type(World(0).figures)())
    for fault in ("regressed", "wiped", "shortened", "restored", "changes", "transfers"):
        assert total[fault], fault
