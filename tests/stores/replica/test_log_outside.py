"""Proxies of a log's group: they append once, and read all that is committed at its leader."""

from __future__ import annotations

import pytest

from handshake.access import Right
from stores.group.words import OUTSIDE, Answered, Ask, Barred, Declined, Order
from stores.log.bodies import ChangeRetention
from stores.log.messages import Fetch, Found, QueryFailed, StateQuery
from stores.log.partitions import Retention
from stores.log.questions import REPEAT_TICKS
from stores.outcomes import Applied, Refused
from stores.replica.logs import readers as readers_module
from stores.table.bodies import Register
from tests.stores.replica.log_proxies import LogAsker, LogProxyMesh
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId


@pytest.fixture
def mesh() -> LogProxyMesh:
    """A group of three that has a leader."""
    found = LogProxyMesh()
    found.lead()
    return found


def leader_of(mesh: LogProxyMesh) -> str:
    return next(name for name, core in mesh.cores.items() if core.is_leader)


def asked(mesh: LogProxyMesh) -> list[str]:
    """Say whom questions are under way to."""
    letters = [(to, mesh.codec.decode(payload).content) for _, to, payload in mesh.mail]
    return [to for to, each in letters if isinstance(each, Ask) and isinstance(each.request, Fetch)]


def applied(asker: LogAsker, number: int) -> int:
    result = asker.outcomes[number]
    assert isinstance(result, Applied), result
    return result.revision


def test_a_proxy_appends_and_reads_what_is_committed(mesh: LogProxyMesh) -> None:
    asker = mesh.proxy()
    numbers = [asker.append(each, 1) for each in ("one", "two")]
    mesh.work()
    assert [applied(asker, each) for each in numbers] == [0, 1]
    number = asker.fetch((1, 0))
    assert asked(mesh) == [leader_of(mesh)], "no other one has all of it"
    mesh.work()
    assert asker.values(number) == ["one", "two"]
    state = asker.state()
    mesh.work()
    assert asker.told_state(state).ends == (0, 2)
    found = asker.find(0)
    mesh.work()
    assert asker.answers[found] == Found(found, (0, 0))


def test_what_is_read_the_leader_says_once_a_majority_confirms_it(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    mesh.cut = {name for name in mesh.cores if name != leader}
    number = asker.state()
    mesh.ticks(2)
    assert number not in asker.answers
    mesh.cut = set()
    mesh.ticks(3)
    assert number in asker.answers


def test_a_fetch_waits_for_what_comes_and_is_told_when_its_time_is_over(
    mesh: LogProxyMesh,
) -> None:
    asker = mesh.proxy()
    waiting = asker.fetch((0, 0), (1, 0), wait_ticks=20)
    late = asker.fetch((1, 0), wait_ticks=3)
    mesh.ticks(2)
    assert not asker.answers
    mesh.ticks(3)
    assert asker.values(late) == []
    asker.append("it", 0)
    mesh.work()
    assert asker.values(waiting) == ["it"]


def test_what_was_trimmed_is_told_at_once(mesh: LogProxyMesh) -> None:
    asker = mesh.proxy()
    for value in range(3):
        asker.append(value)
    asker.core.requests.trim(0, 2)
    asker.flush()
    mesh.work()
    number = asker.fetch((0, 1), wait_ticks=50)
    mesh.work()
    found = asker.answers[number]
    assert (found.runs, found.offsets) == ((), (2,))


def test_who_has_read_what_is_not_there_is_told_at_once(mesh: LogProxyMesh) -> None:
    asker = mesh.proxy()
    asker.append("it")
    mesh.work()
    number = asker.fetch((0, 2), (1, 0), wait_ticks=50)
    mesh.work()
    found = asker.answers[number]
    assert (found.runs, found.offsets) == ((), (1, 0))


def test_what_makes_no_sense_is_answered_with_the_error(mesh: LogProxyMesh) -> None:
    asker = mesh.proxy()
    numbers = [asker.fetch((7, 0)), asker.fetch((0, 0), (7, 0))]
    mesh.work()
    for number in numbers:
        failed = asker.answers[number]
        assert isinstance(failed, QueryFailed)
        assert failed.code is ErrorCode.NO_SUCH_PARTITION


def test_all_is_asked_of_the_next_leader_at_once(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    asker.append("before")
    mesh.work()
    waiting = asker.fetch((0, 1), wait_ticks=50)
    mesh.work()
    mesh.take(leader, mesh.cores[leader].close("it is closed"))
    del mesh.cores[leader]
    number = asker.append("after")
    mesh.lead_again()
    mesh.ticks(3)
    assert applied(asker, number) == 1
    assert asker.values(waiting) == ["after"], "it did not wait for the time of a question"


def test_a_leader_that_steps_down_has_nobody_wait(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    number = asker.fetch((0, 0), wait_ticks=50)
    mesh.work()
    heir = next(name for name in mesh.cores if name != leader)
    core = mesh.cores[leader]
    mesh.take(leader, core.begin_order(1, Order.LEAD, heir))
    mesh.ticks_until(lambda: mesh.cores[heir].is_leader)
    mesh.ticks(2)
    asker.append("it")
    mesh.ticks(3)
    assert asker.values(number) == ["it"]


def test_a_question_that_comes_again_is_answered_once(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    asker.append("it")
    mesh.work()
    mesh.is_reading = False
    number = asker.fetch((0, 0))
    mesh.ticks(2 * REPEAT_TICKS + 2)
    assert len(mesh.reads) == 1, "the disk is not asked again meanwhile"
    mesh.is_reading = True
    mesh.work()
    assert asker.values(number) == ["it"]
    waiting = asker.fetch((0, 1), wait_ticks=REPEAT_TICKS)
    mesh.work()
    for payload in mesh.codec.encode(
        OUTSIDE,
        mesh.cores[leader].group,
        Ask(asker.core._first_ticket + 2 * waiting + 1, Fetch(0, ((0, 1),), 1, 5)),
    ):
        mesh.mail.append(("p", leader, payload))
    mesh.work()
    asker.append("more")
    mesh.work()
    assert asker.values(waiting) == ["more"]


def said_to(mesh: LogProxyMesh, leader: str, name: str, words: list[Ask]) -> list[object]:
    """Have an endpoint ask, and give what it is told."""
    where = mesh.where.setdefault(name, EndpointId(name.encode() * 16))
    found: list[object] = []
    for word in words:
        for payload in mesh.codec.encode(OUTSIDE, mesh.cores[leader].group, word):
            effects = mesh.cores[leader].receive(where, payload)
            found += [
                mesh.codec.decode(each.payload).content
                for each in effects
                if getattr(each, "to", None) == where
            ]
            mesh.take(leader, effects)
    return found


def test_so_many_wait_and_are_read_for_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = LogProxyMesh("a")
    mesh.start()
    mesh.ticks_until(lambda: mesh.cores["a"].is_leader and len(mesh.cores["a"].machine.partitions))
    monkeypatch.setattr(readers_module, "FETCHES_MAX", 2)
    monkeypatch.setattr(readers_module, "READS_MAX", 2)
    waits = [Ask(number, Fetch(0, ((0, 0),), 1, 50)) for number in range(1, 6)]
    told = said_to(mesh, "a", "q", waits)
    assert [type(each) for each in told] == [Declined] * 3, "and ask again after a while"
    told = said_to(mesh, "a", "q", [Ask(6, Fetch(0, ((0, 0),), 1, 0))])
    assert [type(each) for each in told] == [Answered], "what does not wait is told what there is"
    asker = mesh.proxy()
    mesh.is_reading = False
    asker.append("it")
    mesh.work()
    assert len(mesh.reads) == 2
    told = said_to(mesh, "a", "q", [Ask(9, Fetch(0, ((0, 0),), 1, 50))])
    assert [type(each) for each in told] == [Declined]
    mesh.take("a", mesh.cores["a"].peer_unreachable(mesh.where["q"]))
    mail = len(mesh.mail)
    mesh.read()
    assert len(mesh.mail) == mail, "nothing is said to an endpoint that is gone"
    assert not mesh.cores["a"].readers._fetches


def test_what_waits_goes_with_its_endpoint(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    asker.fetch((0, 0), wait_ticks=50)
    mesh.work()
    mesh.take(leader, mesh.cores[leader].peer_unreachable(mesh.where["p"]))
    number = mesh.append(leader, "it")
    mesh.is_reading = False
    mesh.offset(leader, number)
    assert not mesh.reads, "nothing is read for an endpoint that is gone"


def test_a_proxy_writes_in_its_own_name_and_sets_no_rule(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    with pytest.raises(DecodeError, match="in the name of"):
        said_to(mesh, leader, "q", [Ask(1, Register(asker.core._outbox.writer))])
    with pytest.raises(DecodeError, match="only members do"):
        said_to(mesh, leader, "q", [Ask(1, ChangeRetention(Retention(count=1)))])


def test_without_a_leader_all_fails_when_patience_is_over(mesh: LogProxyMesh) -> None:
    asker = mesh.proxy(patience_ticks=30)
    mesh.cut = {"p"}
    mesh.ticks(25)
    number, question = asker.append("it"), asker.state()
    mesh.ticks(25)
    assert not asker.outcomes, "patience is counted from when it was asked"
    mesh.ticks(10)
    refused, failed = asker.outcomes[number], asker.answers[question]
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.KEEPER_UNREACHABLE
    assert isinstance(failed, QueryFailed)
    assert failed.code is ErrorCode.KEEPER_UNREACHABLE


def test_a_right_that_is_missing_is_told(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    number = asker.pose(StateQuery(1))
    ticket = asker.core._first_ticket + 2 * number + 1
    core = mesh.cores[leader]
    (payload,) = core.write(Barred(Right.READ, ticket, "it may not read l"))
    mesh.mail.clear()
    asker.run(asker.core.receive(mesh.where[leader], payload))
    failed = asker.answers[number]
    assert isinstance(failed, QueryFailed)
    assert (failed.code, failed.text) == (ErrorCode.NOT_AUTHORIZED, "it may not read l")


def test_answers_of_others_than_the_leader_are_not_taken(mesh: LogProxyMesh) -> None:
    asker, leader = mesh.proxy(), leader_of(mesh)
    other = next(name for name in mesh.cores if name != leader)
    number = asker.pose(StateQuery(1))
    ticket = asker.core._first_ticket + 2 * number + 1
    (payload,) = mesh.cores[other].write(Answered(ticket, Found(0, (5, 5))))
    asker.run(asker.core.receive(mesh.where[other], payload))
    assert number not in asker.answers
    mesh.work()
    assert asker.told_state(number).ends == (0, 0)


def test_a_proxy_is_idle_once_its_appends_have_an_outcome(mesh: LogProxyMesh) -> None:
    asker = mesh.proxy()
    asker.append("it")
    asker.run(asker.core.begin_idle(1))
    assert "1 requests have no answer from the keeper" in asker.core.explain_idle()
    assert not asker.idle
    mesh.work()
    assert asker.idle == {1}
    assert asker.core.explain_idle() == ""
    assert asker.core.statistics().role == "proxy"
    asker.run(asker.core.close("it is closed"))
    assert asker.core.entity == EntityId(mesh.where["p"], 0)
