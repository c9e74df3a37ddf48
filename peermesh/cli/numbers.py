"""Numbers on the command line: seconds that a clock can count, and whole numbers that fit."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import click

from wire.scalars import INTEGER_MAX

SECONDS_MAX: Final = 1e9
"""Thirty years: for ever, and its nanoseconds still fit into 64 bits when added to a date."""


_UNITS: Final = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def counted(count: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: "1 entry", "2 entries"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


class Seconds(click.FloatRange):
    """A time in seconds, within reason. ``nan`` is none, though Python reads it as a number."""

    def __init__(self, least: float = 0, *, is_open: bool = False) -> None:
        """Take no less than ``least``; if it ``is_open``, only more."""
        super().__init__(min=least, min_open=is_open)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read seconds."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if math.isnan(seconds):
            self.fail(f"{value!r} is no time: write seconds, as in 2.5", param, ctx)
        seconds = float(super().convert(seconds, param, ctx))
        if seconds > SECONDS_MAX:
            self.fail(f"{value} s are too long: {SECONDS_MAX:.0f} are as good as ever", param, ctx)
        return seconds


class Whole(click.IntRange):
    """A whole number that the mesh can carry."""

    def __init__(self, least: int = 0) -> None:
        """Take no less than ``least``."""
        super().__init__(min=least)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Read a number."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is no whole number: write digits, as in 12", param, ctx)
        number = int(super().convert(number, param, ctx))
        if number > INTEGER_MAX:
            self.fail(f"it does not fit into 64 bits: {INTEGER_MAX} is the most", param, ctx)
        return number


class Size(Whole):
    """A number of bytes, maybe with a unit of powers of 1,024: 512MiB, 2 GiB."""

    name = "size"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Read a number of bytes."""
        found = re.fullmatch(r"([0-9]{1,20}) ?([kmgt]ib)?", str(value).strip(), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is no size: write bytes, or a size such as 512MiB", param, ctx)
        return super().convert(int(found[1]) * _UNITS[(found[2] or "").upper()], param, ctx)
