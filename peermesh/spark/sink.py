"""The sink ``format("peermesh")``: batches into a store or a log, each of them once.

Tasks hand their rows over in Spark's own commit messages, of which there is one for each partition
and only from the attempt that counts. So a task that fails, or a late abort, leaves nothing behind.
What commits is one process of the driver, and it publishes by (query, batch): ``publication``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from peermesh.spark.joining import join
from peermesh.spark.options import NullKeys, SinkOptions, Writing
from peermesh.spark.publication import publish_in_log, publish_in_store
from peermesh.spark.records import Taken
from peermesh.spark.rows import RowReader, Shape
from wire.errors import InvalidData

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

QUERY_ID = "sql.streaming.queryId"


@dataclass
class Written(WriterCommitMessage):
    """What one task hands over."""

    query: str
    partition: int
    attempt: int
    taken: Taken


class Sink:
    """What both writers have in common."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Check that all columns can be written; raises ``InvalidData``."""
        self.options = options
        shape = Shape(options.key_columns or options.topic_columns, options.value_column)
        shape.check(schema.fieldNames())
        if options.store is not None and not options.key_columns:
            raise InvalidData("say which columns are the key: option keyColumns, as in a,b")
        if options.log is not None and (
            options.key_columns
            or options.writing is not Writing.UPSERT
            or options.null_keys is not NullKeys.FAIL
        ):
            raise InvalidData(
                "a log has no keyColumns, writeMode and nullKeys: rows are appended to it, each"
                " with the key that is in its topicColumn, or with none"
            )
        if options.store is not None and options.topic_columns:
            raise InvalidData("a store has no topicColumn: say keyColumns, as in a,b")
        self._layout = (shape, schema, None if options.store is None else options.null_keys)
        RowReader(*self._layout)  # it is made anew where rows are read: it cannot be pickled

    def take(self, iterator: Iterator[RecordBatch]) -> Written:
        """Take the rows of a task in."""
        context = TaskContext.get()
        assert context is not None, "write runs in tasks"
        partition = context.partitionId()
        taken = RowReader(*self._layout).take(iterator, f"task {partition}")
        query = context.getLocalProperty(QUERY_ID) or ""
        return Written(query, partition, context.attemptNumber(), taken)

    def publish(
        self,
        messages: Sequence[WriterCommitMessage | None],
        identity: str,
        batch: int,
        *,
        is_repeatable: bool = True,
    ) -> None:
        """Publish what the tasks took in, in the order of their partitions.

        Say whether the same batch may come again under the same identity, which has its cost.
        """
        written = [message for message in messages if isinstance(message, Written)]
        written.sort(key=lambda message: message.partition)
        taken = Taken(
            [row for message in written for row in message.taken.rows],
            sum(message.taken.dropped for message in written),
        )
        if taken == Taken():
            return
        options, membership = self.options, join(self.options.address)
        seconds = options.address.patience_seconds
        query = identity or written[0].query
        if options.store is not None:
            store = membership.store(options.store)
            publish_in_store(store, query, batch, taken, options.writing, seconds)
        else:
            assert options.log is not None, options
            log = membership.log(options.log)
            publish_in_log(log, query, batch, taken.rows, seconds, is_repeatable=is_repeatable)


class MeshStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a stream."""

    def __init__(self, sink: Sink) -> None:
        """Write with ``sink``."""
        self._sink = sink

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Take rows in, in an executor."""
        return self._sink.take(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a batch, or find that it is published."""
        self._sink.publish(messages, "", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is to be undone: nothing was staged, or the batch is decided."""


class MeshWriter(DataSourceArrowWriter):
    """The sink of a batch job."""

    def __init__(self, sink: Sink) -> None:
        """Write with ``sink``, under its ``writeId`` or an identity of this one write.

        Tasks that are tried again, and attempts beside others, append nothing: what they hand over
        comes to one commit, which Spark calls once.
        """
        self._sink = sink
        self._is_repeatable = sink.options.write_id is not None
        self._identity = sink.options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Take rows in, in an executor."""
        return self._sink.take(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish all."""
        self._sink.publish(messages, self._identity, 0, is_repeatable=self._is_repeatable)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is to be undone: nothing was staged."""
