"""A log's machine by itself: what is staged is hidden, what is applied is the same for all."""

from __future__ import annotations

from typing import get_args

import pytest

from handshake.access import Right
from stores.group.clock import Times
from stores.group.machine import Answer, Append, Done, Staged
from stores.group.positions import START, Position
from stores.group.terms import FORCED_TERMS
from stores.log import producers
from stores.log.bodies import Begun, ChangeRetention, LogRequest, Performed, Write, check_asker
from stores.log.judge import vet
from stores.log.limits import (
    BLOCK_COUNT_MAX,
    CONSUMERS_MAX,
    NAME_SIZE_MAX,
    PARTITIONS_MAX,
    PRODUCER_WINDOW,
    RETENTION_TICKS,
)
from stores.log.machine import LogMachine
from stores.log.messages import Append as AppendRequest, Requests, Trimmed
from stores.log.partitions import Retention, Span
from stores.log.parts import PlacedPart, RunsPart
from stores.log.producers import ProducerRow, Producers
from stores.log.rights import REQUESTS, right_of
from stores.outcomes import Applied, Outcome, Refused
from stores.quota import Quota, QuotaLevel, QuotaPool
from stores.table.bodies import (
    ChangeQuota,
    Register,
    Registered,
    Registration,
)
from tests.stores.log.lab import (
    SECOND_NS,
    START_NS,
    LogHandle,
    LogLab,
    entries_of,
    flat,
    runs_of,
    shown,
)
from tests.stores.table.lab import writer_id
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, InvalidData, NoSuchPartition


@pytest.fixture
def lab():
    return LogLab()


@pytest.fixture
def handle(lab):
    return LogHandle(lab)


def refused(result, code):
    return isinstance(result, Refused) and result.code is code


# -- the beginning ---------------------------------------------------------------------------------


def test_a_log_begins_with_the_leaders_first_tick(lab):
    assert lab.leader.partitions.spans() == ()
    with pytest.raises(NoSuchPartition):
        lab.leader.read(0, 0, 1)
    lab.expire()
    assert lab.entries[0][1] == Begun(2, None)
    lab.expire()
    assert len(lab.entries) == 1, "it is staged, and begins once"
    lab.commit()
    assert lab.leader.partitions.spans() == (Span(0, 0), Span(0, 0))
    lab.tick(20)
    assert len(lab.entries) == 1
    lab.check()


def test_a_log_begins_with_its_first_writer_if_it_comes_before_the_tick(lab):
    first = lab.judge(Register(writer_id(1), 5))
    second = lab.judge(Register(writer_id(2)))
    lab.expire()
    assert isinstance(lab.judge(Register(writer_id(1))), Staged)
    assert [body for _, body in lab.entries] == [
        Begun(2, Registered(writer_id(1), 5, None)),
        Registered(writer_id(2), 0, None),
    ]
    lab.commit()
    assert lab.answers[first] == Registration(1, 5)
    assert lab.answers[second] == Registration(2, 0)
    lab.check()


def test_the_number_of_partitions_is_that_of_the_member_that_led_first(lab):
    lab.followers[0] = LogMachine(partition_count=7)
    LogHandle(lab).append("x", 1)
    lab.commit()
    lab.swap()
    lab.tick()
    lab.commit()
    assert len(lab.leader.partitions) == 2
    lab.check()


def test_another_member_begins_the_log_if_the_first_beginning_was_lost(lab):
    lab.expire()
    lab.lose()
    lab.swap()
    lab.expire()
    lab.commit()
    assert len(lab.leader.partitions) == 2
    lab.check()


def test_a_member_that_has_applied_nothing_leads_with_all_that_is_staged(lab, handle):
    handle.append("a", 1)
    handle.trim(1, 1)
    lab.followers = [lab.machine()]
    lab.committed = 0
    lab.leader = lab.followers.pop()
    for entry in lab.entries:
        lab.leader.stage(*entry)
    lab.commit()
    handle.append("b", 1)
    assert handle.offset == 1
    assert entries_of(lab.leader, 1) == {1: "b"}


@pytest.mark.parametrize("count", [0, -1, PARTITIONS_MAX + 1])
def test_a_number_of_partitions_that_no_log_has_is_refused(count):
    with pytest.raises(InvalidData, match="1 to 1024 partitions"):
        LogMachine(partition_count=count)
    for most in (1, PARTITIONS_MAX):
        LogMachine(partition_count=most)


def test_the_bytes_of_all_runs_are_counted_as_traffic(lab, handle):
    assert lab.leader.traffic == 0
    for value in ("a", "b"):
        handle.append(value)
    handle.trim(2)
    lab.commit()
    body = (None, encode("a"))
    assert [machine.traffic for machine in lab.machines] == [2 * len(encode(body))] * 2
    assert sum(lab.leader.size_of(body) for _, body in lab.entries) == lab.leader.traffic


def test_changes_are_also_what_producers_append_in_one_run(lab, handle):
    for number in range(1, 4):
        handle.gather("a")
        handle.gather("b", producer="p", sequence=number)
    handle.seal()
    ((_, body),) = [each for each in lab.entries if isinstance(each[1], Performed)]
    assert (len(body.runs), len(body.produced)) == (1, 3)
    assert lab.leader.changes_of(body) == 3


def test_changes_are_the_runs_of_an_action(lab, handle):
    for values in ("a" * 500, "b", "c"):
        handle.append_batch(values)
    handle.trim(2)
    lab.commit()
    assert sum(lab.leader.changes_of(body) for _, body in lab.entries) == 3


# -- what is staged --------------------------------------------------------------------------------


def test_what_is_repeated_waits_for_the_entry_that_is_under_way(lab, handle):
    index = handle.append("a")
    assert lab.judge(handle.sent[-1]) == Staged(index)
    second = lab.judge(Register(writer_id(2)))
    assert lab.judge(Register(writer_id(2))) == Staged(second)


def test_readers_see_only_what_is_committed(lab, handle):
    for value in ("a", "b", "c"):
        handle.append(value)
    handle.append("other", 1)
    assert entries_of(lab.leader) == {}
    lab.commit(2)
    assert entries_of(lab.leader) == {0: "a", 1: "b"}
    assert lab.leader.find(START_NS)[0] == 0
    lab.commit()
    assert entries_of(lab.leader) == {0: "a", 1: "b", 2: "c"}
    assert entries_of(lab.leader, 1) == {0: "other"}
    lab.check()


def test_undo_brings_back_everything(lab, handle):
    handle.append("a", 0, "p", 1)
    handle.move_cursor("kept", (0, 1))
    lab.commit()
    before, digest = shown(lab.leader), lab.leader.digest()
    handle.append("b", 0, "p", 2)
    handle.append("c", 1)
    handle.move_cursor("new", (1, 1))
    handle.forget_consumer("kept")
    handle.trim(2)
    lab.judge(ChangeQuota(Quota(1)))
    lab.judge(ChangeRetention(Retention(count=1)))
    assert shown(lab.leader) == before
    lab.lose()
    assert (shown(lab.leader), lab.leader.digest()) == (before, digest)
    assert lab.leader.meter.quota == Quota()
    lab.check()
    # Offsets and numbers that were lost are given anew.
    handle.requests.last_request = 2
    assert handle.append("d", 0, "p", 2)
    assert handle.offset == 1
    assert entries_of(lab.leader) == {0: "a", 1: "d"}
    lab.check()


def test_entries_of_one_write_are_one_run_of_each_partition(lab, handle):
    for number in range(6):
        handle.gather(number, number % 2, key="k")
    handle.seal()
    handle.append("later")
    lab.commit()
    assert [run.count for run in runs_of(lab.leader, 0)] == [3, 1]
    assert entries_of(lab.leader, 1) == {0: 1, 1: 3, 2: 5}
    assert runs_of(lab.leader, 0)[0].entries()[0] == encode("k")
    lab.check()


def test_a_run_carries_the_entry_that_it_came_with_and_its_times(lab, handle):
    lab.now_ns = 3 * SECOND_NS
    index = handle.append("a")
    lab.now_ns = SECOND_NS
    handle.append("b")
    lab.commit()
    first, second = runs_of(lab.leader, 0)
    assert first.position == Position(1, index)
    assert (first.elapsed_ns, first.timestamp_ns) == (3 * SECOND_NS, START_NS + 3 * SECOND_NS)
    assert second.position == Position(1, index + 1)
    assert second.elapsed_ns == first.elapsed_ns, "no time goes back"
    assert second.timestamp_ns == first.timestamp_ns


def test_times_of_a_later_leader_go_on_from_what_is_staged(lab, handle):
    lab.now_ns = 9 * SECOND_NS
    handle.append("a")
    lab.swap()
    lab.now_ns = 2 * SECOND_NS
    handle.append("b")
    lab.commit()
    first, second = runs_of(lab.leader, 0)
    assert second.timestamp_ns == first.timestamp_ns
    lab.now_ns = SECOND_NS
    handle.append("c")
    lab.commit()
    assert runs_of(lab.leader, 0)[-1].elapsed_ns == 9 * SECOND_NS
    lab.check()


def test_times_of_a_later_leader_go_on_from_what_is_applied(lab, handle):
    lab.now_ns = 9 * SECOND_NS
    handle.append("a")
    lab.commit()
    lab.swap()
    lab.now_ns = 2 * SECOND_NS
    handle.append("b")
    lab.commit()
    first, second = runs_of(lab.leader, 0)
    assert (second.elapsed_ns, second.timestamp_ns) == (first.elapsed_ns, first.timestamp_ns)


def test_a_lost_time_counts_no_more(lab, handle):
    lab.now_ns = 9 * SECOND_NS
    handle.append("a")
    lab.lose()
    handle.requests.last_request = 0
    lab.now_ns = 2 * SECOND_NS
    handle.append("b")
    lab.commit()
    assert runs_of(lab.leader, 0)[0].elapsed_ns == 2 * SECOND_NS


def test_the_first_entry_of_a_time_is_found(lab, handle):
    for second in range(4):
        lab.now_ns = second * SECOND_NS
        handle.append(second)
    lab.commit()
    assert lab.leader.find(START_NS + 1)[0] == 1
    assert lab.leader.find(START_NS + 9 * SECOND_NS)[0] == 4
    handle.trim(3)
    lab.commit()
    assert lab.leader.find(0) == (3, 0)


def test_an_offset_that_is_gone_or_to_come_has_no_entries(lab, handle):
    handle.append_batch(["a", "b", "c"])
    handle.trim(2)
    lab.commit()
    assert lab.leader.read(0, 1, 1) == []
    assert lab.leader.read(0, 3, 1) == []
    assert [run.first_offset for run in lab.leader.read(0, 2, 1)] == [0], "a run stays whole"


def test_runs_of_several_places_are_gathered_up_to_some_bytes_and_one_at_least(lab, handle):
    for partition, sizes in ((0, (10, 20)), (1, (5, 30))):
        for size in sizes:
            handle.append(bytes(size), partition)
    lab.commit()
    machine, (a, b, c, d) = lab.leader, [*runs_of(lab.leader, 0), *runs_of(lab.leader, 1)]
    places = ((0, 0), (1, 0))
    for size_max, runs in (
        (0, [a]),
        (a.size + b.size - 1, [a, c]),
        (a.size + b.size, [a, b]),
        (a.size + b.size + c.size - 1, [a, b]),
        (a.size + b.size + c.size, [a, b, c]),
        (1_000, [a, b, c, d]),
    ):
        assert machine.gather(places, size_max) == runs
    assert machine.gather(((0, 1), (1, 1)), 1_000) == [b, d]
    assert machine.gather(((0, 2), (1, 2)), 1_000) == []


# -- exactly once: writers -------------------------------------------------------------------------


def test_readers_are_told_what_became_of_a_writers_requests(lab, handle):
    handle.gather("a")
    handle.gather("no", 9)
    handle.seal()
    machine = lab.leader
    assert not machine.has_done(handle.writer, 1)
    outcomes = handle.outcomes()
    assert machine.has_done(handle.writer, 2)
    assert not machine.has_done(handle.writer, 3)
    assert not machine.has_done(writer_id(9), 1)
    assert tuple(machine.outcomes_of(handle.writer, handle.number, 1)) == outcomes
    assert flat(machine.outcomes_of(handle.writer, handle.number, 2))[-1][1] == outcomes[1].result
    assert not machine.outcomes_of(handle.writer, handle.number, 3)
    assert not machine.outcomes_of(handle.writer, handle.number + 1, 1)


def test_requests_of_one_write_have_one_outcome_each(lab, handle):
    handle.gather("a")
    handle.gather("b")
    handle.gather("no", 9)
    handle.requests.trim(0, 1)
    handle.gather("c", 1)
    handle.seal()
    outcomes = handle.outcomes()
    assert outcomes[0] == Outcome(1, 2, Applied(0))
    assert refused(outcomes[1].result, ErrorCode.NO_SUCH_PARTITION)
    assert outcomes[2:] == (Outcome(4, 4, Applied(1)), Outcome(5, 5, Applied(0)))
    assert shown(lab.leader)[0] == (Span(1, 2), Span(0, 1))
    lab.check()


def test_a_write_that_is_repeated_is_answered_with_all_of_its_outcomes(lab, handle):
    handle.gather("a")
    handle.gather("no", 9)
    handle.seal()
    outcomes = handle.outcomes()
    assert len(outcomes) == 2
    assert lab.judge(handle.sent[-1]) == Answer(outcomes)


# -- exactly once: producers -----------------------------------------------------------------------


def test_what_a_named_producer_repeats_is_there_once_whichever_member_leads(lab, handle):
    handle.append("paid", 0, "till", 41)
    other = LogHandle(lab, 2)
    other.append("paid", 0, "till", 41)
    lab.swap()
    again = LogHandle(lab, 3)
    again.append("paid", 0, "till", 41)
    assert again.result == Applied(0, answer=False)
    assert other.result == Applied(0, answer=False)
    assert entries_of(lab.leader) == {0: "paid"}
    lab.check()


def test_a_repetition_in_one_write_is_recognised(lab, handle):
    handle.gather("paid", 0, "till", 1)
    handle.gather("paid", 0, "till", 1)
    handle.gather("more", 0, "till", 2)
    handle.seal()
    assert [each.result for each in handle.outcomes()] == [
        Applied(0),
        Applied(0, answer=False),
        Applied(1),
    ]
    lab.check()


def test_a_number_that_was_left_out_is_refused_staged_or_not(lab, handle):
    handle.append("a", 0, "till", 5)
    lab.commit()
    handle.append("b", 0, "till", 9)
    for sequence in (7, 3):
        handle.append("no", 0, "till", sequence)
        assert isinstance(handle.judged[-1], int)
    lab.commit()
    for sequence in (7, 3):
        handle.append("no", 0, "till", sequence)
    lab.commit()
    late = [answer for index, answer in lab.answers.items() if index > 3]
    assert len(late) == 4
    for (outcome,) in late:
        assert refused(outcome.result, ErrorCode.SEQUENCE_UNKNOWN)
    assert entries_of(lab.leader) == {0: "a", 1: "b"}
    lab.check()


def test_what_is_applied_is_known_while_a_later_number_is_staged(lab, handle):
    handle.append("a", 0, "till", 5)
    lab.commit()
    handle.append("b", 0, "till", 9)
    handle.append("a", 0, "till", 5)
    assert handle.result == Applied(0, answer=False)
    assert entries_of(lab.leader) == {0: "a", 1: "b"}


def test_a_new_producers_numbers_are_judged_by_what_is_staged(lab, handle):
    handle.append("b", 0, "till", 9)
    handle.append("no", 0, "till", 7)
    assert refused(handle.result, ErrorCode.SEQUENCE_UNKNOWN)


def test_one_number_is_of_one_partition(lab, handle):
    handle.append("first")
    handle.append("a", 0, "till", 1)
    handle.append("a", 1, "till", 1)
    assert refused(handle.result, ErrorCode.INVALID_DATA)
    assert handle.result.text == "producer till appended 1 to partition 0"
    lab.check()


def test_a_refusal_says_no_more_than_200_characters(lab, handle):
    name = "p" * NAME_SIZE_MAX
    for partition in (0, 1):
        handle.append("a", partition, name, 1)
    assert handle.result.text == f"producer {'p' * 191}"


def test_a_window_of_numbers_is_remembered(lab, handle):
    for sequence in range(PRODUCER_WINDOW + 1):
        handle.gather(sequence, 0, "till", sequence)
    handle.seal()
    lab.commit()
    handle.append("no", 0, "till", 0)
    assert refused(handle.result, ErrorCode.SEQUENCE_UNKNOWN)
    handle.append("again", 0, "till", 1)
    assert handle.result == Applied(1, answer=False)
    lab.check()


def test_what_a_producer_repeats_that_was_idle_longest_is_refused_and_never_there_twice(
    lab, handle, monkeypatch
):
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    for name in ("a", "b"):
        handle.append(name, 0, name, 1)
    handle.append("a", 0, "a", 2)
    handle.append("c", 0, "c", 1)
    lab.commit()
    assert [(row.name, len(row.appended)) for row in lab.leader._producers.rows()] == [
        ("b", 0),
        ("a", 2),
        ("c", 1),
    ]
    handle.append("b", 0, "b", 1)
    assert refused(handle.result, ErrorCode.SEQUENCE_UNKNOWN)
    handle.append("next", 0, "b", 2)
    assert handle.result == Applied(4)
    assert [row.name for row in lab.leader._producers.rows()] == ["a", "c", "b"]
    handle.append("no", 0, "a", 1)
    assert refused(handle.result, ErrorCode.SEQUENCE_UNKNOWN)
    lab.check()


def test_retired_producers_are_limited(lab, handle, monkeypatch):
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 1)
    monkeypatch.setattr(producers, "RETIRED_PRODUCERS_MAX", 2)
    for name in "abcd":
        handle.append(name, 0, name, 7)
    lab.commit()
    assert [row.name for row in lab.leader._producers.rows()] == ["b", "c", "d"]
    lab.check()


def test_what_is_known_of_producers_goes_into_rows_and_back(monkeypatch):
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    known = Producers()
    for name, sequence in (("a", 5), ("b", 7), ("c", 9), ("d", 3), ("c", 11)):
        known.add(name, sequence, 1, 10 * sequence)
    rows = [
        ProducerRow("a", (), 6),
        ProducerRow("b", (), 8),
        ProducerRow("d", ((3, 1, 30),), 3),
        ProducerRow("c", ((9, 1, 90), (11, 1, 110)), 9),
    ]
    assert list(known.rows()) == rows
    again = Producers(rows)
    assert list(again.rows()) == rows
    assert len(again) == 2
    assert [again.numbers(name) for name in "abcde"] == [(6, 5), (8, 7), (9, 11), (3, 3), None]
    assert (again.place("c", 11), again.place("c", 10), again.place("a", 5)) == (
        (1, 110),
        None,
        None,
    )


def test_a_refusal_tells_a_number_that_was_left_out_from_one_that_is_forgotten(
    lab, handle, monkeypatch
):
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 1)
    handle.append("a", 0, "till", 5)
    handle.append("b", 0, "other", 1)
    lab.commit()
    for sequence in (9, 5, 6, 8):  # The first is staged; what was before is not remembered.
        handle.gather("c", 0, "till", sequence)
    handle.gather("no", 0, "other", 0)
    handle.seal()
    (_, added), *refusals = flat(handle.outcomes())
    assert added == Applied(2)
    for (_, refusal), what in zip(
        refusals,
        (
            "producer till comes with 5 after 9: only its last 1024 are remembered",
            "producer till comes with 6 after 9, and left it out before",
            "producer till comes with 8 after 9, and left it out before",
            "producer other comes with 0 after 1: only its last 1024 are remembered",
        ),
        strict=True,
    ):
        assert refused(refusal, ErrorCode.SEQUENCE_UNKNOWN)
        assert refusal.text.startswith(what)


# -- consumers, retention, quota -------------------------------------------------------------------


def test_cursors_are_moved_and_forgotten(lab, handle):
    handle.append_batch(range(5))
    handle.move_cursor("c", (0, 3))
    handle.move_cursor("c", (1, 0))
    handle.move_cursor("d", (0, 1))
    lab.commit()
    assert lab.leader.all_cursors() == (("c", ((0, 3), (1, 0))), ("d", ((0, 1),)))
    handle.forget_consumer("c")
    handle.requests.forget_consumer("d")
    handle.requests.move_cursor("d", ((1, 0),))
    handle.seal()
    lab.commit()
    assert lab.leader.all_cursors() == (("d", ((1, 0),)),)
    lab.check()


def test_cursors_of_one_write_add_up(lab, handle):
    handle.append_batch(range(3))
    for position in ((0, 1), (1, 0), (0, 2)):
        handle.requests.move_cursor("c", (position,))
    handle.seal()
    lab.commit()
    assert lab.leader.all_cursors() == (("c", ((0, 2), (1, 0))),)
    lab.check()


def test_a_consumer_that_nobody_knows_may_be_forgotten(lab, handle):
    handle.forget_consumer("c")
    assert handle.result == Applied(0)
    assert lab.leader.all_cursors() == ()
    lab.check()


def test_a_cursor_may_be_at_the_end_of_what_is_staged_and_not_beyond(lab, handle):
    handle.append("a")
    handle.move_cursor("c", (0, 1))
    assert handle.result == Applied(0)
    handle.move_cursor("c", (0, 2))
    assert refused(handle.result, ErrorCode.INVALID_DATA)
    assert handle.result.text.startswith("partition 0 ends at 1: a consumer cannot be done with")
    assert handle.result.text.endswith("before 2")
    handle.move_cursor("c", (7, 0))
    assert refused(handle.result, ErrorCode.NO_SUCH_PARTITION)


def test_consumers_are_counted_with_those_that_are_staged(lab, handle, monkeypatch):
    monkeypatch.setattr("stores.log.judge.CONSUMERS_MAX", 2)
    assert CONSUMERS_MAX > 2
    handle.move_cursor("a", (0, 0))
    assert handle.result == Applied(0)
    for consumer in ("b", "c", "a", "b"):
        handle.requests.move_cursor(consumer, ((0, 0),))
    handle.seal()
    results = [result for _, result in flat(handle.outcomes())]
    assert refused(results.pop(1), ErrorCode.INVALID_DATA)
    assert results == [Applied(0)] * 3
    handle.move_cursor("c", (0, 0))
    assert handle.result.text == "a log has up to 2 consumers: forget some"
    handle.forget_consumer("a")
    handle.move_cursor("d", (0, 0))
    assert handle.result == Applied(0)
    lab.check()


def test_cursors_are_limited_too(lab, handle, monkeypatch):
    monkeypatch.setattr("stores.log.judge.CURSORS_MAX", 4)  # two consumers of two partitions
    for consumer in "ab":
        handle.move_cursor(consumer, (0, 0))
        assert handle.result == Applied(0)
    handle.move_cursor("c", (0, 0))
    assert refused(handle.result, ErrorCode.INVALID_DATA)
    assert handle.result.text == "a log has up to 4 cursors: forget some consumers"


def test_trims_of_one_write_go_as_far_as_the_farthest_and_one_at_the_start_nowhere(lab, handle):
    handle.append_batch(range(5))
    handle.append_batch(range(5), 1)
    handle.trim(0, 1)
    lab.commit()
    assert lab.leader.partitions.starts() == (0, 0)
    for offset in (3, 1):
        handle.requests.trim(0, offset)
    handle.seal()
    assert [result for _, result in flat(handle.outcomes())] == [Applied(3), Applied(1)]
    assert lab.leader.partitions.starts() == (3, 0)
    lab.check()


def test_retention_by_count_lets_go_what_is_beyond(lab, handle):
    lab.judge(ChangeRetention(Retention(count=3)))
    handle.append_batch(range(10))
    lab.commit()
    lab.tick()
    assert lab.entries[-1][1] == Trimmed(((0, 7),))
    lab.tick(20)
    assert isinstance(lab.entries[-2][1], Performed), "what is staged is not let go again"
    lab.commit()
    assert lab.leader.partitions[0].span == Span(7, 10)
    assert lab.leader.used[0] == 3
    lab.check()


def test_retention_is_looked_at_twice_a_second_and_in_each_tick_while_more_is_due(
    lab, handle, monkeypatch
):
    lab.judge(ChangeRetention(Retention(count=1)))
    handle.append_batch(range(3))
    lab.commit()
    lab.tick()
    trimmed = lab.commit()
    assert trimmed is None, "a look at retention answers no caller"
    while lab.leader._ticks != RETENTION_TICKS:
        lab.expire()
    handle.append_batch(range(3))
    lab.commit()
    looks = [lab.expire() for _ in range(RETENTION_TICKS)]
    assert [each is not None for each in looks] == [False] * (RETENTION_TICKS - 1) + [True]
    monkeypatch.setattr("stores.log.partitions.RETAINED_BLOCKS_MAX", 1)
    for _ in range(3):
        handle.append_batch(range(BLOCK_COUNT_MAX))
    lab.commit()
    looks = []
    for _ in range(RETENTION_TICKS + 2):
        looks.append(lab.expire() is not None)
        lab.commit()
    assert looks[-3:] == [True] * 3


def test_retention_lets_a_first_entry_go_alone(lab, handle):
    lab.judge(ChangeRetention(Retention(count=1)))
    handle.append_batch(range(2), 1)
    lab.commit()
    lab.tick()
    assert lab.entries[-1][1] == Trimmed(((1, 1),))


def test_retention_by_age_goes_by_the_time_that_the_group_was_led(lab, handle):
    assert not lab.leader.has_deadlines()
    lab.judge(ChangeRetention(Retention(age_ns=10 * SECOND_NS)))
    handle.append_batch(range(BLOCK_COUNT_MAX))
    lab.commit()
    assert lab.leader.has_deadlines()
    late = Times(11 * SECOND_NS, START_NS)
    early = Times(9 * SECOND_NS, START_NS + 10**6 * SECOND_NS)
    assert not any(lab.leader.due(early) for _ in range(9)), "a wrong clock lets nothing go"
    (found,) = {body for _ in range(5) if (body := lab.leader.due(late))}
    assert found == Trimmed(((0, BLOCK_COUNT_MAX),))


def test_retention_goes_on_at_once_while_more_is_due(lab, handle, monkeypatch):
    monkeypatch.setattr("stores.log.partitions.RETAINED_BLOCKS_MAX", 2)
    lab.judge(ChangeRetention(Retention(age_ns=1)))
    for _ in range(5):
        handle.append_batch(range(BLOCK_COUNT_MAX))
    lab.commit()
    lab.now_ns += SECOND_NS
    for _ in range(7):
        lab.expire()
        lab.commit()
    assert lab.leader.partitions[0].start == 5 * BLOCK_COUNT_MAX
    lab.check()


def test_a_quota_holds_at_whichever_member_leads(lab, handle):
    lab.judge(ChangeQuota(Quota(max_entries=3)))
    handle.append_batch([1, 2])
    handle.append_batch([3, 4])
    assert refused(handle.result, ErrorCode.QUOTA_EXCEEDED)
    assert lab.leader.look_at_quota() is QuotaLevel.EXCEEDED
    lab.swap()
    handle.append(3)
    handle.append(4)
    assert refused(handle.result, ErrorCode.QUOTA_EXCEEDED)
    handle.trim(2)
    handle.append(5)
    lab.commit()
    handle.append(6)
    assert handle.result == Applied(3)
    assert entries_of(lab.leader) == {2: 3, 3: 6}
    lab.check()


def test_a_batch_beyond_the_bytes_is_refused_as_a_whole_and_a_smaller_one_is_not(lab, handle):
    lab.judge(ChangeQuota(Quota(max_bytes=3_000)))
    handle.append_batch([bytes(1_000)] * 3)
    assert refused(handle.result, ErrorCode.QUOTA_EXCEEDED)
    handle.append_batch([bytes(1_000)] * 2)
    assert handle.result == Applied(0)
    lab.judge(ChangeQuota(Quota(max_bytes=30_000)))
    handle.append_batch([bytes(1_000)] * 3)
    assert handle.result == Applied(2)


def test_entries_and_bytes_of_one_write_count_together_for_the_quota(lab, handle):
    lab.judge(ChangeQuota(Quota(max_entries=5, max_bytes=3_000)))
    for values in (["a", "b"], ["c", "d"], ["e", "f"], ["g"]):
        flat_ = tuple(item for value in values for item in (None, encode(value)))
        handle.requests.append(0, flat_)
    handle.seal()
    first, second, third, fourth = (result for _, result in flat(handle.outcomes()))
    assert (first, second, fourth) == (Applied(0), Applied(2), Applied(4))
    assert refused(third, ErrorCode.QUOTA_EXCEEDED)
    handle.trim(5)
    lab.commit()
    for _ in range(3):
        handle.gather(bytes(1_400))
    handle.seal()
    *_, last = (result for _, result in flat(handle.outcomes()))
    assert refused(last, ErrorCode.QUOTA_EXCEEDED)
    assert lab.leader.partitions[0].span == Span(5, 7)


def test_entries_that_are_staged_count_for_the_quota_until_they_are_applied(lab, handle):
    lab.judge(ChangeQuota(Quota(max_entries=2)))
    for value in "abc":
        handle.append(value)
    assert refused(handle.result, ErrorCode.QUOTA_EXCEEDED)
    assert entries_of(lab.leader) == {0: "a", 1: "b"}
    lab.judge(ChangeQuota(Quota(max_bytes=6_000)))
    for at in range(2, 6):
        handle.append(bytes(1_400))
        assert handle.result == Applied(at), "what is applied counts once"


@pytest.mark.parametrize(
    "quota", [Quota(max_entries=3), Quota(max_bytes=3 * 1_400)], ids=["entries", "bytes"]
)
def test_what_is_on_its_way_in_one_log_counts_for_another_that_shares_its_quota(quota):
    pool, handles = QuotaPool("all logs", quota), []
    for name in "ab":
        lab = LogLab()
        if name == "a":
            lab.leader.share(pool.join(name))
        handles.append(LogHandle(lab))
        if name == "b":
            lab.leader.share(pool.join(name))  # It has looked at its requests before.
    first, second = handles
    first.append_batch([bytes(1_300)] * 2)
    second.append_batch([bytes(1_300)] * 2)
    assert refused(second.result, ErrorCode.QUOTA_EXCEEDED)
    second.append(bytes(1_300))
    assert second.result == Applied(0)
    first.append(bytes(1_300))
    assert refused(first.result, ErrorCode.QUOTA_EXCEEDED)


def test_a_named_producer_that_was_refused_may_repeat_it(lab, handle):
    lab.judge(ChangeQuota(Quota(max_entries=1)))
    handle.append("first")
    handle.append("once", 0, "producer", 7)
    assert refused(handle.result, ErrorCode.QUOTA_EXCEEDED)
    handle.trim(1)
    lab.commit()
    handle.append("once", 0, "producer", 7)
    assert handle.result == Applied(1)


def test_bytes_that_are_staged_count_for_the_quota(lab, handle):
    lab.judge(ChangeQuota(Quota(max_bytes=3_000)))
    for _ in range(2):
        handle.append(bytes(1_400))
    handle.append(bytes(1_400))
    assert refused(handle.result, ErrorCode.QUOTA_EXCEEDED)
    assert lab.leader.partitions[0].end == 2
    lab.check()


# -- snapshots -------------------------------------------------------------------------------------


def fill(lab, handle):
    lab.judge(ChangeRetention(Retention(count=100)))
    lab.judge(ChangeQuota(Quota(max_entries=1_000)))
    for number in range(20):
        handle.append(number, number % 2, "till", number)
    handle.append_batch(range(10))
    handle.trim(5)
    handle.move_cursor("c", (0, 7), (1, 2))
    lab.commit()


def through_bytes(lab, frozen):
    return [lab.codec.decode_part(lab.codec.encode_part(part)) for part in frozen]


def test_a_snapshot_is_what_is_committed(lab, handle):
    fill(lab, handle)
    digest = lab.leader.digest()
    handle.append("staged")
    frozen = lab.leader.freeze()
    lab.commit()
    copy = LogMachine()
    copy.install(through_bytes(lab, frozen))
    assert copy.digest() == digest
    assert copy.retention == Retention(count=100)
    assert copy.meter.quota == Quota(max_entries=1_000)
    assert copy.goes_on(((0, 10),), (lab.entries[-2][0],), is_current=True) == (10,)
    copy.apply(*lab.entries[-1])
    assert copy.digest() == lab.leader.digest()
    assert shown(copy) == shown(lab.leader)


def test_a_snapshot_leaves_out_the_runs_that_the_other_member_has(lab, handle):
    fill(lab, handle)
    behind = LogMachine()
    behind.install(lab.leader.freeze())
    after = behind.position.index
    body = bytes(1_000)
    handle.append(body)
    handle.trim(9)
    lab.commit()
    frozen = lab.leader.freeze(after)
    runs = [run for part in frozen for run in getattr(part, "runs", ())]
    assert [run.position.index for run in runs] == [after + 1]
    behind.install(through_bytes(lab, frozen))
    assert behind.digest() == lab.leader.digest()
    assert shown(behind) == shown(lab.leader)


def test_a_snapshot_that_leaves_out_what_is_not_here_is_refused(lab, handle):
    fill(lab, handle)
    index = lab.leader.position.index
    behind = LogMachine()
    before = behind.digest()
    with pytest.raises(DecodeError, match="has not all entries of partition 0"):
        behind.install(lab.leader.freeze(index))
    assert behind.digest() == before


def test_a_member_with_a_file_keeps_where_runs_are_once_they_are_there(lab, handle):
    first = handle.append("a")
    handle.append("b")
    lab.commit()
    machine = lab.leader
    kept = runs_of(machine, 0)
    part = RunsPart(tuple(kept))
    assert machine.prepare(1, part) is part
    machine.use_file()
    assert machine.prepare(1, part) == PlacedPart(tuple(run.place for run in kept))
    head, *_ = machine.freeze()
    assert machine.prepare(0, head) is head
    before = machine.digest()
    machine.release(first)
    assert machine.read(0, 0, 1 << 20) == [kept[0].place, kept[1]]
    assert machine.digest() == before


def test_a_digest_tells_other_cursors_apart(lab, handle):
    other = LogLab()
    for each, name in ((lab, "c"), (other, "d")):
        (handle if each is lab else LogHandle(other)).move_cursor(name, (0, 0))
        each.commit()
    assert lab.leader.position == other.leader.position
    assert lab.leader.digest() != other.leader.digest()


def test_a_machine_of_a_files_rows_is_given_the_rest(lab, handle):
    fill(lab, handle)
    head, *others = lab.leader.beside_rows()
    assert head.after == lab.leader.position.index
    assert not any(hasattr(part, "runs") for part in others)


def test_a_file_is_told_of_producers_before_a_snapshot_and_after_it(lab, handle):
    machine = LogMachine(partition_count=2)
    machine.use_file()
    handle.append("a", 0, "till", 1)
    lab.commit()
    for position, body in lab.entries:
        machine.apply(position, body)
    till = ProducerRow("till", ((1, 0, 0),), 1)
    assert machine.take_producers() == [("till", till)]
    machine.install(lab.leader.freeze())
    assert machine.take_producers() == [], "a snapshot is in the file as a whole"
    before = len(lab.entries)
    handle.append("b", 0, "other", 5)
    lab.commit()
    for position, body in lab.entries[before:]:
        machine.apply(position, body)
    assert machine.take_producers() == [("other", ProducerRow("other", ((5, 0, 1),), 5))]


def test_a_reader_of_a_lost_history_is_told_where_another_one_goes_on(lab, handle):
    handle.append("a")
    lab.commit()
    handle.append("lost")
    lost = lab.entries[-1][0]
    lab.commit()
    seen = runs_of(lab.leader, 0)[-1].position
    assert seen == lost
    read = ((0, 2),)
    assert lab.leader.goes_on(read, (seen,), is_current=True) == (2,)
    heir = LogMachine(partition_count=2)
    for position, body in lab.entries[:-1]:
        heir.apply(position, lab.codec.decode(lab.codec.encode(body)))
    assert heir.is_ahead(read)
    assert heir.goes_on(read, (seen,), is_current=False) == (2,), "it may come yet"
    assert not heir.has_news(read, (seen,), is_current=False)
    assert heir.goes_on(read, (seen,), is_current=True) == (1,)
    assert heir.has_news(read, (seen,), is_current=True)
    body = lab.entries[-1][1]
    heir.apply(Position(1 + FORCED_TERMS, lost.index), body)
    assert not heir.is_ahead(read)
    assert heir.goes_on(read, (seen,), is_current=False) == (1,), "another entry is there"
    assert heir.has_news(read, (seen,), is_current=False)
    assert heir.goes_on(((0, 1),), (seen,), is_current=False) == (1,), "it has read nothing else"
    assert heir.goes_on(read, (), is_current=True) == (2,), "it may have read this one"
    assert heir.goes_on(((1, 0), (0, 2)), (START, seen), is_current=True) == (0, 1)
    heir.apply(Position(1 + FORCED_TERMS, lost.index + 1), Trimmed(((0, 2),)))
    assert heir.goes_on(read, (seen,), is_current=True) == (2,), "all of it went since"


# -- what comes from outside -----------------------------------------------------------------------


def write_of(*flat_, first=1):
    return Write(1, Requests(writer_id(1), first, 0, (AppendRequest(0, None, 0, flat_),)))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (None, "a NoneType is nothing that a log can be asked for"),
        ("text", "a str is nothing that a log can be asked for"),
        (Write(1, Requests(writer_id(1), 1, 0, ())), "a writer asks for nothing"),
        (write_of(None, b"\x01", first=0), "a writer asks for nothing"),
        (write_of(None, b"\xff"), None),
        (write_of(b"\x1a", b"\x01"), "a key is not the deterministic encoding of a value"),
        (
            write_of(None, b"\x01", b"\x1a", b"\x01"),
            "a key is not the deterministic encoding of a value",
        ),
        (write_of(None, None), "an entry has no value"),
    ],
)
def test_what_no_honest_writer_asks_is_an_error_and_changes_nothing(lab, handle, request_, text):
    handle.append("a")
    before = len(lab.entries)
    lab.commit()
    if isinstance(request_, Write) and request_.asked.first_request:
        request_.asked.first_request = 2
    with pytest.raises(DecodeError, match=text):
        lab.judge(request_)
    assert len(lab.entries) == before
    handle.append("b")
    lab.commit()
    assert entries_of(lab.leader) == {0: "a", 1: "b"}
    lab.check()


@pytest.mark.parametrize("spoilt", [(None, b"\xff"), (b"\x18\x01", b"\x01"), (b"\x01", None)])
@pytest.mark.parametrize("place", [0, 1, 9])
def test_one_entry_that_is_none_has_all_that_came_with_it_refused(lab, handle, spoilt, place):
    good = [AppendRequest(0, None, 0, (b"\x01", b"\x02", None, b"\x03")) for _ in range(9)]
    all_of_them = (*good[:place], AppendRequest(0, None, 0, spoilt), *good[place:])
    with pytest.raises(DecodeError):
        lab.leader.judge(Write(handle.number, Requests(handle.writer, 1, 0, all_of_them)), lab.now)
    vet(Requests(handle.writer, 1, 0, tuple(good)))


def test_what_a_handle_here_asks_is_not_looked_at_again(lab, handle):
    asked = Requests(handle.writer, 1, 0, (AppendRequest(0, None, 0, (None, b"\xff")),))
    judgement = lab.leader.judge(Write(handle.number, asked, is_vetted=True), lab.now)
    assert isinstance(judgement, Append)


@pytest.mark.parametrize("call", ["stage", "apply"])
def test_a_body_of_another_machine_is_a_programming_error(lab, call):
    with pytest.raises(AssertionError, match="no str in its journal"):
        getattr(lab.leader, call)(Position(1, 1), "body")


def test_nobody_asks_in_the_name_of_a_writer_of_another_endpoint():
    writer = writer_id(1)
    endpoint, other = writer.entity.endpoint, writer_id(2).entity.endpoint
    for request in (Register(writer), write_of(None, b"\x01")):
        check_asker(request, endpoint)
        with pytest.raises(DecodeError) as caught:
            check_asker(request, other)
        assert str(caught.value) == f"another endpoint asks in the name of {writer!r}"
    check_asker(ChangeRetention(Retention()), other)


# -- one voter -------------------------------------------------------------------------------------


def test_what_one_voter_performs_at_once_is_what_a_group_judges_and_applies(lab, handle):
    single, now = LogMachine(partition_count=2), lab.now
    done = single.perform(Position(1, 1), Register(handle.writer), now)
    assert isinstance(done, Done)
    assert done.value == Registration(1, 0)
    handle.append("a", 0, "till", 1)
    handle.gather("b")
    handle.gather("a", 0, "till", 1)
    handle.seal()
    for index, write in enumerate(handle.sent, 2):
        assert isinstance(single.perform(Position(1, index), write, now), Done)
    assert isinstance(single.perform(Position(1, 4), handle.sent[0], now), Answer)
    lab.commit()
    assert single.digest() == lab.leader.digest()
    assert "ends=(2, 0)" in repr(single)


# -- rights ----------------------------------------------------------------------------------------


def test_every_request_takes_a_right():
    assert set(REQUESTS) == set(get_args(LogRequest))
    assert right_of(Register(writer_id(1))) is Right.WRITE
    assert right_of(ChangeRetention(Retention())) is Right.VOTE
