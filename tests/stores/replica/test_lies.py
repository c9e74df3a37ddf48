"""Letters in another member's name: whatever they say, all agree again after a while."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from stores.outcomes import Applied
from tests.stores.replica.conftest import Node, World
from tests.stores.replica.lies import answers, questions
from wire.errors import DecodeError

HEALING_TICKS = 150
"""Longer than any silence that is borne."""


def lies(pair: tuple[Node, Node], term: int) -> list[Any]:
    master, clone = pair
    return [*questions(clone.core.entity, term), *answers(master.member, term)]


def begun(world: World) -> tuple[Node, Node]:
    master, clone = world.master(), world.clone()
    world.tick()
    master.put("k", 0)
    world.settle()
    return master, clone


@pytest.mark.parametrize("earlier", [0, 1], ids=["of this term", "of the term before"])
def test_after_any_lie_all_agree_again(make_world: type[World], earlier: int) -> None:
    number = 0
    while True:
        world = make_world()
        master, clone = pair = begun(world)
        told = lies(pair, master.core.epoch - earlier)
        if number == len(told):
            break
        for node, other in (pair, pair[::-1]):
            with suppress(DecodeError):
                node.hear(told[number], other.member)
        request = clone.put("k", 1)
        world.tick(HEALING_TICKS)
        assert isinstance(clone.outcomes.get(request), Applied), told[number]
        assert clone.contents() == master.contents() == {"k": 1}, told[number]
        number += 1
