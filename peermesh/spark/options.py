"""The options of ``format("peermesh")``, read with suspicion: what is unknown is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from peermesh.spark.offsets import EARLIEST, LATEST, equal_share, task_count
from stores.log.limits import NAME_SIZE_MAX
from wire.addresses import split_address
from wire.errors import InvalidData
from wire.scalars import INTEGER_MAX

PATIENCE_SECONDS: Final = 60.0
"""How long a keeper or a master may be away, restarting or moving, before a query fails."""

POLL_SECONDS: Final = 1.0
"""How long Spark waits at the keeper for new entries: stopping a query takes as long at most."""

TASKS_MAX: Final = 64
"""Tasks of a batch: each costs some tens of milliseconds, whatever it reads."""

ROWS_PER_TASK: Final = 50_000
"""Rows of a task, some tenths of a second's work. Fewer tasks than cores are worth it below."""

ROWS_PER_LOCAL_TASK: Final = 200_000
"""Rows of a task where Spark is on one machine, as long as all its cores have one: of fewer rows,
what a task costs of its own would be a quarter of the work."""

Result = TypeVar("Result")


class End(Enum):
    """An end of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Instant:
    """The first entry of this time or later, in each partition."""

    nanoseconds: int
    """Since 1970."""


@dataclass(frozen=True, slots=True)
class Explicit:
    """An offset for each partition."""

    offsets: tuple[tuple[int, int], ...]


Place: TypeAlias = End | Instant | Explicit
"""Where reading begins or ends."""


class ValueFormat(Enum):
    """What becomes of a value."""

    BINARY = "binary"
    STRING = "string"


class Writing(Enum):
    """What becomes of a row whose key is there."""

    UPSERT = "upsert"
    APPEND = "append"


class NullKeys(Enum):
    """What becomes of a row for a store of which a key column is null."""

    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class MeshAddress:
    """Where the mesh is: all that a process of Spark needs to join it."""

    peers: tuple[tuple[str, int], ...]
    secret_file: str | None = None
    """A path on every machine. Without it the secret is taken from ``PEERMESH_SECRET``, or from the
    file that ``PEERMESH_SECRET_FILE`` names there."""
    patience_seconds: float = PATIENCE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of ``load``."""

    address: MeshAddress
    log: str | None
    store: str | None
    starting: Place
    ending: Place
    rows_max: int | None
    fails_on_loss: bool
    value_format: ValueFormat
    value_schema: str | None
    """Columns of records that Arrow shall read; what it does not take is left to Spark."""
    consumer: str | None
    poll_seconds: float
    tasks_min: int
    tasks_max: int
    rows_per_task: int
    cores: int | None
    """Cores that tasks are for: there are no more tasks than these have use for. ``None`` where it
    is not known, or does not count."""

    @property
    def columns(self) -> str:
        """What comes of it, as Spark writes columns."""
        value, rest = self.value_format.value.upper(), ""
        if self.value_schema is not None:
            value, rest = f"STRUCT<{self.value_schema}>", ", unparsed STRING"
        if self.log is None:
            return f"key STRING, value {value}, revision BIGINT{rest}"
        places = "partition INT, offset BIGINT, timestamp TIMESTAMP"
        return f"key STRING, {places}, value {value}{rest}"

    def task_count(self, rows: int) -> int:
        """Say how many tasks read so many rows."""
        share = self.rows_per_task
        if self.cores is not None:
            share = equal_share(rows, self.cores, share, ROWS_PER_LOCAL_TASK)
        return task_count(rows, share, self.tasks_min, self.tasks_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of ``save`` and of ``start``."""

    address: MeshAddress
    log: str | None
    store: str | None
    key_columns: tuple[str, ...]
    topic_columns: tuple[str, ...]
    """One, or none."""
    value_column: str | None
    writing: Writing
    null_keys: NullKeys
    write_id: str | None


SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})
"""What Spark hands on that is not meant for us."""

BOTH: Final = ("peers", "secretFile", "patience", "log", "store")
"""Options of source and sink."""

SOURCE: Final = ("valueFormat", "valueSchema", "minPartitions", "maxTasks", "rowsPerTask")
"""Options of the source alone, whatever it reads."""

SOURCE_OF_LOGS: Final = (
    *("startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp"),
    *("maxOffsetsPerTrigger", "failOnDataLoss", "consumer", "pollTimeout"),
)
"""Options of the source alone, where it reads a log."""

SOURCE_OF_TABLES: Final = ("endingOffsets", "endingTimestamp")
"""Of those for logs, what is for ``spark.read`` alone."""

SOURCE_OF_STREAMS: Final = ("maxOffsetsPerTrigger", "consumer", "pollTimeout")
"""Of those for logs, what is for ``spark.readStream`` alone."""

SINK: Final = ("keyColumns", "topicColumn", "valueColumn", "writeMode", "nullKeys", "writeId")
"""Options of the sink alone."""

SINK_OF_TABLES: Final = ("writeId",)
"""Options of the sink alone, where it writes no stream. Batches of a stream count anew with each
checkpoint: under an id that lasts for longer, those of a second one would be taken for done."""


def check_names(given: Mapping[str, str]) -> None:
    """Raise ``InvalidData`` for an option that neither source nor sink has."""
    names = (*BOTH, *SOURCE, *SOURCE_OF_LOGS, *SINK)
    known = {name.lower() for name in names} | SPARKS_OWN
    for name in given:
        if name.lower() not in known:
            raise InvalidData(f"there is no option {name!r}; there are {', '.join(names)}")


def read_source_options(
    given: Mapping[str, str], cores: int | None = None, *, is_stream: bool | None = None
) -> SourceOptions:
    """Read what to load, by names that Spark takes in any case; raises ``InvalidData``.

    ``cores`` are those of a Spark on one machine: they count unless ``rowsPerTask`` is given. Say
    whether a stream is read, as soon as that is known.
    """
    found = _found(given)
    _refuse(found, SINK, "of the sink: it says how rows are written, and here they are read")
    if "store" in found:
        _refuse(found, SOURCE_OF_LOGS, "of logs: a store is read as it is now")
    if is_stream is True:
        _refuse(found, SOURCE_OF_TABLES, "of spark.read: a stream has no end")
    if is_stream is False:
        _refuse(found, SOURCE_OF_STREAMS, "of spark.readStream: a table is read at once")
    least = _number(found, "minPartitions", int, 1)
    most = _number(found, "maxTasks", int, max(TASKS_MAX, least))
    if least > most:
        raise InvalidData(f"minPartitions {least} is more than maxTasks {most}")
    value_format = _one_of(ValueFormat, found, "valueFormat", "string")
    if "valueschema" in found and value_format is not ValueFormat.STRING:
        raise InvalidData("valueSchema is for records that are text: leave valueFormat away")
    return SourceOptions(
        address=read_address(found),
        log=found.get("log"),
        store=found.get("store"),
        starting=_place(found, "starting", End.EARLIEST),
        ending=_place(found, "ending", End.LATEST),
        rows_max=_number(found, "maxOffsetsPerTrigger", int, None),
        fails_on_loss=_flag(found, "failOnDataLoss", default=True),
        value_format=value_format,
        value_schema=found.get("valueschema"),
        consumer=_consumer(found),
        poll_seconds=_number(found, "pollTimeout", float, POLL_SECONDS),
        tasks_min=least,
        tasks_max=most,
        rows_per_task=_number(found, "rowsPerTask", int, ROWS_PER_TASK),
        cores=None if "rowspertask" in found else cores,
    )


def read_sink_options(given: Mapping[str, str], *, is_stream: bool = False) -> SinkOptions:
    """Read where to write, by names that Spark takes in any case; raises ``InvalidData``."""
    found = _found(given)
    if is_stream:
        _refuse(found, SINK_OF_TABLES, "of df.write: the checkpoint of a stream says who it is")
    theirs = (*SOURCE, *SOURCE_OF_LOGS)
    _refuse(found, theirs, "of the source: it says how rows are read, and here they are written")
    return SinkOptions(
        address=read_address(found),
        log=found.get("log"),
        store=found.get("store"),
        key_columns=_names(found.get("keycolumns", "")),
        topic_columns=(found["topiccolumn"],) if "topiccolumn" in found else (),
        value_column=found.get("valuecolumn"),
        writing=_one_of(Writing, found, "writeMode", "upsert"),
        null_keys=_one_of(NullKeys, found, "nullKeys", "fail"),
        write_id=found.get("writeid") or None,
    )


def _found(given: Mapping[str, str]) -> dict[str, str]:
    check_names(given)
    found = {name.lower(): value for name, value in given.items()}
    if ("log" in found) == ("store" in found):
        raise InvalidData("say what to use: one of the options log and store, with its name")
    return found


def _refuse(found: Mapping[str, str], names: Iterable[str], reason: str) -> None:
    for name in names:
        if name.lower() in found:
            raise InvalidData(f"option {name} is {reason}")


def read_address(found: Mapping[str, str]) -> MeshAddress:
    """Read where the mesh is, from options with names in lower case."""
    peers = tuple(map(_peer, _names(found.get("peers", ""))))
    if not peers:
        raise InvalidData("say where the mesh is: option peers, as in 10.0.0.1:9999,10.0.0.2:9999")
    patience = _number(found, "patience", float, PATIENCE_SECONDS)
    return MeshAddress(peers, found.get("secretfile"), patience)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _peer(text: str) -> tuple[str, int]:
    address = split_address(text)
    if address is None:
        raise InvalidData(f"{text!r} is no address: write HOST:PORT, as in 127.0.0.1:9999")
    return address


def _number(
    found: Mapping[str, str], name: str, kind: Callable[[str], Result], default: Result
) -> Result:
    text = found.get(name.lower())
    if text is None:
        return default
    try:
        number = kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InvalidData(f"option {name} is {what}, not {text!r}") from None
    if not float(text) > 0:
        raise InvalidData(f"option {name} is more than zero, not {text}")
    return number


def _flag(found: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = found.get(name.lower(), str(default)).lower()
    if text not in {"true", "false"}:
        raise InvalidData(f"option {name} is true or false, not {text!r}")
    return text == "true"


_EnumT = TypeVar("_EnumT", bound=Enum)


def _one_of(kind: type[_EnumT], found: Mapping[str, str], name: str, default: str) -> _EnumT:
    text = found.get(name.lower(), default).lower()
    try:
        return kind(text)
    except ValueError:
        words = ", ".join(member.value for member in kind)
        raise InvalidData(f"option {name} is one of {words}, not {text!r}") from None


def _consumer(found: Mapping[str, str]) -> str | None:
    name = found.get("consumer")
    if name is not None and not 0 < len(name) <= NAME_SIZE_MAX:
        raise InvalidData(
            f"option consumer is a name of 1 to {NAME_SIZE_MAX} characters, not of {len(name)}"
        )
    return name


def _place(found: Mapping[str, str], name: str, default: End) -> Place:
    offsets, timestamp = found.get(f"{name}offsets"), found.get(f"{name}timestamp")
    if offsets is not None and timestamp is not None:
        raise InvalidData(f"give one of {name}Offsets and {name}Timestamp")
    if timestamp is not None:
        return _instant(timestamp, f"{name}Timestamp")
    if offsets is None:
        return default
    if offsets.lower() in {"earliest", "latest"}:
        return End(offsets.lower())
    found_offsets = _offsets(offsets, f"{name}Offsets")
    if name == "ending" and EARLIEST in found_offsets.values():
        raise InvalidData(
            f"option {name}Offsets has {EARLIEST}, the beginning: give an offset, or {LATEST} for"
            " the end"
        )
    return Explicit(tuple(sorted(found_offsets.items())))


def _instant(text: str, name: str) -> Instant:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidData(
            f"option {name} is a time, as in 2026-01-31T12:00:00Z, not {text!r}"
        ) from None
    if when.tzinfo is None:
        raise InvalidData(f"option {name} needs a time zone: write {when.isoformat()}Z for UTC")
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    found = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
    if not 0 <= found <= INTEGER_MAX:
        raise InvalidData(f"option {name} is a time between 1970 and 2262, not {text!r}")
    return Instant(found)


def _offsets(text: str, name: str) -> dict[int, int]:
    advice = (
        f'option {name} is earliest, latest, or an offset for each partition: {{"0": 17}},'
        f" where {EARLIEST} is the first, and {LATEST} the end"
    )
    try:
        pairs = json.loads(text, object_pairs_hook=tuple)  # Nothing else becomes a tuple.
        found = {int(number): offset for number, offset in pairs}
    except (ValueError, TypeError):
        raise InvalidData(f"{advice}; not {text!r}") from None
    is_object = isinstance(pairs, tuple)
    if not is_object or not all(type(at) is int and at >= EARLIEST for at in found.values()):
        raise InvalidData(f"{advice}; not {text!r}")
    if len(found) < len(pairs):
        raise InvalidData(f"option {name} names a partition twice: {text!r}")
    return found
