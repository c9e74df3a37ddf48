"""``linearizable``: what it lets pass, what it catches, and what trying everything would say."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from peermesh.testing.checkers import Finding, KeyValue, linearizable
from peermesh.testing.checkers.linearization import prepare
from peermesh.testing.history import Ended, Ending, History, HistoryError
from wire.encoding import encode
from wire.values import Count, Set

MODEL = KeyValue()

# What people can tell at a glance.


def test_what_happens_one_after_the_other_holds(script: Any) -> None:
    script.do("a", "get", "k")
    script.do("a", "put", "k", 1, result=(17,))
    script.do("b", "get", "k", result=(1,))
    script.do("b", "erase", "k", result=(18,))
    script.do("a", "exists", "k", result=(False,))
    verdict = linearizable(script.history)
    assert verdict
    assert str(verdict) == "linearizable: held: 5 operations fit in one order"


def test_a_stale_read_is_caught_with_the_two_puts_that_it_contradicts(script: Any) -> None:
    script.do("z", "put", "other", 9)
    script.do("a", "put", "k", 0)
    script.do("a", "put", "k", 1)
    script.do("b", "get", "k", result=(1,))
    script.do("a", "put", "k", 2)
    script.do("b", "get", "k", result=(1,))
    script.do("b", "get", "k", result=(2,))
    verdict = linearizable(script.history)
    assert verdict.finding is Finding.BROKEN
    told = [line.split(" [")[0] for line in verdict.witness]
    assert told == ["#3 a: put('k', 1) -> nothing", "#5 a: put('k', 2) -> nothing",
                    "#6 b: get('k') -> 1"]  # fmt: skip


def test_what_lost_according_to_its_result_may_have_won_without_it(script: Any) -> None:
    script.lose(script.begin("x", "put", "k", 9))
    unique = script.begin("a", "put_unique", "k", 0)
    script.do("b", "compare_and_set", "k", 0, 1, result=(True,))
    script.end(unique, False)
    verdict = linearizable(script.history)
    assert not verdict
    assert len(verdict.witness) == 2, "either one alone would be fine"


def test_a_read_of_what_nobody_wrote_is_caught_alone(script: Any) -> None:
    script.do("a", "put", "k", 1)
    script.do("b", "get", "k", result=(3,))
    verdict = linearizable(script.history)
    assert not verdict
    assert [line.split(" [")[0] for line in verdict.witness] == ["#2 b: get('k') -> 3"]


def test_reads_at_one_time_may_see_either_side_of_a_put_but_not_go_back(script: Any) -> None:
    put = script.begin("w", "put", "k", 1)
    script.do("a", "get", "k", result=(1,))
    script.do("b", "get", "k", result=())
    script.end(put)
    assert not linearizable(script.history)


def test_reads_that_overlap_may_see_either_side_in_any_order(script: Any) -> None:
    put = script.begin("w", "put", "k", 1)
    late = script.begin("b", "get", "k")
    script.do("a", "get", "k", result=(1,))
    script.end(late)
    script.end(put)
    assert linearizable(script.history)


def test_a_lost_update_of_a_counter_is_caught(script: Any) -> None:
    first, second = (script.begin(name, "increment", "n", 1) for name in "ab")
    script.end(first)
    script.end(second)
    script.do("c", "get", "n", result=(1,))
    assert not linearizable(script.history)


@pytest.mark.parametrize("value", [1, True, 1.0, Count(1)])
def test_values_are_told_apart_by_their_types(script: Any, value: Any) -> None:
    script.do("a", "put", "k", value)
    script.do("b", "get", "k", result=(1,))
    assert bool(linearizable(script.history)) == (type(value) is int)


def test_a_missing_key_is_not_one_that_holds_none(script: Any) -> None:
    script.do("a", "put", "k", None)
    script.do("b", "get", "k", result=())
    assert not linearizable(script.history)


@pytest.mark.parametrize(("seen", "is_fine"), [([], True), ([1], True), ([0, 1, 1], True),
                                               ([1, 0], False), ([2], False)])  # fmt: skip
def test_what_became_of_a_lost_operation_shows_itself_once(
    script: Any, seen: list[int], is_fine: bool
) -> None:
    script.do("a", "put", "k", 0)
    lost = script.begin("b", "increment", "k", 1)
    script.lose(lost)
    for value in seen:
        script.do("a", "get", "k", result=(value,))
    assert bool(linearizable(script.history)) == is_fine


def test_an_operation_that_was_refused_has_no_effect(script: Any) -> None:
    script.do("a", "put", "k", "text")
    script.fail(script.begin("a", "increment", "k", 1))
    script.do("a", "get", "k", result=("text",))
    assert linearizable(script.history)
    script.do("a", "increment", "k", 1)  # this one claims to have worked
    assert not linearizable(script.history)


def test_clear_touches_every_key(script: Any) -> None:
    script.do("a", "put", "x", 1)
    script.do("a", "put", "y", 1)
    script.do("a", "clear")
    script.do("a", "get", "x")
    assert linearizable(script.history)
    script.do("a", "get", "y", result=(1,))
    assert not linearizable(script.history)


def test_of_all_nodes_only_those_asked_for_count(script: Any) -> None:
    script.do("a", "put", "k", 1)
    number = script.begin("r", "get", "k", node="clone")
    script.end(number)
    assert linearizable(script.history, nodes=["a"])
    assert not linearizable(script.history)


def test_it_gives_up_rather_than_say_yes(script: Any) -> None:
    for number in range(12):
        script.lose(script.begin(f"w{number}", "append", "k", str(number)))
    script.do("r", "get", "k", result=("never",))
    verdict = linearizable(script.history, configurations_max=1000)
    assert verdict.finding is Finding.GAVE_UP
    assert not verdict
    assert "more than 1000 configurations" in str(verdict)


@pytest.mark.parametrize("call", [("sing", "k"), ("put", "k"), ("get",)])
def test_what_the_model_does_not_know_is_an_error(script: Any, call: tuple[Any, ...]) -> None:
    script.do("a", *call)
    with pytest.raises(HistoryError, match=r"model knows|arguments"):
        linearizable(script.history)


STEPS = [
    (["put", 5], (), ("k",), 5),
    (["put_unique", 5], (True,), (), 5),
    (["put_unique", 5], (False,), (4,), 4),
    (["compare_and_set", 4, 5], (True,), (4,), 5),
    (["compare_and_set", 4, 5], (False,), (4.0,), 4.0),
    (["increment", Count(2)], (), (Count(3),), Count(5)),
    (["decrement", 2], (), (3,), 1),
    (["append", "b"], (), ("a",), "ab"),
    (["append", b"b"], (), (), b"b"),
    (["insert_into", True], (), (Set([1]),), Set([1, True])),
    (["remove_from", 1], (), (Set([1, True]),), Set([True])),
    (["contains", 1], (False,), (Set([True]),), Set([True])),
    (["push", 2], (), ((1,),), (1, 2)),
    (["push", 2], (), (), (2,)),
    (["pop"], (), ((1, 2),), (1,)),
]


@pytest.mark.parametrize(("call", "result", "before", "after"), STEPS)
def test_the_model_knows_every_operation(
    script: Any, call: list[Any], result: tuple[Any, ...], before: tuple[Any, ...], after: Any
) -> None:
    if before:
        script.do("a", "put", "k", *before)
    script.do("a", call[0], "k", *call[1:], result=result)
    script.do("a", "get", "k", result=(after,))
    assert linearizable(script.history)


@pytest.mark.parametrize(
    ("call", "before"),
    [(["decrement", 1], ()), (["pop"], ()), (["remove_from", 1], ()), (["append", "b"], (b"a",)),
     (["increment", 1], (1.0,)), (["push", 1], ("a",)), (["insert_into", 1], ("a",)),
     (["increment", True], ()), (["increment", 1], (2**63 - 1,)), (["decrement", "a"], (1,))],
)  # fmt: skip
def test_an_operation_that_cannot_have_worked_is_caught(
    script: Any, call: list[Any], before: tuple[Any, ...]
) -> None:
    if before:
        script.do("a", "put", "k", *before)
    script.do("a", call[0], "k", *call[1:])
    assert not linearizable(script.history)


# Histories of a system that works, by construction; and what brute force says of damaged ones.

CALLS = st.one_of(
    st.tuples(st.just("get")),
    st.tuples(st.just("put"), st.integers(0, 2)),
    st.tuples(st.just("increment"), st.just(1)),
    st.tuples(st.just("put_unique"), st.integers(0, 2)),
    st.tuples(st.just("compare_and_set"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("erase")),
)


@st.composite
def true_histories(draw: st.DrawFn, calls_max: int, keys: str = "k") -> History:
    """Three processes call, something happens at once, and they hear of it later or never."""
    history = History()
    states: dict[str, bytes | None] = dict.fromkeys(keys)
    under_way: dict[int, list[Any]] = {}
    calls = 0
    for turn in range(4 * calls_max):
        process = draw(st.integers(0, 2), label="process")
        if process not in under_way:
            if calls == calls_max:
                continue
            name, *arguments = draw(CALLS, label="call")
            key = draw(st.sampled_from(keys))
            number = history.begin(f"p{process}", name, key, *arguments, at=turn)
            under_way[process] = [number, key, None]
            calls += 1
        elif under_way[process][2] is None:
            number, key, _ = under_way[process]
            operation = next(each for each in history.operations() if each.number == number)
            step = MODEL.step(states[key], operation)
            if step is not None:
                states[key] = step.state
            under_way[process][2] = (step,)
        else:
            number, _, (step,) = under_way.pop(process)
            if step is None:
                history.fail(number, at=turn)
            elif draw(st.integers(0, 5), label="is lost") == 0:
                history.lose(number, at=turn)
            else:
                history.end(number, *(step.result or ()), at=turn)
    return history


def try_everything(history: History) -> bool:
    """Tell whether any order of any choice of the lost operations explains the rest."""
    tasks = [task for each in history.operations() if (task := prepare(each, MODEL))]
    required = [task for task in tasks if task.is_required]
    optional = [task for task in tasks if not task.is_required]
    for choice in range(1 << len(optional)):
        chosen = [task for place, task in enumerate(optional) if choice >> place & 1]
        if any(map(explains, permutations(required + chosen))):
            return True
    return False


def explains(order: tuple[Any, ...]) -> bool:
    state: Any = None
    latest_begin = -1
    for task in order:
        operation = task.operation
        if operation.last < latest_begin:
            return False
        latest_begin = max(latest_begin, operation.first)
        step = MODEL.step(state, operation)
        if step is None:
            return False
        is_compared = task.is_required and step.result is not None
        if is_compared and list(map(encode, step.result)) != list(map(encode, operation.result)):
            return False
        state = step.state
    return True


@given(true_histories(calls_max=40, keys="kl"))
def test_every_history_of_a_system_that_works_is_accepted(history: History) -> None:
    verdict = linearizable(history)
    assert verdict, str(verdict)


@given(true_histories(calls_max=6), st.data())
def test_a_damaged_history_is_judged_as_by_trying_everything(
    history: History, data: st.DataObject
) -> None:
    damaged = damage(history, data)
    verdict = linearizable(damaged)
    assert bool(verdict) == try_everything(damaged), str(verdict)
    assert verdict.finding is not Finding.GAVE_UP


def damage(history: History, data: st.DataObject) -> History:
    """Change one result, or move one event to another place."""
    events = list(history.events)
    places = [place for place, event in enumerate(events) if isinstance(event, Ended)]
    if not places:
        return history
    place = data.draw(st.sampled_from(places), label="place")
    event = events[place]
    if data.draw(st.booleans(), label="is moved"):
        del events[place]
        begun = next(at for at, each in enumerate(events) if each.number == event.number)
        events.insert(data.draw(st.integers(begun + 1, len(events)), label="to"), event)
    else:
        results = st.sampled_from([(), (True,), (False,), (0,), (1,), (2,)])
        result = data.draw(results, label="result")
        events[place] = Ended(event.at, event.process, event.number, Ending.OK, result)
    return History(events)


@given(true_histories(calls_max=6), st.data())
def test_a_witness_is_a_contradiction_by_itself(history: History, data: st.DataObject) -> None:
    damaged = damage(history, data)
    verdict = linearizable(damaged)
    if not verdict:
        numbers = {int(line.split()[0].removeprefix("#")) for line in verdict.witness}
        assert numbers
        loosened = History(
            event
            for event in damaged.events
            if not isinstance(event, Ended)
            or event.number in numbers
            or event.ending is Ending.FAILED
        )
        assert not linearizable(loosened), "nobody knows what became of the others, and still"


def test_ten_thousand_operations_of_ten_processes_are_decided(script: Any) -> None:
    busy: list[tuple[int, int]] = []
    value = 0
    for turn in range(10_000):
        number = script.begin(f"p{turn % 10}", *(("get", "k"), ("increment", "k", 1))[turn % 2])
        busy.append((number, turn))
        if len(busy) == 10:
            number, begun = busy.pop(0)
            value += begun % 2
            script.end(number, *([value] if begun % 2 == 0 and value else []))
    verdict = linearizable(script.history)
    assert verdict, str(verdict)
