"""A log's replica as its driver sees it: appends go to the leader, reads see what is committed."""

from __future__ import annotations

from random import Random

import pytest

from stores.effects import MasterFound, QuotaCrossed, ToProxy
from stores.group.codec import GroupCodec
from stores.group.messages import ToFollower
from stores.group.words import OUTSIDE, Answered, Ask, Leads, Seek
from stores.log.bodies import ChangeRetention, Write
from stores.log.codec import LogCodec
from stores.log.limits import APPEND_COUNT_MAX, APPEND_SIZE_MAX, BLOCK_COUNT_MAX
from stores.log.messages import Append, Requests
from stores.log.partitions import Retention, Span
from stores.log.runs import ENTRY_SIZE
from stores.outcomes import Applied, Refused
from stores.quota import Quota
from stores.replica.effects import AskDone
from stores.table.bodies import ChangeQuota, Register
from tests.stores.replica.log_mesh import LogMesh
from tests.stores.replica.test_core import TICK_NS
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId

CODEC = GroupCodec(LogCodec())


@pytest.fixture(params=[True, False], ids=["durable", "memory"])
def mesh(request) -> LogMesh:
    return LogMesh(durable=request.param)


def others(mesh: LogMesh, name: str) -> list[str]:
    return [each for each in mesh.cores if each != name]


# -- appends ---------------------------------------------------------------------------------------


def test_the_log_begins_once_there_is_a_leader_and_is_the_same_at_all(mesh):
    leader = mesh.lead()
    assert [core.machine.partitions.spans() for core in mesh.members] == [(Span(0, 0),) * 2] * 3
    assert mesh.cores[leader].statistics().role == "leader"
    assert mesh.level()


def test_an_append_anywhere_goes_to_the_leader_and_is_given_its_offset(mesh):
    leader = mesh.lead()
    follower, other = others(mesh, leader)
    numbers = [(name, mesh.append(name, name)) for name in (follower, leader, other, follower)]
    offsets = [mesh.offset(*each) for each in numbers]
    assert sorted(offsets) == [0, 1, 2, 3]
    assert offsets[0] < offsets[3], "those of one handle are in order"
    mesh.ticks_until(mesh.level)
    for name in mesh.cores:
        assert mesh.entries(name) == {
            offset: who for offset, (who, _) in zip(offsets, numbers, strict=True)
        }


def test_appends_that_were_asked_together_are_one_entry_of_the_journal(mesh):
    leader = mesh.lead()
    follower = others(mesh, leader)[0]
    mesh.offset(follower, mesh.append(follower, "it is registered"))
    before = mesh.cores[leader].member.journal.end.index
    requests = mesh.cores[follower].requests
    for value in range(50):
        requests.append(value % 2, (None, encode(value)))
    last = requests.append(0, (None, encode("last")))
    mesh.flush(follower)
    assert mesh.offset(follower, last) == 26
    assert mesh.cores[leader].member.journal.end.index == before + 1
    mesh.ticks_until(mesh.level)
    assert list(mesh.entries(follower, 1).values()) == list(range(1, 50, 2))


def test_a_receipt_is_given_once_the_entry_is_read_where_it_was_asked_for(mesh):
    leader = mesh.lead()
    for name in others(mesh, leader):
        for value in range(5):
            number = mesh.append(name, (name, value))
            mesh.move(name, name, (0, value))
            while mesh.result(name, number) is None:
                if not mesh.mail:
                    mesh.tick()
                    mesh.write_all()
                    continue
                sender, to, payload = mesh.mail.popleft()
                mesh.take(to, mesh.cores[to].receive(mesh.where[sender], payload))
                mesh.flush(to)
                mesh.write_all()
            offset = mesh.result(name, number).revision
            assert mesh.entries(name)[offset] == (name, value)
        mesh.work()
        assert dict(mesh.cores[name].machine.all_cursors())[name] == ((0, 4),)


def test_an_answer_that_overtakes_its_entry_is_told_with_it(mesh):
    name = others(mesh, mesh.lead())[0]
    mesh.offset(name, mesh.append(name, "early"))  # Its writer is known from then on.
    number = mesh.append(name, "late")
    late, is_answered = [], False
    while not is_answered:
        mesh.tick()
        while mesh.mail:
            sender, to, payload = letter = mesh.mail.popleft()
            content = CODEC.decode(payload).content
            if to == name and isinstance(content, ToFollower):
                late.append(letter)
                continue
            is_answered = is_answered or (to == name and isinstance(content, Answered))
            mesh.take(to, mesh.cores[to].receive(mesh.where[sender], payload))
            mesh.flush(to)
            mesh.write_all()
    assert mesh.result(name, number) is None
    mesh.mail += late
    offset = mesh.offset(name, number)
    assert mesh.entries(name)[offset] == "late"


def test_as_many_requests_as_a_handle_has_room_for_reach_the_leader(mesh):
    leader = mesh.lead()
    follower = others(mesh, leader)[0]
    core = mesh.cores[follower]
    count = 0
    while core.has_room():
        for _ in range(500):
            core.requests.append(count % 2, (None, encode(count)))
            count += 1
        core.outbox.seal()
    last = core.requests.move_cursor("worker", ((0, 1),))
    mesh.flush(follower)
    mesh.ticks_until(lambda: mesh.result(follower, last))
    assert mesh.result(follower, 1) == Applied(0)
    mesh.ticks_until(mesh.level)
    assert list(mesh.entries(leader).values()) == list(range(0, count, 2))


def test_the_largest_append_reaches_the_leader_and_all_members(mesh):
    leader = mesh.lead()
    follower = others(mesh, leader)[0]
    requests = mesh.cores[follower].requests
    value = encode(bytes(APPEND_SIZE_MAX - 2 * ENTRY_SIZE))
    numbers = [requests.append(0, (None, value)) for _ in range(3)]
    many = requests.append(1, (None, encode(1)) * APPEND_COUNT_MAX)
    mesh.flush(follower)
    assert [mesh.offset(follower, number) for number in numbers] == [0, 1, 2]
    assert mesh.offset(follower, many) == 0
    mesh.ticks_until(mesh.level)
    spans = mesh.cores[follower].machine.partitions.spans()
    assert [span.end for span in spans] == [3, APPEND_COUNT_MAX]


def test_what_has_no_majority_is_not_read_even_where_it_was_appended(mesh):
    leader = mesh.lead()
    mesh.offset(leader, mesh.append(leader, "first"))
    mesh.cut = set(others(mesh, leader))
    number = mesh.append(leader, "second")
    mesh.work()
    assert mesh.result(leader, number) is None
    assert mesh.entries(leader) == {0: "first"}
    assert mesh.cores[leader].machine.find(1 << 62)[0] == 1
    mesh.cut = set()
    assert mesh.offset(leader, number) == 1
    assert mesh.entries(leader) == {0: "first", 1: "second"}


def test_an_append_whose_answer_was_lost_with_the_leader_is_there_once():
    mesh = LogMesh()
    leader = mesh.lead()
    asker, other = others(mesh, leader)
    mesh.offset(asker, mesh.append(asker, "first"))
    number = mesh.append(asker, "once")
    before = mesh.cores[leader].member.state.commit
    while mesh.cores[leader].member.state.commit == before:
        sender, to, payload = mesh.mail.popleft()
        mesh.take(to, mesh.cores[to].receive(mesh.where[sender], payload))
        mesh.flush(to)
        for name in mesh.cores:
            mesh.write(name)
    mesh.mail.clear()
    mesh.cores.pop(leader)
    mesh.lead_again()
    assert mesh.offset(asker, number) == 1
    mesh.ticks_until(mesh.level)
    assert mesh.entries(other) == {0: "first", 1: "once"}


def test_an_append_that_the_leader_took_with_it_is_asked_again_of_the_next_one():
    mesh = LogMesh()
    leader = mesh.lead()
    asker, other = others(mesh, leader)
    mesh.offset(asker, mesh.append(asker, "first"))
    number = mesh.append(asker, "again")
    mesh.mail.clear()
    mesh.cores.pop(leader)
    mesh.lead_again()
    assert mesh.offset(asker, number) == 1
    mesh.ticks_until(mesh.level)
    assert mesh.entries(other) == {0: "first", 1: "again"}


def test_a_named_producer_is_recognised_by_the_next_leader_whoever_repeats_it(mesh):
    leader = mesh.lead()
    asker, other = others(mesh, leader)
    first = mesh.offset(asker, mesh.append(asker, "x", 1, ("sensor", 7)))
    mesh.take(leader, mesh.cores[leader].close("it is closed"))
    mesh.cores.pop(leader)
    mesh.lead_again()
    again = mesh.append(other, "x", 1, ("sensor", 7))
    assert mesh.offset(other, again) == first
    assert mesh.result(other, again).answer is False
    assert mesh.entries(other, 1) == {0: "x"}


def test_appends_in_the_name_of_another_endpoint_are_refused(mesh):
    leader = mesh.lead()
    follower, other = others(mesh, leader)
    mesh.offset(other, mesh.append(other, "own"))
    core = mesh.cores[follower]
    writer = mesh.cores[other].outbox.writer
    write = Write(1, Requests(writer, 2, 1, (Append(0, None, 0, (None, encode("forged"))),)))
    for request in (Register(writer, 0), write):
        for payload in core.write(Ask(1, request)):
            with pytest.raises(DecodeError, match="in the name of"):
                mesh.cores[leader].receive(mesh.where[follower], payload)
    mesh.work()
    assert mesh.entries(leader) == {0: "own"}


def test_a_closed_log_takes_nothing_on(mesh):
    leader = mesh.lead()
    requests = mesh.cores[leader].requests
    mesh.offset(leader, mesh.append(leader, "in time"))
    mesh.cut = set("abc")
    number = mesh.append(leader, "late")
    mesh.take(leader, mesh.cores[leader].close("it is closed"))
    refused = mesh.result(leader, number)
    assert isinstance(refused, Refused)
    assert "whether it was applied is unknown" in refused.text
    requests.trim(0, 0)
    with pytest.raises(StoreClosed):
        requests.seal()


# -- consumers -------------------------------------------------------------------------------------


def test_where_consumers_are_outlives_the_leader(mesh):
    leader = mesh.lead()
    follower, other = others(mesh, leader)
    for value in range(5):
        mesh.append(follower, value)
    mesh.offset(follower, mesh.move(follower, "worker", (0, 3)))
    mesh.take(leader, mesh.cores[leader].close("it is closed"))
    mesh.cores.pop(leader)
    mesh.lead_again()
    mesh.ticks_until(mesh.level)
    assert dict(mesh.cores[other].machine.all_cursors()) == {"worker": ((0, 3),)}
    (lag,) = mesh.cores[other].statistics().consumers
    assert (lag.name, lag.lag) == ("worker", 2)
    number = mesh.cores[other].requests.forget_consumer("worker")
    mesh.flush(other)
    mesh.offset(other, number)
    mesh.ticks_until(mesh.level)
    assert mesh.cores[follower].machine.all_cursors() == ()


def test_a_cursor_beyond_the_end_is_refused(mesh):
    leader = mesh.lead()
    number = mesh.move(leader, "worker", (0, 1))
    mesh.ticks_until(lambda: mesh.result(leader, number))
    assert isinstance(mesh.result(leader, number), Refused)


# -- what is kept ----------------------------------------------------------------------------------


def ask(mesh: LogMesh, name: str, request: object) -> None:
    mesh.take(name, mesh.cores[name].begin_ask(9, request))
    mesh.ticks_until(lambda: any(isinstance(each, AskDone) for each in mesh.told[name]))
    mesh.told[name] = [each for each in mesh.told[name] if not isinstance(each, AskDone)]


def test_retention_is_the_groups_and_every_leader_goes_by_it(mesh):
    leader = mesh.lead()
    follower = others(mesh, leader)[0]
    ask(mesh, follower, ChangeRetention(Retention(count=10)))
    mesh.take(leader, mesh.cores[leader].close("it is closed"))
    mesh.cores.pop(leader)
    mesh.lead_again()
    last = [mesh.append(follower, value) for value in range(3 * BLOCK_COUNT_MAX)][-1]
    mesh.offset(follower, last)
    mesh.ticks_until(lambda: all(core.machine.partitions[0].start for core in mesh.members))
    mesh.ticks_until(mesh.level)
    span = mesh.cores[follower].machine.partitions[0].span
    assert span.end == 3 * BLOCK_COUNT_MAX
    assert span.end - span.start == 10
    assert list(mesh.entries(follower)) == list(range(span.start, span.end))


def test_entries_grow_old_by_the_groups_clock_alone(mesh):
    leader = mesh.lead()
    ask(mesh, leader, ChangeRetention(Retention(age_ns=50 * TICK_NS)))
    mesh.offset(leader, mesh.append(leader, "old"))
    silent = set(others(mesh, leader))
    for _ in range(200):  # No leader is elected: the group's time stands still.
        mesh.cut = set("abc")
        mesh.tick()
        mesh.work()
    assert silent
    mesh.cut = set()
    now = mesh.lead_again()
    assert mesh.entries(now) == {0: "old"}
    mesh.ticks_until(lambda: not mesh.entries(now))


def test_an_append_beyond_the_quota_is_refused_by_every_leader(mesh):
    leader = mesh.lead()
    follower = others(mesh, leader)[0]
    ask(mesh, follower, ChangeQuota(Quota(max_entries=2)))
    for value in range(2):
        mesh.offset(follower, mesh.append(follower, value))
    mesh.ticks_until(lambda: any(isinstance(each, QuotaCrossed) for each in mesh.told[leader]))
    mesh.take(leader, mesh.cores[leader].close("it is closed"))
    mesh.cores.pop(leader)
    mesh.lead_again()
    number = mesh.append(follower, "more")
    mesh.ticks_until(lambda: mesh.result(follower, number))
    refused = mesh.result(follower, number)
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.QUOTA_EXCEEDED
    assert mesh.cores[follower].statistics().max_entries == 2


# -- members ---------------------------------------------------------------------------------------


def test_a_learner_has_all_of_it_and_no_vote(mesh):
    mesh = LogMesh("abcd", {"d": ""}, durable=mesh.cores["a"].is_volatile is False)
    leader = mesh.lead()
    mesh.offset("d", mesh.append("d", "from outside"))
    mesh.ticks_until(mesh.level)
    assert mesh.entries("d") == {0: "from outside"}
    assert "d" not in [voter.name for voter in mesh.cores[leader].voters]
    assert any(isinstance(each, MasterFound) for each in mesh.told["d"])


def test_who_was_away_for_long_takes_the_runs_that_it_lacks_alone(mesh, monkeypatch):
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 5)
    leader = mesh.lead()
    late = others(mesh, leader)[0]
    for value in range(10):
        mesh.offset(leader, mesh.append(leader, value))
    mesh.ticks_until(mesh.level)
    had = mesh.cores[late].machine.partitions[0].end
    mesh.cut = {late}
    for value in range(10, 40):
        mesh.offset(leader, mesh.append(leader, value))
    mesh.ticks_until(lambda: mesh.cores[leader].member.journal.floor.index > 30)
    mesh.cut = set()
    mesh.ticks_until(mesh.level)
    assert had == 10
    assert mesh.entries(late) == {value: value for value in range(40)}


def test_a_position_of_a_history_that_was_dropped_is_known_as_such():
    mesh = LogMesh()
    leader = mesh.lead()
    mesh.offset(leader, mesh.append(leader, "kept"))
    mesh.cut = {leader}
    for value in ("dropped", "this, too"):
        mesh.append(leader, value)
    mesh.work()
    dropped = mesh.cores[leader].member.journal.end
    kept = mesh.cores[leader].machine.read(0, 0, 1)[0].position
    mesh.ticks_until(lambda: any(mesh.cores[name].is_leader for name in others(mesh, leader)))
    now = next(name for name in others(mesh, leader) if mesh.cores[name].is_leader)
    mesh.offset(now, mesh.append(now, "in its place"))
    machine = mesh.cores[now].machine
    assert machine.goes_on(((0, 2),), (kept,), is_current=True) == (2,)
    assert machine.goes_on(((0, 2),), (dropped,), is_current=True) == (1,)


def test_outside_of_the_group_no_rule_is_changed_and_the_leader_says_that_it_leads(mesh):
    leader = mesh.lead()
    where = EndpointId(b"p" * 16)

    def hear(word: Seek | Ask) -> None:
        for payload in mesh.codec.encode(OUTSIDE, mesh.cores[leader].group, word):
            mesh.take(leader, mesh.cores[leader].receive(where, payload))

    hear(Seek(1))
    with pytest.raises(DecodeError, match="only members do"):
        hear(Ask(2, ChangeRetention(Retention(count=1))))
    mesh.work()
    said = [each.payload for each in mesh.told[leader] if isinstance(each, ToProxy)]
    assert [type(mesh.codec.decode(payload).content) for payload in said] == [Leads]
    assert mesh.cores[leader].machine.retention.count is None


# -- whatever happens ------------------------------------------------------------------------------


class Story:
    """Letters are lost, disks are slow, members are cut off, and every member appends."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.mesh = LogMesh(durable=bool(seed % 4))
        self.mesh.lead()
        self.asked: dict[tuple[str, int], tuple[str, int]] = {}
        """By who asked for it, and its number: what is appended, and where."""

    def step(self, number: int) -> None:
        mesh, chance = self.mesh, self.chance
        name = chance.choice("abc")
        doings = (
            *(lambda: self.append(name, number),) * 4,
            lambda: setattr(mesh, "cut", mesh.cut ^ {name}),
            lambda: setattr(mesh, "slow", mesh.slow ^ {name}),
            lambda: mesh.mail and mesh.mail.remove(chance.choice(mesh.mail)),
            lambda: setattr(mesh, "cut", set()),
            self.pass_time,
            *(self.deliver,) * 3,
        )
        chance.choice(doings)()

    def append(self, name: str, number: int) -> None:
        value, partition = f"{name}{number}", self.chance.randrange(2)
        self.asked[name, self.mesh.append(name, value, partition)] = value, partition

    def pass_time(self) -> None:
        for _ in range(self.chance.randrange(25)):
            self.mesh.tick()
            self.mesh.work()

    def deliver(self) -> None:
        mesh = self.mesh
        for _ in range(min(len(mesh.mail), self.chance.randrange(10))):
            sender, to, payload = mesh.mail.popleft()
            if not {sender, to} & mesh.cut:
                mesh.take(to, mesh.cores[to].receive(mesh.where[sender], payload))
                mesh.flush(to)

    def heal(self) -> None:
        mesh = self.mesh
        mesh.cut, mesh.slow = set(), set()
        mesh.ticks_until(lambda: all(mesh.result(*each) for each in self.asked), 400)
        mesh.ticks_until(mesh.level)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_lost_or_late_every_append_is_there_once_where_it_was_said_to_be(seed):
    story = Story(seed)
    for number in range(300):
        story.step(number)
    story.heal()
    present = [story.mesh.entries("a", partition) for partition in range(2)]
    values = [value for entries in present for value in entries.values()]
    assert len(set(values)) == len(values), "nothing is there twice"
    for asked, (value, partition) in story.asked.items():
        result = story.mesh.result(*asked)
        if isinstance(result, Applied):
            assert present[partition][result.revision] == value
        elif "not applied" in result.text:
            assert value not in values
    assert sum(isinstance(story.mesh.result(*each), Applied) for each in story.asked) > 10
