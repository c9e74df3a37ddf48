"""What the source does with a log, without Spark."""

from __future__ import annotations

import pytest

from peermesh.spark.offsets import Range
from peermesh.spark.options import End, Explicit, Instant
from peermesh.spark.reading import READ_COUNT, DataLoss, LogReader
from peermesh.testing.time_limits import limit


@pytest.fixture
def log(mesh):
    """Give a log of two partitions, with ten entries in the first."""
    keeper = mesh[0].attach_log("orders", partitions=2)
    keeper.append_batch(list(range(10)), partition=0).result(timeout=limit())
    return keeper


def reader(log, *, fails_on_loss=True):
    return LogReader(log, fails_on_loss=fails_on_loss)


def offsets(log, wanted, **options):
    return [entry.offset for entry in reader(log, **options).read(wanted)]


def test_places_are_found_in_every_partition(log):
    between = log.read(0, 9)[0].timestamp_ns + 1
    log.append_batch(["late"], partition=0).result(timeout=limit())
    log.trim(0, 3).result(timeout=limit())
    found = reader(log)
    assert found.resolve(End.EARLIEST, End.EARLIEST) == {0: 3, 1: 0}
    assert found.resolve(End.LATEST, End.EARLIEST) == {0: 11, 1: 0}
    assert found.resolve(Explicit(((0, 5),)), End.LATEST) == {0: 5, 1: 0}
    assert found.resolve(Instant(between), End.EARLIEST) == {0: 10, 1: 0}


def test_a_batch_goes_no_further_than_its_limit_and_its_target(log):
    found = reader(log)
    assert found.next_end({0: 0, 1: 0}, None, None, 30) == {0: 10, 1: 0}
    assert found.next_end({0: 0, 1: 0}, 4, None, 30) == {0: 4, 1: 0}
    assert found.next_end({0: 5, 1: 0}, None, {0: 7, 1: 0}, 30) == {0: 7, 1: 0}
    assert found.next_end({0: 7, 1: 0}, None, {0: 7, 1: 0}, 30) == {0: 7, 1: 0}


class AppendsLate:
    """A log that gets its next entry when somebody has begun to wait for it."""

    def __init__(self, log):
        self._log = log

    def __getattr__(self, name):
        return getattr(self._log, name)

    def consume(self, **where):
        waiting = self._log.consume(**where)
        self._log.append("new", partition=1)
        return waiting


def test_where_there_is_nothing_it_waits_at_the_keeper_and_does_not_ask_again(log):
    assert reader(AppendsLate(log)).next_end({0: 10, 1: 0}, None, None, 30) == {0: 10, 1: 1}


def test_a_task_reads_exactly_its_range_over_many_answers(log):
    for _ in range(3):
        log.append_batch([0] * 4_000, partition=1).result(timeout=limit())
    assert offsets(log, Range(1, 5, 11_999)) == list(range(5, 11_999))
    assert READ_COUNT < 11_999


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
    assert skipping.plan({0: 2, 1: 0}, {0: 10, 1: 0}) == [Range(0, 6, 10)]
    assert skipping.next_end({0: 2, 1: 0}, 1, None, 30) == {0: 7, 1: 0}
    assert offsets(log, Range(0, 2, 8), fails_on_loss=False) == [6, 7]
    assert offsets(log, Range(0, 2, 4), fails_on_loss=False) == []


def test_a_log_that_has_less_than_was_read_is_no_success(log):
    with pytest.raises(DataLoss, match="it ends at offset 10, and 40 was read already"):
        reader(log).next_end({0: 40, 1: 0}, None, None, 30)
    with pytest.raises(DataLoss):
        offsets(log, Range(0, 8, 12))
    skipping = reader(log, fails_on_loss=False)
    assert skipping.next_end({0: 40, 1: 0}, None, {0: 10, 1: 0}, 30) == {0: 10, 1: 0}
    assert offsets(log, Range(0, 8, 12), fails_on_loss=False) == [8, 9]
