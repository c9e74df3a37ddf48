"""What becomes of each message of a frame: told message by message, and compared with a plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, strategies as st

from endpoint.mesh import routing
from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.routes import Plan
from handshake.roles import Roles
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_header
from wire.errors import DecodeError, ErrorCode
from wire.framing import FRONT, NodeFrame, encode_node
from wire.identifiers import EndpointId
from wire.limits import KIB, MIB
from wire.messages import Announcement, NodeHeader, PackedType, Seal

HERE, LEFT, RIGHT, THIRD, FAR = (EndpointId(bytes([n]) * 6 + b"\x40" * 10) for n in range(1, 6))
SIGNING = EndpointId(b"\x09" * 6 + b"\x80" * 10)
STRANGER = EndpointId(b"\x0a" * 6 + b"\x40" * 10)
TOPICS = ("/a", "/ab", "/b", "/c")
ROLES = {"relay": True, "subscribe": [""], "publish": ["/a", "/b"]}


def roles() -> Roles:
    names = dict.fromkeys(("here", "left", "right", "third"), "member")
    return Roles.of({"names": names, "roles": {"member": ROLES}})


def says(
    origin: EndpointId, topics: tuple[str, ...], name: str | None, *links: EndpointId
) -> Announcement:
    return Announcement(origin, LamportTime(1), tuple(sorted(links)), topics, (), True, name)


def mesh(
    right: tuple[str, ...] = (), third: tuple[str, ...] = (), *, has_roles: bool = False
) -> EndpointCore:
    """Give a core with three peers, of which the left one sends."""
    authorisation = Authorisation(roles(), "here") if has_roles else None
    core = EndpointCore(HERE, authorisation=authorisation)
    for peer, topics, name in (
        (LEFT, (), "left"),
        (RIGHT, right, "right"),
        (THIRD, third, "third"),
    ):
        certificate = name if has_roles else None
        core.connect(peer, VectorTime(), [says(peer, topics, certificate, HERE)], None, certificate)
    return core


def encoded(
    topic: str,
    sender: EndpointId = LEFT,
    kind: PackedType = PackedType.BYTES,
    to: EndpointId | None = None,
) -> bytes:
    return encode_header(NodeHeader(kind, sender, to, topic))


def frame(  # noqa: PLR0913 - what a frame has
    headers: list[bytes],
    numbers: bytes = b"",
    *,
    sender: EndpointId = LEFT,
    first: int = 0,
    mask: int | None = None,
    ttl: int = 9,
    count: int = 1,
    signature: bytes | None = None,
) -> NodeFrame:
    payloads = [b"x"] * (len(numbers) or count)
    sign = None if signature is None else lambda pieces: signature
    pieces, _ = encode_node(sender, ttl, first, headers, numbers, payloads, mask=mask, sign=sign)
    data = b"".join(pieces)
    return NodeFrame(data, 0, len(data), FRONT.unpack_from(data))


def parts(found) -> dict[object, list[int] | None]:
    """Say which messages each target gets: their places, or all."""
    assert len({target for target, _ in found}) == len(found)
    assert all(part is None or any(part) for _, part in found), "nothing goes nowhere"
    return {
        target: None if part is None else [place for place, goes in enumerate(part) if goes]
        for target, part in found
    }


@dataclass
class Frame:
    """What one frame of a test holds."""

    numbers: list[int]
    first: int
    offsets: list[int] | None = None

    def places(self) -> list[int]:
        return self.offsets or list(range(len(self.numbers)))


@st.composite
def frames(draw) -> Frame:
    numbers = draw(st.lists(st.integers(0, 3), min_size=2, max_size=8))
    offsets = None
    if draw(st.booleans()):
        gaps = draw(
            st.lists(st.integers(1, 3), min_size=len(numbers) - 1, max_size=len(numbers) - 1)
        )
        offsets = [0]
        for gap in gaps:
            offsets.append(offsets[-1] + gap)
    return Frame(numbers, draw(st.integers(0, 6)), offsets)


wanted = st.lists(st.sampled_from(["/a", "/ab", "/b", "/c", "/d"]), max_size=2, unique=True)


@dataclass
class Expected:
    """What each target gets, and what is counted, message by message."""

    targets: dict[object, list[str]]
    has_roles: bool
    seen: set[int] = field(default_factory=set)
    again: int = 0

    def of(self, sent: Frame) -> dict[object, list[int]]:
        topics = [TOPICS[number] for number in sent.numbers]
        allowed = [not self.has_roles or topic != "/c" for topic in topics]
        if not any(allowed):
            return {}
        fresh = [sent.first + place not in self.seen for place in sent.places()]
        self.again += fresh.count(False)
        self.seen.update(sent.first + place for place in sent.places())
        return {
            target: [
                place
                for place, topic in enumerate(topics)
                if allowed[place] and fresh[place] and topic.startswith(tuple(prefixes))
            ]
            for target, prefixes in self.targets.items()
        }


@given(
    st.tuples(wanted, wanted),
    wanted,
    wanted,
    st.booleans(),
    st.lists(frames(), min_size=1, max_size=4),
    st.sampled_from([1, 2, 3, routing.ROUTES_MAX]),
)
def test_each_target_gets_just_the_messages_that_are_for_it(
    here, right, third, has_roles, sent, routes_max
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # The cache may begin anew amid a frame.
        patch.setattr(routing, "ROUTES_MAX", routes_max)
        check_targets(here, right, third, has_roles, sent)


def check_targets(here, right, third, has_roles, sent) -> None:
    core = mesh(minimal(right), minimal(third), has_roles=has_roles)
    for name, topics in zip(("here", "too"), here, strict=True):
        core.subscribe(name, topics)
    targets = {"here": here[0], "too": here[1], RIGHT: right, THIRD: third}
    expected, headers = Expected(targets, has_roles), [encoded(topic) for topic in TOPICS]
    core.authorisation.refusals.total = 0
    for each in sent:
        mask = None
        if each.offsets is not None and each.offsets[-1] >= len(each.offsets):
            mask = sum(1 << offset for offset in each.offsets)
        plan = core.plan(LEFT, frame(headers, bytes(each.numbers), first=each.first, mask=mask))
        found = {} if plan is None else parts([*plan.deliveries, *plan.onward])
        everything = list(range(len(each.numbers)))
        for target, places in expected.of(each).items() or [(each, []) for each in targets]:
            got = found.get(target, [])
            assert (everything if got is None else got) == places
        assert core.routing.duplicates == expected.again
    refused = sum(each.numbers.count(3) for each in sent) if has_roles else 0
    assert core.authorisation.refusals.total == refused


def minimal(topics: list[str]) -> tuple[str, ...]:
    return tuple(
        sorted(
            topic
            for topic in topics
            if not any(topic.startswith(each) and topic != each for each in topics)
        )
    )


def test_what_goes_whole_is_not_selected() -> None:
    core = mesh(("/a",), ("/b",))
    core.subscribe("here", [""])
    plan = core.plan(LEFT, frame([encoded("/a"), encoded("/b")], b"\0\1\0"))
    assert plan is not None
    assert [route.header.topic for route in plan.head.routes] == ["/a", "/b"]
    assert parts(plan.deliveries) == {"here": None}
    assert parts(plan.onward) == {RIGHT: [0, 2], THIRD: [1]}
    plan = core.plan(LEFT, frame([encoded("/a"), encoded("/ab")], b"\0\1\0", first=3))
    assert plan is not None
    assert (parts(plan.deliveries), parts(plan.onward)) == ({"here": None}, {RIGHT: None})


def test_headers_whose_messages_go_the_same_ways_have_a_course_in_common() -> None:
    core = mesh(("/a",))
    core.subscribe("here", ["/a"])
    a, other, b, command = (
        core.routing.route(LEFT, encoded(topic, kind=kind)).course
        for topic, kind in (
            ("/a", PackedType.BYTES),
            ("/ab", PackedType.DATA),
            ("/b", PackedType.BYTES),
            ("b/<$>/data/master", PackedType.COMMAND),
        )
    )
    assert a == other
    assert len({a, b, command}) == 3
    core.routing.forget()
    assert core.routing.route(LEFT, encoded("/b")).course not in {a, b, command}


def test_a_frame_whose_headers_overflow_the_cache_has_no_commands_among_its_messages(
    monkeypatch,
) -> None:
    monkeypatch.setattr(routing, "ROUTES_MAX", 1)
    core = mesh()
    core.subscribe("here", ["/a"])
    command = encoded("b/<$>/data/master", kind=PackedType.COMMAND)
    with pytest.raises(DecodeError, match="commands and other messages"):
        core.plan(LEFT, frame([encoded("/a"), command], b"\0\1"))


def test_a_frame_of_a_known_header_is_judged_at_once_and_with_its_gaps() -> None:
    core = mesh()
    core.subscribe("here", ["/a"])
    header = encoded("/a")
    for first, count, expected in ((0, 3, None), (3, 2, None), (4, 3, [1, 2]), (9, 1, None)):
        plan = core.plan(LEFT, frame([header], count=count, first=first))
        assert plan is not None
        assert (parts(plan.deliveries), list(plan.onward)) == ({"here": expected}, [])
        assert [route.header.topic for route in plan.head.routes] == ["/a"]
        assert plan is plan.head.plan or expected is not None
    assert core.routing.duplicates == 1
    assert core.plan(LEFT, frame([header], count=2, first=5)) is None
    assert core.routing.duplicates == 3
    plan = core.plan(LEFT, frame([header], count=2, first=8, mask=0b101))
    assert plan is not None
    assert parts(plan.deliveries) == {"here": None}, "9 was here, and is not meant"
    assert core.plan(LEFT, frame([header], count=1, first=10)) is None, "10 was"


def test_a_frame_that_is_refused_as_a_whole_goes_nowhere_and_may_come_again() -> None:
    core = mesh(("",), has_roles=True)
    for _ in range(2):
        assert core.plan(LEFT, frame([encoded("/c")], count=3)) is None
    ((sender, reason, count),) = core.authorisation.refusals.take()
    assert (sender, count) == (LEFT, 6)
    assert "may not publish on '/c'" in reason
    assert core.routing.duplicates == 0
    assert core.plan(LEFT, frame([encoded("/a")], count=3)) is not None, "it has not been seen"


def test_a_message_with_one_hop_to_live_goes_no_further() -> None:
    core = mesh(("/a",))
    core.subscribe("here", ["/a"])
    for ttl, onward in ((1, {}), (2, {RIGHT: None})):
        plan = core.plan(LEFT, frame([encoded("/a")], ttl=ttl, first=ttl))
        assert plan is not None
        assert (parts(plan.deliveries), parts(plan.onward)) == ({"here": None}, onward)


def test_nothing_goes_back_to_the_peer_that_it_came_from() -> None:
    core = mesh(("/a",), ("/a",))
    plan = core.plan(RIGHT, frame([encoded("/a")]))
    assert plan is not None
    assert parts(plan.onward) == {THIRD: None}


# Signatures.


class Proof:
    """Believes every seal, and a frame whose signature is true."""

    def seal(self, announcement: Announcement) -> Announcement:
        return announcement

    def objection(self, announcement: Announcement) -> str | None:
        return None

    def end_of(self, announcement: Announcement) -> int | None:
        return None

    def has_ended(self, end_ns: int) -> bool:
        return False

    def verifier(self, seal: Seal):
        return lambda frame: bytes(frame.signed()[1] or b"") == TRUE


TRUE, FALSE = b"t" * 64, b"f" * 64


def signing(right: tuple[str, ...], third: tuple[str, ...], **narrow: object) -> EndpointCore:
    """Give a core with a left peer that signs, and two others; the right one may hear ``/a``."""
    role = {"relay": True, "subscribe": [""], "publish": [""]}
    table = {"names": {"wide": "wide", "narrow": "narrow"}}
    table["roles"] = {"wide": role, "narrow": {**role, "subscribe": ["/a"], **narrow}}
    core = EndpointCore(HERE, authorisation=Authorisation(Roles.of(table), "wide"), proof=Proof())
    seal = Seal(b"k" * 32, (), b"", b"")
    for peer, topics, name in (
        (SIGNING, (), "wide"),
        (RIGHT, right, "narrow"),
        (THIRD, third, "wide"),
    ):
        said = says(peer, topics, name, HERE)
        said = replace(said, seal=seal) if peer == SIGNING else said
        core.connect(peer, VectorTime(), [said], None, name)
    return core


def signed(headers: list[bytes], numbers: bytes = b"", **more) -> NodeFrame:
    more = {"signature": TRUE, **more}
    return frame(headers, numbers, sender=SIGNING, **more)


def test_a_signed_frame_goes_on_whole_to_those_who_may_hear_all_of_it() -> None:
    core = signing(("/a",), ("/a",))
    a, b = encoded("/a", SIGNING), encoded("/b", SIGNING)
    plan = core.plan(SIGNING, signed([a, b], b"\0\1\0"))
    assert plan is not None
    assert parts(plan.onward) == {THIRD: None}
    assert core.routing.undivided == 3
    plan = core.plan(SIGNING, signed([a, encoded("/ab", SIGNING)], b"\0\1", first=3))
    assert plan is not None
    assert parts(plan.onward) == {RIGHT: None, THIRD: None}
    assert core.routing.undivided == 3
    core.plan(SIGNING, signed([b, a], b"\0\1", first=5))
    assert core.routing.undivided == 5
    plan = core.plan(SIGNING, signed([a], first=8, ttl=1))
    assert plan is not None
    assert not plan.onward


def test_what_is_sent_to_one_endpoint_may_be_in_a_signed_frame_for_it() -> None:
    core = signing((), ())
    to_right = encoded("/a", SIGNING, to=RIGHT)
    other = encoded("/ab", SIGNING, to=RIGHT)
    plan = core.plan(SIGNING, signed([to_right, other], b"\0\1"))
    assert plan is not None
    assert parts(plan.onward) == {RIGHT: None}
    assert core.routing.undivided == 0


@pytest.mark.parametrize("signature", [FALSE, None])
def test_a_forged_frame_goes_nowhere_and_keeps_the_true_one_out_of_nothing(signature) -> None:
    core = signing(("/a",), ())
    core.subscribe("here", ["/a"])
    header = encoded("/a", SIGNING)
    assert core.plan(THIRD, signed([header], count=4, signature=signature)) is None
    ((sender, reason, count),) = core.forgeries.take()
    assert (sender, count) == (SIGNING, 4)
    assert reason == f"messages came from {THIRD} that it has not signed"
    assert core.routing.duplicates == 0
    plan = core.plan(SIGNING, signed([header], count=4))
    assert plan is not None
    assert parts(plan.deliveries) == {"here": None}


def test_a_signed_frame_that_was_here_is_not_looked_at_again() -> None:
    core = signing((), ())
    header, mask = encoded("/a", SIGNING), 0b101
    assert core.plan(SIGNING, signed([header], count=2, mask=mask)) is not None
    for signature in (TRUE, FALSE):
        again = signed([header], count=2, mask=mask, signature=signature)
        assert core.plan(SIGNING, again) is None
    assert core.routing.duplicates == 4
    assert core.plan(SIGNING, signed([header], count=2, first=1)) is not None, "half of it is new"
    assert core.routing.duplicates == 5
    assert core.plan(SIGNING, signed([header], count=3)) is None
    assert core.routing.duplicates == 8
    assert core.forgeries.total == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_signed_frame_without_gaps_that_was_here_is_not_looked_at_again(count) -> None:
    core, header = signing((), ()), encoded("/a", SIGNING)
    for signature in (TRUE, TRUE, FALSE):
        core.plan(SIGNING, signed([header], count=count, signature=signature))
    assert (core.routing.duplicates, core.forgeries.total) == (2 * count, 0)


# Routes.


def test_own_messages_pass_those_on_their_way_and_end_at_their_receivers() -> None:
    core = mesh((), ("/b",))
    far = says(FAR, ("/a",), None, RIGHT)
    right = replace(says(RIGHT, (), None, HERE, FAR), time=LamportTime(2))
    core.receive_announcements(RIGHT, [right, far])
    a, b = encoded("/a", HERE), encoded("/b", HERE)
    assert [core.routing.passes(each, a) for each in (RIGHT, FAR, THIRD)] == [True, True, False]
    assert [core.routing.passes(each, b) for each in (RIGHT, FAR, THIRD)] == [False, False, True]
    assert not core.routing.passes(HERE, a)
    assert not core.routing.passes(FAR, b"")
    assert not core.routing.passes(FAR, encoded("/a", HERE, to=STRANGER))
    assert core.routing.next_hop(FAR) == RIGHT
    assert core.routing.next_hop(THIRD) == THIRD
    assert core.routing.next_hop(STRANGER) is None


def test_nothing_goes_to_an_endpoint_whose_announcement_has_not_come() -> None:
    core = mesh(("/a",))
    core.connect(STRANGER, VectorTime(), [], None)
    assert core.routing.route(LEFT, encoded("/a"), LEFT).audience == (RIGHT,)


def test_an_endpoint_hears_what_it_wants_as_far_as_its_own_role_permits() -> None:
    core = signing((), ())
    far = says(FAR, ("",), "narrow", THIRD)
    third = replace(says(THIRD, (), "wide", HERE, FAR), time=LamportTime(2))
    core.receive_announcements(THIRD, [third, far])
    assert core.routing.route(SIGNING, encoded("/a", SIGNING)).audience == (FAR,)
    assert core.routing.route(SIGNING, encoded("/b", SIGNING)).audience == ()


def test_a_leaf_that_comes_again_as_a_relay_may_speak_for_others() -> None:
    table = {"names": {"leaf": "leaf", "here": "relay", "relay": "relay"}}
    relay = {"relay": True, "publish": [""], "subscribe": [""]}
    table["roles"] = {"leaf": {"publish": [""]}, "relay": relay}
    core = EndpointCore(HERE, authorisation=Authorisation(Roles.of(table), "here"))
    core.connect(LEFT, VectorTime(), [], None, "leaf")
    assert "a leaf by its role" in core.routing.route(FAR, encoded("/a", FAR), LEFT).refusal
    assert core.routing.route(LEFT, encoded("/a", LEFT), LEFT).refusal == ""
    core.disconnect(LEFT, None, status="peer_lost", code=ErrorCode.NONE, reason="")
    core.connect(LEFT, VectorTime(), [], None, "relay")
    assert core.routing.route(FAR, encoded("/a", FAR), LEFT).refusal == ""


def test_a_leaf_speaks_for_nobody_else_whatever_is_known_of_them() -> None:
    relay = {"relay": True, "publish": [""], "subscribe": [""]}
    table = {"names": dict.fromkeys(("here", "right", "far"), "relay") | {"left": "leaf"}}
    table["roles"] = {"leaf": {"publish": [""]}, "relay": relay}
    core = EndpointCore(HERE, authorisation=Authorisation(Roles.of(table), "here"))
    core.subscribe("here", [""])
    core.connect(LEFT, VectorTime(), [], None, "left")
    right, far = says(RIGHT, (), "right", HERE, FAR), says(FAR, (), "far", RIGHT)
    core.connect(RIGHT, VectorTime(), [right, far], None, "right")
    for first in range(2):
        plan = core.plan(RIGHT, frame([encoded("/a", FAR)], sender=FAR, first=first))
        assert plan is not None
        assert parts(plan.deliveries) == {"here": None}
    for topic in ("/a", "/a", "/b", "/b"):
        assert core.plan(LEFT, frame([encoded(topic, FAR)], sender=FAR, first=9)) is None
    ((sender, reason, count),) = core.authorisation.refusals.take()
    assert (sender, count) == (FAR, 4)
    assert "a leaf by its role sent" in reason


def test_what_is_sent_to_one_endpoint_goes_there_if_its_own_role_may_hear_it() -> None:
    core = signing((), ())
    core.connect(STRANGER, VectorTime(), [], None, "wide")
    audiences = {
        (to, topic): core.routing.route(SIGNING, encoded(topic, SIGNING, to=to)).audience
        for to in (RIGHT, STRANGER)
        for topic in ("/a", "/b")
    }
    assert audiences == {
        (RIGHT, "/a"): (RIGHT,),
        (RIGHT, "/b"): (),
        (STRANGER, "/a"): (STRANGER,),
        (STRANGER, "/b"): (STRANGER,),
    }


def test_equal_ways_are_the_same_object_and_routes_are_remembered() -> None:
    core = mesh(("/a", "/b"))
    core.subscribe("here", ["/a", "/b"])
    one, other = (core.routing.route(LEFT, encoded(topic), LEFT) for topic in ("/a", "/b"))
    assert one.receivers is other.receivers
    assert one.next_hops is other.next_hops
    assert core.routing.route(LEFT, encoded("/a"), LEFT) is one
    size = len(encoded("/a")) + len(encoded("/b"))
    assert core.routing.remembered() == (2, size)
    core.routing.forget()
    assert core.routing.remembered() == (0, 0)
    assert core.routing.route(LEFT, encoded("/a"), LEFT) is not one


@pytest.mark.parametrize(("count", "size"), [(5, 10_000), (100, 5 * len(encoded("/0")))])
def test_routes_are_remembered_up_to_a_number_and_up_to_a_size(monkeypatch, count, size) -> None:
    assert (routing.ROUTES_MAX, routing.ROUTES_SIZE_MAX) == (8_192, 8 * MIB)
    monkeypatch.setattr(routing, "ROUTES_MAX", count)
    monkeypatch.setattr(routing, "ROUTES_SIZE_MAX", size)
    core, seen = mesh(), []
    for number in range(7):
        core.routing.route(LEFT, encoded(f"/{number}"), LEFT)
        seen.append(core.routing.remembered()[0])
    assert seen == [1, 2, 3, 4, 5, 1, 2]


def test_an_endpoint_that_does_not_forward_takes_its_own_part_alone() -> None:
    core = EndpointCore(HERE, forwarding=False)
    core.subscribe("here", ["/a"])
    for peer, topics in ((LEFT, ()), (RIGHT, ("/a",))):
        core.connect(peer, VectorTime(), [says(peer, topics, None, HERE)], None)
    route = core.routing.route(LEFT, encoded("/a"), LEFT)
    assert (route.receivers, route.next_hops, route.audience) == (("here",), (), ())
    own = core.routing.route(HERE, encoded("/a", HERE))
    assert (own.receivers, own.next_hops, own.audience) == ((), (RIGHT,), (RIGHT,))
    assert own.verify is None


def test_a_header_that_cannot_be_read_is_a_breach_of_the_protocol() -> None:
    with pytest.raises(DecodeError):
        mesh().plan(LEFT, frame([b"\xff"]))


def test_a_plan_holds_the_routes_of_all_headers() -> None:
    core, value = mesh(), encoded("/ab", kind=PackedType.DATA)
    plan = core.plan(LEFT, frame([encoded("/a")]))
    assert isinstance(plan, Plan)
    assert not plan.deliveries
    assert not plan.onward
    assert plan.head.topics == ()
    core.subscribe("here", ["/ab"])
    plan = core.plan(LEFT, frame([encoded("/a"), encoded("/ab")], b"\0\1", first=1))
    assert plan is not None
    assert plan.head.topics == ("/a", "/ab"), "though the first is not heard"
    core.subscribe("here", [""])
    found = []
    for first, headers in enumerate(
        ([encoded("/a")], [value], [encoded("/a"), encoded("/b")], [encoded("/a"), value])
    ):
        numbers = b"\0\1" if len(headers) > 1 else b""
        plan = core.plan(LEFT, frame(headers, numbers, first=10 * (first + 1)))
        assert plan is not None
        assert parts(plan.deliveries) == {"here": None}
        found.append((plan.head.topics, plan.head.raw))
    assert found == [
        (("/a",), b""), (("/ab",), b"\0"), (("/a", "/b"), b""), (("/a", "/ab"), b"\1\0"),
    ]  # fmt: skip


def test_frames_with_the_same_head_have_one_plan_until_something_changes() -> None:
    core, headers = mesh(), [encoded("/a"), encoded("/b")]
    core.subscribe("here", [""])
    one, same = (core.plan(LEFT, frame(headers, b"\0\1", first=first)) for first in (0, 2))
    assert one is same is not None
    core.subscribe("there", ["/b"])
    other = core.plan(LEFT, frame(headers, b"\0\1", first=4))
    assert other is not None
    assert parts(other.deliveries) == {"here": None, "there": [1]}


def test_a_head_that_is_known_of_a_relay_is_refused_of_a_leaf() -> None:
    core = mesh()
    core.subscribe("here", [""])
    forged = frame([encoded("/a", RIGHT)], sender=RIGHT)
    assert core.plan(LEFT, forged) is not None
    core.routing.add_leaf(LEFT)
    assert core.plan(LEFT, frame([encoded("/a", RIGHT)], sender=RIGHT, first=1)) is None
    ((sender, reason, _),) = core.authorisation.refusals.take()
    assert (sender, "a leaf by its role" in reason) == (RIGHT, True)
    assert core.plan(THIRD, frame([encoded("/a", RIGHT)], sender=RIGHT, first=1)) is not None


def test_heads_are_remembered_up_to_a_size_of_all_and_of_each(monkeypatch) -> None:
    assert (routing.HEADS_SIZE_MAX, routing.HEAD_SIZE_MAX) == (2 * MIB, 4 * KIB)
    size = len(frame([encoded("/1")]).head)
    monkeypatch.setattr(routing, "HEADS_SIZE_MAX", 2 * (size + routing.HEAD_CHARGE))
    monkeypatch.setattr(routing, "HEAD_SIZE_MAX", size)
    core, numbers = mesh(), iter(range(100))
    core.routing.add_leaf(RIGHT)

    def head_of(topic: str, peer: EndpointId = LEFT) -> object:
        made = frame([encoded(topic, peer)], sender=peer, first=next(numbers))
        plan = core.plan(peer, made)
        assert plan is not None
        return plan.head

    one, leaf = head_of("/1"), head_of("/1", RIGHT)
    assert head_of("/1") is one
    assert head_of("/1", RIGHT) is leaf
    assert head_of("/2") is head_of("/2")
    assert head_of("/1") is not one, "they began anew"
    assert head_of("/1", RIGHT) is not leaf
    assert head_of("/12") is not head_of("/12"), "too large"
