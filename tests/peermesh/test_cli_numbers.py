"""Numbers on the command line that are none, or more than can be."""

from __future__ import annotations

import click
import pytest

from peermesh.cli.application import application, commands_below
from peermesh.cli.numbers import Seconds, Whole
from wire.scalars import INTEGER_MAX


def test_numbers_within_reason_are_read():
    assert Seconds().convert("2.5", None, None) == 2.5
    assert Seconds().convert("0", None, None) == 0
    assert Whole(1).convert(str(INTEGER_MAX), None, None) == INTEGER_MAX


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e300", "soon"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(click.BadParameter):
        Seconds().convert(text, None, None)


@pytest.mark.parametrize("text", ["-1", "1.5", str(INTEGER_MAX + 1), "9" * 5_000])
def test_a_number_that_the_mesh_cannot_carry_is_refused(text):
    with pytest.raises(click.BadParameter):
        Whole().convert(text, None, None)


def test_no_option_takes_a_number_without_end():
    options = [o for _, command in commands_below(application, "") for o in command.params]
    types = [option.type for option in options]
    numbers = [each for each in types if isinstance(each, click.FloatRange | click.IntRange)]
    assert len(numbers) > 60
    for each in numbers:
        assert isinstance(each, Seconds | Whole) or each.max is not None
