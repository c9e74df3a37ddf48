"""Two networks under one contract: the simulated, and the kernel's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from peermesh.testing.simulation import simulate

Contract = Callable[[], Awaitable[None]]


@pytest.fixture(params=["simulated", "kernel"])
def over_the_network(request: pytest.FixtureRequest) -> Callable[[Contract], None]:
    def run(contract: Contract) -> None:
        if request.param == "kernel":
            trio.run(contract)
            return
        for seed in range(10):
            simulate(lambda _: contract(), seed=seed)

    return run
