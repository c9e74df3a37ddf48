"""Expiry: set, replaced or cleared by every operation; kept in snapshots and on disk."""

from __future__ import annotations

import pytest

from stores.actions import Initial, Step, StepKind
from wire.encoding import encode

TICK_NS = 100_000_000
LONG, SHORT = 50 * TICK_NS, 3 * TICK_NS
K = encode("k")


def batch(node, kind, operand=None, initial=None, expiry_ns=None):
    return node.core.requests.batch([], [Step(kind, K, operand, initial, expiry_ns)])


OPERATIONS = {
    "put": lambda node, span: node.put("k", 5, span),
    "add": lambda node, span: node.add("k", 1, Initial.NUMBER, span),
    "subtract": lambda node, span: node.core.requests.subtract(K, encode(1), span),
    "put in a batch": lambda node, span: batch(node, StepKind.PUT, encode(5), None, span),
    "add in a batch": lambda node, span: batch(node, StepKind.ADD, encode(1), Initial.NUMBER, span),
    "subtract in a batch": lambda node, span: batch(node, StepKind.SUBTRACT, encode(1), None, span),
}


@pytest.fixture(params=["master", "clone"])
def node(request, world, pair):
    return pair[0] if request.param == "master" else pair[1]


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("span", [None, SHORT, LONG])
def test_every_operation_replaces_the_expiry_or_clears_it(operation, span, node, world):
    began_ns = world.now_ns
    node.put("k", 5, 10 * TICK_NS)
    world.settle()
    operation(node, span)
    world.settle()
    wanted = None if span is None else began_ns + span
    assert node.expires_at_ns("k") == wanted
    world.tick(4)
    assert (node.get("k") is None) == (span == SHORT)
    world.tick(60)
    assert (node.get("k") is None) == (span is not None)


def test_what_is_refused_leaves_the_expiry_as_it_was(node, world):
    node.put("k", 5, SHORT)
    node.put_unique("k", 6)
    node.put_unique("k", 6, LONG)
    node.add("k", "text", Initial.TEXT)
    world.settle()
    world.tick(4)
    assert node.contents() == {}
    number = node.put_unique("k", 7, SHORT)
    world.settle()
    assert node.outcomes[number].answer
    world.tick(4)
    assert node.contents() == {}


def test_only_the_masters_clock_lets_keys_expire(world, pair):
    master, clone = pair
    master.put("k", 1, SHORT)
    world.settle()
    world.nodes.remove(master)
    world.tick(30)
    assert clone.get("k") == 1
    world.nodes.append(master)
    world.tick(3)
    assert clone.get("k") is None


@pytest.mark.parametrize("is_followed", [True, False], ids=["journal", "snapshot"])
def test_a_new_clone_gets_the_expiry_with_what_is_there(world, is_followed):
    master = world.master()
    if is_followed:
        world.clone()
        world.tick()
    master.put("k", 1, SHORT)
    world.settle()
    expires_at_ns = master.expires_at_ns("k")
    late = world.clone()
    world.tick()
    assert late.core.machine.entry(K) == master.core.machine.entry(K)
    assert late.expires_at_ns("k") == expires_at_ns
    world.tick(4)
    assert late.contents() == {}


def test_expiry_survives_a_restart_and_a_key_keeps_the_time_that_it_had_left(world, tmp_path):
    master = world.master(tmp_path / "s.db")
    master.put("short", 1, SHORT)
    master.put("long", 2, LONG)
    master.put("ever", 3)
    world.settle()
    wanted = master.core.machine.entry(encode("long"))
    master.crash()
    world.now_ns += 10 * TICK_NS
    again = world.master(tmp_path / "s.db")
    clone = world.clone()
    world.tick()
    assert sorted(again.contents()) == ["ever", "long", "short"]
    assert again.core.machine.entry(encode("long")) == wanted
    assert clone.core.machine.entry(encode("long")) == wanted
    world.tick(3)
    assert clone.contents() == again.contents() == {"long": 2, "ever": 3}
    world.tick(60)
    assert clone.contents() == {"ever": 3}
