"""The sensor with a real log: every line is there once, whoever was started again."""

from __future__ import annotations

import json
import os

import pytest
import trio

from peermesh import Endpoint
from peermesh.demo.errors import DemoError
from peermesh.demo.events import CHUNK_COUNT, CHUNK_SIZE, LOG_NAME
from peermesh.demo.link import Assignment, Reports
from peermesh.demo.plan import Input, Plan, Ports
from peermesh.demo.sensor import Sensor, read_chunks

LINES = 2 * CHUNK_COUNT + 7


@pytest.fixture
def reports():
    reading, writing = os.pipe()
    yield Reports(writing)
    os.close(writing)
    os.close(reading)


@pytest.fixture
def assignment(tmp_path) -> Assignment:
    path = tmp_path / "events.json"
    path.write_text("".join(json.dumps({"a": n % 3, "ts": n}) + "\n" for n in range(LINES)))
    return Assignment(
        reports=0,
        directory=str(tmp_path),
        what=Input(source=str(path), key="a", time="ts", copies=2, pace_seconds=0),
        plan=Plan(lines=LINES, shift_seconds=60_000, watermark_ms=0, rows_max=10),
        ports=Ports(members=(0, 0, 0), gateways=(0, 0, 0)),
        draws=False,
    )


async def entries_of(log):
    found = []
    while entries := await log.read(0, len(found)):
        found += entries
    return found


async def assert_complete(log):
    entries = await entries_of(log)
    assert [entry.value["line"] for entry in entries] == [*range(1, LINES + 1)] * 2
    times = [int(entry.value["at"].timestamp()) for entry in entries]
    assert times == [*range(LINES), *range(60_000, 60_000 + LINES)]


async def test_all_lines_of_all_replays_are_appended_in_order(assignment, reports):
    async with Endpoint() as endpoint, endpoint.attach_log(LOG_NAME) as log:
        await Sensor(log, reports, assignment).run()
        await assert_complete(log)


@pytest.mark.parametrize("done", [1, CHUNK_COUNT, LINES, LINES + CHUNK_COUNT, 2 * LINES])
async def test_a_sensor_goes_on_where_the_log_ends(assignment, reports, done):
    async with Endpoint() as endpoint, endpoint.attach_log(LOG_NAME) as log:
        copy = done // LINES
        for each in range(copy + 1):
            for chunk in read_chunks(assignment, each, 1):
                room = done - (await log.offsets())[0].end
                if room:
                    await (await log.append_batch(chunk[:room])).applied()
        await Sensor(log, reports, assignment).run()
        await assert_complete(log)


async def test_two_lives_of_a_sensor_that_overlap_append_each_line_once(assignment, reports):
    """What the first one has under way when it is killed may arrive after the second has begun."""
    async with Endpoint() as endpoint, endpoint.attach_log(LOG_NAME) as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Sensor(log, reports, assignment).run)
            nursery.start_soon(Sensor(log, reports, assignment).run)
        await assert_complete(log)


async def test_a_log_that_others_write_to_is_refused(assignment, reports):
    async with Endpoint() as endpoint, endpoint.attach_log(LOG_NAME) as log:
        sensor = Sensor(log, reports, assignment)
        await (await log.append("foreign")).applied()
        with pytest.raises(DemoError, match="the log is another's"):
            await sensor._append(0, ["x"])


def test_pieces_are_the_same_wherever_reading_begins_and_not_too_large(tmp_path, assignment):
    path = tmp_path / "large"
    line = json.dumps({"a": "x" * (CHUNK_SIZE // 3)})
    path.write_text(f"{line}\n" * 7)
    large = Assignment.parse(assignment.text().replace("events.json", "large"))
    sizes = [len(chunk) for chunk in read_chunks(large, 0, 1)]
    assert sizes == [3, 3, 1]
    assert [len(chunk) for chunk in read_chunks(large, 0, 4)] == sizes[1:]
