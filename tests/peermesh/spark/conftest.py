"""What the tests with Spark share: one session for all, quick to start and quiet."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest

from peermesh.blocking import Endpoint
from peermesh.testing.time_limits import limit
from wire.errors import StaleData

ROOT = Path(__file__).parent.parent.parent.parent

SETTINGS = {
    "spark.master": "local[2,4]",  # tasks are tried again, as in a cluster
    "spark.sql.session.timeZone": "UTC",  # as the demo, which has tests here
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="module", autouse=True)
def _leaves_the_mesh():
    """End what this process joined for Spark's sake, which is kept for later tasks of a worker."""
    yield
    joining = sys.modules.get("peermesh.spark.joining")
    if joining is not None:
        joining.leave()
    # py4j tells Java of each object that goes, over a new connection if none is free: to a later
    # test that looks for what it left behind, that is a socket of its own.
    gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Give a session of which the workers import this tree."""
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # Spark's own, about pandas and numpy
        from peermesh.spark import register
        from peermesh.spark.local import LocalSpark

        path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        before = {name: os.environ.get(name) for name in ("SPARK_HOME", "TMPDIR")}
        with LocalSpark("peermesh tests", tmp_path_factory.mktemp("spark"), SETTINGS) as local:
            session = local.session()
            register(session)
            yield session
        assert {name: os.environ.get(name) for name in before} == before, "it is as it was"


@pytest.fixture
def mesh():
    """Give an endpoint that others peer with, and the option ``peers`` for it."""
    with Endpoint() as endpoint:
        yield endpoint, f"127.0.0.1:{endpoint.listen()}"


@pytest.fixture
def group(mesh):
    """Give what has a store kept by a group of three in the mesh: as one of the three sees it."""
    with ExitStack() as stack:

        def keep(name):
            for voter in "abc":
                endpoint = stack.enter_context(Endpoint(name=voter))
                endpoint.peer("127.0.0.1", int(mesh[1].rpartition(":")[2]))
                store = endpoint.attach_replica(name, voters=tuple("abc"))
            store.await_leader(timeout=limit())
            return store

        yield keep


class OftenAway:
    """A store whose leader is away at every other read, for longer than the read waits."""

    def __init__(self, store):
        self._store = store
        self._is_away = False
        self.absences = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def at_master(self):
        self._is_away = not self._is_away
        if self._is_away:
            self.absences += 1
            raise StaleData("store table: no answer within 5 s")
        return self._store.at_master()


@pytest.fixture
def often_away(monkeypatch):
    """Give what makes a store one whose leader is often away, and is back at once."""
    from peermesh.spark import joining

    monkeypatch.setattr(joining, "PAUSE_SECONDS", 0.0)
    return OftenAway


STARTS_MAX = 10


@pytest.fixture(scope="session")
def finish():
    """Give what runs all that is available to its end: ``finish(writer, folder)``.

    Spark gives a Python process of its own ten seconds to come up, whatever else the machine does;
    a query that has not begun because of that is started again.
    """

    def run(writer, folder, *place):
        writer = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True)
        for _ in range(STARTS_MAX):
            query = writer.start(*place)
            try:
                query.awaitTermination()
            except Exception as error:
                if "Python worker failed to connect back" not in str(error):
                    raise
                continue
            return query
        raise AssertionError(f"no Python process came up in {STARTS_MAX} times ten seconds")

    return run
