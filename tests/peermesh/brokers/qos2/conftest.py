"""What the tests of the QoS-2 broker share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace

import pytest


def freeze(thing: object) -> object:
    """Give something hashable that tells one state from another."""
    if isinstance(thing, (list, tuple)):
        return tuple(map(freeze, thing))
    if isinstance(thing, dict):
        return tuple(sorted((repr(key), freeze(value)) for key, value in thing.items()))
    if isinstance(thing, (set, frozenset)):
        return tuple(sorted(map(repr, thing)))
    if isinstance(thing, bytearray):
        return bytes(thing)
    if hasattr(thing, "__dict__") and not hasattr(thing, "__members__"):
        return (type(thing).__name__, freeze(vars(thing)))
    return repr(thing)


def explore(initial: object) -> SimpleNamespace:
    """Visit every state that can be reached. A world has ``moves``, ``faults`` and two checks.

    ``check`` holds in each state; ``check_end`` where nothing more happens by itself.
    """
    seen = {freeze(initial)}
    waiting = [initial]
    ends = 0
    while waiting:
        world = waiting.pop()
        world.check()  # type: ignore[attr-defined]  # a world
        moves = list(world.moves())  # type: ignore[attr-defined]  # a world
        if not moves:
            ends += 1
            world.check_end()  # type: ignore[attr-defined]  # a world
        for name, arguments in [*moves, *world.faults()]:  # type: ignore[attr-defined]  # a world
            following = copy.deepcopy(world)
            getattr(following, name)(*arguments)
            key = freeze(following)
            if key not in seen:
                seen.add(key)
                waiting.append(following)
    return SimpleNamespace(states=len(seen), ends=ends)


@pytest.fixture
def explorer() -> Callable[[object], SimpleNamespace]:
    """``explore``, for test modules, which cannot import it."""
    return explore
