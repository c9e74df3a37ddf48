"""What the core of a replica says, and when: its disk, its clock and its mail are the test's."""

from __future__ import annotations

from collections import deque

import pytest

from stores.effects import Closed, IdleReached, MasterLost, Multicast, Resolve, Unicast
from stores.group import followers, leading
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.leading import CALLERS_MAX
from stores.group.member_parts import Stored
from stores.group.messages import FromFollower, HigherTerm, Keepalive, PreVote, TimeoutNow
from stores.group.positions import START, MemberId
from stores.group.roles import Role
from stores.group.words import Ask, Declined, Order
from stores.outcomes import Applied, Refused
from stores.replica.asked import outbox
from stores.replica.beginning import PATIENCE_TICKS, Beginning, World
from stores.replica.core import LATE_NS
from stores.replica.effects import AskDone, News, OrderDone, ToDisk, Told
from stores.replica.facts import UNLED_NS
from stores.replica.lazy import RowKeeper
from stores.replica.roster import SILENT_TICKS, Roster
from stores.replica.tables.core import TableCore
from stores.table.bodies import OpenSession
from stores.table.codec import NONCE_SIZE, TableCodec
from stores.table.machine import TableMachine
from stores.table.sessions import TTL_NS_MIN
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

TICK_NS = 100_000_000
CODEC = GroupCodec(TableCodec())


class Mesh:
    """Cores that hear each other when the test says so, and whose disks are as slow as it says."""

    codec = CODEC

    def __init__(
        self,
        names: str = "abc",
        lists: dict[str, str] | None = None,
        *,
        durable: bool = True,
        strangers: tuple[str, ...] = (),
    ) -> None:
        self.now_ns = 0
        self.where = {name: EndpointId(name.encode() * 16) for name in names}
        self.mail: deque[tuple[str, str, bytes]] = deque()
        self.writes: dict[str, list[ToDisk]] = {name: [] for name in names}
        self.told: dict[str, list[object]] = {name: [] for name in names}
        self.slow: set[str] = set()
        """Those whose writes wait."""
        self.cut: set[str] = set()
        """Those that hear nothing, and are not heard."""
        self.strangers = {self.where[name] for name in strangers}
        self.new_group = b"g" * 16
        self.cores = {
            name: self.core(number, name, (lists or {}).get(name, "abc"), durable)
            for number, name in enumerate(names)
        }

    def core(self, number: int, name: str, voters: str, durable: bool, life: int = 1) -> TableCore:
        own = MemberId(name, life)
        promises = new_promises(own)
        stored = Stored(promises, NEW_SLOTS, START, (), (), 0, is_volatile=not durable)
        world = World(
            draw=lambda least, most: min(most, least + 2 * number),
            monotonic_ns=lambda: self.now_ns,
            now_ns=lambda: self.now_ns,
            new_group=lambda: self.new_group,
            vouches=lambda endpoint, name: endpoint not in self.strangers,
            may_vote=lambda: True,
        )
        entity = EntityId(self.where[name], 0)
        roster = Roster(own, self.where[name], voters)
        return self._make(entity, roster, Beginning(stored, None), world)

    def _make(
        self, entity: EntityId, roster: Roster, beginning: Beginning, world: World
    ) -> TableCore:
        machine = TableMachine("store s")
        core = TableCore(entity, roster, machine, CODEC, beginning, world)
        if not core.is_volatile:
            core.carrier.keeper = RowKeeper(machine, 0)
        return core

    def start(self) -> None:
        for name, core in self.cores.items():
            self.take(name, core.start())

    def take(self, name: str, effects: list) -> None:
        for effect in effects:
            match effect:
                case Multicast(payload):
                    self.mail += [(name, to, payload) for to in self.cores if to != name]
                case Unicast(where, payload):
                    to = next(each for each in self.where if self.where[each] == where)
                    self.mail.append((name, to, payload))
                case ToDisk():
                    self.writes[name].append(effect)
                case _:
                    self.told[name].append(effect)

    def work(self, *, ends_turns: bool = True) -> None:
        """Pass all letters on, and do the writes of all whose disks are not slow.

        What waits for the end of a turn is left unless it ``ends_turns``.
        """
        while self.mail or any(self._has_work(name, ends_turns=ends_turns) for name in self.cores):
            while self.mail:
                sender, to, payload = self.mail.popleft()
                if to in self.cores and not {sender, to} & self.cut:
                    core = self.cores[to]
                    self.take(to, core.receive(self.where[sender], payload))
                    self.take(to, core.flush())
            for name in self.cores:
                if name not in self.slow:
                    self.write(name)
                if ends_turns and self.cores[name].has_work:
                    self.take(name, self.cores[name].work())

    def _has_work(self, name: str, *, ends_turns: bool) -> bool:
        is_writing = name not in self.slow and bool(self.writes[name])
        return is_writing or (ends_turns and self.cores[name].has_work)

    def write(self, name: str) -> None:
        """Have a disk do what it was asked."""
        while self.writes[name]:
            done = self.writes[name].pop(0)
            self.take(name, self.cores[name].persisted(done.token))

    def tick(self, names: str | None = None) -> None:
        self.now_ns += TICK_NS
        for name in names or self.cores:
            self.take(name, self.cores[name].tick(self.now_ns))

    def pass_ticks(self, count: int) -> None:
        """Let so many ticks pass, and all that follows from each of them come about."""
        for _ in range(count):
            self.tick()
            self.work()

    def pass_on(self) -> None:
        """Pass one letter on, or do what else there is to do."""
        if not self.mail:
            self.tick()
            return
        sender, to, payload = self.mail.popleft()
        self.take(to, self.cores[to].receive(self.where[sender], payload))
        self.take(to, self.cores[to].flush())

    def order(self, name: str, order: Order, what: str) -> None:
        """Have an order done."""
        self.take(name, self.cores[name].begin_order(1, order, what))
        for _ in range(100):
            self.pass_ticks(1)
            if any(isinstance(each, OrderDone) for each in self.told[name]):
                self.told[name].clear()
                return
        raise AssertionError(self.told[name])

    def news(self, name: str) -> list[News]:
        return [each.news for each in self.told[name] if isinstance(each, Told)]

    def lead(self) -> str:
        """Have a leader elected that serves all."""
        self.start()
        self.work()
        for _ in range(100):
            self.tick()
            self.work()
            if all(core.is_served for core in self.cores.values()):
                return next(name for name, core in self.cores.items() if core.is_leader)
        raise AssertionError([core.explain() for core in self.cores.values()])

    def restart(self, name: str) -> None:
        """Have a replica in memory end without a word, and another one start."""
        gone, life = self.where[name], self.cores[name].own.life + 1
        self.where[name] = EndpointId(name.encode() * 15 + bytes([life]))
        self.cores[name] = self.core(len(self.cores), name, "abc", durable=False, life=life)
        self.told[name], self.mail = [], deque(each for each in self.mail if name not in each[:2])
        for other in self.cores:
            self.take(other, self.cores[other].peer_unreachable(gone))
        self.take(name, self.cores[name].start())

    def put(self, name: str) -> None:
        self.cores[name].requests.put(b"\x61k", b"\x01")
        self.take(name, self.cores[name].flush())

    def outcomes(self, name: str) -> list[object]:
        return [each.outcome.result for each in self.told[name] if isinstance(each, Resolve)]

    def said(self, name: str, *kinds: type) -> list[object]:
        """Give what is under way of a core, of some kinds."""
        payloads = [payload for who, _, payload in self.mail if who == name]
        contents = [self.codec.decode(payload).content for payload in payloads]
        return [each for each in contents if isinstance(each, kinds)]


def test_a_vote_leaves_once_it_is_on_the_disk() -> None:
    mesh = Mesh()
    mesh.start()
    mesh.work()
    candidate = mesh.cores["a"].member
    assert candidate is not None
    mesh.slow = set("bc")
    roles = set()
    for _ in range(50):
        mesh.tick("a")
        mesh.work()
        roles.add(candidate.role)
    assert Role.CANDIDATE in roles
    assert Role.LEADER not in roles, "no vote is on a disk"
    mesh.slow = set("c")
    while candidate.role is not Role.LEADER:
        assert mesh.now_ns < 200 * TICK_NS
        mesh.tick("a")
        mesh.work()


def test_a_receipt_comes_once_a_majority_has_it_on_its_disks() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    (first,) = mesh.outcomes(leader)
    assert not isinstance(first, Refused)
    mesh.slow = set("abc")
    mesh.put(leader)
    mesh.work()
    assert len(mesh.outcomes(leader)) == 1
    mesh.write(leader)
    mesh.work()
    assert len(mesh.outcomes(leader)) == 1, "one of three has it"
    other = next(name for name in "abc" if name != leader)
    mesh.write(other)
    assert mesh.said(other, FromFollower)
    mesh.work()
    assert len(mesh.outcomes(leader)) == 2


def test_what_another_member_asked_for_is_told_in_the_step_that_commits_it() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    asking = next(name for name in "abc" if name != leader)
    mesh.put(asking)
    mesh.work()
    mesh.put(asking)
    mesh.work(ends_turns=False)
    assert mesh.outcomes(asking) == [Applied(1), Applied(2)]
    assert [core.revision for core in mesh.cores.values()] == [2, 2, 2]


def test_what_the_leader_asked_for_is_told_others_at_the_end_of_its_turn() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    mesh.put(leader)
    mesh.work(ends_turns=False)
    assert mesh.outcomes(leader) == [Applied(1), Applied(2)]
    assert sorted(core.revision for core in mesh.cores.values()) == [1, 1, 2]
    mesh.work()
    assert [core.revision for core in mesh.cores.values()] == [2, 2, 2]


def test_a_voter_without_a_leader_tells_of_it_once_and_of_the_end() -> None:
    mesh = Mesh("abcd", {"d": ""})
    mesh.cut = {"c", "d"}
    mesh.start()

    def news(name: str) -> list[Told]:
        told = [each for each in mesh.told[name] if isinstance(each, Told)]
        mesh.told[name].clear()
        return told

    mesh.pass_ticks(UNLED_NS // TICK_NS - 1)
    assert not news("a")
    mesh.pass_ticks(UNLED_NS // TICK_NS)
    for name in "ab":
        (told,) = news(name)
        assert told.news is News.UNLED
        assert "no answer of c" in told.text
    mesh.cut = set()
    mesh.pass_ticks(UNLED_NS // TICK_NS)
    for name in "ab":
        (told,) = news(name)
        assert told.news is News.LED
    mesh.cut = {"b", "c", "d"}
    mesh.pass_ticks(2 * UNLED_NS // TICK_NS)
    (told,) = news("a")
    assert told.news is News.UNLED
    assert "2 of 3 voters: b silent" in told.text
    assert not news("d"), "what has no vote cannot be led by another one"


def test_who_has_a_leader_and_waits_for_its_disk_tells_of_none_that_is_missing() -> None:
    mesh = Mesh()
    mesh.start()
    mesh.work()
    late = mesh.cores["c"]
    assert late.member is not None
    mesh.slow = {"c"}
    mesh.pass_ticks(3 * UNLED_NS // TICK_NS)
    assert late.leader is not None
    assert not late.is_served
    assert not mesh.news("c")
    mesh.slow = set()
    mesh.pass_ticks(1)
    assert late.is_served
    assert not mesh.news("c"), "it was never told that none leads"


def test_a_write_that_failed_ends_the_replica_and_counts_for_nothing() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    mesh.slow = set("abc")
    mesh.put(leader)
    mesh.work()
    core = mesh.cores[leader]
    mesh.take(leader, core.commit_failed(mesh.writes[leader].pop(0).token, "no space"))
    assert Told(News.DISK_FAILED, "no space") in mesh.told[leader]
    assert any(isinstance(each, Closed) for each in mesh.told[leader])
    assert mesh.said(leader, TimeoutNow), "another voter is to lead at once"
    *_, last = mesh.outcomes(leader)
    assert isinstance(last, Refused)
    assert "whether it was applied is unknown" in last.text


def test_a_voter_that_is_alone_leads_on_while_its_disk_is_slow() -> None:
    mesh = Mesh("a", {"a": "a"})
    leader = mesh.lead()
    mesh.slow = set("a")
    mesh.put(leader)
    mesh.pass_ticks(PATIENCE_TICKS + 10)
    assert mesh.cores["a"].is_leader, "no other voter can take over"
    assert not mesh.outcomes(leader), "nor is its own request late to itself"
    mesh.slow = set()
    mesh.work()
    mesh.tick()
    mesh.work()
    (result,) = mesh.outcomes(leader)
    assert not isinstance(result, Refused)


def test_a_replica_is_idle_once_what_was_asked_last_is_applied() -> None:
    mesh = Mesh("a", {"a": "a"})
    mesh.lead()
    mesh.slow = set("a")
    core = mesh.cores["a"]
    core.requests.put(b"\x61k", b"\x01")
    assert core.statistics().unanswered == 1
    mesh.take("a", core.begin_idle(1))
    assert IdleReached(1) not in mesh.told["a"], "the put is not even sent"
    mesh.take("a", core.flush())
    assert IdleReached(1) not in mesh.told["a"], "the disk does not have it"
    mesh.slow = set()
    mesh.work()
    mesh.tick()
    mesh.work()
    assert IdleReached(1) in mesh.told["a"]


def test_a_voter_alone_in_memory_decides_at_once_and_keeps_nothing_for_who_is_not_there() -> None:
    mesh = Mesh("ab", {"a": "a", "b": "a"}, durable=False)
    mesh.cut = set("b")
    mesh.start()
    mesh.work()
    alone, late = mesh.cores["a"], mesh.cores["b"]
    while not alone.is_leader:
        mesh.tick("a")
    mesh.put("a")
    for count in range(1, 4):
        mesh.put("a")
        assert len(mesh.outcomes("a")) == 1 + count, "it is applied before anything else is done"
    assert alone.member is not None
    journal = alone.member.journal
    assert journal.floor == journal.end, "no member follows"
    mesh.cut = set()
    mesh.pass_ticks(30)
    assert late.machine.digest() == alone.machine.digest()
    end = journal.end
    mesh.put("a")
    mesh.work()
    assert journal.floor < journal.end
    assert journal.end.index == end.index + 1
    assert late.machine.digest() == alone.machine.digest()
    assert late.machine.revision == 5


def test_a_leader_in_memory_with_other_voters_waits_for_one_of_them() -> None:
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    mesh.put(leader)
    assert len(mesh.outcomes(leader)) == 1
    mesh.work()
    assert len(mesh.outcomes(leader)) == 2


def test_a_writer_that_the_group_forgot_is_told_by_a_voter_alone_too() -> None:
    mesh = Mesh("a", {"a": "a"}, durable=False)
    mesh.lead()
    mesh.put("a")
    core = mesh.cores["a"]
    core.machine.install(TableMachine("store s").freeze())
    mesh.put("a")
    first, second = mesh.outcomes("a")
    assert not isinstance(first, Refused)
    assert isinstance(second, Refused)
    assert "forgotten" in second.text
    mesh.put("a")
    assert not isinstance(mesh.outcomes("a")[-1], Refused)


@pytest.mark.parametrize("at", ["leader", "follower"])
def test_a_linear_read_waits_until_a_majority_confirms_the_leader(at: str) -> None:
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    reader = leader if at == "leader" else next(name for name in "abc" if name != leader)
    mesh.cut = set("abc")
    mesh.take(reader, mesh.cores[reader].begin_read(7))
    mesh.tick()
    mesh.work()
    assert IdleReached(7) not in mesh.told[reader]
    mesh.cut = set()
    mesh.pass_ticks(6)
    assert IdleReached(7) in mesh.told[reader]


def test_what_waits_for_an_answer_that_does_not_come_leaves_after_a_second() -> None:
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    mesh.cut = set("abc")
    journal = mesh.cores[leader].member.journal
    mesh.put(leader)
    end = journal.end_index
    mesh.put(leader)
    mesh.work()
    assert journal.end_index == end
    mesh.pass_ticks(outbox.REPEAT_TICKS + 1)
    assert journal.end_index == end + 1
    while len(mesh.outcomes(leader)) < 3:
        mesh.tick()
        mesh.work()
    assert all(isinstance(each, Refused) for each in mesh.outcomes(leader)[1:])
    mesh.cut = set()
    mesh.pass_ticks(60)
    for _ in range(2):
        mesh.put(leader)
    mesh.pass_ticks(30)
    assert len(mesh.cores[leader].outbox) == 0
    assert not any(isinstance(each, Refused) for each in mesh.outcomes(leader)[3:])
    assert len(mesh.cores[leader].machine) == 1


@pytest.mark.parametrize("is_leader", [False, True])
def test_what_a_lost_leader_was_asked_is_answered_as_soon_as_another_leads(is_leader: bool) -> None:
    mesh = Mesh()
    lost = mesh.lead()
    mesh.cut = {lost}
    asked: dict[str, list[int]] = {name: [] for name in "abc" if name != lost}
    request = OpenSession(b"n" * NONCE_SIZE, TTL_NS_MIN)
    while not any(mesh.cores[name].is_leader for name in asked):
        for name, tokens in asked.items():
            tokens.append(len(tokens))
            mesh.take(name, mesh.cores[name].begin_ask(tokens[-1], request))
        mesh.pass_ticks(1)
    mesh.pass_ticks(1)  # The leader may not have been ready when it was asked first.
    name = next(name for name in asked if mesh.cores[name].is_leader == is_leader)
    done = [each for each in mesh.told[name] if isinstance(each, AskDone)]
    assert sorted(each.token for each in done) == asked[name]
    assert len(done) > 1
    assert len({each.answer for each in done}) == 1, "it is one session"


def test_what_was_sent_and_has_no_answer_may_have_been_applied() -> None:
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    mesh.cut = set("abc")
    mesh.put(leader)
    mesh.pass_ticks(100)
    mesh.put(leader)
    mesh.pass_ticks(100)
    _, sent, unsent = mesh.outcomes(leader)
    assert sent.text.endswith("whether it was applied is unknown")
    assert unsent.text.endswith("it was not applied")


def test_what_a_leader_had_no_room_for_is_sent_again_in_smaller_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "WINDOW_COUNT", 8)
    monkeypatch.setattr(leading, "UNCOMMITTED_SIZE_MAX", 1)
    mesh = Mesh()
    leader = mesh.lead()
    asking = next(name for name in "abc" if name != leader)
    mesh.put(asking)
    mesh.work()
    mesh.slow = set("abc")

    def sent() -> int:
        """Count what is asked of the leader, which hears it then."""
        count = len(mesh.said(asking, Ask))
        mesh.work()
        return count

    for _ in range(8):
        mesh.put(asking)
    portions = [sent()]
    for _ in range(4):
        mesh.tick(asking)
        portions.append(sent())
    assert portions == [8, 4, 2, 1, 1]
    monkeypatch.undo()
    mesh.slow = set()
    mesh.pass_ticks(3)
    assert not len(mesh.cores[asking].outbox)
    for _ in range(8):
        mesh.put(asking)
    assert sent() == 8, "there is room again"


def test_nothing_is_founded_while_one_voter_has_not_answered() -> None:
    mesh = Mesh()
    mesh.cut = {"c"}
    mesh.start()
    mesh.pass_ticks(20)
    assert [core.group for core in mesh.cores.values()] == [None] * 3
    assert "no answer of c" in mesh.cores["a"].explain()
    mesh.cut = set()
    mesh.pass_ticks(20)
    assert [core.group for core in mesh.cores.values()] == [b"g" * 16] * 3


def test_nothing_is_founded_while_lists_differ() -> None:
    mesh = Mesh(lists={"c": "acb"})
    mesh.start()
    mesh.pass_ticks(20)
    assert [core.group for core in mesh.cores.values()] == [None] * 3
    assert "c was given voters a, c, b" in mesh.cores["a"].explain()


def test_an_endpoint_that_has_not_the_name_of_its_member_is_not_heard() -> None:
    mesh = Mesh(strangers=("c",))
    mesh.start()
    mesh.pass_ticks(20)
    assert [core.group for core in mesh.cores.values()] == [None] * 3
    assert "no answer of c" in mesh.cores["a"].explain()


def test_after_a_pause_what_came_meanwhile_is_heard_before_a_timer_fires() -> None:
    def silent_until_it_stands(ticks: int) -> tuple[Mesh, str]:
        """Give a follower that has heard nothing for so many ticks."""
        mesh = Mesh(durable=False)
        leader = mesh.lead()
        follower = next(name for name in "abc" if name != leader)
        for _ in range(ticks):
            mesh.tick(follower)
        return mesh, follower

    ticks = 1
    while True:
        mesh, follower = silent_until_it_stands(ticks)
        if mesh.said(follower, PreVote):
            break
        ticks += 1
    mesh, follower = silent_until_it_stands(ticks - 1)
    leader = next(name for name, core in mesh.cores.items() if core.is_leader)
    mesh.now_ns += LATE_NS
    mesh.tick(follower)
    assert not mesh.said(follower, PreVote), "the leader's word lies in its inbox"
    while not mesh.said(leader, Keepalive):
        mesh.tick(leader)
    mesh.work()
    mesh.tick(follower)
    assert not mesh.said(follower, PreVote)
    assert mesh.cores[follower].is_served


def test_members_know_at_once_that_their_leader_closed() -> None:
    mesh = Mesh("ad", {"a": "a", "d": ""}, durable=False)
    assert mesh.lead() == "a"
    mesh.take("a", mesh.cores["a"].close("it is closed"))
    mesh.work()
    assert not mesh.cores["d"].is_served
    assert isinstance(mesh.told["d"][-1], MasterLost)


@pytest.mark.parametrize("is_heard", [True, False], ids=["an election takes long", "alone"])
def test_what_is_asked_fails_early_where_no_majority_is_heard_alone(is_heard: bool) -> None:
    mesh = Mesh()
    leader = mesh.lead()
    asking, other = (name for name in mesh.cores if name != leader)
    mesh.cut = {leader} if is_heard else {leader, other}
    mesh.slow = {asking, other}  # No vote gets onto a disk.
    while mesh.cores[asking].is_served:
        mesh.tick()
        mesh.work()
    mesh.put(asking)
    ticks = 0
    while not mesh.outcomes(asking):
        mesh.tick()
        mesh.work()
        ticks += 1
    expected = PATIENCE_TICKS if is_heard else SILENT_TICKS
    assert abs(ticks - expected) <= 1
    (refused,) = mesh.outcomes(asking)
    assert refused.code is ErrorCode.NO_QUORUM
    assert ("being elected" in refused.text) is is_heard


def test_what_a_leader_asked_for_itself_fails_in_time_where_the_other_disks_hang() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    mesh.slow = set(mesh.cores) - {leader}
    mesh.put(leader)
    mesh.pass_ticks(PATIENCE_TICKS - 1)
    assert len(mesh.outcomes(leader)) == 1
    mesh.pass_ticks(2)
    _, refused = mesh.outcomes(leader)
    assert mesh.cores[leader].is_leader, "the others echo"
    assert refused.code is ErrorCode.NO_QUORUM
    assert "the leader is there, and waits for the disks of a majority" in refused.text


def test_a_request_that_is_repeated_while_it_waits_is_kept_a_few_times_at_most() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    asking = next(name for name in mesh.cores if name != leader)
    mesh.put(asking)
    mesh.work()
    mesh.slow = set(mesh.cores) - {leader}
    mesh.put(asking)
    (ask,) = [payload for who, _, payload in mesh.mail if who == asking]
    mesh.mail.clear()
    core = mesh.cores[leader]
    for _ in range(CALLERS_MAX + 7):
        mesh.take(leader, core.receive(mesh.where[asking], ask))
    assert len(mesh.said(leader, Declined)) == 7
    mesh.slow = set()
    mesh.pass_ticks(2)
    assert mesh.outcomes(asking) == [Applied(1), Applied(2)]
    assert core.revision == 2


def test_a_majority_that_came_back_with_nothing_is_told_of_with_what_to_do() -> None:
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    mesh.put(leader)
    mesh.work()
    first, second = (name for name in "abc" if name != leader)
    mesh.restart(first)
    mesh.restart(second)
    mesh.work()
    core = mesh.cores[leader]
    while core.is_served:
        mesh.tick()
        mesh.work()
    assert not core.hears_majority, "what answers there has no vote"
    mesh.put(leader)
    mesh.pass_ticks(SILENT_TICKS + 1)
    *_, refused = mesh.outcomes(leader)
    assert refused.code is ErrorCode.NO_QUORUM
    halt = f"{first}, {second} came back with nothing: promote(force=True) at {leader}"
    assert halt in refused.text
    mesh.take(leader, core.force())
    mesh.pass_ticks(300)
    assert {voter.name: voter.life for voter in core.voters} == {leader: 1, first: 2, second: 2}
    assert {each.machine.digest() for each in mesh.cores.values()} == {core.machine.digest()}


def test_voters_that_hear_of_a_lead_by_force_wait_for_it_and_say_what_to_do() -> None:
    mesh = Mesh()
    leader = mesh.lead()
    forced = next(name for name in mesh.cores if name != leader)
    mesh.cut = {forced}
    core = mesh.cores[forced]
    mesh.take(forced, core.force())
    for name in set(mesh.cores) - {forced}:
        for word in CODEC.encode(core.own, core.group, HigherTerm(core.epoch)):
            mesh.take(name, mesh.cores[name].receive(mesh.where[forced], word))
    mesh.pass_ticks(100)
    for name in set(mesh.cores) - {forced}:
        assert not mesh.cores[name].is_served
        assert (
            "its leader is not heard: start it, or promote(force=True)"
            in mesh.cores[name].explain()
        )
    mesh.cut = set()
    mesh.pass_ticks(10)
    assert {each.leader for each in mesh.cores.values()} == {core.own}


def test_a_founder_that_is_lost_as_it_founds_leaves_a_halt_that_says_what_to_do() -> None:
    mesh = Mesh(durable=False)
    mesh.start()
    _, *others = mesh.cores.values()
    while any(core.group is None for core in others):
        if not mesh.mail:
            mesh.tick("a")
        while mesh.mail and any(core.group is None for core in others):
            sender, to, payload = mesh.mail.popleft()
            mesh.take(to, mesh.cores[to].receive(mesh.where[sender], payload))
            mesh.take(to, mesh.cores[to].flush())
    assert [core.voters for core in others] == [(), ()], "its first entries are on their way"
    mesh.restart("a")
    mesh.work()
    mesh.put("b")
    while not mesh.outcomes("b"):
        mesh.tick()
        mesh.work()
    (refused,) = mesh.outcomes("b")
    assert refused.code is ErrorCode.NO_QUORUM
    assert "if its founder is gone, promote(force=True) at one replica" in refused.text
    mesh.take("b", mesh.cores["b"].force())
    mesh.pass_ticks(300)
    assert {voter.name: voter.life for voter in mesh.cores["a"].voters} == {"b": 1, "a": 2, "c": 1}
    assert all(core.is_served for core in mesh.cores.values())


def test_one_voter_that_came_back_with_nothing_is_no_halt() -> None:
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    back, other = (name for name in "abc" if name != leader)
    mesh.restart(back)
    mesh.work()
    mesh.cut = {other}
    mesh.take(leader, mesh.cores[leader].peer_unreachable(mesh.where[other]))
    while mesh.cores[leader].is_served:
        mesh.tick()
        mesh.work()
    text = mesh.cores[leader].explain()
    assert text.startswith("2 of 3 voters: ")
    assert f"{other} silent" in text


def test_who_was_removed_and_added_since_is_not_told_so_as_it_catches_up(monkeypatch) -> None:
    monkeypatch.setattr(followers, "CATCH_UP_RUN", 1)
    mesh = Mesh(durable=False)
    leader = mesh.lead()
    back = next(name for name in "abc" if name != leader)
    mesh.cut = {back}
    mesh.pass_ticks(followers.BREAK_TICKS)
    mesh.order(leader, Order.REMOVE, back)
    mesh.restart(back)
    mesh.cut = set()
    mesh.pass_ticks(2)
    assert mesh.news(back) == [News.DISMISSED]
    mesh.order(leader, Order.ADD, back)
    mesh.restart(back)
    core, was_dismissed = mesh.cores[back], False
    while core.member is None or core.missing_count or not was_dismissed:
        mesh.pass_on()
        if core.member is not None and core.member.journal.voters.dismissed:
            was_dismissed = True
            mesh.tick(back)
    assert core.member.journal.voters.dismissed == ()
    assert mesh.news(back) == []
