"""The options of commands that lead stores and logs about how much these may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from peermesh.cli.numbers import Size, Whole

CommandT = TypeVar("CommandT", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--max-entries", type=Whole(), metavar="COUNT",
        help="Refuse to hold more entries; 0 for no limit. (docs/quotas.md has the defaults)",
    ),
    click.option(
        "--max-bytes", type=Size(), metavar="SIZE",
        help="Refuse to hold more bytes of keys and values, such as 512MiB; 0 for no limit.",
    ),
)  # fmt: skip

NAMES = ("max_entries", "max_bytes")
"""The parameters that the options fill."""


def quota_options(command: CommandT) -> CommandT:
    """Add how much a store or log may hold."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_quota(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Give the limits that were given, as attaching takes them: ``None`` for no limit."""
    return {name: limits[name] or None for name in NAMES if limits.get(name) is not None}
