"""``@pytest.mark.sim(seeds=200)``: an asynchronous test that runs once for each seed.

A pytest plugin by itself (``-p peermesh.testing.simulation.marking``). The test takes the fixture
``simulation`` and is run by ``simulate``, never by pytest-trio; other fixtures have to be
synchronous. ``--sim-seeds 5`` changes the number of seeds of all such tests, ``--sim-seed 7`` runs
that one alone, as the variable ``PEERMESH_SIM_SEED`` does, with ``PEERMESH_SIM_SCHEDULE`` for its
faults. These two are what a failure prints, in one line to paste.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import fields, replace
from typing import Any, Final, NoReturn

import pytest

from peermesh.testing.simulation.running import Options, Run, explain, run, smallest
from peermesh.testing.simulation.schedule import Schedule, read, write
from peermesh.testing.simulation.world import Simulation

SEEDS: Final = 20
"""Seeds of a test that does not say how many: a second for a mesh of five."""

SEED_VARIABLE: Final = "PEERMESH_SIM_SEED"
SCHEDULE_VARIABLE: Final = "PEERMESH_SIM_SCHEDULE"

_OPTIONS: Final = frozenset(field.name for field in fields(Options))


PLUGIN: Final = "peermesh.testing.plugin"
"""The plugin of the package has these options, the mark and the fixture, too: it calls on this one
for tests that are marked."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add what is said on the command line."""
    if pluginmanager.has_plugin(PLUGIN):
        return
    group = parser.getgroup("peermesh simulation")
    group.addoption("--sim-seeds", type=int, metavar="N", help="run N seeds of each sim test")
    group.addoption("--sim-seed", type=int, metavar="SEED", help="run this one seed of sim tests")


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the mark."""
    if config.pluginmanager.has_plugin(PLUGIN):
        return
    config.addinivalue_line(
        "markers",
        "sim(seeds=20, faults=(), limit=3600, latency=0.0005, jitter=0.0003): run the test in a "
        "simulation, once for each seed",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run marked tests here, before anybody else takes them for trio tests."""
    mark = item.get_closest_marker("sim")
    if mark is None or not isinstance(item, pytest.Function):
        return
    if not inspect.iscoroutinefunction(item.obj):
        raise pytest.UsageError(f"{item.nodeid}: a sim test is an 'async def'")
    item.obj = _in_simulation(item, item.obj, mark)


@pytest.fixture(name="simulation")
def _simulation(request: pytest.FixtureRequest) -> None:
    """The ``Simulation`` of each seed; its place is taken when the seed runs."""
    if request.node.get_closest_marker("sim") is None:
        pytest.fail("the fixture 'simulation' is for tests with @pytest.mark.sim", pytrace=False)


def _in_simulation(
    item: pytest.Function, test: Callable[..., Awaitable[None]], mark: pytest.Mark
) -> Callable[..., None]:
    said = dict(mark.kwargs)
    seeds = said.pop("seeds", mark.args[0] if mark.args else SEEDS)
    if unknown := sorted(set(said) - _OPTIONS):
        raise pytest.UsageError(
            f"{item.nodeid}: sim has no option {unknown[0]!r}; there are seeds, "
            + ", ".join(sorted(_OPTIONS))
        )
    options = Options(**said)

    @functools.wraps(test)
    def run_seeds(**arguments: Any) -> None:  # noqa: ANN401 - whatever fixtures give
        async def main(simulation: Simulation) -> None:
            if "simulation" in arguments:
                arguments["simulation"] = simulation
            await test(**arguments)

        chosen, faults = _chosen(item.config, seeds)
        for seed in chosen:
            these = options if faults is None else replace(options, faults=faults)
            result = run(seed, main, these)
            if result.error is not None:
                _fail(item, result, main, these)

    del run_seeds.__wrapped__  # Nobody looks through it, and takes the test for trio's.
    return run_seeds


def _chosen(config: pytest.Config, seeds: int) -> tuple[Iterable[int], Schedule | None]:
    """Give the seeds to run, and their faults if somebody said which."""
    seed = config.getoption("sim_seed")
    if seed is None and SEED_VARIABLE in os.environ:
        seed = int(os.environ[SEED_VARIABLE])
    if seed is None:
        return range(config.getoption("sim_seeds") or seeds), None
    text = os.environ.get(SCHEDULE_VARIABLE)
    return (seed,), None if text is None else read(text)


def _fail(
    item: pytest.Function,
    result: Run[None],
    main: Callable[[Simulation], Awaitable[None]],
    options: Options,
) -> NoReturn:
    if isinstance(result.error, (pytest.skip.Exception, pytest.xfail.Exception)):
        raise result.error
    small = smallest(result, main, options)
    line = replay_line(item.nodeid, small, has_faults=bool(options.faults))
    raise explain(small, main, options, replay=line)


def replay_line(nodeid: str, failed: Run[None], *, has_faults: bool) -> str:
    """Write the line to paste into a shell that runs a failed seed again.

    ``has_faults`` tells whether the seed alone would mean more faults than were needed.
    """
    words = [f"{SEED_VARIABLE}={failed.seed}"]
    if has_faults:
        words.append(f"{SCHEDULE_VARIABLE}={shlex.quote(write(failed.schedule))}")
    if "PYTHONHASHSEED" in os.environ:
        words.insert(0, f"PYTHONHASHSEED={os.environ['PYTHONHASHSEED']}")
    return " ".join([*words, "python -m pytest", shlex.quote(nodeid)])
