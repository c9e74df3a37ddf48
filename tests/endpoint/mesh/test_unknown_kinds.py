"""Commands of a kind that this version does not know: passed on, or dropped, and no breach."""

from __future__ import annotations

from hypothesis import given, strategies as st

from endpoint.mesh.core import EndpointCore
from handshake.roles import NOTHING, Roles
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_header
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType
from wire.topics import store_name

LATER = "cities/<$>/data/of-a-later-version"
LEFT, HERE, RIGHT = (EndpointId(bytes([number]) * 6 + b"\x40" * 10) for number in (1, 2, 3))

kinds = st.from_regex(r"[a-z0-9-]{1,9}(/[a-z0-9-]{1,9}){0,2}", fullmatch=True)
names = st.text("abc/", min_size=1, max_size=8)


def in_the_middle(stores: tuple[str, ...] = ()) -> EndpointCore:
    """Give a core between two others, of which the right one hears these topics."""
    core = EndpointCore(HERE)
    for peer, wanted in ((LEFT, ()), (RIGHT, stores)):
        news = Announcement(peer, LamportTime(1), (HERE,), (), wanted, forwarding=True)
        core.connect(peer, VectorTime(), [news], None)
    return core


@given(names, kinds)
def test_a_command_of_any_kind_goes_to_its_receiver_or_to_those_who_announce_it(
    name: str, kind: str
) -> None:
    topic = f"{name}/<$>/{kind}"
    for receiver, stores, hops in (
        (RIGHT, (), (RIGHT,)),
        (HERE, (topic,), ()),
        (None, (topic,), (RIGHT,)),
        (None, (), ()),
    ):
        header = NodeHeader(PackedType.COMMAND, LEFT, receiver, topic)
        route = in_the_middle(stores).routing.route(LEFT, encode_header(header), LEFT)
        assert (route.next_hops, route.receivers, route.refusal) == (hops, (), "")


def test_of_a_sender_with_rights_it_is_passed_on_and_announcers_need_the_right_to_read() -> None:
    roles = Roles.parse(
        'default = "reader"\n[roles.reader]\nread = ["cities"]\n[roles.sensor]\npublish = [""]'
    )
    reader, sensor = roles.roles["reader"], roles.roles["sensor"]
    assert store_name(LATER) is None
    assert [role.may_command(LATER) for role in (reader, sensor, NOTHING)] == [True, True, False]
    assert [role.may_hear(LATER) for role in (reader, sensor, NOTHING)] == [True, False, False]


async def test_a_relay_passes_it_on_its_receiver_drops_it_and_all_links_stand(kit) -> None:
    async with kit.world() as world:
        left, middle, right = await world.grow(3, [(0, 1), (1, 2)])
        heard = right.subscribe("/t")
        await world.known()
        received = lambda: right.loop.peerings[middle.node_id()].connection.commands_received  # noqa: E731 - it is asked again and again
        for receiver in (right.node_id(), middle.node_id()):
            left.loop.send_command(LATER, receiver, b"whatever it means")
        await kit.until(received)
        await left.publish("/t", "after it")
        assert await heard.get() == ("/t", "after it")
        assert len(middle.peers()) == 2


async def test_whoever_announces_to_hear_it_is_known_and_gets_it(kit) -> None:
    async with kit.world() as world:
        left, _, right = await world.grow(3, [(0, 1), (1, 2)])
        right.loop.apply(right.loop.core.attach_store(LATER, object()))
        await world.known()
        assert left.loop.core.topology.announcements[right.node_id()].stores == (LATER,)
