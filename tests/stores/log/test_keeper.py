"""The keeper: what it decides, when it tells, and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stores import effects as fx
from stores.log import effects as log_fx
from stores.log.changes import LogChanges
from stores.log.encoding import encode_message
from stores.log.limits import BLOCK_SPAN_NS, PRODUCER_WINDOW
from stores.log.messages import Fetch, Fetched, Join, QueryFailed, State, StateQuery, TimeQuery
from stores.log.partitions import Partition, Retention, RunInfo
from stores.log.runs import Run
from stores.outcomes import Applied, Refused
from stores.quota import Meter, Quota, QuotaLevel
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, StoreClosed


def test_nothing_is_shown_or_told_before_it_is_durable(world):
    keeper = world.keeper()
    request = keeper.append("one")
    keeper.flush()
    assert keeper.committing is not None
    assert keeper.read() == {}
    assert keeper.outcomes == {}
    keeper.commit()
    assert keeper.read() == {0: "one"}
    assert keeper.outcomes == {request: Applied(0)}


def test_what_comes_while_a_commit_is_under_way_goes_into_the_next_one_together(world):
    keeper = world.keeper()
    keeper.append("first")
    keeper.flush()
    for value in range(3):
        keeper.append(value)
        keeper.flush()
    keeper.commit()
    assert keeper.committing is not None
    (run,) = keeper.committing.changes.runs
    assert (run.first_offset, run.count) == (1, 3)
    keeper.commit()
    assert keeper.read() == {0: "first", 1: 0, 2: 1, 3: 2}


def test_a_batch_has_one_outcome_and_consecutive_offsets(world):
    keeper = world.keeper()
    keeper.append("before")
    flat = (None, encode("a"), encode("key"), encode("b"))
    request = keeper.core.requests.append(0, flat)
    world.settle()
    assert keeper.outcomes[request] == Applied(1)
    assert keeper.read() == {0: "before", 1: "a", 2: "b"}


def test_a_named_producer_appends_a_sequence_number_once(world):
    keeper = world.keeper()
    first = keeper.append("once", 0, "producer", 7)
    again = keeper.append("once", 0, "producer", 7)
    world.settle()
    assert keeper.outcomes == {first: Applied(0), again: Applied(0, answer=False)}
    assert keeper.read() == {0: "once"}


def test_a_named_producer_is_remembered_by_the_next_keeper(world):
    keeper = world.keeper()
    keeper.append("once", 0, "producer", 7)
    world.settle()
    world.kill(keeper)
    keeper = world.keeper(keeper.backend)
    again = keeper.append("once", 0, "producer", 7)
    world.settle()
    assert keeper.outcomes == {again: Applied(0, answer=False)}
    assert keeper.read() == {0: "once"}


@pytest.mark.parametrize("sequence", [1, 6])
def test_a_sequence_number_that_nobody_can_judge_is_refused(world, sequence):
    keeper = world.keeper()
    keeper.append("old", 0, "producer", 5)
    for number in range(PRODUCER_WINDOW):
        keeper.append(number, 0, "producer", 10 + number)
    refused = keeper.append("late", 0, "producer", sequence)
    world.settle()
    assert keeper.outcomes[refused].code is ErrorCode.SEQUENCE_UNKNOWN


def test_a_partition_that_is_not_there_is_refused(world):
    keeper = world.keeper(partitions=2)
    request = keeper.append("value", 2)
    world.settle()
    assert keeper.outcomes[request] == Refused(
        ErrorCode.NO_SUCH_PARTITION, "there is no partition 2: this log has 0 to 1"
    )


def test_a_cursor_beyond_the_end_is_refused(world):
    keeper = world.keeper()
    keeper.append("value")
    good = keeper.core.requests.move_cursor("consumer", ((0, 1),))
    bad = keeper.core.requests.move_cursor("consumer", ((0, 2),))
    world.settle()
    assert keeper.outcomes[good] == Applied(0)
    assert keeper.outcomes[bad].code is ErrorCode.INVALID_DATA
    assert keeper.core.cursors == {"consumer": {0: 1}}


def test_a_forgotten_consumer_is_gone_and_may_come_back(world):
    keeper = world.keeper(partitions=2)
    keeper.core.requests.move_cursor("consumer", ((0, 0), (1, 0)))
    world.settle()
    keeper.core.requests.forget_consumer("consumer")
    keeper.core.requests.move_cursor("consumer", ((1, 0),))
    world.settle()
    assert keeper.core.cursors == {"consumer": {1: 0}}
    assert keeper.backend.cursors == {"consumer": {1: 0}}


# Retention.


def fill(world, keeper, count: int) -> None:
    for number in range(count):
        keeper.append(number)
        world.settle()


def test_retention_by_count_is_exact(world):
    keeper = world.keeper(retention=Retention(count=3))
    fill(world, keeper, 10)
    world.run(6)
    assert keeper.read() == {7: 7, 8: 8, 9: 9}


def test_retention_by_age_lets_old_blocks_go(world):
    keeper = world.keeper(retention=Retention(age_ns=10 * 10**9))
    fill(world, keeper, 3)
    world.run(90)
    assert len(keeper.read()) == 3
    world.now_ns += 5 * 10**9
    keeper.append("new")
    world.run(10)
    assert keeper.read() == {3: "new"}


def test_retention_by_bytes_keeps_what_it_promises(world):
    keeper = world.keeper(retention=Retention(size=100_000))
    for number in range(30):
        keeper.append(bytes([number]) * 20_000)
        world.settle()
    world.run(6)
    kept = keeper.read()
    assert 5 <= len(kept) <= 9
    assert max(kept) == 29


def test_retention_that_is_long_overdue_goes_in_steps(world, make_disk, monkeypatch):
    monkeypatch.setattr("stores.log.partitions.RETAINED_BLOCKS_MAX", 4)
    disk, body = make_disk(), encode((None, encode(1)))
    disk.load_keeper(1, 2)
    for number in range(13):
        stamp = number * 2 * BLOCK_SPAN_NS
        disk.commit(LogChanges(runs=[Run(part, number, 1, stamp, body) for part in (0, 1)]))
    keeper = world.keeper(disk, partitions=2, retention=Retention(age_ns=1, count=1))
    starts = []
    while keeper.core.partitions.starts() != (13, 13):
        world.tick()
        starts.append(keeper.core.partitions.starts())
        world.settle()
        assert len(starts) < 30
    gone = [sum(after) - sum(before) for before, after in pairwise(starts)]
    assert max(gone) == 4
    assert gone[starts.index((4, 0)) :][:5] == [4] * 5, "in each tick until all are gone"


@pytest.mark.parametrize("retention", [{"age_ns": 1}, {"count": 3}, {"size": 50}])
def test_steps_of_retention_end_where_one_would_have_ended(retention):
    def new() -> Partition:
        partition = Partition()
        for number in range(40):
            partition.extend(RunInfo(2 * number, 2, number * 2 * BLOCK_SPAN_NS, 10))
        return partition

    whole, block_count = new().due(Retention(**retention), 70 * BLOCK_SPAN_NS, 1_000)
    assert block_count > 20
    partition, before = new(), -1
    while before != partition.start:
        before = partition.start
        start, block_count = partition.due(Retention(**retention), 70 * BLOCK_SPAN_NS, 3)
        assert block_count <= 3
        partition.trim(start)
    assert partition.start == whole


def test_trim_lets_go_what_it_is_told_and_no_more(world):
    keeper = world.keeper()
    fill(world, keeper, 5)
    keeper.core.requests.trim(0, 3)
    world.settle()
    assert keeper.read() == {3: 3, 4: 4}
    keeper.core.requests.trim(0, 1)
    world.settle()
    assert keeper.read() == {3: 3, 4: 4}


def test_offsets_go_on_after_everything_was_trimmed_and_the_keeper_restarted(world):
    keeper = world.keeper()
    fill(world, keeper, 5)
    keeper.core.requests.trim(0, 99)
    world.settle()
    world.kill(keeper)
    keeper = world.keeper(keeper.backend)
    keeper.append("sixth")
    world.settle()
    assert keeper.read() == {5: "sixth"}


# Questions from elsewhere.


def test_a_reader_that_waits_is_answered_when_something_comes(world):
    keeper, proxy = world.keeper(), world.proxy()
    world.settle()
    proxy.ask(Fetch(1, ((0, 0),), 1_000, 50))
    world.settle()
    assert proxy.answers == {}
    keeper.append("it")
    world.settle()
    answer = proxy.answers[1]
    assert isinstance(answer, Fetched)
    assert [run.count for run in answer.runs] == [1]


def test_a_reader_that_waits_too_long_is_told_that_there_is_nothing(world):
    world.keeper()
    proxy = world.proxy()
    world.settle()
    proxy.ask(Fetch(1, ((0, 0),), 1_000, 5))
    world.run(4)
    assert proxy.answers == {}
    world.run(2)
    assert proxy.answers == {1: Fetched(1, (), (0,), (0,))}


def test_a_reader_of_trimmed_entries_is_told_where_the_log_begins(world):
    keeper, proxy = world.keeper(), world.proxy()
    fill(world, keeper, 5)
    keeper.core.requests.trim(0, 3)
    world.settle()
    proxy.ask(Fetch(1, ((0, 1),), 1_000, 50))
    world.settle()
    assert proxy.answers == {1: Fetched(1, (), (3,), (5,))}


def test_questions_about_nonsense_are_answered_with_an_error(world):
    world.keeper()
    proxy = world.proxy()
    world.settle()
    proxy.ask(Fetch(1, ((5, 0),), 1_000, 0))
    proxy.ask(TimeQuery(2, 5, 0))
    world.settle()
    assert [type(answer) for answer in proxy.answers.values()] == [QueryFailed, QueryFailed]
    assert proxy.answers[1].code is ErrorCode.NO_SUCH_PARTITION


def test_the_state_names_partitions_and_consumers(world):
    keeper, proxy = world.keeper(partitions=2), world.proxy()
    keeper.append("one", 1)
    proxy.core.requests.move_cursor("consumer", ((1, 0),))
    world.run(3)
    proxy.ask(StateQuery(1))
    world.settle()
    assert proxy.answers == {1: State(1, (0, 0), (0, 1), (("consumer", ((1, 0),)),))}


def test_a_time_is_looked_up(world):
    keeper, proxy = world.keeper(), world.proxy()
    stamps = []
    for number in range(3):
        world.now_ns += 10**9
        stamps.append(world.now_ns)
        keeper.append(number)
        world.settle()
    for query, stamp in enumerate([0, stamps[1], stamps[1] + 1, stamps[2] + 1]):
        proxy.ask(TimeQuery(query, 0, stamp))
    world.settle()
    assert [answer.offset for answer in proxy.answers.values()] == [0, 1, 2, 3]


# Whom it believes.


def test_a_message_in_the_name_of_another_is_refused(world):
    keeper, proxy = world.keeper(), world.proxy()
    payload = encode_message(proxy.core.entity, StateQuery(1))
    with pytest.raises(DecodeError, match="in the name of"):
        keeper.core.receive(keeper.endpoint, payload, world.now_ns)


def test_a_copy_is_right_up_to_where_the_next_life_of_the_keeper_began(world):
    keeper = world.keeper()
    fill(world, keeper, 3)
    first_epoch = keeper.core.epoch
    world.kill(keeper)
    keeper = world.keeper(keeper.backend)
    fill(world, keeper, 3)
    log_id = keeper.core.log_id
    agreed = keeper.core._admission.agreed
    assert agreed(Join(1, log_id, first_epoch, (5,), 0)) == (3,)
    assert agreed(Join(1, log_id, first_epoch, (2,), 0)) == (2,)
    assert agreed(Join(1, log_id, keeper.core.epoch, (5,), 0)) == (5,)
    assert agreed(Join(1, log_id, keeper.core.epoch, (9,), 0)) == (6,)
    assert agreed(Join(1, log_id, first_epoch - 1, (2,), 0)) == (0,)
    assert agreed(Join(1, log_id + 1, first_epoch, (2,), 0)) == (0,)


def test_a_failed_commit_closes_it_and_claims_nothing(world):
    keeper = world.keeper()
    request = keeper.append("value")
    keeper.flush()
    keeper.carry_out(keeper.core.commit_failed(keeper.committing.token, "no disk"))
    assert keeper.outcomes[request].code is ErrorCode.BACKEND_FAILURE
    assert keeper.read() == {}
    assert not any(isinstance(told, log_fx.Grown) for told in keeper.told)


@pytest.mark.parametrize("is_earlier_first", [True, False])
def test_a_keeper_gives_way_to_a_later_one_and_acknowledges_nothing_any_more(
    world, is_earlier_first
):
    earlier = world.keeper()
    world.now_ns += 10**9
    later = world.keeper()
    world.keepers = [earlier, later] if is_earlier_first else [later, earlier]
    waiting = earlier.append("under way")
    earlier.flush()
    later.append("kept")
    earlier.tick()
    later.tick()
    while world.mail:
        world.deliver()
    assert earlier.outcomes[waiting].code is ErrorCode.FENCED
    told = [type(effect) for effect in earlier.told]
    assert told[-2:] == [fx.SecondMaster, fx.Closed]
    earlier.append("too late")
    with pytest.raises(StoreClosed):
        earlier.core.requests.seal()
    world.keepers = [later]
    world.settle()
    assert later.read() == {0: "kept"}


def test_consumers_that_move_are_counted_once(world, monkeypatch):
    monkeypatch.setattr("stores.log.judge.CONSUMERS_MAX", 4)
    keeper = world.keeper()
    move = keeper.core.requests.move_cursor
    for name in "abc":
        move(name, ((0, 0),))
    world.settle()
    for name in "abc":
        move(name, ((0, 0),))
    fourth, fifth = move("d", ((0, 0),)), move("e", ((0, 0),))
    world.settle()
    assert isinstance(keeper.outcomes[fourth], Applied)
    assert "up to 4 consumers: forget some" in keeper.outcomes[fifth].text


def quota_told(keeper) -> list[QuotaLevel]:
    return [effect.level for effect in keeper.told if isinstance(effect, fx.QuotaCrossed)]


def test_appends_beyond_the_quota_are_refused_until_entries_go(world):
    keeper = world.keeper()
    keeper.core.meter = Meter("log l", Quota(max_entries=4))
    requests = [keeper.append(value) for value in range(6)]
    world.settle()
    results = [keeper.outcomes[request] for request in requests]
    assert results[:4] == [Applied(offset) for offset in range(4)]
    for result in results[4:]:
        assert isinstance(result, Refused)
        assert result.code is ErrorCode.QUOTA_EXCEEDED
        assert "log l is full: 4 of 4 entries" in result.text
    assert quota_told(keeper) == [QuotaLevel.EXCEEDED]
    keeper.core.requests.trim(0, 2)
    world.settle()
    assert quota_told(keeper) == [QuotaLevel.EXCEEDED, QuotaLevel.RELIEVED]
    again = keeper.append("more")
    world.settle()
    assert keeper.outcomes[again] == Applied(4)
    found = keeper.core.statistics()
    assert (found.entries, found.max_entries) == (3, 4)
    assert (found.entries, found.bytes) == keeper.core.partitions.used()


def test_the_quota_counts_what_is_on_its_way_to_the_disk(world):
    keeper = world.keeper()
    keeper.core.meter = Meter("log l", Quota(max_entries=2))
    first = keeper.append("first")
    keeper.flush()
    second = keeper.append("second")
    refused = keeper.append("third")
    keeper.flush()
    world.settle()
    assert [keeper.outcomes[each] for each in (first, second)] == [Applied(0), Applied(1)]
    assert isinstance(keeper.outcomes[refused], Refused)


def test_a_batch_beyond_the_bytes_is_refused_as_a_whole_and_a_smaller_one_is_not(world):
    keeper = world.keeper()
    keeper.core.meter = Meter("log l", Quota(max_bytes=400))
    refused = keeper.core.requests.append(0, (None, encode("v" * 200)) * 2)
    done = keeper.append("v" * 200)
    world.settle()
    assert isinstance(keeper.outcomes[refused], Refused)
    assert keeper.outcomes[done] == Applied(0)
    keeper.carry_out(keeper.core.set_quota(Quota(max_bytes=4_000)))
    again = keeper.core.requests.append(0, (None, encode("v" * 200)) * 2)
    world.settle()
    assert keeper.outcomes[again] == Applied(1)
    assert quota_told(keeper) == [QuotaLevel.EXCEEDED, QuotaLevel.RELIEVED]


def test_retention_keeps_a_log_below_its_quota(world):
    keeper = world.keeper(retention=Retention(count=2))
    keeper.core.meter = Meter("log l", Quota(max_entries=4))
    for value in range(20):
        request = keeper.append(value)
        world.run(6)
        assert isinstance(keeper.outcomes[request], Applied)


def test_a_named_producer_that_was_refused_may_repeat_it(world):
    keeper = world.keeper()
    keeper.core.meter = Meter("log l", Quota(max_entries=1))
    keeper.append("first")
    refused = keeper.append("once", 0, "producer", 7)
    world.settle()
    assert isinstance(keeper.outcomes[refused], Refused)
    keeper.core.requests.trim(0, 1)
    world.settle()
    again = keeper.append("once", 0, "producer", 7)
    world.settle()
    assert keeper.outcomes[again] == Applied(1)


def test_a_follower_counts_what_it_has(world):
    keeper, follower = world.keeper(), world.follower()
    world.run(3)
    keeper.append("some")
    world.run(3)
    found, copied = keeper.core.statistics(), follower.core.statistics()
    assert (copied.entries, copied.bytes) == (found.entries, found.bytes) == (1, found.bytes)
    assert copied.max_bytes is None
