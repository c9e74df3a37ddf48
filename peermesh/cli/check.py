"""``peermesh check``: hold a recorded history against the promises that it should have kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from peermesh.cli.arguments import INPUT_FILE
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed
from peermesh.cli.output import Output
from peermesh.testing import checkers
from peermesh.testing.checkers import Verdict
from peermesh.testing.checkers.watch import GUARANTEES
from peermesh.testing.history import History, HistoryError, merge
from peermesh.testing.history_files import read_history

Check = Callable[[History], Verdict]

BY_HISTORY: Final[dict[str, Check]] = {
    "linearizable": checkers.linearizable,
    "monotonic": checkers.monotonic,
    "watch": checkers.watch,
    **{f"watch.{name}": check for name, check in GUARANTEES.items()},
    "one_winner": checkers.one_winner,
    "at_most_one_peering": checkers.at_most_one_peering,
    "no_message_outlives_its_ttl": checkers.no_message_outlives_its_ttl,
}
"""Promises that a history is enough for."""

BY_NODES: Final[dict[str, Callable[[History, tuple[str, ...]], Verdict]]] = {
    "prefix_consistent": checkers.prefix_consistent,
    "exactly_once": checkers.exactly_once,
}
"""Promises that need to know the clones, or the consumers."""

PROMISES: Final = (*BY_HISTORY, *BY_NODES)


@command()
@click.argument(
    "histories",
    nargs=-1,
    required=True,
    metavar="HISTORY...",
    type=INPUT_FILE,
)
@click.option(
    "--promise", "promises", multiple=True, required=True, type=click.Choice(PROMISES),
    metavar="PROMISE",
    help=f"What should have held: {', '.join(PROMISES)}. May be given several times.",
)  # fmt: skip
@click.option(
    "--node", "nodes", multiple=True, metavar="NAME",
    help="A clone (prefix_consistent), a consumer (exactly_once), or where the operations count"
    " (linearizable: all, if none is named). May be given several times.",
)  # fmt: skip
def check(
    histories: tuple[Path, ...], promises: tuple[str, ...], nodes: tuple[str, ...], output: Output
) -> None:
    """Tell whether a recorded HISTORY kept its promises; the code is 1 if one did not.

    A history is a file of JSON lines, from peermesh.testing or another program; "-" is stdin.
    Several are merged by their times, which have to come from one clock. "gave up" means that the
    history is more than can be decided: the code is 1 then, too.
    """
    checks = [_check_of(promise, nodes) for promise in dict.fromkeys(promises)]
    try:
        recorded = [read_history(path) for path in histories]
        history = recorded[0] if len(recorded) == 1 else merge(recorded)
        verdicts = [each(history) for each in checks]
    except (HistoryError, UnicodeDecodeError) as error:
        raise CommandFailed(f"this is no history for that: {error}") from None
    for verdict in verdicts:
        output.tell(
            str(verdict).split("\n"),
            promise=verdict.promise,
            finding=verdict.finding.value,
            text=verdict.text,
            witness=list(verdict.witness),
        )
    bad = [verdict.promise for verdict in verdicts if not verdict]
    if bad:
        raise CommandFailed(f"not kept, or not decided: {', '.join(bad)}")


def _check_of(promise: str, nodes: tuple[str, ...]) -> Check:
    if promise in BY_NODES:
        if not nodes:
            raise click.UsageError(f"{promise} needs the names of its nodes: --node NAME")
        return lambda history: BY_NODES[promise](history, nodes)
    if promise == "linearizable" and nodes:
        return partial(checkers.linearizable, nodes=nodes)
    return BY_HISTORY[promise]
