"""Real Spark with its checkpoints at a gateway: the results equal a plain recount, each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from peermesh import blocking
from peermesh.testing.time_limits import limit

pytestmark = pytest.mark.spark

pyspark = pytest.importorskip("pyspark")

from py4j.protocol import Py4JJavaError  # noqa: E402 - only where there is Spark, the line above says

from peermesh.spark import trial  # noqa: E402 - only where there is Spark, the line above says
from peermesh.spark.configuration import spark_conf  # noqa: E402 - only where there is Spark, the line above says
from peermesh.spark.trial import Kind  # noqa: E402 - only where there is Spark, the line above says
from tests.peermesh.gateways.webhdfs.processes import (  # noqa: E402 - as the other imports
    Gateway,
    leader_of,
    three_gateways,
)
from tests.peermesh.gateways.webhdfs.toll import toll  # noqa: E402 - as the other imports

STATEFUL = [Kind.HDFS, Kind.ROCKSDB, Kind.CHANGELOG]
LONG = [Kind.HDFS, Kind.CHANGELOG]  # much like the other two
FILES = 8


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gateway]]:
    """Gateways at the replicas of one group."""
    with three_gateways(tmp_path_factory.mktemp("three")) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway in this process, in front of a store on disk."""
    path = tmp_path_factory.mktemp("store") / "checkpoints.db"
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("checkpoints", blocking.Backend.SQLite, path=str(path)) as store,
        blocking.serve_webhdfs(store) as gateway,
    ):
        yield gateway.address


@pytest.fixture(scope="module")
def spark(spark, gateway, three):
    """A session of its own, since kinds of jobs are set in it; it knows the gateways."""
    known = spark.sparkContext._jsc.hadoopConfiguration()
    for setting in (spark_conf(gateway), spark_conf(*(each.address for each in three.values()))):
        for name, value in setting.items():
            known.set(name.removeprefix("spark.hadoop."), value)
    return spark.newSession()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Some of the licences that come with Spark."""
    folder = Path(pyspark.__file__).parent / "licenses"
    return [path.read_text("utf-8", "replace") for path in sorted(folder.iterdir())[:FILES]]


@pytest.fixture
def source(tmp_path, texts):
    trial.write_source(tmp_path / "source", texts)
    return tmp_path / "source"


def await_batches(query, output, count):
    """Wait until so many batches have told their result; raises what ended the query."""
    while len(trial.batches_of(output)) < count:
        assert not query.awaitTermination(0.02), "it ended too early"


def run(spark, kind, source, checkpoint, output, **options):
    query = trial.start(spark, kind, source, checkpoint, output, **options)
    query.awaitTermination()
    return query


def state_of(spark, checkpoint):
    """Read what the job keeps, with Spark's own reader of state stores."""
    rows = spark.read.format("statestore").load(checkpoint).collect()
    return Counter({row.key.word: row.value["count"] for row in rows})


def assert_exact(kind, source, output, *, batches_min=FILES):
    found = list(trial.batches_of(output))
    assert found == list(range(len(found))), "each batch once"
    assert batches_min <= len(found) <= FILES
    assert trial.counts_of(kind, output) == trial.recount(source)


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        *(
            pytest.param("webhdfs", kind, marks=[pytest.mark.long] * (kind in LONG))
            for kind in Kind
        ),
        ("mesh", Kind.HDFS),
    ],
)
def test_a_job_that_is_stopped_and_started_again_counts_as_if_it_had_not(
    spark, gateway, source, tmp_path, scheme, kind
):
    checkpoint, output = f"{scheme}://{gateway}/{tmp_path.name}", tmp_path / "output"
    query = trial.start(spark, kind, source, checkpoint, output)
    await_batches(query, output, 3)
    query.stop()
    run(spark, kind, source, checkpoint, output)
    assert_exact(kind, source, output)
    if kind in STATEFUL:
        assert state_of(spark, checkpoint) == trial.recount(source)


def start_driver(kind, source, checkpoint, output, gateway):
    return subprocess.Popen(
        [
            sys.executable, "-m", "peermesh.spark.trial", "--kind", kind, "--source", str(source),
            "--checkpoint", checkpoint, "--output", str(output),
            "--settings", json.dumps(spark_conf(gateway)),
        ],
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(output.parent)},  # who is killed leaves files
    )  # fmt: skip


def await_files(driver, output, count):
    while not output.is_dir() or len(trial.batches_of(output)) < count:
        try:
            driver.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(driver.communicate()[1].decode()[-2_000:])


def test_a_driver_that_is_killed_in_the_middle_is_made_up_for(spark, gateway, source, tmp_path):
    checkpoint, output = f"webhdfs://{gateway}/killed", tmp_path / "output"
    driver = start_driver(Kind.HDFS, source, checkpoint, output, gateway)
    await_files(driver, output, 2)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
    run(spark, Kind.HDFS, source, checkpoint, output)
    # Killed when it had noted a file, and not its batch, Spark's source puts two into one.
    assert_exact(Kind.HDFS, source, output, batches_min=FILES - 1)
    assert state_of(spark, checkpoint) == trial.recount(source)


def test_of_two_drivers_on_one_checkpoint_one_is_stopped(spark, gateway, source, tmp_path):
    checkpoint, output = f"webhdfs://{gateway}/two", tmp_path / "output"

    def let_another_pass(batch):
        if batch == 2:
            driver = start_driver(Kind.HDFS, source, checkpoint, output, gateway)
            told = driver.communicate()[1].decode()
            assert driver.returncode == 0, told[-2_000:]

    with pytest.raises(pyspark.errors.StreamingQueryException) as stopped:
        run(spark, Kind.HDFS, source, checkpoint, output, meanwhile=let_another_pass)
    assert "CONCURRENT_STREAM_LOG_UPDATE" in str(stopped.value)
    assert_exact(Kind.HDFS, source, output)
    assert state_of(spark, checkpoint) == trial.recount(source)


def test_checkpoints_of_rdds_and_tables_and_files_of_parquet_work(spark, gateway):
    base = f"webhdfs://{gateway}/batch"
    context = spark.sparkContext
    context.setCheckpointDir(f"{base}/checkpoints")
    numbers = context.parallelize(range(10_000), 2).map(lambda number: number * number)
    numbers.checkpoint()
    assert numbers.sum() == sum(number * number for number in range(10_000))
    assert numbers.isCheckpointed()
    table = spark.range(100_000).selectExpr("id", "id % 7 AS rest").checkpoint()
    assert table.groupBy("rest").count().count() == 7
    # Larger than a chunk, written and read by parallel tasks, with a rename of the directory.
    table.write.parquet(f"{base}/table.parquet")
    again = spark.read.parquet(f"{base}/table.parquet")
    assert again.selectExpr("sum(id)").first()[0] == sum(range(100_000))
    table.write.mode("overwrite").json(f"{base}/table.parquet")
    assert spark.read.json(f"{base}/table.parquet").count() == 100_000


def test_hadoops_client_fetches_and_sends_a_token(spark, tmp_path):
    token = "a-token-of-some-length"
    hadoop = spark._jvm.org.apache.hadoop
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("guarded", blocking.Backend.Memory) as store,
        blocking.serve_webhdfs(store, token=token) as gateway,
    ):
        settings = hadoop.conf.Configuration()
        uri = spark._jvm.java.net.URI(f"webhdfs://{gateway.address}/")
        path = hadoop.fs.Path("/file")
        stranger = hadoop.fs.FileSystem.newInstance(uri, settings)
        with pytest.raises(Py4JJavaError, match="AccessControlException"):
            stranger.create(path)
        for key, value in spark_conf(gateway.address, token=token).items():
            settings.set(key.removeprefix("spark.hadoop."), value)
        known = hadoop.fs.FileSystem.newInstance(uri, settings)
        stream = known.create(path)
        stream.write(bytearray(b"some"))
        stream.close()
        assert known.getFileStatus(path).getLen() == 4


def test_a_query_waits_for_a_gateway_that_is_killed_and_started_again_on_its_file(
    spark, source, tmp_path
):
    gateway = Gateway("alone", tmp_path, is_alone=True)
    gateway.start([])
    starts = []

    def kill(batch):
        """The batch goes on at once, and meets no gateway until that has started."""
        if batch in {2, 5}:
            gateway.end()
            starts.append(pool.submit(gateway.start, []))

    with ThreadPoolExecutor() as pool:
        try:
            place, output = f"webhdfs://{gateway.address}/query", tmp_path / "output"
            query = run(spark, Kind.HDFS, source, place, output, meanwhile=kill)
            assert [each.result() for each in starts] == [None, None]
            assert query.exception() is None
            assert_exact(Kind.HDFS, source, output)
            assert state_of(spark, place) == trial.recount(source)
        finally:
            pool.shutdown()
            gateway.end()


@pytest.fixture
def killed(three):
    """Gateways that a test kills, of which the last one may be dead: after it all are back."""
    found = []
    yield found
    if found:
        found[-1].start([each.mesh for each in three.values() if each is not found[-1]])


def test_a_query_goes_on_when_the_gateway_that_leads_is_killed(
    spark, three, killed, source, tmp_path
):
    checkpoint, output = "webhdfs://mesh/query", tmp_path / "output"

    def kill_the_leader(batch):
        """The batch goes on at once, at the other two; what is killed comes back later."""
        if batch in {2, 4, 6}:
            if killed:
                killed[-1].start([each.mesh for each in three.values() if each is not killed[-1]])
            killed.append(three[leader_of(three)])
            killed[-1].end()

    query = run(spark, Kind.HDFS, source, checkpoint, output, meanwhile=kill_the_leader)
    assert len(killed) == 3
    assert query.exception() is None
    assert_exact(Kind.HDFS, source, output)
    assert state_of(spark, checkpoint) == trial.recount(source)


LOGS = ("offsets", "state")
"""Other files of a checkpoint, each of which takes a minute."""


@pytest.fixture
def own(spark, three):
    """A gateway in the driver's process, whose replica follows the group of the three."""
    with blocking.Endpoint() as endpoint:
        for each in three.values():
            endpoint.peer("127.0.0.1", int(each.mesh.rpartition(":")[2]))
        with (
            endpoint.attach_replica("files", patience=limit(30)) as store,
            blocking.serve_webhdfs(store) as gateway,
        ):
            yield gateway.address


@pytest.mark.parametrize(
    "log", ["commits", *(pytest.param(each, marks=pytest.mark.long) for each in LOGS)]
)
def test_a_driver_with_a_gateway_of_its_own_waits_where_one_dies_during_an_upload(  # noqa: PLR0913 - fixtures
    spark, three, killed, own, source, tmp_path, log
):
    """The leader's process is killed between the head and the content of a file."""

    def kill_the_leader():
        killed.append(three[leader_of(three)])
        killed[-1].end()

    def is_meant(target):
        folder, _, name = target.partition("?")[0].rpartition("/")
        return f"/{log}" in folder and name.lstrip(".").startswith("3.")

    output = tmp_path / "output"
    with toll(own, is_meant, kill_the_leader) as way:
        settings = spark_conf(way.address, *(each.address for each in three.values()), name="own")
        known = spark.sparkContext._jsc.hadoopConfiguration()
        services = known.get("dfs.nameservices")
        for name, value in settings.items():
            known.set(name.removeprefix("spark.hadoop."), value)
        query = run(spark, Kind.HDFS, source, f"webhdfs://own/{tmp_path.name}", output)
        known.set("dfs.nameservices", services)
        assert killed, "an upload was met"
    assert query.exception() is None
    assert_exact(Kind.HDFS, source, output)
