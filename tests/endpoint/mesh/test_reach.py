"""Questions about the mesh: who is in reach, who wants a topic, and where stores are."""

from __future__ import annotations

from dataclasses import replace

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.reach import Reach
from endpoint.mesh.wishes import Wishes
from handshake.roles import Roles
from wire.clocks import LamportTime, VectorTime
from wire.errors import ErrorCode
from wire.identifiers import EndpointId
from wire.messages import Announcement
from wire.topics import CLONE_SUFFIX, MASTER_SUFFIX, group_topic, store_topics

HERE, NEAR, FAR, LOST = (EndpointId(bytes([n]) * 6 + b"\x40" * 10) for n in range(1, 5))
MASTER, CLONE = store_topics("accounts")
OTHER, OTHER_CLONE = store_topics("readings")


def says(origin: EndpointId, *links: EndpointId, **more) -> Announcement:
    plain = Announcement(origin, LamportTime(1), tuple(sorted(links)), (), (), True)
    return replace(plain, **more)


def line(near: dict, far: dict) -> EndpointCore:
    """Give the first of a line of three; ``LOST`` has announced itself, and no path leads there."""
    core = EndpointCore(HERE)
    lost = says(LOST, subscriptions=("/t",), stores=(MASTER, OTHER))
    said = [says(NEAR, HERE, FAR, **near), says(FAR, NEAR, **far), lost]
    core.connect(NEAR, VectorTime(), said, None)
    return core


def test_the_nearest_comes_first_and_what_no_path_leads_to_is_not_in_reach() -> None:
    core = line({}, {})
    assert list(core.reach) == [NEAR, FAR]
    assert len(core.reach) == 2
    assert [each in core.reach for each in (NEAR, FAR, LOST)] == [True, True, False]
    assert [each.origin for each in core.reach.announcements()] == [HERE, NEAR, FAR]


def test_a_new_one_knows_of_its_own_endpoint_alone() -> None:
    core = line({}, {})
    reach = Reach(HERE, core.topology, Wishes(), core.routing, core.permissions)
    mine = core.topology.announcements[HERE]
    assert list(reach) == []
    assert reach.digest() == VectorTime({HERE: mine.time}).digest()


def test_it_is_in_reach_before_its_announcement_comes_and_included_from_then_on() -> None:
    core = EndpointCore(HERE)
    core.connect(NEAR, VectorTime(), [], None)
    assert NEAR in core.reach
    assert not core.reach.includes(NEAR)
    assert core.reach.find_store(MASTER) is None
    assert core.reach.names_of(MASTER_SUFFIX, CLONE_SUFFIX) == ()
    core.receive_announcements(NEAR, [says(NEAR, HERE)])
    assert core.reach.includes(NEAR)


def test_subscribers_of_a_topic_are_the_others_that_want_it() -> None:
    core = line({"subscriptions": ("/a",)}, {"subscriptions": ("/a/b", "/t")})
    core.subscribe("reader", [""])
    assert core.reach.subscribers("/a/b/c") == [NEAR, FAR]
    assert core.reach.subscribers("/a") == [NEAR]
    assert core.reach.subscribers("/t") == [FAR]
    assert core.reach.subscribers("/u") == []


def test_a_store_is_found_at_home_or_at_the_nearest() -> None:
    core = line({"stores": (OTHER,)}, {"stores": (MASTER, OTHER)})
    assert core.reach.find_store(MASTER) == FAR
    assert core.reach.find_store(OTHER) == NEAR
    assert core.reach.find_store("nothing" + MASTER_SUFFIX) is None
    assert list(core.reach.find_stores((MASTER, OTHER))) == [
        (NEAR, OTHER), (FAR, MASTER), (FAR, OTHER)
    ]  # fmt: skip
    core.attach_store(MASTER, "store")
    assert core.reach.find_store(MASTER) == HERE
    assert core.reach.find_store(OTHER) == NEAR


def test_a_store_is_looked_for_where_its_own_name_may_be_led() -> None:
    roles = Roles.of(
        {
            "names": {"near": "readings", "far": "accounts"},
            "roles": {
                "readings": {"relay": True, "lead": ["readings"]},
                "accounts": {"relay": True, "lead": ["accounts"]},
            },
        }
    )
    core = EndpointCore(HERE, authorisation=Authorisation(roles, "near"))
    both = {"stores": (MASTER, OTHER)}
    near, far = says(NEAR, HERE, FAR, name="near", **both), says(FAR, NEAR, name="far", **both)
    core.connect(NEAR, VectorTime(), [near, far], None, "near")
    assert list(core.reach.find_stores((MASTER, OTHER))) == [(NEAR, OTHER), (FAR, MASTER)]


def test_a_replica_of_a_group_is_found_where_it_may_vote() -> None:
    topic = group_topic("s")
    roles = Roles.of(
        {
            "names": {"near": "reader", "far": "voter"},
            "roles": {
                "reader": {"relay": True, "read": ["s"]},
                "voter": {"relay": True, "vote": ["s"]},
            },
        }
    )
    core = EndpointCore(HERE, authorisation=Authorisation(roles, "near"))
    near, far = (
        says(*ways, name=name, stores=(topic,))
        for name, ways in (("near", (NEAR, HERE, FAR)), ("far", (FAR, NEAR)))
    )
    core.connect(NEAR, VectorTime(), [near, far], None, "near")
    assert list(core.reach.find_stores([topic])) == [(FAR, topic)]
    assert core.reach.find_store(topic) == FAR


def test_names_of_stores_are_those_at_home_and_those_of_leaders_and_copies_elsewhere() -> None:
    core = line({"stores": (CLONE, "x/<$>/log/keeper")}, {"stores": (MASTER, OTHER_CLONE)})
    core.attach_store("here" + MASTER_SUFFIX, "store")
    core.attach_store("a copy" + CLONE_SUFFIX, "store")
    assert core.reach.names_of(MASTER_SUFFIX, CLONE_SUFFIX) == ("accounts", "here", "readings")
    tricky = MASTER_SUFFIX.removeprefix("/") + MASTER_SUFFIX
    core.attach_store(tricky, "store")
    assert MASTER_SUFFIX.removeprefix("/") in core.reach.names_of(MASTER_SUFFIX, CLONE_SUFFIX)


def test_what_an_endpoint_lacks_is_what_is_newer_than_it_knows() -> None:
    core = line({}, {"time": LamportTime(5)})
    everything = [each.origin for each in core.reach.lacking(VectorTime())]
    assert everything == [HERE, NEAR, FAR]
    known = VectorTime({HERE: LamportTime(99), NEAR: LamportTime(1), FAR: LamportTime(4)})
    assert [each.origin for each in core.reach.lacking(known)] == [FAR]


def test_the_digest_is_that_of_what_is_known_of_those_in_reach() -> None:
    core, other = line({}, {}), line({}, {})
    assert core.digest() == other.digest()
    core.receive_announcements(NEAR, [says(LOST, time=LamportTime(7))])
    assert core.digest() == other.digest(), "it is not in reach"
    core.receive_announcements(NEAR, [says(FAR, NEAR, time=LamportTime(7))])
    assert core.digest() != other.digest()
    times = {each.origin: each.time for each in core.reach.announcements()}
    assert core.digest() == VectorTime(times).digest()
    core.disconnect(NEAR, None, status="peer_lost", code=ErrorCode.NONE, reason="")
    mine = core.topology.announcements[HERE]
    assert core.digest() == VectorTime({HERE: mine.time}).digest()
