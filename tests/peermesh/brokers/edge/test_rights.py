"""Who asks an edge broker and its registry, and what each may do there."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from handshake.access import StoreOf
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import Endpoint, StatusCode
from peermesh.brokers.edge import (
    Bridged,
    Options,
    Publisher,
    RemoteRegistry,
    Subscriber,
    open_edge_broker,
)
from peermesh.brokers.edge.access import ENTER, PUBLISH, READ, STORE, SUBSCRIBE, WRITE, demand
from peermesh.brokers.edge.errors import RegistryDenied
from peermesh.brokers.edge.tree import BROKER, ROOT, receiver_path
from peermesh.testing.time_limits import limit
from tests.waiting import a_moment
from wire.errors import NotAllowed

SECRET = ClusterSecret(bytes(range(20)))
MESH = {
    "names": {"core-*": "core", "guest-*": "guest"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
        "guest": {"publish": ["open/"], "subscribe": ["open/"]},
    },
}
EDITABLE = """
[names]
anonymous = "all"
[roles.all]
publish = [{}]
subscribe = [{}]
"""


def called(name: str) -> Credentials:
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


class Place:
    """A broker of an endpoint with roles, and clients that have certificates."""

    def __init__(self, endpoint: Endpoint, address: tuple[str, int]) -> None:
        self.endpoint = endpoint
        self.address = address

    @asynccontextmanager
    async def clients(self, name: str):
        trust = {"credentials": called(name)}
        async with (
            RemoteRegistry([self.address], **trust) as registry,
            Publisher(registry, **trust) as publisher,
            Subscriber(registry, **trust) as subscriber,
        ):
            yield registry, publisher, subscriber


@asynccontextmanager
async def place(**options):
    with trio.fail_after(limit(60)):
        async with (
            Endpoint(credentials=called("core-1"), roles=MESH) as endpoint,
            open_edge_broker(endpoint, **options) as host,
        ):
            await host.broker.active()
            yield Place(endpoint, host.registry_address)


async def sent(publisher: Publisher, topic: str, value: object) -> None:
    """Send a message, and wait for what becomes of it."""
    await publisher.send(topic, value)
    await publisher.flush()


async def read_forever(registry: RemoteRegistry) -> None:
    while True:
        await registry.read(ROOT)


async def refusal_of(status) -> str:
    """Give the reason of the next event of a refusal."""
    async for event in status:
        if event.status is StatusCode.NOT_ALLOWED:
            return event.reason
    raise AssertionError


async def test_publishing_and_subscribing_ask_the_role_of_each_topic() -> None:
    async with place() as found, found.clients("core-2") as (_, mouth, ear):
        with found.endpoint.subscribe_status() as status:
            async with found.clients("guest-1") as (_, publisher, subscriber):
                await ear.subscribe("open/a")
                await ear.subscribe("closed/a")
                for number in range(3):
                    await publisher.send("open/a", number)
                    with pytest.raises(NotAllowed, match=r"guest-1.*publish on 'closed/a'"):
                        await sent(publisher, "closed/a", "refused")
                    assert await ear.get(limit()) == ("open/a", number)
                reason = await refusal_of(status)
                assert reason.startswith("'guest-1' (role guest) may not publish on 'closed/a'")

                reason = pytest.RaisesExc(NotAllowed, match=r"guest-1.*subscribe to 'closed/a'")
                refused = pytest.RaisesGroup(reason, reason)
                with refused:  # Each task that asks hears it.
                    async with trio.open_nursery() as nursery:
                        for _ in range(2):
                            nursery.start_soon(subscriber.subscribe, "closed/a")
                with pytest.raises(NotAllowed, match=r"guest-1.*subscribe to 'closed/a'"):
                    await subscriber.subscribe("closed/a")
                await subscriber.subscribe("open/a")
                await mouth.send("closed/a", "of the core")
                assert await ear.get(limit()) == ("closed/a", "of the core")
                await mouth.send("open/a", "of the core")
                assert await subscriber.get(limit()) == ("open/a", "of the core")


async def test_a_client_without_a_role_is_told_so(kit) -> None:
    async with place() as found, found.clients("other") as (registry, publisher, subscriber):
        with pytest.raises(RegistryDenied, match=r"other.*without a role"):
            await registry.read(ROOT)
        with pytest.raises(NotAllowed, match="without a role"):
            await subscriber.subscribe("open/a")
        with pytest.raises(NotAllowed, match="without a role"):
            await sent(publisher, "open/a", 1)
        # The broker's own ports say the same to those that did not ask the registry.
        async with found.clients("core-2") as (known, *_):
            async with Publisher(known, credentials=called("other")) as direct:
                with pytest.raises(NotAllowed, match="without a role"):
                    await sent(direct, "open/a", 1)
                await kit.until(lambda: "without a role" in (direct.last_error or ""))


async def test_the_registry_shows_and_takes_what_a_client_has_a_right_to() -> None:
    own = receiver_path("open/a") + "/" + "55" * 16
    async with place() as found:
        async with (
            found.clients("core-2") as (boss, mouth, _),
            found.clients("guest-1") as (guest, *_),
        ):
            await mouth.send("open/a", 1)
            while await boss.read(receiver_path("open/a")) is None:
                await a_moment()
            before = await boss.read(receiver_path("open/a"))
            for attempt in (
                lambda: guest.write(receiver_path("open/a"), "127.0.0.1:1"),
                lambda: guest.register(receiver_path("open/a"), "127.0.0.1:1"),
                lambda: guest.register(receiver_path("closed/a") + "/x", "127.0.0.1:1"),
                lambda: guest.register(BROKER, "127.0.0.1:1"),
                lambda: guest.claim(BROKER, "mine"),
                lambda: guest.remove(ROOT),
                lambda: guest.read(receiver_path("closed/a")),
                lambda: guest.children(ROOT),
            ):
                with pytest.raises(RegistryDenied, match="guest-1"):
                    await attempt()
            assert await guest.read(ROOT) == await boss.read(ROOT)
            assert await guest.read(receiver_path("open/a")) == before
            await guest.register(own, "127.0.0.1:1")
            assert await boss.read(own) == "127.0.0.1:1"


async def test_no_session_removes_a_node_of_another(kit) -> None:
    async with kit.world() as world, RemoteRegistry([world.host.registry_address]) as other:
        await world.registry.write("/topics/a/pub", "null")
        await world.registry.register("/topics/a/pub/x", "127.0.0.1:1")
        await other.register("/topics/a/pub/y", "127.0.0.1:2")
        other._mine["/topics/a/pub/x"] = "as if it were its own"
        await other.unregister("/topics/a/pub/x")
        await other.unregister("/topics/a/pub/y")
        assert await world.registry.children("/topics/a/pub") == ["x"]


@pytest.mark.parametrize(
    ("operation", "path", "wanted"),
    [
        ("read", ROOT, (ENTER, StoreOf(STORE))),
        ("watch", BROKER, (ENTER, StoreOf(STORE))),
        ("children", ROOT, (READ, StoreOf(STORE))),
        ("read", "/topics/a", (READ, StoreOf(STORE))),
        ("read", "/topics/a/else", (READ, StoreOf(STORE))),
        ("read", "/brokers/a/pub", (READ, StoreOf(STORE))),
        ("read", "/topics/a%2Fb/pub", (PUBLISH, "a/b")),
        ("watch", "/topics/a/sub", (SUBSCRIBE, "a")),
        ("children", "/topics/a/sub", (SUBSCRIBE, "a")),
        ("register", "/topics/a/sub/x", (SUBSCRIBE, "a")),
        ("register", "/topics/a/sub", (WRITE, StoreOf(STORE))),
        ("register", "/topics/a/sub/x/y", (WRITE, StoreOf(STORE))),
        ("write", "/topics/a/pub/x", (WRITE, StoreOf(STORE))),
        ("claim", BROKER, (WRITE, StoreOf(STORE))),
        ("remove", "/topics/a/pub/x", (WRITE, StoreOf(STORE))),
        ("unregister", "/topics/a/pub/x", (ENTER, StoreOf(STORE))),
        ("of a later version", "/topics/a/pub/x", (WRITE, StoreOf(STORE))),
    ],
)
def test_each_request_to_the_registry_has_its_right(operation, path, wanted) -> None:
    assert demand(operation, path) == wanted


async def test_a_right_that_is_withdrawn_ends_what_it_had_allowed(kit, tmp_path) -> None:
    file = tmp_path / "roles.toml"
    file.write_text(EDITABLE.format('""', '""'))
    with trio.fail_after(limit(60)):
        async with open_edge_broker(roles=file) as host:
            await host.broker.active()

            async def reload(text: str) -> None:
                """Change the roles: they are looked at for the next connection."""
                file.write_text(text)
                async with RemoteRegistry([host.registry_address]) as another:
                    await another.read(ROOT)

            async with (
                RemoteRegistry([host.registry_address]) as registry,
                Publisher(registry) as publisher,
                Subscriber(registry) as subscriber,
            ):
                await subscriber.subscribe("news")
                await subscriber.subscribe("other")
                await publisher.send("news", 1)
                assert await subscriber.get(limit()) == ("news", 1)
                await reload("[names")
                await publisher.send("news", 2)
                assert await subscriber.get(limit()) == ("news", 2)

                await reload(EDITABLE.format('""', '"other"'))
                with pytest.raises(NotAllowed, match=r"anonymous.*subscribe to 'news'"):
                    await subscriber.get(limit())
                await publisher.send("news", 3)
                await publisher.send("other", 1)
                assert await subscriber.get(limit()) == ("other", 1)

                await reload(EDITABLE.format('"news"', '""'))
                for number in range(2, 5):
                    await publisher.send("other", number)
                with pytest.raises(NotAllowed, match="publish on 'other'"):
                    await publisher.flush()
                await reload(EDITABLE.format('""', '""'))
                await publisher.flush()
                await publisher.send("other", 5)
                assert await subscriber.get(limit()) == ("other", 5)

                file.write_text("[roles]")
                async with RemoteRegistry([host.registry_address]) as another:
                    with pytest.raises(RegistryDenied):
                        await another.read(ROOT)
                with pytest.raises(NotAllowed, match="without a role"):
                    await subscriber.get(limit())
                with pytest.raises(RegistryDenied):
                    await read_forever(registry)


async def test_a_right_that_is_withdrawn_ends_its_watches(tmp_path) -> None:
    file = tmp_path / "roles.toml"
    file.write_text(EDITABLE.format('""', '""'))
    with trio.fail_after(limit(60)):
        async with open_edge_broker(roles=file) as host:
            await host.broker.active()
            async with (
                RemoteRegistry([host.registry_address]) as registry,
                trio.open_nursery() as nursery,
            ):
                news, other = (registry.watch(receiver_path(each)) for each in ("news", "other"))
                for _ in range(2):  # each begins with a change that may have been missed
                    await registry.read(ROOT)
                    await registry.read(ROOT)
                    for watch in (news, other):
                        await watch.wait()
                    news.push()
                    other.push()
                await news.wait()
                await other.wait()
                file.write_text(EDITABLE.format('"other"', ""))
                async with RemoteRegistry([host.registry_address]) as another:
                    await another.read(ROOT)
                told = trio.Event()

                async def follow() -> None:
                    await news.wait()
                    told.set()

                nursery.start_soon(follow)
                for topic in ("news", "other"):
                    await host.registry.write(receiver_path(topic), "127.0.0.1:1")
                await other.wait()
                await registry.read(ROOT)  # what is said of both comes before the answer
                assert not told.is_set()
                nursery.cancel_scope.cancel()


async def test_what_goes_to_the_mesh_goes_by_the_right_of_its_publisher() -> None:
    port = {
        "names": MESH["names"],
        "roles": {
            "core": {"publish": [""], "subscribe": [""]},
            "guest": {"publish": [""]},
        },
    }
    options = Options(bridged=Bridged(to_mesh=("",)))
    async with place(options=options, roles=port) as found:
        async with Endpoint(credentials=called("core-3"), roles=MESH) as far:
            await far.peer("127.0.0.1", await found.endpoint.listen())
            with far.subscribe("") as mesh, found.endpoint.subscribe_status() as status:
                await far.await_peer(found.endpoint.node_id(), timeout=limit())
                await found.endpoint.await_peer(far.node_id(), timeout=limit())
                async with (
                    found.clients("core-2") as (_, _, ear),
                    found.clients("guest-1") as (_, publisher, _),
                ):
                    await ear.subscribe("closed/a")
                    await publisher.send("closed/a", 1)
                    assert await ear.get(limit()) == ("closed/a", 1)
                    assert "'guest-1' (role guest) may not publish on 'closed/a' at the mesh" in (
                        await refusal_of(status)
                    )
                    await publisher.send("open/a", 2)
                    assert await mesh.get(limit()) == ("open/a", 2)
