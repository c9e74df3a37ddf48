"""A bus that is joined to the mesh: modules publish to it, and receive from it."""

from __future__ import annotations

from dataclasses import replace

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import StatusCode, StatusEvent, blocking
from peermesh.brokers.modules import MeshModule, Message
from peermesh.brokers.modules.mesh import message_from
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.modules.requirements import requirement
from wire.decoding import decode
from wire.encoding import encode


@requirement("SRS_BROKER_17_003")
@requirement("SRS_BROKER_17_004")
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


def test_the_topic_is_the_mesh_s_word_whatever_properties_a_sender_gives() -> None:
    data = ({"topic": "bus/other", "unit": "c"}, b"21.5")
    message = message_from("bus/in", decode(encode(data)))
    assert message == Message(b"21.5", {"topic": "bus/in", "unit": "c"})


def test_a_way_that_only_hears_says_so(kit) -> None:
    with blocking.Endpoint() as endpoint:
        broker = kit.broker
        source, mesh = broker.add_module(kit.Collector()), broker.add_module(MeshModule(endpoint))
        broker.add_link(source, mesh)
        broker.publish(source, Message())
        broker.remove_module(mesh)
        (failure,) = kit.failures
        assert "publishes on" in str(failure.error)


ROLES = {
    "names": {"core": "core", "bus": "bus"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""]},
        "bus": {"publish": ["bus/out"], "subscribe": ["bus/in"]},
    },
}

SECRET = ClusterSecret.generate()


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


def refusal(status: blocking.StatusSubscriber, words: str) -> StatusEvent:
    """Wait for the event of a refusal that says so."""
    while True:
        event = status.get(limit())
        if event.status is StatusCode.NOT_ALLOWED and words in event.reason:
            return event


def test_a_module_has_the_rights_of_its_endpoint_s_certificate_for_each_verb(kit) -> None:
    with (
        blocking.Endpoint(credentials=called("core"), roles=ROLES) as core,
        blocking.Endpoint(credentials=called("bus"), forwarding=False) as here,
    ):
        broker, sink, status = kit.broker, kit.Collector(), core.subscribe_status()
        source = broker.add_module(kit.Collector())
        everything = core.subscribe("")
        hears_all = MeshModule(here, publishes="bus/out", subscribes=[""])
        for mesh in (MeshModule(here, publishes="alarms"), hears_all):
            broker.add_link(source, joined := broker.add_module(mesh))
        broker.add_link(joined, broker.add_module(sink))
        assert here.peer("127.0.0.1", core.listen(), timeout=limit())
        assert core.await_peer(here.node_id(), timeout=limit())
        refusal(status, "'bus' (role bus) may not subscribe to ''")
        broker.publish(source, Message(b"21.5"))
        assert everything.get(limit())[0] == "bus/out"
        refusal(status, "'bus' (role bus) may not publish on 'alarms'")
        core.publish("secret", 1)
        core.publish("bus/in", 2)
        assert sink.entered.wait(limit())
        assert broker.remove_module(joined)
        assert sink.received == [2]


def test_a_module_whose_endpoint_knows_its_role_is_told_what_it_may_not(kit) -> None:
    with blocking.Endpoint(credentials=called("bus"), roles=ROLES) as here:
        broker, failures = kit.broker, kit.failures
        source = broker.add_module(kit.Collector())
        mesh = broker.add_module(MeshModule(here, publishes="alarms"))
        broker.add_link(source, mesh)
        broker.publish(source, Message(b"fire"))
        broker.remove_module(mesh)
        broker.add_module(MeshModule(here, subscribes=["secret"]))
        kit.until(lambda: len(failures) == 2)  # It leaves by itself.
        publishing, subscribing = (str(each.error) for each in failures)
        assert "'bus' (role bus) may not publish on 'alarms'" in publishing
        assert "'bus' (role bus) may not subscribe to 'secret'" in subscribing
