"""What the source does with a log, without Spark."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from peermesh.blocking import Backend, Endpoint
from peermesh.spark.offsets import ANEW, GONE, Point, Range, from_json, to_json
from peermesh.spark.options import End, Explicit, Instant
from peermesh.spark.reading import SPANS_SECONDS, DataLoss, LogReader
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


def next_end(found, start, rows_max=None, target=None, seconds=30):
    """Say how far the next batch goes: its ends, and what is lost."""
    point = None if target is None else Point(target)
    goal = found.next_end(Point(start), rows_max, point, seconds)
    return goal.end.offsets, goal.lost


def plan(found, start, end):
    made = found.plan(Point(start), Point(end))
    return made.wanted, made.lost


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
    assert found.look().ends() == {0: 10, 1: 0}
    log.append("late", partition=0).result(timeout=limit())
    assert found.resolve(Explicit(((0, 11), (1, -2))), End.LATEST, STARTING) == {0: 11, 1: 0}
    text = (
        "option endingOffsets: partition 0 ends at offset 11, and 40 was given: give one up to 11"
    )
    with pytest.raises(InvalidData, match=text):
        found.resolve(Explicit(((0, 40),)), End.LATEST, "endingOffsets")


def test_a_batch_goes_no_further_than_its_limit_and_its_target(log):
    found = reader(log)
    assert next_end(found, {0: 0, 1: 0}, None, None) == ({0: 10, 1: 0}, [])
    assert next_end(found, {0: 0, 1: 0}, 4, None) == ({0: 4, 1: 0}, [])
    assert next_end(found, {0: 5, 1: 0}, None, {0: 7, 1: 0}) == ({0: 7, 1: 0}, [])
    assert next_end(found, {0: 7, 1: 0}, None, {0: 7, 1: 0}) == ({0: 7, 1: 0}, [])


class Asked:
    """A log that counts what it is asked, and gets its next entry when a question waits for it."""

    def __init__(self, log):
        self._log = log
        self.questions = []

    def __getattr__(self, name):
        return getattr(self._log, name)

    def marked_offsets(self):
        self.questions.append("offsets")
        return self._log.marked_offsets()

    def runs(self, positions, size=FETCH_SIZE_MAX, timeout=0.0, *, after=None):
        self.questions.append(("runs", dict(positions)))
        if timeout:
            self._log.append("new", partition=1)
        return self._log.runs(positions, size, timeout, after=after)


def test_where_there_is_nothing_it_waits_at_the_leader_and_does_not_ask_again(log):
    asked = Asked(log)
    assert next_end(reader(asked), {0: 10, 1: 0}) == ({0: 10, 1: 1}, [])
    assert asked.questions == ["offsets", ("runs", {0: 10, 1: 0}), "offsets"]


def test_a_batch_is_planned_with_one_question_and_the_next_one_with_another(log):
    now, asked = [0.0], Asked(log)
    found = LogReader(asked, fails_on_loss=True, clock=lambda: now[0])
    for at in (0.0, 5.0):
        now[0] = at
        assert next_end(found, {0: 0, 1: 0}, seconds=0) == ({0: 10, 1: 0}, [])
        now[0] = at + SPANS_SECONDS * 0.9
        assert plan(found, {0: 0, 1: 0}, {0: 10, 1: 0}) == ([Range(0, 0, 10)], [])
        assert found.look().ends() == {0: 10, 1: 0}
    assert asked.questions == ["offsets"] * 2
    log.append("new", partition=1).result(timeout=limit())
    assert found.look().ends() == {0: 10, 1: 0}
    assert found.look(fresh=True).ends() == {0: 10, 1: 1}


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

    def runs(self, positions, size, *, after=None):
        self.asked.release()
        assert self.may_answer.acquire(timeout=limit())
        return self._log.runs(positions, 1, after=after)


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
        lambda: plan(reader(log), {0: 2, 1: 0}, {0: 10, 1: 0}),
        lambda: next_end(reader(log), {0: 2, 1: 0}),
        lambda: offsets(log, Range(0, 2, 10)),
    ):
        with pytest.raises(DataLoss, match="partition 0: the entries 2 to 5 are gone"):
            act()
    skipping = reader(log, fails_on_loss=False)
    assert plan(skipping, {0: 2, 1: 0}, {0: 10, 1: 0}) == ([Range(0, 6, 10)], [Range(0, 2, 6)])
    assert next_end(skipping, {0: 2, 1: 0}, 1) == ({0: 7, 1: 0}, [Range(0, 2, 6)])
    assert offsets(log, Range(0, 2, 8), fails_on_loss=False) == of(0, [6, 7])
    assert offsets(log, Range(0, 2, 4), fails_on_loss=False) == []


def test_a_log_that_has_less_than_was_read_is_no_success(log):
    with pytest.raises(DataLoss, match="it goes on at offset 10, and 40 was wanted next"):
        next_end(reader(log), {0: 40, 1: 0})
    with pytest.raises(DataLoss):
        offsets(log, Range(0, 8, 12))
    skipping = reader(log, fails_on_loss=False)
    goal = next_end(skipping, {0: 40, 1: 0}, None, {0: 10, 1: 0})
    assert goal == ({0: 10, 1: 0}, [Range(0, 40, 10)])
    assert offsets(log, Range(0, 8, 12), fails_on_loss=False) == of(0, [8, 9])


def test_a_log_that_has_fewer_partitions_than_were_read_is_no_success(log, caplog):
    start, end = {0: 4, 1: 0, 2: 3}, {0: 9, 1: 0, 2: 8}
    for act in (
        lambda: next_end(reader(log), start),
        lambda: plan(reader(log), start, end),
        lambda: plan(reader(log), {0: 4, 1: 0}, end),
    ):
        with pytest.raises(
            DataLoss, match="log orders, partition 2: the log has no such partition"
        ):
            act()
    skipping = reader(log, fails_on_loss=False)
    lost = [Range(2, 3, GONE)]
    assert next_end(skipping, start) == ({0: 10, 1: 0}, lost)
    assert plan(skipping, start, end) == ([Range(0, 4, 9)], lost)
    assert "partition 2: the log has no such partition any more" in caplog.text


def test_what_is_skipped_is_warned_of_with_its_ranges(log, caplog):
    log.append_batch(list(range(10)), partition=1).result(timeout=limit())
    log.trim(0, 6).result(timeout=limit())
    log.trim(1, 3).result(timeout=limit())
    plan(reader(log, fails_on_loss=False), {0: 2, 1: 0}, {0: 10, 1: 10})
    found = offsets(log, Range(0, 0, 7), Range(1, 0, 2), fails_on_loss=False)
    assert found == of(0, [6])
    planned, *read = [record.getMessage() for record in caplog.records]
    assert "log orders, partition 0: the entries 2 to 5 are gone" in planned
    assert "log orders, partition 1: the entries 0 to 2 are gone" in planned
    assert ["entries 0 to 5" in read[0], "entries 0 to 1" in read[1]] == [True, True]


# Another log, or one of which entries are lost.


class Kept:
    """A log that begins anew under its name, and a reader of it elsewhere."""

    def __init__(self, endpoint, log):
        self.endpoint, self.log = endpoint, log
        self.keeper = endpoint.attach_log("orders", partitions=2)

    def fill(self, *counts):
        for partition, count in enumerate(counts):
            self.keeper.append_batch(["x"] * count, partition=partition).result(timeout=limit())

    def begin_anew(self, *counts, partitions=2):
        self.keeper.close()
        self.keeper = self.endpoint.attach_log("orders", partitions=partitions, fresh=True)
        self.fill(*counts)

    def reader(self, *, fails_on_loss=True):
        return LogReader(self.log, fails_on_loss=fails_on_loss)

    def end(self):
        """Give where it ends, as a checkpoint has it."""
        return from_json(to_json(self.reader().end()))


@pytest.fixture
def kept(mesh):
    endpoint, peers = mesh
    with Endpoint() as other:
        host, _, port = peers.rpartition(":")
        assert other.peer(host, int(port), timeout=limit())
        yield Kept(endpoint, other.attach_log_proxy("orders", patience=limit(60)))


def test_another_log_is_no_success_and_is_read_from_its_beginning(kept, caplog):
    kept.fill(10, 5)
    start, old = kept.end(), Point({0: 10, 1: 5})
    assert next_end(kept.reader(), {0: 10, 1: 5}, seconds=0) == ({0: 10, 1: 5}, [])
    kept.begin_anew(30, 20)
    kept.keeper.trim(1, 3).result(timeout=limit())
    there = Point({0: 30, 1: 20})
    for act in (
        lambda: kept.reader().next_end(start, None, None, 30),
        lambda: kept.reader().plan(start, kept.end()),
    ):
        with pytest.raises(DataLoss, match="0: it is another log than the one of which offset 10"):
            act()
    skipping = kept.reader(fails_on_loss=False)
    goal = skipping.next_end(start, None, None, 30)
    assert goal.end == kept.end()
    assert goal.end.offsets == there.offsets
    plan = skipping.plan(start, goal.end)
    assert plan.wanted == [Range(0, 0, 30), Range(1, 3, 20)]
    assert plan.lost == goal.lost == [Range(0, 10, ANEW), Range(1, 5, ANEW)]
    assert "partition 1: it is another log than the one of which offset 5 was" in caplog.text
    assert kept.reader().plan(old, there).wanted == [Range(0, 10, 30), Range(1, 5, 20)], (
        "offsets of no certain log are taken as they are"
    )
    assert kept.reader().next_end(goal.end, None, None, 0).end == goal.end


def test_a_log_of_which_nothing_was_read_may_begin_anew(kept):
    start = kept.end()
    kept.begin_anew(1, 2, 3, partitions=3)
    goal = kept.reader().next_end(start, None, None, 30)
    assert (goal.end, goal.lost) == (kept.end(), [])
    assert kept.reader().plan(start, goal.end).wanted == [
        Range(0, 0, 1), Range(1, 0, 2), Range(2, 0, 3),
    ]  # fmt: skip


def test_a_batch_of_a_log_that_is_gone_is_read_in_no_other(kept, caplog):
    start = kept.end()
    kept.fill(10, 5)
    end = kept.end()
    planned = kept.reader().plan(start, end)
    assert len(list(kept.reader().read(planned.wanted, planned.log))) == 2
    kept.begin_anew(30, 20)
    gone = [Range(0, 0, 10), Range(1, 0, 5)]
    with pytest.raises(DataLoss, match="partition 0: the entries 0 to 9 are gone"):
        kept.reader().plan(start, end)
    with pytest.raises(DataLoss, match="it is another log"):
        list(kept.reader().read([Range(0, 3, 10)], planned.log))
    skipping = kept.reader(fails_on_loss=False)
    assert list(skipping.read(planned.wanted, planned.log)) == []
    assert "partition 1: the entries 0 to 4 are gone" in caplog.text
    plan = skipping.plan(start, end)
    assert (plan.wanted, plan.lost) == ([], gone)
    assert skipping.plan(end, skipping.next_end(end, None, None, 30).end).wanted == [
        Range(0, 0, 30), Range(1, 0, 20),
    ]  # fmt: skip


def test_a_partition_that_another_log_lacks_is_lost_where_it_is_read(kept):
    kept.fill(10, 5)
    planned = kept.reader().plan(Point({}), kept.end())
    kept.begin_anew(30, partitions=1)
    with pytest.raises(DataLoss, match="partition 1: the entries 0 to 4 are gone"):
        list(kept.reader().read(planned.wanted[1:], planned.log))
    assert list(kept.reader(fails_on_loss=False).read(planned.wanted[1:], planned.log)) == []


def test_a_cursor_is_not_moved_in_another_log(kept):
    kept.fill(10, 5)
    end = kept.end()
    kept.reader().commit("job", end)
    kept.log.append("x").result(timeout=limit())
    assert kept.keeper.committed("job") == {0: 10, 1: 5}
    kept.begin_anew(30, 20)
    kept.reader().commit("job", end)
    kept.log.append("x").result(timeout=limit())
    assert kept.keeper.committed("job") == {}


@contextmanager
def copied(kept, folder):
    """Have a copy of what is there now; gives what promotes it by force later."""
    place = {"backend": Backend.SQLite, "path": folder / "copy.db"}
    with Endpoint() as heir:
        assert kept.endpoint.peer("127.0.0.1", heir.listen(), timeout=limit())
        copy = heir.attach_log_clone("orders", **place)
        assert copy.await_idle(timeout=limit())
        copy.close()

        def promoted():
            copy = heir.attach_log_clone("orders", **place)
            copy.promote(force=True)
            return copy

        yield promoted


def test_where_entries_were_lost_with_their_leader_others_under_their_offsets_are_read(
    kept, tmp_path
):
    kept.fill(4, 4)
    with copied(kept, tmp_path) as promoted:
        kept.fill(3)
        start = kept.end()
        kept.fill(3, 1)
        planned = kept.reader().plan(start, kept.end())
        kept.keeper.close()
        copy = promoted()
        copy.append_batch(["other"] * 20, partition=0).result(timeout=limit())
        copy.append_batch(["other"] * 20, partition=1).result(timeout=limit())
        with pytest.raises(DataLoss, match="partition 0: it goes on at offset 4, and 7 was wanted"):
            kept.reader().next_end(start, None, None, 30)
        with pytest.raises(DataLoss, match="partition 0: it goes on at offset 4, and 7 was wanted"):
            list(kept.reader().read(planned.wanted, planned.log))
        skipping = kept.reader(fails_on_loss=False)
        goal = skipping.next_end(start, None, None, 30)
        assert (goal.end.offsets, goal.lost) == ({0: 24, 1: 24}, [Range(0, 7, 4)])
        assert skipping.plan(start, goal.end).wanted == [Range(0, 4, 24), Range(1, 4, 24)]
        assert kept.reader().next_end(goal.end, None, None, 0).lost == []


def test_what_retention_lets_go_meanwhile_hides_no_loss_in_another_partition(kept, tmp_path):
    kept.fill(4, 4)
    with copied(kept, tmp_path) as promoted:
        kept.fill(3, 3)
        start = kept.end()
        kept.keeper.close()
        copy = promoted()
        for partition in (0, 1):
            copy.append_batch(["other"] * 20, partition=partition).result(timeout=limit())
        planning = LogReader(kept.log, fails_on_loss=False, clock=lambda: 0.0)
        planning.look()
        copy.trim(0, 10).result(timeout=limit())
        assert planning.next_end(start, None, None, 0).lost == [Range(1, 7, 4)]
