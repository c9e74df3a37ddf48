"""Numbers on the command line that are none, or more than can be."""

from __future__ import annotations

import click
import pytest

from peermesh.cli.application import application, commands_below
from peermesh.cli.numbers import Seconds, Size, Whole
from peermesh.cli.quotas import given_quota
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


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("512MiB", 512 << 20), ("2 GiB", 2 << 30), ("1kib", 1024)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5MiB", "12MB", "much", "9" * 5_000, "9999999999 TiB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Size().convert(text, None, None)


def test_quotas_are_given_as_attaching_takes_them() -> None:
    assert given_quota({"max_entries": None, "max_bytes": None, "keep_count": 3}) == {}
    assert given_quota({"max_entries": 0, "max_bytes": 5}) == {"max_entries": None, "max_bytes": 5}
