"""Records that Spark could not parse, put aside: ``good, bad = deadletters(frame, "orders")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peermesh.spark.letters import KEY, LOG, OFFSET, PARTITION, TIMESTAMP, VALUE
from wire.errors import InvalidData

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def deadletters(
    frame: DataFrame, log: str | None = None, corrupt: str = "_corrupt_record"
) -> tuple[DataFrame, DataFrame]:
    """Split a parsed frame: the rows that are of the schema, and dead letters.

    ``frame`` is what ``parsed`` gives, with ``corrupt`` as there: null, or the text of a record
    that is not of the schema. The first frame is without this column. The second has ``key``,
    ``log``, ``partition``, ``offset``, ``timestamp`` and the raw ``value``: write it to a log with
    the sink, with ``topicColumn`` as ``key``. ``log`` is the name of the log that was read:
    ``peermesh log replay`` puts the records back there.

    Raises ``InvalidData`` for a frame without one of the columns.
    """
    from pyspark.sql import functions as f

    wanted = (KEY, PARTITION, OFFSET, TIMESTAMP, corrupt)
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise InvalidData(
            f"there is no column {', '.join(missing)}: give what parsed() makes of a log, with all"
            f" columns of the log; there are {', '.join(frame.columns)}"
        )
    is_bad = frame[corrupt].isNotNull()
    letters = frame.where(is_bad).select(
        KEY,
        f.lit(log).cast("string").alias(LOG),
        PARTITION,
        OFFSET,
        TIMESTAMP,
        frame[corrupt].alias(VALUE),
    )
    return frame.where(~is_bad).drop(corrupt), letters
