"""A link: control slots, equal parts of a write, credit of both sides, one clock for a hold."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from endpoint.link.limits import (
    COMMANDS_SIZE_MAX,
    MESSAGE_CHARGE,
    PASSED_ON_SIZE_MAX,
    WINDOW_SIZE,
    WRITE_SIZE,
    LinkLimits,
    Mark,
)
from endpoint.link.link import (
    HeldTooLong,
    Link,
    Outgoing,
    OverflowPolicy,
    SayWithheld,
)
from endpoint.link.liveness import PeerSlow, PeerStalled
from handshake.keepalive import PeerSilent, PingDue
from wire.errors import ErrorCode, RemoteProtocolError
from wire.limits import KIB, MIB

CHUNK = 60 * KIB
SMALL = 15 * KIB


def data(size: int = CHUNK, name: bytes = b"d", *, own: bool = True) -> Outgoing:
    return Outgoing([name.ljust(size, b"\0")], size, 1, size + 128, own)


def written(link: Link) -> bytes:
    return b"".join(link.take())


class Box:
    """A full mailbox, as a link sees it."""

    def __init__(self, hold_seconds_max: float = 30.0) -> None:
        self.hold_seconds_max = hold_seconds_max

    def become_lossy(self) -> None:
        raise AssertionError("the driver's part")


def tick(link: Link, now: float, *, heard: int | None = None, acknowledged: int = 0) -> list:
    """One second of a peer that lives, if nothing else is said, and takes nothing."""
    said = int(now) if heard is None else heard
    seen = link.tick(now, heard=said, written=acknowledged, acknowledged=acknowledged)
    return [each for each in seen if each != PingDue()]


# Slots.


def test_the_latest_word_of_a_key_wins_and_keeps_the_place_of_the_first() -> None:
    link = Link()
    link.say("credit", b"credit 1")
    link.say(("news", "a"), b"news 1 of a")
    link.say(("news", "b"), b"news 1 of b")
    link.say("credit", b"credit 2")
    link.say(("news", "a"), b"news 2 of a")
    assert link.take() == [b"credit 2", b"news 2 of a", b"news 1 of b"]
    assert link.take() == []


def test_a_word_is_encoded_when_it_is_taken_and_may_be_nothing() -> None:
    link, state = Link(), [b"old"]
    link.say("knowledge", lambda: state[0])
    link.say(("news", "gone"), lambda: b"")
    state[0] = b"new"
    assert link.take() == [b"new"]


def test_two_thousand_changes_of_one_state_take_the_room_of_one() -> None:
    link = Link()
    for number in range(2_000):
        link.say(("news", "me"), number.to_bytes(4))
    assert written(link) == (1_999).to_bytes(4)


def test_words_of_others_have_a_bound_in_bytes_and_the_latest_wins_in_it() -> None:
    link, large = Link(), bytes(PASSED_ON_SIZE_MAX // 2 - MESSAGE_CHARGE)
    assert link.pass_on(("hold", 1), large)
    assert link.pass_on(("hold", 1), large)
    assert link.pass_on(("hold", 2), large)
    assert not link.pass_on(("hold", 3), b"x")
    assert not link.pass_on(("hold", 4), b"x")
    assert link.dropped_words == 2
    assert link.pass_on(("hold", 2), b"smaller")
    assert link.pass_on(("hold", 3), b"x")
    assert link.take() == [large, b"smaller", b"x"]
    assert link.pass_on(("hold", 3), large), "what was taken waits no more"
    assert link.pass_on(("hold", 4), large), "exactly so much"
    assert link.pass_on(("hold", 4), b"")
    assert link.pass_on(("hold", 5), bytes(len(large) - MESSAGE_CHARGE)), (
        "and no byte is lost of it"
    )
    assert not link.pass_on(("hold", 6), b"")
    link.take()
    link.pass_on(("hold", 3), large)
    taken = sum(link.pass_on(("pong", number), b"x") for number in range(PASSED_ON_SIZE_MAX // 100))
    assert taken == PASSED_ON_SIZE_MAX // 2 // (MESSAGE_CHARGE + 1), "small ones take room, too"


def test_a_write_has_the_rest_of_the_last_then_words_then_commands_then_data() -> None:
    link = Link()
    link.put(data(10, b"data"))
    link.command(data(10, b"command"))
    link.say("ping", b"ping")
    link.put_rest(b"rest 1")
    link.put_rest(b"rest 2", b"rest 3")
    pieces = [bytes(piece).rstrip(b"\0") for piece in link.take()]
    assert pieces == [b"rest 1", b"rest 2", b"rest 3", b"ping", b"command", b"data"]
    assert not link.has_backlog
    link.check()


# Equal parts.


def test_neither_commands_nor_data_wait_behind_the_other() -> None:
    link = Link()
    for _ in range(10):
        link.put(data(SMALL))
        link.command(data(SMALL))
    before, pieces = link.command_bytes, link.take()
    assert before - link.command_bytes == 3 * SMALL, "half a write, and the frame that fills it"
    assert link.sent == 3 * SMALL
    assert len(pieces) == 6
    link.check()


@pytest.mark.parametrize("put", [Link.put, Link.command])
def test_one_kind_alone_has_the_whole_write(put) -> None:
    link = Link()
    for _ in range(10):
        put(link, data())
    assert len(link.take()) == WRITE_SIZE // CHUNK + 1


def test_commands_have_the_whole_write_while_data_wait_for_credit() -> None:
    link = Link()
    link.sent = link.credit
    for _ in range(10):
        link.put(data())
        link.command(data())
    assert len(link.take()) == WRITE_SIZE // CHUNK + 1
    assert link.sent == link.credit


@pytest.mark.parametrize("put", [Link.put, Link.command])
def test_frames_that_fill_a_write_exactly_are_all_of_it(put) -> None:
    link = Link()
    for _ in range(10):
        put(link, data(WRITE_SIZE // 4))
    assert len(link.take()) == 4
    assert len(link.take()) == 4


@pytest.mark.parametrize("put", [Link.put, Link.command])
def test_a_write_that_lacks_a_byte_takes_one_frame_more(put) -> None:
    link = Link()
    for size in (WRITE_SIZE - 1, 100, 100):
        put(link, data(size))
    assert len(link.take()) == 2


def test_both_kinds_fill_their_halves_exactly() -> None:
    link = Link()
    for _ in range(10):
        link.put(data(WRITE_SIZE // 4))
        link.command(data(WRITE_SIZE // 4))
    assert len(link.take()) == 4
    assert link.sent == WRITE_SIZE // 2


def test_a_giant_command_leaves_data_their_half() -> None:
    link = Link()
    link.command(data(16 * MIB))
    for _ in range(10):
        link.put(data(SMALL))
    link.take()
    assert link.sent == 3 * SMALL


def test_commands_beyond_their_bound_are_dropped_and_counted() -> None:
    link, large = Link(), data(COMMANDS_SIZE_MAX)
    link.command(large)
    link.command(data(1))
    for _ in range(3):
        link.command(data(1))
    assert link.statistics().dropped_commands == 3
    assert link.command_bytes == COMMANDS_SIZE_MAX + 1


def test_a_frame_that_links_share_is_counted_in_each_of_them() -> None:
    first, second, shared = Link(), Link(), data()
    first.put(shared)
    second.put(shared)
    assert first.take() == shared.pieces
    assert (first.data.own, second.data.own) == (0, shared.charge)
    assert (first.sent, second.sent) == (shared.size, 0)
    assert second.take() == shared.pieces
    first.check()
    second.check()


# Credit.


def test_data_wait_for_credit_while_the_rest_does_not() -> None:
    link = Link()
    for _ in range(100):
        link.put(data())
    while link.is_sendable:
        link.take()
    assert WINDOW_SIZE <= link.sent < WINDOW_SIZE + CHUNK
    link.say("ping", b"ping")
    assert link.is_sendable
    assert written(link) == b"ping"
    assert not link.is_sendable
    assert link.has_backlog
    assert not link.is_free()
    link.grant(WINDOW_SIZE - 1)
    assert link.credit == WINDOW_SIZE, "credit is never taken back"
    link.grant(2 * WINDOW_SIZE)
    while link.is_sendable:
        link.take()
    assert not link.has_backlog
    assert link.statistics().credit_bytes == 2 * WINDOW_SIZE - 100 * CHUNK
    assert link.is_free()


def test_a_frame_that_skips_the_queues_takes_credit_too() -> None:
    link = Link()
    link.sent_alone(1)
    link.sent_alone(WINDOW_SIZE - 2)
    assert link.is_free()
    link.sent_alone(1)
    assert not link.is_free()
    with pytest.raises(AssertionError, match="without credit"):
        link.sent_alone(1)


def test_a_forced_frame_enlarges_no_full_place() -> None:
    link = Link(limits=LinkLimits(transit=Mark(3 * MIB, MIB)))
    for name in (b"1", b"2", b"3"):
        link.put(data(MIB, name, own=False))
    link.put(data(MIB, b"4", own=False), forced=True)
    assert link.statistics().dropped_messages == 1
    assert link.statistics().data_bytes == link.data.transit == 3 * (MIB + 128)


@pytest.mark.parametrize(
    "fill",
    [
        lambda link: link.put(data()),
        lambda link: link.command(data()),
        lambda link: link.say("ping", b"ping"),
        lambda link: link.put_rest(b"rest"),
        lambda link: setattr(link, "is_writing", True),
    ],
)
def test_no_frame_overtakes_what_waits(fill) -> None:
    link = Link()
    assert link.is_free()
    assert link.is_writing is False
    fill(link)
    assert not link.is_free()


@given(st.lists(st.one_of(st.integers(1, 600_000), st.sampled_from("ab")), max_size=50))
def test_credit_is_never_exceeded_nor_withheld_without_reason(steps) -> None:
    ours, theirs = Link(), Link()
    places = {"a": Box(), "b": Box(35.0)}
    withheld: set[str] = set()
    for step in steps:
        if isinstance(step, str):
            if step in withheld:
                theirs.restore(places[step])
            else:
                assert theirs.withhold(places[step]) == (not withheld)
            withheld ^= {step}
        else:
            ours.put(data(step))
        while ours.is_sendable:
            for piece in ours.take():
                theirs.admit(len(piece))
        total = theirs.due()
        if total is not None:
            assert not withheld
            ours.grant(total)
        assert theirs.is_withheld == bool(withheld)
        assert ours.credit == theirs.granted
        ours.check()
        theirs.check()
        if not withheld:
            assert ours.credit - ours.sent > WINDOW_SIZE // 2


def test_data_without_credit_is_a_breach_of_the_protocol() -> None:
    for last in (1, 1_000):  # sent while there was a byte of credit left
        link = Link()
        link.withhold(Box())
        link.admit(WINDOW_SIZE - 1)
        link.admit(last)
        with pytest.raises(RemoteProtocolError, match="beyond") as raised:
            link.admit(1)
        assert raised.value.code is ErrorCode.LIMIT_EXCEEDED


def test_credit_is_due_when_a_quarter_of_the_window_is_used() -> None:
    link = Link()
    link.admit(WINDOW_SIZE // 4 - 1)
    assert link.due() is None
    link.admit(1)
    assert link.due_at <= link.received
    assert link.due() == WINDOW_SIZE // 4 + WINDOW_SIZE
    assert link.due() is None
    link.check()


def test_a_full_place_has_credit_withheld_until_no_place_is_full() -> None:
    link, box, other = Link(), Box(), Box()
    link.withhold(box)
    link.withhold(other)
    link.admit(WINDOW_SIZE)
    assert link.due() is None
    link.restore(box)
    assert link.due() is None
    link.restore(other)
    assert link.due() == 2 * WINDOW_SIZE


def test_a_smaller_window_is_granted_when_the_first_one_is_nearly_used_up() -> None:
    link = Link(limits=LinkLimits(window=1_000))
    link.admit(WINDOW_SIZE - 1_000)
    assert link.due() is None, "it has the first window still"
    link.admit(250)
    assert link.due() == WINDOW_SIZE + 250
    for total in range(1, 100):
        link.admit(250)
        assert link.due() == WINDOW_SIZE + 250 * (total + 1)


def test_a_quarter_of_the_smallest_windows_is_a_byte() -> None:
    for window in (1, 2, 3, 6, 7):
        link = Link(limits=LinkLimits(window=window))
        link.admit(WINDOW_SIZE - window)
        assert link.due() is None
        link.admit(1)
        assert link.due() == WINDOW_SIZE + 1


@pytest.mark.parametrize("may_hold", [True, False])
def test_whether_what_passes_may_hold_is_said_of_the_link(may_hold: bool) -> None:
    link = Link(limits=LinkLimits(transit=Mark(2 * MIB, MIB)), may_hold=may_hold)
    link.put(data(2 * MIB, own=False))
    assert link.is_crowded is may_hold
    assert link.is_passable is not may_hold


# The clock of a hold.


def held(link: Link, now: int) -> tuple:
    """The places that one tick says have held the link for too long."""
    places: list = []
    for each in tick(link, float(now)):
        if isinstance(each, HeldTooLong):
            places += each.places
    return tuple(places)


def test_withheld_is_said_every_second_while_it_is_so() -> None:
    link, box = Link(), Box()
    tick(link, 0.0)
    assert link.withhold(box), "at once, too"
    assert not link.withhold(Box()), "and no more often than that"
    for now in range(1, 100):
        assert SayWithheld() in tick(link, float(now))
    link = Link()
    link.withhold(box)
    link.restore(box)
    assert tick(link, 100.0) == []


def test_mailboxes_give_way_at_30_seconds_and_outboxes_at_35() -> None:
    link, box, outbox = Link(), Box(), Link().data
    assert outbox.hold_seconds_max == 35.0
    tick(link, 0.0)
    link.withhold(outbox)
    link.withhold(box)
    assert [now for now in range(1, 41) if box in held(link, now)] == list(range(30, 41))
    link.restore(box)
    assert held(link, 41) == (outbox,)


def test_places_that_take_turns_share_one_clock() -> None:
    link, first, second = Link(), Box(), Box()
    tick(link, 0.0)
    link.withhold(first)
    for now in range(1, 21):
        assert held(link, now) == ()
    link.withhold(second)
    link.restore(first)
    assert [now for now in range(21, 33) if held(link, now)] == [30, 31, 32]


def test_the_clock_starts_anew_when_no_place_is_left() -> None:
    link, box = Link(), Box()
    tick(link, 0.0)
    link.withhold(box)
    assert not any(held(link, now) for now in range(1, 30))
    link.restore(box)
    link.withhold(box)
    assert next(now for now in range(30, 70) if held(link, now)) == 59


def test_a_suspended_process_does_not_make_places_give_way() -> None:
    link, box = Link(), Box()
    tick(link, 0.0)
    link.withhold(box)
    assert held(link, 1_000) == ()


# Stalls.


def starve(link: Link) -> Link:
    """Leave the link with data that wait for credit."""
    link.sent = link.credit
    link.put(data())
    return link


def stalled_at(
    link: Link, seconds: int, heard_withheld=lambda now: False, *, was_lossy: bool = False
) -> int | None:
    for now in range(1, seconds + 1):
        if heard_withheld(now):
            link.hear_withheld()
        assert link.is_lossy is was_lossy
        if any(isinstance(each, PeerStalled) for each in tick(link, float(now))):
            return now
    return None


def test_a_peer_that_neither_takes_nor_grants_is_stalled() -> None:
    link = starve(Link())
    tick(link, 0.0)
    assert stalled_at(link, 20) == 5


def test_the_time_can_be_set() -> None:
    link = starve(Link(limits=LinkLimits(stall_seconds=17.0)))
    tick(link, 0.0)
    assert stalled_at(link, 40) == 17


def test_a_peer_that_says_withheld_every_second_is_excused_for_38_seconds() -> None:
    link = starve(Link())
    tick(link, 0.0)
    assert stalled_at(link, 100, lambda now: True) == 38 + 5


def test_words_that_happen_to_wait_at_each_tick_take_no_excuse_away() -> None:
    link = starve(Link())
    tick(link, 0.0)
    for now in range(1, 38):
        link.say("ping", b"ping")
        link.hear_withheld()
        assert not any(isinstance(each, PeerStalled) for each in tick(link, float(now)))
        link.take()


def test_withheld_that_was_said_once_counts_for_3_seconds() -> None:
    link = starve(Link())
    tick(link, 0.0)
    assert stalled_at(link, 100, lambda now: now == 1) == 3 + 5


def test_progress_of_data_starts_the_excuse_anew() -> None:
    link = starve(Link())
    tick(link, 0.0)
    assert stalled_at(link, 37, lambda now: True) is None
    link.grant(link.credit + 1)
    link.take()
    starve(link)
    for now in range(38, 70):
        link.hear_withheld()
        seen = link.tick(float(now), heard=now, written=100, acknowledged=100)
        assert not any(isinstance(each, PeerStalled) for each in seen)


def test_withheld_excuses_no_peer_that_does_not_read() -> None:
    link = Link()
    link.put(data())
    link.take()
    link.is_writing = True
    tick(link, 0.0)
    assert stalled_at(link, 20, lambda now: True) == 5


@pytest.mark.parametrize(
    "fill", [lambda link: link.command(data()), lambda link: link.put_rest(b"rest")]
)
def test_what_needs_no_credit_and_is_not_taken_has_no_excuse(fill) -> None:
    for link in (Link(), starve(Link())):
        fill(link)
        tick(link, 0.0)
        assert stalled_at(link, 20, lambda now: True) == 5


@pytest.mark.parametrize("has_data", [False, True])
def test_commands_that_are_acknowledged_are_progress_though_data_wait(has_data: bool) -> None:
    link = Link()
    if not has_data:
        starve(link)
    for _ in range(65):
        link.put(data())
        link.command(data())
    written_bytes = 0
    for now in range(12):
        written_bytes += sum(map(len, link.take()))
        seen = link.tick(float(now), heard=now, written=written_bytes, acknowledged=written_bytes)
        assert link.data.frames
        assert not any(isinstance(each, PeerStalled) for each in seen)


def test_a_frame_that_is_acknowledged_while_it_is_written_is_progress() -> None:
    link = Link()
    link.put(data())
    link.take()
    link.is_writing = True
    for now in range(60):
        seen = link.tick(float(now), heard=now, written=now, acknowledged=now)
        assert not any(isinstance(each, PeerStalled) for each in seen)


@pytest.mark.parametrize(
    "fill",
    [
        lambda link: link.put(data()),
        lambda link: link.put(data(own=False)),
        lambda link: link.command(data()),
    ],
)
def test_whatever_waits_makes_a_peer_slow(fill) -> None:
    link, seen = Link(), []
    fill(link)
    for now in range(6):
        seen += link.tick(float(now), heard=now, written=0, acknowledged=0)
    assert PeerSlow(is_withheld=False) in seen


def test_words_that_happen_to_wait_at_each_tick_stall_no_peer() -> None:
    link = Link()
    for now in range(60):
        link.say("ping", b"ping")
        assert tick(link, float(now)) == []
        link.take()


def test_with_disconnect_nothing_is_dropped() -> None:
    link = starve(Link())
    for _ in range(30):
        link.put(data())
    tick(link, 0.0)
    assert stalled_at(link, 20) == 5
    assert not link.is_lossy
    assert link.is_full
    assert link.statistics().dropped_messages == 0


@pytest.mark.parametrize("policy", [OverflowPolicy.DROP_OLDEST, OverflowPolicy.DROP_NEWEST])
def test_a_stalled_peer_whose_policy_drops_makes_no_publisher_wait_until_it_moves(policy) -> None:
    link = starve(Link(policy))
    for _ in range(30):
        link.put(data())
    tick(link, 0.0)
    assert stalled_at(link, 20) == 5
    assert link.is_lossy
    assert not link.is_full
    assert link.has_room
    assert link.data.own < MIB
    dropped = link.statistics().dropped_messages
    assert dropped == 31 - len(link.data.frames)
    link.put(data())
    assert link.statistics().dropped_messages == dropped + 1
    tick(link, 6.0)
    assert link.is_lossy
    link.grant(link.credit + 1)
    tick(link, 7.0)
    assert link.is_lossy is False


def test_a_dead_peer_is_silent_whatever_its_policy() -> None:
    link = starve(Link(OverflowPolicy.DROP_OLDEST))
    seen = [tick(link, float(now), heard=0) for now in range(17)]
    assert isinstance(seen[5][0], PeerStalled)
    assert seen[15] == [PeerSilent(15.0)]


def test_what_a_lost_peer_did_not_get_is_counted_and_last_words_are_said() -> None:
    link = Link()
    for size in (COMMANDS_SIZE_MAX + 1, 1, 1):
        link.command(data(size))
    assert link.statistics().dropped_commands == 2
    link.put(data())
    link.put_rest(b"rest")
    link.say("drop_conn", b"why")
    link.discard()
    statistics = link.statistics()
    assert (statistics.dropped_messages, statistics.dropped_commands) == (1, 3)
    assert (statistics.data_frames, statistics.data_bytes, statistics.command_bytes) == (0, 0, 0)
    assert link.take() == [b"rest", b"why"]
    assert not link.has_backlog
    link.check()
