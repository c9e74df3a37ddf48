"""A streaming job whose result can be counted again: for tests, benchmarks, and kill loops.

It counts words in files, one file a batch, and writes what each batch has told to a file of that
batch's number. However often it is stopped, killed and started again with the same checkpoint, the
result is that of counting once: ``counts_of`` says it, and ``recount`` what it has to be.

``python -m peermesh.spark.trial`` runs it in a process of its own, which can be killed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handshake.private_files import make_directory, open_private

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Told = tuple[str, int]

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class Kind(StrEnum):
    """What the job keeps between batches, and how."""

    STATELESS = "stateless"
    HDFS = "hdfs"
    ROCKSDB = "rocksdb"
    CHANGELOG = "changelog"
    """RocksDB, with changes instead of snapshots, under unique names (format v2)."""


def settings_of(kind: Kind) -> dict[str, str]:
    """Give the settings of a session in which such a job runs."""
    is_small = kind in (Kind.ROCKSDB, Kind.CHANGELOG)
    return {
        "spark.sql.shuffle.partitions": "1",  # two hundred by default: 15 seconds a batch
        _PROVIDER: _ROCKSDB if is_small else _HDFS,
        _CHANGELOG: str(kind is Kind.CHANGELOG).lower(),
        _FORMAT: "2" if kind is Kind.CHANGELOG else "1",
    }


def write_source(directory: Path, texts: Iterable[str]) -> None:
    """Write the files that the job reads, in this order: it goes by their times."""
    make_directory(directory)
    for number, text in enumerate(texts):
        path = directory / f"{number:05}.txt"
        with open_private(path, "w") as file:
            file.write(text)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def recount(source: Path) -> Counter[str]:
    """Count the words of all files, plainly."""
    return Counter(
        word
        for path in source.iterdir()
        for line in path.read_text("utf-8").splitlines()
        for word in line.split(" ")
    )


def start(
    spark: SparkSession,
    kind: Kind,
    source: Path,
    checkpoint: str,
    output: Path,
    *,
    meanwhile: Callable[[int], object] = lambda _: None,
) -> StreamingQuery:
    """Start the job; it ends when all files are counted.

    ``meanwhile`` is called in the middle of each batch: its state is kept, and its end is not.
    """
    from pyspark.sql import functions

    for name, value in settings_of(kind).items():
        spark.conf.set(name, value)
    make_directory(output)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(source.as_uri())
    words = lines.select(functions.explode(functions.split("value", " ")).alias("word"))
    told = words if kind is Kind.STATELESS else words.groupBy("word").count()

    def tell(batch: DataFrame, number: int) -> None:
        if kind is Kind.STATELESS:
            pairs: Iterable[Told] = Counter(row.word for row in batch.collect()).items()
        else:
            pairs = [(row.word, row["count"]) for row in batch.collect()]
        _write(output / f"{number}.json", dict(pairs))
        meanwhile(number)

    writer = told.writeStream.outputMode("append" if kind is Kind.STATELESS else "update")
    writer = writer.foreachBatch(tell).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def _write(path: Path, counts: dict[str, int]) -> None:
    """Write a file as a whole, or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, suffix=".tmp") as file:
        json.dump(counts, file)
    os.replace(file.name, path)


def batches_of(output: Path) -> dict[int, dict[str, int]]:
    """Give what was told, by the numbers of the batches."""
    found = {int(path.stem): json.loads(path.read_text()) for path in output.glob("*.json")}
    return dict(sorted(found.items()))


def counts_of(kind: Kind, output: Path) -> Counter[str]:
    """Put together what all batches have told."""
    counts: Counter[str] = Counter()
    for told in batches_of(output).values():
        if kind is Kind.STATELESS:
            counts.update(told)
        else:
            counts |= Counter(told)  # Later ones are never lower.
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Run the job to its end, in a Spark of its own."""
    from peermesh.spark.local import LocalSpark

    options = _parser().parse_args(arguments)
    settings: dict[str, str] = {**json.loads(options.settings), **settings_of(options.kind)}
    with (
        tempfile.TemporaryDirectory(prefix="peermesh-trial-") as directory,
        LocalSpark("trial", Path(directory), settings) as spark,
    ):
        query = start(
            spark.session(), options.kind, options.source, options.checkpoint, options.output
        )
        query.awaitTermination()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Count words in a streaming job of Spark.")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), default=Kind.HDFS)
    parser.add_argument("--source", type=Path, required=True, help="a directory of text files")
    parser.add_argument("--checkpoint", required=True, help="the checkpoint location")
    parser.add_argument("--output", type=Path, required=True, help="a directory for the results")
    parser.add_argument("--settings", default="{}", help="more settings of Spark, as JSON")
    return parser


def words_of(text: str, size: int) -> Iterator[str]:
    """Cut a text into pieces of so many lines."""
    lines = text.splitlines()
    for at in range(0, len(lines), size):
        yield "\n".join(lines[at : at + size])


if __name__ == "__main__":
    main()
