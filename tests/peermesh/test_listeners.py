"""Every port that the product opens: none is exposed in plain by accident, all speak TLS if told.

``tests/sources/test_ports.py`` fails for a new listener that is missing in the tables below.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import Endpoint
from peermesh.brokers import edge, qos2
from peermesh.cli.application import run
from peermesh.gateways import serve_webhdfs, serve_websocket
from peermesh.testing.links import open_link
from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import WebHDFSClient
from wire.errors import InsecureAddress

SECRET = ClusterSecret(bytes(range(20)))
EVERYWHERE = "0.0.0.0"
LOOPBACK = "127.0.0.1"
TLS_ALERT = b"\x15"
"""The first byte of a record that says what is wrong."""


def credentials(secret: ClusterSecret = SECRET) -> Credentials:
    return Credentials.from_secret(secret)


def stranger() -> Credentials:
    return credentials(ClusterSecret.generate())


async def until(is_true: Callable[[], object]) -> None:
    """Wait for a truth."""
    while not is_true():
        with trio.move_on_after(0.01):
            await trio.sleep_forever()


# Each raises a listener at a host, with these credentials or none, and leaves.


async def raise_mesh(host: str, given: Credentials | None, allow: bool) -> None:
    async with Endpoint(credentials=given, allow_plain=allow) as endpoint:
        await endpoint.listen(host)


@asynccontextmanager
async def edge_host(host: str, given: Credentials | None, allow: bool) -> AsyncIterator[edge.Host]:
    options = edge.Options(address=host, allow_plain=allow)
    async with edge.open_edge_broker(options=options, credentials=given) as found:
        yield found


async def raise_edge(host: str, given: Credentials | None, allow: bool) -> None:
    async with edge_host(host, given, allow):
        pass


@asynccontextmanager
async def lines(
    host: str, given: Credentials | None, allow: bool
) -> AsyncIterator[qos2.QoS2Broker]:
    ports = qos2.Ports(host, 0, 0, allow, given)
    async with Endpoint() as endpoint, qos2.open_broker(endpoint, ports=ports) as found:
        yield found


async def raise_lines(host: str, given: Credentials | None, allow: bool) -> None:
    async with lines(host, given, allow):
        pass


async def raise_webhdfs(host: str, given: Credentials | None, allow: bool) -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("files") as store:
        token = "a-token-of-some-length" if allow else None
        options = {"credentials": given, "allow_plain": allow, "token": token}
        async with serve_webhdfs(store, host=host, **options):
            pass


async def raise_websocket(host: str, given: Credentials | None, allow: bool) -> None:
    token = "a-token-of-some-length" if allow else None
    options = {"credentials": given, "allow_plain": allow, "token": token}
    async with Endpoint() as endpoint, serve_websocket(endpoint, host=host, **options):
        pass


async def raise_link(host: str, given: Credentials | None, allow: bool) -> None:
    async with open_link(LOOPBACK, 1, host=host, allow_plain=allow):
        pass


Raise = Callable[[str, Credentials | None, bool], Awaitable[None]]

DOORS: dict[str, tuple[str, Raise]] = {
    "mesh": ("endpoint/endpoint.py", raise_mesh),
    "channels of the edge broker": ("peermesh/brokers/edge/broker.py", raise_edge),
    "registry of the edge broker": ("peermesh/brokers/edge/desk.py", raise_edge),
    "lines of the QoS-2 broker": ("peermesh/brokers/qos2/broker.py", raise_lines),
    "WebHDFS": ("peermesh/gateways/webhdfs/serving.py", raise_webhdfs),
    "WebSocket": ("peermesh/gateways/websocket/server.py", raise_websocket),
    "link": ("peermesh/testing/links/link.py", raise_link),
}
HAS_TLS = [name for name in DOORS if name != "link"]


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1"])
async def test_plain_tcp_beyond_loopback_is_refused_and_the_error_says_what_to_give(
    name: str, host: str
) -> None:
    _, enter = DOORS[name]
    with pytest.raises(InsecureAddress, match="allow_plain=True"):
        await enter(host, None, False)


@pytest.mark.parametrize("name", DOORS)
async def test_it_can_be_allowed_by_name(name: str) -> None:
    _, enter = DOORS[name]
    await enter(EVERYWHERE, None, True)


@pytest.mark.parametrize("name", HAS_TLS)
async def test_with_credentials_it_is_open_to_the_network(name: str) -> None:
    _, enter = DOORS[name]
    await enter(EVERYWHERE, credentials(), False)


COMMANDS = {
    "node": ["node", "--listen", "0.0.0.0:0"],
    "edge": ["broker", "edge", "--registry", "0.0.0.0:0"],
    "qos2": ["broker", "qos2", "--host", EVERYWHERE, "--memory"],
    "webhdfs": ["serve", "webhdfs", "--store", "files", "--http", "0.0.0.0:0"],
    "websocket": ["serve", "websocket", "--http", "0.0.0.0:0"],
    "link": ["link", "0.0.0.0:0", "127.0.0.1:1"],
    "zeek": ["link", "zeek", "ws://192.0.2.1:27759", "--to-zeek", "x", "--listen", "127.0.0.1:0"],
    "edge-sub": ["broker", "edge-sub", "--registry", "192.0.2.1:4050", "topic"],
    "peer": ["pub", "topic", "1", "--peer", "192.0.2.1:4050"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_refuse_too_and_say_which_option_to_give(name: str, capsys) -> None:
    assert run(COMMANDS[name]) == 1
    assert "--allow-plain" in capsys.readouterr().err


# Clients refuse as well: what they send is as secret as what is sent to them.


async def test_clients_dial_nobody_in_plain_beyond_loopback() -> None:
    with pytest.raises(InsecureAddress):
        edge.RemoteRegistry([("192.0.2.1", 1)])
    with pytest.raises(InsecureAddress):
        qos2.Publisher("p", host="192.0.2.1")
    with pytest.raises(InsecureAddress):
        qos2.Consumer("c", "t", host="192.0.2.1")
    async with Endpoint() as endpoint:
        with pytest.raises(InsecureAddress):
            await endpoint.peer("192.0.2.1", 1, retry=0)


# TLS: members are served, nobody else is.


async def says_nothing_to_plain(port: int) -> None:
    """Somebody without TLS gets an alert at most: of another protocol there is no byte."""
    async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        seen = b""
        try:
            while chunk := await stream.receive_some(4096):
                seen += chunk
        except trio.BrokenResourceError:
            pass
        assert seen[:1] in (b"", TLS_ALERT)
        assert len(seen) < 16


async def test_an_edge_broker_serves_members_over_tls_and_nobody_else() -> None:
    with trio.fail_after(limit(60)):
        async with edge_host(LOOPBACK, credentials(), False) as host:
            await says_nothing_to_plain(host.registry_address[1])
            where = [host.registry_address]
            async with edge.RemoteRegistry(where, credentials=stranger()) as closed:
                await until(lambda: closed.last_error)
            assert "same cluster secret" in closed.last_error
            async with (
                edge.RemoteRegistry(where, credentials=credentials()) as registry,
                edge.Publisher(registry, credentials=credentials()) as publisher,
                edge.Subscriber(registry, credentials=credentials()) as subscriber,
                edge.Subscriber(registry, credentials=stranger()) as excluded,
            ):
                assert await subscriber.subscribe("tea")
                await publisher.send("tea", "green")
                assert await subscriber.get() == ("tea", "green")
                await until(lambda: excluded.last_error)
                assert "same cluster secret" in excluded.last_error


async def test_lines_serve_members_over_tls_and_nobody_else() -> None:
    with trio.fail_after(limit(60)):
        async with lines(LOOPBACK, credentials(), False) as broker:
            await says_nothing_to_plain(broker.publisher_port)
            async with (
                qos2.Publisher("p", broker.publisher_port, credentials=credentials()) as publisher,
                qos2.Consumer(
                    "c", "tea", broker.consumer_port, credentials=credentials()
                ) as consumer,
                qos2.Consumer("s", "tea", broker.consumer_port, credentials=stranger()) as thief,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(thief.get)
                await publisher.publish(1, "tea", b"green")
                assert (await consumer.get()).payload == b"green"
                await consumer.done()
                await until(lambda: broker.counters.not_trusted >= 2)
                nursery.cancel_scope.cancel()


async def test_webhdfs_serves_members_over_tls_and_nobody_else() -> None:
    def use(port: int, given: Credentials) -> bytes:
        with WebHDFSClient(LOOPBACK, port, context=given.client_context()) as client:
            client.create("/file", b"some", overwrite=True)
            return client.open("/file")

    with trio.fail_after(limit(60)):
        async with Endpoint() as endpoint, endpoint.attach_master("files") as store:
            async with serve_webhdfs(store, credentials=credentials()) as gateway:
                assert gateway.scheme == "https"
                await says_nothing_to_plain(gateway.port)
                found = await trio.to_thread.run_sync(use, gateway.port, credentials())
                assert found == b"some"
                with pytest.raises(OSError, match=r"certificate|alert"):
                    await trio.to_thread.run_sync(use, gateway.port, stranger())
                await until(lambda: gateway.statistics().refusals.get("PeerNotTrusted", 0) >= 2)


async def test_the_credentials_of_an_endpoint_serve_its_front_ends() -> None:
    with trio.fail_after(limit(60)):
        async with Endpoint(secret=SECRET) as endpoint:
            async with qos2.open_broker(endpoint, ports=qos2.Ports(EVERYWHERE, 0, 0)) as broker:
                await says_nothing_to_plain(broker.consumer_port)
            async with edge.open_edge_broker(endpoint) as host:
                await says_nothing_to_plain(host.registry_address[1])
            async with qos2.open_broker(endpoint, ports=qos2.Ports(LOOPBACK, 0, 0)) as broker:
                async with await trio.open_tcp_stream(LOOPBACK, broker.publisher_port) as telnet:
                    await telnet.send_all(b"BEGIN tea\ngreen\nEND\n")
                    assert await telnet.receive_some(100) == b"PUBREC\n"


def test_the_option_for_tls_on_loopback_needs_credentials(capsys) -> None:
    assert run(["broker", "qos2", "--memory", "--publisher-port", "0", "--tls"]) == 2
    assert "--secret-file" in capsys.readouterr().err
