"""What Spark reads of a log and of a store, in turns with an earlier release and with plain files.

``python -m benchmarks.spark_reading --old FOLDER``, where FOLDER is a checkout of the earlier one,
such as ``git worktree add FOLDER COMMIT``. Each has a Spark and a keeper of its own. Without
``--old`` there are the ratios to plain files alone.

With ``--tasks`` there is no Spark: it is the processor time of a task's Python, with Spark's own
conversion to Arrow, which others on the machine change little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
LINE: Final = (
    '{{"id": {0}, "user": "u{1}", "at": "2026-01-01T00:00:{2:02}Z", "amount": {3},'
    ' "note": "xxxxxxxxxxxxxxxxxxxx"}}'
)
SCHEMA: Final = "id BIGINT, user STRING, at TIMESTAMP, amount DOUBLE, note STRING"
PARTITIONS: Final = 4
PLACES: Final = "key STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
SMALL: Final = 20
"""Entries of each of a thousand partitions, and thousands of one."""

BARS: Final = (
    ("string", "old string", "at least 4.0"),
    ("from_json", "text files, from_json", "at least 0.9"),
    ("from_json", "text files, parsed", ""),
    ("held, from_json", "text files, from_json", "what any source in Python can reach"),
    ("fast", "JSON files", "at least 1.0"),
    ("held, fast", "JSON files", "what any source in Python can reach"),
    ("a thousand partitions", "one partition", "at least 0.5"),
    ("store", "old store", "at least 10.0"),
)
"""Rates, divided: a thousand partitions take twice the time of one at most."""

TASKS: Final = 2
"""Tasks that read what is held in files, as many as there are threads: none costs less."""

TICKS: Final = os.sysconf("SC_CLK_TCK")


def line(number: int) -> str:
    return LINE.format(number, number % 1_000, number % 60, number / 7)


# -- the keeper ------------------------------------------------------------------------------------


def keep(rows: int, stored: int) -> None:
    """Keep what is read, until there is no more input."""
    from peermesh import Batch
    from peermesh.blocking import Endpoint

    with Endpoint() as endpoint:
        bulk = endpoint.attach_log("bulk", partitions=PARTITIONS)
        many = endpoint.attach_log("many", partitions=1_000)
        one = endpoint.attach_log("one")
        table = endpoint.attach_master("table")
        receipts: list[Any] = []
        for at in range(0, rows // PARTITIONS, 1_000):
            texts = [line(number) for number in range(at, at + 1_000)]
            receipts += [bulk.append_batch(texts, partition=n) for n in range(PARTITIONS)]
        few = [line(number) for number in range(SMALL)]
        receipts += [many.append_batch(few, partition=number) for number in range(1_000)]
        receipts += [one.append_batch(few * 50) for _ in range(SMALL)]
        for at in range(0, stored, 1_000):
            batch = Batch()
            for number in range(at, at + 1_000):
                batch = batch.put(f"key{number:08}", line(number))
            receipts.append(table.batch(batch))
        for receipt in receipts:
            receipt.result(600)
        print(endpoint.listen(), flush=True)
        sys.stdin.read()


# -- a session -------------------------------------------------------------------------------------


def serve(port: int, folder: Path) -> None:
    """Run the cases that are named on the input, one a line, and say how long each took."""
    from peermesh.spark import local, register

    # Spark compiles as it does for others, not as quickly as it can.
    local.JVM_OPTIONS = tuple(each for each in local.JVM_OPTIONS if "TieredStop" not in each)
    settings = {"spark.master": "local[2]", "spark.sql.session.timeZone": "UTC"}
    with local.LocalSpark("benchmark", folder, settings) as started:
        session = started.session()
        register(session)
        cases = cases_of(session, f"127.0.0.1:{port}", folder)
        print(json.dumps(sorted(cases)), flush=True)
        for name in sys.stdin:
            print(json.dumps(cases[name.strip()]()), flush=True)


def cases_of(spark: Any, peers: str, folder: Path) -> Mapping[str, Callable[[], float]]:
    from pyspark.sql import functions as f

    def load(**options: str) -> Any:
        return spark.read.format("peermesh").options(peers=peers, **options).load()

    def timed(make: Callable[[], Any]) -> Callable[[], float]:
        def run() -> float:
            begin = time.perf_counter()
            make().write.format("noop").mode("overwrite").save()
            return time.perf_counter() - begin

        return run

    cases = {
        "string": timed(lambda: load(log="bulk")),
        "a thousand partitions": timed(lambda: load(log="many")),
        "one partition": timed(lambda: load(log="one")),
        "store": timed(lambda: load(store="table")),
    }
    try:
        from peermesh.spark import parsed
    except ImportError:
        cases["valueSchema"] = timed(lambda: load(log="bulk", valueSchema=SCHEMA))
        return cases
    texts = str(folder / "texts")
    spark.dataSource.register(source_of_held())

    def held(kind: str, columns: str) -> Any:
        path = str(folder / kind)
        return spark.read.format("held").options(path=path, columns=columns).load()

    def write() -> float:
        begin = time.perf_counter()
        load(log="bulk", minPartitions=str(PARTITIONS)).select("value").write.text(texts)
        hold(peers, folder)
        return time.perf_counter() - begin

    def reader() -> float:
        """Give the processor time of reading, without Spark."""
        begin = time.process_time()
        for _ in read_bulk(peers):
            pass
        return time.process_time() - begin

    record = f.from_json("value", SCHEMA)
    return cases | {
        "files": write,
        "reader alone": reader,
        "from_json": timed(lambda: parsed(load(log="bulk"), SCHEMA)),
        "fast": timed(lambda: parsed(load(log="bulk", valueSchema=SCHEMA), SCHEMA)),
        "held, string": timed(lambda: held("string", f"{PLACES}, value STRING")),
        "held, from_json": timed(lambda: parsed(held("string", f"{PLACES}, value STRING"), SCHEMA)),
        "held, fast": timed(
            lambda: parsed(
                held("fast", f"{PLACES}, value STRUCT<{SCHEMA}>, unparsed STRING"), SCHEMA
            )
        ),
        "text files, from_json": timed(lambda: spark.read.text(texts).select(record)),
        "text files, parsed": timed(lambda: parsed(spark.read.text(texts), SCHEMA)),
        "JSON files": timed(lambda: spark.read.schema(SCHEMA).json(texts)),
    }


# -- what is held in files -------------------------------------------------------------------------


def read_bulk(peers: str) -> Iterator[Any]:
    """Read the log without Spark, as batches of Arrow."""
    from peermesh.spark.columns import log_batches
    from peermesh.spark.joining import join
    from peermesh.spark.offsets import Range
    from peermesh.spark.options import ValueFormat, read_address
    from peermesh.spark.reading import LogReader

    log = LogReader(join(read_address({"peers": peers})).log("bulk"), fails_on_loss=True)
    wanted = [Range(number, 0, end) for number, end in log.look().ends().items()]
    yield from log_batches(log.read(wanted), "bulk", ValueFormat.STRING)


def hold(peers: str, folder: Path) -> None:
    """Write what the source gives to Spark into files of Arrow, as text and parsed."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from peermesh.spark.fast_json import RecordReader

    batches = list(read_bulk(peers))
    parsed = list(RecordReader(StructType.fromDDL(SCHEMA)).batches(batches))
    for kind, each in (("string", batches), ("fast", parsed)):
        with pa.ipc.new_file(str(folder / kind), each[0].schema) as file:
            for batch in each:
                file.write_batch(batch)


def source_of_held() -> type:
    """Make a source that hands batches on as a file has them: what any source in Python costs."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    tasks = TASKS

    class Reader(DataSourceReader):
        def __init__(self, path: str) -> None:
            self._path = path

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            file = pa.ipc.open_file(pa.memory_map(self._path))
            for number in range(partition.value, file.num_record_batches, tasks):
                yield file.get_batch(number)

    class Held(DataSource):
        @classmethod
        def name(cls) -> str:
            return "held"

        def schema(self) -> str:
            return str(self.options["columns"])

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["path"])

    return Held


# -- a task ----------------------------------------------------------------------------------------


def read_tasks(port: int) -> None:
    """Say how many rows a core reads in a second: of a log, of many partitions, and of a store."""
    from pyspark.sql import types
    from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

    from peermesh.spark import options, source

    is_old = hasattr(options, "read_options")
    read = options.read_options if is_old else options.read_source_options
    log = types.StructType().add("topic" if is_old else "key", "string").add("partition", "integer")
    log = log.add("offset", "long").add("timestamp", "timestamp").add("value", "string")
    store = types.StructType().add("key", "string").add("value", "string").add("revision", "long")
    rates = {}
    for name, place, schema in (
        ("string", {"log": "bulk"}, log),
        ("a thousand partitions", {"log": "many"}, log),
        ("store", {"store": "table"}, store),
    ):
        kind = source.LogRangeReader if "log" in place else source.StoreReader
        reader = kind(read({"peers": f"127.0.0.1:{port}", **place}), schema)
        for _ in range(2):  # The first one joins, and sorts keys.
            parts, rows = reader.partitions(), 0
            begin = time.process_time()
            for part in parts:
                found = records_to_arrow_batches(iter(reader.read(part)), 10_000, schema, None)
                rows += sum(batch.num_rows for batch in found)
            rates[name] = rows / (time.process_time() - begin)
    print(json.dumps(rates), flush=True)
    os._exit(0)  # The endpoint's thread goes on.


def measure_tasks(options: argparse.Namespace) -> None:
    """Print what a core reads, of both releases in turns."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        keepers = {
            prefix: (tree, keeper_of(tree, options, stack)[1])
            for prefix, tree in trees(options).items()
        }
        for _ in range(options.rounds):
            for prefix, (tree, port) in keepers.items():
                with started(tree, "tasks", port) as task:
                    assert task.stdout is not None
                    for name, rate in json.loads(task.stdout.readline()).items():
                        found.setdefault(prefix + name, []).append(rate)
    print("| a task's Python | rows/s of a core |\n|---|---:|")
    for name, each in sorted(found.items()):
        print(f"| {name} | {median(each):,.0f} |")


# -- the run ---------------------------------------------------------------------------------------


class Took(NamedTuple):
    """What a run took."""

    seconds: float
    processor_seconds: float


def processor_seconds(*roots: int) -> float:
    """Give the processor time of processes and all that they have started."""
    parents, spent = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended.
        process = int(place.name)
        parents[process], spent[process] = int(words[1]), sum(map(int, words[11:15]))
    found = 0
    for process in spent:
        above = process
        while above not in roots and above in parents:
            above = parents[above]
        found += spent[process] if above in roots else 0
    return found / TICKS


class Session:
    """A session in a process of its own, of one release."""

    def __init__(self, process: subprocess.Popen[str], keeper: int) -> None:
        self._process = process
        self._roots = process.pid, keeper
        self.cases: list[str] = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def run(self, case: str) -> Took:
        """Run a case; processor time is that of the session, all its processes, and its keeper."""
        assert self._process.stdin is not None
        before = processor_seconds(*self._roots)
        print(case, file=self._process.stdin, flush=True)
        seconds: float = self._answer()
        return Took(seconds, processor_seconds(*self._roots) - before)


@contextmanager
def started(tree: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run this file with the packages of a checkout; it ends when its input does.

    Spark's own Python processes look for packages where they run first, so that is the checkout.
    """
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=tree,
    )  # fmt: skip
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def trees(options: argparse.Namespace) -> dict[str, Path]:
    """Give the checkouts by what comes before the names of their cases."""
    return {"": ROOT} if options.old is None else {"": ROOT, "old ": options.old}


def keeper_of(
    tree: Path, options: argparse.Namespace, stack: ExitStack
) -> tuple[subprocess.Popen[str], int]:
    """Start a keeper of a checkout, and give it with its port."""
    keeper = stack.enter_context(started(tree, "keeper", options.rows, options.stored))
    assert keeper.stdout is not None
    return keeper, int(keeper.stdout.readline())


def measure(options: argparse.Namespace) -> dict[str, list[Took]]:
    """Give what each case took, once for each round."""
    found: dict[str, list[Took]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="peermesh-bench-")))
        sessions = {}
        for prefix, tree in trees(options).items():
            keeper, port = keeper_of(tree, options, stack)
            place = folder / (prefix or "new")
            place.mkdir()
            process = stack.enter_context(started(tree, "session", port, place))
            sessions[prefix] = Session(process, keeper.pid)
        sessions[""].run("files")
        for number in range(options.rounds + 1):
            for case in options.cases or sorted({c for s in sessions.values() for c in s.cases}):
                for prefix, session in sessions.items():
                    is_slow = prefix and case in ("a thousand partitions", "one partition")
                    if case == "files" or case not in session.cases or (is_slow and number != 1):
                        continue
                    took = session.run(case)
                    if number:  # The first round warms up.
                        found.setdefault(prefix + case, []).append(took)
                    words = f"{took.seconds:.2f} s, {took.processor_seconds:.2f} s of processors"
                    print(f"{number}: {prefix}{case} {words}", file=sys.stderr, flush=True)
    return found


def report(found: Mapping[str, list[Took]], options: argparse.Namespace) -> None:
    rows = {"store": options.stored, "a thousand partitions": 20_000, "one partition": 20_000}
    count = {name: rows.get(name.removeprefix("old "), options.rows) for name in found}
    print("| case | rows/s | rows for a second of processors |\n|---|---:|---:|")
    for name in sorted(found):
        wall, processors = (count[name] / median(each) for each in zip(*found[name], strict=True))
        print(f"| {name} | {wall:,.0f} | {processors:,.0f} |")
    print("\n| ratio of a round | by time | by processors | wanted |\n|---|---:|---:|---|")
    for name, against, words in BARS:
        if name not in found or against not in found:
            continue
        ratios = [
            median(count[name] / one / (count[against] / other) for one, other in pairs)
            for pairs in (
                [
                    (one[at], other[at])
                    for one, other in zip(found[name], found[against], strict=False)
                ]
                for at in (0, 1)
            )
        ]
        print(f"| {name} / {against} | {ratios[0]:.2f} | {ratios[1]:.2f} | {words} |")


def main() -> None:
    if sys.argv[1:2] == ["keeper"]:
        keep(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["session"]:
        serve(int(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["tasks"]:
        read_tasks(int(sys.argv[2]))
    else:
        parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
        parser.add_argument("--old", type=Path, help="a checkout of an earlier release")
        parser.add_argument("--rows", type=int, default=400_000, help="entries of the log")
        parser.add_argument("--stored", type=int, default=1_000_000, help="entries of the store")
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--cases", nargs="*", help="these alone, such as string store")
        parser.add_argument("--tasks", action="store_true", help="without Spark, by processors")
        options = parser.parse_args()
        if options.tasks:
            measure_tasks(options)
        else:
            report(measure(options), options)


if __name__ == "__main__":
    main()
