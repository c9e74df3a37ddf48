"""Every topic that the product itself listens on: each place is known, and so is what it asks.

A new place makes the first test fail until it stands here, with the function that looks at who
sent what comes. Topics of the product's own that make it do something are for the admin service
alone: it asks for a right, and answers the sender.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from wire.topics import is_reserved

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("endpoint", "stores", "peermesh")

HEARS = {
    "subscribe", "_subscribe", "forward", "add_reader", "add_topics",
    "add_store", "attach_store",
}  # fmt: skip
"""Methods by which an endpoint hears a topic; and ``serve`` of a core, and ``hear`` of a loop."""


class Heard(NamedTuple):
    """What is heard in one place."""

    topics: str
    check: str
    """The function that asks whether what comes may come."""


PUBLISHING = "endpoint.mesh.authorisation:Authorisation.refusal"
"""Each endpoint on the way drops what a role may not publish. Nothing is done but to hand it on."""
STORES = "endpoint.replicas.guarding:GroupGuarding.guard"
"""Each command is looked at, by the role of its sender."""
ASKED = "endpoint.admin.desk:Desk.take"

PLACES = {
    "endpoint/admin/service.py AdminService.__init__": Heard("mesh/<$>/admin", ASKED),
    "endpoint/replicas/runner.py Runner.start": Heard("a store's or log's", STORES),
    "endpoint/replicas/runner.py Runner._hear_more": Heard("a log's", STORES),
    "endpoint/loop.py EndpointLoop.hear": Heard("a store's or log's", STORES),
    "endpoint/loop.py EndpointLoop.add_store": Heard("a store's or log's", STORES),
    "endpoint/loop.py EndpointLoop.add_reader": Heard("a subscriber's", PUBLISHING),
    "endpoint/loop.py EndpointLoop.add_topics": Heard("a subscriber's", PUBLISHING),
    "endpoint/endpoint.py Endpoint.read_with": Heard("a program's", PUBLISHING),
    "endpoint/endpoint.py Endpoint.forward": Heard("a program's", PUBLISHING),
    "endpoint/replicas/logs/attachments.py LogAttachments._collect": Heard(
        "those it collects", PUBLISHING
    ),
    "endpoint/pubsub/subscriber.py Subscriber.add_topic": Heard("a program's", PUBLISHING),
    "endpoint/pubsub/gateway_client.py GatewayClient.__init__": Heard(
        "a client's, which gets them", PUBLISHING
    ),
    "peermesh/brokers/edge/bridge.py Bridge._enter": Heard("those in its settings", PUBLISHING),
    "peermesh/brokers/modules/mesh.py MeshModule.attach": Heard("in its file", PUBLISHING),
    "peermesh/cli/messages.py _subscribe": Heard("the user's, which are shown", PUBLISHING),
    "peermesh/cli/node.py _Node.live": Heard("the user's, which are passed on", PUBLISHING),
    "peermesh/cli/spark.py _watch": Heard("reports of a job, which are shown", PUBLISHING),
    "peermesh/compat/broker/__init__.py Endpoint.make_subscriber": Heard("a program's", PUBLISHING),
    "peermesh/testing/agent/servant.py Servant._subscribe": Heard("a test's", PUBLISHING),
    "peermesh/testing/swarm/node.py Node.live": Heard("a simulation's", PUBLISHING),
}

CLIENTS = {
    "endpoint/endpoint.py Endpoint.subscribe_status",  # events of the endpoint itself
    "peermesh/brokers/edge/relay.py Relay.attach",  # a client of a channel
    "peermesh/brokers/edge/relay.py Relay.expect",  # a client of a channel
    "peermesh/cli/edge.py _subscribe",  # asks an edge broker
}
"""Places where no topic of the mesh is heard."""


def places() -> Iterator[str]:
    """Find each function that makes an endpoint hear something."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found = dict.fromkeys(_hearing(ast.parse(path.read_text("utf-8")), ""))
            yield from (f"{path.relative_to(ROOT).as_posix()} {name}" for name in found)


def _hearing(node: ast.AST, name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}" if name else child.name
        elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            called, of = child.func.attr, ast.unparse(child.func.value)
            is_of_core = called == "serve" and of.endswith("core")
            is_of_loop = called == "hear" and of.endswith(("host", "loop", "self"))
            if called in HEARS or is_of_core or is_of_loop:
                yield name
        yield from _hearing(child, inner)


def test_every_place_that_hears_a_topic_is_known_with_its_check() -> None:
    found, known = set(places()), PLACES.keys() | CLIENTS
    assert not found - known, "say here what the place hears, and what asks who sent it"
    assert not known - found, "these places hear nothing any more"


@pytest.mark.parametrize("heard", sorted(set(PLACES.values())), ids=lambda each: each.topics)
def test_each_check_is_there(heard: Heard) -> None:
    module, _, name = heard.check.partition(":")
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)


def test_topics_of_the_product_that_make_it_do_something_are_reserved() -> None:
    """An ordinary topic is open to each role that may publish on it: it is no place for orders."""
    assert [each.topics for each in PLACES.values() if is_reserved(each.topics)]
    for path in (ROOT / "peermesh").rglob("*.py"):
        assert "peermesh/control" not in path.read_text("utf-8"), path
