"""Writers killed with -9 at each of their steps: whoever comes next makes it whole, once."""

from __future__ import annotations

import signal
import subprocess
import sys

from peermesh import Batch
from peermesh.spark import Ledger
from peermesh.spark.options import Writing
from peermesh.spark.publication import publish_in_log, publish_in_store
from peermesh.spark.records import PIECE_COUNT_MAX, Taken, is_reserved

ROW_COUNT = PIECE_COUNT_MAX + 200
"""Two pieces for a store."""

DYING = """
import os, signal, sys
from peermesh import Batch
from peermesh.blocking import Log, StoreProxy
from peermesh.spark import Ledger
from peermesh.spark.joining import join
from peermesh.spark.options import Writing, read_address
from peermesh.spark.publication import publish_in_log, publish_in_store
from peermesh.spark.records import Taken

peers, query, job, steps, count = sys.argv[1:]
left = [int(steps)]

def dying(change):
    def step(*arguments, **options):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        receipt = change(*arguments, **options)
        receipt.result(600)  # it has happened: nothing of the next step has
        return receipt
    return step

membership = join(read_address({"peers": peers}))
if job == "log":
    log = membership.log("out")
    Log.append_entries = dying(Log.append_entries)
    publish_in_log(log, query, 0, [(f"{n % 9}", (query, n)) for n in range(int(count))], 60)
else:
    store = membership.store("table")
    for name in ("put", "batch", "erase"):
        setattr(StoreProxy, name, dying(getattr(StoreProxy, name)))
    if job == "sink":
        rows = [((query, n), n) for n in range(int(count))]
        publish_in_store(store, query, 0, Taken(rows), Writing.UPSERT, 60)
    else:
        once = Ledger(store, query).once(lambda frame, batch: Batch().increment(query), "q")
        once(None, 0)
os.kill(os.getpid(), signal.SIGKILL)  # all is done, and Spark has not heard of it
"""


def die_at_every_step(peers, job, step_count):
    """Run a writer for each step, at which it is killed; give the names of the queries."""
    queries = [f"{job}{steps}" for steps in range(step_count)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", DYING, peers, query, job, str(steps), str(ROW_COUNT)]
        )
        for steps, query in enumerate(queries)
    ]
    assert {writer.wait() for writer in writers} == {-signal.SIGKILL}
    return queries


def content(store):
    return {key: value for key, value in store.items() if not is_reserved(key)}


def test_a_sink_that_is_killed_at_any_step_of_a_large_batch_is_made_up_for(mesh):
    with mesh[0].attach_master("table") as store:
        # Two pieces are staged, decided on, and published; and once more after all of it.
        queries = die_at_every_step(mesh[1], "sink", 6)
        published = [query for query in queries if store.get((query, ROW_COUNT - 1)) is not None]
        assert published == queries[5:], "only the last has got to its second piece"
        for query in queries:
            rows = [((query, number), number) for number in range(ROW_COUNT)]
            publish_in_store(store, query, 0, Taken(rows), Writing.UPSERT, 30)
        assert content(store) == {
            (query, number): number for query in queries for number in range(ROW_COUNT)
        }
        staged = [key for key, _ in store.items() if is_reserved(key) and key[1] == "staged"]
        assert staged == []


def test_a_sink_that_is_killed_between_two_partitions_of_a_log_is_made_up_for(mesh):
    log = mesh[0].attach_log("out", partitions=3)
    queries = die_at_every_step(mesh[1], "log", 4)
    for query in queries:
        rows = [(f"{number % 9}", (query, number)) for number in range(ROW_COUNT)]
        publish_in_log(log, query, 0, rows, 30)
    found = []
    for partition, span in log.offsets().items():
        at = 0
        while at < span.end:
            entries = log.read(partition, at, 4_096)
            found += [entry.value for entry in entries]
            at = entries[-1].offset + 1
    assert sorted(found) == sorted(
        (query, number) for query in queries for number in range(ROW_COUNT)
    )


def test_a_ledger_that_is_killed_at_any_step_counts_once(mesh):
    with mesh[0].attach_master("table") as store:
        jobs = die_at_every_step(mesh[1], "ledger", 3)  # the run begins, the batch happens
        assert content(store) == {jobs[2]: 1}
        for job in jobs:
            Ledger(store, job).once(lambda frame, batch, job=job: Batch().increment(job), "q")(
                None, 0
            )
        assert content(store) == dict.fromkeys(jobs, 1)
