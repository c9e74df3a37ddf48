"""Random worlds around a group whose machine is a store's: see ``tests.stores.group.world``.

``python -m tests.stores.table --seeds 1000`` runs many.
"""

from __future__ import annotations

import pytest

from tests.stores.table.model import run_seed

SEEDS = 8
"""Some seconds; the command runs as many as wanted."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_group_of_tables_keeps_its_promises_in_a_random_world(seed):
    failure, figures = run_seed(seed)
    assert failure is None
    assert figures["operations"] > 50


def test_compare_and_set_is_missed_and_met():
    figures = run_seed(2)[1]
    assert figures["missed"]
