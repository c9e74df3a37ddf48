"""Random worlds around a group whose machine is a log's: see ``tests.stores.group.world``.

``python -m tests.stores.log --seeds 1000`` runs many.
"""

from __future__ import annotations

import pytest

from tests.stores.log.model import run_seed

SEEDS = 8
"""Some seconds; the command runs as many as wanted."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_group_of_logs_keeps_its_promises_in_a_random_world(seed):
    failure, figures = run_seed(seed)
    assert failure is None
    assert figures["operations"] > 50
