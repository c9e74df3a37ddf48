"""Proxies: what they read never goes back, what they write happens once, whoever fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from stores import commands
from stores.effects import Deposed, MasterLost
from stores.outcomes import Applied, Refused
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode


@pytest.fixture
def trio_of(world: Any, pair: Any) -> Any:
    """A master, a clone, and a proxy to which the clone is nearer."""
    master, clone = pair
    proxy = world.proxy(clone, master)
    world.settle()
    return master, clone, proxy


def scan(number: int, *, limit: int = 1_000, has_values: bool = True) -> commands.ScanCommand:
    return commands.ScanCommand(number, 0, b"", None, limit, has_values)


def asked_clones(world: Any) -> list[bool]:
    return [packet.topic == "Clone" for packet in world.packets]


def test_a_proxy_reads_from_the_nearest_replica(world: Any, trio_of: Any) -> None:
    master, _, proxy = trio_of
    master.put("a", 1)
    world.settle()
    number = proxy.ask("a")
    assert asked_clones(world) == [True]
    world.settle()
    assert proxy.answer(number) == 1


def test_a_receipt_comes_at_once_and_its_write_is_seen_by_reads_that_follow(
    world: Any, trio_of: Any
) -> None:
    _, clone, proxy = trio_of
    request = proxy.put("a", 1)
    world.cut_off.add(clone.id)
    world.settle()
    assert proxy.outcomes[request] == Applied(1)
    world.cut_off.clear()
    number = proxy.ask("a")  # the clone has not heard of it
    world.settle()
    assert proxy.answer(number) == 1


def test_a_read_never_goes_back_though_a_slower_replica_takes_over(
    world: Any, trio_of: Any
) -> None:
    master, clone, proxy = trio_of
    other = world.clone()
    world.settle()
    world.cut_off.add(other.id)
    master.put("a", 1)
    world.settle()
    number = proxy.ask("a")
    world.settle()
    assert proxy.answer(number) == 1
    world.cut_off = {clone.id, master.id}
    proxy.survey(other, master)
    number = proxy.ask("a")
    world.tick(30)
    assert number not in proxy.answers
    assert "revision 0" in proxy.core.explain(number)
    world.cut_off.clear()
    world.tick(30)
    assert proxy.answer(number) == 1


def test_a_question_goes_to_the_next_replica_when_one_is_silent_or_gone(
    world: Any, trio_of: Any
) -> None:
    master, clone, proxy = trio_of
    world.cut_off.add(clone.id)
    silent = proxy.ask("a")
    world.tick(6)
    assert proxy.answer(silent) is None
    proxy.ask("a")
    assert asked_clones(world) == [False]  # whoever was silent is not asked first
    world.settle()
    proxy.survey(master)
    gone = proxy.ask("a")
    world.settle()
    assert proxy.answer(gone) is None


def test_a_question_under_way_goes_to_the_next_replica_at_once_when_one_goes(
    world: Any, trio_of: Any
) -> None:
    master, clone, proxy = trio_of
    world.cut_off.add(clone.id)
    number = proxy.ask("a")
    proxy.survey(master)
    world.settle()
    assert proxy.answer(number) is None


def test_an_answer_of_somebody_who_was_not_asked_changes_nothing(world: Any, trio_of: Any) -> None:
    master, _, proxy = trio_of
    stranger = world.clone()
    number = proxy.ask("a")
    answer = commands.ReadAnswerCommand(number, (), None)
    proxy.hear(answer, sender=stranger.core.entity, epoch=1 << 60, sequence=7)
    assert number not in proxy.answers
    world.settle()
    assert proxy.answer(number) is None
    assert master.core.revision == 0


def test_a_clone_without_its_master_refuses_as_it_refuses_its_own_readers(
    world: Any,
) -> None:
    master, clone = world.master(), world.clone(stale_interval_ns=10 * 100_000_000)
    world.settle()
    proxy = world.proxy(clone)
    master.crash()
    world.tick(40)
    number = proxy.ask("a")
    world.settle()
    refusal = proxy.answers[number]
    assert isinstance(refusal, commands.ReadRefusedCommand)
    assert refusal.is_stale


def test_a_clone_without_data_is_no_answer_and_the_question_waits(world: Any) -> None:
    clone = world.clone()
    proxy = world.proxy(clone)
    number = proxy.ask("a")
    world.tick(10)
    assert number not in proxy.answers
    world.master()
    world.tick(10)
    assert proxy.answer(number) is None


def test_what_only_the_master_knows_is_asked_of_the_master(world: Any, trio_of: Any) -> None:
    proxy = trio_of[2]
    proxy.ask("a", is_for_master=True)
    assert asked_clones(world) == [False]


def test_a_revision_that_was_asked_for_is_waited_for(world: Any, trio_of: Any) -> None:
    master, _, proxy = trio_of
    number = proxy.ask("a", revision_min=1)
    world.tick(3)
    assert number not in proxy.answers
    master.put("a", 1)
    world.tick(10)
    assert proxy.answer(number) == 1


def test_pages_end_by_count_and_by_size_and_go_on_where_they_ended(
    world: Any, trio_of: Any
) -> None:
    master, _, proxy = trio_of
    for index in range(10):
        master.put(index, bytes(100_000))
    world.settle()
    rows: list[commands.Row] = []
    start, sizes = b"", []
    for number in range(1, 9):
        proxy.pose(commands.ScanCommand(number, 0, start, None, 5, has_values=number > 1))
        world.settle()
        answer = proxy.answers[number]
        rows += answer.rows
        sizes.append(len(answer.rows))
        if answer.continuation is None:
            break
        start = answer.continuation
    assert sizes == [5, 2, 2, 1]
    assert [key for key, *_ in rows] == [encode(index) for index in range(10)]
    assert rows[0][1] is None


def test_one_entry_always_fits(world: Any, trio_of: Any) -> None:
    master, _, proxy = trio_of
    master.put("large", bytes(1_000_000))
    world.settle()
    proxy.pose(scan(1))
    world.settle()
    assert len(proxy.answers[1].rows) == 1


def test_a_proxy_may_only_write_in_its_own_name(world: Any, trio_of: Any) -> None:
    master, clone, proxy = trio_of
    writer = clone.core.requests.writer
    greeting = commands.GreetingCommand(1, writer, 0)
    with pytest.raises(DecodeError, match="in the name of"):
        master.hear(greeting, sender=proxy.core.entity)


def test_receipts_wait_for_replicas(world: Any) -> None:
    master, clone = world.master(replicas=1), world.clone()
    world.settle()
    proxy = world.proxy(master)
    world.settle()
    first = proxy.put("a", 1)
    world.tick(2)
    assert proxy.outcomes[first] == Applied(1)
    clone.crash()
    second = proxy.put("a", 2)
    world.tick(30)
    assert second not in proxy.outcomes
    world.clone()
    world.tick(30)
    assert proxy.outcomes[second] == Applied(2)


def test_outcomes_that_got_lost_are_told_again(world: Any, trio_of: Any) -> None:
    proxy = trio_of[2]
    first = proxy.put("a", 1)
    proxy.flush()
    while world.packets:
        packet = world.packets.pop(0)
        if packet.topic != "Proxy":
            world.deliver(packet)
    second = proxy.put("b", 2)
    world.settle()
    assert (proxy.outcomes[first], proxy.outcomes[second]) == (Applied(1), Applied(2))


def test_a_write_under_way_is_applied_once_by_whoever_is_promoted(world: Any, trio_of: Any) -> None:
    master, clone, proxy = trio_of
    request = proxy.increment("n")
    proxy.flush()
    while not any(packet.topic == "Proxy" for packet in world.packets):
        world.deliver(world.packets.pop(0))
    world.packets = [packet for packet in world.packets if packet.topic == "Clone"]
    world.settle()  # the clone has it, and the proxy has no answer
    master.crash()
    clone.promote()
    proxy.survey(clone)
    world.tick(40)
    assert proxy.outcomes[request] == Applied(1)
    assert clone.get("n") == 1


def test_a_proxy_that_knows_of_a_later_master_deposes_the_last(world: Any, trio_of: Any) -> None:
    master, clone, proxy = trio_of
    world.cut_off.add(master.id)
    clone.promote()
    world.tick(40)
    clone.crash()
    world.cut_off.clear()
    world.tick(30)
    assert master.said(Deposed)
    assert proxy.said(MasterLost)


def test_without_a_master_writes_fail_after_the_buffer_interval(world: Any) -> None:
    proxy = world.proxy(buffer_ticks=20)
    request = proxy.put("a", 1)
    world.tick(25)
    outcome = proxy.outcomes[request]
    assert isinstance(outcome, Refused)
    assert outcome.code is ErrorCode.NO_SUCH_MASTER


def test_idle_means_that_the_master_has_answered_everything(world: Any, trio_of: Any) -> None:
    master, _, proxy = trio_of
    world.cut_off.add(master.id)
    proxy.put("a", 1)
    proxy.run(proxy.core.begin_idle(1))
    world.tick(3)
    assert not proxy.is_idle(1)
    assert "1 writes" in proxy.core.explain_idle()
    world.cut_off.clear()
    world.tick(10)
    assert proxy.is_idle(1)


def test_a_closed_proxy_is_forgotten(world: Any, trio_of: Any) -> None:
    master, _, proxy = trio_of
    proxy.put("a", 1)
    world.settle()
    assert proxy.core.entity in master.core._proxies
    proxy.run(proxy.core.close())
    world.settle()
    assert proxy.core.entity not in master.core._proxies
    assert len(master.core._inputs) == 0


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whatever_is_lost_repeated_or_late_every_increment_counts_once_and_reads_never_go_back(
    make_world: Any, make_kept_backend: Any, data: Any
) -> None:
    world, disk = make_world(), make_kept_backend()
    master, clones = world.master(disk), [world.clone(), world.clone()]
    proxy = world.proxy(*clones, master)
    world.settle()
    seen, numbers, asked = 0, [], 0
    for _ in range(data.draw(st.integers(5, 40))):
        match data.draw(
            st.sampled_from(["put", "put", "ask", "step", "lose", "repeat", "restart"])
        ):
            case "put":
                proxy.increment("n")
                proxy.flush()
                asked += 1
            case "ask":
                numbers.append(proxy.ask("n"))
            case "restart":
                master.crash()
                master = world.master(disk)
                proxy.survey(*clones, master)
            case fate if world.packets:
                index = data.draw(st.integers(0, len(world.packets) - 1))
                packet = world.packets[index] if fate == "repeat" else world.packets.pop(index)
                if fate != "lose":
                    world.deliver(packet)
            case _:
                world.tick()
        if numbers and numbers[-1] in proxy.answers:
            found = proxy.answer(numbers[-1]) or 0
            assert found >= seen
            seen, numbers = found, []
    world.tick(150)
    assert sorted(proxy.outcomes) == list(range(1, asked + 1))
    assert all(isinstance(outcome, Applied) for outcome in proxy.outcomes.values())
    number = proxy.ask("n")
    world.tick(10)
    assert (proxy.answer(number) or 0) == asked
