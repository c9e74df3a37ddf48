"""Roles: what a table says, what it must not say, and which topics and stores follow from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from handshake import roles as roles_module
from handshake.keyfiles import load_roles
from handshake.roles import ALL_RIGHTS, EVERYTHING, NOTHING, Pattern, Rights, Role, Roles
from wire.errors import RolesError
from wire.topics import group_topic, is_minimal, log_topics, minimal, proxy_topic, store_topics

TABLE = """
default = "guest"

[names]
"core-*" = "core"
"core-7" = "guest"
"sensor-*" = "sensor"
"sensor-lab-*" = "logger"

[roles.core]
relay = true
publish = [""]
subscribe = [""]
lead = ["*"]

[roles.sensor]
publish = ["/sensors/", "/alarms"]
read = ["settings"]
write = ["readings", "day-*"]

[roles.logger]
subscribe = ["/sensors/"]

[roles.guest]
subscribe = ["/public/"]
"""


def test_the_longest_name_that_fits_gives_the_role() -> None:
    roles = Roles.parse(TABLE)
    names = ("core-1", "core-7", "core", "sensor-1", "sensor-lab-1", "", None)
    found = [roles.role_name(name) for name in names]
    assert found == ["core", "guest", "guest", "sensor", "logger", "guest", "guest"]


def test_whoever_has_no_role_and_no_default_is_nobody() -> None:
    roles = Roles.parse('[names]\n"a" = "a"\n[roles.a]\n')
    assert roles.find("a") == Role()
    assert roles.find("b") is None
    assert roles.find(None) is None


def test_a_star_in_a_certificate_s_name_is_no_star_of_the_table() -> None:
    roles = Roles.parse('[names]\n"a*" = "few"\n"b" = "few"\n[roles.few]\n')
    assert roles.find("*") is None
    assert roles.find("b*") is None


def test_what_a_role_does_not_permit_is_forbidden() -> None:
    assert not NOTHING.may_publish("")
    assert not NOTHING.permitted(("",))
    assert NOTHING.rights("store") == Rights()
    assert not NOTHING.relay
    assert Role(subscribe=("XXXX",)).permitted(("",)) == ("XXXX",)
    assert EVERYTHING.permitted(("", "b", "a")) == ("", "b", "a"), "as it is"


def test_everybody_may_do_everything_without_roles() -> None:
    assert EVERYTHING.may_publish("/any")
    assert EVERYTHING.permitted(("/a", "/b")) == ("/a", "/b")
    assert EVERYTHING.rights("store") == ALL_RIGHTS
    assert EVERYTHING.relay


def test_rights_for_a_store_follow_its_name() -> None:
    sensor, core = (Roles.parse(TABLE).roles[name] for name in ("sensor", "core"))
    assert sensor.rights("readings") == Rights(write=True)
    assert sensor.rights("day-1") == Rights(write=True)
    assert sensor.rights("settings") == Rights(read=True)
    assert sensor.rights("readings2") == Rights()
    assert core.rights("any") == ALL_RIGHTS, "to lead is to read and to write"


READER, WRITER, LEADER = (
    Role(read=(Pattern("s", is_whole=True),)),
    Role(write=(Pattern("s", is_whole=True),)),
    Role(lead=(Pattern("s", is_whole=True),)),
)


def test_only_a_leader_speaks_for_a_store_and_hears_what_it_is_asked() -> None:
    master, clone = store_topics("s")
    keeper, reader, follower = log_topics("s")
    answers = (proxy_topic("s"), reader, follower)
    assert all(LEADER.may_command(topic) for topic in (master, keeper, clone, *answers))
    assert [LEADER.may_hear(master), READER.may_hear(master), WRITER.may_hear(keeper)] == [1, 0, 0]
    for role in (READER, WRITER, NOTHING):
        assert role.may_command(master), "masters say themselves what they do not take"
        assert role.may_command(keeper)
        assert not any(role.may_command(topic) for topic in answers)
    assert READER.may_command(clone), "a proxy asks clones"
    assert not WRITER.may_command(clone)


def test_replicas_of_a_group_say_what_they_do_not_take_and_readers_hear_them() -> None:
    voter, other = (
        Role(vote=(Pattern("s", is_whole=True),)),
        Role(vote=(Pattern("t", is_whole=True),)),
    )
    assert voter.rights("s") == Rights(read=True, write=True, vote=True), "but not to lead alone"
    for role in (voter, LEADER, READER):
        assert role.may_hear(group_topic("s"))
    for role in (other, WRITER, NOTHING):
        assert not role.may_hear(group_topic("s")), "all that is written passes there"
    for role in (voter, other, LEADER, READER, WRITER, NOTHING):
        assert role.may_command(group_topic("s"))
    assert not voter.may_hear(store_topics("s")[0]), "that is the master's"
    assert [role.may_command(proxy_topic("s")) for role in (voter, LEADER)] == [True, True]
    _, reader, _ = log_topics("s")
    assert voter.may_command(reader), "it answers a log's proxies"
    for role in (other, READER, WRITER, NOTHING):
        assert not role.may_command(proxy_topic("s")), "it may not answer for the group"


def test_copies_are_sent_to_readers_and_answers_to_writers_too() -> None:
    _, clone = store_topics("s")
    _, reader, follower = log_topics("s")
    assert all(READER.may_hear(topic) for topic in (clone, follower, reader, proxy_topic("s")))
    assert all(WRITER.may_hear(topic) for topic in (reader, proxy_topic("s")))
    assert not any(WRITER.may_hear(topic) for topic in (clone, follower))
    assert not any(READER.may_hear(topic) for topic in store_topics("other"))


STAR = "a star stands at the end, or nowhere"
LIST = 'write a list of texts, as ["a", "b"]'
FLAG = "say true or false"
RESERVED = "the segment <$> of topic '<$>' is reserved: choose another name for it"
BELOW = "a path means all that is below it: no star, and no dots"

MISTAKES = {
    "no TOML": (
        "[roles",
        "the roles are no TOML: Expected ']' at the end of a table declaration"
        " (at end of document)",
    ),
    "depth": ("roles = " + "[" * 5_000, "these are no roles: they are nested too deep"),
    "an unknown table": (
        "[role.a]",
        "the roles: unknown key 'role'; there are default, names, roles",
    ),
    "an unknown key": (
        "[roles.a]\npublsih = []\nzzz = 1",
        "role 'a': unknown key 'publsih'; there are publish, subscribe, read, write, lead, vote,"
        " relay, observe, operate, hold",
    ),
    "a text for a list": ('[roles.a]\npublish = "/a"', f"role 'a': publish is '/a'; {LIST}"),
    "a number for a list": ("[roles.a]\nwrite = 3", f"role 'a': write is 3; {LIST}"),
    "a number in a list": ("[roles.a]\nread = [1]", f"role 'a': read is [1]; {LIST}"),
    "a text for stores": ('[roles.a]\nlead = "s"', f"role 'a': lead is 's'; {LIST}"),
    "a number for a flag": ("[roles.a]\nrelay = 1", f"role 'a': relay is 1; {FLAG}"),
    "a text for a flag": ('[roles.a]\nobserve = "x"', f"role 'a': observe is 'x'; {FLAG}"),
    "a list for a flag": ("[roles.a]\noperate = []", f"role 'a': operate is []; {FLAG}"),
    "a reserved topic": ('[roles.a]\npublish = ["<$>"]', f"role 'a': publish: {RESERVED}"),
    "a reserved wish": ('[roles.a]\nsubscribe = ["<$>"]', f"role 'a': subscribe: {RESERVED}"),
    "a star inside": ('[roles.a]\nread = ["a*b"]', f"role 'a': read: 'a*b' is no name: {STAR}"),
    "an empty store": ('[roles.a]\nwrite = [""]', f"role 'a': write: '' is no name: {STAR}"),
    "a star in a path": ('[roles.a]\nread = ["s:/x*"]', f"role 'a': read: 's:/x*': {BELOW}"),
    "a path upwards": ('[roles.a]\nread = ["s:/../x"]', f"role 'a': read: 's:/../x': {BELOW}"),
    "a path that stays": ('[roles.a]\nread = ["s:/./x"]', f"role 'a': read: 's:/./x': {BELOW}"),
    "a path to vote": (
        '[roles.a]\nvote = ["s:/x"]',
        "role 'a': vote: a store is led as a whole: leave the path out",
    ),
    "a path to lead": (
        '[roles.a]\nlead = ["t", "s:/x"]',
        "role 'a': lead: a store is led as a whole: leave the path out",
    ),
    "a role that is none": ("[roles]\na = 1", "role 'a' is 1: write a table [roles.a]"),
    "roles that are none": ("roles = 1", "roles is 1: write a table [roles]"),
    "names that are none": ("names = []", "names is []: write a table [names]"),
    "a name without a role": (
        '[names]\n"a" = "b"',
        "names: 'a': there is no role 'b'; there are: none",
    ),
    "a name with a wrong role": (
        '[names]\n"a" = "b"\n[roles.d]\n[roles.c]',
        "names: 'a': there is no role 'b'; there are: c, d",
    ),
    "a name with a list": (
        '[names]\n"a" = ["b"]',
        "'a' has the role ['b']: give the name of a role",
    ),
    "a default with a list": ("default = []", "'default' has the role []: give the name of a role"),
    "a default that is none": (
        'default = "b"\n[roles.a]',
        "default: there is no role 'b'; there are: a",
    ),
    "a star inside a name": ('[names]\n"*a" = "b"\n[roles.b]', f"'*a' is no name: {STAR}"),
    "too many topics": (
        f"[roles.a]\npublish = {[f'/{n}' for n in range(1025)]}",
        "role 'a': publish has 1025 items; 1024 are possible",
    ),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_place(text, said) -> None:
    with pytest.raises(RolesError) as caught:
        Roles.parse(text)
    assert str(caught.value) == said


def test_as_much_as_is_possible_is_taken(monkeypatch) -> None:
    topics = [f"/{n:04}/" for n in range(roles_module.ITEMS_MAX)]
    assert Roles.of({"roles": {"a": {"publish": topics}}}).roles["a"].publish == tuple(topics)
    monkeypatch.setattr(roles_module, "ROLES_MAX", 2)
    monkeypatch.setattr(roles_module, "NAMES_MAX", 3)
    some = dict.fromkeys("ab", NOTHING)
    assert Roles(some, dict.fromkeys("xyz", "a"))
    for roles, names in (({**some, "c": NOTHING}, {}), (some, dict.fromkeys("wxyz", "a"))):
        with pytest.raises(RolesError, match="up to 2 roles and 3 names are possible"):
            Roles(roles, names)


def test_each_key_of_a_role_means_itself() -> None:
    for key in ("publish", "subscribe"):
        role = Roles.of({"roles": {"a": {key: ["/x"]}}}).roles["a"]
        assert role == replace(Role(), **{key: ("/x",)})
    for key in ("read", "write", "lead", "vote"):
        role = Roles.of({"roles": {"a": {key: ["s", "t*"]}}}).roles["a"]
        meant = (Pattern("s", is_whole=True), Pattern("t", is_whole=False))
        assert role == replace(Role(), **{key: meant})
    for key in ("relay", "observe", "operate"):
        role = Roles.of({"roles": {"a": {key: True}}}).roles["a"]
        assert role == replace(Role(), **{key: True})
        assert Roles.of({"roles": {"a": {key: False}}}).roles["a"] == Role()
    assert Roles.of({"roles": {"a": {"hold": False}}}).roles["a"] == replace(Role(), hold=False)


def test_a_role_makes_publishers_wait_unless_it_says_otherwise_and_what_has_none_never() -> None:
    assert Role().hold
    assert EVERYTHING.hold
    assert not NOTHING.hold


def test_a_path_in_a_store_is_read_by_its_names() -> None:
    read = ["f:/a//b/", "g*:/", "h"]
    found = Roles.of({"roles": {"a": {"read": read}}}).roles["a"].read
    assert [(each.beginning, each.is_whole, each.path) for each in found] == [
        ("f", True, ("a", "b")),
        ("g", False, ()),
        ("h", True, None),
    ]
    assert not found[0].covers("ff", ("a", "b"))
    assert not found[0].covers("f", ("a",))
    assert found[0].covers("f", ("a", "b", "c"))
    assert found[1].covers("gx", ())


def test_roles_without_names_and_names_without_a_default() -> None:
    roles = Roles.parse("[roles.a]")
    assert (roles.default, dict(roles.names), list(roles.roles)) == (None, {}, ["a"])
    assert Roles.parse('default = "a"\n[roles.a]').find("anybody") == Role()
    assert Roles.of({}).roles == {}


def test_commands_of_services_are_taken_of_whoever_has_any_right() -> None:
    assert not NOTHING.may_command("mesh/<$>/admin")
    assert Role(publish=("/a",)).may_command("mesh/<$>/admin")
    assert not NOTHING.may_hear("mesh/<$>/admin")
    assert EVERYTHING.may_hear("mesh/<$>/admin")
    one_store = Role(read=(Pattern("XXXX", is_whole=True),), write=(Pattern("X", is_whole=False),))
    assert not one_store.may_hear("mesh/<$>/admin")
    assert not one_store.may_hear("/of/no/store")


def test_roles_are_read_from_a_file_and_its_name_stands_in_the_error(tmp_path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(TABLE)
    assert load_roles(path) == Roles.parse(TABLE) == load_roles(Roles.parse(TABLE))
    path.write_text("[roles.a]\nwrong = 1")
    with pytest.raises(RolesError, match=r"roles\.toml.*unknown key 'wrong'"):
        load_roles(path)
    with pytest.raises(RolesError, match=r"cannot read the roles file .*No such file"):
        load_roles(tmp_path / "none.toml")


def test_roles_are_taken_as_dicts_too() -> None:
    roles = load_roles({"names": {"a": "r"}, "roles": {"r": {"publish": ["/a"], "relay": True}}})
    assert roles.find("a") == Role(publish=("/a",), relay=True)


# Properties.

topics = st.text(alphabet="ab/", max_size=5)
prefixes = st.lists(topics, max_size=4).map(minimal)


@given(prefixes, prefixes, topics)
def test_what_is_permitted_of_a_wish_is_what_both_wish_and_role_match(wanted, allowed, topic):
    permitted = Role(subscribe=allowed).permitted(wanted)
    assert topic.startswith(permitted) == (topic.startswith(wanted) and topic.startswith(allowed))
    assert is_minimal(permitted)


names = st.text(alphabet="ab-", min_size=1, max_size=4)
patterns = st.tuples(names, st.sampled_from(["", "*"])).map("".join)


starred = st.text(alphabet="ab-*", min_size=1, max_size=4)
"""Names in certificates, which may have a star in them: one that fits no more than itself."""


@given(st.dictionaries(patterns, st.sampled_from(["r0", "r1", "r2"]), max_size=6), starred)
def test_a_name_has_the_role_of_the_longest_pattern_that_fits_it(table, name):
    roles = Roles(dict.fromkeys(("r0", "r1", "r2"), NOTHING), table)
    fitting = [
        (not each.endswith("*"), len(each), role)
        for each, role in table.items()
        if (name.startswith(each[:-1]) if each.endswith("*") else name == each)
    ]
    assert roles.role_name(name) == (max(fitting)[2] if fitting else None)


@given(st.lists(patterns, max_size=3), st.lists(patterns, max_size=3), names)
def test_more_patterns_never_permit_less(some, more, store):
    def role(texts: list[str]) -> Role:
        found = tuple(map(Pattern.parse, texts))
        return Role(read=found, write=found, lead=found)

    before, after = role(some).rights(store), role([*some, *more]).rights(store)
    assert after == before or before == Rights()
