"""Masters in memory that are lost, and start again among their clones, in any order of events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import cbor2
from hypothesis import HealthCheck, given, settings, strategies as st

from stores.effects import Closed, Multicast, Unicast
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.effects import HistoryConflict
from stores.group.member_parts import Stored
from stores.group.positions import START, MemberId
from stores.group.words import Aim, Cede
from stores.replica.beginning import Beginning, Manner, World
from stores.replica.effects import News, Told
from stores.replica.roster import Roster
from stores.replica.tables.core import TableCore
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

TICK_NS = 100_000_000
CODEC = GroupCodec(TableCodec())
CLONES = "bcd"


class Store:
    """A master, and its clones; the master has another endpoint in each of its lives."""

    def __init__(self, clones: str = CLONES, seed: int = 0) -> None:
        self.random = Random(seed)
        self.now_ns = self.lives = self.puts = 0
        self.where: dict[str, EndpointId] = {}
        self.cores: dict[str, TableCore] = {}
        self.mail: deque[tuple[str, str, bytes]] = deque()
        self.told: dict[str, list[object]] = {}
        self.cut: set[str] = set()
        """Those that are out of reach of all others."""
        self.most: dict[str, set[bytes]] = {}
        """All that a clone ever had."""
        self.master = ""
        for name in clones:
            self._start(name, (), Manner(is_single=True))

    def _start(self, name: str, voters: tuple[str, ...], manner: Manner) -> None:
        self.lives += 1
        self.where[name] = EndpointId(bytes([self.lives]) * 16)
        own = MemberId(name, self.lives)
        stored = Stored(new_promises(own), NEW_SLOTS, START, (), (), 0, is_volatile=True)
        group = bytes([self.lives]) * 16
        world = World(
            draw=self.random.randint,
            monotonic_ns=lambda: self.now_ns,
            now_ns=lambda: self.now_ns,
            new_group=lambda: group,
            vouches=lambda endpoint, name: True,
            may_vote=lambda: True,
        )
        roster = Roster(own, self.where[name], voters)
        beginning = Beginning(stored, None, manner=manner)
        entity = EntityId(self.where[name], 0)
        machine = TableMachine("store s")
        core = self.cores[name] = TableCore(entity, roster, machine, CODEC, beginning, world)
        self.told[name], self.most[name] = [], set()
        self.take(name, core.start())

    def begin(self, aim: Aim = Aim.CLAIM) -> None:
        """Start a master, which knows of the clones in reach."""
        self.master = f"m{self.lives}"
        clones = [name for name in self.cores if name not in self.cut]
        announced = frozenset(self.where[name] for name in clones)
        manner = Manner(is_single=True, aim=aim, announced=announced)
        self._start(self.master, (self.master,), manner)

    def end(self, name: str, *, is_said: bool = False) -> None:
        """End a replica; the others learn at once that its endpoint is gone."""
        core, gone = self.cores.pop(name), self.where[name]
        if is_said:
            self.take(name, core.close("it is closed"))
        self.mail = deque(each for each in self.mail if name not in each[:2])
        for other in list(self.cores):
            self.take(other, self.cores[other].peer_unreachable(gone))
        self.cut.discard(name)

    def part(self, name: str) -> None:
        self.cut.add(name)
        for one, other in ((name, each) for each in self.cores if each != name):
            self.take(one, self.cores[one].peer_unreachable(self.where[other]))
            self.take(other, self.cores[other].peer_unreachable(self.where[one]))

    def join(self, name: str) -> None:
        self.cut.discard(name)
        for one, other in ((name, each) for each in self.cores if each not in {name} | self.cut):
            self.take(one, self.cores[one].endpoint_discovered(self.where[other]))
            self.take(other, self.cores[other].endpoint_discovered(self.where[one]))

    def take(self, name: str, effects: list) -> None:
        for effect in effects:
            match effect:
                case Multicast(payload):
                    self.mail += [(name, to, payload) for to in self.cores if to != name]
                case Unicast(where, payload):
                    to = next((each for each in self.cores if self.where[each] == where), None)
                    if to is not None:
                        self.mail.append((name, to, payload))
                case _:
                    self.told[name].append(effect)

    def deliver(self, count: int = 100_000) -> None:
        """Pass letters on; what crosses a cut is lost."""
        while self.mail and count:
            count -= 1
            sender, to, payload = self.mail.popleft()
            if not {sender, to} & self.cut and {sender, to} <= set(self.cores):
                core = self.cores[to]
                self.take(to, core.receive(self.where[sender], payload))
                self.take(to, core.flush())
        self.look()

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_ns += TICK_NS
            for name in list(self.cores):
                self.take(name, self.cores[name].tick(self.now_ns))
            self.deliver()

    def tick_alone(self, name: str) -> None:
        self.take(name, self.cores[name].tick(self.now_ns))
        self.deliver()

    def put(self) -> None:
        self.puts += 1
        core = self.cores.get(self.master)
        if core is not None and core.is_leader:
            core.requests.put(cbor2.dumps(self.puts), b"\x01")
            self.take(self.master, core.flush())

    def look(self) -> None:
        """See that no clone loses anything that it had."""
        for name, core in self.cores.items():
            has = set(core.machine.keys())
            assert self.most[name] <= has, f"{name} lost {self.most[name] - has}"
            self.most[name] = has

    def news(self, name: str) -> list[News]:
        return [each.news for each in self.told[name] if isinstance(each, Told)]

    def keys(self, name: str) -> set[int]:
        return set(map(cbor2.loads, self.cores[name].machine.keys()))


def filled(count: int = 5, clones: str = CLONES) -> Store:
    store = Store(clones)
    store.begin()
    store.tick(12)
    for _ in range(count):
        store.put()
    store.tick(3)
    for name in clones:
        assert len(store.keys(name)) == count
    return store


def test_a_master_that_starts_again_leads_with_what_the_best_clone_has() -> None:
    store = filled()
    store.cut = {"b", "c"}
    store.put()
    store.tick(2)
    store.cut = set()
    store.end(store.master)
    assert (len(store.keys("b")), len(store.keys("d"))) == (5, 6)
    revision = store.cores["d"].revision
    store.begin()
    store.tick(3)
    for name in (store.master, *CLONES):
        assert len(store.keys(name)) == 6
        assert store.cores[name].is_served
    assert store.cores[store.master].is_leader
    store.put()
    store.tick(2)
    assert store.cores["b"].revision > revision + 1, "a lost revision may have been read"


def test_a_clone_that_cedes_and_dies_is_followed_by_the_next_one() -> None:
    for letters in range(60):
        store = filled()
        store.end(store.master)
        store.begin()
        store.deliver(letters)
        source = next(
            (to for _, to, data in store.mail if isinstance(CODEC.decode(data).content, Cede)), None
        )
        store.end(source or "b")
        store.tick(60)
        assert store.cores[store.master].is_leader, letters
        assert len(store.keys(store.master)) == 5, letters


def test_a_master_that_dies_while_it_takes_over_loses_nothing() -> None:
    for letters in range(60):
        store = filled()
        store.end(store.master)
        store.begin()
        store.deliver(letters)
        store.end(store.master)
        store.begin()
        store.tick(40)
        assert store.cores[store.master].is_leader, letters
        assert len(store.keys(store.master)) == 5, letters


def test_a_clone_out_of_reach_that_has_more_keeps_it_and_tells() -> None:
    store = filled()
    store.cut = {"b", "c"}
    store.put()
    store.tick(2)
    store.cut = set()
    store.end(store.master)
    store.part("d")
    store.begin()
    store.tick(20)
    assert store.cores[store.master].is_leader
    assert len(store.keys(store.master)) == 5
    store.join("d")
    store.tick(30)
    assert len(store.keys("d")) == 6
    assert News.CONFLICT in store.news("d")


def test_a_master_that_has_what_a_clone_lacks_ends_and_says_whose_word_ends_the_other() -> None:
    store = filled()
    store.end(store.master)
    store.begin()
    core = store.cores[store.master]
    assert core.adoption.is_under_way
    core.tell_of(HistoryConflict(MemberId("d", 1), 3, 7))
    told, closed = core.take()
    assert isinstance(told, Told)
    assert isinstance(closed, Closed)
    assert closed.code is ErrorCode.STORE_CONFLICT
    assert closed.text.endswith("fresh=True leads with them, promote(force=True) at d without")


def test_of_two_masters_that_start_at_once_one_ends() -> None:
    store = filled()
    store.end(store.master)
    store.begin()
    first = store.master
    store.begin()
    store.tick(40)
    leaders = [name for name, core in store.cores.items() if core.is_leader]
    assert len(leaders) == 1
    (other,) = {first, store.master} - set(leaders)
    ends = [each for each in store.told[other] if isinstance(each, Closed)]
    assert [each.code for each in ends] in ([ErrorCode.MASTER_EXISTS], [])
    assert len(store.keys(leaders[0])) == 5


def test_a_master_ends_where_the_clone_that_is_to_cede_was_promoted_meanwhile() -> None:
    for letters in range(0, 30, 3):
        store = filled()
        store.end(store.master)
        store.begin()
        while not (wishes := [each for each in store.mail if _is_wish(each)]):
            store.deliver(1)
        _, heir, _ = wishes[0]
        store.mail = deque(each for each in store.mail if not _is_wish(each))
        store.deliver(letters)
        store.take(heir, store.cores[heir].force())
        store.tick(10)
        assert [name for name, core in store.cores.items() if core.is_leader] == [heir]
        ends = [each.code for each in store.told[store.master] if isinstance(each, Closed)]
        assert ends == [ErrorCode.MASTER_EXISTS], letters
        assert all(len(store.keys(name)) == 5 for name in CLONES)


def _is_wish(letter: tuple[str, str, bytes]) -> bool:
    return isinstance(CODEC.decode(letter[2]).content, Cede)


def test_a_clone_that_said_what_it_holds_hears_the_old_master_no_more() -> None:
    store = filled()
    old = store.master
    store.part(old)
    store.begin()
    new, store.master = store.master, old
    while not any(isinstance(CODEC.decode(data).content, Cede) for *_, data in store.mail):
        store.deliver(1)
    held = list(store.mail)
    store.mail.clear()
    store.cut = set()
    for _ in range(3):  # It says that it leads: its clones had lost it.
        store.tick_alone(old)
        store.put()
        store.deliver()
    assert all(len(store.keys(name)) == 5 for name in CLONES)
    store.mail += held
    store.master = new
    store.tick(20)
    assert store.cores[new].is_leader
    assert all(len(store.keys(name)) == 5 for name in CLONES)


def test_a_fresh_master_empties_the_clones_that_it_meets_and_they_tell() -> None:
    store = filled()
    store.end(store.master)
    store.part("d")
    store.begin(Aim.ANEW)
    for name in CLONES:
        store.most[name] = set()
    store.look = lambda: None
    store.tick(10)
    store.put()
    store.join("d")
    store.tick(20)
    for name in CLONES:
        assert store.keys(name) == {6}
        assert News.ANEW in store.news(name)


class Fate:
    """Does to a store what is drawn."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = Store(seed=seed)

    @property
    def has_master(self) -> bool:
        return self.store.master in self.store.cores

    def put(self) -> None:
        self.store.put()

    def tick(self) -> None:
        self.store.tick(self.random.randint(1, 12))

    def some(self) -> None:
        self.store.deliver(self.random.randint(1, 8))

    def end(self) -> None:
        if self.has_master:
            self.store.end(self.store.master, is_said=self.random.random() < 0.5)

    def begin(self) -> None:
        if not self.has_master:
            self.store.begin()

    def part(self) -> None:
        if not self.store.cut:
            self.store.part(self.random.choice(list(self.store.cores)))

    def join(self) -> None:
        for name in list(self.store.cut):
            self.store.join(name)

    def settle(self) -> None:
        self.join()
        if not (self.has_master and self.store.cores[self.store.master].is_leader):
            self.end()
            self.begin()
        self.store.tick(60)


STEPS = [Fate.put, Fate.put, Fate.tick, Fate.some, Fate.end, Fate.begin, Fate.part, Fate.join]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(STEPS), max_size=40), st.integers(0, 1 << 30))
def test_no_clone_loses_anything_whatever_happens(
    steps: list[Callable[[Fate], None]], seed: int
) -> None:
    fate = Fate(seed)
    store = fate.store
    store.begin()
    store.tick(12)
    for step in steps:
        step(fate)
    fate.settle()
    for name in CLONES:
        if store.cores[name].is_served:
            assert store.keys(name) == store.keys(store.master)
        else:
            assert News.CONFLICT in store.news(name) or store.told[store.master], name
