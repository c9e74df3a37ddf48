"""Merging flight records: the laws of logical clocks, on histories of which the truth is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

from hypothesis import given, strategies

from endpoint.flight import FlightRecorder
from peermesh.testing.recorder import merge
from wire.clocks import LamportTime, VectorTime
from wire.identifiers import EndpointId
from wire.messages import Announcement

NODES = [EndpointId(bytes([number]) * 16) for number in range(4)]
PLACES = strategies.integers(0, len(NODES) - 1)
STEPS = strategies.lists(
    strategies.one_of(
        strategies.tuples(strategies.just("note"), PLACES, PLACES),
        strategies.tuples(strategies.just("announce"), PLACES, PLACES),
        strategies.tuples(strategies.just("hear"), PLACES, PLACES),
        strategies.tuples(strategies.just("meet"), PLACES, PLACES),
    ),
    max_size=40,
)


class History:
    """Nodes that announce, hear and note, with a vector of their own as the truth beside them."""

    def __init__(self, skews: list[float], size_max: int = 512) -> None:
        self.recorders = [FlightRecorder(node, size_max) for node in NODES]
        self.skews = skews
        self.clocks = [0] * len(NODES)
        self.now = 0.0
        self.knowledge = [VectorTime() for _ in NODES]
        self.announced: list[tuple[Announcement, VectorTime] | None] = [None] * len(NODES)
        self.truth: dict[tuple[EndpointId, int], VectorTime] = {}

    def play(self, steps: list[tuple[str, int, int]]) -> History:
        for kind, here, there in steps:
            self.now += 1.0
            getattr(self, kind)(here, there)
        return self

    def note(self, here: int, _: int) -> None:
        record = self.recorders[here].note(self.now + self.skews[here], "note", "")
        self._happened(here, record.number)

    def announce(self, here: int, _: int) -> None:
        self.clocks[here] += 1
        news = Announcement(NODES[here], LamportTime(self.clocks[here]), (), (), (), True)
        self.recorders[here].announce(self.now + self.skews[here], news)
        self._happened(here, self.recorders[here].number)
        self.announced[here] = (news, self.knowledge[here])

    def hear(self, here: int, there: int) -> None:
        said = self.announced[there]
        if said is not None and here != there:
            self.recorders[here].hear([said[0]])
            self.knowledge[here] = self.knowledge[here].merge(said[1])

    def meet(self, here: int, there: int) -> None:
        number = self.recorders[there].number
        if here != there:
            self.recorders[here].meet({NODES[there]: number} if number else {})
            self.knowledge[here] = self.knowledge[here].merge(self.knowledge_noted(there))

    def knowledge_noted(self, there: int) -> VectorTime:
        return self.truth.get((NODES[there], self.recorders[there].number), VectorTime())

    def _happened(self, here: int, number: int) -> None:
        self.knowledge[here] = self.knowledge[here].advance(NODES[here], LamportTime(number))
        self.truth[NODES[here], number] = self.knowledge[here]

    def logs(self):
        return [recorder.records() for recorder in self.recorders]


@given(steps=STEPS, skews=strategies.lists(strategies.floats(-50, 50), min_size=4, max_size=4))
def test_vectors_are_those_of_the_true_history_however_clocks_go(steps, skews):
    history = History(skews).play(steps)
    assert {event.key: event.stamp for event in merge(history.logs())} == history.truth


@given(steps=STEPS, skews=strategies.lists(strategies.floats(-50, 50), min_size=4, max_size=4))
def test_the_order_contradicts_no_vector_and_lamport_times_grow_with_causality(steps, skews):
    events = merge(History(skews).play(steps).logs())
    for at, event in enumerate(events):
        for later in events[at + 1 :]:
            assert not later.happened_before(event)
            if event.happened_before(later):
                assert event.lamport < later.lamport


@given(steps=STEPS)
def test_arrows_and_lanes_together_lead_to_everything_that_happened_before(steps):
    events = {event.key: event for event in merge(History([0.0] * 4).play(steps).logs())}
    for key, event in events.items():
        known = VectorTime({key[0]: LamportTime(key[1])})
        own = (key[0], key[1] - 1)
        for cause in (*event.causes, *([own] if own in events else [])):
            known = known.merge(events[cause].stamp)
        assert known == event.stamp


@given(steps=STEPS)
def test_no_arrow_shows_what_the_lane_or_another_arrow_shows_already(steps):
    events = {event.key: event for event in merge(History([0.0] * 4).play(steps).logs())}
    for (node, number), event in events.items():
        for cause in event.causes:
            others = [each for each in event.causes if each != cause]
            others += [(node, number - 1)] if (node, number - 1) in events else []
            assert not any(events[cause].stamp <= events[each].stamp for each in others)


@given(steps=STEPS)
def test_the_order_of_the_logs_and_what_comes_twice_change_nothing(steps):
    logs = History([0.0] * 4).play(steps).logs()
    expected = merge(logs)
    assert all(merge(some) == expected for some in permutations(logs))
    assert merge([*logs, *logs]) == expected


@given(steps=STEPS, size_max=strategies.integers(1, 5))
def test_what_bounded_recorders_still_hold_is_in_no_order_that_never_was(steps, size_max):
    history = History([0.0] * 4, size_max).play(steps)
    events = merge(history.logs())
    assert len(events) == sum(len(log) for log in history.logs())
    for event in events:
        assert event.stamp <= history.truth[event.key]


def test_clocks_decide_where_causality_does_not():
    history = History([0.0, -0.5, 0.0, 0.0])
    history.play([("note", 0, 0), ("note", 1, 0), ("note", 2, 0)])
    times = [event.record.at for event in merge(history.logs())]
    assert all(early <= late for early, late in pairwise(times))


def test_records_that_contradict_each_other_are_shown_all_the_same():
    one, two = (FlightRecorder(node) for node in NODES[:2])
    first, second = one.note(1.0, "note", ""), two.note(2.0, "note", "")
    circle = [replace(first, met=((NODES[1], 1),)), replace(second, met=((NODES[0], 1),))]
    assert [event.record.node for event in merge([circle])] == NODES[:2]
