"""What the tests of the QoS-2 broker share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Protocol

import pytest


class World(Protocol):
    """All there is, with what may happen to it: names of its methods, and their arguments."""

    def moves(self) -> Iterable[tuple[str, tuple[object, ...]]]: ...

    def faults(self) -> Iterable[tuple[str, tuple[object, ...]]]: ...

    def check(self) -> None: ...

    def check_end(self) -> None: ...


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


def explore(initial: World) -> SimpleNamespace:
    """Visit every state that can be reached.

    ``check`` holds in each state; ``check_end`` where nothing more happens by itself.
    """
    seen = {freeze(initial)}
    waiting = [initial]
    ends = 0
    while waiting:
        world = waiting.pop()
        world.check()
        moves = list(world.moves())
        if not moves:
            ends += 1
            world.check_end()
        for name, arguments in [*moves, *world.faults()]:
            following = copy.deepcopy(world)
            getattr(following, name)(*arguments)
            key = freeze(following)
            if key not in seen:
                seen.add(key)
                waiting.append(following)
    return SimpleNamespace(states=len(seen), ends=ends)


@pytest.fixture
def explorer() -> Callable[[World], SimpleNamespace]:
    """``explore``, for test modules, which cannot import it."""
    return explore
