"""A bus that is joined to the mesh: modules publish to it, and receive from it."""

from __future__ import annotations

from peermesh import blocking
from peermesh.brokers.modules import MeshModule, Message
from peermesh.brokers.modules.mesh import message_from
from peermesh.testing.time_limits import limit


def test_modules_publish_to_and_receive_from_the_mesh(kit) -> None:
    with blocking.Endpoint() as here, blocking.Endpoint() as there:
        broker, sink = kit.broker, kit.Collector()
        source = broker.add_module(kit.Collector())
        mesh = broker.add_module(
            MeshModule(here, publishes="bus/out", subscribes=["bus/in"]), "mesh"
        )
        broker.add_module(sink, "sink")
        broker.add_link(source, mesh)
        broker.add_link(mesh, "sink")
        subscriber = there.subscribe("bus/out")
        assert there.peer("127.0.0.1", here.listen(), timeout=limit())
        assert here.await_peer(there.node_id(), timeout=limit())
        assert there.await_peer(here.node_id(), timeout=limit())
        broker.publish(source, Message(b"21.5", {"unit": "celsius"}))
        topic, data = subscriber.get(limit())
        assert message_from(topic, data) == Message(
            b"21.5", {"unit": "celsius", "topic": "bus/out"}
        )
        there.publish("bus/in/a", 7)
        assert sink.entered.wait(limit())
        assert broker.remove_module("mesh")
        assert broker.remove_module("sink")
        assert sink.received == [7]
        assert not kit.failures


def test_a_way_that_only_hears_says_so(kit) -> None:
    with blocking.Endpoint() as endpoint:
        broker = kit.broker
        source, mesh = broker.add_module(kit.Collector()), broker.add_module(MeshModule(endpoint))
        broker.add_link(source, mesh)
        broker.publish(source, Message())
        broker.remove_module(mesh)
        (failure,) = kit.failures
        assert "publishes on" in str(failure.error)
