"""The pytest plugin: clusters as fixtures, worlds as parameters, and reports that explain.

Nothing of the mesh is imported before a test asks for it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from peermesh.brokers.edge.blocking import Broker as BlockingEdgeBroker
    from peermesh.brokers.edge.host import Host
    from peermesh.brokers.modules import ModuleBroker
    from peermesh.brokers.qos2.blocking import QoS2Broker as BlockingQoS2Broker
    from peermesh.brokers.qos2.broker import QoS2Broker
    from peermesh.testing.fixtures import BlockingFactory, ClusterFactory, StoreFactory
    from peermesh.testing.leaks import Resources
    from peermesh.testing.links.fixtures import OpenBlockingLink, OpenLink
    from peermesh.testing.report import Snapshot

WORLD_NAMES: Final = ("sim", "loopback", "process", "netns")
"""The worlds, named here too so that none has to be imported for the help text."""

DEFAULT_WORLD: Final = "loopback"

OPENED: Final = pytest.StashKey["list[ClusterFactory | BlockingFactory]"]()
"""Where a test keeps what made its clusters."""

MARKING: Final = "peermesh.testing.simulation.marking"
"""The plugin for tests in simulations. It does its own part where somebody has it without this."""

ASYNC_FIXTURES: Final = frozenset({"cluster", "master_with_clones", "edge_broker", "qos2_broker"})


# Options and markers.


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options."""
    if not pluginmanager.has_plugin(MARKING):
        sim = parser.getgroup("peermesh simulation")
        sim.addoption("--sim-seeds", type=int, metavar="N", help="run N seeds of each sim test")
        sim.addoption("--sim-seed", type=int, metavar="SEED", help="run this seed of sim tests")
    group = parser.getgroup("peermesh", "clusters of peermesh endpoints")
    group.addoption(
        "--peermesh-world",
        metavar="NAMES",
        help=f"run tests of clusters in these worlds: {', '.join(WORLD_NAMES)}, or all; "
        f"with commas between (default: what a test is marked with, else {DEFAULT_WORLD})",
    )
    group.addoption(
        "--peermesh-timeline",
        metavar="DIR",
        type=Path,
        help="write the history of each test's cluster as an HTML page into this directory",
    )
    group.addoption(
        "--peermesh-seed",
        metavar="N",
        type=int,
        default=0,
        help="the seed of random shapes, and of what links lose (default: 0)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and check the options."""
    if not config.pluginmanager.has_plugin(MARKING):
        config.addinivalue_line(
            "markers",
            "sim(seeds=20, faults=(), limit=3600, latency=0.0005, jitter=0.0003): run the test in "
            "a simulation, once for each seed",
        )
    config.addinivalue_line(
        "markers", f"worlds(*names): the worlds that this test makes sense in: {WORLD_NAMES}"
    )
    config.addinivalue_line(
        "markers", "leaks_allowed: do not fail if this test of a cluster leaves something behind"
    )
    unknown = set(_asked_worlds(config) or ()) - set(WORLD_NAMES)
    if unknown:
        raise pytest.UsageError(
            f"--peermesh-world: there is no {min(unknown)!r}: choose of {', '.join(WORLD_NAMES)}"
        )


def _asked_worlds(config: pytest.Config) -> list[str] | None:
    text = config.getoption("--peermesh-world")
    if text is None:
        return None
    return list(WORLD_NAMES) if text == "all" else [each for each in text.split(",") if each]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``world`` once in each world that it is for."""
    if "world" not in metafunc.fixturenames:
        return
    markers = list(metafunc.definition.iter_markers("worlds"))
    marked = list(markers[0].args) if markers else None
    asked = _asked_worlds(metafunc.config)
    if asked is None:
        names = marked or [DEFAULT_WORLD]
    else:
        names = [name for name in asked if marked is None or name in marked]
    skip = pytest.mark.skip(reason=f"it is for the worlds {', '.join(marked or ())}")
    instead = [pytest.param(name, marks=skip) for name in (asked or ())[:1]]
    metafunc.parametrize("world", names or instead, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """See that tests run in the simulation that they are for; only then is that imported."""
    if item.get_closest_marker("sim") is not None:
        if not item.config.pluginmanager.has_plugin(MARKING):
            from peermesh.testing.simulation import marking

            marking.pytest_itemcollected(item)
        return
    callspec = getattr(item, "callspec", None)
    is_async = inspect.iscoroutinefunction(getattr(item, "obj", None))
    if is_async and callspec is not None and callspec.params.get("world") == "sim":
        item.add_marker(pytest.mark.trio(run=_runner_of(item)), append=False)


def _runner_of(item: pytest.Item) -> Callable[..., None]:
    """Give what pytest-trio is to run a test with, in place of ``trio.run``."""
    seed = item.config.getoption("--peermesh-seed")

    def run_simulated(function: Callable[[], Awaitable[None]], **_: object) -> None:
        from peermesh.testing.simulation import Simulation, run

        async def main(_: Simulation) -> None:
            await function()

        error = run(seed, main).error
        if error is not None:
            error.add_note(f"replay: python -m pytest {item.nodeid!r} --peermesh-seed={seed}")
            raise error

    return run_simulated


# Fixtures.


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> None:
    """Stand for the ``Simulation`` of each seed, in tests with ``@pytest.mark.sim``."""
    if request.node.get_closest_marker("sim") is None:
        pytest.fail("the fixture 'simulation' is for tests with @pytest.mark.sim", pytrace=False)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> str:
    """Name the world that this test runs in; skips if the machine lacks it."""
    from peermesh.testing.worlds import world_class

    name: str = request.param
    problem = world_class(name).problem()
    if problem is not None:
        pytest.skip(f"world {name}: {problem}")
    return name


def _options(request: pytest.FixtureRequest, world: str, tmp_path: Path) -> dict[str, Any]:
    seed = request.config.getoption("--peermesh-seed")
    return {"world": world, "directory": tmp_path, "seed": seed}


@pytest.fixture
async def cluster(
    request: pytest.FixtureRequest, world: str, tmp_path: Path
) -> AsyncIterator[ClusterFactory]:
    """Hand out what opens clusters.

    To be used as ``ring = await cluster(5, "ring")``; the arguments are those of ``open_cluster``.
    """
    from peermesh.testing.fixtures import open_factory

    async with open_factory(_options(request, world, tmp_path)) as factory:
        request.node.stash.setdefault(OPENED, []).append(factory)
        yield factory


@pytest.fixture
async def master_with_clones(cluster: ClusterFactory) -> StoreFactory:
    """Hand out what opens a store with clones, each at a node of its own.

    To be used as ``master, clones = await master_with_clones(2)``.
    """
    from peermesh.testing.fixtures import StoreFactory

    return StoreFactory(cluster)


@pytest.fixture
def blocking_cluster(
    request: pytest.FixtureRequest, world: str, tmp_path: Path
) -> Iterator[BlockingFactory]:
    """Hand out what opens clusters in plain tests, where nothing is awaited.

    To be used as ``ring = blocking_cluster(5, "ring")``.
    """
    from peermesh.testing import leaks
    from peermesh.testing.fixtures import BlockingFactory

    before = leaks.look()
    with BlockingFactory(_options(request, world, tmp_path)) as factory:
        request.node.stash.setdefault(OPENED, []).append(factory)
        yield factory
    if _is_checked(request.node):
        _check(before)


@pytest.fixture
async def link_to() -> AsyncIterator[OpenLink]:
    """Hand out what opens links to any TCP service, which end with the test.

    To be used as ``link = await link_to("127.0.0.1", 8000)``.
    """
    from peermesh.testing.links.fixtures import open_links

    async with open_links() as opener:
        yield opener


@pytest.fixture
def blocking_link_to() -> Iterator[OpenBlockingLink]:
    """Hand out what opens links in plain tests.

    To be used as ``link = blocking_link_to("127.0.0.1", 8000)``.
    """
    from peermesh.testing.links.fixtures import open_blocking_links

    with open_blocking_links() as opener:
        yield opener


@pytest.fixture
def module_broker() -> Iterator[ModuleBroker]:
    """Hold a broker of modules for the test; what a module raises fails it in the end."""
    from peermesh.testing.modules import open_module_broker

    with open_module_broker() as broker:
        yield broker


@pytest.fixture
async def edge_broker() -> AsyncIterator[Host]:
    """Hold an edge broker for the test; ``edge_broker.registry`` is for its clients."""
    from peermesh.testing.brokers import open_test_edge_broker

    async with open_test_edge_broker() as host:
        yield host


@pytest.fixture
def blocking_edge_broker(request: pytest.FixtureRequest) -> Iterator[BlockingEdgeBroker]:
    """Hold an edge broker for a plain test; ``blocking_edge_broker.registry`` is for clients."""
    from peermesh.testing.brokers import hold_edge_broker

    with hold_edge_broker(is_checked=_is_checked(request.node)) as broker:
        yield broker


@pytest.fixture
async def qos2_broker(tmp_path: Path) -> AsyncIterator[QoS2Broker]:
    """Hold a QoS-2 broker for the test, at its ``publisher_port`` and ``consumer_port``."""
    from peermesh.testing.brokers import open_test_qos2_broker

    async with open_test_qos2_broker(tmp_path / "qos2") as broker:
        yield broker


@pytest.fixture
def blocking_qos2_broker(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[BlockingQoS2Broker]:
    """Hold a QoS-2 broker for a plain test, at its ``publisher_port`` and ``consumer_port``."""
    from peermesh.testing.brokers import hold_qos2_broker

    is_checked = _is_checked(request.node)
    with hold_qos2_broker(tmp_path / "qos2", is_checked=is_checked) as broker:
        yield broker


def _is_checked(item: pytest.Item) -> bool:
    return item.get_closest_marker("leaks_allowed") is None


# Running and reporting.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip what a world cannot do, and see that nothing is left behind of async clusters."""
    if ASYNC_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) or not _is_checked(item):
        return (yield from _skipping_unsupported())
    from peermesh.testing import leaks

    before = leaks.look()
    result = yield from _skipping_unsupported()
    _check(before)
    return result


def _check(before: Resources) -> None:
    """Fail a test that has left something behind; where in pytest that is found helps nobody."""
    from peermesh.testing import leaks

    try:
        leaks.check(before)
    except leaks.LeakError as error:
        text = f"LeakError: {error}"
    else:
        return
    pytest.fail(text, pytrace=False)


def _skipping_unsupported() -> Generator[None, object, object]:
    try:
        return (yield)
    except BaseException as error:
        reason = _unsupported(error)
        if reason is None:
            raise
    pytest.skip(reason)


def _unsupported(error: BaseException) -> str | None:
    """Give the text of an ``Unsupported`` that went through a test, alone or alone in groups."""
    faults = sys.modules.get("peermesh.testing.faults")
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    is_unsupported = faults is not None and isinstance(error, faults.Unsupported)
    return str(error) if is_unsupported else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the clusters of a failed test, and write timelines if asked."""
    report = yield
    opened = item.stash.get(OPENED, [])
    if call.when == "call" and opened:
        directory = item.config.getoption("--peermesh-timeline")
        for snapshot in [each for factory in opened for each in factory.snapshots()]:
            if report.failed:
                from peermesh.testing.report import report as text_of

                report.sections.append(("peermesh cluster", text_of(snapshot)))
            if directory is not None:
                _write_timeline(item, directory, snapshot, report)
    return report


def _write_timeline(
    item: pytest.Item,
    directory: Path,
    snapshot: Snapshot,
    report: pytest.TestReport,
) -> None:
    from handshake.private_files import make_directory, open_private
    from peermesh.testing.timeline import page

    make_directory(directory)
    name = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-")
    path = directory / f"{name}.html"
    number = 1
    while path.exists() and number < 1_000:
        number += 1
        path = directory / f"{name}-{number}.html"
    with open_private(path, "w") as file:
        file.write(page(snapshot, item.nodeid))
    report.sections.append(("peermesh timeline", str(path)))
