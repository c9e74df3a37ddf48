"""Proxies of groups: what they read never goes back, what they write happens once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from handshake.access import Right
from stores.asking import REPEAT_TICKS, Questions
from stores.effects import Closed, MasterFound, MasterLost
from stores.group.words import OUTSIDE, Answered, Ask, Barred, Leads
from stores.outcomes import Applied, Refused
from stores.questions import (
    LookUpCommand,
    Question,
    ReadAnswerCommand,
    ReadRefusedCommand,
    ScanCommand,
)
from stores.quota import Quota
from stores.replica import outsiders as outsiders_module
from stores.replica.tables.proxies import BUSY
from stores.scanning import LATEST
from stores.table.bodies import ChangeQuota, Compare, Found, Read, Register, Stamp, Write
from stores.table.rows import Rows
from stores.work import JOBS_MAX
from tests.stores.replica.proxies import INCARNATION, Asker, ProxyMesh
from tests.stores.replica.test_core import CODEC, Mesh
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

KEY = encode("k")


@pytest.fixture
def mesh() -> ProxyMesh:
    """A group of three that has a leader."""
    found = ProxyMesh()
    found.lead()
    return found


def leader_of(mesh: Mesh) -> str:
    return next(name for name, core in mesh.cores.items() if core.is_leader)


def follower_of(mesh: Mesh) -> str:
    return next(name for name, core in mesh.cores.items() if not core.is_leader)


def settled(mesh: ProxyMesh, *nearest: str, **options: int) -> Asker:
    """Give a proxy that follows the leader."""
    asker = mesh.proxy(*nearest, **options)
    mesh.work()
    return asker


def asked(mesh: ProxyMesh) -> list[str]:
    """Say whom questions are under way to."""
    letters = [(to, CODEC.decode(payload).content) for _, to, payload in mesh.mail]
    return [to for to, each in letters if isinstance(each, Ask) and isinstance(each.request, Read)]


# -- reads -----------------------------------------------------------------------------------------


def test_a_proxy_reads_from_the_nearest_replica(mesh: ProxyMesh) -> None:
    follower, leader = follower_of(mesh), leader_of(mesh)
    asker = settled(mesh, follower, leader)
    request = asker.put("a", 1)
    mesh.work()
    assert isinstance(asker.outcomes[request], Applied)
    number = asker.ask("a")
    assert asked(mesh) == [follower]
    mesh.work()
    assert asker.answer(number) == 1


def test_a_read_sees_all_that_has_a_receipt_though_the_nearest_replica_is_behind(
    mesh: ProxyMesh,
) -> None:
    follower, leader = follower_of(mesh), leader_of(mesh)
    asker = settled(mesh, follower, leader)
    mesh.cut = {follower}
    asker.put("a", 1)
    mesh.work()
    assert asker.outcomes
    mesh.cut = set()
    number = asker.ask("a")
    assert asked(mesh) == [follower]
    mesh.work()
    assert asker.answer(number) == 1


def test_a_read_never_goes_back_though_a_slower_replica_takes_over(mesh: ProxyMesh) -> None:
    leader = leader_of(mesh)
    slow, other = (name for name in "abc" if name != leader)
    asker = settled(mesh, other)
    mesh.cut = {slow}
    mesh.put(leader)
    mesh.work()
    number = asker.ask("k")
    mesh.work()
    assert asker.answers[number]
    asker.survey(slow)
    mesh.cut = {leader, other}
    number = asker.ask("k")
    mesh.ticks(3)
    assert number not in asker.answers
    assert "it is at revision 0" in asker.core.explain(number)


def test_a_question_goes_to_the_next_replica_when_one_is_silent_or_gone(mesh: ProxyMesh) -> None:
    leader = leader_of(mesh)
    silent, other = (name for name in "abc" if name != leader)
    asker = settled(mesh, silent, other)
    mesh.cut = {silent}
    number = asker.ask("k")
    mesh.work()
    assert number not in asker.answers
    mesh.ticks(REPEAT_TICKS)
    assert asker.answer(number) is None
    number = asker.ask("k")
    assert asked(mesh) == [other], "who was silent is not asked first"
    mesh.cut = {silent, other}
    mesh.work()
    asker.survey(leader)
    mesh.work()
    assert asker.answer(number) is None, "no tick has passed"


def test_a_revision_that_was_asked_for_is_waited_for(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    number = asker.ask("k", revision_min=1)
    mesh.ticks(2)
    assert number not in asker.answers
    mesh.put(leader_of(mesh))
    mesh.ticks(8)
    assert asker.answers[number]


def test_what_is_to_be_freshest_the_leader_says_once_a_majority_confirms_it(
    mesh: ProxyMesh,
) -> None:
    leader = leader_of(mesh)
    asker = settled(mesh, follower_of(mesh), leader)
    number = asker.ask("a", is_for_master=True)
    assert asked(mesh) == [leader]
    mesh.cut = {name for name in "abc" if name != leader}
    mesh.ticks(3)
    assert number not in asker.answers
    mesh.cut = set()
    mesh.ticks(3)
    assert asker.answer(number) is None


def test_a_linear_question_follows_the_lead(mesh: ProxyMesh) -> None:
    leader = leader_of(mesh)
    asker = settled(mesh)
    mesh.cut = {name for name in "abc" if name != leader}
    number = asker.ask("a", is_for_master=True)
    mesh.work()
    mesh.cut = set()
    mesh.crash(leader)
    mesh.ticks(60)
    assert asker.answer(number) is None


def test_a_group_without_a_leader_is_read_all_the_same(mesh: ProxyMesh) -> None:
    mesh.put(leader_of(mesh))
    mesh.ticks(3)
    follower = follower_of(mesh)
    for name in set("abc") - {follower}:
        mesh.crash(name)
    mesh.ticks(50)
    asker = settled(mesh, follower)
    number = asker.ask("k")
    mesh.work()
    assert asker.answers[number].rows
    assert not asker.core.statistics().is_in_touch


def test_a_replica_that_was_never_served_is_no_answer() -> None:
    mesh = ProxyMesh()
    mesh.start()
    mesh.work()
    assert all(core.group and not core.is_served for core in mesh.cores.values())
    asker = settled(mesh, "b")
    number = asker.ask("k")
    mesh.work()
    assert number not in asker.answers
    assert asker.core.explain(number).endswith("it has no data yet")


def test_a_page_is_made_in_steps_and_goes_on_where_it_ended(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    for index in range(10):
        asker.put(index, bytes(100_000))
    mesh.work()
    keys: list[bytes] = []
    start, sizes = b"", []
    for number in range(1, 9):
        asker.pose(ScanCommand(number, 0, start, None, 5, has_values=number > 1))
        mesh.work()
        answer = asker.answers[number]
        keys += answer.rows.keys
        sizes.append(len(answer.rows))
        if answer.continuation is None:
            break
        start = answer.continuation
    assert sizes == [5, 2, 2, 1]
    assert keys == [encode(index) for index in range(10)]


def page_of(asker: Asker, number: int, start: bytes, revision: int) -> int:
    asker.pose(ScanCommand(number, 0, start, None, 1, True, revision))
    return number


def test_pages_are_of_one_revision_wherever_it_is_kept(mesh: ProxyMesh) -> None:
    first, second, third = sorted(mesh.cores, key=lambda name: name == leader_of(mesh))
    asker, other = settled(mesh, first, second), settled(mesh, third, first, second, name="q")
    asker.put("a", 1)
    asker.put("b", 1)
    mesh.ticks(2)
    number = page_of(asker, 1, b"", LATEST)
    assert asked(mesh) == [first]
    mesh.work()
    after = asker.answers[number].continuation
    asker.put("b", 2)
    mesh.ticks(2)
    asker.survey(second, first)
    number = page_of(asker, 2, after, 2)
    assert asked(mesh) == [first], "it gave the last page"
    mesh.work()
    assert asker.answer(number) == 1
    number = page_of(other, 1, after, 2)
    mesh.work()
    assert other.answer(number) == 1, "others may keep it that are further away"
    number = page_of(other, 2, after, 2)
    assert asked(mesh) == [first]
    mesh.work()
    assert other.answer(number) == 1
    mesh.crash(first)
    asker.survey(second, third)
    number = page_of(asker, 3, after, 2)
    mesh.work()
    refused = asker.answers[number]
    assert isinstance(refused, ReadRefusedCommand)
    assert refused.is_gone
    assert "read from the start again" in refused.text
    number = page_of(asker, 4, b"", 3)
    mesh.work()
    assert asker.answer(number) == 1, "the revision of now is there without being kept"


@pytest.mark.parametrize(
    "question",
    [
        LookUpCommand(1, 0, KEY, has_value=True),
        ScanCommand(1, 0, b"", None, 9, has_values=True),
    ],
)
def test_an_answer_without_the_values_is_none(question: Question) -> None:
    asked, found = list[EndpointId](), list[object]()
    questions = Questions(
        lambda replica, _: asked.append(replica), lambda answer, _: found.append(answer)
    )
    one, two = EndpointId(bytes([1]) * 16), EndpointId(bytes([2]) * 16)
    questions.survey([one, two])
    questions.ask(question, is_for_master=False)
    questions.answer(one, ReadAnswerCommand(1, Rows([KEY], (), [5]), None), 5)
    assert (asked, found) == ([one, two], [])
    whole = ReadAnswerCommand(1, Rows([KEY], [KEY], [5]), None)
    questions.answer(two, whole, 5)
    assert found == [whole]


def test_one_entry_always_fits(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    asker.put("large", bytes(1_000_000))
    mesh.work()
    asker.pose(ScanCommand(1, 0, b"", None, 1_000, has_values=True))
    mesh.work()
    assert len(asker.answers[1].rows) == 1


def test_expiries_are_told_as_times_of_unix() -> None:
    mesh = ProxyMesh()
    mesh.now_ns = 10**18
    mesh.lead()
    asker = settled(mesh)
    asker.core.requests.put(encode("a"), encode(1), 10**12)
    mesh.work()
    number = asker.ask("a")
    mesh.work()
    (expires_at_ns,) = asker.answers[number].rows.expiries
    assert abs(expires_at_ns - mesh.now_ns - 10**12) <= 10**9


# -- writes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [False, True])
def test_a_write_under_way_is_done_once_by_the_next_leader(mesh: ProxyMesh, answered: bool) -> None:
    leader, asker = leader_of(mesh), settled(mesh)
    first = asker.increment("n")
    mesh.work()
    second = asker.increment("n")
    asker.flush()
    while not any(
        isinstance(CODEC.decode(payload).content, Answered) for _, _, payload in mesh.mail
    ):
        mesh.deliver(*mesh.mail.popleft())
    if answered:
        mesh.work()
    else:
        mesh.mail = type(mesh.mail)(each for each in mesh.mail if each[1] != "p")
    mesh.crash(leader)
    mesh.ticks(60)
    assert asker.outcomes == {first: Applied(1), second: Applied(2)}
    number = asker.ask("n", is_for_master=True)
    mesh.ticks(10)
    assert asker.answer(number) == 2


def test_a_write_under_way_goes_to_the_next_leader_at_once(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    asker.increment("n")
    mesh.work()
    asker.increment("n")
    asker.flush()
    mesh.mail.clear()
    leads(mesh, asker, "x", 2**40, mesh.cores["a"].group)
    asker.flush()
    _, to, payload = mesh.mail.pop()
    assert to == "x"
    assert isinstance(CODEC.decode(payload).content.request, Write)


def test_a_leader_that_steps_down_says_so_to_its_proxies(mesh: ProxyMesh) -> None:
    leader, asker = leader_of(mesh), settled(mesh)
    heir = follower_of(mesh)
    member = mesh.cores[leader].member
    _, effects = member.transfer(mesh.cores[heir].own)
    mesh.cores[leader]._carry_out(effects)
    mesh.ticks(8)
    assert leader_of(mesh) == heir
    assert [type(each) for each in asker.told] == [MasterFound, MasterLost, MasterFound]


def test_a_leader_that_closes_says_so_to_its_proxies_at_once(mesh: ProxyMesh) -> None:
    leader, asker = leader_of(mesh), settled(mesh)
    mesh.take(leader, mesh.cores.pop(leader).close("it is closed"))
    mesh.work()
    assert isinstance(asker.told[-1], MasterLost), "no tick has passed"


def test_without_a_leader_writes_fail_after_the_buffer_interval() -> None:
    mesh = ProxyMesh("a", lists={"a": "ab"})
    asker = settled(mesh, buffer_ticks=20)
    request = asker.put("a", 1)
    mesh.ticks(18)
    assert request not in asker.outcomes
    mesh.ticks(4)
    outcome = asker.outcomes[request]
    assert isinstance(outcome, Refused)
    assert outcome.code is ErrorCode.NO_SUCH_MASTER
    assert outcome.text.endswith("it was not applied")


def test_a_leader_that_was_lost_for_less_than_that_takes_what_waited(mesh: ProxyMesh) -> None:
    asker = settled(mesh, buffer_ticks=30)
    mesh.cut = {"p"}
    mesh.ticks(25)
    request = asker.put("a", 1)
    mesh.ticks(25)
    mesh.cut = set()
    mesh.ticks(10)
    assert isinstance(asker.outcomes[request], Applied)


def test_a_missing_right_ends_what_asked_for_it_and_nothing_else(mesh: ProxyMesh) -> None:
    leader = leader_of(mesh)
    asker = settled(mesh, leader)
    number, request = asker.ask("a"), asker.put("a", 1)
    asker.flush()
    own = mesh.cores[leader].own
    for _, _, payload in list(mesh.mail):
        content = CODEC.decode(payload).content
        assert isinstance(content, Ask)
        right = Right.READ if isinstance(content.request, Read) else Right.WRITE
        (answer,) = CODEC.encode(own, None, Barred(right, content.ticket, "no"))
        asker.run(asker.core.receive(mesh.where[leader], answer))
    mesh.mail.clear()
    assert asker.answers[number] == ReadRefusedCommand(number, False, "no", True)
    assert asker.outcomes[request] == Refused(ErrorCode.NOT_AUTHORIZED, "no: it was not applied")
    request = asker.put("a", 2)
    mesh.ticks(10)
    assert isinstance(asker.outcomes[request], Applied)


def test_idle_means_that_all_has_its_outcome_and_a_leader_has_answered_since(
    mesh: ProxyMesh,
) -> None:
    asker = settled(mesh)
    mesh.cut = {"p"}
    asker.put("a", 1)
    asker.run(asker.core.begin_idle(1))
    mesh.ticks(3)
    assert 1 not in asker.idle
    assert "1 writes" in asker.core.explain_idle()
    mesh.cut = set()
    mesh.ticks(12)
    assert 1 in asker.idle
    mesh.mail.clear()
    asker.run(asker.core.begin_idle(2))
    leader, term = leader_of(mesh), asker.core.statistics().epoch
    leads(mesh, asker, leader, term, mesh.cores[leader].group)
    assert 2 not in asker.idle, "that answers an earlier question"
    mesh.work()
    assert 2 in asker.idle


def test_a_closed_proxy_refuses_what_has_no_outcome(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    request = asker.put("a", 1)
    asker.run(asker.core.close("it is closed"))
    assert asker.outcomes[request].code is ErrorCode.SHUTTING_DOWN
    assert asker.told[-1] == Closed(ErrorCode.SHUTTING_DOWN, "it is closed")
    mesh.ticks(3)


# -- who is who ------------------------------------------------------------------------------------


def test_a_proxy_is_no_member(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    asker.put("a", 1)
    mesh.ticks(20)
    assert {each.member.name for each in mesh.cores[leader_of(mesh)].members()} == set("abc")


def test_a_proxy_writes_in_its_own_name_alone(mesh: ProxyMesh) -> None:
    leader = leader_of(mesh)
    other = settled(mesh, name="q")
    settled(mesh)
    for request in (
        Register(other.core.requests.writer),
        ChangeQuota(Quota(1, None)),
        Compare(1),
    ):
        (payload,) = CODEC.encode(OUTSIDE, mesh.cores[leader].group, Ask(7, request))
        with pytest.raises(DecodeError, match=r"in the name of|only members"):
            mesh.cores[leader].receive(mesh.where["p"], payload)


def test_a_late_answer_to_an_earlier_proxy_of_the_endpoint_answers_nothing(
    mesh: ProxyMesh,
) -> None:
    leader = leader_of(mesh)
    first = settled(mesh, leader)
    number = first.ask("a")
    first.put("a", 1)
    first.flush()
    while any(to == leader for _, to, _ in mesh.mail):
        mesh.deliver(*mesh.mail.popleft())
    late = [each for each in mesh.mail if each[1] == "p"]
    assert len(late) == 1, "the writer's registration waits for a majority"
    second = settled(mesh, leader, incarnation=INCARNATION + 10_000)
    mesh.cut = {"p"}
    request, again = second.put("b", 2), second.ask("b")
    assert again == number
    second.flush()
    mesh.cut = set()
    for letter in late:
        mesh.deliver(*letter)
    assert not second.answers
    mesh.ticks(15)
    assert isinstance(second.outcomes[request], Applied)


def test_an_endpoint_that_was_not_asked_answers_nothing(mesh: ProxyMesh) -> None:
    asker = settled(mesh, leader_of(mesh))
    mesh.cut = set("abc")
    number = asker.ask("a")
    found = CODEC.decode(mesh.mail[-1][2]).content
    assert isinstance(found.request, Read)
    stranger = follower_of(mesh)
    answer = Found(Stamp(1 << 60, 7), ReadAnswerCommand(number, Rows(), None))
    own, group = mesh.cores[stranger].own, mesh.cores[stranger].group
    (payload,) = CODEC.encode(own, group, Answered(found.ticket, answer))
    asker.run(asker.core.receive(mesh.where[stranger], payload))
    assert number not in asker.answers
    mesh.cut = set()
    mesh.ticks(8)
    assert asker.answer(number) is None


# -- leaders, and other groups ---------------------------------------------------------------------


def leads(mesh: ProxyMesh, asker: Asker, name: str, term: int, group: bytes) -> None:
    """Have a replica say that it leads."""
    mesh.where.setdefault(name, type(mesh.where["a"])(name.encode() * 16))
    own = mesh.cores["a"].own._replace(name=name)
    (payload,) = CODEC.encode(own, group, Leads(1, term))
    asker.run(asker.core.receive(mesh.where[name], payload))


def test_the_highest_term_leads(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    group = mesh.cores["a"].group
    leads(mesh, asker, "x", 2**40, group)
    assert asker.core.statistics().epoch == 2**40
    assert asker.told[-1] == MasterFound(EntityId(mesh.where["x"], 0), 2**40)
    leads(mesh, asker, "y", 2**40 - 1, group)
    assert asker.told[-1].master.endpoint == mesh.where["x"], "an earlier term is not followed"
    mesh.cut = set("abc")
    mesh.ticks(30)
    leads(mesh, asker, "y", 2**40 - 1, group)
    assert not asker.core.statistics().is_in_touch


def test_another_group_is_followed_once_nothing_of_the_first_one_is_there(
    mesh: ProxyMesh,
) -> None:
    asker = settled(mesh)
    leads(mesh, asker, "x", 2**40, b"h" * 16)
    assert asker.core.group == b"g" * 16, "its own leader is in touch"
    mesh.cut = set("abc")
    mesh.ticks(30)
    leads(mesh, asker, "x", 1, b"h" * 16)
    assert asker.core.group == b"g" * 16, "its leader may come back"
    mesh.ticks(20)
    leads(mesh, asker, "x", 1, b"h" * 16)
    assert asker.core.group == b"h" * 16


def test_where_all_replicas_are_of_another_group_that_is_followed_at_once() -> None:
    mesh = ProxyMesh("a", lists={"a": "a"})
    mesh.lead()
    asker = settled(mesh)
    first = asker.increment("n")
    mesh.work()
    assert asker.outcomes[first] == Applied(1)
    lost = mesh.cores["a"]
    mesh.take("a", lost.close("it is closed"))
    mesh.work()
    waiting = asker.increment("n")
    asker.flush()
    mesh.new_group = b"h" * 16
    mesh.cores["a"] = again = mesh.core(0, "a", "a", durable=False)
    mesh.take("a", again.start())
    mesh.ticks(15)
    assert asker.core.group == b"h" * 16
    assert asker.outcomes[waiting] == Applied(1), "the other group has done nothing before"
    number = asker.ask("n")
    mesh.ticks(3)
    assert asker.answer(number) == 1


# -- what proxies make a replica keep --------------------------------------------------------------


def test_questions_that_wait_for_a_majority_have_a_limit_for_each_endpoint(
    mesh: ProxyMesh,
) -> None:
    leader = leader_of(mesh)
    settled(mesh, leader)
    mesh.cut = {name for name in "abc" if name != leader}
    core = mesh.cores[leader]
    look_up = LookUpCommand(1, 0, encode("a"), True)
    for ticket in range(JOBS_MAX + 5):
        (payload,) = CODEC.encode(
            OUTSIDE, core.group, Ask(ticket, Read(Stamp(0, 0), True, look_up))
        )
        mesh.take(leader, core.receive(mesh.where["p"], payload))
    refused = [
        content
        for content in (CODEC.decode(payload).content for _, to, payload in mesh.mail if to == "p")
        if isinstance(content, Answered)
    ]
    assert [each.answer.text for each in refused] == [BUSY] * 5
    assert len(core.proxies._linear[mesh.where["p"]]) == JOBS_MAX
    mesh.take(leader, core.peer_unreachable(mesh.where["p"]))
    assert not core.proxies._linear


def test_pages_that_wait_have_a_limit_for_each_endpoint(mesh: ProxyMesh) -> None:
    leader = leader_of(mesh)
    settled(mesh, leader)
    core = mesh.cores[leader]
    page = ScanCommand(1, 0, b"", None, 1, True)
    for ticket in range(JOBS_MAX + 5):
        (payload,) = CODEC.encode(OUTSIDE, core.group, Ask(ticket, Read(Stamp(0, 0), False, page)))
        mesh.take(leader, core.receive(mesh.where["p"], payload))
    answers = [CODEC.decode(payload).content for _, to, payload in mesh.mail if to == "p"]
    assert [each.answer.text for each in answers] == [BUSY] * 5
    assert core.has_work
    mesh.take(leader, core.peer_unreachable(mesh.where["p"]))
    assert not core.has_work


def test_so_many_proxies_are_said_goodbye_to_and_no_more(
    mesh: ProxyMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outsiders_module, "PROXIES_MAX", 2)
    askers = [settled(mesh, name=name) for name in "pqr"]
    leader = leader_of(mesh)
    mesh.take(leader, mesh.cores.pop(leader).close("it is closed"))
    mesh.work()
    lost = [isinstance(asker.told[-1], MasterLost) for asker in askers]
    assert lost == [False, True, True]


# -- whatever happens ------------------------------------------------------------------------------


def fate(mesh: ProxyMesh, data: st.DataObject, kind: str) -> None:
    """Have something happen to a letter; with none under way time passes."""
    if not mesh.mail:
        mesh.tick()
        return
    index = data.draw(st.integers(0, len(mesh.mail) - 1)) if kind != "step" else 0
    letter = mesh.mail[index]
    if kind != "repeat":
        del mesh.mail[index]
    if kind == "late":
        mesh.mail.append(letter)
    elif kind != "lose":
        mesh.deliver(*letter)


def unseat(mesh: ProxyMesh) -> None:
    """Have the others believe that their leader is gone."""
    for leader in [name for name, core in mesh.cores.items() if core.is_leader]:
        for name, core in mesh.cores.items():
            if name != leader:
                mesh.take(name, core.peer_unreachable(mesh.where[leader]))


STEPS = ["put", "put", "ask", "fresh", "step", "step", "lose", "repeat", "late", "unseat"]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whatever_is_lost_repeated_or_late_all_is_done_once_and_reads_never_go_back(
    data: st.DataObject,
) -> None:
    mesh = ProxyMesh()
    mesh.lead()
    asker = settled(mesh)
    seen, number, count = 0, 0, 0
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=5, max_size=60)):
        match step:
            case "put":
                asker.increment("n")
                asker.flush()
                count += 1
            case "ask" | "fresh":
                number = asker.ask("n", is_for_master=step == "fresh")
            case "unseat":
                unseat(mesh)
            case _:
                fate(mesh, data, step)
        if number in asker.answers:
            value = asker.answer(number) or 0
            assert value >= seen
            seen, number = value, 0
    mesh.ticks(150)
    assert sorted(asker.outcomes) == list(range(1, count + 1))
    assert all(isinstance(outcome, Applied) for outcome in asker.outcomes.values())
    number = asker.ask("n", is_for_master=True)
    mesh.ticks(10)
    assert (asker.answer(number) or 0) == count


def test_a_registration_that_got_lost_is_asked_for_again(mesh: ProxyMesh) -> None:
    asker = settled(mesh)
    request = asker.put("a", 1)
    asker.flush()
    mesh.mail.clear()
    mesh.ticks(15)
    assert isinstance(asker.outcomes[request], Applied)
