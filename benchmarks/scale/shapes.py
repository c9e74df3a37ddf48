"""The shapes of the meshes that are measured: pairs of numbers, counted from zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import isqrt
from random import Random
from typing import Final

Edge = tuple[int, int]

TREE_CHILDREN: Final = 3
RANDOM_DEGREE: Final = 4
"""Links of an endpoint of a random mesh, on average: what a user gets who names two seeds each."""

FULL_SIZE_MAX: Final = 100
"""Beyond this a full mesh has more links than it has use for, and each of them costs."""


def line(size: int) -> list[Edge]:
    """Each is linked to the next."""
    return [(number - 1, number) for number in range(1, size)]


def ring(size: int) -> list[Edge]:
    """A line whose ends are linked."""
    return [*line(size), (0, size - 1)]


def star(size: int) -> list[Edge]:
    """All are linked to the first."""
    return [(0, number) for number in range(1, size)]


def tree(size: int) -> list[Edge]:
    """Each has three children, as far as they go."""
    return [((number - 1) // TREE_CHILDREN, number) for number in range(1, size)]


def grid(size: int) -> list[Edge]:
    """Rows of equal width, each linked to its right and to the one below."""
    width = isqrt(size)
    right = [(number, number + 1) for number in range(size - 1) if (number + 1) % width]
    return right + [(number, number + width) for number in range(size - width)]


def random(size: int) -> list[Edge]:
    """A random tree, so that it hangs together, and random links up to the mean degree."""
    chance = Random(size)
    edges = {(chance.randrange(number), number) for number in range(1, size)}
    most = min(size * RANDOM_DEGREE // 2, size * (size - 1) // 2)
    while len(edges) < most:
        left, right = sorted(chance.sample(range(size), 2))
        edges.add((left, right))
    return sorted(edges)


def full(size: int) -> list[Edge]:
    """Each is linked to all others."""
    return list(combinations(range(size), 2))


SHAPES: Final[dict[str, Callable[[int], list[Edge]]]] = {
    "line": line,
    "ring": ring,
    "star": star,
    "tree": tree,
    "grid": grid,
    "random": random,
    "full": full,
}


def shapes_of(size: int) -> Iterator[tuple[str, list[Edge]]]:
    """Give the shapes that are measured at a size, each with its edges."""
    for name, draw in SHAPES.items():
        if name != "full" or size <= FULL_SIZE_MAX:
            yield name, draw(size)


def contact_of(shape: str, size: int) -> int:
    """Say whom a newcomer dials: where the shape would grow."""
    if shape == "star":
        return 0
    return (size - 1) // TREE_CHILDREN if shape == "tree" else size - 1
