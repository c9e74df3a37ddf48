"""What executors get: plain Python that speaks as the compiled packages do."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import cbor2
import pytest
from hypothesis import given, strategies as st

from peermesh.blocking import serve_webhdfs
from peermesh.spark import plain_cbor
from peermesh.spark.delivery import build
from peermesh.spark.records import is_reserved
from peermesh.testing.time_limits import limit

LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.floats() | st.text()
) | st.binary()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=5), max_leaves=20)

OPTIONS = {
    "max_depth": 6, "allow_indefinite": False, "allow_duplicate_keys": False,
    "strict_hashable_types": True,
}  # fmt: skip
DENIED = dict.fromkeys((*range(6), 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261))


def deny(value, immutable):
    raise ValueError("denied")


def outcome(library, data):
    """Decode with one of the two; give what came of it in words, and where it stopped."""
    stream = BytesIO(data)
    hooks = {**dict.fromkeys(DENIED, deny), **dict.fromkeys((1004, 43_000, 55_799), deny)}
    decoder = library.CBORDecoder(
        stream,
        semantic_decoders=hooks,
        tag_hook=lambda tag, _: ("tag", tag.tag, tag.value),
        object_hook=lambda table, _: ("map", tuple(table.items())),
        **OPTIONS,
    )
    try:
        value = decoder.decode(immutable=True)
    except Exception:
        return "refused"
    return repr(value), stream.tell()


@given(VALUES)
def test_both_write_the_same(value):
    assert plain_cbor.dumps(value) == cbor2.dumps(value)


@given(st.binary(max_size=30) | VALUES.map(cbor2.dumps))
def test_both_read_the_same_and_refuse_the_same(data):
    assert outcome(plain_cbor, data) == outcome(cbor2, data)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("delivery") / "peermesh.zip"
    build(path)
    return path


def test_the_zip_holds_only_plain_python(package):
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
    assert all(name.endswith((".py", ".pyc")) for name in names)
    assert {"cbor2.py", "cbor2.pyc"} <= set(names)
    assert not [name for name in names if name.startswith("peermesh/testing/")]


@pytest.mark.parametrize("is_ours", [True, False])
def test_bytecode_is_for_the_python_that_made_it_and_others_read_the_source(
    package, tmp_path, is_ours
):
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(package) as archive, zipfile.ZipFile(other, "w") as made:
        for name in archive.namelist():
            data = archive.read(name)
            is_foreign = name.endswith("c") and not is_ours
            made.writestr(name, b"\0\0\0\0" + data[4:] if is_foreign else data)
    script = "from wire import limits; print(limits.__file__)"
    found = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(other)}, cwd=tmp_path,
    )  # fmt: skip
    assert found.stdout.strip().endswith("wire/limits.pyc" if is_ours else "wire/limits.py")


SCRIPT = """
import sys
import peermesh.blocking as blocking, cbor2
compiled = [name for name, module in sys.modules.items()
            if (getattr(module, "__file__", None) or "").endswith(".so")
            and "site-packages" in module.__file__]
assert not compiled, compiled
assert cbor2.__file__.startswith(sys.argv[1]), cbor2.__file__
with blocking.Endpoint(forwarding=False) as endpoint:
    assert endpoint.peer("127.0.0.1", int(sys.argv[2]))
    log = endpoint.attach_log_proxy("orders")
    print([(entry.key, entry.value) for entry in log.read(0, 0)])
    print(log.append({"from": "zip"}).result(timeout=600).offset)
    with endpoint.attach_clone("table") as store:
        assert store.await_idle(timeout=600)
        print(store.get("a"))
"""


def test_a_process_with_nothing_but_the_zip_reads_and_writes(package, mesh):
    endpoint, peers = mesh
    log = endpoint.attach_log("orders")
    log.append({"n": 1, "at": 2.5, "big": 1 << 62}, key="k").result(timeout=limit())
    endpoint.attach_master("table").put("a", (1, "two", b"three")).result(limit())
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package)}
    port = peers.rpartition(":")[2]
    found = subprocess.run(
        [sys.executable, "-S", "-c", SCRIPT, str(package), port],  # -S: no site-packages
        capture_output=True, text=True, env=environment, check=False, cwd=package.parent,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [
        "[('k', Table({'at': 2.5, 'big': 4611686018427387904, 'n': 1}))]",
        "1",
        "(1, 'two', b'three')",
    ]
    assert log.read(0, 1)[0].value == {"from": "zip"}


CLUSTER = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from peermesh.spark import register

peers, checkpoint, place, flag, executors, delivery = sys.argv[1:]
spark = SparkSession.builder.config(map={
    **json.loads(delivery), "spark.master": f"local-cluster[{executors},1,600]",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    "spark.executor.memory": "600m", "spark.executor.cores": "1", "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
}).getOrCreate()
register(spark)

def where(rows):
    import cbor2, peermesh
    return [cbor2.__file__, peermesh.__file__]

for found in spark.sparkContext.parallelize([0, 1], 2).mapPartitions(where).collect():
    assert place in found, found

@udf("int")
def rest(value):
    if value == "11" and flag:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return int(value) % 4
        with open(f"/proc/{os.getppid()}/stat") as daemon:
            executor = int(daemon.read().rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)
    return int(value) % 4

log, store = {"peers": peers, "log": "orders"}, {"peers": peers, "store": "table"}
frame = spark.readStream.format("peermesh").options(**log, maxOffsetsPerTrigger="8").load()
counts = frame.select(rest("value").alias("rest")).groupBy("rest").count()
query = (counts.writeStream.format("peermesh").outputMode("complete")
    .options(**store, keyColumns="rest", valueColumn="count")
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
query.awaitTermination()
print(spark.read.format("peermesh").options(**store).load().count())
state = spark.read.format("statestore").load(checkpoint)
print(state.selectExpr("sum(value.count)").first()[0])
spark.stop()
"""


def by_py_files(package, folder):
    return "peermesh.zip", {"spark.submit.pyFiles": str(package)}


def by_archive(package, folder):
    """Pack what is installed, compiled modules and all."""
    path = folder / "deps.tar.gz"
    with tarfile.open(path, "w:gz") as archive, zipfile.ZipFile(package) as zipped:
        names = {name.partition("/")[0] for name in zipped.namelist()}
        for name in names - {"cbor2.py", "cbor2.pyc"} | {"cbor2"}:
            archive.add(Path(importlib.import_module(name).__file__).parent, name)
    arrow = Path(importlib.import_module("pyarrow").__file__).parent.parent
    settings = {"spark.archives": f"{path}#deps", "spark.executorEnv.PYTHONPATH": f"deps:{arrow}"}
    return "/deps/", settings


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("deliver", "executors", "is_killed"), [(by_py_files, 2, True), (by_archive, 1, False)]
)
def test_a_cluster_gets_the_mesh_with_the_job_and_loses_an_executor_without_harm(
    package, mesh, tmp_path, deliver, executors, is_killed
):
    """The executor is killed by a task of the second batch; state and result are exact."""
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    from peermesh.spark.local import JVM_OPTIONS, link_home

    place, delivery = deliver(package, tmp_path)
    endpoint, peers = mesh
    endpoint.attach_log("orders").append_batch(list(range(20))).result(timeout=limit())
    store = endpoint.attach_master("table")
    home = link_home(tmp_path / "home")
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": " ".join(JVM_OPTIONS),
    }
    flag = tmp_path / "killed"
    told = str(flag) if is_killed else ""
    with serve_webhdfs(endpoint.attach_master("checkpoints")) as gateway:
        checkpoint = f"webhdfs://{gateway.address}/job"
        arguments = [peers, checkpoint, place, told, str(executors), json.dumps(delivery)]
        found = subprocess.run(
            [sys.executable, "-c", CLUSTER, *arguments],
            capture_output=True, text=True, env=environment, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert found.returncode == 0, found.stderr[-5_000:]
    assert found.stdout.splitlines()[-2:] == ["4", "20"]
    assert {key: value for key, value in store.items() if not is_reserved(key)} == {
        0: 5, 1: 5, 2: 5, 3: 5,
    }  # fmt: skip
    assert flag.exists() == is_killed
    started = len(list(home.glob("work/app-*/[0-9]*")))
    assert started > executors if is_killed else started == executors, "another one comes for it"
