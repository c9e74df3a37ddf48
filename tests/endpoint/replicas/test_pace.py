"""Of many tasks that wake at once a few go on in each turn, in their order."""

from __future__ import annotations

from collections import Counter

import trio

from endpoint.replicas.pace import Pace
from tests.turns import Turns


async def test_so_many_pass_in_a_turn_in_the_order_in_which_they_came() -> None:
    pace, turns = Pace(3), Turns()
    came: list[int] = []
    passed: list[tuple[int, int]] = []

    async def go_on(number: int) -> None:
        came.append(number)
        await pace.keep()
        passed.append((turns.count, number))

    trio.lowlevel.add_instrument(turns)
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(go_on, number)
    trio.lowlevel.remove_instrument(turns)
    in_turns = Counter(turn for turn, _ in passed)
    assert sorted(in_turns.values()) == [1, 3, 3, 3]
    turn_of = {number: turn for turn, number in passed}
    assert [turn_of[number] for number in came] == sorted(turn for turn, _ in passed)


async def test_one_that_gives_up_leaves_its_room_to_others() -> None:
    pace = Pace(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await pace.keep()
    await pace.keep()
