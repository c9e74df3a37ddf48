"""What a core believes of names and leaders that a relay passes on, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import EmitStatus
from endpoint.mesh.memory import UNREACHABLE_GRACE_SECONDS
from endpoint.mesh.proving import Proving
from endpoint.mesh.status import StatusCode
from handshake.roles import Roles
from handshake.signing import Signer
from tests.endpoint.test_roles import core, unknowing
from tests.handshake.test_signing import NOW, now_ns, short_lived
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_header
from wire.errors import MasterExists
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType
from wire.topics import store_topics

HERE, RELAY, FAR, FARTHER = (EndpointId(bytes([n]) * 6 + b"\x40" * 10) for n in range(1, 5))
ROLES = Roles.parse(
    """
[names]
"core-*" = "core"
"guest-*" = "guest"
[roles.core]
relay = true
publish = [""]
subscribe = [""]
lead = ["*"]
[roles.guest]
read = ["*"]
"""
)
MASTER, _ = store_topics("accounts")


def news(
    origin: EndpointId, name: str, time: int = 1, *, links=(RELAY,), stores=()
) -> Announcement:
    return Announcement(
        origin, LamportTime(time), tuple(sorted(links)), (), stores, forwarding=True, name=name
    )


def behind_a_relay(*others: Announcement) -> EndpointCore:
    """Give a core with roles, whose one peer is a relay that passes on what others announce."""
    here = EndpointCore(HERE, authorisation=Authorisation(ROLES, "core-1"))
    links = (HERE, *(each.origin for each in others))
    said = [news(RELAY, "core-2", links=links), *others]
    here.connect(RELAY, VectorTime(), said, None, "core-2")
    return here


def test_a_relay_cannot_give_an_endpoint_another_name() -> None:
    here = behind_a_relay(news(FAR, "guest-1"))
    assert not here.permissions.rights(FAR, "accounts").lead
    here.receive_announcements(RELAY, [news(FAR, "core-9", 2)])
    assert here.topology.announcements[FAR].name == "guest-1"
    assert not here.permissions.rights(FAR, "accounts").lead, "an id belongs to one name"
    ((sender, reason, _),) = here.authorisation.refusals.take()
    assert sender == FAR
    assert "called 'guest-1', and somebody says 'core-9'" in reason
    here.receive_announcements(RELAY, [news(FAR, "guest-1", 3)])
    assert here.topology.announcements[FAR].time == 3, "its own word still counts"


@pytest.mark.parametrize("impostor_first", [True, False])
def test_a_store_is_found_where_it_may_be_led_alone(impostor_first) -> None:
    ids = (FAR, FARTHER) if impostor_first else (FARTHER, FAR)
    impostor = news(ids[0], "guest-1", stores=(MASTER,))
    assert behind_a_relay(impostor).reach.find_store(MASTER) is None
    both = behind_a_relay(impostor, news(ids[1], "core-3", stores=(MASTER,)))
    assert both.reach.find_store(MASTER) == ids[1]


async def test_who_may_not_lead_keeps_no_leader_from_leading(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world), await core(world, "core-2")
        impostor = await unknowing(world, "guest-1")
        await world.peer(first, second)
        await world.peer(impostor, first)
        async with impostor.attach_master("readings"):
            await world.known()
            async with second.attach_master("readings") as store:
                assert store.is_master()
                await world.known()
                with pytest.raises(MasterExists):
                    await first.attach_master("readings")


def unreachable(effects: list) -> bool:
    events = [each.event for each in effects if isinstance(each, EmitStatus)]
    return any(event.status is StatusCode.ENDPOINT_UNREACHABLE for event in events)


def test_each_absence_of_an_endpoint_has_a_grace_time_of_its_own() -> None:
    here = behind_a_relay(news(FAR, "core-3"))
    gone, back = (
        news(RELAY, "core-2", 2, links=(HERE,)),
        news(RELAY, "core-2", 3, links=(HERE, FAR)),
    )
    assert unreachable(here.receive_announcements(RELAY, [gone]))
    here.tick(0)
    here.receive_announcements(RELAY, [back])
    here.tick(1)
    here.receive_announcements(RELAY, [replace(gone, time=LamportTime(4))])
    for seconds in (UNREACHABLE_GRACE_SECONDS - 1, 2 * UNREACHABLE_GRACE_SECONDS - 2):
        here.tick(seconds)
        assert FAR in here.topology.announcements
    # Back and gone again between two looks is an absence of its own, too.
    here.receive_announcements(RELAY, [replace(back, time=LamportTime(5))])
    here.receive_announcements(RELAY, [replace(gone, time=LamportTime(6))])
    here.tick(2 * UNREACHABLE_GRACE_SECONDS)
    assert FAR in here.topology.announcements
    here.tick(4 * UNREACHABLE_GRACE_SECONDS)
    assert FAR not in here.topology.announcements


def test_an_endpoint_that_signs_is_believed_until_its_certificate_ends() -> None:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key, root_key = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    first = replace(short_lived(key, root_key, days=30, root_days=900), name="left")
    signer, now = Signer(b"s" * 32, first), [now_ns()]
    proof = Proving(first, lambda: now[0], None)
    here = EndpointCore(HERE, proof=proof)
    far = signer.endpoint_id

    def said(time: int) -> Announcement:
        return signer.seal(news(far, "left", time))

    relay = news(RELAY, None, links=(HERE, far))
    here.connect(RELAY, VectorTime(), [relay, said(1)], None)
    header = encode_header(NodeHeader(PackedType.DATA, far, None, "/t"))
    assert here.reach.includes(far)
    assert not here.tick(0)
    now[0] = now_ns(NOW) + 31 * 86_400 * 10**9
    assert unreachable(here.tick(1))
    assert not here.reach.includes(far)
    assert here.routing.route(far, header).window.admit_range(1, 1) == 0, "nothing more is taken"
    here.receive_announcements(RELAY, [said(2)])
    assert not here.reach.includes(far)
    assert here.forgeries.total == 1
    signer.endorse(short_lived(key, root_key, days=90, root_days=900))
    here.receive_announcements(RELAY, [said(3)])
    assert here.reach.includes(far)
    assert here.routing.route(far, header).window.admit_range(2, 1) is None
