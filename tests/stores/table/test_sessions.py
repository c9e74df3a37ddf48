"""Sessions of the table's machine: they end late, never early, and their keys with them."""

from __future__ import annotations

from types import SimpleNamespace

import cbor2
import pytest
from hypothesis import given, settings, strategies as st

from stores.actions import (
    EraseCommand,
    ExpireCommand,
    Guard,
    GuardKind,
    PutCommand,
    Step,
    StepKind,
)
from stores.effects import Changed
from stores.group.clock import Times
from stores.group.machine import Answer, Append, Staged
from stores.group.positions import Position
from stores.group.terms import FORCED_TERMS
from stores.history import Commit
from stores.judgement import judge
from stores.limits import EXPIRY_END_NS, LIFE_END
from stores.lives import instant_of, life_of, session_of
from stores.outcomes import Refused
from stores.replica.lazy import installed, restored
from stores.scanning import EVERYTHING
from stores.table import ChangeKind, Table, sessions
from stores.table.bodies import (
    EndSession,
    OpenSession,
    RenewSession,
    SessionGranted,
    SessionHeard,
    SessionOpened,
    SessionsEnded,
    Write,
)
from stores.table.codec import decode_body, decode_part, encode_body, encode_part
from stores.table.machine import TableMachine
from stores.table.parts import SessionsPart
from stores.table.sessions import (
    GRACE,
    SESSION_KEYS_MAX,
    SESSION_KEYS_SIZE_MAX,
    TTL_NS_MAX,
    TTL_NS_MIN,
    number_of,
)
from tests.stores.group import disk, stage as staging
from tests.stores.group.stage import Stage
from tests.stores.table.holders import SessionLists, run_seed
from tests.stores.table.lab import SECOND_NS, Handle, Lab, contents, writer_id
from tests.stores.table.model import over_tables
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode

ALIVE, OVER = SessionHeard(is_alive=True), SessionHeard(is_alive=False)
TTL_NS = 8 * SECOND_NS
FULL_NS = TTL_NS + TTL_NS // GRACE


@pytest.fixture
def lab():
    return Lab()


@pytest.fixture
def handle(lab):
    return Handle(lab)


def nonce(number):
    return number.to_bytes(16, "big")


def opened(lab, number=1, ttl_ns=TTL_NS):
    return lab.ask(OpenSession(nonce(number), ttl_ns)).session


def pass_time(lab, span_ns):
    """Let time pass at the leader, and commit what that brings about."""
    lab.now_ns += span_ns
    while lab.expire() is not None:
        lab.commit()


# -- the life of a key -----------------------------------------------------------------------------


def test_a_life_is_an_instant_or_a_session():
    assert session_of(life_of(7)) == 7
    assert session_of(None) is session_of(0) is session_of(EXPIRY_END_NS - 1) is None
    assert life_of((1 << 56) - 1) == LIFE_END - 1
    assert instant_of(None, 5) is instant_of(life_of(7), 5) is None
    assert instant_of(3, 5) == 8
    assert instant_of(EXPIRY_END_NS - 1, 5) == EXPIRY_END_NS - 1


# -- exactly once ----------------------------------------------------------------------------------


def test_a_nonce_has_one_session_however_often_it_is_asked_for(lab):
    request = OpenSession(nonce(1), TTL_NS)
    index = lab.judge(request)
    assert lab.judge(request) == Staged(index)
    granted = lab.commit()
    assert granted == SessionGranted(number_of(nonce(1), index))
    assert lab.judge(request) == Answer(granted)
    lab.swap()
    assert lab.judge(request) == Answer(granted)
    lab.check()


def test_a_session_whose_entry_was_lost_is_opened_anew(lab):
    request = OpenSession(nonce(1), TTL_NS)
    lab.judge(request)
    lab.lose()
    assert isinstance(lab.judge(request), int)


def test_a_session_is_ended_once(lab):
    session = opened(lab)
    index = lab.judge(EndSession(session))
    assert lab.judge(EndSession(session)) == Staged(index)
    assert lab.judge(RenewSession(session)) == Answer(OVER)
    lab.commit()
    assert lab.judge(EndSession(session)) == Answer(OVER)
    assert opened(lab) != session
    lab.check()


def test_an_end_that_was_lost_did_not_happen(lab, handle):
    session = opened(lab)
    handle.put("key", 1, life_of(session))
    lab.commit()
    lab.judge(EndSession(session))
    lab.lose()
    assert contents(lab.leader) == {"key": 1}
    assert lab.judge(RenewSession(session)) == Answer(ALIVE)
    lab.ask(EndSession(session))
    assert contents(lab.leader) == {}
    lab.check()


@pytest.mark.parametrize("ttl_ns", [0, TTL_NS_MIN - 1, TTL_NS_MAX + 1])
def test_a_time_to_live_that_no_handle_asks_for_is_refused(lab, ttl_ns):
    with pytest.raises(DecodeError, match="lives for"):
        lab.judge(OpenSession(nonce(1), ttl_ns))


def test_a_group_has_so_many_sessions(lab, monkeypatch):
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    kept = [opened(lab, number) for number in range(2)]
    lab.judge(OpenSession(nonce(2), TTL_NS))
    assert lab.judge(OpenSession(nonce(3), TTL_NS)) == Answer(SessionGranted(None))
    lab.commit()
    lab.ask(EndSession(kept[0]))
    assert opened(lab, 3) is not None


@pytest.mark.parametrize("ttl_ns", [TTL_NS_MIN, TTL_NS_MAX])
def test_a_session_may_live_as_long_or_as_short_as_that(lab, ttl_ns):
    assert opened(lab, 1, ttl_ns) is not None


def test_a_session_that_is_ending_gives_its_nonce_free(lab):
    session = opened(lab)
    lab.judge(EndSession(session))
    index = lab.judge(OpenSession(nonce(1), TTL_NS))
    assert isinstance(index, int)
    granted = lab.commit()
    assert granted.session not in (None, session)
    assert lab.judge(OpenSession(nonce(1), TTL_NS)) == Answer(granted)
    # What was asked twice about the one before does nothing to it.
    assert lab.judge(RenewSession(session)) == lab.judge(EndSession(session)) == Answer(OVER)
    lab.ask(EndSession(granted.session))
    assert lab.judge(RenewSession(granted.session)) == Answer(OVER)
    assert lab.judge(EndSession(granted.session)) == Answer(OVER)
    lab.check()


def test_a_session_that_was_never_there_is_over(lab, handle):
    assert lab.judge(RenewSession(7)) == lab.judge(EndSession(7)) == Answer(OVER)
    handle.put("key", 1, life_of(7))
    assert handle.result.text == "session 7 has ended: what it had is gone"


def test_a_session_that_was_opened_is_no_longer_counted_as_one_that_opens(lab, monkeypatch):
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    assert opened(lab, 1) is not None
    assert opened(lab, 2) is not None
    assert opened(lab, 3) is None


# -- time ------------------------------------------------------------------------------------------


def test_a_session_ends_after_its_time_and_some_more(lab, handle):
    session = opened(lab)
    handle.put("key", 1, life_of(session))
    lab.commit()
    pass_time(lab, SECOND_NS)  # Its time begins with this tick.
    pass_time(lab, FULL_NS - 1)
    assert contents(lab.leader) == {"key": 1}
    pass_time(lab, 1)
    assert contents(lab.leader) == {}
    assert lab.judge(RenewSession(session)) == Answer(OVER)
    lab.check()


def test_a_renewal_is_no_entry_and_counts_from_the_next_tick(lab):
    session = opened(lab)
    pass_time(lab, SECOND_NS)
    for _ in range(5):
        assert lab.judge(RenewSession(session)) == Answer(ALIVE)
        # The leader paused between its last tick and the renewal: that is no time of the session.
        pass_time(lab, FULL_NS - 1)
        pass_time(lab, FULL_NS - 1)
        assert lab.judge(RenewSession(session)) == Answer(ALIVE)
    count = len(lab.entries)
    pass_time(lab, SECOND_NS)
    pass_time(lab, FULL_NS)
    assert len(lab.entries) == count + 1


def test_a_new_leader_gives_all_sessions_their_full_time(lab):
    session = opened(lab)
    pass_time(lab, SECOND_NS)
    old = lab.leader
    lab.swap()
    lab.leader.lead(lab.now, lab.term)
    pass_time(lab, 3 * FULL_NS)
    pass_time(lab, FULL_NS - 1)
    assert lab.judge(RenewSession(session)) == Answer(ALIVE)
    lab.swap()
    assert lab.leader is old
    lab.leader.lead(lab.now, lab.term)  # Its deadlines are of its first lead.
    pass_time(lab, SECOND_NS)
    assert lab.judge(RenewSession(session)) == Answer(ALIVE)


def test_the_group_keeps_its_clock_while_there_is_a_session(lab):
    assert not lab.leader.has_deadlines()
    session = opened(lab)
    assert lab.leader.has_deadlines()
    lab.ask(EndSession(session))
    assert not lab.leader.has_deadlines()


def test_many_sessions_end_in_entries_of_bounded_size(lab, handle):
    count, size = 7, 60_000
    for number in range(count):
        handle.put(f"{number}" * size, 1, life_of(opened(lab, number)))
    lab.commit()
    pass_time(lab, SECOND_NS)
    before = len(lab.entries)
    pass_time(lab, FULL_NS)
    ended = [body for _, body in lab.entries[before:]]
    assert [len(body.sessions) for body in ended] == [4, 3]
    assert max(len(encode_body(body)) for body in ended) < SESSION_KEYS_SIZE_MAX
    assert contents(lab.leader) == {}
    lab.check()


def test_an_end_names_as_many_keys_as_a_slice_has(lab, handle, monkeypatch):
    monkeypatch.setattr(sessions, "SLICE_COUNT", 4)
    owned = [opened(lab, number) for number in range(5)]
    for session, count in zip(owned, (2, 2, 0, 1, 6), strict=True):
        for number in range(count):
            handle.put(f"{session} {number}", 1, life_of(session))
    lab.commit()
    pass_time(lab, SECOND_NS)
    before = len(lab.entries)
    pass_time(lab, FULL_NS)
    ended = [body for _, body in lab.entries[before:]]
    assert [body.sessions for body in ended] == [tuple(owned[:3]), (owned[3],), (owned[4],)]
    assert [len(body.removal.keys) for body in ended] == [4, 1, 6]
    assert contents(lab.leader) == {}
    assert not lab.leader.has_deadlines()
    lab.check()


def test_a_session_without_keys_removes_none(lab):
    session = opened(lab)
    index = lab.judge(EndSession(session))
    assert lab.entries[index - 1][1] == SessionsEnded((session,), None)


def test_what_ends_by_time_is_ended_once(lab):
    first, second = opened(lab, 1), opened(lab, 2, 2 * TTL_NS)
    pass_time(lab, SECOND_NS)
    lab.now_ns += FULL_NS
    assert lab.expire() is not None
    assert lab.expire() is None, "it is under way"
    lab.lose()
    assert lab.expire() is not None
    lab.commit()
    assert lab.judge(RenewSession(first)) == Answer(OVER)
    assert lab.judge(RenewSession(second)) == Answer(ALIVE)


# -- keys ------------------------------------------------------------------------------------------


def test_keys_go_with_their_session_in_one_entry(lab, handle):
    session = opened(lab)
    life = life_of(session)
    handle.put("put", 1, life)
    handle.increment("count", 2, life)
    handle.requests.put_unique(encode("unique"), encode(1), life)
    handle.batch([], [Step(StepKind.PUT, encode("batch"), encode(1), None, life)])
    handle.put("other", 1)
    lab.commit()
    watcher = lab.leader.watch(EVERYTHING)
    while watcher.take():
        pass
    seen = []
    lab.leader.telling.observe(seen.append)
    count = len(lab.entries)
    lab.ask(EndSession(session))
    assert len(lab.entries) == count + 1
    assert contents(lab.leader) == {"other": 1}
    gone = {encode(key) for key in ("put", "count", "unique", "batch")}
    assert {(change.kind, change.key) for change in seen if isinstance(change, Changed)} == {
        (ChangeKind.EXPIRE, key) for key in gone
    }
    commits = [item for item in watcher.take() if isinstance(item, Commit)]
    assert {change.key for commit in commits for change in commit.changes} == gone
    lab.check()


def test_a_key_belongs_to_its_last_put(lab, handle):
    first, second = opened(lab, 1), opened(lab, 2)
    for key in ("freed", "taken", "expiring", "erased", "kept"):
        handle.put(key, 1, life_of(first))
    handle.put("freed", 2)
    handle.put("taken", 2, life_of(second))
    handle.put("expiring", 2, 60 * SECOND_NS)
    handle.erase("erased")
    lab.ask(EndSession(first))
    assert contents(lab.leader) == {"freed": 2, "taken": 2, "expiring": 2}
    lab.ask(EndSession(second))
    assert contents(lab.leader) == {"freed": 2, "expiring": 2}
    lab.check()


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_session_that_is_over_takes_no_keys(lab, handle, is_staged):
    session = opened(lab)
    lab.judge(EndSession(session))
    if not is_staged:
        lab.commit()
    handle.put("key", 1, life_of(session))
    handle.requests.put(encode("a"), encode(1), life_of(session))
    handle.requests.put(encode("b"), encode(1), life_of(session))
    handle.seal()
    assert [each.result.code for each in handle.outcomes()] == [ErrorCode.SESSION_EXPIRED] * 2
    step = Step(StepKind.PUT, encode("c"), encode(1), None, life_of(session))
    handle.batch([Guard(GuardKind.EXISTS, encode("none"))], [step], [step])
    assert handle.result.code is ErrorCode.SESSION_EXPIRED
    assert contents(lab.leader) == {}
    lab.check()


def test_a_session_has_so_many_keys(lab, handle):
    session = opened(lab)
    for start in range(0, SESSION_KEYS_MAX, 100):
        for number in range(start, start + 100):
            handle.requests.put(encode(number), encode(1), life_of(session))
        handle.seal()
    handle.put("more", 1, life_of(session))
    assert handle.result.code is ErrorCode.QUOTA_EXCEEDED
    handle.put(0, 2, life_of(session))
    handle.erase(1)
    handle.put("more", 1, life_of(session))
    handle.put(2, 2)
    handle.put("most", 1, life_of(session))
    handle.put("too many", 1, life_of(session))
    assert handle.result.code is ErrorCode.QUOTA_EXCEEDED
    assert handle.result.text == (
        f"session {session} has 1000 keys: a session has up to 1000 keys, of 262144 bytes together"
    )
    lab.ask(EndSession(session))
    assert contents(lab.leader) == {2: 2}
    lab.check()


def test_of_puts_that_travel_together_a_session_takes_those_that_fit(lab, handle):
    session = opened(lab)
    keys = [*range(SESSION_KEYS_MAX + 2), 0, 1]
    for number in keys:
        handle.requests.put(encode(number), encode(1), life_of(session))
    handle.seal()
    lab.commit()
    outcomes = [each for index in handle.judged for each in lab.answers[index]]
    assert outcomes[-1].last_request == len(keys)
    refused = [each for each in outcomes if isinstance(each.result, Refused)]
    asked = [
        number for each in refused for number in range(each.first_request, each.last_request + 1)
    ]
    assert [keys[number - 1] for number in asked] == [SESSION_KEYS_MAX, SESSION_KEYS_MAX + 1]
    assert len(lab.leader) == SESSION_KEYS_MAX
    lab.check()


def test_a_session_has_keys_of_so_many_bytes(lab, handle):
    session = opened(lab)
    for number in range(5):
        handle.put(f"{number}" * 60_000, 1, life_of(session))
    assert handle.result.code is ErrorCode.QUOTA_EXCEEDED
    assert len(lab.leader) == 4


@pytest.mark.parametrize(("room", "has_both"), [(9, True), (8, False)])
def test_a_session_has_keys_of_as_many_bytes_as_that(lab, handle, monkeypatch, room, has_both):
    monkeypatch.setattr(sessions, "SESSION_KEYS_SIZE_MAX", room)
    assert len(encode("abc")) + len(encode("defg")) == 9
    session = opened(lab)
    handle.put("abc", 1, life_of(session))
    handle.put("defg", 1, life_of(session))
    lab.commit()
    assert sorted(contents(lab.leader)) == (["abc", "defg"] if has_both else ["abc"])


def test_keys_of_a_batch_live_with_sessions(lab, handle):
    session = opened(lab)
    steps = [
        Step(StepKind.PUT, encode("bound"), encode(1), expiry_ns=life_of(session)),
        Step(StepKind.PUT, encode("short"), encode(1), expiry_ns=SECOND_NS),
        Step(StepKind.PUT, encode("kept"), encode(1)),
        Step(StepKind.ERASE, encode("gone")),
    ]
    handle.batch([], steps)
    lab.commit()
    for leads_on in (False, True):
        if leads_on:
            lab.swap()
        judgement = lab.leader.judge(EndSession(session), lab.now)
        assert judgement.body.removal == ExpireCommand([encode("bound")])
    pass_time(lab, SECOND_NS)
    assert sorted(contents(lab.leader)) == ["bound", "kept"]
    lab.ask(EndSession(session))
    assert contents(lab.leader) == {"kept": 1}
    lab.check()


def test_keys_that_are_staged_end_with_their_session_at_the_next_leader(lab, handle):
    session = opened(lab)
    life = life_of(session)
    handle.batch([], [Step(StepKind.PUT, encode("batch"), encode(1), expiry_ns=life)])
    put = PutCommand(handle.writer, 2, None, [encode("plain"), encode(1)])
    erase = EraseCommand(handle.writer, 3, [encode("plain")])
    bound = PutCommand(handle.writer, 4, life, [encode("bound"), encode(1)])
    lab.judge(Write(handle.number, (put, erase, bound)))
    lab.swap()
    judgement = lab.leader.judge(EndSession(session), lab.now)
    assert judgement.body.removal == ExpireCommand([encode("batch"), encode("bound")])


def test_a_session_keeps_twice_as_many_keys_in_mind_as_it_may_have(lab, handle, monkeypatch):
    monkeypatch.setattr(sessions, "SESSION_KEYS_MAX", 2)
    session = opened(lab)
    counts = []
    for number in range(20):
        handle.put(number, 1, life_of(session))
        handle.erase(number)
        lab.commit()
        counts += [len(machine._lifetimes.sessions._keys[session]) for machine in lab.machines]
    assert max(counts) == 4
    lab.ask(EndSession(session))
    for machine in lab.machines:
        assert machine._lifetimes.sessions._keys == {}


def test_a_new_leader_keeps_no_more_keys_in_mind_of_what_is_staged(lab, handle, monkeypatch):
    monkeypatch.setattr(sessions, "SESSION_KEYS_MAX", 2)
    session = opened(lab)
    for number in range(20):
        handle.put(number, 1, life_of(session))
        handle.erase(number)
    lab.swap()
    assert len(lab.leader._lifetimes.sessions._keys[session]) <= 4


def test_a_key_that_no_session_has_room_for_is_refused(lab, handle, monkeypatch):
    monkeypatch.setattr(sessions, "SESSION_KEYS_SIZE_MAX", 3)
    session = opened(lab)
    handle.put("long", 1, life_of(session))
    assert handle.result.text.startswith(f"session {session} has 0 keys")


def test_nothing_is_left_of_a_session_that_is_over(lab, handle):
    session = opened(lab)
    handle.put("key", 1, life_of(session))
    lab.commit()
    pass_time(lab, SECOND_NS)
    assert lab.leader._lifetimes.sessions._deadlines
    assert lab.ask(EndSession(session)) == OVER
    kept = lab.leader._lifetimes.sessions
    assert (kept._deadlines, kept._keys, len(kept)) == ({}, {}, 0)
    assert lab.ask(EndSession(session)) == OVER
    over = lab.leader.position.index + 1
    assert lab.leader.apply(Position(1, over), SessionsEnded((session,), None)) == OVER


@pytest.mark.parametrize(("room", "count"), [(9, 1), (8, 2)])
def test_sessions_end_together_as_long_as_their_keys_are_short(
    lab, handle, monkeypatch, room, count
):
    for number, key in ((1, "abc"), (2, "defg")):
        handle.put(key, 1, life_of(opened(lab, number)))
    lab.commit()
    monkeypatch.setattr(sessions, "SESSION_KEYS_SIZE_MAX", room)
    pass_time(lab, SECOND_NS)
    before = len(lab.entries)
    pass_time(lab, FULL_NS)
    assert len(lab.entries) - before == count


def test_no_member_keeps_what_a_session_had_long_ago(lab, handle):
    session = opened(lab)
    for number in range(4 * SESSION_KEYS_MAX):
        handle.put(number, 1, life_of(session))
        handle.erase(number)
        lab.commit()
    for machine in lab.machines:
        assert len(machine._lifetimes.sessions._keys[session]) <= 2 * SESSION_KEYS_MAX


@pytest.mark.parametrize("is_cleared", [False, True])
def test_what_an_undo_brings_back_ends_with_its_session(lab, handle, is_cleared):
    session = opened(lab)
    for number in range(SESSION_KEYS_MAX):
        handle.requests.put(encode(number), encode(1), life_of(session))
    handle.seal()
    lab.commit()
    if is_cleared:
        handle.clear()
    else:
        handle.erase(0)
    handle.put("more", 1, life_of(session))  # It looks which keys live with the session.
    lab.lose()
    lab.ask(EndSession(session))
    assert contents(lab.leader) == {}
    lab.check()


def test_no_session_ends_by_time_under_a_staged_clear(lab, handle):
    session = opened(lab)
    handle.put("key", 1, life_of(session))
    lab.commit()
    pass_time(lab, SECOND_NS)
    handle.clear()
    lab.now_ns += 2 * FULL_NS
    assert lab.expire() is None
    lab.lose()
    pass_time(lab, SECOND_NS)
    assert contents(lab.leader) == {}
    lab.check()


def test_what_an_undo_brings_back_expires(lab, handle):
    """A clear that waits to be done is one that may be undone, too."""
    handle.put("key", 1, SECOND_NS)
    lab.commit()
    handle.clear()
    lab.now_ns += 2 * SECOND_NS
    assert lab.expire() is None
    lab.lose()
    pass_time(lab, 0)
    assert contents(lab.leader) == {}
    lab.check()


def test_a_store_of_the_old_kind_refuses_sessions():
    put = PutCommand(writer_id(1), 1, life_of(3), [encode("a"), encode(1)])
    (refused,) = judge(put, Table(), 5)
    assert refused.code is ErrorCode.SESSION_EXPIRED


# -- the whole state -------------------------------------------------------------------------------


def test_a_snapshot_has_the_sessions(lab, handle):
    session = opened(lab)
    handle.put("key", 1, life_of(session))
    lab.commit()
    copy = TableMachine()
    copy.install([decode_part(encode_part(part)) for part in lab.leader.freeze()])
    assert copy.digest() == lab.leader.digest()
    assert copy.judge(OpenSession(nonce(1), TTL_NS), lab.now) == Answer(SessionGranted(session))
    judgement = copy.judge(EndSession(session), lab.now)
    assert judgement == Append(SessionsEnded((session,), ExpireCommand([encode("key")])))
    lab.ask(EndSession(session))
    assert copy.digest() != lab.leader.digest()
    copy.apply(lab.leader.position, decode_body(encode_body(judgement.body)))
    assert copy.digest() == lab.leader.digest()


def test_sessions_count_in_the_digest(lab):
    opened(lab)
    other = Lab()
    opened(other, 2)
    assert lab.leader.digest() != other.leader.digest()


def test_a_file_has_the_sessions_beside_its_rows(lab, handle):
    session = opened(lab)
    handle.put("key", 1, life_of(session))
    lab.commit()
    parts = tuple(lab.leader.freeze())
    changes, packed = installed(SimpleNamespace(parts=parts))
    assert sum(len(each.rows.keys) for each in changes if each.rows) == 1
    meta = SimpleNamespace(machine=packed, applied=lab.leader.position)
    copy = TableMachine()
    copy.install(restored(meta, lab.leader.revision, lab.leader.snapshot(), ()))
    assert copy.digest() == lab.leader.digest()
    assert any(isinstance(part, SessionsPart) for part in lab.leader.beside_rows())


def test_a_snapshot_with_a_session_twice_is_refused(lab):
    opened(lab)
    parts = list(lab.leader.freeze())
    with pytest.raises(DecodeError, match="one twice"):
        TableMachine().install([*parts, parts[-1]])


class Program:
    """Holders of sessions, each with what it believes."""

    def __init__(self):
        self.lab = Lab(followers=2)
        self.handle = Handle(self.lab)
        self.believed: dict[int, int] = {}
        """Until when each session is counted on."""
        self.ended: set[int] = set()
        self.begun = 0

    def open(self, session):
        self.begun += 1
        self.believed[opened(self.lab, self.begun)] = self.lab.now_ns + TTL_NS

    def renew(self, session):
        if self.lab.judge(RenewSession(session)) == Answer(ALIVE):
            self.believed[session] = self.lab.now_ns + TTL_NS

    def put(self, session):
        self.handle.put(session % 3, 1, life_of(session))

    def end(self, session):
        self.lab.judge(EndSession(session))
        self.ended.add(session)

    def swap(self, session):
        self.lab.swap()
        self.lab.leader.lead(self.lab.now, self.lab.term)

    def tick(self, session):
        self.lab.expire()

    def commit(self, session):
        self.lab.commit()

    def check(self):
        rows = {row.session for row in self.lab.leader._lifetimes.sessions.rows()}
        for session, until_ns in self.believed.items():
            assert session in rows | self.ended or self.lab.now_ns >= until_ns


CALLS = [Program.open, Program.renew, Program.put, Program.end]
EVENTS = [Program.swap, Program.tick, Program.tick, Program.commit]
SPANS = st.sampled_from([0, 0, SECOND_NS, 5 * SECOND_NS])
PROGRAMS = st.lists(
    st.tuples(SPANS, st.sampled_from([*CALLS, *EVENTS]), st.integers(0, 9)), min_size=5, max_size=60
)


@settings(deadline=None, max_examples=150)
@given(PROGRAMS)
def test_random_programs_end_no_session_early_and_leave_none(steps):
    program = Program()
    lab = program.lab
    for span_ns, call, which in steps:
        lab.now_ns += span_ns
        known = sorted(program.believed)
        call(program, known[which % len(known)] if known else 10**6)
        program.check()
    lab.commit()
    pass_time(lab, 0)
    pass_time(lab, FULL_NS)
    assert contents(lab.leader) == {}
    assert not list(lab.leader._lifetimes.sessions.rows())
    lab.check()


# -- in a group ------------------------------------------------------------------------------------


def test_a_deposed_leader_renews_nothing(monkeypatch):
    """Member a does not know that b leads, and has ended the session."""
    with over_tables(), monkeypatch.context() as patch:
        patch.setattr(staging, "Lists", SessionLists)
        patch.setattr(disk, "Lists", SessionLists)
        patch.setattr(SessionLists, "ended", staticmethod(lambda session: None))
        stage = Stage()
        stage.settle_in()
        stage.do("a", "propose", "open", OpenSession(nonce(1), TTL_NS))
        stage.pass_on("abc", sync="abc")
        session = stage.answer().session
        stage.tick("a", links=["abc"], sync="abc")
        assert stage.elect("b", "c")
        stage.tick("b", times=120, links=["bc"], sync="bc")
        assert stage.members["b"].state.machine.judge(RenewSession(session), Times(0, 0)) == Answer(
            OVER
        )
        stage.told.clear()
        stage.do("a", "propose", "renew", RenewSession(session))
        assert stage.told == []
        stage.tick("a", times=30)
        assert [type(each).__name__ for each in stage.told] == ["Failed"]


def test_a_leader_in_touch_renews_without_an_entry(monkeypatch):
    with over_tables(), monkeypatch.context() as patch:
        patch.setattr(staging, "Lists", SessionLists)
        patch.setattr(disk, "Lists", SessionLists)
        stage = Stage()
        stage.settle_in()
        stage.do("a", "propose", "open", OpenSession(nonce(1), TTL_NS))
        stage.pass_on("abc", sync="abc")
        session, end = stage.answer().session, stage.members["a"].journal.end
        stage.do("a", "propose", "renew", RenewSession(session))
        stage.pass_on("abc", sync="abc")
        assert stage.answer() == ALIVE
        assert stage.members["a"].journal.end == end


SEEDS = 6
"""Some seconds; ``python -m tests.stores.table --sessions`` runs as many as wanted."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_holders_and_their_group_agree_in_a_random_world(seed):
    failure, figures = run_seed(seed)
    assert failure is None
    assert figures["renewed"] > 20
    assert figures["expired"]


# -- numbers ---------------------------------------------------------------------------------------


def test_a_number_is_drawn_from_the_nonce_and_the_index_of_the_entry():
    machine = TableMachine()
    body = machine.judge(OpenSession(nonce(1), TTL_NS), Times()).body
    position = Position(1, 7)
    machine.stage(position, body)
    assert machine.apply(position, body) == SessionGranted(number_of(nonce(1), 7))
    # All members have to come to the same, in all builds.
    assert number_of(nonce(1), 7) == 46_115_699_563_785_720


def test_numbers_are_told_from_those_of_earlier_builds_and_fit_into_a_life():
    drawn = [number_of(nonce(number), 7) for number in range(200)]
    assert len(set(drawn)) == 200
    assert min(drawn) >= 1 << 55
    assert max(drawn) < 1 << 56
    assert max(drawn) - min(drawn) > 1 << 54
    assert life_of(max(drawn)) < LIFE_END


def test_a_journal_of_an_earlier_build_has_its_sessions_by_their_indexes(lab):
    body = decode_body(cbor2.dumps([6, nonce(1), TTL_NS]))
    assert body == SessionOpened(nonce(1), TTL_NS, is_drawn=False)
    assert decode_body(encode_body(body)) == body
    index = lab.append(body)
    lab.commit()
    assert lab.answers[index] == SessionGranted(index)
    assert lab.judge(OpenSession(nonce(1), TTL_NS)) == Answer(SessionGranted(index))
    assert lab.judge(RenewSession(index)) == Answer(ALIVE)
    assert lab.ask(EndSession(index)) == OVER
    lab.check()


def test_a_number_that_is_taken_is_given_to_no_other(lab, handle, monkeypatch):
    session = opened(lab, 1)
    handle.put("key", 1, life_of(session))
    lab.commit()
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "number_of", lambda nonce, index: session)
        assert opened(lab, 2) is None
    assert [row.nonce for row in lab.leader._lifetimes.sessions.rows()] == [nonce(1)]
    assert lab.judge(OpenSession(nonce(1), TTL_NS)) == Answer(SessionGranted(session))
    assert opened(lab, 2) not in (None, session)  # It draws anew.
    lab.check()


def test_two_histories_of_one_store_have_no_session_in_common():
    """Each of two sides leads by force, and neither has what the other one had."""
    sides = [Lab(), Lab()]
    held = []
    for number, lab in enumerate(sides):
        lab.term += FORCED_TERMS + number
        handle = Handle(lab)
        session = opened(lab, number)
        handle.put("lock", number, life_of(session))
        lab.commit()
        held.append(session)
    lost, (kept, kept_session) = held[0], (sides[1], held[1])
    assert len(sides[0].entries) == len(kept.entries)
    assert kept.judge(RenewSession(lost)) == Answer(OVER)
    assert kept.judge(EndSession(lost)) == Answer(OVER)
    late = Handle(kept, 2)
    late.put("late", 1, life_of(lost))
    kept.commit()
    assert late.result.code is ErrorCode.SESSION_EXPIRED
    assert kept.judge(RenewSession(kept_session)) == Answer(ALIVE)
    assert contents(kept.leader) == {"lock": 1}
    kept.check()
