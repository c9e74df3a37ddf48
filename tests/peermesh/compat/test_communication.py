"""Messages and statuses between two endpoints."""

from __future__ import annotations

import select
import threading

import pytest

import peermesh
import peermesh.compat.broker as broker
from peermesh.compat.broker import EC, SC
from peermesh.errors import AddressInUse, AddressInvalid, EndpointClosed, InsecureAddress
from peermesh.testing.time_limits import limit
from tests.peermesh.compat.conftest import HOST, join
from tests.ports import free_port


def is_readable(subscriber, timeout: float = 0) -> bool:
    return bool(select.select([subscriber.fd()], [], [], timeout)[0])


def test_messages_arrive_as_pairs_of_topic_and_values_that_can_be_changed(opened, pair):
    left, right = pair
    subscriber = opened(right.make_subscriber("/test"))
    join(left, right)
    left.publish("/test/1", [1, {"a": {2}}])
    topic, data = subscriber.get()
    assert (topic, data) == ("/test/1", (1, {"a": {2}}))
    data[1]["b"] = data[1]["a"].add(3)


def test_so_many_are_waited_for_and_for_so_long(opened, pair):
    left, right = pair
    subscriber = opened(right.make_subscriber(["/test"], qsize=1))
    join(left, right)
    assert subscriber.get(0.0) is None
    assert subscriber.get(2, 0.0) == []
    assert subscriber.available() is False
    left.publish_batch(("/test/a", 1), ("/test/b", 2), ("/test/c", 3), ("/test/d", 4))
    assert subscriber.get(2) == [("/test/a", 1), ("/test/b", 2)]
    assert subscriber.get(limit()) == ("/test/c", 3)
    assert is_readable(subscriber, limit())
    assert subscriber.available() is True
    assert subscriber.get(3, 0.1) == [("/test/d", 4)]
    assert not is_readable(subscriber)
    assert subscriber.poll() == []


def test_get_gives_what_came_before_the_end(opened, pair):
    left, right = pair
    subscriber = right.make_subscriber("/test")
    join(left, right)
    left.publish("/test", 1)
    assert is_readable(subscriber, limit())
    ended = threading.Timer(0.05, right.shutdown)
    ended.start()
    assert subscriber.get(2) == [("/test", 1)]
    ended.join()
    with pytest.raises(EndpointClosed):
        subscriber.get()


def test_messages_that_were_lost_are_passed_over(opened, pair, monkeypatch):
    monkeypatch.setenv("PEERMESH_OVERFLOW", "drop_oldest")
    monkeypatch.setenv("PEERMESH_QUEUE_SIZE", "2")
    left, right = pair[0], opened(broker.Endpoint())
    subscriber = right.make_subscriber("/test")
    join(left, right)
    left.publish_batch(*(("/test", number) for number in range(10)))
    while right.statistics().messages_dropped < 8:
        threading.Event().wait(0.001)
    assert subscriber.get(3, 0.0) == [("/test", 8), ("/test", 9)]


def test_topics_come_and_go(opened, pair):
    left, right = pair
    subscriber = opened(right.make_subscriber("/a"))
    join(left, right)
    subscriber.add_topic("/b", True)
    assert left.await_subscribed("/b", 1, limit())
    left.publish("/b", 1)
    assert subscriber.get() == ("/b", 1)
    subscriber.remove_topic("/b")
    subscriber.remove_topic("/a", block=True)
    while left.await_subscribed("/a", 1, 0):
        pass


def test_a_safe_subscriber_gives_values_that_can_be_hashed(opened, pair):
    left, right = pair
    safe = opened(right.make_safe_subscriber("/test"))
    join(left, right)
    for _ in range(2):
        left.publish("/test", [{"a": [1]}, {2}])
    (first,) = {data for _, data in safe.get(1)}
    assert type(first[1]) is peermesh.Set
    assert {first, *(data for _, data in safe.get(1))} == {first}


def test_a_publisher_has_one_topic(opened, pair):
    left, right = pair
    subscriber = opened(right.make_subscriber("/test"))
    publisher = opened(left.make_publisher("/test"))
    join(left, right)
    count = 3 * publisher.capacity()
    publisher.publish({"a"})
    publisher.publish_batch(*range(count))
    assert subscriber.get(count + 1) == [("/test", {"a"}), *(("/test", n) for n in range(count))]
    assert publisher.buffered() == 0


def test_a_message_right_after_peering_arrives(pair):
    left, right = pair
    subscriber = right.make_subscriber("/test")
    assert left.peer(HOST, right.listen(HOST, 0), 0) is True
    left.publish("/test", "first")
    assert subscriber.get() == ("/test", "first")


def test_statuses_come_in_their_order_with_ids_and_addresses(opened, pair):
    left, right = pair
    near, far = opened(left.make_status_subscriber(True)), right.make_status_subscriber(True)
    port = join(left, right)
    found, added = near.get(2)
    assert [found.code(), added.code()] == [SC.EndpointDiscovered, SC.PeerAdded]
    assert added.context().node_id() == right.node_id()
    network = added.context().network
    assert (network.is_set(), network.get()) == (True, broker.NetworkInfo(HOST, port, 1.0))
    assert found.context().network.is_set() is False
    assert "peer_added" in repr(added)
    assert left.unpeer(HOST, port) is True
    assert [each.code() for each in near.get(2)] == [SC.PeerRemoved, SC.EndpointUnreachable]
    assert is_readable(far, limit())
    codes = [each.code() for each in far.get(4)]
    assert codes[2:] == [SC.PeerLost, SC.EndpointUnreachable]


def test_without_statuses_there_are_errors_alone(opened, pair):
    left, right = pair
    errors = opened(left.make_status_subscriber())
    join(left, right)
    assert errors.available() is False
    assert left.unpeer(HOST, 1) is False
    (error,) = errors.get(1)
    assert isinstance(error, broker.Error)
    assert error.code() == EC.PeerInvalid == 3
    port = free_port()
    assert left.peer(HOST, port, 0.0) is False
    assert errors.get().code() == EC.PeerUnavailable
    left.peer_nosync(HOST, port, 0.1)
    assert [each.code() for each in errors.get(2)] == [EC.PeerUnavailable] * 2
    (dialled,) = left.dialled()
    assert (dialled.address, dialled.retry) == ((HOST, port), 0.1)
    left.unpeer_nosync(HOST, port)
    assert left.dialled() == []


def test_all_codes_have_names():
    assert EC.RequestTimeOut is EC.RequestTimeout
    assert EC(41).name == "InvalidJson"
    assert {code.value for code in EC} >= set(range(42))


def test_an_address_that_cannot_be_had_is_refused_with_its_reason(opened, pair):
    left, right = pair
    port = left.listen(HOST, 0)
    assert port > 0
    with pytest.raises(AddressInUse):
        right.listen(HOST, port)
    plain = opened(broker.Endpoint(broker.Configuration(broker.BrokerOptions(disable_ssl=True))))
    with pytest.raises(AddressInvalid):
        plain.listen("192.0.2.1", 0)
    with pytest.raises(InsecureAddress):
        right.listen("0.0.0.0", 0)


def test_who_is_not_there_is_waited_for_as_long_as_said(pair):
    left, right = pair
    assert left.await_peer(right.node_id(), 0.05) is False
    assert left.peers() == []


def test_an_endpoint_ends_with_its_block():
    with broker.Endpoint() as endpoint:
        assert endpoint.node_id()
    with pytest.raises(EndpointClosed):
        endpoint.publish("/test", 1)
    with pytest.raises(AttributeError, match="_missing"):
        endpoint._missing  # noqa: B018 - it is looked up


@pytest.mark.parametrize(
    "configuration",
    [
        broker.Configuration(broker.BrokerOptions(use_real_time=False)),
        broker.Configuration(openssl_capath="/etc/ssl"),
    ],
)
def test_what_the_mesh_has_not_is_refused(configuration):
    with pytest.raises(ValueError, match="are not there"):
        broker.Endpoint(configuration)
