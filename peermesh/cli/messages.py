"""``peermesh pub`` and ``peermesh sub``: messages from and to the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

import click

from peermesh import Message, Missed, Value
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, join, mesh_options
from peermesh.cli.numbers import Seconds, Whole
from peermesh.cli.running import read_stdin, run
from peermesh.cli.values import NoValue, format_value, on_a_line, parse_value, to_json

CommandT = TypeVar("CommandT", bound=Callable[..., object])


def reading_options(command: CommandT) -> CommandT:
    """Add how long to read, and how to write it: what commands that write messages share."""
    count = click.option("--count", type=Whole(1), help="End after so many messages.")
    timeout = click.option(
        "--timeout", type=Seconds(), metavar="SECONDS",
        help="End with code 4 when no message comes for so long.",
    )  # fmt: skip
    as_json = click.option(
        "--json", "as_json", is_flag=True, help='Write {"topic": …, "value": …} on each line.'
    )
    return count(timeout(as_json(command)))


class Reader(Protocol):
    """A subscriber of any kind."""

    async def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message."""


@click.command()
@click.argument("topic")
@click.argument("value")
@click.option("--raw", is_flag=True, help="VALUE, or each line, is plain text rather than JSON.")
@mesh_options(listens=False)
def pub(topic: str, value: str, mesh: Mesh, *, raw: bool) -> None:
    """Publish VALUE, which is JSON, on TOPIC; with "-" for VALUE, each line of stdin.

    It ends when the peers have taken what was published. Whether anybody has subscribed, nobody
    knows: publishing is not storing.
    """
    if not mesh.peers:
        raise click.UsageError("say to whom to publish: --peer HOST:PORT")
    first = None if value == "-" else read_argument(value, raw=raw)
    run(_publish, mesh, topic, value == "-", first, raw)


async def _publish(
    mesh: Mesh,
    topic: str,
    reads: bool,  # noqa: FBT001 - trio.run takes no keywords
    value: Value,
    raw: bool,  # noqa: FBT001 - trio.run takes no keywords
) -> None:
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        if not reads:
            await endpoint.publish(topic, value)
            return
        async for each in read_values(raw=raw):
            await endpoint.publish(topic, each)


async def read_values(*, raw: bool) -> AsyncIterator[Value]:
    """Read a value from each line of stdin."""
    number = 0
    async for line in read_stdin():
        number += 1
        try:
            text = line.decode().removesuffix("\n")
            yield text if raw else parse_value(text)
        except UnicodeDecodeError:
            raise CommandFailed(f"line {number} of stdin is not UTF-8") from None
        except NoValue as error:
            raise CommandFailed(f"line {number} of stdin: {error}; or use --raw") from None


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@reading_options
@mesh_options(listens=True)
def sub(
    topics: tuple[str, ...], count: int | None, timeout: float | None, mesh: Mesh, *, as_json: bool
) -> None:
    """Write every message whose topic begins with one of the TOPICs, until Ctrl-C.

    A line is the topic, a blank, and the value as JSON. A topic that is not printable is JSON, too.
    """
    mesh.require_way_in()
    run(_subscribe, mesh, topics, count, timeout, as_json)


async def _subscribe(
    mesh: Mesh,
    topics: tuple[str, ...],
    count: int | None,
    timeout: float | None,
    as_json: bool,  # noqa: FBT001 - trio.run takes no keywords
) -> None:
    async with mesh.endpoint() as endpoint:
        # Subscribing comes first: so peers know of it as soon as they are peers.
        with endpoint.subscribe(*topics) as subscriber:
            await join(endpoint, mesh)
            click.echo(f"subscribed to {', '.join(topics)}", err=True)
            received = 0
            while count is None or received < count:
                received += await write_next(subscriber, timeout, as_json=as_json)


async def write_next(subscriber: Reader, timeout: float | None, *, as_json: bool) -> int:
    """Write the next message; give the number of messages that it was."""
    try:
        topic, value = await subscriber.get(timeout)
    except TimeoutError:
        raise CommandFailed(f"no message within {timeout:g} s", ExitCode.TIMEOUT) from None
    if isinstance(value, Missed):
        click.echo(f"peermesh: {value.count} messages were missed, being read too late", err=True)
        return 0
    if as_json:
        click.echo(json.dumps({"topic": topic, "value": to_json(value)}, ensure_ascii=False))
    else:
        click.echo(f"{on_a_line(topic)} {format_value(value)}")
    return 1


def read_argument(text: str, *, raw: bool) -> Value:
    """Read a value from the command line."""
    try:
        return text if raw else parse_value(text)
    except NoValue as error:
        raise click.UsageError(f"{error}, or use --raw") from None
