"""Other roles while an endpoint runs, as its core sees them: rights, leaves, and who is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import DropPeer, RightsChanged, RoutesChanged, SendControl
from endpoint.mesh.rights import has_lost, rights_changed
from endpoint.mesh.status import StatusCode
from handshake.roles import ALL_RIGHTS, Rights, Roles
from wire.clocks import LamportTime, VectorTime
from wire.codec import encode_header
from wire.errors import ErrorCode
from wire.identifiers import EndpointId
from wire.messages import Announcement, Announcements, Knowledge, NodeHeader, PackedType
from wire.topics import log_topics, store_topics

HERE, PEER, FAR = (EndpointId(bytes([n]) * 6 + b"\x40" * 10) for n in range(1, 4))
CORE = {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]}
NOTHING: dict[str, object] = {}


def core_with(*far: Announcement, forwarding: bool = True, **roles: dict[str, object]):
    """Give a core with one peer, called by the name of the role, and what that passed on."""
    authorisation = Authorisation(table(**roles), "core")
    core = EndpointCore(HERE, forwarding=forwarding, authorisation=authorisation)
    core.connect(PEER, VectorTime({}), [announced(PEER), *far], None, "one")
    return core


def announced(
    origin: EndpointId, name: str = "one", subscriptions: tuple[str, ...] = ()
) -> Announcement:
    copies = tuple(store_topics(name)[1] for name in ("s", "t"))
    return Announcement(origin, LamportTime(1), (), subscriptions, copies, False, name)


def table(**roles: dict[str, object]) -> Roles:
    names = {name: name for name in roles}
    return Roles.of({"names": {**names, "core": "core"}, "roles": {**roles, "core": CORE}})


def test_a_peer_that_becomes_a_relay_is_asked_for_what_it_was_not_heard_about() -> None:
    core = core_with(one=NOTHING)
    effects = core.set_roles(table(one={"relay": True}))
    asked = [each for each in effects if isinstance(each, SendControl) and each.peer == PEER]
    assert Knowledge(core.knowledge()) in [each.message for each in asked]
    again = core.set_roles(table(one={"relay": True, "publish": [""]}))
    assert not [each for each in again if isinstance(getattr(each, "message", None), Knowledge)]


def test_a_peer_that_shook_hands_by_the_roles_before_is_dropped() -> None:
    core = core_with(one=NOTHING)
    core.disconnect(PEER, None, status=StatusCode.PEER_LOST, code=ErrorCode.NONE, reason="")
    core.set_roles(table())
    effects = core.connect(PEER, core.knowledge(), [], None, "one")
    assert isinstance(effects[-1], DropPeer)
    assert effects[-1].code is ErrorCode.NOT_AUTHORIZED


def test_only_rights_that_changed_are_told_of_and_of_others_alone() -> None:
    core = core_with(one={"read": ["s"]})
    topics = [store_topics("s")[0], log_topics("s")[0], store_topics("t")[0], store_topics("u")[0]]
    for topic in topics:
        core.attach_store(topic, object())

    def change(**roles: dict[str, object]) -> set[RightsChanged]:
        return {each for each in core.set_roles(table(**roles)) if isinstance(each, RightsChanged)}

    assert not change(one={"read": ["s"], "publish": [""]})
    before, now = Rights(read=True), Rights(write=True)
    found = {RightsChanged(topic, PEER, before, now) for topic in topics[:2]}
    assert change(one={"write": ["s"]}) == found
    assert not change(one={"write": ["s"], "read": ["u"]}), "it has announced no copy of that"


def said(effects: list) -> list[Announcement]:
    """What is sent to the peer of announcements."""
    sent = [each for each in effects if isinstance(each, SendControl) and each.peer == PEER]
    messages = [each.message for each in sent if isinstance(each.message, Announcements)]
    return [each for message in messages for each in message.items]


def test_a_change_of_roles_is_told_and_changes_no_name() -> None:
    core = core_with(one={"relay": True})
    before = core.topology.announcements[HERE].time
    effects = core.set_roles(table(one={"relay": True, "observe": True}))
    assert RoutesChanged() in effects
    (mine,) = said(effects)
    assert (mine.origin, mine.name) == (HERE, "core")
    assert mine.time > before
    assert core.permissions.role(PEER).observe


def test_another_certificate_is_told_and_changes_no_roles() -> None:
    core = core_with(one={"relay": True})
    roles = core.authorisation.roles
    (mine,) = said(core.rename("one"))
    assert (mine.origin, mine.name) == (HERE, "one")
    assert core.authorisation.roles is roles
    assert core.authorisation.own_role == roles.find("one")


@pytest.mark.parametrize("by_choice", [True, False])
def test_it_relays_by_choice_and_by_its_role_alone(by_choice: bool) -> None:
    core = core_with(forwarding=by_choice, one={"publish": [""]}, two={"relay": True})
    assert core.forwarding is by_choice
    for name, relays in (("one", False), ("two", by_choice), ("core", by_choice)):
        effects = core.rename(name)
        assert core.forwarding is relays
        assert [each.forwarding for each in said(effects)] == [relays]


def refused(core: EndpointCore) -> set[tuple[EndpointId, str]]:
    return {(sender, reason) for sender, reason, _ in core.authorisation.refusals.take()}


def test_what_is_wanted_and_no_longer_given_is_told_of_oneself_and_of_peers_alone() -> None:
    wants = ("/t",)
    relay = {"relay": True, "subscribe": [""], "read": ["*"]}
    core = core_with(announced(FAR, "far", wants), one=relay, far={"subscribe": [""]})
    core.receive_announcements(PEER, [replace_time(announced(PEER, "one", wants), 2)])
    core.subscribe("reader", ["/t"])
    assert not refused(core)
    assert not refused_after(core, one=relay, far={"subscribe": [""]})
    found = refused_after(core, one={"relay": True, "read": ["*"]}, far={})
    assert {sender for sender, _ in found} == {PEER}
    core.set_roles(Roles.of({"roles": {"one": relay}, "names": {"one": "one", "core": "one"}}))
    assert not refused(core)
    roles = {"one": relay, "less": {"relay": True}}
    core.set_roles(Roles.of({"roles": roles, "names": {"one": "one", "core": "less"}}))
    assert {sender for sender, _ in refused(core)} == {HERE}


def refused_after(core: EndpointCore, **roles: dict[str, object]) -> set[tuple[EndpointId, str]]:
    core.set_roles(table(**roles))
    return refused(core)


def replace_time(announcement: Announcement, time: int) -> Announcement:
    return replace(announcement, time=LamportTime(time))


def refusal_of_others(core: EndpointCore) -> str:
    """Why messages of an endpoint behind the peer are not taken from it; empty if they are."""
    header = NodeHeader(PackedType.DATA, FAR, None, "/t")
    return core.routing.route(FAR, encode_header(header), PEER).refusal


def test_messages_of_others_are_taken_from_a_peer_while_it_is_a_relay() -> None:
    roles = {"far": {"publish": [""]}}
    core = core_with(announced(FAR, "far"), one={"relay": True}, **roles)
    assert refusal_of_others(core) == ""
    core.set_roles(table(one={}, **roles))
    assert f"a leaf by its role sent messages of {FAR}" in refusal_of_others(core)
    core.set_roles(table(one={"relay": True}, **roles))
    assert refusal_of_others(core) == ""


def test_without_a_role_for_its_name_each_peer_is_dropped_and_told_why() -> None:
    core = core_with(one={"relay": True}, two={})
    core.connect(FAR, VectorTime({}), [announced(FAR, "two")], None, "two")
    assert not [each for each in core.set_roles(None) if isinstance(each, DropPeer)]
    effects = core.set_roles(table(one={"relay": True}))
    (dropped,) = [each for each in effects if isinstance(each, DropPeer)]
    assert (dropped.peer, dropped.code) == (FAR, ErrorCode.NOT_AUTHORIZED)
    assert "no role for the name 'two'" in dropped.reason


def test_a_peer_that_goes_on_relaying_as_a_leaf_is_dropped() -> None:
    core = core_with(one={"relay": True}, two={"relay": True})
    relay = replace(announced(FAR, "two"), forwarding=True)
    core.connect(FAR, VectorTime({}), [relay], None, "two")
    effects = core.set_roles(table(one={"relay": True}, two={}))
    (dropped,) = [each for each in effects if isinstance(each, DropPeer)]
    assert dropped.peer == FAR
    assert "is that of a leaf" in dropped.reason


def test_an_endpoint_has_all_rights_at_home_and_others_what_their_role_says() -> None:
    core = core_with(announced(FAR, "far"), one={"read": ["s"], "relay": True}, far={"lead": ["t"]})
    permissions = core.permissions
    assert permissions.rights(HERE, "any") == ALL_RIGHTS
    assert permissions.rights(PEER, "s") == Rights(read=True)
    assert permissions.rights(FAR, "s") == Rights()
    assert permissions.rights(FAR, "t") == ALL_RIGHTS
    assert permissions.who(PEER) == "'one' (role one)"
    assert permissions.who(FAR) == "'far' (role far)"
    assert permissions.who(EndpointId(bytes(16))) == "nothing (without a role)"
    core.rename("far")
    assert permissions.rights(HERE, "any") == ALL_RIGHTS, "whatever its role says"


@pytest.mark.parametrize("mine", [True, False])
@pytest.mark.parametrize("theirs", [True, False])
def test_messages_wait_for_a_peer_if_it_may_hold_and_this_endpoint_is_believed(
    mine: bool, theirs: bool
) -> None:
    core = core_with(one={"relay": True, "hold": theirs}, two={"relay": True, "hold": mine})
    core.rename("two")
    assert core.permissions.may_hold(PEER) is theirs
    assert core.permissions.may_hold(HERE) is mine
    assert core.permissions.may_hold_for(PEER) is (mine and theirs)


def test_each_endpoint_with_other_rights_is_told_of_if_it_has_announced_a_store() -> None:
    before, now = (table(one={"read": stores}).find("one") for stores in (["s"], []))
    changed = dict.fromkeys((PEER, HERE, FAR), (before, now))
    topic, old = store_topics("s")[0], Rights(read=True)
    effects = rights_changed([topic], changed, {PEER: announced(PEER), FAR: announced(FAR)})
    assert effects == [RightsChanged(topic, each, old, Rights()) for each in (PEER, FAR)]


READING, NONE = Rights(read=True), Rights()
VOTING = Rights(read=True, write=True, vote=True)


@pytest.mark.parametrize(
    ("before", "now", "is_less"),
    [
        (VOTING, READING, True),
        (VOTING, NONE, True),
        (READING, NONE, True),
        (ALL_RIGHTS, VOTING, False),
        (READING, VOTING, False),
        (Rights(read=True, write=True), READING, False),
        (Rights(write=True), NONE, False),
    ],
)
def test_a_replica_learns_what_may_vote_or_read_no_more(
    before: Rights, now: Rights, is_less: bool
) -> None:
    assert has_lost(before, now) is is_less
