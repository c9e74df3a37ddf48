"""How endpoints are called: by certificate, by themselves, and told apart by digits. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.naming import PROGRAM, Names, program_name, written
from endpoint.mesh.status import StatusCode, StatusEvent
from endpoint.mesh.topology import Topology
from tests.hostile_text import HOSTILE
from wire.clocks import LamportTime, VectorTime
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, is_label
from wire.limits import LABEL_SIZE_MAX
from wire.messages import Announcement

HERE = EndpointId.parse("00000000-0000-4000-8000-000000000000")


def an_id(digits: str) -> EndpointId:
    return EndpointId.parse(digits.ljust(32, "0"))


def named(**labels: str | None) -> EndpointCore:
    """Give a core whose peers have ids that begin so, and these labels."""
    core = EndpointCore(HERE, label="here")
    for digits, label in labels.items():
        add(core, an_id(digits.removeprefix("x")), label)
    return core


def add(core: EndpointCore, origin: EndpointId, label: str | None, name: str | None = None) -> None:
    links = (core.local,)
    said = Announcement(origin, LamportTime(9), links, (), (), True, name, label)
    core.connect(origin, VectorTime(), (said,), None, name)


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("/usr/bin/peermesh", "peermesh"),
        ("bin/store_a.py", "store_a"),
        ("/lib/peermesh/__main__.py", "peermesh"),
        ("my program.py", "my-program"),
        ("bin/run.sh", "run.sh"),
        ("a*b~c", "a-b-c"),
        ("\x1b[2J.py", "-[2J"),
        ("caf\u00e9", "caf\u00e9"),
        ("\udcff", "-"),
        ("", PROGRAM),
        ("-c", PROGRAM),
        ("-", PROGRAM),
        ("/", PROGRAM),
        ("__main__.py", PROGRAM),
        ("00000000-0000-4000-8000-000000000000", PROGRAM),
        ("x" * 100, "x" * LABEL_SIZE_MAX),
        ("\u00e9" * 100, "\u00e9" * (LABEL_SIZE_MAX // 2)),
        ("x" + "\u00e9" * 100, "x" + "\u00e9" * 31),
    ],
)
def test_a_program_gives_its_name(argument, name):
    assert program_name(argument) == name


@given(st.text() | st.text(alphabet=HOSTILE))
def test_the_name_of_any_program_is_one_that_an_endpoint_may_have(argument):
    assert is_label(program_name(argument))


def test_a_certificate_s_name_goes_first_and_reads_as_one_word():
    assert written("store-a", None) == "store-a"
    assert written("store-a", "core-1") == "core-1*"
    assert written(None, "peermesh command") == '"peermesh command"*'
    assert written(None, "") == '""*'
    assert written(None, "core*") == '"core*"*'
    assert written(None, 'a"b') == '"a\\"b"*'
    assert written(None, "\x1b[2J") == '"\\u001b[2J"*'
    assert written(None, "caf\u00e9 1") == '"caf\u00e9 1"*'
    assert written(None, None) is None


@given(st.text(alphabet=HOSTILE, min_size=1, max_size=20))
def test_no_certificate_s_name_moves_the_cursor(name):
    shown = written(None, name)
    assert not set(shown) & set(HOSTILE)


def test_an_endpoint_is_called_by_its_name_or_by_its_id():
    core = named(a1="store-a", b1=None)
    assert core.names.short(HERE) == "here"
    assert core.names.short(an_id("a1")) == "store-a"
    assert core.names.full(an_id("a1")) == f"store-a ({an_id('a1')})"
    assert core.names.short(an_id("b1")) == core.names.full(an_id("b1")) == str(an_id("b1"))
    unknown = an_id("c1")
    assert core.names.name(unknown) is None
    assert core.names.short(unknown) == core.names.full(unknown) == str(unknown)


def test_two_of_one_name_are_told_apart_by_as_many_digits_as_it_takes():
    core = named(x3f2a="store-a", x77="store-a", x3f2b="store-b")
    assert core.names.short(an_id("3f2a")) == "store-a~3f2a"
    assert core.names.short(an_id("77")) == "store-a~7700"
    assert core.names.short(an_id("3f2b")) == "store-b"
    add(core, an_id("3f2a01"), "store-a")
    assert core.names.short(an_id("3f2a")) == "store-a~3f2a00"
    assert core.names.short(an_id("3f2a01")) == "store-a~3f2a01"
    assert core.names.short(an_id("77")) == "store-a~7700"


def test_the_endpoint_itself_counts_among_those_of_a_name():
    core = named(a1="here")
    assert core.names.short(HERE) == "here~0000"
    assert core.names.short(an_id("a1")) == "here~a100"


def test_one_that_is_gone_leaves_its_name_to_the_next():
    core = named(a1="store-a", b1="store-a")
    core.disconnect(an_id("a1"), None, status="peer_lost", code=0, reason="")
    assert core.names.short(an_id("b1")) == "store-a"
    assert core.names.short(an_id("a1")) == "store-a~a100"


def test_the_names_of_certificates_count_where_an_authority_vouches_for_them():
    for is_proven, shown in ((True, "core-1*"), (False, "mine")):
        topology = Topology(HERE)
        topology.learn(Announcement(HERE, LamportTime(1), (), (), (), True, "core-1", "mine"))
        names = Names(topology, Authorisation(None, "core-1", are_names_proven=is_proven))
        assert names.short(HERE) == shown


def test_a_peer_s_certificate_counts_before_its_announcement_comes():
    core = EndpointCore(HERE, authorisation=Authorisation(None, "core-1", are_names_proven=True))
    core.connect(an_id("a1"), VectorTime(), (), None, "core-2")
    assert core.names.short(an_id("a1")) == "core-2*"


def test_a_certificate_s_name_may_have_the_mark_of_digits():
    core = EndpointCore(HERE, authorisation=Authorisation(None, "core-1", are_names_proven=True))
    add(core, an_id("a1"), None, "a~b")
    assert core.names.find('"a~b"*~a100') == core.names.find('"a~b"*') == [an_id("a1")]


def test_an_event_is_given_the_name_of_the_endpoint_that_it_is_about():
    core = named(a1="store-a", b1=None)
    for endpoint, name in ((an_id("a1"), "store-a"), (an_id("b1"), None), (None, None)):
        event = StatusEvent(StatusCode.PEER_LOST, endpoint, None, ErrorCode.NONE, "why")
        told = core.names.add_to(event)
        assert told.name == name
        assert (told is event) == (name is None)


def test_the_others_are_those_in_reach_nearest_first():
    core = named(b1="store-b", a1="store-a")
    assert core.names.others() == [an_id("a1"), an_id("b1")]


def test_an_absence_is_explained_with_names():
    core = named(a1="store-a", b1="store-b")
    text = core.names.explain_absence(an_id("c1"), core.reach)
    known = f"store-a ({an_id('a1')}), store-b ({an_id('b1')})"
    assert text == f"endpoint {an_id('c1')} is unknown; reachable are: {known}"
    core.disconnect(an_id("a1"), None, status="peer_lost", code=0, reason="")
    text = core.names.explain_absence(an_id("a1"), core.reach)
    assert text.startswith(f"endpoint store-a ({an_id('a1')}) has been heard of")
    assert text.endswith("no path to it is known")


def test_a_text_means_a_name_an_id_or_the_first_digits_of_one():
    core = named(x3f2a11="store-a", x3f2a22="store-a", b100="store-b", beef="x")
    find = core.names.find
    one, two = an_id("3f2a11"), an_id("3f2a22")
    assert find("store-b") == find("b100") == find("B1000") == [an_id("b100")]
    assert find("store-a") == find("3f2a") == find("store-a~3f2a") == [one, two]
    assert find("store-a~3f2a1") == find("3f2a1") == find(str(one)[:12]) == [one]
    assert find(str(one)) == find(one.hex()) == [one]
    assert find("store-b~3f2a") == find("store") == find("b10") == find("") == find("~") == []
    unknown = an_id("77")
    assert find(str(unknown)) == [unknown]


def test_a_name_that_looks_like_the_digits_of_another_is_no_way_to_stand_in_for_it():
    core = named(beef="store-a", a1="beef")
    assert core.names.find("beef") == [an_id("a1"), an_id("beef")]
    assert core.names.find("store-a") == [an_id("beef")]
    assert core.names.find("beef0") == [an_id("beef")]


def test_what_an_endpoint_calls_itself_does_not_count_where_a_certificate_has_the_name():
    core = EndpointCore(HERE, authorisation=Authorisation(None, "core-1", are_names_proven=True))
    add(core, an_id("a1"), "x", "core-2")
    add(core, an_id("b1"), "core-2")
    assert core.names.short(an_id("a1")) == "core-2*"
    assert core.names.short(an_id("b1")) == "core-2"
    assert core.names.find("core-2") == core.names.find("core-2*") == [an_id("a1")]
    assert core.names.find("core-2*~a100") == core.names.find("core-2~a100") == [an_id("a1")]


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=2, max_size=20, unique=True))
def test_every_short_name_means_one_endpoint(ids):
    core = EndpointCore(EndpointId(ids[0]), label="same")
    for each in ids[1:]:
        add(core, EndpointId(each), "same")
    shown = [core.names.short(EndpointId(each)) for each in ids]
    assert len(set(shown)) == len(ids)
    assert [core.names.find(each) for each in shown] == [[EndpointId(each)] for each in ids]
