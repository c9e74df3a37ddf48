"""A sample of ``make spark-kills``: a job with three kinds of state, on groups that lose leaders.

It takes more processor time than other files: seven processes are started, and three of them twice.
"""

from __future__ import annotations

import random

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

pyspark = pytest.importorskip("pyspark")

from peermesh.spark.configuration import spark_conf  # noqa: E402 - only where there is Spark, the line above says
from tests.spark_kills.counting import make_events, recount  # noqa: E402 - as the other imports
from tests.spark_kills.job import Job, settings_of, start, tell  # noqa: E402 - as the other imports
from tests.spark_kills.loop import place  # noqa: E402 - as the other imports
from tests.spark_kills.mesh import machines  # noqa: E402 - as the other imports

STARTS_MAX = 10


@pytest.fixture
def session(spark):
    """Set where state is kept, and put it back: a new session would not know the source."""
    settings = settings_of("changelog")
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_a_job_with_a_join_and_sessions_is_exact_while_leaders_are_killed(session, tmp_path):
    victims, told = ["log", "store", "gateway"], {}
    events = make_events("sample", 60, random.Random(5))
    assert len(recount(events).sessions) > 5
    with machines(tmp_path) as found, place(found) as at:
        known = session.sparkContext._jsc.hadoopConfiguration()
        for name, value in spark_conf(*found.http, name="kills").items():
            known.set(name.removeprefix("spark.hadoop."), value)
        job = Job("sample", found.peers, "webhdfs://kills/sample", str(tmp_path / "progress"),
                  at.feed(events), 12)  # fmt: skip
        for _ in range(STARTS_MAX):
            queries = start(session, job)
            try:
                while any(query.isActive for query in queries):
                    before = dict(told)
                    for query in queries:
                        query.awaitTermination(0.05)
                    tell(queries, job, told)
                    if victims and told != before:
                        found.kill(victims.pop(0))
                for query in queries:
                    query.awaitTermination()
                break
            except pyspark.errors.StreamingQueryException:
                for query in queries:  # an upload was under way: see docs/spark.md
                    query.stop()
        assert victims == []
        at.check("sample", events, {})
