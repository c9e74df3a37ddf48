"""What tasks have in the process of a worker, which Spark keeps for the next ones."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from peermesh.spark.joining import settle
from peermesh.spark.options import read_source_options
from peermesh.testing.time_limits import limit

types = pytest.importorskip("pyspark.sql.types")
pytest.importorskip("pyarrow")


def is_passed_over(thing: object) -> bool:
    """Tell whether the collector looks at a thing no more."""
    return gc.is_tracked(thing) and not any(each is thing for each in gc.get_objects())


@pytest.mark.parametrize("kind", ["log", "store"])
def test_the_collector_passes_over_what_a_plan_and_the_first_task_have_opened(mesh, kind):
    from peermesh.spark.source import LogRangeReader, StoreReader

    endpoint, peers = mesh
    endpoint.attach_log("log").append_batch(["x"] * 10).result(timeout=limit())
    endpoint.attach_master("store").put("k", "v").result(timeout=limit())
    make = {"log": LogRangeReader, "store": StoreReader}[kind]
    reader = make(read_source_options({"peers": peers, kind: kind}), types.StructType())
    settle.cache_clear()  # This process is that of other tests, too.
    by_plan: list[object] = [[]]
    [task] = reader.partitions()
    assert is_passed_over(by_plan)
    settle.cache_clear()  # A task is in another process.
    by_first_task: list[object] = [[]]
    assert sum(batch.num_rows for batch in reader.read(task)) > 0
    assert is_passed_over(by_first_task)
    by_next_task: list[object] = [[]]
    list(reader.read(task))
    assert not is_passed_over(by_next_task), "once is enough: what tasks leave is collected"


def test_a_task_that_reads_text_imports_no_pandas():
    program = """
import sys
from peermesh.spark.columns import log_batches
from peermesh.spark.offsets import Piece
from peermesh.spark.options import ValueFormat
from stores.log.runs import Run
from wire.encoding import encode

texts = ["x", "\u00e9", "long" * 9, "longer" * 99]
run = Run(0, 0, 4, 0, encode(tuple(each for text in texts for each in (None, encode(text)))))
[batch] = log_batches([Piece(run, 0, 4)], "orders", ValueFormat.STRING)
assert batch["value"].to_pylist() == texts, batch["value"]
print("pandas" in sys.modules)
"""
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit(60))
    assert found.stdout.split() == ["False"]
