"""Shapes: everybody is connected, nobody twice, and chance is repeatable."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies

from peermesh.testing import shapes
from peermesh.testing.shapes import UnknownShape
from peermesh.testing.view import components

COUNTS = strategies.integers(1, 40)
NAMED = [*shapes.SHAPES, "random"]


@given(count=COUNTS, shape=strategies.sampled_from(NAMED), seed=strategies.integers(0, 9))
def test_every_shape_connects_everybody_and_links_no_pair_twice(count, shape, seed):
    names = shapes.names(count)
    edges = shapes.edges(shape, names, Random(seed))
    assert components(names, edges) == [list(names)]
    assert len({frozenset(edge) for edge in edges}) == len(edges)
    assert all(dials != listens for dials, listens in edges)


def test_shapes_have_the_edges_that_their_names_say():
    assert shapes.line(4) == ((1, 0), (2, 1), (3, 2))
    assert shapes.star(4) == ((1, 0), (2, 0), (3, 0))
    assert shapes.ring(4) == ((1, 0), (2, 1), (3, 2), (0, 3))
    assert shapes.ring(2) == ((1, 0),)
    assert shapes.tree(6) == ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2))
    assert len(shapes.full(6)) == 15


def test_a_random_shape_is_that_of_its_seed():
    names = shapes.names(30)
    first, again, other = (shapes.edges("random", names, Random(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert len(first) == 29 + 15


def test_many_nodes_have_names_that_sort():
    assert shapes.names(3) == ("a", "b", "c")
    assert shapes.names(101)[:2] == ("n000", "n001")
    assert list(shapes.names(101)) == sorted(shapes.names(101))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("circle", "there is no shape 'circle': take line, star"),
        ([("a", "x")], "an edge names 'x'; nodes are a, b, c"),
        ([("a", "a")], "leads to itself"),
        ([("a", "b"), ("b", "a")], "is there twice"),
    ],
)
def test_what_is_no_shape_is_refused(shape, text):
    with pytest.raises(UnknownShape, match=text):
        shapes.edges(shape, "abc", Random(0))


def test_a_cluster_has_at_least_one_node():
    with pytest.raises(UnknownShape, match="1 to 1000 nodes, not 0"):
        shapes.names(0)
