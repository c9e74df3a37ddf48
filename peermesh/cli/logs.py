"""``peermesh log``: keep a replicated log, append to it, and read it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from peermesh import Endpoint, Start, Value
from peermesh.cli.arguments import RAW_OPTION, WRITING_TEXT_OPTION, read_lines, read_value
from peermesh.cli.arriving import expect_log, join
from peermesh.cli.command import command
from peermesh.cli.completion import LOG_NAME
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.messages import TIMEOUT_OPTION, check_raw
from peermesh.cli.numbers import Whole
from peermesh.cli.output import Output, say, write_raw
from peermesh.cli.running import run
from peermesh.cli.trust import STDIN
from peermesh.cli.unled import no_leader
from peermesh.cli.values import format_value, on_a_line, to_json
from peermesh.errors import KeeperUnreachable, OffsetOutOfRange

if TYPE_CHECKING:
    from endpoint.replicas.logs.log_reading import LogEntry
    from peermesh import Log


@asynccontextmanager
async def open_log(mesh: Mesh, name: str) -> AsyncIterator[Log]:
    """Join the mesh, and reach what leads a log: no copy of it is fetched."""
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        try:
            yield await reach_log(endpoint, mesh, name)
        except KeeperUnreachable:
            if name not in endpoint.known_log_groups():
                raise
            raise await no_leader(endpoint, "log", name, mesh.wait) from None


async def reach_log(endpoint: Endpoint, mesh: Mesh, name: str) -> Log:
    """Reach what leads a log, from an endpoint in the mesh; raises ``CommandFailed``."""
    await expect_log(endpoint, mesh, name)
    proxy = await endpoint.attach_log_proxy(name, patience=mesh.wait)
    await proxy.partition_count()
    return proxy


# Appending.


@command()
@LOG_NAME
@click.argument("value")
@click.option("--key", help="Entries of one key go to one partition.")
@click.option("--partition", type=Whole(), help="The partition to append to.")
@click.option(
    "--producer", help="With --sequence: append once, however often this command is repeated."
)
@click.option("--sequence", type=Whole(), help="The producer's number; it grows.")
@WRITING_TEXT_OPTION
@mesh_options(listens=False)
def append(  # noqa: PLR0913 - an option each
    name: str,
    value: str,
    key: str | None,
    mesh: Mesh,
    output: Output,
    *,
    as_text: bool,
    partition: int | None,
    producer: str | None,
    sequence: int | None,
) -> None:
    """Append a VALUE, and write its partition and offset; with "-", each line of stdin.

    When it ends with code 0, the keeper has it: durably, if its log is on disk. With --producer,
    the lines of stdin have the numbers from --sequence on.
    """
    if (producer is None) != (sequence is None):
        raise click.UsageError("--producer and --sequence belong together")
    found = None if key is None else read_value(key, as_text=as_text)
    values = read_lines(as_text=as_text) if value == STDIN else _one(value, as_text=as_text)
    repeated = None if producer is None or sequence is None else (producer, sequence)
    run(_append, mesh, name, values, _Where(found, partition, repeated), output)


async def _one(text: str, *, as_text: bool) -> AsyncIterator[Value]:
    yield read_value(text, as_text=as_text)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where entries go, and how they are told apart if the command is repeated."""

    key: Value
    partition: int | None
    repeated: tuple[str, int] | None


async def _append(
    mesh: Mesh, name: str, values: AsyncIterator[Value], where: _Where, output: Output
) -> None:
    producer, first = where.repeated or (None, 0)
    async with open_log(mesh, name) as opened:
        number = 0
        async for value in values:
            sequence = None if producer is None else first + number
            receipt = await opened.append(
                value, where.key, partition=where.partition, producer=producer, sequence=sequence
            )
            place = await receipt.applied()
            text = f"{place.partition} {place.offset}"
            output.tell(text, partition=place.partition, offset=place.offset)
            number += 1


# Reading.


@command()
@LOG_NAME
@click.option("--partition", type=Whole(), default=0, show_default=True)
@click.option("--offset", type=Whole(), help="The first offset; else the earliest.")
@click.option("--limit", type=Whole(1), default=1_000, show_default=True)
@TIMEOUT_OPTION
@RAW_OPTION
@mesh_options(listens=False)
def read(  # noqa: PLR0913 - an option each
    name: str,
    partition: int,
    offset: int | None,
    mesh: Mesh,
    output: Output,
    *,
    limit: int,
    timeout: float | None,
    raw: bool,
) -> None:
    """Write entries of a partition, one a line: offset and value.

    It writes what is there, and ends. With --wait it waits if there is nothing yet, and ends with
    code 4 if nothing comes.
    """
    if raw:
        check_raw(output)
    timeout = (mesh.waits if timeout is None else timeout) or 0.0
    entries = run(_read, mesh, name, (partition, offset), limit, timeout)
    for entry in entries:
        _write(entry, f"{entry.offset}", output, raw=raw)
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


def _write(entry: LogEntry, place: str, output: Output, *, raw: bool) -> None:
    if raw:
        write_raw(entry.value)
        return
    output.tell(
        f"{place} {format_value(entry.value)}",
        partition=entry.partition,
        offset=entry.offset,
        key=to_json(entry.key),
        value=to_json(entry.value),
        timestamp_ns=entry.timestamp_ns,
    )


@command()
@LOG_NAME
@click.option("--consumer", help="Go on where this consumer is, and commit what was written.")
@click.option("--earliest", is_flag=True, help="Begin with what is there, not with what comes.")
@click.option("--count", type=Whole(1), help="End after so many entries.")
@RAW_OPTION
@mesh_options(listens=False)
def watch(  # noqa: PLR0913 - an option each
    name: str,
    consumer: str | None,
    count: int | None,
    mesh: Mesh,
    output: Output,
    *,
    earliest: bool,
    raw: bool,
) -> None:
    """Write the entries of all partitions as they come, until Ctrl-C.

    A line is the partition, the offset, and the value.
    """
    if raw:
        check_raw(output)
    start = Start.EARLIEST if earliest else Start.LATEST
    run(_watch, mesh, name, (consumer, start), count, partial(_write, output=output, raw=raw))


async def _watch(
    mesh: Mesh,
    name: str,
    where: tuple[str | None, Start],
    count: int | None,
    write: Callable[[LogEntry, str], None],
) -> None:
    consumer, start = where
    async with open_log(mesh, name) as opened:
        entries = opened.consume(consumer, start=start)
        await entries.positions()
        say(f"watching {on_a_line(name)}", err=True)
        written = 0
        while count is None or written < count:
            try:
                batch = await entries.get_batch(1_000 if count is None else count - written)
                for entry in batch:
                    write(entry, f"{entry.partition} {entry.offset}")
                written += len(batch)
                if consumer is not None:
                    await (await entries.commit()).applied()
            except OffsetOutOfRange as lost:  # Who watches cannot seek.
                say(str(lost), err=True)
                entries.seek(lost.partition, lost.start)


# Looking.


@command()
@LOG_NAME
@mesh_options(listens=False)
def offsets(name: str, mesh: Mesh, output: Output) -> None:
    """Write where each partition begins and ends.

    A line is the partition, its first offset, and the offset that the next entry will have.
    """
    for partition, (start, end) in run(_offsets, mesh, name).items():
        output.tell(f"{partition} {start} {end}", partition=partition, start=start, end=end)


async def _offsets(mesh: Mesh, name: str) -> dict[int, tuple[int, int]]:
    async with open_log(mesh, name) as opened:
        spans = await opened.offsets()
        return {partition: (span.start, span.end) for partition, span in spans.items()}


@command()
@LOG_NAME
@mesh_options(listens=False)
def consumers(name: str, mesh: Mesh, output: Output) -> None:
    """Write the named consumers, with how many entries each has not committed.

    A line is the lag and the name.
    """
    for consumer, state in run(_consumers, mesh, name).items():
        output.tell(f"{state['lag']} {on_a_line(consumer)}", consumer=consumer, **state)


async def _consumers(mesh: Mesh, name: str) -> dict[str, dict[str, object]]:
    async with open_log(mesh, name) as opened:
        return {
            consumer: {"lag": await opened.lag(consumer), "cursors": cursors}
            for consumer, cursors in sorted((await opened.consumers()).items())
        }
