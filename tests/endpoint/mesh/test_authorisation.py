"""Authorisation by itself: what each rule says, word for word, and what it takes note of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint.mesh import authorisation
from endpoint.mesh.authorisation import Authorisation, Forgeries, Refusals
from handshake.roles import EVERYTHING, NOTHING, Roles
from wire.clocks import LamportTime
from wire.errors import ErrorCode, NotAllowed, RemoteProtocolError
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType, Seal
from wire.topics import store_topics

PEER, FAR = (EndpointId(bytes([n]) * 6 + b"\x40" * 10) for n in range(1, 3))
SIGNING = EndpointId(b"\x01" * 6 + b"\x80" * 10)
MASTER, CLONES = store_topics("accounts")
SEAL = Seal(b"k" * 32, (), b"", b"")


def rules(name: str | None = "core-1", *, is_wary: bool = False) -> Authorisation:
    roles = Roles.of(
        {
            "names": {"core-*": "core", "leaf-*": "leaf"},
            "roles": {
                "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
                "leaf": {"publish": ["/in/"], "subscribe": ["/out/"], "read": ["accounts"]},
            },
        }
    )
    return Authorisation(roles, name, is_wary=is_wary)


def news(origin: EndpointId, name: str | None, *, forwarding: bool = False, **more) -> Announcement:
    plain = Announcement(origin, LamportTime(1), (), (), (), forwarding=forwarding, name=name)
    return replace(plain, **more)


def header(topic: str, kind: PackedType = PackedType.DATA, to: EndpointId | None = None):
    return NodeHeader(kind, FAR, to, topic)


def test_refusals_are_counted_by_sender_and_reason_and_given_once(monkeypatch) -> None:
    monkeypatch.setattr(authorisation, "REFUSALS_MAX", 2)
    refusals = Refusals()
    assert refusals.total == 0
    for sender, reason, count in ((PEER, "a", 1), (PEER, "b", 2), (FAR, "c", 5), (PEER, "a", 3)):
        refusals.note(sender, reason, count)
    refusals.note(PEER, "b")
    assert list(refusals.take()) == [(PEER, "a", 4), (PEER, "b", 3)], "those known go on"
    assert refusals.total == 12, "what is not told of is counted"
    assert list(refusals.take()) == []
    refusals.note(FAR, "c")
    assert list(refusals.take()) == [(FAR, "c", 1)]


class Judge:
    """Objects to what it is told to, and notes what it has looked at."""

    def __init__(self, objection: str | None) -> None:
        self._objection = objection
        self.looked_at: list[Announcement] = []

    def objection(self, announcement: Announcement) -> str | None:
        self.looked_at.append(announcement)
        return self._objection


def test_an_announcement_is_forged_if_its_seal_proves_it_or_cannot_be_looked_at() -> None:
    plain, sealed, signing = news(FAR, None), news(FAR, None, seal=SEAL), news(SIGNING, None)
    for proof in (Judge("wrong"), Judge(None), None):
        assert not Forgeries(proof).is_forged(PEER, plain), "it has nothing to look at"
    for each in (sealed, signing):
        judge = Judge(None)
        assert not Forgeries(judge).is_forged(PEER, each)
        assert judge.looked_at == [each]
        for proof, why in ((Judge("wrong"), "wrong"), (None, "nothing here can look at seals")):
            forgeries = Forgeries(proof)
            assert forgeries.is_forged(PEER, each)
            reason = f"an announcement of it came from {PEER} and is not its own: {why}"
            assert list(forgeries.take()) == [(each.origin, reason, 1)]


@pytest.mark.parametrize(
    ("said", "known", "certificate", "objection"),
    [
        ((), None, "core-1", None),
        ((news(PEER, "core-1", forwarding=True),), None, "core-1", None),
        ((news(PEER, "leaf-1"), news(FAR, "x", forwarding=True)), None, "leaf-1", None),
        ((news(PEER, "leaf-1"),), news(PEER, "leaf-1"), "leaf-1", None),
        ((news(FAR, "x"), news(PEER, "core-2")), None, "core-1",
         f"endpoint {PEER} is called 'core-2', and this certificate says 'core-1': an id belongs to"
         " one name"),
        ((news(PEER, "core-1"),), news(PEER, None), "core-1",
         f"endpoint {PEER} is called nothing, and this certificate says 'core-1': an id belongs to"
         " one name"),
        ((), None, "eve", "there is no role for the name 'eve': add it to the roles, or give them a"
         " default"),
        ((), None, None, "there is no role for the name nothing: add it to the roles, or give them"
         " a default"),
        ((news(PEER, "leaf-1", forwarding=True),), None, "leaf-1",
         "the role of 'leaf-1' is that of a leaf: set forwarding=False there, or relay = true in"
         " the role"),
    ],
)  # fmt: skip
def test_what_keeps_a_connection_from_becoming_a_peering(
    said, known, certificate, objection
) -> None:
    assert rules().objection(PEER, certificate, said, known) == objection


def test_without_roles_names_are_held_to_and_nothing_else() -> None:
    free = Authorisation()
    assert (free.roles, free.name, free.own_role) == (None, None, EVERYTHING)
    assert free.objection(PEER, "eve", (news(PEER, "eve", forwarding=True),), None) is None
    assert "an id belongs to one name" in free.objection(PEER, "eve", (news(PEER, "ann"),), None)
    free.enter(PEER, "eve")
    assert not free.is_leaf(PEER)
    assert free.role(FAR, None) is EVERYTHING
    assert free.refusal(header("/t"), news(FAR, "eve")) == ""
    assert free.who("eve") == "'eve' (without a role)"
    assert Authorisation(None, "ann").name == "ann"


def test_the_own_role_is_that_of_the_own_name() -> None:
    assert rules("core-1").own_role.relay
    assert not rules("leaf-1").own_role.relay
    assert rules("leaf-1").own_role.publish == ("/in/",)
    assert rules("eve").own_role is NOTHING
    assert rules("core-1").who("leaf-1") == "'leaf-1' (role leaf)"
    assert rules("core-1").who(None) == "nothing (without a role)"


def test_a_leaf_is_heard_about_itself_alone_and_a_relay_about_all() -> None:
    here, others = rules(), (news(FAR, "core-2"), news(PEER, "leaf-1"), news(FAR, "x"))
    assert here.heard(PEER, iter(others)) == list(others), "it is no peer yet"
    here.enter(PEER, "leaf-1")
    assert here.is_leaf(PEER)
    assert here.heard(PEER, others) == [others[1]]
    here.leave(PEER)
    here.leave(PEER)
    assert not here.is_leaf(PEER)
    here.enter(PEER, "core-1")
    assert not here.is_leaf(PEER)
    own = news(PEER, "core-1", forwarding=True)
    assert here.heard(PEER, (others[0], own, others[2])) == [others[0], own, others[2]]
    with pytest.raises(RemoteProtocolError, match="'core-9', and this certificate") as raised:
        here.heard(PEER, (news(PEER, "core-9"),))
    assert raised.value.code is ErrorCode.NOT_AUTHORIZED


def test_what_a_peer_wants_and_is_not_given_is_told_of() -> None:
    here = rules()
    here.enter(PEER, "leaf-1")
    secrets, secret_clones = store_topics("secrets")
    wanted = news(
        PEER, "leaf-1", subscriptions=("/in/", "/out/a"), stores=(CLONES, secret_clones, secrets)
    )
    here.heard(PEER, (wanted,))
    told = list(here.refusals.take())
    assert [(sender, count) for sender, _, count in told] == [(PEER, 1)] * 3
    assert [reason for _, reason, _ in told] == [
        "'leaf-1' (role leaf) may not subscribe to '/in/', or not to all of it",
        f"'leaf-1' (role leaf) may not hear {secret_clones!r}",
        f"'leaf-1' (role leaf) may not hear {secrets!r}",
    ]


def test_an_endpoint_that_is_renamed_is_told_of() -> None:
    here, known = rules(), news(FAR, "core-2")
    assert not here.is_renamed(known, None)
    assert not here.is_renamed(news(FAR, "core-2"), known)
    assert list(here.refusals.take()) == []
    assert here.is_renamed(news(FAR, None), known)
    reason = "it is called 'core-2', and somebody says nothing"
    assert list(here.refusals.take()) == [(FAR, reason, 1)]
    assert here.is_renamed(news(FAR, "core-3"), known)
    ((_, reason, _),) = here.refusals.take()
    assert reason == "it is called 'core-2', and somebody says 'core-3'"


def test_a_peer_is_judged_by_its_certificate_whatever_it_is_said_to_be() -> None:
    here = rules()
    here.enter(FAR, "leaf-1")
    refused = here.refusal(header("/out/a"), news(FAR, "core-2"))
    assert refused == "'core-2' (role core) may not publish on '/out/a'"


def test_a_role_is_that_of_the_certificate_else_of_the_name_that_is_believed() -> None:
    here, wary = rules(), rules(is_wary=True)
    plain, sealed = news(FAR, "core-2"), news(FAR, "core-2", seal=SEAL)
    for each in (here, wary):
        assert each.role(FAR, None) is NOTHING
        assert each.role(FAR, sealed).relay
        assert each.role(FAR, news(FAR, "eve", seal=SEAL)) is NOTHING
        each.enter(PEER, "leaf-1")
        assert each.role(PEER, news(PEER, "core-1")).publish == ("/in/",)
    some = Roles.of({"names": {"anonymous": "any"}, "roles": {"any": {"publish": ["/x"]}}})
    assert Authorisation(some).role(FAR, None).publish == ("/x",)
    assert here.role(FAR, plain).relay
    assert wary.role(FAR, plain) is NOTHING


@pytest.mark.parametrize(
    ("name", "topic", "kind", "refused"),
    [
        ("leaf-1", "/in/a", PackedType.DATA, ""),
        ("leaf-1", "/out/a", PackedType.DATA,
         "'leaf-1' (role leaf) may not publish on '/out/a'"),
        ("leaf-1", MASTER, PackedType.COMMAND, ""),
        ("leaf-1", store_topics("other")[1], PackedType.COMMAND,
         f"'leaf-1' (role leaf) may not send commands to {store_topics('other')[1]!r}"),
        ("leaf-1", MASTER, PackedType.DATA,
         f"'leaf-1' (role leaf) may not publish on {MASTER!r}"),
        ("core-2", CLONES, PackedType.COMMAND, ""),
        ("eve", "/in/a", PackedType.DATA, "'eve' (without a role) may not publish on '/in/a'"),
    ],
)  # fmt: skip
def test_messages_are_taken_by_the_role_of_their_sender(name, topic, kind, refused) -> None:
    assert rules().refusal(header(topic, kind), news(FAR, name)) == refused


def test_a_peering_goes_on_if_the_roles_in_force_now_allow_it() -> None:
    here = rules()
    here.enter(PEER, "leaf-1")
    assert here.objection_to_peer(PEER, None) is None
    assert here.objection_to_peer(PEER, news(PEER, "leaf-1")) is None
    told = here.objection_to_peer(PEER, news(PEER, "leaf-1", forwarding=True))
    assert told is not None
    assert "is that of a leaf" in told
    here.renew(Roles.of({"roles": {}}), "core-1")
    told = here.objection_to_peer(PEER, news(PEER, "leaf-1"))
    assert told is not None
    assert told.startswith("there is no role for the name 'leaf-1'")


def test_other_roles_and_another_name_count_from_now_on() -> None:
    here, free = rules("core-1"), Authorisation()
    here.renew(here.roles, "leaf-1")
    assert (here.name, here.own_role.publish) == ("leaf-1", ("/in/",))
    here.renew(Roles.of({"roles": {}}), "leaf-1")
    assert here.own_role is NOTHING
    here.renew(None, None)
    assert (here.roles, here.name, here.own_role) == (None, None, EVERYTHING)
    free.renew(rules().roles, "core-1")
    assert free.own_role.relay


def test_messages_are_for_those_whose_role_may_hear_them() -> None:
    here = rules()
    leaf, core = here.roles.roles["leaf"], here.roles.roles["core"]
    assert here.may_hear(leaf, header("/out/a"))
    assert not here.may_hear(leaf, header("/in/a"))
    assert here.may_hear(core, header(MASTER, PackedType.COMMAND))
    assert not here.may_hear(leaf, header(MASTER, PackedType.COMMAND))
    assert here.may_hear(leaf, header(MASTER, PackedType.COMMAND, PEER)), "it is an answer"
    assert not here.may_hear(leaf, header("/in/a", to=PEER))


def test_what_this_endpoint_may_not_do_is_refused_where_the_mistake_is_made() -> None:
    here = rules("leaf-1")
    here.check_publish("/in/a")
    here.check_subscribe(["/out/", "/out/b"])
    here.check_subscribe([""])
    with pytest.raises(NotAllowed) as raised:
        here.check_publish("/out/a")
    assert str(raised.value) == "'leaf-1' (role leaf) may not publish on '/out/a'"
    with pytest.raises(NotAllowed) as raised:
        here.check_subscribe(["/out/", "/in/"])
    assert str(raised.value) == "'leaf-1' (role leaf) may not subscribe to '/in/'"
