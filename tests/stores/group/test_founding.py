"""Who founds a group, and who joins which one: what a replica without a group has heard decides."""

from __future__ import annotations

from stores.group.founding import Founding, Known
from stores.group.positions import MemberId
from wire.identifiers import EndpointId

ONE, OTHER = b"1" * 16, b"2" * 16
A, B, D = (MemberId(name, 1) for name in "abd")


def at(member: MemberId) -> EndpointId:
    return EndpointId(member.name.encode() * 16)


def heard(founding: Founding, member: MemberId, group: bytes | None) -> None:
    founding.hear(at(member), Known(member, group, ("a", "b")))


def test_a_replica_that_knows_no_voters_joins_any_group_and_founds_none() -> None:
    founding = Founding(D, ())
    assert founding.refusal == "no master and no group of this name was heard"
    heard(founding, A, None)
    assert founding.group is None
    assert founding.founders is None
    heard(founding, B, ONE)
    assert founding.group == ONE
    assert founding.founders is None


def test_a_replica_that_heard_two_groups_joins_none_of_them() -> None:
    for voters in ((), ("a", "b", "d")):
        founding = Founding(D, voters)
        heard(founding, A, ONE)
        heard(founding, B, OTHER)
        assert founding.group is None
        assert founding.founders is None
        assert "a, b are of different groups of this name" in (founding.refusal or "")
        founding.lose(at(B))
        founding.lose(at(B))
        assert founding.group == ONE


def test_what_is_not_declared_is_not_asked_which_group_to_join() -> None:
    founding = Founding(A, ("a", "b"))
    heard(founding, D, ONE)
    assert founding.group is None
    heard(founding, B, None)
    assert founding.founders == (A, B)
