"""``peermesh log``: keep a replicated log, append to it, and read it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from endpoint.log import LogEntry
from peermesh import Log, Start, Value
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.log_keeping import follow, keep, promote
from peermesh.cli.mesh import Mesh, join, mesh_options
from peermesh.cli.messages import read_argument
from peermesh.cli.numbers import Seconds, Whole
from peermesh.cli.running import run
from peermesh.cli.values import format_value, on_a_line, to_json

JSON_HELP = 'Write {"partition": …, "offset": …, "key": …, "value": …, "timestamp_ns": …} on lines.'


@click.group()
def log() -> None:
    """Keep a replicated log, append to it, and read it.

    NAME is the log's. Its keeper has to be somewhere in the mesh: "peermesh log keep NAME". Keys
    and values are JSON, given and written; with --raw they are text.
    """


@asynccontextmanager
async def open_log(mesh: Mesh, name: str) -> AsyncIterator[Log]:
    """Join the mesh, and reach the keeper of a log."""
    async with mesh.endpoint() as endpoint:
        proxy = await endpoint.attach_log_proxy(name, patience=mesh.wait)
        await join(endpoint, mesh)
        await proxy.partition_count()
        yield proxy


# Appending.


@log.command()
@click.argument("name")
@click.argument("value")
@click.option("--key", help="Entries of one key go to one partition.")
@click.option("--partition", type=Whole(), help="The partition to append to.")
@click.option(
    "--producer", help="With --sequence: append once, however often this command is repeated."
)
@click.option("--sequence", type=Whole(), help="The producer's number; it grows.")
@click.option("--raw", is_flag=True, help="VALUE and KEY are plain text rather than JSON.")
@mesh_options(listens=False)
def append(  # noqa: PLR0913 - an option each
    name: str,
    value: str,
    key: str | None,
    mesh: Mesh,
    *,
    raw: bool,
    partition: int | None,
    producer: str | None,
    sequence: int | None,
) -> None:
    """Append a VALUE, and write its partition and offset.

    When it ends with code 0, the keeper has it: durably, if its log is on disk.
    """
    mesh.require_peer()
    if (producer is None) != (sequence is None):
        raise click.UsageError("--producer and --sequence belong together")
    pair = (read_argument(value, raw=raw), None if key is None else read_argument(key, raw=raw))
    place = run(_append, mesh, name, pair, partition, (producer, sequence))
    click.echo(place)


async def _append(
    mesh: Mesh,
    name: str,
    pair: tuple[Value, Value],
    partition: int | None,
    repeated: tuple[str | None, int | None],
) -> str:
    value, key = pair
    producer, sequence = repeated
    async with open_log(mesh, name) as opened:
        receipt = await opened.append(
            value, key, partition=partition, producer=producer, sequence=sequence
        )
        place = await receipt.applied()
        return f"{place.partition} {place.offset}"


# Reading.


@log.command()
@click.argument("name")
@click.option("--partition", type=Whole(), default=0, show_default=True)
@click.option("--offset", type=Whole(), help="The first offset; else the earliest.")
@click.option("--limit", type=Whole(1), default=1_000, show_default=True)
@click.option(
    "--timeout", type=Seconds(), default=0.0, metavar="SECONDS",
    help="Wait so long when there is nothing yet; then the code is 4.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@mesh_options(listens=False)
def read(  # noqa: PLR0913 - an option each
    name: str,
    partition: int,
    offset: int | None,
    mesh: Mesh,
    *,
    limit: int,
    timeout: float,
    as_json: bool,
) -> None:
    """Write entries of a partition, one a line: offset and value.

    Without --timeout it writes what is there, and ends.
    """
    mesh.require_peer()
    entries = run(_read, mesh, name, (partition, offset), limit, timeout)
    for entry in entries:
        _write(entry, f"{entry.offset}", as_json=as_json)
    if not entries and timeout:
        raise CommandFailed(f"no entry within {timeout:g} s", ExitCode.TIMEOUT)


async def _read(
    mesh: Mesh, name: str, place: tuple[int, int | None], limit: int, timeout: float
) -> list[LogEntry]:
    partition, offset = place
    async with open_log(mesh, name) as opened:
        if offset is None:
            spans = await opened.offsets()
            offset = spans[partition].start if partition in spans else 0
        return await opened.read(partition, offset, limit, timeout)


def _write(entry: LogEntry, place: str, *, as_json: bool) -> None:
    if not as_json:
        click.echo(f"{place} {format_value(entry.value)}")
        return
    line = {
        "partition": entry.partition,
        "offset": entry.offset,
        "key": to_json(entry.key),
        "value": to_json(entry.value),
        "timestamp_ns": entry.timestamp_ns,
    }
    click.echo(json.dumps(line, ensure_ascii=False))


@log.command()
@click.argument("name")
@click.option("--consumer", help="Go on where this consumer is, and commit what was written.")
@click.option("--earliest", is_flag=True, help="Begin with what is there, not with what comes.")
@click.option("--count", type=Whole(1), help="End after so many entries.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@mesh_options(listens=False)
def watch(
    name: str,
    consumer: str | None,
    count: int | None,
    mesh: Mesh,
    *,
    earliest: bool,
    as_json: bool,
) -> None:
    """Write the entries of all partitions as they come, until Ctrl-C.

    A line is the partition, the offset, and the value.
    """
    mesh.require_peer()
    start = Start.EARLIEST if earliest else Start.LATEST
    run(_watch, mesh, name, (consumer, start), count, as_json)


async def _watch(
    mesh: Mesh,
    name: str,
    where: tuple[str | None, Start],
    count: int | None,
    as_json: bool,  # noqa: FBT001 - trio.run takes no keywords
) -> None:
    consumer, start = where
    async with open_log(mesh, name) as opened:
        entries = opened.consume(consumer, start=start)
        await entries.positions()
        click.echo(f"watching {name}", err=True)
        written = 0
        while count is None or written < count:
            batch = await entries.get_batch(1_000 if count is None else count - written)
            for entry in batch:
                _write(entry, f"{entry.partition} {entry.offset}", as_json=as_json)
            written += len(batch)
            if consumer is not None:
                await (await entries.commit()).applied()


# Looking.


@log.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@mesh_options(listens=False)
def offsets(name: str, mesh: Mesh, *, as_json: bool) -> None:
    """Write where each partition begins and ends.

    A line is the partition, its first offset, and the offset that the next entry will have.
    """
    mesh.require_peer()
    spans = run(_offsets, mesh, name)
    if as_json:
        click.echo(json.dumps(spans))
        return
    for partition, (start, end) in spans.items():
        click.echo(f"{partition} {start} {end}")


async def _offsets(mesh: Mesh, name: str) -> dict[int, tuple[int, int]]:
    async with open_log(mesh, name) as opened:
        spans = await opened.offsets()
        return {partition: (span.start, span.end) for partition, span in spans.items()}


@log.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@mesh_options(listens=False)
def consumers(name: str, mesh: Mesh, *, as_json: bool) -> None:
    """Write the named consumers, with how many entries each has not committed.

    A line is the lag and the name.
    """
    mesh.require_peer()
    found = run(_consumers, mesh, name)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for consumer, state in found.items():
        click.echo(f"{state['lag']} {on_a_line(consumer)}")


async def _consumers(mesh: Mesh, name: str) -> dict[str, dict[str, object]]:
    async with open_log(mesh, name) as opened:
        return {
            consumer: {"lag": await opened.lag(consumer), "cursors": cursors}
            for consumer, cursors in sorted((await opened.consumers()).items())
        }


for command in (keep, follow, promote):
    log.add_command(command)
