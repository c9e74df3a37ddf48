"""What is remembered of others: for how long, how much, and what of it ends early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint.mesh.authorisation import Authorisation, Forgeries
from endpoint.mesh.memory import UNREACHABLE_GRACE_SECONDS, Memory
from endpoint.mesh.news import ANNOUNCEMENT_SIZE_MAX, size_of
from endpoint.mesh.topology import Topology
from wire.clocks import LamportTime, VectorTime
from wire.errors import ErrorCode, RemoteProtocolError
from wire.identifiers import EndpointId
from wire.messages import Announcement, Seal

HERE, PEER, ONE, OTHER = (EndpointId(bytes([n]) * 6 + b"\x40" * 10) for n in range(1, 5))
SIGNING = EndpointId(b"\x09" * 6 + b"\x80" * 10)


class Proof:
    """Believes every seal until the moment that its key says."""

    def __init__(self) -> None:
        self.now = 0

    def seal(self, announcement: Announcement) -> Announcement:
        return announcement

    def objection(self, announcement: Announcement) -> str | None:
        return None

    def end_of(self, announcement: Announcement) -> int | None:
        return None if announcement.seal is None else announcement.seal.key[0]

    def has_ended(self, end_ns: int) -> bool:
        return self.now > end_ns

    def verifier(self, seal: Seal):
        raise AssertionError("a memory looks at no frames")


def memory(proof: Proof | None = None, endpoints_max: int = 10) -> tuple[Memory, Topology]:
    topology = Topology(HERE)
    made = Memory(topology, Authorisation(), Forgeries(proof), proof, endpoints_max)
    return made, topology


def says(origin: EndpointId, time: int = 1, **more) -> Announcement:
    return replace(Announcement(origin, LamportTime(time), (), (), (), True), **more)


def sealed(time: int, end: int) -> Announcement:
    return says(SIGNING, time, seal=Seal(bytes([end]), (), b"", b""))


def test_news_is_what_is_newer_than_what_is_known() -> None:
    remembered, topology = memory()
    first, second = says(ONE, 2), says(OTHER, 5)
    assert remembered.learn(PEER, [first, second]) == (first, second)
    newer = says(OTHER, 6)
    assert remembered.learn(PEER, [says(ONE, 1), says(ONE, 2), newer]) == (newer,)
    assert remembered.knowledge() == VectorTime({ONE: LamportTime(2), OTHER: LamportTime(6)})
    assert topology.announcements == {ONE: first, OTHER: newer}


def test_what_is_forged_or_renamed_is_not_remembered() -> None:
    remembered, topology = memory()
    assert remembered.learn(PEER, [sealed(1, 9)]) == (), "nothing here can look at seals"
    assert remembered.learn(PEER, [says(ONE, name="one")])
    assert remembered.learn(PEER, [says(ONE, 2, name="two")]) == ()
    assert list(topology.announcements) == [ONE]
    assert remembered.learn(PEER, [says(ONE, 2, name="one")])


@pytest.mark.parametrize("beyond", [0, 1])
def test_one_announcement_has_a_bound_and_may_be_as_large(beyond: int) -> None:
    remembered, _ = memory()
    topic = "x" * (ANNOUNCEMENT_SIZE_MAX - size_of(says(ONE, subscriptions=("",))) + beyond)
    large = says(ONE, subscriptions=(topic,))
    if not beyond:
        assert remembered.learn(PEER, [large]) == (large,)
        return
    with pytest.raises(RemoteProtocolError, match=f"{ANNOUNCEMENT_SIZE_MAX + 1} bytes") as raised:
        remembered.learn(PEER, [large])
    assert raised.value.code is ErrorCode.LIMIT_EXCEEDED


def test_so_many_endpoints_are_remembered_and_those_go_on() -> None:
    remembered, topology = memory(endpoints_max=2)
    assert remembered.learn(PEER, [says(PEER), says(ONE), says(OTHER)]) == (says(PEER), says(ONE))
    assert remembered.learn(PEER, [says(ONE, 2), says(OTHER)]) == (says(ONE, 2),)
    remembered.expire(0, [PEER])
    remembered.expire(1_000, [PEER])
    assert remembered.learn(PEER, [says(OTHER)])
    assert list(topology.announcements) == [ONE, OTHER]


def test_all_of_them_together_have_a_bound_and_each_counts_as_it_is_now(monkeypatch) -> None:
    large, small = ("x" * 1_000,), ("x" * 10,)
    one, other = says(ONE, subscriptions=large), says(OTHER, subscriptions=large)
    monkeypatch.setattr("endpoint.mesh.memory.ANNOUNCEMENTS_SIZE_MAX", 2 * size_of(one))
    remembered, _ = memory()
    assert remembered.learn(PEER, [one, other]), "exactly so much"
    assert remembered.learn(PEER, [says(PEER)]) == ()
    assert remembered.learn(PEER, [says(ONE, 2, subscriptions=("x" * 1_001,))]) == ()
    assert remembered.learn(PEER, [says(ONE, 2, subscriptions=small), says(PEER)])
    rest = 990 - size_of(says(PEER, subscriptions=("",)))
    assert remembered.learn(PEER, [says(PEER, 2, subscriptions=("x" * (rest + 1),))]) == ()
    assert remembered.learn(PEER, [says(PEER, 2, subscriptions=("x" * rest,))])
    for origin in (ONE, OTHER, PEER):
        remembered.expire(0, [origin])
        remembered.expire(1_000, [origin])
    assert remembered.learn(PEER, [one, other]), "all of it is free again"
    assert remembered.learn(PEER, [says(PEER)]) == ()


def test_an_absence_is_over_after_the_grace_time_and_not_before() -> None:
    remembered, topology = memory()
    remembered.learn(PEER, [says(ONE), says(OTHER)])
    assert remembered.expire(5, [ONE]) == (False, False)
    assert remembered.expire(5 + UNREACHABLE_GRACE_SECONDS, [ONE, OTHER]) == (False, False)
    assert remembered.expire(6 + UNREACHABLE_GRACE_SECONDS, [ONE, OTHER]) == (True, False)
    assert list(topology.announcements) == [OTHER]
    remembered.learn(PEER, [says(ONE)])
    assert remembered.expire(7 + UNREACHABLE_GRACE_SECONDS, [ONE]) == (False, False), "a new one"
    remembered.keep_all([OTHER, PEER])
    assert remembered.expire(9 + 2 * UNREACHABLE_GRACE_SECONDS, [OTHER]) == (False, False)
    assert list(topology.announcements) == [OTHER, ONE]


def test_what_is_no_longer_endorsed_is_forgotten_at_once() -> None:
    proof = Proof()
    remembered, topology = memory(proof)
    remembered.learn(PEER, [sealed(1, 3), says(ONE)])
    for proof.now in (1, 3):
        assert remembered.expire(0, []) == (False, False)
    proof.now = 4
    assert remembered.expire(0, []) == (True, True)
    assert list(topology.announcements) == [ONE]
    assert remembered.expire(0, []) == (False, False), "once"


def test_one_that_was_gone_before_its_endorsement_ends_is_forgotten_once() -> None:
    proof = Proof()
    remembered, _ = memory(proof)
    remembered.learn(PEER, [sealed(1, 3)])
    remembered.expire(0, [SIGNING])
    assert remembered.expire(1_000, [SIGNING]) == (True, False)
    proof.now = 9
    assert remembered.expire(1_001, []) == (False, False)


def test_a_later_endorsement_counts_in_place_of_the_first() -> None:
    proof = Proof()
    remembered, topology = memory(proof)
    remembered.learn(PEER, [sealed(1, 3)])
    remembered.learn(PEER, [sealed(2, 8)])
    proof.now = 5
    assert remembered.expire(0, []) == (False, False)
    assert list(topology.announcements) == [SIGNING]
