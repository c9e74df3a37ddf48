"""The shapes of clusters: who dials whom. Pure.

Nodes are numbered from zero. An edge is a pair: the first node dials, the second one listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

Edge = tuple[int, int]
"""Who dials, and who listens."""

NODES_MAX: Final = 1_000
"""Nodes of one cluster: as many as flooding suits, and more than one machine bears for real."""

BRANCHES: Final = 2
"""Children of a node in a tree: each level then doubles the cluster."""

EXTRA_EDGES_RATIO: Final = 0.5
"""Edges of a random shape beyond those that connect it, as a part of its nodes: enough for some
cycles, too few for a full mesh."""


class UnknownShape(ValueError):
    """A shape, or an edge, that does not exist. The text names what there is."""


def line(count: int) -> tuple[Edge, ...]:
    """Put nodes in a row: each dials the one before it."""
    return tuple((node, node - 1) for node in range(1, count))


def star(count: int) -> tuple[Edge, ...]:
    """Put the first node in the middle: all others dial it."""
    return tuple((node, 0) for node in range(1, count))


def ring(count: int) -> tuple[Edge, ...]:
    """Close a line; two nodes are a line still."""
    return line(count) + (((0, count - 1),) if count > 2 else ())


def full(count: int) -> tuple[Edge, ...]:
    """Link everybody with everybody."""
    return tuple((node, other) for node in range(count) for other in range(node))


def tree(count: int) -> tuple[Edge, ...]:
    """Give each node two below it, level by level; each dials the one above it."""
    return tuple((node, (node - 1) // BRANCHES) for node in range(1, count))


def random(count: int, chance: Random) -> tuple[Edge, ...]:
    """Connect everybody by chance: a random tree, and half as many edges again as there are nodes.

    The same state of ``chance`` gives the same shape.
    """
    edges = [(node, chance.randrange(node)) for node in range(1, count)]
    free = sorted(set(full(count)) - set(edges))
    extra = min(len(free), int(count * EXTRA_EDGES_RATIO))
    return tuple(edges + chance.sample(free, extra))


SHAPES: Final[Mapping[str, Callable[[int], tuple[Edge, ...]]]] = {
    "line": line,
    "star": star,
    "ring": ring,
    "full": full,
    "tree": tree,
}
"""The shapes that have a name and no chance; ``random`` is the one more that ``edges`` knows."""


def names(count: int) -> tuple[str, ...]:
    """Name nodes: a, b, c; with numbers (n001) if there are more than letters."""
    if not 1 <= count <= NODES_MAX:
        raise UnknownShape(f"a cluster has 1 to {NODES_MAX} nodes, not {count}")
    if count <= len(ascii_lowercase):
        return tuple(ascii_lowercase[:count])
    width = len(str(count - 1))
    return tuple(f"n{node:0{width}}" for node in range(count))


def edges(
    shape: str | Iterable[tuple[str, str]], nodes: Sequence[str], chance: Random
) -> list[tuple[str, str]]:
    """Give the edges of a shape between named nodes: by its name, or those given by hand.

    ``chance`` is for ``random`` only. Raises ``UnknownShape`` for what does not exist.
    """
    if not isinstance(shape, str):
        return _checked(shape, nodes)
    if shape == "random":
        pairs = random(len(nodes), chance)
    elif shape in SHAPES:
        pairs = SHAPES[shape](len(nodes))
    else:
        raise UnknownShape(
            f"there is no shape {shape!r}: take {', '.join(SHAPES)}, random, or pairs of names"
        )
    return [(nodes[dials], nodes[listens]) for dials, listens in pairs]


def _checked(pairs: Iterable[tuple[str, str]], nodes: Sequence[str]) -> list[tuple[str, str]]:
    known, seen = set(nodes), set[frozenset[str]]()
    checked = []
    for dials, listens in pairs:
        unknown = {dials, listens} - known
        if unknown:
            raise UnknownShape(f"an edge names {min(unknown)!r}; nodes are {', '.join(nodes)}")
        pair = frozenset((dials, listens))
        if len(pair) == 1 or pair in seen:
            raise UnknownShape(f"the edge {dials}-{listens} leads to itself, or is there twice")
        seen.add(pair)
        checked.append((dials, listens))
    return checked
