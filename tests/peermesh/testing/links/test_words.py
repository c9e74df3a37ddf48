"""What is typed to a link."""

from __future__ import annotations

import pytest

from peermesh.testing.faults import (
    Delay,
    Direction,
    Loss,
    Partition,
    RateLimit,
    Reset,
    SlowClose,
)
from peermesh.testing.links.words import (
    WORDS_HELP,
    Apply,
    Heal,
    Help,
    Status,
    parse_order,
)

BOTH, FORTH, BACK = Direction.BOTH, Direction.FORTH, Direction.BACK


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("delay 0.1", Apply(Delay(0.1), BOTH)),
        ("  delay 0.1 0.02 forth \n", Apply(Delay(0.1, 0.02), FORTH)),
        ("rate 1000 back", Apply(RateLimit(1000), BACK)),
        ("loss 0.5 both", Apply(Loss(0.5), BOTH)),
        ("slow-close 5", Apply(SlowClose(5), BOTH)),
        ("partition", Apply(Partition(), BOTH)),
        ("partition forth", Apply(Partition(), FORTH)),
        ("reset", Apply(Reset(), BOTH)),
        ("reset-after 3", Apply(Reset(3), BOTH)),
        ("heal", Heal(BOTH)),
        ("heal back", Heal(BACK)),
        ("status", Status()),
        ("help", Help()),
    ],
)
def test_a_line_is_an_order(line, order):
    assert parse_order(line) == order


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("", "write help"),
        ("forth", "write help"),
        ("delay", "write help"),
        ("delay soon", "'soon' is no number"),
        ("delay 1 2", "at most seconds"),
        ("rate 0", "use Partition"),
        ("rate nan", "no number of bytes"),
        ("loss 2", "between 0 and 1"),
        ("status forth", "write help"),
        ("explode", "'explode' is no order: write help"),
        ("reset forth", "leave the way out"),
        ("reset-after 1 back", "leave the way out"),
    ],
)
def test_what_is_no_order_says_what_to_write(line, advice):
    with pytest.raises(ValueError, match=advice):
        parse_order(line)


def test_every_word_of_the_help_is_understood():
    samples = {"SECONDS": "0.5", "JITTER": "0.5", "PROBABILITY": "0.5", "BYTES": "7", "WAY": "back"}
    for line in WORDS_HELP.splitlines()[:-1]:
        form = line.partition("   ")[0].replace("[", "").replace("]", "")
        parse_order(" ".join(samples.get(word, word) for word in form.split()))
