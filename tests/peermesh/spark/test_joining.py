"""How long a process of Spark waits for a store's leader: on a clock of the test's own."""

from __future__ import annotations

import pytest

from peermesh.spark import joining
from peermesh.spark.joining import patiently
from wire.errors import NoQuorum, NotAllowed, RequestTimeout, StaleData


class Leader:
    """One that is away until a time, as a read sees it, which waits for five seconds by itself."""

    def __init__(self, back_at, error, read_seconds=5.0):
        self.now, self.reads = 0.0, 0
        self._back_at = back_at
        self._error = error
        self._read_seconds = read_seconds

    def read(self):
        self.reads += 1
        if self.now >= self._back_at:
            return "answer"
        self.now = min(self._back_at, self.now + self._read_seconds)
        raise self._error

    def pause(self, seconds):
        self.now += seconds

    def ask(self, seconds):
        return patiently(self.read, seconds, lambda: self.now, self.pause)


@pytest.mark.parametrize("error", [StaleData("away"), NoQuorum("away")], ids=["stale", "quorum"])
def test_a_read_is_repeated_until_the_leader_is_back(error):
    leader = Leader(52.0, error)
    assert leader.ask(60) == "answer"
    assert 52 <= leader.now < 53


def test_a_leader_that_stays_away_ends_the_read_when_the_seconds_are_over():
    leader = Leader(1_000.0, StaleData("store t: no answer"))
    with pytest.raises(RequestTimeout, match="store t: no answer: its leader has not answered in"):
        leader.ask(60)
    assert 60 <= leader.now < 66


def test_a_read_that_fails_at_once_is_not_repeated_without_a_pause():
    leader = Leader(3.0, StaleData("out of touch"), read_seconds=0.0)
    assert leader.ask(60) == "answer"
    assert leader.reads <= 3 / joining.PAUSE_SECONDS + 2


def test_what_no_time_mends_is_raised_at_once():
    leader = Leader(1.0, NotAllowed("no right to read"))
    with pytest.raises(NotAllowed):
        leader.ask(60)
    assert leader.reads == 1
