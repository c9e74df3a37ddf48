"""What a log of dead letters holds: records that could not be parsed, and their places. Pure.

An entry has the record's key, and a table with the names below as its value. ``deadletters`` gives
such rows, the sink writes them, and ``peermesh log replay`` puts the records back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wire.errors import InvalidData
from wire.scalars import shorten
from wire.values import Value

KEY: Final = "key"
LOG: Final = "log"
PARTITION: Final = "partition"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that is to be put back."""

    log: str | None
    """Where it came from; ``None`` if the job did not say."""
    partition: int
    key: Value
    value: Value
    """As the job read it: text, or bytes."""

    def home(self, partition_count: int) -> int:
        """Give its partition in a log: where it was, unless the log has fewer."""
        return self.partition % partition_count


def read_letter(key: Value, value: Value) -> Letter:
    """Read an entry of a log of dead letters; raises ``InvalidData``."""
    table = dict(value) if isinstance(value, Mapping) else {}
    log, partition, record = table.get(LOG), table.get(PARTITION), table.get(VALUE)
    if (
        (log is None or isinstance(log, str))
        and (isinstance(partition, int) and partition >= 0)
        and isinstance(record, str | bytes)
    ):
        return Letter(log, partition, key, record)
    raise InvalidData(
        f"a dead letter is a table with {LOG}, {PARTITION} and {VALUE}, as deadletters() writes it,"
        f" not {shorten(value)}"
    )


def producer_of(dead: str, dead_partition: int, partition: int) -> str:
    """Name what appends the letters of one partition to another: it recognises a repetition."""
    return f"replay/{dead}/{dead_partition}/{partition}"


def sequence_of(timestamp_ns: int, offset: int) -> int:
    """Number a letter for its producer, by when it was appended and its offset.

    The numbers of a partition grow, since its times never go back, and a letter has the same one
    each time. An offset alone would not do: a log that is made anew begins at 0 again, and its
    letters would be taken for those of before.
    """
    return timestamp_ns + offset


def cursor_of(into: str | None) -> str:
    """Name the consumer of the dead letters that were put back, or put into a log by name."""
    return "replay" if into is None else f"replay/{into}"
