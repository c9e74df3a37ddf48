"""What is promised through changes of broker: the model of ``reigns``, and that it can fail."""

from __future__ import annotations

import pytest

from peermesh.brokers.edge.hall import Hall
from peermesh.brokers.edge.incoming import Incoming
from peermesh.brokers.edge.relay import Relay
from tests.peermesh.brokers.edge.reigns import WRONG, play

SEEDS = 150


def first_wrong(seeds: int = SEEDS) -> str | None:
    for seed in range(seeds):
        found = play(seed)
        wrong = [what for what in WRONG if found[what]]
        if wrong:
            return wrong[0]
    return None


def test_through_changes_of_broker_nothing_is_lost_doubled_or_disordered_untold() -> None:
    assert first_wrong() is None


@pytest.mark.parametrize("seed", [18_553, 36_323, 54_207])
def test_an_answer_that_is_lost_hides_no_gap(seed: int) -> None:
    """A broker knows a subscriber anew; only its second answer has what there is to tell."""
    found = play(seed)
    assert found["told"]
    assert not any(found[what] for what in WRONG)


def test_a_broker_that_acknowledges_what_it_has_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Relay._settle

    def forget(relay: Relay, effects: list) -> None:
        for parcel in relay._log:
            parcel.owed = 0
        settle(relay, effects)

    monkeypatch.setattr(Relay, "_settle", forget)
    assert first_wrong() == "lost"


def test_a_reign_that_does_not_wait_for_its_subscribers_loses_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = Hall.begin
    monkeypatch.setattr(Hall, "begin", lambda hall, _, known: begin(hall, None, known))
    assert first_wrong() == "lost"


def test_a_subscriber_that_does_not_look_at_numbers_gets_messages_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Incoming, "_remember", lambda *_: None)
    assert first_wrong() == "doubled"
