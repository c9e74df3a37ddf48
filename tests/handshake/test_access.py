"""Access control of a port: every verb asks, and each refusal says who, what and to what."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handshake.access import Access, FileOf, Port, Right, StoreOf, permits
from handshake.principals import UNPROVEN, Principal, Proof, certified
from handshake.roles import Roles
from wire.errors import NotAllowed, RolesError

PORT = Port(
    "a port", "port.py", (Proof.CERTIFICATE,), "plain",
    {"ASK": Right.ENTER, "PUB": Right.PUBLISH, "SUB": Right.SUBSCRIBE,
     "GET": Right.READ, "PUT": Right.WRITE, "LEAD": Right.LEAD,
     "PASS": Right.RELAY, "WAIT": Right.HOLD, "LOOK": Right.OBSERVE},
)  # fmt: skip
NAMES = st.lists(st.sampled_from("ab"), max_size=3).map(tuple)
TOPICS = st.text("ab/", max_size=4)


def roles_of(**role: object) -> Roles:
    return Roles.of({"names": {"ann": "some"}, "roles": {"some": role}})


def access(roles: Roles | None, notes: list[str] | None = None) -> Access:
    return Access(PORT, lambda: roles, ([] if notes is None else notes).append)


ANN = Principal("ann", Proof.TOKEN)


@given(NAMES, NAMES, st.sampled_from(["files", "other"]), st.sampled_from(["read", "write"]))
def test_a_path_means_itself_and_what_is_below_it(given_path, asked, store, key) -> None:
    roles = roles_of(**{key: [f"files:/{'/'.join(given_path)}"]})
    fits = store == "files" and asked[: len(given_path)] == given_path
    for verb, right in (("GET", "read"), ("PUT", "write")):
        expected = fits and key == right
        assert access(roles).may(ANN, verb, FileOf(store, asked)) == expected
    assert not roles.roles["some"].rights("files").read, "a path is no right to the whole store"
    assert not roles.roles["some"].rights("files").write


@given(TOPICS, TOPICS, st.sampled_from(["publish", "subscribe"]))
def test_topics_are_permitted_by_their_beginnings(prefix, topic, key) -> None:
    roles = roles_of(**{key: [prefix]})
    for verb, right in (("PUB", "publish"), ("SUB", "subscribe")):
        expected = key == right and topic.startswith(prefix)
        assert access(roles).may(ANN, verb, topic) == expected


def test_whoever_leads_a_store_reads_and_writes_its_files() -> None:
    guard = access(roles_of(lead=["fi*"]))
    assert guard.may(ANN, "GET", FileOf("files", ("a",)))
    assert guard.may(ANN, "PUT", FileOf("files", ()))
    assert not guard.may(ANN, "PUT", FileOf("other", ()))


def test_without_a_role_nothing_is_permitted_and_without_roles_everything() -> None:
    eve = Principal("eve", Proof.TOKEN)
    for verb, thing in (("ASK", ""), ("PUB", "t"), ("GET", FileOf("files", ()))):
        assert not access(roles_of()).may(eve, verb, thing)
        assert access(None).may(eve, verb, thing)
    assert access(roles_of()).may(ANN, "ASK", "")


def test_a_refusal_says_who_what_and_to_what() -> None:
    notes: list[str] = []
    guard = access(roles_of(), notes)
    with pytest.raises(NotAllowed, match=r"'ann' \(role some\) may not PUT 'files:/a/b' at a port"):
        guard.check(ANN, "PUT", FileOf("files", ("a", "b")))
    with pytest.raises(NotAllowed):
        guard.check(Principal("eve", Proof.TOKEN), "PUB", "/t")
    assert notes == [
        "'ann' (role some) may not PUT 'files:/a/b' at a port",
        "'eve' (without a role) may not PUB '/t' at a port",
    ]
    assert guard.refused == 2
    text = str(access(None, notes).refuse(UNPROVEN, "PUB", "/t"))
    assert text == notes[2] == "anonymous (without a role) may not PUB '/t' at a port"


def test_what_is_permitted_is_no_refusal() -> None:
    notes: list[str] = []
    access(roles_of(publish=["/t"]), notes).check(ANN, "PUB", "/t/a")
    assert notes == []


@pytest.mark.parametrize(("verb", "key"), [("GET", "read"), ("PUT", "write"), ("LEAD", "lead")])
def test_a_store_as_a_whole_has_each_right_by_itself(verb, key) -> None:
    guard = access(roles_of(**{key: ["files"]}))
    assert guard.may(ANN, verb, StoreOf("files"))
    assert not guard.may(ANN, verb, StoreOf("other"))
    for other in {"GET", "PUT", "LEAD"} - {verb}:
        assert guard.may(ANN, other, StoreOf("files")) == (key == "lead")


@pytest.mark.parametrize(
    ("verb", "key"), [("PASS", "relay"), ("WAIT", "hold"), ("LOOK", "observe")]
)
def test_what_needs_no_object_is_permitted_by_its_own_right_alone(verb, key) -> None:
    assert access(roles_of(**{key: True})).may(ANN, verb, "")
    others = {"relay": True, "observe": True, "operate": True, key: False}
    assert not access(roles_of(**others)).may(ANN, verb, "")


@pytest.mark.parametrize(
    ("verb", "thing"),
    [("PUB", StoreOf("s")), ("SUB", FileOf("s", ())), ("GET", "s"), ("LEAD", FileOf("s", ())),
     ("PUT", "s")],
)  # fmt: skip
def test_a_verb_at_the_wrong_kind_of_object_is_refused(verb, thing) -> None:
    everything = roles_of(publish=[""], subscribe=[""], lead=["*"])
    assert not access(everything).may(ANN, verb, thing)
    assert permits(everything.roles["some"], PORT.asks[verb], thing) is False


def test_anonymous_is_a_name_and_fits_no_star() -> None:
    starred = Roles.of({"names": {"a*": "some"}, "roles": {"some": {}}})
    assert starred.find(None) is None
    named = Roles.of({"names": {"anonymous": "some"}, "roles": {"some": {}}})
    assert named.find(UNPROVEN.name) is not None


def test_a_name_that_its_holder_has_chosen_proves_nothing() -> None:
    assert certified("core-1", can_trust_names=False) == UNPROVEN
    assert certified(None, can_trust_names=True) == UNPROVEN
    assert certified("core-1", can_trust_names=True) == Principal("core-1", Proof.CERTIFICATE)


def test_a_principal_is_written_by_its_name() -> None:
    assert [(each.text, str(each)) for each in (UNPROVEN, ANN)] == [
        ("anonymous", "anonymous"),
        ("ann", "'ann'"),
    ]


@pytest.mark.parametrize(
    "role", [{"lead": ["files:/a"]}, {"read": ["files:/a*"]}, {"write": ["files:/../b"]}]
)
def test_what_cannot_be_a_path_is_refused(role) -> None:
    with pytest.raises(RolesError):
        roles_of(**role)
