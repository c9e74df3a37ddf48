"""What the tests with Spark share: one session for a module, quick to start and quiet."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

from peermesh.blocking import Endpoint

ROOT = Path(__file__).parent.parent.parent.parent

SETTINGS = {
    "spark.master": "local[2,4]",  # tasks are tried again, as in a cluster
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c: %m%n%ex
"""


@pytest.fixture(scope="module", autouse=True)
def _leaves_the_mesh():
    """End what this process joined for Spark's sake: it is kept for later tasks of a worker."""
    yield
    joining = sys.modules.get("peermesh.spark.joining")
    if joining is not None:
        joining.leave()


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """Give a session of which the workers import this tree."""
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # Spark's own, about pandas and numpy
        from pyspark.sql import SparkSession

        from peermesh.spark import register

        folder = tmp_path_factory.mktemp("spark")
        logging = folder / "log4j2.properties"
        logging.write_text(LOGGING)
        path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        options = (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"
            f" -Djava.io.tmpdir={folder} -Dlog4j2.configurationFile={logging.as_uri()}"
        )
        for name, value in {
            "PYTHONPATH": os.pathsep.join(path),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": options,
        }.items():
            patch.setenv(name, value)
        builder = SparkSession.builder.appName("peermesh tests").config(map=SETTINGS)
        session = builder.config("spark.local.dir", str(folder)).getOrCreate()
        register(session)
        yield session
        session.stop()


@pytest.fixture
def mesh():
    """Give an endpoint that others peer with, and the option ``peers`` for it."""
    with Endpoint() as endpoint:
        yield endpoint, f"127.0.0.1:{endpoint.listen()}"


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
