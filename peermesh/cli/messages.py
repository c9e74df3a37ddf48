"""``peermesh pub`` and ``peermesh sub``: messages from and to the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import click

from peermesh import Message, Missed, Value
from peermesh.cli.arguments import RAW_OPTION, WRITING_TEXT_OPTION, read_lines, read_value
from peermesh.cli.arriving import join
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Seconds, Whole
from peermesh.cli.output import Output, note, say, write_raw
from peermesh.cli.running import run
from peermesh.cli.trust import STDIN
from peermesh.cli.values import format_value, on_a_line, to_json

CommandT = TypeVar("CommandT", bound=Callable[..., object])

TIMEOUT_OPTION: Final = click.option("--timeout", type=Seconds(), hidden=True)
"""What --wait was called where a message or an entry is waited for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How long to read messages, and how to write them."""

    count: int | None
    timeout: float | None
    raw: bool
    output: Output


def reading_options(command: CommandT) -> CommandT:
    """Add what commands that write messages share; ``reading`` makes a ``Reading`` of it."""
    count = click.option("--count", type=Whole(1), help="End after so many messages.")
    return count(TIMEOUT_OPTION(RAW_OPTION(command)))


def reading(mesh: Mesh, output: Output, **given: Any) -> Reading:  # noqa: ANN401 - values of options
    """Gather the options of ``reading_options``; raises ``UsageError``."""
    if given["raw"]:
        check_raw(output)
    timeout = mesh.waits if given["timeout"] is None else given["timeout"]
    return Reading(given["count"], timeout, given["raw"], output)


def check_raw(output: Output) -> None:
    """Raise ``UsageError`` for ``--raw`` with ``--json``."""
    if output.as_json:
        raise click.UsageError("give --raw or --json: not both at once")


class Reader(Protocol):
    """A subscriber of any kind."""

    async def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message."""


@command()
@click.argument("topic")
@click.argument("value")
@WRITING_TEXT_OPTION
@mesh_options(listens=False)
def pub(topic: str, value: str, mesh: Mesh, output: Output, *, as_text: bool) -> None:
    """Publish VALUE on TOPIC; with "-" for VALUE, each line of stdin.

    VALUE is JSON if it can be read as JSON, and text if not. It ends when the peers have taken what
    was published. Whether there is a subscriber is not known: publishing is not storing.
    """
    reads = value == STDIN
    first = None if reads else read_value(value, as_text=as_text)
    count = run(_publish, mesh, topic, reads, first, as_text)
    output.tell(None, published=count)


async def _publish(
    mesh: Mesh,
    topic: str,
    reads: bool,  # noqa: FBT001 - trio.run takes no keywords
    value: Value,
    as_text: bool,  # noqa: FBT001 - trio.run takes no keywords
) -> int:
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        if not reads:
            await endpoint.publish(topic, value)
            return 1
        count = 0
        async for each in read_lines(as_text=as_text):
            await endpoint.publish(topic, each)
            count += 1
        return count


@command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@reading_options
@mesh_options(listens=True)
def sub(topics: tuple[str, ...], mesh: Mesh, output: Output, **given: Any) -> None:  # noqa: ANN401 - values of options
    """Write every message whose topic begins with one of the TOPICs, until Ctrl-C.

    A line is the topic, a blank, and the value as JSON. A topic that is not printable is JSON, too.
    With --wait it ends with code 4 when no message comes for so long.
    """
    run(_subscribe, mesh, topics, reading(mesh, output, **given))


async def _subscribe(mesh: Mesh, topics: tuple[str, ...], how: Reading) -> None:
    async with mesh.endpoint() as endpoint:
        # Subscribing comes first: so peers know of it as soon as they are peers.
        with endpoint.subscribe(*topics) as subscriber:
            await join(endpoint, mesh)
            say(f"subscribed to {', '.join(map(on_a_line, topics))}", err=True)
            await write_messages(subscriber, how)


async def write_messages(subscriber: Reader, how: Reading) -> None:
    """Write messages until there were enough of them; raises ``CommandFailed`` if none comes."""
    received = 0
    while how.count is None or received < how.count:
        try:
            topic, value = await subscriber.get(how.timeout)
        except TimeoutError:
            raise CommandFailed(f"no message within {how.timeout:g} s", ExitCode.TIMEOUT) from None
        if isinstance(value, Missed):
            note(f"{value.count} messages were missed, being read too late")
            continue
        received += 1
        if how.raw:
            write_raw(value)
        elif how.output.as_json:
            how.output.tell(None, topic=topic, value=to_json(value))
        else:
            say(f"{on_a_line(topic)} {format_value(value)}")
