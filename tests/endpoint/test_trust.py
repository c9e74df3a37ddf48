"""Who a peer is by its certificate, who is refused, and what becomes of it when files change."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.serialization import Encoding

from endpoint import Endpoint, StatusCode
from handshake.credentials import Credentials
from handshake.issuing import AUTHORITY, Issued, OwnAuthority
from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from net import network
from wire.errors import AddressInUse, CredentialsError, ErrorCode, MeshError

TLS_ALERT = b"\x15"
"""The first byte of a record that says what is wrong."""

DAY = timedelta(days=1)
TODAY = (-1, 1)
EXPIRED = (-3, -1)
TOMORROW = (1, 3)


def days(span: tuple[int, int]) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now + span[0] * DAY, now + span[1] * DAY


def pem(issued: Issued) -> bytes:
    return issued.certificate.public_bytes(Encoding.PEM)


def issue(authority: OwnAuthority, name: str, valid: tuple[int, int] = TODAY) -> Credentials:
    """Make credentials that nobody has checked: an expired one passes here."""
    issued = authority.issue(name, days(valid))
    return Credentials(pem(issued), issued.key, pem(authority.own).decode(), name)


@pytest.fixture
def authority() -> OwnAuthority:
    return OwnAuthority.create("ours", days((-4, 4)))


async def test_both_sides_learn_what_the_other_s_certificate_calls_it(kit, authority) -> None:
    async with kit.world() as world:
        left = await world.add(credentials=issue(authority, "left"))
        right = await world.add(credentials=issue(authority, "right"))
        statuses = [each.subscribe_status() for each in (left, right)]
        await world.peer(left, right)
        names = [each.peers()[0].certificate_name for each in (left, right)]
        assert names == ["right", "left"]
        told = [await kit.events_until(each, StatusCode.PEER_ADDED) for each in statuses]
        assert [events[-1].certificate_name for events in told] == ["right", "left"]


async def test_without_tls_nobody_has_a_name(kit) -> None:
    async with kit.world() as world:
        left, _ = await world.grow(2, [(0, 1)])
        assert [peer.certificate_name for peer in left.peers()] == [None]


async def test_one_string_is_all_that_a_mesh_needs(kit, monkeypatch) -> None:
    text = ClusterSecret.generate().text()
    async with kit.world() as world:
        first = await world.add(secret=text)
        monkeypatch.setenv("PEERMESH_SECRET", text)
        second = await world.add()
        await world.peer(first, second)
        assert await first.listen("0.0.0.0")


# Refusals, at each of two ends.

REFUSALS = {
    "plain meets TLS": (None, "ours", "TLS"),
    "TLS meets plain": ("ours", None, "plain TCP"),
    "a wrong secret meets ours": ("wrong", "secret", "same cluster secret"),
    "ours meets a wrong secret": ("secret", "wrong", "same cluster secret"),
    "another authority's meets ours": ("theirs", "ours", "same authority"),
    "ours meets another authority's": ("ours", "theirs", "same authority"),
    "expired meets ours": ("expired", "ours", "has expired"),
    "ours meets expired": ("ours", "expired", "has expired"),
    "not yet valid meets ours": ("early", "ours", "does not accept our certificate"),
    "ours meets not yet valid": ("ours", "early", "not yet valid"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_who_does_not_belong_is_refused_and_both_sides_are_told_why(
    kit, authority, case
) -> None:
    dials, accepts, words = REFUSALS[case]
    secret = ClusterSecret.generate()
    credentials = {
        None: None,
        "ours": issue(authority, "ours"),
        "theirs": issue(OwnAuthority.create("theirs", days(TODAY)), "theirs"),
        "expired": issue(authority, "late", EXPIRED),
        "early": issue(authority, "early", TOMORROW),
        "secret": Credentials.from_secret(secret),
        "wrong": Credentials.from_secret(ClusterSecret.generate()),
    }
    async with kit.world() as world:
        dialler = await world.add(credentials=credentials[dials])
        acceptor = await world.add(credentials=credentials[accepts])
        heard = [each.subscribe_status() for each in (dialler, acceptor)]
        outcome = await dialler.peer(kit.host, world.ports[acceptor], retry=0)
        assert not outcome
        assert words in str(outcome)
        for status in heard:
            (event,) = await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
            assert len(event.reason.split()) > 3
            assert event.endpoint is None
        for endpoint in (dialler, acceptor):
            assert endpoint.peers() == []
            await kit.until(lambda here=endpoint: len(here.loop.greeter) == 0)


@asynccontextmanager
async def fortress(kit, authority) -> AsyncIterator[tuple[Endpoint, Endpoint, int]]:
    """A mesh of two with something to hide."""
    async with kit.world() as world:
        hub = await world.add(credentials=issue(authority, "hub"))
        friend = await world.add(credentials=issue(authority, "friend"))
        hub.subscribe("/confidential/topic")
        await world.peer(friend, hub)
        yield hub, friend, world.ports[hub]
        assert [peer.node_id for peer in hub.peers()] == [friend.node_id()]


def assert_reveals_nothing(seen: bytes, *endpoints: Endpoint) -> None:
    for endpoint in endpoints:
        assert bytes(endpoint.node_id()) not in seen
        assert str(endpoint.node_id()).encode() not in seen
    assert b"confidential" not in seen
    assert b"friend" not in seen


def stranger_context(credentials: Credentials | None = None) -> ssl.SSLContext:
    """A dialler that takes everybody, to see as much as it can."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if credentials is not None:
        context = credentials.client_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def see_all(stream: trio.abc.Stream) -> bytes:
    """Read to the end, however the other side ends it."""
    seen = b""
    try:
        while chunk := await stream.receive_some(65_536):
            seen += chunk
    except trio.BrokenResourceError:
        pass
    return seen


@pytest.mark.parametrize("who", ["nobody", "another authority's", "expired", "not yet valid"])
async def test_a_refused_dialler_sees_a_certificate_and_nothing_of_the_mesh(
    kit, authority, who
) -> None:
    credentials = {
        "nobody": None,
        "another authority's": issue(OwnAuthority.create("theirs", days(TODAY)), "theirs"),
        "expired": issue(authority, "late", EXPIRED),
        "not yet valid": issue(authority, "early", TOMORROW),
    }[who]
    async with fortress(kit, authority) as (hub, friend, port):
        status = hub.subscribe_status()
        bare = await trio.open_tcp_stream(kit.host, port)
        async with bare:
            secure = trio.SSLStream(bare, stranger_context(credentials))
            await secure.do_handshake()
            certificate = secure.getpeercert(binary_form=True)
            seen = await see_all(secure)
        assert seen == b""
        assert_reveals_nothing(certificate, hub, friend)
        (event,) = await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
        assert event.code is ErrorCode.NOT_AUTHORIZED


async def test_tls_1_2_is_refused_and_reveals_nothing(kit, authority) -> None:
    async with fortress(kit, authority) as (hub, _, port):
        status = hub.subscribe_status()
        context = stranger_context(issue(authority, "old"))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        bare = await trio.open_tcp_stream(kit.host, port)
        async with bare:
            with pytest.raises(trio.BrokenResourceError) as caught:
                await trio.SSLStream(bare, context).do_handshake()
        assert "PROTOCOL_VERSION" in str(caught.value.__cause__)
        (event,) = await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
        assert "TLS 1.3" in event.reason


async def test_plain_bytes_at_a_tls_port_are_answered_with_an_alert_at_most(kit, authority) -> None:
    async with fortress(kit, authority) as (hub, _, port):
        for said in (
            b"PMSH\x00\x02\x00\x02",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff\xff",
        ):
            status = hub.subscribe_status()
            async with await trio.open_tcp_stream(kit.host, port) as bare:
                await bare.send_all(said)
                await bare.send_eof()
                seen = await see_all(bare)
            assert seen[:1] in (b"", TLS_ALERT)
            assert len(seen) < 16
            await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)


class Tap:
    """Lies between a dialler and a listener, and keeps what the dialler says."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.said = b""

    async def serve(self, near: trio.SocketStream) -> None:
        async with near, await trio.open_tcp_stream(*self._target) as far:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, far, near, False, nursery.cancel_scope)
                await self._carry(near, far, True, nursery.cancel_scope)

    async def _carry(self, source, sink, listens, scope) -> None:
        try:
            while chunk := await source.receive_some(65_536):
                if listens:
                    self.said += chunk
                await sink.send_all(chunk)
        except trio.BrokenResourceError:
            pass
        scope.cancel()


async def test_a_replayed_handshake_gets_nobody_in(kit, authority) -> None:
    async with fortress(kit, authority) as (hub, friend, port), trio.open_nursery() as nursery:
        tap = Tap((kit.host, port))
        (listener,) = await trio.open_tcp_listeners(0, host=kit.host)
        nursery.start_soon(trio.serve_listeners, tap.serve, [listener])
        async with Endpoint(credentials=issue(authority, "victim")) as victim:
            tapped = listener.socket.getsockname()[1]
            assert await victim.peer(kit.host, tapped, retry=0)
            await kit.until(lambda: len(hub.peers()) == 2)
        await kit.until(lambda: len(hub.peers()) == 1)
        nursery.cancel_scope.cancel()
        status = hub.subscribe_status()
        recorded = tap.said
        assert len(recorded) > 500
        async with await trio.open_tcp_stream(kit.host, port) as bare:
            await bare.send_all(recorded)
            seen = await see_all(bare)
        assert_reveals_nothing(seen, hub, friend)
        (event,) = await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
        assert event.reason.startswith("TLS failed")


@pytest.mark.parametrize("said", [b"", b"\x16"], ids=["nothing", "one byte"])
async def test_a_dialler_that_takes_its_time_is_cut_off_by_the_handshake_timeout(
    kit, authority, monkeypatch, said
) -> None:
    monkeypatch.setattr(network, "TLS_TIMEOUT_SECONDS", 0.2)
    async with kit.world() as world:
        hub = await world.add(credentials=issue(authority, "hub"))
        status = hub.subscribe_status()
        async with await trio.open_tcp_stream(kit.host, world.ports[hub]) as bare:
            await bare.send_all(said)
            assert await see_all(bare) == b""
            (event,) = await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
            assert "took longer than 0.2 s" in event.reason


# Files that change.


class Folder:
    """Certificate files that are rotated while endpoints use them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, file: str, data: bytes) -> None:
        fresh = self.path / f"{file}.fresh"
        fresh.write_bytes(data)
        os.replace(fresh, self.path / file)

    def settings(self, name: str) -> dict[str, Path]:
        certificate, key = self.path / f"{name}.pem", self.path / f"{name}.key"
        return {"certificate": certificate, "key": key, "authority": self.path / "authority.pem"}

    def issue(self, authority: OwnAuthority, name: str, valid: tuple[int, int] = TODAY) -> None:
        authority.issue(name, days(valid)).save(self.path, name, replaces=True)


@pytest.fixture
def folder(tmp_path: Path, authority: OwnAuthority) -> Folder:
    found = Folder(tmp_path)
    authority.own.save(tmp_path, AUTHORITY)
    return found


async def test_all_files_are_rotated_authority_included_without_a_restart(
    kit, folder, authority
) -> None:
    folder.issue(authority, "left")
    folder.issue(authority, "right")
    successor = OwnAuthority.create("successor", days(TODAY))
    async with kit.world() as world:
        left = await world.add(**folder.settings("left"))
        right = await world.add(**folder.settings("right"))
        status = left.subscribe_status()
        await world.peer(left, right)
        # First both authorities are trusted, then certificates change, then the old one goes.
        folder.put("authority.pem", pem(authority.own) + pem(successor.own))
        async with Endpoint(**folder.settings("left")) as other:
            assert await other.peer(kit.host, world.ports[left], retry=0)
        await kit.events_until(status, StatusCode.CREDENTIALS_RELOADED)
        folder.issue(successor, "left")
        folder.issue(successor, "right")
        folder.put("authority.pem", pem(successor.own))
        async with Endpoint(credentials=issue(authority, "of yesterday")) as late:
            assert not await late.peer(kit.host, world.ports[left], retry=0)
        async with Endpoint(credentials=issue(successor, "of today")) as early:
            assert await early.peer(kit.host, world.ports[left], retry=0)
            assert await right.unpeer(kit.host, left.peers()[0].address[1]) is not None
        # What stood before the rotation still stands.
        assert right.node_id() in {peer.node_id for peer in left.peers()}


async def test_an_expired_certificate_is_replaced_without_a_restart(kit, folder, authority) -> None:
    folder.issue(authority, "left")
    folder.issue(authority, "right")
    valid = Credentials.from_files(**folder.settings("left"))
    late = issue(authority, "left", EXPIRED)
    async with kit.world() as world:
        left = await world.add(credentials=replace(valid, chain=late.chain, key=late.key))
        right = await world.add(**folder.settings("right"))
        assert "has expired" in str(await left.peer(kit.host, world.ports[right], retry=0))
        folder.issue(authority, "left")
        assert await left.peer(kit.host, world.ports[right], retry=0)


async def test_broken_new_files_are_told_and_the_old_ones_stay(kit, folder, authority) -> None:
    folder.issue(authority, "left")
    folder.issue(authority, "right")
    async with kit.world() as world:
        left = await world.add(**folder.settings("left"))
        right = await world.add(**folder.settings("right"))
        status = left.subscribe_status()
        folder.put("left.pem", b"not a certificate\n")
        await world.peer(left, right)
        (event,) = await kit.events_until(status, StatusCode.CREDENTIALS_REFUSED)
        assert event.is_error
        assert "the old ones stay" in event.reason
        assert "left.pem" in event.reason


async def test_a_certificate_that_no_announcement_has_room_for_is_told(
    kit, folder, authority, monkeypatch
) -> None:
    monkeypatch.setattr(network, "REFRESH_SECONDS", 0.01)
    hosts = [f"host-{number}.example" for number in range(500)]
    large = authority.issue("left", days(TODAY), hosts)
    folder.issue(authority, "left")
    async with kit.world() as world:
        left = await world.add(**folder.settings("left"), sign=True)
        status = left.subscribe_status()
        large.save(folder.path, "left", replaces=True)
        reason = ""
        while "with fewer names, or do not sign" not in reason:  # the key is there before
            reason = (await kit.events_until(status, StatusCode.CREDENTIALS_REFUSED))[-1].reason
    with pytest.raises(CredentialsError, match="with fewer names, or do not sign"):
        Endpoint(**folder.settings("left"), sign=True)
    Endpoint(**folder.settings("left"))


async def test_changed_files_are_noticed_while_nobody_connects(
    kit, folder, authority, monkeypatch
) -> None:
    monkeypatch.setattr(network, "REFRESH_SECONDS", 0.01)
    folder.issue(authority, "left")
    async with kit.world() as world:
        left = await world.add(**folder.settings("left"))
        status = left.subscribe_status()
        folder.issue(authority, "left")
        await kit.events_until(status, StatusCode.CREDENTIALS_RELOADED)


def test_files_that_cannot_be_used_at_the_start_are_an_error(folder) -> None:
    with pytest.raises(MeshError, match="cannot read the certificate file"):
        Endpoint(**folder.settings("missing"))


# Join tickets.


async def test_a_ticket_lets_an_endpoint_in_that_has_nothing_else(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        hub = await world.add(secret=secret)
        ticket = JoinTicket(kit.host, world.ports[hub], secret).text()
        async with Endpoint() as guest, Endpoint(secret=secret) as member:
            for endpoint in (guest, member):
                assert await endpoint.peer(ticket, retry=0)
            assert await guest.unpeer(kit.host, world.ports[hub])


async def test_a_ticket_is_taken_after_a_port_that_was_in_use(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        hub = await world.add(secret=secret)
        ticket = JoinTicket(kit.host, world.ports[hub], secret).text()
        async with Endpoint() as endpoint:
            with pytest.raises(AddressInUse):
                await endpoint.listen(kit.host, world.ports[hub])
            assert await endpoint.peer(ticket, retry=0)


async def test_a_ticket_of_another_mesh_or_too_late_is_refused(kit) -> None:
    ticket = JoinTicket(kit.host, 1, ClusterSecret.generate()).text()
    async with kit.world() as world:
        late = await world.add()
        async with Endpoint(secret=ClusterSecret.generate()) as other:
            for endpoint in (late, other):
                with pytest.raises(CredentialsError, match="of another mesh") as caught:
                    await endpoint.peer(ticket)
                assert "peermesh-secret" not in str(caught.value)


async def test_an_address_without_a_port_is_no_ticket() -> None:
    async with Endpoint() as endpoint:
        with pytest.raises(CredentialsError, match="no join ticket"):
            await endpoint.peer("127.0.0.1")
