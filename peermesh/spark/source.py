"""The data source ``format("peermesh")``: a log as a stream, its range or a store as a table.

Spark starts half a dozen processes for a query, most of which only look at options and pickle
readers. So what joins the mesh is imported where it is used: that is most of their start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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

from peermesh.spark.columns import converter, ddl, log_row, store_row
from peermesh.spark.filters import KeyFilter
from peermesh.spark.offsets import Offsets, Range, from_json, to_json
from peermesh.spark.options import End, Options, read_options
from wire.errors import InvalidData

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from peermesh.spark.joining import Membership
    from peermesh.spark.reading import LogReader

FORMAT: Final = "peermesh"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


@dataclass
class LogPartition(InputPartition):
    """A task: what it reads of a log."""

    wanted: Range


@dataclass
class StorePartition(InputPartition):
    """A task: what it reads of a store."""

    key_filter: KeyFilter
    since: int
    """The revision of the master when the read was planned."""


def _join(options: Options) -> Membership:
    from peermesh.spark.joining import join

    return join(options.address)


def _open(options: Options) -> LogReader:
    from peermesh.spark.reading import LogReader

    if options.log is None:
        raise InvalidData("only a log can be read as a stream: give the option log")
    return LogReader(_join(options).log(options.log), fails_on_loss=options.fails_on_loss)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A log as a stream; it lives in a process of the driver, and ``read`` in the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Hold nothing that cannot be pickled."""
        self._options = options
        self._schema = schema
        self._target: Offsets | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Say where a query without a checkpoint begins."""
        return to_json(_open(self._options).resolve(self._options.starting, End.EARLIEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Say how much a batch takes."""
        rows_max = self._options.rows_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember where the log ends now: nothing behind that is read."""
        self._target = _open(self._options).ends()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Say how far the next batch goes; waits at the keeper while there is nothing."""
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        wait = self._options.poll_seconds
        reader = _open(self._options)
        return to_json(reader.next_end(from_json(start), rows_max, self._target, wait))

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Say where the log ends, for the progress of the query."""
        return to_json(_open(self._options).ends())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan a batch."""
        planned = _open(self._options).plan(from_json(start), from_json(end))
        return [LogPartition(wanted) for wanted in planned]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Read what a task has to read, in an executor."""
        assert isinstance(partition, LogPartition), partition
        return _log_rows(self._options, self._schema, partition.wanted)

    def commit(self, end: dict[str, int]) -> None:
        """Move the cursor of the consumer that was named, for whoever looks at lags."""
        options = self._options
        if options.consumer is not None and options.log is not None:
            log = _join(options).log(options.log)
            log.commit(options.consumer, from_json(end))


def _log_rows(options: Options, schema: StructType, wanted: Range) -> Iterator[tuple[object, ...]]:
    convert = converter(options, schema)
    for entry in _open(options).read(wanted):
        yield log_row(entry, convert)


class LogRangeReader(DataSourceReader):
    """A range of a log as a table."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Hold nothing that cannot be pickled."""
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan: a task for each partition of the log that has something."""
        options, reader = self._options, _open(self._options)
        start = reader.resolve(options.starting, End.EARLIEST)
        end = reader.resolve(options.ending, End.LATEST)
        return [LogPartition(wanted) for wanted in reader.plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Read what a task has to read, in an executor."""
        assert isinstance(partition, LogPartition), partition
        return _log_rows(self._options, self._schema, partition.wanted)


class StoreReader(DataSourceReader):
    """The entries of a store as a table, all of one moment."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Hold nothing that cannot be pickled."""
        self._options = options
        self._schema = schema
        self._filter = KeyFilter()

    def partitions(self) -> Sequence[InputPartition]:
        """Plan: one task, so that there is one moment, which is now or later."""
        assert self._options.store is not None, self._options
        since = _join(self._options).revision(self._options.store)
        return [StorePartition(self._filter, since)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Read in an executor, at the nearest replica."""
        from peermesh.spark.tables import read_table

        assert isinstance(partition, StorePartition), partition
        options, convert = self._options, converter(self._options, self._schema)
        assert options.store is not None, options
        membership, wanted = _join(options), partition.key_filter
        for entry in read_table(membership, options.store, wanted, partition.since):
            yield store_row(entry, convert)


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

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - a mapping of Spark's own
        """Read the options; raises ``InvalidData``."""
        super().__init__(options)
        self._read = read_options(dict(options))

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Give the columns."""
        return ddl(self._read)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a table."""
        kind = StoreReader if self._read.log is None else LogRangeReader
        return kind(self._read, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read a stream."""
        return LogStreamReader(self._read, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Write a table; raises ``InvalidData`` for mode overwrite."""
        if overwrite:
            raise InvalidData("mode overwrite would erase what others wrote: clear it, and append")
        from peermesh.spark.sink import MeshWriter, Sink

        return MeshWriter(Sink(self._read, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        """Write a stream; in mode complete, keys that are gone from the result stay."""
        from peermesh.spark.sink import MeshStreamWriter, Sink

        return MeshStreamWriter(Sink(self._read, schema))


class FilteringMeshSource(MeshSource):
    """The data source of a session that pushes filters down; otherwise Spark refuses it."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a table."""
        if self._read.log is None:
            return FilteringStoreReader(self._read, schema)
        return super().reader(schema)


def register(spark: SparkSession) -> None:
    """Make ``format("peermesh")`` known to a session, with filters pushed down."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(FilteringMeshSource)
