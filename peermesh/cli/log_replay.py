"""``peermesh log replay``: dead letters of Spark's jobs go back to where they came from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from peermesh import Endpoint
from peermesh.cli.arriving import join
from peermesh.cli.command import command
from peermesh.cli.completion import LOG_NAME
from peermesh.cli.exits import CommandFailed
from peermesh.cli.logs import reach_log
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Whole, counted
from peermesh.cli.output import Output, note
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line
from peermesh.spark.letters import Letter, cursor_of, producer_of, read_letter, sequence_of
from wire.errors import InvalidData, SequenceUnknown

if TYPE_CHECKING:
    from endpoint.replicas.logs.log_reading import LogEntry
    from peermesh import Log

PIECE_COUNT: Final = 512
"""Letters between two notes of how far it is: half of the appends that a log remembers of a
producer, so that all that are repeated after a kill are recognised."""


@dataclass(slots=True)
class _Replay:
    """What is asked for, and what was done of it."""

    dead: str
    into: str | None
    limit: int | None
    skips: bool
    done: Counter[str] = field(default_factory=Counter)
    """Letters that were put back, by log."""
    repeated: Counter[str] = field(default_factory=Counter)
    """Letters that were there already, from a replay that was killed."""
    skipped: int = 0

    @property
    def left(self) -> int:
        """How many letters may be put back still; of a piece if there is no limit."""
        if self.limit is None:
            return PIECE_COUNT
        return self.limit - self.done.total() - self.repeated.total()


@command()
@LOG_NAME
@click.option("--into", metavar="LOG", help="Put them into this log, not where they came from.")
@click.option("--limit", type=Whole(1), help="End after so many letters.")
@click.option("--skip-others", is_flag=True, help="Pass over entries that are no dead letters.")
@mesh_options(listens=False)
def replay(
    name: str,
    into: str | None,
    limit: int | None,
    mesh: Mesh,
    output: Output,
    *,
    skip_others: bool,
) -> None:
    """Put the dead letters of a job of Spark back into the log that they came from.

    Each goes back once, into its partition, however often this is repeated or killed: the consumer
    "replay" of the log of dead letters is where it goes on. It ends at what is there now, as what
    fails again comes again. Letters stay in their log, until its retention takes them.
    """
    run(_replay, mesh, _Replay(name, into, limit, skip_others), output)


async def _replay(mesh: Mesh, asked: _Replay, output: Output) -> None:
    cursor = cursor_of(asked.into)
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        dead = await reach_log(endpoint, mesh, asked.dead)
        homes = _Homes(endpoint, mesh)
        committed = await dead.committed(cursor)
        for partition, span in (await dead.offsets()).items():
            at = committed.get(partition, span.start)
            if at < span.start:
                gone = counted(span.start - at, "entry", "entries")
                note(f"partition {partition}: retention took {gone} that were not replayed")
            at = max(at, span.start)
            while at < span.end and asked.left > 0:
                count = min(PIECE_COUNT, asked.left, span.end - at)
                entries = await dead.read(partition, at, count)
                await _put_back(asked, entries, homes)
                at = entries[-1].offset + 1
                await (await dead.commit(cursor, {partition: at})).applied()
                note(f"replayed {counted(asked.done.total(), 'dead letter')}")
    if asked.skipped:
        note(f"passed over {counted(asked.skipped, 'entry', 'entries')}: no dead letters")
    logs = sorted(asked.done.keys() | asked.repeated.keys())
    if not logs:
        output.announce("there is no dead letter to replay", event="nothing")
    for log in logs:
        count, repeated = asked.done[log], asked.repeated[log]
        more = f", {repeated} more were there already" if repeated else ""
        text = f"{count} {on_a_line(log)}{more}"
        output.tell(text, event="replayed", log=log, count=count, repeated=repeated)


class _Homes:
    """The logs that letters go back to, each opened when the first letter for it comes."""

    def __init__(self, endpoint: Endpoint, mesh: Mesh) -> None:
        self._endpoint = endpoint
        self._mesh = mesh
        self._logs: dict[str, Log] = {}

    async def log(self, name: str) -> Log:
        if name not in self._logs:
            self._logs[name] = await reach_log(self._endpoint, self._mesh, name)
        return self._logs[name]


async def _put_back(asked: _Replay, entries: list[LogEntry], homes: _Homes) -> None:
    """Append letters where they came from, and wait until all are there."""
    receipts = []
    for entry in entries:
        letter = _letter_of(asked, entry)
        if letter is None:
            asked.skipped += 1
            continue
        name = asked.into or letter.log
        if name is None:
            raise CommandFailed(
                f"{_place(asked, entry)} does not say from which log it is",
                hint="say where it belongs with --into LOG, and name the log in deadletters()",
            )
        log = await homes.log(name)
        home = letter.home(await log.partition_count())
        producer = producer_of(asked.dead, entry.partition, home)
        sequence = sequence_of(entry.timestamp_ns, entry.offset)
        receipt = await log.append(
            letter.value, letter.key, partition=home, producer=producer, sequence=sequence
        )
        receipts.append((entry, name, receipt))
    for entry, name, receipt in receipts:
        try:
            await receipt.applied()
        except SequenceUnknown as error:
            raise CommandFailed(
                f"{_place(asked, entry)} was replayed long ago, or its log was made anew where a"
                f" clock is behind: {error}",
                hint="to put it back once more, append it: peermesh log append",
            ) from None
        (asked.repeated if receipt.is_repeated() else asked.done)[name] += 1


def _letter_of(asked: _Replay, entry: LogEntry) -> Letter | None:
    try:
        return read_letter(entry.key, entry.value)
    except InvalidData as error:
        if asked.skips:
            return None
        raise CommandFailed(
            f"{_place(asked, entry)} cannot be replayed: {error}",
            hint="pass over such entries with --skip-others",
        ) from None


def _place(asked: _Replay, entry: LogEntry) -> str:
    log = on_a_line(asked.dead)
    return f"partition {entry.partition}, offset {entry.offset} of log {log}"
