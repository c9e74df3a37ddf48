"""``peermesh broker qos2`` and ``peermesh dlq``: durable topics, and their dead letters."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click
import trio

from peermesh.brokers.qos2 import (
    DeadLetters,
    Letter,
    Pace,
    Place,
    Ports,
    QoS2Broker,
    Refused,
    open_broker,
    open_shelf,
)
from peermesh.brokers.qos2.limits import CONSUMER_PORT, PUBLISHER_PORT
from peermesh.brokers.qos2.shelf import Shelf
from peermesh.cli.arriving import expect_store, join, stay_joined
from peermesh.cli.command import Option, command, group
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Seconds, Whole, counted
from peermesh.cli.output import Output, write_bytes
from peermesh.cli.quotas import NAMES, given_quota, quota_options
from peermesh.cli.rights import port_roles_option
from peermesh.cli.running import run
from peermesh.cli.trust import tls_option
from peermesh.cli.values import on_a_line
from peermesh.cli.voters import broker_voters
from wire.addresses import PORT_MAX

Found = TypeVar("Found")

FOLDER = Path("qos2-topics")
_PACE = Pace()
_PORT = click.IntRange(0, PORT_MAX)
_SECONDS = Seconds(is_open=True)
_WORDS_MAX = 60
"""Characters of a payload that a list shows."""

name_option = click.option(
    "--name", default="qos2", show_default=True, metavar="NAME",
    help="Of the store and the logs; brokers of one mesh with one NAME are one broker.",
)  # fmt: skip


# The broker.


@command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where clients connect.")
@click.option(
    "--publisher-port",
    envvar="PUBLISHER_PORT",
    default=PUBLISHER_PORT,
    show_default=True,
    type=_PORT,
    help="0 lets the system choose. Also from PUBLISHER_PORT.",
)
@click.option(
    "--consumer-port",
    envvar="CONSUMER_PORT",
    default=CONSUMER_PORT,
    show_default=True,
    type=_PORT,
    help="0 lets the system choose. Also from CONSUMER_PORT.",
)
@click.option(
    "--path",
    "folder",
    cls=Option,
    old=["--folder"],
    default=FOLDER,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep topics there; with --follow, copies of them.",
)
@click.option("--memory", is_flag=True, help="Keep nothing on disk.")
@click.option("--follow", is_flag=True, help="Serve the topics of another broker: see --peer.")
@click.option(
    "--voters", metavar="NAME,NAME,...",
    help="Keep the topics together with the brokers at these nodes: a majority has what is"
    " answered, and any of them serves. The same line at each of them.",
)  # fmt: skip
@click.option(
    "--node", "own_name", metavar="NAME",
    help="What this node is called, as in --voters. Otherwise PEERMESH_NAME.",
)  # fmt: skip
@name_option
@click.option(
    "--acknowledge-seconds",
    default=_PACE.acknowledge_seconds,
    show_default=True,
    type=_SECONDS,
    help="How long a consumer may take for PUBREC.",
)
@click.option(
    "--silence-seconds",
    default=_PACE.silence_seconds,
    show_default=True,
    type=_SECONDS,
    help="How long a publisher may take for a line.",
)
@click.option("--keep-seconds", type=_SECONDS, help="Keep messages so long. Without: all.")
@click.option("--keep-count", type=Whole(1), help="Keep so many in each topic.")
@click.option("--keep-bytes", type=Whole(1), help="Keep so much in each topic.")
@click.option("--every", type=_SECONDS, metavar="SECONDS", help="Write what is counted, so often.")
@port_roles_option
@quota_options
@tls_option
@mesh_options(listens=True, is_optional=True, takes_name=False)
def qos2(  # noqa: PLR0913 - an option each
    mesh: Mesh,
    output: Output,
    *,
    host: str,
    publisher_port: int,
    consumer_port: int,
    folder: Path,
    memory: bool,
    follow: bool,
    voters: str | None,
    name: str,
    tls: bool,
    acknowledge_seconds: float,
    silence_seconds: float,
    every: float | None,
    port_roles: Path | None,
    **limits: float | None,
) -> None:
    """Keep topics, and deliver each message exactly once.

    Publishers and consumers speak a protocol of lines, by hand if need be:

    \b
      $ telnet 127.0.0.1 4060        $ telnet 127.0.0.1 4061
      BEGIN orders                   LOGIN billing
      tea                            SUBSCRIBE orders
      END

    With --listen, brokers with --follow serve the same topics on other machines, and
    "peermesh dlq" reaches the dead letters.
    """
    allow_plain = mesh.trust.settings().allow_plain
    credentials = mesh.trust.credentials_at(host, tls=tls)
    ports = Ports(host, publisher_port, consumer_port, allow_plain, credentials)
    keep = {key: each for key, each in limits.items() if key not in NAMES and each is not None}
    quota = given_quota(limits)
    if voters is not None and (follow or quota):
        what = "--follow" if follow else "--max-..."
        raise click.UsageError(f"{what} does not go with --voters: see peermesh broker qos2 --help")
    names = broker_voters(voters)
    place = Place(name, None if memory else folder, follow, keep, quota, names)
    if follow and not mesh.peers:
        raise click.UsageError("say whose topics: --peer HOST:PORT")
    if "\0" in name or not name:
        raise click.UsageError("--name needs a text")
    pace = Pace(acknowledge_seconds=acknowledge_seconds, silence_seconds=silence_seconds)
    run(_serve, mesh, place, ports, pace, port_roles, _Teller(every, output))


class _Teller:
    """Says what a broker counts."""

    def __init__(self, every: float | None, output: Output) -> None:
        """Say it so often, to ``output``."""
        self._every = math.inf if every is None else every
        self._output = output
        self.tell = output.tell

    def say_ports(self, broker: QoS2Broker) -> None:
        """Say where clients connect."""
        ports = {"publishers": broker.publisher_port, "consumers": broker.consumer_port}
        text = f"publishers at port {broker.publisher_port}, consumers at {broker.consumer_port}"
        self._output.tell(text, **ports)

    async def run(self, broker: QoS2Broker) -> None:
        """Say what was counted, again and again."""
        while True:
            await trio.sleep(self._every)
            found = broker.statistics()
            text = ", ".join(f"{name} {count}" for name, count in found.items() if count)
            self._output.tell(text, **found)


async def _serve(
    mesh: Mesh, place: Place, ports: Ports, pace: Pace, roles: Path | None, teller: _Teller
) -> None:
    async with mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
        if place.voters:
            await stay_joined(endpoint, mesh, nursery, teller.tell)
        else:
            await join(endpoint, mesh)
        async with open_broker(endpoint, place, ports, pace, roles) as broker:
            teller.say_ports(broker)
            await teller.run(broker)


# Dead letters.


@group()
def dlq() -> None:
    """Look at dead letters of a QoS-2 broker; replay or purge them.

    The broker has to run with --listen HOST:PORT: say it here with --peer.
    """


@asynccontextmanager
async def open_followed(mesh: Mesh, name: str) -> AsyncIterator[Shelf]:
    """Reach the topics of a broker of the mesh; raises ``CommandFailed`` if there is none."""
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        await expect_store(endpoint, mesh, name)
        async with open_shelf(endpoint, Place(name, is_follower=True)) as shelf:
            idle = await shelf.table.await_idle(timeout=mesh.wait)
            if not idle:
                raise CommandFailed(
                    f'{idle}: is there a broker "{name}" in this mesh?', ExitCode.TIMEOUT
                )
            yield shelf


@asynccontextmanager
async def _open_letters(mesh: Mesh, name: str) -> AsyncIterator[DeadLetters]:
    async with open_followed(mesh, name) as shelf:
        yield DeadLetters(shelf)


def _members(letter: Letter) -> dict[str, object]:
    found = asdict(letter)
    payload = found.pop("payload")
    try:
        found["text"] = payload.decode()
    except UnicodeDecodeError:
        found["hex"] = payload.hex()
    return found


def _as_text(letter: Letter) -> str:
    when = datetime.fromtimestamp(letter.buried_ns / 1e9, UTC).isoformat(timespec="seconds")
    where = f"{letter.topic}/{letter.message} for {letter.consumer}"
    origin = on_a_line(where) if letter.topic else "no consumer"
    payload = letter.payload.decode("utf-8", "replace").strip()
    if len(payload) > _WORDS_MAX:
        payload = payload[: _WORDS_MAX - 1] + "…"
    tried = f"{counted(letter.attempts, 'failure')}, {on_a_line(letter.reason)}"
    return f"{letter.number}  {when}  {origin}: {tried}: {payload!r}"


@command("list")
@name_option
@mesh_options(listens=False)
def list_letters(mesh: Mesh, name: str, output: Output) -> None:
    """List the dead letters, the oldest first."""

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            for letter in await letters.list():
                output.tell(_as_text(letter), **_members(letter))

    run(work)


@command()
@click.argument("number", type=Whole(1))
@name_option
@mesh_options(listens=False)
def show(number: int, mesh: Mesh, name: str, output: Output) -> None:
    """Write the payload of dead letter NUMBER, byte for byte (not to a terminal, if it is none)."""

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            letter = await found(letters.get(number))
            if output.as_json:
                output.tell(None, **_members(letter))
            else:
                write_bytes(letter.payload)

    run(work)


@command()
@click.argument("numbers", type=Whole(1), nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that there are.")
@click.option(
    "--to-all", is_flag=True, help="For all consumers of the topic, not only where it failed."
)
@name_option
@mesh_options(listens=False)
def replay(
    numbers: tuple[int, ...],
    mesh: Mesh,
    name: str,
    output: Output,
    *,
    is_all: bool,
    to_all: bool,
) -> None:
    """Deliver dead letters NUMBERS once more, each once however often this is repeated."""
    _check_choice(numbers, is_all=is_all)

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            for number in await _chosen(letters, numbers, is_all=is_all):
                letter = await found(letters.replay(number, to_all=to_all))
                text = f"replayed {number} to {on_a_line(letter.topic)}"
                output.tell(text, event="replayed", number=number, topic=letter.topic)

    run(work)


@command()
@click.argument("numbers", type=Whole(1), nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that there are.")
@name_option
@mesh_options(listens=False)
def purge(numbers: tuple[int, ...], mesh: Mesh, name: str, output: Output, *, is_all: bool) -> None:
    """Remove dead letters NUMBERS."""
    _check_choice(numbers, is_all=is_all)

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            for number in await _chosen(letters, numbers, is_all=is_all):
                await found(letters.purge(number))
                output.tell(f"purged {number}", event="purged", number=number)

    run(work)


def _check_choice(numbers: tuple[int, ...], *, is_all: bool) -> None:
    if bool(numbers) == is_all:
        raise click.UsageError("give the numbers of dead letters, or --all")


async def _chosen(letters: DeadLetters, numbers: tuple[int, ...], *, is_all: bool) -> Iterable[int]:
    return [letter.number for letter in await letters.list()] if is_all else numbers


async def found(wanted: Awaitable[Found]) -> Found:
    """Give what a broker gives; raises ``CommandFailed`` with what it refuses."""
    try:
        return await wanted
    except Refused as error:
        raise CommandFailed(str(error), ExitCode.FAILED) from error


for each in (list_letters, show, replay, purge):
    dlq.add_command(each)
