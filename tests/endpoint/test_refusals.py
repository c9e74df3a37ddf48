"""What cannot be done, or may not: each has an error of its own that says what to do."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint, StatusCode
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from wire.encoding import encode
from wire.errors import (
    AddressInUse,
    AddressInvalid,
    EncodeError,
    EndpointClosed,
    ErrorCode,
    InsecureAddress,
    InvalidTopic,
    PeerIncompatible,
    PeerNotTrusted,
    PeerUnavailable,
)
from wire.framing import VERSION_MAX, VERSION_MIN, encode_control, encode_preamble
from wire.messages import DropConn, Preamble

# Calls that cannot be done.


async def test_a_closed_endpoint_refuses_every_call_and_says_why(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        await endpoint.publish("/t", b"nobody wants it")
        publisher = endpoint.publisher("/t")
        await endpoint.shutdown()
        calls = [
            lambda: endpoint.publish("/t", 1),
            lambda: endpoint.publish("/t", b"nobody wants it"),
            lambda: endpoint.publish_batch([("/t", 1)]),
            lambda: publisher.publish(1),
            lambda: publisher.publish_batch([1]),
            lambda: endpoint.peer(kit.host, 1),
            lambda: endpoint.unpeer(kit.host, 1),
            lambda: endpoint.listen(),
            lambda: endpoint.await_peer(kit.small_id),
        ]
        for call in calls:
            with pytest.raises(EndpointClosed, match="async with"):
                await call()
        for call in (
            lambda: endpoint.publish_nowait("/t", 1),
            lambda: publisher.publish_nowait(b"nobody wants it"),
            lambda: endpoint.subscribe("/t"),
            lambda: endpoint.subscribe_status(),
            lambda: endpoint.forward("/t"),
            lambda: endpoint.publisher("/t"),
        ):
            with pytest.raises(EndpointClosed, match="async with"):
                call()
        await endpoint.shutdown()
        assert endpoint.statistics().peers == ()


async def test_an_endpoint_that_was_never_opened_says_so() -> None:
    endpoint = Endpoint()
    with pytest.raises(EndpointClosed, match="async with"):
        await endpoint.publish("/t", 1)
    with pytest.raises(EndpointClosed, match="async with"):
        await endpoint.listen()


async def test_reserved_topics_and_values_without_a_place_are_refused(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        subscriber = right.subscribe("/")
        await world.known()
        for topic in ("/a/<$>/b", "<$>", "\ud800", 7):
            with pytest.raises(InvalidTopic):
                await left.publish(topic, 1)
            with pytest.raises(InvalidTopic):
                left.publish_nowait(topic, 1)
            with pytest.raises(InvalidTopic):
                left.publisher(topic)
            with pytest.raises(InvalidTopic):
                left.subscribe(topic)
            with pytest.raises(InvalidTopic):
                left.forward(topic)
            with pytest.raises(InvalidTopic):
                subscriber.add_topic(topic)
        for value in (2**64, object(), (1, {2: object()})):
            with pytest.raises(EncodeError):
                await left.publish("/t", value)
        with pytest.raises(EncodeError, match="in parts"):
            await left.publish("/t", bytes(17 * 2**20))
        await left.publish("/<$>not/a/segment", 1)
        assert await subscriber.get() == ("/<$>not/a/segment", 1)


async def test_a_port_in_use_is_an_error_of_its_own_that_says_what_to_do(kit) -> None:
    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        with pytest.raises(AddressInUse, match="choose another port, or 0"):
            await left.listen(kit.host, world.ports[right])


async def test_an_endpoint_may_listen_at_several_ports(kit) -> None:
    async with kit.world() as world:
        listener = await world.add()
        second = await listener.listen(kit.host)
        for port in (world.ports[listener], second):
            other = await world.add()
            assert await other.peer(kit.host, port, retry=0)
        assert len(listener.peers()) == 2


@pytest.mark.parametrize("port", [-1, 70_000])
async def test_a_port_that_cannot_be_is_refused_and_harms_nobody(kit, port: int) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        with pytest.raises(ValueError, match="port="):
            await endpoint.peer(kit.host, port, retry=0)
        with pytest.raises(ValueError, match="port="):
            await endpoint.listen(port=port)
        assert endpoint.loop.is_open


async def test_one_attempt_at_a_closed_port_is_false_with_an_event(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        status = endpoint.subscribe_status()
        listeners = await trio.open_tcp_listeners(0, host=kit.host)
        port = listeners[0].socket.getsockname()[1]
        await listeners[0].aclose()
        outcome = await endpoint.peer(kit.host, port, retry=0)
        assert not outcome
        assert isinstance(outcome.error, PeerUnavailable)
        assert "check the address" in str(outcome)
        event = await status.get()
        assert (event.status, event.address) == (StatusCode.PEER_UNAVAILABLE, (kit.host, port))
        assert event.code is ErrorCode.PEER_UNAVAILABLE
        assert endpoint._dialers == {}


async def test_names_that_mean_nothing_are_unavailable_too(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add(allow_plain=True)
        for name in ("", "a..b", "\x00", "::ffff:1.2.3.4.5"):
            outcome = await endpoint.peer(name, 1, retry=0)
            assert isinstance(outcome.error, PeerUnavailable), name


async def test_an_endpoint_cannot_peer_with_itself(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        outcome = await endpoint.peer(kit.host, world.ports[endpoint])
        assert not outcome
        assert outcome.error.code is ErrorCode.SELF_PEERING
        assert endpoint._dialers == {}
        assert endpoint.peers() == []


async def serve_once(listener: trio.SocketListener, said: bytes) -> None:
    async with listener, await listener.accept() as stream:
        await stream.send_all(said)
        while await stream.receive_some(65_536):
            pass


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            encode_preamble(Preamble(7, 9)),
            f"the dialling side speaks {VERSION_MIN} to {VERSION_MAX}, the accepting side 7 to 9;"
            " upgrade the older one",
        ),
        (
            encode_preamble(Preamble(1, 1)),
            "the dialling side speaks 2 to 2, the accepting side 1 to 1; upgrade the older one",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no peermesh peer"),
    ],
    ids=["version", "version 1", "protocol"],
)
async def test_another_version_or_protocol_is_an_error_of_its_own(kit, said, words) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        endpoint = await world.add()
        (listener,) = await trio.open_tcp_listeners(0, host=kit.host)
        nursery.start_soon(serve_once, listener, said)
        port = listener.socket.getsockname()[1]
        outcome = await endpoint.peer(kit.host, port, retry=0)
        assert not outcome
        assert isinstance(outcome.error, PeerIncompatible)
        assert words in str(outcome)


@pytest.mark.parametrize(("oldest", "newest"), [(7, 9), (1, 1)])
async def test_a_dialler_of_another_version_is_told_both_ranges_and_so_is_this_side(
    kit, oldest: int, newest: int
) -> None:
    async with kit.besieged() as siege, kit.raw(siege.hub, siege.port, greets=False) as raw:
        await raw.send(Preamble(oldest, newest))
        (event,) = await kit.events_until(siege.status, StatusCode.PEER_UNAVAILABLE)
        drop = await raw.receive_some(DropConn)
        assert drop is not None
        assert drop.code is ErrorCode.PEER_INCOMPATIBLE
        assert drop.reason == event.reason
        ours = f"the accepting side {VERSION_MIN} to {VERSION_MAX}"
        assert f"the dialling side speaks {oldest} to {newest}, {ours}" in drop.reason


async def test_an_endpoint_of_version_1_is_refused_before_any_of_its_messages_is_read(kit) -> None:
    # What version 1 said first: its hello had no size of a frame.
    hello = encode_control(1, encode((bytes(16), {})))
    async with kit.besieged() as siege, kit.raw(siege.hub, siege.port, greets=False) as raw:
        await raw.send(Preamble(1, 1), hello)
        (event,) = await kit.events_until(siege.status, StatusCode.PEER_UNAVAILABLE)
        assert event.code is ErrorCode.PEER_INCOMPATIBLE
        assert "the dialling side speaks 1 to 1, the accepting side 2 to 2" in event.reason
        await siege.check()


# Trust.


def secured(secret: ClusterSecret, name: str) -> dict[str, object]:
    return {"credentials": Credentials.from_secret(secret, name)}


async def test_a_mesh_with_one_secret_works_like_any_other(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        first, second, third = [await world.add(**secured(secret, name)) for name in "abc"]
        assert await first.listen("0.0.0.0")
        subscriber = third.subscribe("/t")
        await world.peer(first, second)
        await world.peer(third, second)
        await world.known()
        for number in range(2_000):
            await first.publish("/t", number)
        await first.publish("/t", bytes(3 * 2**20))
        got = [data for _, data in await kit.gather(subscriber, 2_001)]
        assert got[:-1] == list(range(2_000))
        assert len(got[-1]) == 3 * 2**20
        await first.shutdown()
        await kit.until(lambda: len(third.loop.core.topology.reachable()) == 1)


async def test_another_secret_no_secret_and_noise_are_refused_and_harm_nobody(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        member = await world.add(**secured(secret, "member"))
        friend = await world.add(**secured(secret, "friend"))
        stranger = await world.add(**secured(ClusterSecret.generate(), "stranger"))
        plain = await world.add()
        status = member.subscribe_status()
        port = world.ports[member]
        for intruder in (stranger, plain):
            outcome = await intruder.peer(kit.host, port, retry=0)
            assert not outcome
            assert isinstance(outcome.error, (PeerNotTrusted, PeerIncompatible, PeerUnavailable))
        assert "secret" in str(await stranger.peer(kit.host, port, retry=0))
        outcome = await member.peer(kit.host, world.ports[plain], retry=0)
        assert not outcome
        async with await trio.open_tcp_stream(kit.host, port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
        assert await friend.peer(kit.host, port, retry=0)
        assert [info.node_id for info in member.peers()] == [friend.node_id()]


async def test_plain_tcp_beyond_loopback_is_refused_unless_it_is_allowed_by_name(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        with pytest.raises(InsecureAddress, match="allow_plain"):
            await endpoint.listen("0.0.0.0")
        with pytest.raises(InsecureAddress, match="credentials"):
            await endpoint.peer("192.0.2.1", 4040, retry=0)
        bold = await world.add(allow_plain=True)
        assert await bold.listen("0.0.0.0")


@pytest.mark.parametrize("settings", [{}, {"allow_plain": True}], ids=["plain", "allowed"])
@pytest.mark.parametrize("host", ["no.such.host.invalid", "a b", "x" * 300])
async def test_a_host_that_does_not_exist_is_told_as_such(kit, host: str, settings) -> None:
    async with Endpoint(**settings) as endpoint:
        with pytest.raises(AddressInvalid, match="no such address"):
            await endpoint.listen(host)
        assert await endpoint.listen()


async def test_an_address_of_another_machine_is_told_as_such() -> None:
    async with Endpoint(allow_plain=True) as endpoint:
        with pytest.raises(AddressInvalid, match="an address of this machine"):
            await endpoint.listen("192.0.2.1")


async def test_a_host_with_its_port_is_told_that_these_are_two_arguments() -> None:
    async with Endpoint() as endpoint:
        with pytest.raises(AddressInvalid, match=r"listen\('127.0.0.1', 0\)"):
            await endpoint.listen("127.0.0.1:0")
