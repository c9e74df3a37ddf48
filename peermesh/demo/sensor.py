"""The role of the sensor: appends the lines of the input to the log, as events, each once.

It is a producer with a name, whose sequence numbers are those of lines. A sensor that is started
again asks the log for its end, and goes on there; what its last life had under way is recognised.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from typing import Final

import trio

from peermesh import Endpoint, Log
from peermesh.demo.errors import DemoError
from peermesh.demo.events import CHUNK_COUNT, CHUNK_SIZE, LOG_NAME, PRODUCER, Event, EventReader
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.mesh import dial
from peermesh.demo.reading import read_lines
from wire.values import Value

REPORT_SECONDS: Final = 0.2
"""The least time between two reports: as fine as a picture of the run shows."""

PATIENCE_SECONDS: Final = 120.0
"""How long the log may have no leader."""


def read_chunks(
    assignment: Assignment, copy: int, first: int
) -> Generator[list[Value], None, None]:
    """Read the input from a line on, in pieces that are the same whenever they begin there."""
    reader = EventReader(assignment.what.key, assignment.what.time)
    chunk: list[Value] = []
    size = 0
    for number, line in read_lines(assignment.what.source):
        event: Event = reader.read(number, line)
        if number < first:
            continue
        chunk.append(event.to_value(copy, assignment.plan.shift_seconds))
        size += len(line)
        if len(chunk) == CHUNK_COUNT or size >= CHUNK_SIZE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class Sensor:
    """Appends, no faster than the plan says."""

    def __init__(self, log: Log, reports: Reports, assignment: Assignment) -> None:
        """Append to ``log``."""
        self._log = log
        self._reports = reports
        self._assignment = assignment
        self._reported = 0.0

    async def run(self) -> None:
        """Go on where the log ends, to the end of the last replay."""
        lines, total = self._assignment.plan.lines, self._assignment.total()
        done = begun_with = (await self._log.offsets())[0].end
        began = trio.current_time()
        self._tell(done)
        while done < total:
            copy, before = divmod(done, lines)
            with closing(read_chunks(self._assignment, copy, before + 1)) as chunks:
                while chunk := await trio.to_thread.run_sync(next, chunks, ()):
                    done = await self._append(done, chunk)
                    self._tell(done)
                    seconds = self._assignment.what.pace_seconds * (done - begun_with) / total
                    await trio.sleep_until(began + seconds)
        self._reports.send("appended", lines=done)

    async def _append(self, done: int, chunk: list[Value]) -> int:
        receipt = await self._log.append_batch(chunk, producer=PRODUCER, sequence=done + 1)
        place = await receipt.applied()
        if place.offset != done:
            raise DemoError(f"line {done + 1} is at offset {place.offset}: the log is another's")
        return done + len(chunk)

    def _tell(self, done: int) -> None:
        now = trio.current_time()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._reports.send("appending", lines=done)


async def run(assignment: Assignment) -> None:
    """Be the sensor until the supervisor ends it."""
    reports = Reports(assignment.reports)
    token = trio.lowlevel.current_trio_token()
    async with Endpoint(forwarding=False) as endpoint, trio.open_nursery() as nursery:
        dial(endpoint, nursery, assignment.ports)
        Orders(lambda _: None, lambda: token.run_sync_soon(nursery.cancel_scope.cancel)).start()
        log = await endpoint.attach_log_proxy(LOG_NAME, patience=PATIENCE_SECONDS)
        await Sensor(log, reports, assignment).run()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
