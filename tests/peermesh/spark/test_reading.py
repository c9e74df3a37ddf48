"""What the source does with a log, without Spark."""

from __future__ import annotations

import threading

import pytest

from peermesh.spark.offsets import GONE, Range
from peermesh.spark.options import End, Explicit, Instant
from peermesh.spark.reading import SPANS_SECONDS, DataLoss, Goal, LogReader
from peermesh.testing.time_limits import limit
from stores.log.limits import FETCH_SIZE_MAX
from wire.errors import InvalidData

STARTING = "startingOffsets"


@pytest.fixture
def log(mesh):
    """Give a log of two partitions, with ten entries in the first."""
    keeper = mesh[0].attach_log("orders", partitions=2)
    keeper.append_batch(list(range(10)), partition=0).result(timeout=limit())
    return keeper


def reader(log, *, fails_on_loss=True):
    return LogReader(log, fails_on_loss=fails_on_loss)


def offsets(log, *wanted, **options):
    """Read ranges; give the partitions and offsets that came."""
    return [
        (piece.run.partition, piece.offset + number)
        for piece in reader(log, **options).read(wanted)
        for number in range(piece.count)
    ]


def of(partition, numbers):
    return [(partition, number) for number in numbers]


def test_places_are_found_in_every_partition(log):
    between = log.read(0, 9)[0].timestamp_ns + 1
    log.append_batch(["late"], partition=0).result(timeout=limit())
    log.trim(0, 3).result(timeout=limit())
    found = reader(log)
    assert found.resolve(End.EARLIEST, End.EARLIEST, STARTING) == {0: 3, 1: 0}
    assert found.resolve(End.LATEST, End.EARLIEST, STARTING) == {0: 11, 1: 0}
    assert found.resolve(Explicit(((0, 5),)), End.LATEST, STARTING) == {0: 5, 1: 0}
    assert found.resolve(Instant(between), End.EARLIEST, STARTING) == {0: 10, 1: 0}


def test_offsets_that_are_given_are_checked_against_what_is_there_at_this_moment(log):
    found = reader(log)
    assert found.ends() == {0: 10, 1: 0}
    log.append("late", partition=0).result(timeout=limit())
    assert found.resolve(Explicit(((0, 11), (1, -2))), End.LATEST, STARTING) == {0: 11, 1: 0}
    text = (
        "option endingOffsets: partition 0 ends at offset 11, and 40 was given: give one up to 11"
    )
    with pytest.raises(InvalidData, match=text):
        found.resolve(Explicit(((0, 40),)), End.LATEST, "endingOffsets")


def test_a_batch_goes_no_further_than_its_limit_and_its_target(log):
    found = reader(log)
    assert found.next_end({0: 0, 1: 0}, None, None, 30) == Goal({0: 10, 1: 0}, [])
    assert found.next_end({0: 0, 1: 0}, 4, None, 30) == Goal({0: 4, 1: 0}, [])
    assert found.next_end({0: 5, 1: 0}, None, {0: 7, 1: 0}, 30) == Goal({0: 7, 1: 0}, [])
    assert found.next_end({0: 7, 1: 0}, None, {0: 7, 1: 0}, 30) == Goal({0: 7, 1: 0}, [])


class Asked:
    """A log that counts what it is asked, and gets its next entry when a question waits for it."""

    def __init__(self, log):
        self._log = log
        self.questions = []

    def __getattr__(self, name):
        return getattr(self._log, name)

    def offsets(self):
        self.questions.append("offsets")
        return self._log.offsets()

    def runs(self, positions, size=FETCH_SIZE_MAX, timeout=0.0):
        self.questions.append(("runs", dict(positions)))
        if timeout:
            self._log.append("new", partition=1)
        return self._log.runs(positions, size, timeout)


def test_where_there_is_nothing_it_waits_at_the_leader_and_does_not_ask_again(log):
    asked = Asked(log)
    assert reader(asked).next_end({0: 10, 1: 0}, None, None, 30) == Goal({0: 10, 1: 1}, [])
    assert asked.questions == ["offsets", ("runs", {0: 10, 1: 0}), "offsets"]


def test_a_batch_is_planned_with_one_question_and_the_next_one_with_another(log):
    now, asked = [0.0], Asked(log)
    found = LogReader(asked, fails_on_loss=True, clock=lambda: now[0])
    for at in (0.0, 5.0):
        now[0] = at
        assert found.next_end({0: 0, 1: 0}, None, None, 0).ends == {0: 10, 1: 0}
        now[0] = at + SPANS_SECONDS * 0.9
        assert found.plan({0: 0, 1: 0}, {0: 10, 1: 0}) == ([Range(0, 0, 10)], [])
        assert found.ends() == {0: 10, 1: 0}
    assert asked.questions == ["offsets"] * 2
    log.append("new", partition=1).result(timeout=limit())
    assert found.ends() == {0: 10, 1: 0}
    assert found.ends(fresh=True) == {0: 10, 1: 1}


def test_a_task_reads_exactly_its_ranges_over_many_answers(log):
    for number in range(40):
        values = [b"x" * 1_000] * 100
        log.append_batch(values, partition=number % 2).result(timeout=limit())
    asked = Asked(log)
    wanted = (Range(1, 5, 1_999), Range(0, 3, 2_000))
    found = offsets(asked, *wanted)
    assert [place for place in found if place[0] == 1] == of(1, range(5, 1_999))
    assert [place for place in found if place[0] == 0] == of(0, range(3, 2_000))
    assert 3 < len(asked.questions) < 10
    assert asked.questions[0] == ("runs", {1: 5, 0: 3})


class Held:
    """A log that hands out answers one by one."""

    def __init__(self, log):
        self._log = log
        self.asked = threading.Semaphore(0)
        self.may_answer = threading.Semaphore(1)

    def name(self):
        return self._log.name()

    def runs(self, positions):
        self.asked.release()
        assert self.may_answer.acquire(timeout=limit())
        return self._log.runs(positions, 1)


def test_the_next_question_is_under_way_while_the_last_answer_is_looked_at(log):
    log.append_batch(list(range(10)), partition=0).result(timeout=limit())
    held = Held(log)
    found = reader(held).read((Range(0, 0, 20),))
    assert next(found).count == 10
    for _ in range(2):  # after the second fetch, which the reader sends ahead, too
        assert held.asked.acquire(timeout=limit())
    held.may_answer.release()
    assert [piece.offset for piece in found] == [10]


def test_what_retention_took_is_named_or_skipped(log):
    log.trim(0, 6).result(timeout=limit())
    for act in (
        lambda: reader(log).plan({0: 2, 1: 0}, {0: 10, 1: 0}),
        lambda: reader(log).next_end({0: 2, 1: 0}, None, None, 30),
        lambda: offsets(log, Range(0, 2, 10)),
    ):
        with pytest.raises(DataLoss, match="partition 0: the entries 2 to 5 are gone"):
            act()
    skipping = reader(log, fails_on_loss=False)
    assert skipping.plan({0: 2, 1: 0}, {0: 10, 1: 0}) == ([Range(0, 6, 10)], [Range(0, 2, 6)])
    assert skipping.next_end({0: 2, 1: 0}, 1, None, 30) == Goal({0: 7, 1: 0}, [Range(0, 2, 6)])
    assert offsets(log, Range(0, 2, 8), fails_on_loss=False) == of(0, [6, 7])
    assert offsets(log, Range(0, 2, 4), fails_on_loss=False) == []


def test_a_log_that_has_less_than_was_read_is_no_success(log):
    with pytest.raises(DataLoss, match="it ends at offset 10, and 40 was read already"):
        reader(log).next_end({0: 40, 1: 0}, None, None, 30)
    with pytest.raises(DataLoss):
        offsets(log, Range(0, 8, 12))
    skipping = reader(log, fails_on_loss=False)
    goal = skipping.next_end({0: 40, 1: 0}, None, {0: 10, 1: 0}, 30)
    assert goal == Goal({0: 10, 1: 0}, [Range(0, 40, 10)])
    assert offsets(log, Range(0, 8, 12), fails_on_loss=False) == of(0, [8, 9])


def test_a_log_that_has_fewer_partitions_than_were_read_is_no_success(log, caplog):
    start, end = {0: 4, 1: 0, 2: 3}, {0: 9, 1: 0, 2: 8}
    for act in (
        lambda: reader(log).next_end(start, None, None, 30),
        lambda: reader(log).plan(start, end),
        lambda: reader(log).plan({0: 4, 1: 0}, end),
    ):
        with pytest.raises(
            DataLoss, match="log orders, partition 2: the log has no such partition"
        ):
            act()
    skipping = reader(log, fails_on_loss=False)
    lost = [Range(2, 3, GONE)]
    assert skipping.next_end(start, None, None, 30) == Goal({0: 10, 1: 0}, lost)
    assert skipping.plan(start, end) == ([Range(0, 4, 9)], lost)
    assert "partition 2: the log has no such partition any more" in caplog.text


def test_what_is_skipped_is_warned_of_with_its_ranges(log, caplog):
    log.append_batch(list(range(10)), partition=1).result(timeout=limit())
    log.trim(0, 6).result(timeout=limit())
    log.trim(1, 3).result(timeout=limit())
    reader(log, fails_on_loss=False).plan({0: 2, 1: 0}, {0: 10, 1: 10})
    found = offsets(log, Range(0, 0, 7), Range(1, 0, 2), fails_on_loss=False)
    assert found == of(0, [6])
    planned, *read = [record.getMessage() for record in caplog.records]
    assert "log orders, partition 0: the entries 2 to 5 are gone" in planned
    assert "log orders, partition 1: the entries 0 to 2 are gone" in planned
    assert ["entries 0 to 5" in read[0], "entries 0 to 1" in read[1]] == [True, True]
