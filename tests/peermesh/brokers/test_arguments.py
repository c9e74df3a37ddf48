"""Wrong arguments of brokers, their clients and gateways: told at the call, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from endpoint import Endpoint
from peermesh import blocking
from peermesh.brokers import edge, modules, qos2
from peermesh.brokers.edge import blocking as edge_blocking
from peermesh.brokers.qos2 import blocking as qos2_blocking
from peermesh.gateways import serve_webhdfs

WRONG = (TypeError, ValueError)
PORTS = (["80"], True, 1.5, -1, 70_000, "http", None)
SECONDS = ("5", True, -1, float("nan"), [])
COUNTS = ("5", True, 1.5, -1, None)
TEXTS = (5, b"t", ["t"])
HOSTS = (5, b"host", ("a", 1))
ADDRESSES = ("host:80", 5, ("host",), ("host", 80, 1), (5, 80), *(("h", port) for port in PORTS))


def refuse(name: str, make: Callable[[Any], object], values: tuple[Any, ...]) -> None:
    """See that each value is refused, with the argument's name in the text."""
    for value in values:
        with pytest.raises(WRONG, match=name):
            make(value)


async def refuse_all(name: str, call: Callable[[Any], Any], values: tuple[Any, ...]) -> None:
    for value in values:
        with trio.fail_after(20), pytest.raises(WRONG, match=name):
            await call(value)


def test_options_and_places_are_checked_when_they_are_made() -> None:
    refuse("address", lambda value: edge.Options(address=value), HOSTS)
    refuse("registry_port", lambda value: edge.Options(registry_port=value), PORTS)
    refuse("registry_host", lambda value: edge.Options(registry_host=value), HOSTS)
    refuse("ports", lambda value: edge.Options(ports=[value]), PORTS)
    refuse("default_ports", lambda value: edge.Options(default_ports=value), (1, "ab", (1,)))
    refuse("default_ports", lambda value: edge.Options(default_ports=(0, value)), PORTS)
    refuse("idle_seconds", lambda value: edge.Options(idle_seconds=value), SECONDS)
    refuse("host", lambda value: qos2.Ports(host=value), HOSTS)
    refuse("publishers", lambda value: qos2.Ports(publishers=value), PORTS)
    refuse("consumers", lambda value: qos2.Ports(consumers=value), PORTS)
    refuse("send_seconds", lambda value: qos2.Pace(send_seconds=value), SECONDS)
    refuse("resends_max", lambda value: qos2.Pace(resends_max=value), COUNTS)
    refuse("name", lambda value: qos2.Place(name=value), TEXTS)
    assert qos2.Ports(publishers="4050").publishers == 4050


def test_brokers_and_clients_are_checked_when_they_are_made() -> None:
    refuse("address|host|port", lambda value: edge.RemoteRegistry([value]), ADDRESSES)
    refuse("address|host|port", edge.Where, ADDRESSES)
    refuse("zookeeper", lambda value: edge.Where(zookeeper=value), TEXTS)
    for door in (edge, edge_blocking):
        refuse("registry", door.Publisher, (5, "host", ("host", 80)))
        refuse("registry", door.Subscriber, (5, "host", ("host", 80)))
        refuse("where", lambda value: door.Broker(where=value), (5, "host"))  # noqa: B023 - called at once
    refuse("buffer_size", lambda value: edge.Publisher(edge.Where(), buffer_size=value), COUNTS)


@pytest.mark.parametrize("door", [qos2, qos2_blocking], ids=["trio", "blocking"])
def test_clients_of_the_qos2_broker_are_checked_when_they_are_made(door: Any) -> None:
    refuse("name", door.Publisher, TEXTS)
    refuse("port", lambda value: door.Publisher("till", value), PORTS)
    refuse("host", lambda value: door.Publisher("till", 4040, value), HOSTS)
    refuse("name", lambda value: door.Consumer(value, "t"), TEXTS)
    refuse("topics", lambda value: door.Consumer("till", value), (5, b"t", [5], None))
    refuse("port", lambda value: door.Consumer("till", "t", value), PORTS)
    refuse("handled", lambda value: door.Consumer("till", "t", handled={"t": value}), COUNTS)


async def test_what_clients_of_the_edge_broker_are_asked_is_checked() -> None:
    with trio.fail_after(60):
        async with edge.open_edge_broker() as host:
            async with (
                edge.RemoteRegistry([host.registry_address]) as registry,
                edge.Publisher(registry) as publisher,
                edge.Subscriber(registry) as subscriber,
            ):
                for call in (
                    lambda value: publisher.send(value, 1),
                    publisher.stop,
                    subscriber.subscribe,
                    subscriber.unsubscribe,
                ):
                    await refuse_all("topic", call, TEXTS)
                await refuse_all("timeout", publisher.flush, SECONDS)
                await refuse_all("timeout", subscriber.get, SECONDS)

                def subscribe(value: Any) -> Any:
                    return subscriber.subscribe("t", timeout=value)

                await refuse_all("timeout", subscribe, SECONDS)
                # Nothing was done, and all goes on.
                assert await subscriber.subscribe("t", timeout=20)
                await publisher.send("t", 1)
                assert await subscriber.get(20) == ("t", 1)


async def test_what_clients_of_the_qos2_broker_are_asked_is_checked() -> None:
    with trio.fail_after(60):
        async with Endpoint() as endpoint:
            ports = qos2.Ports(publishers=0, consumers=0)
            async with qos2.open_broker(endpoint, ports=ports) as on:
                async with (
                    qos2.Publisher("till", str(on.publisher_port)) as out,
                    qos2.Consumer("billing", ["t"], on.consumer_port) as source,
                ):
                    await refuse_all("message_id", lambda n: out.publish(n, "t", b""), COUNTS)
                    await refuse_all("topics", lambda t: out.publish(1, t, b""), (5, [5], b"t"))
                    await refuse_all("payload", lambda p: out.publish(1, "t", p), (5, "x", None))
                    await out.publish(1, "t", b"x")
                    message = await source.get()
                    await refuse_all("reason", source.refuse, TEXTS)
                    assert message.payload == b"x"
                    await source.done()


def test_what_the_blocking_clients_of_the_qos2_broker_are_asked_is_checked() -> None:
    ports = qos2.Ports(publishers=0, consumers=0)
    with blocking.Endpoint() as on, qos2_blocking.open_broker(on, ports=ports) as broker:
        with qos2_blocking.Publisher("till", broker.publisher_port) as out:
            refuse("timeout", lambda value: out.publish(1, "t", b"", value), SECONDS)
            out.publish(1, "t", b"", 20)
        refuse("number", broker.letters.replay, COUNTS)
        refuse("number", broker.letters.purge, COUNTS)


def test_what_a_module_broker_is_asked_is_checked() -> None:
    class Silent:
        def receive(self, message: modules.Message) -> None:
            """Take it in."""

    refuse("on_failure", lambda value: modules.ModuleBroker(on_failure=value), (5, "log"))
    refuse("path", modules.ProcessModule, TEXTS)
    with modules.ModuleBroker() as broker:
        module = broker.add_module(Silent())
        refuse("name", lambda value: broker.add_module(Silent(), value), TEXTS)
        add = broker.add_module
        refuse("inbox_size", lambda value: add(Silent(), inbox_size=value), COUNTS)
        refuse("timeout", lambda value: broker.remove_module(module, timeout=value), SECONDS)
        refuse("names no module", broker.remove_module, (None, [], 1.5))
        refuse("no policy", lambda value: broker.add_link(module, module, value), (5, "late", []))
        assert [each.name for each in broker.modules()] == ["module 1"]
        assert broker.remove_module(module, timeout=1e300)


async def test_what_a_gateway_is_given_is_checked() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:

        def serve(**options: Any) -> Any:
            return serve_webhdfs(options.pop("store", store), **options).__aenter__()

        await refuse_all("store", lambda value: serve(store=value), (5, "s", None))
        await refuse_all("host", lambda value: serve(host=value), HOSTS)
        await refuse_all("port", lambda value: serve(port=value), PORTS)
        await refuse_all("token", lambda value: serve(token=value), TEXTS)
        async with serve_webhdfs(store, port="0") as gateway:
            assert gateway.port > 0


def test_what_a_gateway_for_threads_is_given_is_checked() -> None:
    with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:

        def serve(**options: Any) -> Any:
            return blocking.serve_webhdfs(options.pop("store", store), **options).__enter__()

        refuse("store", lambda value: serve(store=value), (5, "s", None))
        refuse("host", lambda value: serve(host=value), HOSTS)
        refuse("port", lambda value: serve(port=value), PORTS)
        refuse("token", lambda value: serve(token=value), TEXTS)
