"""What is killed when, and what the picture of it all shows."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from peermesh.charts import LinearAxis
from peermesh.demo.kills import SHARES, Kills
from peermesh.demo.link import Assignment
from peermesh.demo.picture import draw_run
from peermesh.demo.plan import Input, Plan, Ports, Victim
from peermesh.demo.record import Record, lags, rates, stairs, value_at

# Kills.


def test_everybody_is_killed_once_each_in_the_middle_of_a_batch_of_its_own():
    kills, killed = Kills(Victim, 100), []
    for batch, processed in enumerate(range(0, 100, 5)):
        victim = kills.on_counting(batch, processed)
        killed += [(victim, processed)] if victim else []
        assert kills.on_counting(batch, processed) is None, "the batch of a kill is not over"
        assert kills.on_batch(batch) == (victim is not None)
    assert killed == [(victim, 100 * SHARES[victim]) for victim in Victim]


def test_nobody_is_killed_before_the_one_killed_last_is_made_up_for():
    kills = Kills(Victim, 100)
    assert kills.on_counting(0, 99) is None, "nothing runs yet"
    assert not kills.on_batch(0)
    assert kills.on_counting(5, 99) == Victim.LOG_LEADER
    assert not kills.on_batch(4), "the end of the last one is told late"
    assert kills.on_counting(5, 99) is None
    assert kills.on_batch(5)
    assert kills.on_counting(6, 99) == Victim.DRIVER


def test_only_those_are_killed_who_were_named():
    kills = Kills([Victim.STORE_LEADER], 10)
    kills.on_batch(0)
    assert kills.on_counting(1, 6) is None
    assert kills.on_counting(1, 7) == Victim.STORE_LEADER
    kills.on_batch(1)
    assert kills.on_counting(2, 9) is None


# What roles are told.


def test_an_assignment_comes_back_as_it_was_written():
    assignment = Assignment(
        reports=3,
        directory="/somewhere",
        what=Input(source="a", key="b", time="c", copies=2),
        plan=Plan(lines=10, shift_seconds=60, watermark_ms=5, rows_max=7),
        ports=Ports(members=(2, 3, 4), gateways=(5, 6, 7)),
        draws=True,
        member=1,
    )
    assert Assignment.parse(assignment.text()) == assignment
    assert assignment.total() == 20


# The picture.


@pytest.fixture
def record() -> Record:
    record = Record(100)
    for at, lines in ((1.0, 50), (2.0, 100)):
        record.append(at, lines)
    for at, lines in ((3.0, 40), (4.0, 30), (6.0, 100)):
        record.process(at, lines)
    record.mark(2.5, "driver <killed>", is_kill=True)
    record.lead(0.5, "events", 1)
    record.lead(3.0, "events", 3)
    return record


def test_a_record_knows_lags_and_rates(record):
    assert [value_at(record.appended, at) for at in (0.5, 1, 1.5, 9)] == [0, 50, 50, 100]
    assert lags(record) == [(0, 0), (1, 50), (2, 100), (3, 60), (4, 60), (6, 0)]
    assert rates(record.processed, record.end, 2) == [
        (0, 40 / 3), (3, 40 / 3), (3, 20), (6, 20),
    ]  # fmt: skip
    assert stairs([(0, 0), (1, 5), (3, 6)]) == [(0, 0), (1, 0), (1, 5), (3, 5), (3, 6)]


def test_a_picture_has_its_panels_kills_and_figures_and_nothing_from_elsewhere(record):
    text = draw_run(record)
    root = ElementTree.fromstring(text)
    shown = [each.text for each in root.iter() if each.text]
    assert "100 lines in 6 seconds" in shown
    assert {"lines", "throughput, lines a second", "driver <killed>"} <= set(shown)
    assert {"who leads", "events", "store-a", "store-c"} <= set(shown)
    assert record.leaders() == {"events": [(0.5, 1), (3.0, 3), (6.0, 3)]}
    assert text.count('stroke="#cc0033"') == 4, "a line for the kill in each panel"
    assert not re.search(r"(href|src|url\()", text)
    places = [float(each) for each in re.findall(r' (?:x|cx)="([-\d.]+)"', text)]
    assert all(0 <= place <= float(root.get("width")) for place in places)


def test_a_run_that_did_nothing_has_a_picture_too():
    ElementTree.fromstring(draw_run(Record(0)))


@given(st.floats(1e-6, 1e12))
def test_the_figures_of_an_axis_are_round_few_and_on_it(highest):
    axis = LinearAxis([highest], 0, 100)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 6
    assert all(0 <= axis.place(tick) <= 100.1 for tick in ticks)
