"""``peermesh link``: a link with faults in front of any TCP service, and one to a Zeek."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, Final

import click
import trio

from peermesh.cli.addresses import Address, AddressType
from peermesh.cli.command import Command, Group
from peermesh.cli.exits import CommandFailed
from peermesh.cli.output import Output, note, say
from peermesh.cli.running import read_stdin, run
from peermesh.cli.zeek import zeek
from peermesh.testing.faults import (
    Delay,
    Direction,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    Reset,
    SlowClose,
    check,
)
from peermesh.testing.links import (
    ConnectionRefused,
    FaultApplied,
    Link,
    LinkEvent,
    LinkHealed,
    open_link,
)
from peermesh.testing.links.words import WORDS_HELP, Apply, Heal, Help, Status, parse_order
from wire.addresses import join_address

LINK_HELP = f"""\
Lead TCP connections from LISTEN to TARGET, through faults.

Dial LISTEN instead of a service, and the network to it is as bad as you like. It runs until Ctrl-C;
port 0 lets the system choose, and the first line says which.

While it runs, lines on stdin change what stands:

\b
{WORDS_HELP}

To join the mesh to a Zeek there is peermesh link zeek.

\b
For example:
  peermesh link 127.0.0.1:8001 127.0.0.1:8000 --delay 0.1 --jitter 0.02
  echo partition | peermesh link 127.0.0.1:8001 127.0.0.1:8000
"""

Applied = tuple[LinkFault, Direction]

TCP: Final = "tcp"


class LinkGroup(Group):
    """A group of which one command need not be named: two addresses, or options, are enough."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments of a command that is named, or those of ``tcp``."""
        is_group = args == ["--json"] or (args and args[0] in self.commands)
        return super().parse_args(ctx, args if is_group else [TCP, *args])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by its name; an address is the first argument of ``tcp``."""
        return super().get_command(ctx, TCP if ":" in cmd_name else cmd_name)


@click.group(cls=LinkGroup)
def link() -> None:
    """Lead TCP connections through faults, or join the mesh to a Zeek."""


link.add_command(zeek)


@link.command(TCP, cls=Command, help=LINK_HELP)
@click.argument("listen", type=AddressType(None), metavar="LISTEN")
@click.argument("target", type=AddressType(None), metavar="TARGET")
@click.option("--delay", type=float, metavar="SECONDS", help="What is sent arrives later.")
@click.option("--jitter", type=float, metavar="SECONDS", help="Give or take so much of the delay.")
@click.option("--rate", type=int, metavar="BYTES", help="So many bytes a second get through.")
@click.option(
    "--loss", type=float, metavar="PROBABILITY",
    help="Packets are lost, from 0 to 1; TCP sends them again, later.",
)  # fmt: skip
@click.option(
    "--slow-close", type=float, metavar="SECONDS",
    help="The end of a connection is seen later.",
)  # fmt: skip
@click.option(
    "--reset-after", type=float, metavar="SECONDS",
    help="Each connection breaks, with a reset, when it has stood for so long.",
)  # fmt: skip
@click.option(
    "--partition", type=click.Choice([way.value for way in Direction]),
    help="Nothing gets through: forth (to TARGET), back, or both ways.",
)  # fmt: skip
@click.option(
    "--direction", type=click.Choice([way.value for way in Direction]), default="both",
    show_default=True, help="Where delay, rate, loss and slow close stand.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of jitter and losses.")
@click.option(
    "--allow-plain", is_flag=True,
    help="Let other machines dial LISTEN, on networks of which you trust everything.",
)  # fmt: skip
def tcp(
    listen: Address,
    target: Address,
    output: Output,
    *,
    seed: int,
    allow_plain: bool,
    **faults: Any,  # noqa: ANN401 - the options above, one fault each
) -> None:
    """Gather what was asked for, and run."""
    applied = list(_faults(**faults))
    try:
        for fault, _ in applied:
            check(fault)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    operator = _Operator(output, allow_plain=allow_plain)
    run(operator.serve, listen, target, seed, applied)


def _faults(  # noqa: PLR0913 - one for each option
    *,
    delay: float | None,
    jitter: float | None,
    rate: int | None,
    loss: float | None,
    slow_close: float | None,
    reset_after: float | None,
    partition: str | None,
    direction: str,
) -> Iterator[Applied]:
    way = Direction(direction)
    if jitter is not None and delay is None:
        raise click.UsageError("jitter is that of a delay: give --delay too")
    if delay is not None:
        yield Delay(delay, jitter or 0.0), way
    if rate is not None:
        yield RateLimit(rate), way
    if loss is not None:
        yield Loss(loss), way
    if slow_close is not None:
        yield SlowClose(slow_close), way
    if partition is not None:
        yield Partition(), Direction(partition)
    if reset_after is not None:
        yield Reset(reset_after), Direction.BOTH


class _Operator:
    """Runs a link, does what is typed, and writes what happens."""

    def __init__(self, output: Output, *, allow_plain: bool) -> None:
        """Write what happens to ``output``."""
        self._output = output
        self._allow_plain = allow_plain

    def _say(self, event: str, text: str | Iterable[str], **details: object) -> None:
        self._output.tell(text, event=event, **details)

    async def serve(
        self, listen: Address, target: Address, seed: int, faults: Iterable[Applied]
    ) -> None:
        """Lead connections until cancelled."""
        async with AsyncExitStack() as stack:
            try:
                opening = open_link(
                    *target,
                    host=listen[0],
                    port=listen[1],
                    seed=seed,
                    notice=self._tell,
                    allow_plain=self._allow_plain,
                )
                link = await stack.enter_async_context(opening)
            except OSError as error:
                text = f"cannot listen on {join_address(*listen)}: {error.strerror or error}"
                raise CommandFailed(text) from error
            for fault, direction in faults:
                await link.apply(fault, direction=direction)
            here = join_address(link.host, link.port)
            text = f"listening on {here}, leading to {join_address(*target)}"
            self._say("listening", text, host=link.host, port=link.port, target=list(target))
            async for line in read_stdin():
                await self._obey(link, line.decode("utf-8", "replace"))
            await trio.sleep_forever()  # Stdin has ended; the link stays.

    async def _obey(self, link: Link, line: str) -> None:
        if not line.strip():
            return
        try:
            order = parse_order(line)
        except ValueError as error:
            note(str(error))
            return
        match order:
            case Apply(fault, direction):
                await link.apply(fault, direction=direction)
            case Heal(direction):
                await link.heal(direction=direction)
            case Status():
                self._tell_status(link)
            case Help():
                for each in WORDS_HELP.split("\n"):
                    say(each, err=True)

    def _tell_status(self, link: Link) -> None:
        standing = {way.value: [str(fault) for fault in link.faults(way)] for way in Direction}
        counts = asdict(link.statistics())
        faults = "; ".join(
            f"{way}: {', '.join(each) or 'healthy'}" for way, each in standing.items()
        )
        numbers = ", ".join(f"{name} {number}" for name, number in counts.items())
        self._say("status", [faults, numbers], faults=standing, **counts)

    def _tell(self, event: LinkEvent) -> None:
        match event:
            case FaultApplied(fault, direction):
                self._say(
                    "applied",
                    f"{direction.value}: {fault}",
                    fault=str(fault),
                    direction=direction.value,
                )
            case LinkHealed(direction):
                self._say("healed", f"{direction.value}: healed", direction=direction.value)
            case ConnectionRefused(number, reason):
                text = f"connection {number}: the target does not take it: {reason}"
                self._say("refused", text, connection=number, reason=reason)
            case _:
                what = type(event).__name__.removeprefix("Connection").lower()
                self._say(what, f"connection {event.number}: {what}", connection=event.number)
