"""Who a peer is by its certificate, and what becomes of connections when credentials change."""

from __future__ import annotations

from endpoint import StatusCode
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret


async def test_both_sides_learn_what_the_other_s_certificate_calls_it(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        left = await world.add(credentials=Credentials.from_secret(secret, "left"))
        right = await world.add(credentials=Credentials.from_secret(secret, "right"))
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
