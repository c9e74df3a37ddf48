"""Changes of one file come one after the other; those of other files do not wait for them."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from peermesh.gateways.refusals import Busy
from peermesh.gateways.webhdfs.limits import PAUSE_SECONDS, WAIT_SECONDS
from peermesh.gateways.webhdfs.requests import Append, Concat, Rename, RenameStyle, changed_paths
from peermesh.gateways.webhdfs.turns import PathTurns, pause_seconds

A, B, C = ("d", "a"), ("d", "b"), ("d", "c")


async def test_one_path_has_one_turn_at_a_time_in_order_and_others_have_theirs() -> None:
    turns, begun = PathTurns(), list[int]()
    may_end = trio.Event()

    async def change(number: int) -> None:
        async with turns.of([A, A], math.inf):
            begun.append(number)
            await may_end.wait()

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(change, number)
            await wait_all_tasks_blocked()
        assert begun == [0]
        async with turns.of([B, C], math.inf):
            assert len(turns) == 3
        may_end.set()
    assert begun == [0, 1, 2]
    assert len(turns) == 0, "what is at rest is forgotten"


async def test_two_that_want_the_same_two_paths_do_not_wait_for_each_other() -> None:
    turns = PathTurns()

    async def change(*paths: tuple[str, ...]) -> None:
        for _ in range(5):
            async with turns.of(paths, math.inf):
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for pair in ((A, B), (B, A), (C, A, B)):
            nursery.start_soon(change, *pair)


async def test_a_turn_that_does_not_come_is_refused_in_time_and_lets_go(autojump_clock) -> None:
    turns = PathTurns()

    async def change_for_ever(task_status: trio.TaskStatus[None]) -> None:
        async with turns.of([B], math.inf):
            task_status.started()
            await trio.sleep_forever()

    until = trio.current_time() + WAIT_SECONDS
    async with trio.open_nursery() as nursery:
        await nursery.start(change_for_ever)
        with pytest.raises(
            Busy, match="others change /d/b all the time, and no turn came"
        ) as refused:
            async with turns.of([A, B], until):
                raise AssertionError("it is not its turn")
        assert trio.current_time() == until
        async with turns.of([A], math.inf):
            pass
        nursery.cancel_scope.cancel()
    assert refused.value.status == 503


def test_pauses_are_by_chance_and_longer_the_more_often_others_were_faster() -> None:
    assert pause_seconds(1, 0.9) == 0
    assert pause_seconds(2, 0.5) == 0.5 * PAUSE_SECONDS
    assert pause_seconds(11, 0.5) == 5 * PAUSE_SECONDS


def test_a_change_waits_for_all_paths_whose_entries_it_goes_by() -> None:
    assert changed_paths(Append(A, has_data=True)) == (A,)
    assert changed_paths(Rename(A, B, RenameStyle.OVERWRITE)) == (A, B)
    assert changed_paths(Concat(A, (B, C))) == (A, B, C)
