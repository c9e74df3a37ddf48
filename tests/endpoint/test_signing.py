"""Signing against relays that forge, change, repeat and strip: only what was said arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import trio

from endpoint import Endpoint, StatusCode
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from handshake.signing import Signer
from peermesh.testing.relay import Passing, TwistingRelay
from peermesh.testing.time_limits import limit
from wire.clocks import LamportTime
from wire.errors import SettingsError
from wire.identifiers import EndpointId
from wire.messages import Announcement, Announcements, NodeHeader, PackedType

SECRET = ClusterSecret.generate()


def called(name: str) -> Credentials:
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


async def line(kit, world, twist=None) -> tuple[Endpoint, TwistingRelay, Endpoint]:
    """Start a publisher and a subscriber who sign, and a relay between them."""
    left, right = await world.add(sign=True), await world.add(sign=True)
    relay = await world.adopt(TwistingRelay(twist))
    await world.peer(left, relay)
    await world.peer(relay, right)
    return left, relay, right


async def test_everything_true_arrives_in_order_over_a_relay(kit) -> None:
    async with kit.world() as world:
        left, _, right = await line(kit, world)
        heard = right.subscribe("/")
        await world.known()
        said = [(f"/{number % 3}", number) for number in range(3_000)]
        said += [("/bytes", b"b"), ("/large", b"x" * 300_000), ("/text", "t")]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.publish_batch, said)
            assert await kit.gather(heard, len(said)) == said
        await left.publish("/alone", 1, to=right.node_id())
        assert await heard.get() == ("/alone", 1)
        assert right.statistics().messages_forged == 0


async def test_unsigned_and_signing_endpoints_hear_each_other(kit) -> None:
    async with kit.world() as world:
        signs, plain = await world.add(sign=True), await world.add()
        assert (signs.node_id().is_signing, plain.node_id().is_signing) == (True, False)
        heard = [signs.subscribe("/"), plain.subscribe("/")]
        await world.peer(signs, plain)
        await signs.publish("/signed", 1)
        await plain.publish("/plain", 2)
        assert [await each.get() for each in heard] == [("/plain", 2), ("/signed", 1)]


def altered(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, payloads=[b"forged", *frame.payloads[1:]])


def stripped(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, signature=None)


def shortened(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, payloads=[*frame.payloads[1:], b"one more"])


def renumbered(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, first=frame.first + 1_000_000)


def moved(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, header=replace(frame.header, topic="/t/elsewhere"))


def retyped(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, header=replace(frame.header, type=PackedType.DATA))


def unsigned(frame: Passing) -> Iterator[Passing]:
    yield replace(frame, payloads=[b"forged"], signature=None, first=frame.first + 7)


def signed_by_somebody(frame: Passing) -> Iterator[Passing]:
    other = Signer(bytes(32), None)
    yield replace(frame, payloads=[b"forged"], signature=other.sign([b"forged"]), first=1 << 63)


TWISTS = (altered, stripped, shortened, renumbered, moved, retyped, unsigned, signed_by_somebody)


@pytest.mark.parametrize("twist", TWISTS, ids=lambda twist: twist.__name__)
async def test_nothing_forged_is_delivered_and_everything_true_is(kit, twist) -> None:
    def meddle(frame: Passing) -> Iterator[Passing]:
        if frame.payloads[0].startswith(b"target"):
            yield from twist(frame)  # instead of the true one, which is lost
        else:
            yield from twist(frame)
            yield frame
            yield frame

    async with kit.world() as world:
        left, relay, right = await line(kit, world, meddle)
        heard, status = right.subscribe("/t"), right.subscribe_status()
        await world.known()
        for number in range(5):
            for topic, payload in (("/t", b"target %d"), ("/t/a", b"true %d")):
                await left.publish(topic, payload % number)
                left.loop.publication.cut()  # What is published together shares a signature.
        got = await kit.gather(heard, 5)
        assert got == [("/t/a", b"true %d" % number) for number in range(5)]
        await kit.until(lambda: right.statistics().messages_forged >= 10)
        assert not heard.available()
        *_, event = await kit.events_until(status, StatusCode.FORGERY_DROPPED)
        assert event.endpoint == left.node_id()
        assert str(relay.node_id()) in event.reason


async def test_what_is_repeated_or_comes_late_is_delivered_once(kit) -> None:
    kept: list[Passing] = []

    def repeat(frame: Passing) -> Iterator[Passing]:
        kept.append(frame)
        yield frame
        yield from kept[-5:]
        yield kept[0]

    async with kit.world() as world:
        left, _, right = await line(kit, world, repeat)
        heard = right.subscribe("/t")
        await world.known()
        for number in range(50):
            await left.publish(f"/t/{number}", number)
            left.loop.publication.cut()
        got = await kit.gather(heard, 50)
        assert [value for _, value in got] == list(range(50))
        await kit.until(lambda: right.statistics().messages_duplicate >= 100)
        assert right.statistics().messages_forged == 0


async def test_a_forged_sequence_number_does_not_keep_the_true_message_out(kit) -> None:
    """A relay beside the path says first what comes next; it must not count as seen."""
    async with kit.world() as world:
        left, relay, right = await line(kit, world)
        await world.peer(left, right)
        heard = right.subscribe("/t")
        await world.known()
        await left.publish("/t", b"first")
        await heard.get()
        begun = left.loop.publication._journal.sequence
        header = NodeHeader(PackedType.BYTES, left.node_id(), None, "/t")
        for sequence in range(begun, begun + 5):
            relay.say(right.node_id(), Passing(header, 9, sequence, [b"forged"], bytes(64)))
        await kit.until(lambda: right.statistics().messages_forged == 5)
        for number in range(5):
            await left.publish("/t", b"true %d" % number)
        assert await kit.gather(heard, 5) == [("/t", b"true %d" % each) for each in range(5)]


def known_at(here: Endpoint, there: Endpoint) -> Announcement:
    return here.loop.core.topology.announcements[there.node_id()]


def news_of(endpoint: Endpoint) -> Announcement:
    return known_at(endpoint, endpoint)


FALSE_NEWS: dict[str, Callable[[Announcement], Announcement]] = {
    "without its seal": lambda news: replace(news, seal=None),
    "another key": lambda news: Signer(b"k" * 32, None).seal(replace(news, seal=None)),
    "other wishes": lambda news: replace(news, subscriptions=("/forged",)),
    "no links": lambda news: replace(news, links=()),
    "a name": lambda news: replace(news, name="core-1"),
}


@pytest.mark.parametrize("change", FALSE_NEWS.values(), ids=FALSE_NEWS)
async def test_nobody_announces_a_false_key_or_anything_else_for_who_signs(kit, change) -> None:
    async with kit.world() as world:
        left, relay, right = await line(kit, world)
        await world.known()
        status, true = right.subscribe_status(), news_of(left)
        lie = change(replace(true, time=LamportTime(true.time + 1_000)))
        relay.loop.peerings[right.node_id()].connection.say(Announcements((lie,)), lie.origin)
        *_, event = await kit.events_until(status, StatusCode.FORGERY_DROPPED)
        assert event.endpoint == left.node_id()
        assert known_at(right, left) == true
        heard = right.subscribe("/t")
        await kit.until(lambda: known_at(left, right).subscriptions == ("/t",))
        await left.publish("/t", 1)
        assert await heard.get() == ("/t", 1)


async def test_a_lie_about_ourselves_does_not_move_our_clock(kit) -> None:
    async with kit.world() as world:
        left, relay, _ = await line(kit, world)
        await world.known()
        lie = replace(news_of(left), time=LamportTime(2**61))
        relay.loop.peerings[left.node_id()].connection.say(Announcements((lie,)), lie.origin)
        left.subscribe("/more")
        await kit.until(lambda: known_at(relay, left).subscriptions == ("/more",))
        assert news_of(left).time < 2**61


async def test_stores_agree_over_a_relay_that_changes_every_third_command(kit) -> None:
    count = 0

    def meddle(frame: Passing) -> Iterator[Passing]:
        nonlocal count
        count += 1
        if frame.header.type is PackedType.COMMAND and count % 3 == 0:
            body = bytearray(frame.payloads[0])
            body[len(body) // 2] ^= 1
            yield replace(frame, payloads=[bytes(body), *frame.payloads[1:]])
        yield frame

    async with kit.world() as world:
        left, _, right = await line(kit, world, meddle)
        async with left.attach_master("s") as master, right.attach_clone("s") as clone:
            receipts = [await clone.put(f"k{number}", number) for number in range(30)]
            receipts += [await master.put(f"m{number}", number) for number in range(30)]
            for receipt in receipts:
                await receipt.applied()
            await clone.await_idle(timeout=limit())
            found = {key: await clone.get(key) for key in await clone.keys()}
            wanted = {f"{kind}{number}": number for kind in "km" for number in range(30)}
            assert found == wanted
        forged = [each.statistics().messages_forged for each in (left, right)]
        assert min(forged) > 0


# Names, with certificates.

ROLES = {
    "names": {"core-*": "core", "sensor-*": "sensor"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
        "sensor": {"publish": ["/sensors/"]},
    },
}


async def test_who_signs_is_known_by_its_certificate_over_any_relay(kit) -> None:
    async with kit.world() as world:
        hub = await world.add(credentials=called("core-1"), roles=ROLES, sign=True)
        relay = await world.adopt(TwistingRelay(None, credentials=called("core-2"), roles=ROLES))
        far = await world.add(credentials=called("core-3"), roles=ROLES, sign=True)
        await world.peer(hub, relay)
        await world.peer(relay, far)
        heard, status = hub.subscribe("/"), hub.subscribe_status()
        await world.known()
        made_up = EndpointId(b"u" * 16)
        news = Announcement(made_up, LamportTime(1), (relay.node_id(),), (), (), True, "core-9")
        connection = relay.loop.peerings[hub.node_id()].connection
        connection.say(Announcements((news,)), news.origin)
        header = NodeHeader(PackedType.BYTES, made_up, None, "/orders")
        relay.say(hub.node_id(), Passing(header, 9, 1, [b"fire"]))
        *_, event = await kit.events_until(status, StatusCode.NOT_ALLOWED)
        assert event.endpoint == made_up
        await far.publish("/orders", b"cease")
        assert await heard.get() == ("/orders", b"cease")


async def test_the_id_of_who_signs_cannot_be_chosen(kit) -> None:
    with pytest.raises(SettingsError, match="made from its key"):
        Endpoint(sign=True, endpoint_id=kit.small_id)
    with pytest.raises(SettingsError, match="give an id that is no UUID of version 8"):
        Endpoint(endpoint_id=EndpointId(b"\x80" * 16))
