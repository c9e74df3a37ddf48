"""The options about voters of replica groups, and the one that they have replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import click

from stores.group.limits import VOTERS_MAX

CommandT = TypeVar("CommandT", bound=Callable[..., object])


def voters_options(
    voters: str = "The nodes whose replicas vote, by their names", group: str = "the group"
) -> Callable[[CommandT], CommandT]:
    """Add which replicas vote, and which of them founds: the beginning of the help, and of what."""

    def add(command: CommandT) -> CommandT:
        found = f"Found {group}, if there is none: at one node, with --voters NUMBER."
        command = click.option("--found", is_flag=True, help=found)(command)
        names = f"{voters}: the same line at each of them."
        count = "Or how many are to vote: the first that come."
        taken = "NAME,NAME,...|NUMBER"
        return click.option("--voters", metavar=taken, help=f"{names} {count}")(command)

    return add


def split_voters(text: str) -> tuple[str, ...]:
    """Take the names of ``--voters`` apart; raises ``UsageError`` for an empty one, or two equal.

    They are what variables leave that are not set, and lists that were copied.
    """
    names = tuple(each.strip() for each in text.split(","))
    if "" in names:
        raise click.UsageError(f"--voters {text!r} has an empty name")
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise click.UsageError(f"--voters {text} names {twice} twice")
    return names


def broker_voters(text: str | None) -> tuple[str, ...]:
    """Take the names of a broker's ``--voters``; raises ``UsageError`` for a number.

    A broker founds groups whenever topics begin, and may not wait for the one that founds.
    """
    wanted = () if text is None else voters_of(text)
    if isinstance(wanted, int):
        raise click.UsageError(f"--voters {text}: a broker's voters have names: --voters a,b,c")
    return wanted


def voters_of(text: str) -> tuple[str, ...] | int:
    """Take the names of ``--voters`` apart; a number alone is how many there are to be.

    Raises ``UsageError`` for a number of voters that no group has.
    """
    if not text.removeprefix("-").isdecimal():
        return split_voters(text)
    count = int(text) if len(text) < 4 else 0
    if not 0 < count <= VOTERS_MAX:
        raise click.UsageError(f"--voters {text:.40}: a group has 1 to {VOTERS_MAX} voters")
    return count


class GivenVoters(NamedTuple):
    """What a replica is attached with, as ``Endpoint.attach_replica`` takes it."""

    voters: tuple[str, ...] | int
    found: bool


def given_voters(text: str | None, *, found: bool) -> GivenVoters:
    """Take ``--voters`` and ``--found`` together; raises ``UsageError`` if they do not fit."""
    wanted = () if text is None else voters_of(text)
    if found and not isinstance(wanted, int):
        raise click.UsageError("--found goes with a number: --voters 3; of names the first founds")
    return GivenVoters(wanted, found)


def refuse_replicas(context: click.Context, parameter: click.Parameter, given: str | None) -> None:
    """Say what stands in the place of ``--replicas``; raises ``UsageError``."""
    del context, parameter
    if given is not None:
        raise click.UsageError(
            "copies of a store are no longer counted (--replicas): --voters a,b,c, at each of the"
            " three nodes, makes a group, in which a majority has what is acknowledged"
        )
