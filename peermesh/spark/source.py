"""The data source ``format("peermesh")``: a log as a stream, its range or a store as a table.

Spark starts half a dozen processes for a query, most of which only look at options and pickle
readers. So what joins the mesh is imported where it is used: that is most of their start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    In,
    InputPartition,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from peermesh.spark.filters import KeyFilter
from peermesh.spark.offsets import Point, Range, Written, cut, from_json, rows_of, to_json
from peermesh.spark.options import (
    End,
    SourceOptions,
    check_names,
    read_sink_options,
    read_source_options,
)
from wire.errors import InvalidData

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from peermesh.spark.joining import Membership
    from peermesh.spark.reading import LogReader, Plan
    from peermesh.spark.tables import Stretch
    from stores.log.bookmarks import LogBookmark

FORMAT: Final = "peermesh"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


@dataclass
class LogPartition(InputPartition):
    """A task: what it reads of a log, several partitions or a part of one."""

    wanted: tuple[Range, ...]
    log: LogBookmark
    """Which log it was when the read was planned."""


@dataclass
class StorePartition(InputPartition):
    """A task: what it reads of a store."""

    key_filter: KeyFilter
    stretch: Stretch
    since: int
    """The revision of the master when the read was planned."""


def _join(options: SourceOptions) -> Membership:
    from peermesh.spark.joining import join

    return join(options.address)


def _open(options: SourceOptions) -> LogReader:
    from peermesh.spark.reading import LogReader

    if options.log is None:
        raise InvalidData("only a log can be read as a stream: give the option log")
    return LogReader(_join(options).log(options.log), fails_on_loss=options.fails_on_loss)


def _tasks(options: SourceOptions, plan: Plan) -> list[InputPartition]:
    _settle()
    tasks = cut(plan.wanted, options.task_count(rows_of(plan.wanted)))
    return [LogPartition(each, plan.log) for each in tasks]


def _read(
    options: SourceOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Read what a task has to read, in an executor."""
    from peermesh.spark.columns import log_batches

    if not isinstance(partition, LogPartition):  # Spark makes one where there is none.
        return iter(())
    assert options.log is not None, options
    pieces = _open(options).read(partition.wanted, partition.log)
    return _given(options, schema, log_batches(pieces, options.log, options.value_format))


def _settle() -> None:
    from peermesh.spark.joining import settle

    settle()


def _given(
    options: SourceOptions, schema: StructType, found: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give what a task has read, parsed if that is wanted."""
    given = _parsed(options, schema, found)
    _settle()
    return given


def _parsed(
    options: SourceOptions, schema: StructType, found: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if options.value_schema is None:
        return found
    from peermesh.spark.fast_json import RecordReader

    return RecordReader(schema["value"].dataType).batches(found)


def _check(options: SourceOptions, schema: StructType) -> None:
    """Raise ``InvalidData`` for types that ``valueSchema`` does not take."""
    _parsed(options, schema, iter(()))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A log as a stream; it lives in a process of the driver, and ``read`` in the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Hold nothing that cannot be pickled."""
        _check(options, schema)
        self._options = options
        self._schema = schema
        self._opened: LogReader | None = None
        self._target: Point | None = None
        self._unaccounted = 0
        """Entries that were found to be lost when how far their batch goes was in the checkpoint
        already: the next batch counts them."""

    def __getstate__(self) -> dict[str, object]:
        """Leave behind what is of this process."""
        return {**self.__dict__, "_opened": None}

    def _log(self) -> LogReader:
        self._opened = self._opened or _open(self._options)
        return self._opened

    def initialOffset(self) -> Written:  # noqa: N802 - Spark's name
        """Say where a query without a checkpoint begins."""
        starting = self._options.starting
        return to_json(self._log().point(starting, End.EARLIEST, "startingOffsets"))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Say how much a batch takes."""
        rows_max = self._options.rows_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember where the log ends now: nothing behind that is read."""
        self._target = self._log().end(fresh=True)

    def latestOffset(self, start: Written, limit: ReadLimit) -> Written:  # noqa: N802 - Spark's name
        """Say how far the next batch goes; waits at the leader while there is nothing."""
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        wait = self._options.poll_seconds
        reader, begin = self._log(), from_json(start)
        if self._target is not None and reader.look().is_other_than(self._target):
            self.prepareForTriggerAvailableNow()
        goal = reader.next_end(begin, rows_max, self._target, wait)
        if goal.end.offsets == begin.offsets and not goal.lost:
            return start  # Another text would be another batch.
        skipped = begin.skipped + rows_of(goal.lost) + self._unaccounted
        self._unaccounted = 0
        return to_json(replace(goal.end, skipped=skipped))

    def reportLatestOffset(self) -> Written:  # noqa: N802 - Spark's name
        """Say where the log ends, for the progress of the query."""
        return to_json(Point(self._log().look().ends()))

    def partitions(self, start: Written, end: Written) -> Sequence[InputPartition]:
        """Plan a batch."""
        begin, goal = from_json(start), from_json(end)
        plan = self._log().plan(begin, goal)
        accounted = goal.skipped - begin.skipped
        self._unaccounted += max(0, rows_of(plan.lost) - accounted)
        return _tasks(self._options, plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read what a task has to read, in an executor."""
        return _read(self._options, self._schema, partition)

    def commit(self, end: Written) -> None:
        """Move the cursor of the consumer that was named, for whoever looks at lags."""
        if self._options.consumer is not None:
            self._log().commit(self._options.consumer, from_json(end))


class LogRangeReader(DataSourceReader):
    """A range of a log as a table."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Hold nothing that cannot be pickled."""
        _check(options, schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan: tasks of as many rows each."""
        options, reader = self._options, _open(self._options)
        start = reader.point(options.starting, End.EARLIEST, "startingOffsets")
        end = reader.point(options.ending, End.LATEST, "endingOffsets")
        return _tasks(options, reader.plan(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read what a task has to read, in an executor."""
        return _read(self._options, self._schema, partition)


class StoreReader(DataSourceReader):
    """The entries of a store as a table, all of one moment."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Hold nothing that cannot be pickled."""
        _check(options, schema)
        self._options = options
        self._schema = schema
        self._filter = KeyFilter()

    def partitions(self) -> Sequence[InputPartition]:
        """Plan: tasks of as many rows each, of one moment, which is now or later."""
        from peermesh.spark.tables import Stretch, plan_table

        options = self._options
        assert options.store is not None, options
        since = _join(options).revision(options.store)
        stretches = [Stretch()]
        if self._filter.keys is None:
            reader = _join(options).store(options.store).not_before(since)
            stretches = plan_table(reader, options.rows_per_task, options.task_count)
        _settle()
        return [StorePartition(self._filter, each, since) for each in stretches]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read in an executor, at the nearest replica."""
        from peermesh.spark.columns import store_batches
        from peermesh.spark.tables import read_table

        assert isinstance(partition, StorePartition), partition
        options = self._options
        assert options.store is not None, options
        reader = _join(options).store(options.store).not_before(partition.since)
        pages = read_table(reader, partition.key_filter, partition.stretch)
        found = store_batches(pages, options.store, options.value_format)
        return _given(options, self._schema, found)


class FilteringStoreReader(StoreReader):
    """A reader that looks up only the keys that a query asks for."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what is about the key, and hand the rest back to Spark."""
        for each in filters:
            if isinstance(each, EqualTo) and each.attribute == ("key",):
                self._filter = self._filter.with_keys([each.value])
            elif isinstance(each, In) and each.attribute == ("key",):
                self._filter = self._filter.with_keys(each.value)
            elif isinstance(each, StringStartsWith) and each.attribute == ("key",):
                self._filter = self._filter.with_prefix(each.value)
            else:
                yield each


class MeshSource(DataSource):
    """The data source ``peermesh``; see ``docs/spark-data.md``."""

    cores: ClassVar[int | None] = None
    """Cores of a Spark on one machine."""

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - a mapping of Spark's own
        """Take the options, of source or sink; raises ``InvalidData`` for one that neither has."""
        super().__init__(options)
        self._given = dict(options)
        check_names(self._given)

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Give the columns."""
        return read_source_options(self._given).columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a table; raises ``InvalidData``."""
        options = read_source_options(self._given, self.cores, is_stream=False)
        if options.store is None:
            return LogRangeReader(options, schema)
        return self.store_reader(options, schema)

    store_reader: ClassVar[type[StoreReader]] = StoreReader
    """Reads a store as a table."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read a stream; raises ``InvalidData``."""
        options = read_source_options(self._given, self.cores, is_stream=True)
        return LogStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Write a table; raises ``InvalidData``, for mode overwrite among others."""
        if overwrite:
            raise InvalidData("mode overwrite would erase what others wrote: clear it, and append")
        from peermesh.spark.sink import MeshWriter, Sink

        return MeshWriter(Sink(read_sink_options(self._given), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        """Write a stream; in mode complete, keys that are gone from the result stay."""
        from peermesh.spark.sink import MeshStreamWriter, Sink

        return MeshStreamWriter(Sink(read_sink_options(self._given, is_stream=True), schema))


class FilteringMeshSource(MeshSource):
    """The data source of a session that pushes filters down; otherwise Spark refuses it."""

    store_reader: ClassVar[type[StoreReader]] = FilteringStoreReader


def register(spark: SparkSession) -> None:
    """Make ``format("peermesh")`` known to a session, with filters pushed down."""

    class Registered(FilteringMeshSource):
        # Spark's processes get the class of a function as it is, with what it says here.
        cores = _local_cores(spark)

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(Registered)


def _local_cores(spark: SparkSession) -> int | None:
    """Give the cores of a Spark on one machine; a cluster has other ones whenever it likes."""
    context = getattr(spark, "sparkContext", None)  # A session over Spark Connect has none.
    if context is None or not re.match(r"local(\[|$)", context.master):
        return None
    cores: int = context.defaultParallelism
    return cores
