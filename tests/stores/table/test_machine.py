"""The table's machine by itself: what is staged is hidden, what is applied is the same for all."""

from __future__ import annotations

import re

import pytest

from handshake.access import Right
from stores.actions import (
    AddCommand,
    ExpireCommand,
    Guard,
    GuardKind,
    Initial,
    PutCommand,
    PutUniqueCommand,
    RefusalCommand,
    Step,
    StepKind,
    size_of,
)
from stores.group.clock import Times
from stores.group.machine import Answer, Append, Staged
from stores.group.positions import START, Position
from stores.group.terms import FORCED_TERMS
from stores.limits import RUN_COUNT_MAX
from stores.lives import life_of
from stores.outcomes import Applied, Refused
from stores.persistence import Census
from stores.questions import LookUpCommand
from stores.quota import Quota, QuotaLevel
from stores.scanning import EVERYTHING
from stores.table import ChangeKind, Columns, Entry, parts, writers
from stores.table.bodies import (
    ChangeQuota,
    Compare,
    Compared,
    EndSession,
    OpenSession,
    OutOfOrder,
    QuotaChanged,
    Read,
    Register,
    Registered,
    Registration,
    SessionsEnded,
    Stamp,
    Write,
    check_asker,
)
from stores.table.codec import decode_body, encode_body
from stores.table.lineage import Reign
from stores.table.machine import TableMachine
from stores.table.overlay import SKIP_MIN, SKIP_PER_TERM, Skip, skip_of
from stores.table.rights import right_of
from stores.work import SLICE_COUNT
from tests.stores.table.lab import SECOND_NS, Handle, Lab, contents, shown, value_of, writer_id
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode


@pytest.fixture
def lab():
    return Lab()


@pytest.fixture
def handle(lab):
    return Handle(lab)


# -- what is staged --------------------------------------------------------------------------------


def test_readers_see_only_what_is_committed(lab, handle):
    handle.put("key", 1)
    lab.commit()
    handle.put("key", 2)
    handle.increment("key")
    handle.put("other", 1)
    assert contents(lab.leader) == {"key": 1}
    assert len(lab.leader) == 1
    lab.commit(1)
    assert contents(lab.leader) == {"key": 2}
    lab.commit(1)
    assert contents(lab.leader) == {"key": 3}
    lab.commit()
    assert contents(lab.leader) == {"key": 3, "other": 1}
    lab.check()


def test_of_some_keys_those_are_counted_that_fit(lab, handle):
    handle.put("a", "x" * 8)  # two bytes and nine
    handle.put("b", "x" * 7)
    handle.put("c", "x" * 20)
    lab.commit()
    keys = [encode(name) for name in ("a", "gone", "b", "c", "a")]
    found = [lab.leader.count_within(keys, size) for size in (0, 10, 11, 15, 16, 25, 26, 48, 49)]
    assert found == [1, 1, 1, 1, 2, 2, 3, 3, 4]
    # As large as the largest one, 23 bytes, is each of them at most.
    assert [lab.leader.count_within(keys[:2], size) for size in (45, 46)] == [2, 2]
    assert lab.leader.count_within([], 0) == 0


def test_an_increment_is_judged_by_what_is_staged(lab, handle):
    for _ in range(5):
        handle.increment("n")
    assert value_of(lab.leader, "n") is None
    lab.commit()
    assert value_of(lab.leader, "n") == 5


def test_compare_and_set_sees_what_is_staged_and_not_committed(lab, handle):
    handle.put("key", 1)
    lab.commit()
    revision = lab.leader.entry(encode("key")).revision
    handle.compare_and_set("key", 2, revision)
    handle.compare_and_set("key", 3, revision)
    lab.commit(1)
    assert value_of(lab.leader, "key") == 2
    assert handle.result.code is ErrorCode.GUARD_FAILED
    assert value_of(lab.leader, "key") == 2


def test_readers_see_each_of_several_changes_when_it_is_committed(lab, handle):
    handle.put("key", 1)
    for _ in range(3):
        handle.increment("key")
    handle.batch([], [Step(StepKind.ERASE, encode("key"))])
    handle.increment("key", 9)
    handle.increment("key")
    for value, revision in ((1, 1), (2, 2), (3, 3), (4, 4), (None, 5), (9, 6), (10, 7)):
        lab.commit(1)
        entry = lab.leader.entry(encode("key"))
        assert value_of(lab.leader, "key") == value
        assert lab.leader.revision == revision
        assert entry is None or entry.revision == revision
    lab.check()


def test_undo_brings_back_everything(lab, handle):
    handle.put_all((number, number) for number in range(10))
    handle.put("short", 1, SECOND_NS)
    lab.commit()
    before, digest = shown(lab.leader), lab.leader.digest()
    handle.put("short", 2)
    handle.increment(3, 10)
    handle.erase(4)
    handle.put("new", 1)
    handle.clear()
    handle.put(5, 50)
    handle.increment(6)
    assert shown(lab.leader) == before
    lab.lose()
    assert shown(lab.leader) == before
    assert lab.leader.digest() == digest
    lab.check()


def test_a_staged_clear_hides_nothing_from_readers(lab, handle):
    handle.put("a", 1)
    lab.commit()
    handle.clear()
    handle.put("b", 1)
    handle.increment("b")
    assert contents(lab.leader) == {"a": 1}
    assert [key for key, _ in lab.leader.scan(EVERYTHING, 9).entries] == [encode("a")]
    lab.commit(1)
    assert contents(lab.leader) == {}
    lab.commit()
    assert contents(lab.leader) == {"b": 2}
    lab.check()


def test_a_scan_has_what_a_staged_erasure_took_out(lab, handle):
    handle.put_all((number, number) for number in range(5))
    lab.commit()
    lab.leader.scan(EVERYTHING, 9)  # from now on there is an index
    handle.erase(2)
    handle.increment(7)
    found = [key for key, _ in lab.leader.scan(EVERYTHING, 9).entries]
    assert found == [encode(number) for number in range(5)]
    lab.commit()
    found = [key for key, _ in lab.leader.scan(EVERYTHING, 9).entries]
    assert found == [encode(number) for number in (0, 1, 3, 4, 7)]


def test_a_new_leader_judges_by_what_the_old_one_appended(lab, handle):
    handle.increment("n")
    lab.swap()
    handle.increment("n")
    lab.commit()
    assert value_of(lab.leader, "n") == 2
    lab.check()


@pytest.mark.parametrize("is_done", [False, True])
def test_two_leads_by_force_from_one_state_have_no_revision_in_common(is_done):
    """What one of them showed is not taken for what the other one has: their terms are drawn."""
    revisions = []
    for drawn in (5, 6):
        lab = Lab()
        handle = Handle(lab)
        handle.put("key", "old")
        lab.commit()
        lab.lose()
        base = lab.leader.revision
        lab.term = FORCED_TERMS + drawn
        if is_done:
            handle.increment("n")  # Judged by a table in which all is done at once.
        handle.put("key", "new")
        lab.commit()
        assert lab.leader.revision - base == skip_of(lab.term).count + 1 + is_done
        revisions.append(lab.leader.revision)
        lab.check()
    assert revisions[1] - revisions[0] == SKIP_PER_TERM


def test_a_lead_by_force_raises_the_revision_by_what_its_term_has_drawn():
    assert skip_of(FORCED_TERMS) == Skip(SKIP_MIN)
    assert skip_of(3 * FORCED_TERMS + 7) == Skip(SKIP_MIN + 7 * SKIP_PER_TERM)
    assert SKIP_MIN == 1 << 32
    assert skip_of(2 * FORCED_TERMS - 1).count < 1 << 41


@pytest.mark.parametrize("is_done", [False, True])
def test_a_lead_by_force_never_gives_a_lost_revision_again(lab, handle, is_done):
    """A fail-over by hand loses what the reader saw: its compare and set must not be done."""
    handle.put("key", "old")
    lab.commit()
    handle.put("key", "read")
    lab.commit(0)
    lost = lab.leader.revision + 1
    lab.lose()
    handle.requests.last_request = 1
    lab.term += FORCED_TERMS
    handle.put("key", "new")
    if is_done:
        handle.increment("n")
        handle.increment("n")
    handle.compare_and_set("key", "mine", lost)
    assert handle.result.code is ErrorCode.GUARD_FAILED
    assert value_of(lab.leader, "key") == "new"
    assert lab.leader.entry(encode("key")).revision == lost + skip_of(lab.term).count
    lab.check()
    handle.put("key", 1)
    lab.term += FORCED_TERMS
    handle.put("key", 2)
    before = shown(lab.leader)
    lab.lose()
    assert shown(lab.leader) == before
    lab.check()


# -- exactly once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1])
def test_a_writer_asks_for_so_much_at_a_time_that_others_can_read_its_refusal(lab, handle, more):
    lab.leader.meter.replace(Quota(1, None))
    sizes = [RUN_COUNT_MAX // 2, RUN_COUNT_MAX // 2 + more]
    runs, first = [], 1
    for size in sizes:
        pairs = [each for key in range(first, first + size) for each in (encode(key), encode(1))]
        runs.append(PutCommand(handle.writer, first, None, pairs))
        first += size
    write = Write(handle.number, tuple(runs))
    if more:
        with pytest.raises(DecodeError, match=f"asks for {RUN_COUNT_MAX + 1} changes at a time"):
            lab.judge(write)
    else:
        lab.judge(write)
        _, body = lab.entries[-1]
        assert decode_body(encode_body(body)).asked == (handle.writer, write.asked[1])


def test_the_first_run_of_a_term_that_was_taken_by_force(lab, handle):
    handle.put("a", 1)
    lab.commit()
    lab.term += FORCED_TERMS
    lab.leader.lead(lab.now, lab.term)
    requests = tuple(
        PutUniqueCommand(handle.writer, each, None, encode(each), encode(1)) for each in (2, 3)
    )
    outcomes = lab.ask(Write(handle.number, requests, 1))
    revisions = [outcome.result.revision for outcome in outcomes]
    skipped = skip_of(lab.term).count
    assert revisions == [2 + skipped, 3 + skipped]
    lab.check()


def test_requests_go_on_after_those_that_a_lead_by_force_lost(lab, handle):
    pairs = [encode("a"), encode(1)]
    later = Write(handle.number, (PutCommand(handle.writer, 4, None, pairs),), 2)
    assert lab.judge(later) == Answer(OutOfOrder(1)), "the one before it may be under way"
    following = Write(handle.number, (PutCommand(handle.writer, 3, None, pairs),), 2)
    assert [outcome.result for outcome in lab.ask(following)] == [Applied(1)]
    assert [outcome.result for outcome in lab.ask(later)] == [Applied(2)]
    assert lab.ask(following)[0].result == Applied(1), "it is done once"
    lab.check()


def test_requests_that_are_numbered_anew_are_refused(lab, handle):
    handle.put("a", 1)
    pairs = [encode("a"), encode(1), encode("b"), encode(2)]
    with pytest.raises(DecodeError, match="numbered otherwise"):
        lab.judge(Write(handle.number, (PutCommand(handle.writer, 1, None, pairs),)))


def test_rows_for_a_file_have_only_what_is_committed(lab, handle):
    handle.put("kept", 1, 5 * SECOND_NS)
    handle.put("gone", 2)
    handle.put("other", 2)
    lab.commit()
    keys = [encode(key) for key in ("kept", "gone", "new", "missing", "other")]
    expected = lab.leader.rows(keys), list(lab.leader.revisions(keys))
    assert expected[1] == [1, 2, None, None, 3]
    assert list(expected[0]) == [
        (keys[0], encode(1), 1, lab.now_ns + 5 * SECOND_NS),
        (keys[1], encode(2), 2, None),
        (keys[4], encode(2), 3, None),
    ]
    handle.put("kept", 3)
    handle.erase("gone")
    handle.increment("new")
    lab.leader.judge(Write(handle.number, handle.sent[0].requests), lab.now)
    handle.increment("kept")
    assert sorted(lab.leader.rows(keys)) == sorted(expected[0])
    assert list(lab.leader.revisions(keys)) == expected[1]


# -- requests that travel together -----------------------------------------------------------------


def together(handle, *calls):
    """Have several calls become one write, as they do if they gather; gives it."""
    handle.lab, lab = Nowhere(), handle.lab
    start = len(handle.sent)
    for name, *arguments in calls:
        getattr(handle, name)(*arguments)
    handle.lab = lab
    some = handle.sent[start:]
    return Write(handle.number, tuple(each.requests[0] for each in some), some[0].resolved)


class Nowhere:
    """Takes the place of a group while requests are made that are not sent."""

    def judge(self, write):
        return None


CALLS = [
    ("put", "n", 1),
    ("increment", "n", 4),
    ("subtract", "missing"),
    ("put_unique", "n", 9),
    ("put_unique", "new", 9),
    ("erase", "n"),
    ("increment", "n"),
    ("put", "brief", 1, SECOND_NS),
]


@pytest.mark.parametrize("has_clear", [False, True])
def test_requests_of_one_write_are_judged_by_those_before_them(lab, handle, has_clear):
    handle.put("n", 7)
    calls = [*CALLS[:5], ("clear",), *CALLS[5:]] if has_clear else CALLS
    index = lab.judge(together(handle, *calls))
    assert contents(lab.leader) == {}, "nothing is committed"
    lab.commit()
    outcomes = lab.answers[index]
    assert [type(each.result) for each in outcomes].count(Refused) == 1
    assert (outcomes[0].first_request, outcomes[0].last_request) == (2, 3), "joined"
    assert outcomes[-1].last_request == 1 + len(calls)
    found = {"n": 1, "brief": 1} if has_clear else {"n": 1, "new": 9, "brief": 1}
    assert contents(lab.leader) == found
    lab.check()


@pytest.mark.parametrize("calls", [[("put", "n", 1), ("increment", "n", 4)], CALLS[3:5]])
def test_the_second_of_two_requests_is_judged_by_the_first(lab, handle, calls):
    index = lab.judge(together(handle, *calls))
    lab.commit()
    assert lab.answers[index][-1].last_request == 2
    assert contents(lab.leader) == ({"n": 5} if calls[0][0] == "put" else {"n": 9, "new": 9})
    handle.increment("n")
    lab.commit()
    lab.check()


def test_one_voter_has_keys_live_with_sessions(lab, handle):
    alone = TableMachine()
    alone.perform(Position(1, 1), Register(handle.writer), lab.now)
    done = alone.perform(Position(1, 2), OpenSession(bytes(16), 8 * SECOND_NS), lab.now)
    opened = done.value.session
    for number, session in ((1, opened), (2, opened + 1)):
        request = PutCommand(handle.writer, number, life_of(session), [encode(session), encode(1)])
        alone.perform(Position(1, 2 + number), Write(1, (request,)), lab.now)
    assert contents(alone) == {opened: 1}, "there is no other session"


def test_the_first_term_leaves_no_revision_out():
    machine = TableMachine()
    machine.lead(Times(), FORCED_TERMS)
    machine.apply(Position(FORCED_TERMS, 1), Registered(writer_id(1), 0, None))
    assert machine.revision == 0


def test_requests_of_one_write_are_undone_together(lab, handle):
    handle.put("n", 7)
    lab.commit()
    before = lab.leader.digest(), shown(lab.leader)
    write = together(handle, *CALLS)
    lab.judge(write)
    lab.lose()
    assert (lab.leader.digest(), shown(lab.leader)) == before
    assert lab.ask(write)[-1].last_request == 1 + len(CALLS)
    lab.check()


@pytest.mark.parametrize("are_alike", [False, True])
def test_requests_of_one_write_are_all_looked_at_before_any_is_judged(lab, handle, are_alike):
    good = PutCommand(handle.writer, 1, None, [encode("a"), encode(1)])
    bad = PutCommand(handle.writer, 2 if are_alike else 3, None, [encode("b"), b"\xff"])
    before = lab.leader.digest()
    with pytest.raises(DecodeError):
        lab.judge(Write(handle.number, (good, bad)))
    other = AddCommand(writer_id(2), 2, None, Initial.NUMBER, [encode("a"), encode(1)])
    with pytest.raises(DecodeError, match="does not come after"):
        lab.judge(Write(handle.number, (good, other)))
    with pytest.raises(DecodeError, match="nothing"):
        lab.judge(Write(handle.number, ()))
    assert lab.leader.digest() == before
    handle.put("a", 5)
    assert handle.result == Applied(1)


def test_what_one_voter_performs_at_once_is_what_a_group_judges_and_applies(lab, handle):
    alone, position = TableMachine(), 0

    def perform(request, expected):
        nonlocal position
        found = alone.perform(Position(1, position + 1), request, lab.now)
        if isinstance(found, Answer):
            assert found.value == expected
            return
        position += 1
        assert found.value == expected
        assert encode_body(found.body) == encode_body(lab.entries[position - 1][1])

    perform(Register(handle.writer), Registration(handle.number, 0))
    for calls in (CALLS, [("clear",), *CALLS], CALLS[:1], CALLS[4:], CALLS[1:2]):
        lab.now_ns += SECOND_NS // 2
        write = together(handle, *calls)
        perform(write, lab.ask(write))
        perform(write, lab.ask(write))
        for number in (1, 300):
            early = PutCommand(handle.writer, 9_000, None, [encode(number), encode(1)])
            perform(Write(number, (early,)), lab.ask(Write(number, (early,))))
    perform(ChangeQuota(Quota(2, None)), lab.ask(ChangeQuota(Quota(2, None))))
    write = together(handle, ("put", "one", 1), ("put", "two", 2), ("put", "three", 3))
    perform(write, lab.ask(write))
    with pytest.raises(DecodeError):
        alone.perform(Position(1, position + 1), Write(handle.number, ()), lab.now)
    assert alone.digest() == lab.leader.digest()
    assert shown(alone) == shown(lab.leader)
    lab.now_ns += 10 * SECOND_NS
    due = lab.leader.due(lab.now)
    assert due is not None
    assert alone.due(lab.now) == due


def test_what_a_writer_has_heard_is_forgotten(lab, handle):
    for resolved in range(3):
        handle.resolved = resolved
        handle.subtract("missing")
    lab.commit()
    rows = list(lab.leader.freeze()[-1].rows)
    assert [outcome.first_request for outcome in rows[0].outcomes] == [3]
    (outcome,) = lab.ask(handle.sent[0])
    assert outcome.result.code is ErrorCode.REQUEST_TIMEOUT


def test_outcomes_of_all_writers_together_are_limited(lab, monkeypatch):
    monkeypatch.setattr(writers, "LEDGER_OUTCOMES_MAX", 4)
    first, second = Handle(lab, 1), Handle(lab, 2)
    for handle in (first, first, second, second, second):
        handle.subtract("missing")
    lab.commit()
    (outcome,) = lab.ask(first.sent[0])
    assert outcome.result.code is ErrorCode.REQUEST_TIMEOUT
    (outcome,) = lab.ask(second.sent[0])
    assert outcome.result.code is ErrorCode.NO_SUCH_KEY
    lab.check()


# -- bad requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        None,
        Registered(writer_id(1), 0, None),
        Write(1, (ExpireCommand([encode("a")]),)),
        Write(1, (PutCommand(writer_id(1), None, None, [encode("a"), encode(1)]),)),
        Write(1, (PutCommand(writer_id(1), 1, None, [b"\xff", encode(1)]),)),
        Write(1, (PutCommand(writer_id(1), 1, None, [encode("a"), b"\xff"]),)),
    ],
)
def test_what_no_honest_writer_sends_changes_nothing(lab, handle, request_):
    before = lab.leader.digest()
    with pytest.raises(DecodeError):
        lab.judge(request_)
    assert lab.leader.digest() == before
    handle.put("a", 1)
    assert handle.result == Applied(1)


def a_put(number, writer=None, count=1, key="a"):
    return PutCommand(writer or writer_id(1), number, None, [encode(key), encode(1)] * count)


def test_a_write_says_who_asks_and_for_which_requests():
    assert Write(1, (a_put(3, count=2),)).asked == (3, 4)
    for is_vetted in (False, True):
        write = Write(1, (a_put(3, count=2), a_put(5), a_put(6, count=3)), 0, is_vetted)
        assert write.asked == (3, 8)
        assert write.writer == writer_id(1)
        assert Write(1, (a_put(3, count=2),), 0, is_vetted).asked == (3, 4)


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ((), "asks for nothing"),
        ((a_put(0),), "asks for nothing"),
        ((ExpireCommand([encode("a")]),), "asks for a ExpireCommand: only leaders do that"),
        ((a_put(None),), "asks for a PutCommand: only leaders do that"),
        ((a_put(3), a_put(5)), "request 5 does not come after request 3"),
        ((a_put(3), a_put(3)), "request 3 does not come after request 3"),
        ((a_put(3), a_put(4, writer_id(2))), "request 4 does not come after request 3"),
        ((a_put(3), RefusalCommand(writer_id(1), 4, ErrorCode.TYPE_CLASH, "")), "only leaders"),
    ],
)
def test_a_write_that_no_handle_makes_says_what_is_wrong(requests, said):
    with pytest.raises(DecodeError, match=said):
        _ = Write(1, requests).asked


@pytest.mark.parametrize("requests", [(), (ExpireCommand([encode("a")]),)])
def test_a_write_of_nothing_has_no_writer(requests):
    with pytest.raises(DecodeError, match="asks for nothing, or for what only leaders do"):
        _ = Write(1, requests).writer


def test_nobody_asks_in_the_name_of_another_ones_writer():
    mine, other = writer_id(1), writer_id(2)
    for request in (Register(mine), Write(1, (a_put(1),)), Compare(1), OpenSession(bytes(16), 5)):
        check_asker(request, mine.entity.endpoint)
    check_asker(Compare(1), other.entity.endpoint)
    for request in (Register(mine), Write(1, (a_put(1),))):
        with pytest.raises(DecodeError, match=re.escape(f"in the name of {mine!r}")):
            check_asker(request, other.entity.endpoint)


def test_what_nobody_can_ask_is_named(lab):
    with pytest.raises(DecodeError, match="a NoneType is nothing that a store can be asked for"):
        lab.leader.judge(None, lab.now)
    with pytest.raises(DecodeError, match="a QuotaChanged is nothing that a store can be asked"):
        lab.leader.judge(QuotaChanged(Quota(1, None)), lab.now)
    with pytest.raises(AssertionError, match="a table has no Register in its journal"):
        lab.leader.apply(Position(1, 1), Register(writer_id(1)))


def test_each_request_takes_a_right():
    stamp = Stamp(1, 1)
    question = LookUpCommand(1, 1, encode("a"), has_value=True)
    for request, right in (
        (Register(writer_id(1)), Right.WRITE),
        (Write(1, (a_put(1),)), Right.WRITE),
        (ChangeQuota(Quota(1, None)), Right.VOTE),
        (Compare(1), Right.VOTE),
        (Read(stamp, False, question), Right.READ),
        (EndSession(1), Right.WRITE),
    ):
        assert right_of(request) is right
    with pytest.raises(AssertionError):
        right_of(None)


# -- the whole state -------------------------------------------------------------------------------


def test_a_machine_shows_in_one_line_what_matters(lab, handle):
    handle.put_all([("a", 1), ("b", 1)])
    lab.commit()
    machine = lab.leader
    machine.scan(EVERYTHING, 1, machine.revision)
    assert repr(machine) == (
        f"<TableMachine at {machine.position} revision=2 entries=2 writers=1 pins=1>"
    )
    assert (machine.used, machine.is_blank) == ((2, machine.size), False)
    assert TableMachine().is_blank
    assert machine.census() == Census.of(machine.snapshot())


def test_keys_that_expire_are_counted(lab, handle):
    handle.put("short", 1, SECOND_NS)
    handle.put("kept", 1)
    lab.commit()
    assert lab.leader.count_expiring() == 1
    assert lab.leader.has_deadlines()


def test_what_is_told_of_one_state_goes_on_while_the_parts_of_the_next_come():
    machine, columns, told = TableMachine(), Columns(), []
    for number in range(SLICE_COUNT + 5):
        columns.set(b"%d" % number, Entry(b"v", number, None))
    machine.install(parts.Frozen(parts.HeadPart(0, START, len(columns)), columns, {}, ()))
    machine.telling.observe(told.append)
    machine.install([parts.HeadPart(0, START, 0)])
    assert len(told) == SLICE_COUNT
    machine.prepare(1, parts.EntriesPart((b"k", b"v"), (1,)))
    assert len(told) == SLICE_COUNT + 2


def test_what_expires_counts_though_it_was_not_asked_for():
    removal = ExpireCommand([b"key"])
    sizes = [TableMachine().size_of(body) for body in (removal, SessionsEnded((1,), removal))]
    assert sizes == [size_of(removal)] * 2
    assert TableMachine().size_of(SessionsEnded((1,), None)) == 0


def test_changes_are_the_keys_that_an_action_names(lab, handle):
    handle.put_all([("a", 1), ("b", 2), ("c", 3)])
    handle.erase("a")
    lab.commit()
    machine, removal = lab.leader, ExpireCommand([b"a", b"b"])
    assert sum(machine.changes_of(body) for _, body in lab.entries) == 4
    assert machine.changes_of(removal) == machine.changes_of(SessionsEnded((1,), removal)) == 2
    assert machine.changes_of(SessionsEnded((1,), None)) == 0


def test_traffic_is_of_all_actions(lab, handle):
    handle.put_all([("a", 1), ("b", "long" * 50)])
    handle.subtract("missing")
    lab.commit()
    actions = [action for _, body in lab.entries[1:] for action in body.actions]
    assert lab.leader.traffic == sum(map(size_of, actions)) > 200
    assert sum(lab.leader.size_of(body) for _, body in lab.entries) == lab.leader.traffic


def test_a_snapshot_is_put_together_as_its_parts_come(lab, handle):
    handle.put_all((number, number) for number in range(20))
    handle.put("short", 1, SECOND_NS)
    lab.commit()
    parts_of_it = list(lab.leader.freeze())
    for order in (range(len(parts_of_it)), (0, 0, 1, 2), (1, 0, 2, 1), (0,), (1, 2)):
        fresh = TableMachine()
        for number in order:
            assert fresh.prepare(number, parts_of_it[number]) is parts_of_it[number]
        assert fresh.revision == 0, "nothing shows before it is whole"
        fresh.install(parts_of_it)
        assert fresh.digest() == lab.leader.digest()
        assert fresh.look_at_quota() is None
        assert fresh.position == lab.leader.position
        assert shown(fresh) == shown(lab.leader)
        assert fresh._thawing is None


def test_a_part_that_is_prepared_is_not_taken_in_again(lab, handle):
    handle.put("a", 1)
    lab.commit()
    head, entries, *rest = lab.leader.freeze()
    fresh = TableMachine()
    fresh.prepare(0, head)
    fresh.prepare(1, entries)
    # What stands in its place is not looked at.
    fresh.install([head, None, *rest])
    assert fresh.digest() == lab.leader.digest()
    fresh.prepare(0, head)
    fresh.prepare(1, None)
    with pytest.raises(DecodeError, match="has a NoneType in it"):
        fresh.install([head, None, *rest])
    fresh.prepare(1, head)
    with pytest.raises(DecodeError):
        fresh.install([head, None, *rest])
    assert fresh.digest() == lab.leader.digest()


def test_what_stands_beside_rows_is_the_state_without_its_entries(lab, handle):
    handle.put_all((number, number) for number in range(3))
    lab.term += 1
    handle.put("a", 1)
    lab.commit()
    lab.ask(ChangeQuota(Quota(9, 999)))
    lab.ask(OpenSession(bytes(16), 8 * SECOND_NS))
    whole = list(lab.leader.freeze())
    assert lab.leader.beside_rows() == [
        part for part in whole if not isinstance(part, parts.EntriesPart)
    ]
    assert whole[0] == parts.HeadPart(
        4, lab.leader.position, 4, Quota(9, 999), (Reign(1, 1), Reign(2, 3))
    )


def test_a_digest_counts_no_staged_changes_and_counts_revisions(lab, handle):
    handle.put_all((number, number) for number in range(3))
    lab.commit()
    before = lab.leader.digest()
    handle.increment(1)
    handle.erase(2)
    handle.increment("new")
    assert lab.leader._overlay.past
    assert lab.leader.digest() == before
    one, other = TableMachine(), TableMachine()
    one.apply(Position(1, 1), ExpireCommand([encode("missing")]))
    other.apply(Position(1, 1), Compared(1))
    assert one.digest() != other.digest(), "one has another revision"


def test_a_comparison_that_is_over_is_told_of_nothing(lab, handle):
    machine = lab.leader
    assert machine.compare() is None
    assert not machine.is_comparing
    handle.put("a", 1)
    lab.ask(Compare(1))
    assert machine._overlay.committed.walk is not None
    assert finish(machine)[0] == 1
    assert machine._overlay.committed.walk is None
    handle.put("a", 2)
    lab.commit()
    lab.ask(Compare(2))
    machine.begin_anew()
    assert machine.compare() is None
    assert not machine.is_comparing


def test_a_machine_that_begins_anew_takes_all_entries_again(lab, handle):
    handle.put("a", 1)
    handle.put("b", 1)
    lab.commit()
    machine = lab.leader
    before, digest = [machine.position_of(revision) for revision in range(4)], machine.digest()
    machine.begin_anew()
    for position, body in lab.entries:
        machine.apply(position, decode_body(encode_body(body)))
    assert [machine.position_of(revision) for revision in range(4)] == before
    assert machine.digest() == digest
    machine.restart_history()
    assert machine.position_of(2) is None
    handle.put("c", 1)
    lab.commit()
    assert machine.position_of(3) == machine.position


def test_observers_learn_what_is_different_once_there_is_a_state_again(lab, handle):
    handle.put_all([("same", 1), ("changed", 1), ("gone", 1)])
    lab.commit()
    machine, seen = lab.leader, []
    machine.telling.observe(seen.append)
    parts_before = list(machine.freeze())
    handle.put("changed", 2)
    handle.erase("gone")
    handle.put("new", 1)
    lab.commit()
    seen.clear()
    assert not machine.telling.has_hidden
    machine.begin_anew()
    assert (machine.revision, len(machine), machine.position) == (0, 0, Position(0, 0))
    assert machine.telling.has_hidden
    machine.begin_anew()
    machine.install(parts_before)
    assert seen == []
    machine.reveal()
    assert not machine.telling.has_hidden
    assert [(decode(each.key), each.kind, each.revision) for each in seen] == [
        ("new", ChangeKind.ERASE, 3),
        ("changed", ChangeKind.UPDATE, 3),
        ("gone", ChangeKind.INSERT, 3),
    ]
    machine.reveal()
    assert len(seen) == 3


def test_what_observers_know_goes_over_to_the_next_machine(lab, handle):
    handle.put("a", 1)
    lab.commit()
    seen = []
    lab.leader.telling.observe(seen.append)
    following = TableMachine()
    following.telling.observe(seen.append)
    following.carry_over(lab.leader)
    lab.leader.begin_anew()
    last = TableMachine()
    last.telling.observe(seen.append)
    last.carry_over(following)
    last.reveal()
    assert [(decode(each.key), each.kind) for each in seen] == [("a", ChangeKind.ERASE)]
    unobserved = TableMachine()
    unobserved.carry_over(TableMachine())
    assert not unobserved.telling.has_hidden


def test_a_machine_that_begins_anew_has_its_first_quota():
    machine = TableMachine("the shop", Quota(1, None))
    machine.apply(Position(1, 1), QuotaChanged(Quota(5, None)))
    assert machine.meter.quota == Quota(5, None)
    machine.begin_anew()
    assert machine.meter.quota == Quota(1, None)
    machine.apply(Position(1, 1), Registered(writer_id(1), 0, None))
    machine.stage(Position(1, 2), QuotaChanged(Quota(7, None)))
    machine.stage(Position(1, 3), QuotaChanged(Quota(8, None)))
    machine.apply(Position(1, 2), QuotaChanged(Quota(7, None)))
    assert machine.meter.quota == Quota(8, None), "the last one that is staged"
    machine.undo()
    assert machine.meter.quota == Quota(7, None)
    machine.apply(Position(2, 3), QuotaChanged(Quota(9, None)))
    assert machine.meter.quota == Quota(9, None), "nothing is staged"
    machine.stage(Position(2, 4), QuotaChanged(Quota(4, None)))
    machine.apply(Position(2, 4), QuotaChanged(Quota(4, None)))
    machine.apply(Position(2, 5), QuotaChanged(Quota(3, None)))
    assert machine.meter.quota == Quota(3, None)


def test_what_is_staged_is_answered_by_its_entry(lab, handle):
    other = Register(writer_id(2))
    index = lab.judge(other)
    assert lab.judge(other) == Staged(index)
    handle.put("a", 1)
    handle.put("b", 1)
    assert lab.judge(handle.sent[0]) == Staged(index + 1)
    assert lab.judge(handle.sent[1]) == Staged(index + 2)
    lab.lose()
    assert isinstance(lab.judge(other), int)


def test_a_file_follows_each_action_before_it_is_applied(lab, handle):
    found = []
    lab.leader.before = lambda action: found.append((action, lab.leader.revision))
    handle.put("a", 1)
    handle.put("b", 1)
    lab.commit()
    assert [(type(action), revision) for action, revision in found] == [
        (PutCommand, 0),
        (PutCommand, 1),
    ]


# -- expiry ----------------------------------------------------------------------------------------


def test_a_key_expires_by_the_groups_elapsed_time(lab, handle):
    lab.now_ns = 5 * SECOND_NS
    handle.put("short", 1, SECOND_NS)
    handle.put("long", 1, 9 * SECOND_NS)
    lab.commit()
    lab.now_ns += SECOND_NS - 1
    assert lab.expire() is None
    lab.now_ns += 1
    assert lab.expire() is not None
    assert lab.expire() is None
    assert set(contents(lab.leader)) == {"short", "long"}
    lab.commit()
    assert set(contents(lab.leader)) == {"long"}
    lab.check()


def test_a_new_leader_expires_what_the_old_one_could_not(lab, handle):
    handle.put("short", 1, SECOND_NS)
    lab.commit()
    lab.now_ns = 2 * SECOND_NS
    assert lab.expire() is not None
    lab.lose()
    assert set(contents(lab.leader)) == {"short"}
    assert lab.expire() is not None
    lab.lose()
    lab.swap()
    assert lab.expire() is not None
    lab.commit()
    assert contents(lab.leader) == {}
    lab.check()


@pytest.mark.parametrize("what", ["put", "increment", "clear"])
def test_an_expiry_that_was_taken_off_in_vain_still_counts(lab, handle, what):
    handle.put("short", 1, SECOND_NS)
    lab.commit()
    if what == "put":
        handle.put("short", 2)
    elif what == "increment":
        handle.increment("short")
    else:
        handle.clear()
        handle.increment("other")
    lab.now_ns = 2 * SECOND_NS
    assert lab.expire() is None
    lab.lose()
    assert lab.expire() is not None
    lab.commit()
    assert contents(lab.leader) == {}


def test_much_expires_in_slices(lab, handle):
    for start in range(0, SLICE_COUNT + 200, 200):
        for number in range(start, start + 200):
            handle.requests.put(encode(number), encode(number), SECOND_NS)
        handle.seal()
    lab.commit()
    lab.now_ns = SECOND_NS
    assert lab.expire() is not None
    assert len(lab.entries[-1][1].keys) == SLICE_COUNT
    assert lab.expire() is not None
    assert lab.expire() is None
    lab.commit()
    assert len(lab.leader) == 0
    lab.check()


# -- quotas ----------------------------------------------------------------------------------------


def test_a_quota_holds_at_whichever_member_leads(lab, handle):
    lab.ask(ChangeQuota(Quota(max_entries=2)))
    handle.put("a", 1)
    handle.put("b", 1)
    handle.put("c", 1)
    assert handle.result.code is ErrorCode.QUOTA_EXCEEDED
    assert lab.leader.look_at_quota() is QuotaLevel.EXCEEDED
    lab.swap()
    handle.put("c", 1)
    assert handle.result.code is ErrorCode.QUOTA_EXCEEDED
    fresh = TableMachine()
    fresh.install(lab.leader.freeze())
    assert fresh.meter.quota == Quota(max_entries=2)
    lab.check()


def test_a_quota_counts_what_is_staged(lab, handle):
    lab.ask(ChangeQuota(Quota(max_bytes=30)))
    handle.put("a", "x" * 20)
    handle.put("b", "x" * 20)
    assert handle.result.code is ErrorCode.QUOTA_EXCEEDED


def test_a_quota_that_is_lost_holds_no_more(lab, handle):
    lab.judge(ChangeQuota(Quota(max_entries=1)))
    handle.put_all([("a", 1), ("b", 1)])
    lab.lose()
    handle = Handle(lab, 2)
    handle.put_all([("a", 1), ("b", 1)])
    assert handle.result == Applied(1)


# -- batches ---------------------------------------------------------------------------------------


def test_a_batch_is_one_mutation_or_none(lab, handle):
    guard = Guard(GuardKind.ABSENT, encode("lock"))
    steps = [
        Step(StepKind.PUT, encode("lock"), encode("mine"), expiry_ns=SECOND_NS),
        Step(StepKind.ADD, encode("n"), encode(1), Initial.NUMBER),
    ]
    others = [Step(StepKind.ADD, encode("waits"), encode(1), Initial.NUMBER)]
    handle.batch([guard], steps, others)
    assert handle.result == Applied(1, answer=True)
    handle.batch([guard], steps, others)
    assert handle.result == Applied(2, answer=False)
    handle.batch([guard], steps)
    assert handle.result.code is ErrorCode.GUARD_FAILED
    assert contents(lab.leader) == {"lock": "mine", "n": 1, "waits": 1}
    lab.now_ns = SECOND_NS
    lab.expire()
    lab.commit()
    assert contents(lab.leader) == {"n": 1, "waits": 1}
    lab.check()


def test_put_unique_wins_once(lab, handle):
    handle.put_unique("key", 1)
    handle.put_unique("key", 2)
    lab.commit(1)
    assert value_of(lab.leader, "key") == 1
    assert handle.result == Applied(1, answer=False)
    assert value_of(lab.leader, "key") == 1


# -- comparisons -----------------------------------------------------------------------------------


def test_members_compare_what_they_have_at_one_position_while_it_changes(lab, handle):
    handle.put_all((number, number) for number in range(100))
    handle.increment("n")
    lab.commit()
    handle.erase(3)
    handle.increment(4)
    handle.put("new", 1)
    handle.increment("new")
    lab.judge(Compare(7))
    handle.increment(5)
    handle.clear()
    handle.increment(5)
    lab.commit(5)
    assert lab.leader.is_comparing
    assert lab.leader.compare(10) is None
    lab.commit(1)
    assert lab.leader.compare(10) is None
    lab.commit()
    found = [finish(machine) for machine in lab.machines]
    assert found[0] == found[1]
    assert found[0][0] == 7
    assert found[0][1].entry_count == 101
    assert found[0][1].revision == 105
    assert not lab.leader.is_comparing


def test_a_comparison_does_not_count_what_is_staged(lab, handle):
    handle.put_all((number, number) for number in range(10))
    lab.commit()
    lab.judge(Compare(1))
    handle.erase(3)
    handle.increment("new")
    lab.commit(1)
    lab.lose()
    assert finish(lab.leader) == finish(lab.followers[0])


def finish(machine):
    while True:
        found = machine.compare(10)
        if found is not None:
            return found


# -- requests that need no look at the table -------------------------------------------------------


def test_a_put_is_done_in_the_table_once(lab, handle):
    handle.put("a", 1)
    handle.erase("b")
    assert not lab.leader._overlay.past
    handle.increment("n")
    assert lab.leader._overlay.past
    lab.commit()
    assert not lab.leader._overlay.past


def test_keys_are_put_in_order_a_slice_at_a_time(lab, handle):
    handle.put_all((number, number) for number in range(5))
    lab.commit()
    machine = lab.leader
    assert sorted(map(decode, machine.keys())) == [0, 1, 2, 3, 4]
    assert [machine.prepare_scan(2) for _ in range(4)] == [2, 2, 1, 0]


def test_judging_needs_no_clock_of_its_own():
    machine = TableMachine()
    assert machine.judge(Register(writer_id(1)), Times()) == Append(
        Registered(writer_id(1), 0, None)
    )
