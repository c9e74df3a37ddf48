"""``peermesh broker qos2`` and ``peermesh dlq``: durable topics, and their dead letters."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

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
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, join, mesh_options
from peermesh.cli.numbers import Seconds, Whole
from peermesh.cli.running import run
from peermesh.cli.trust import tls_option
from wire.addresses import PORT_MAX

FOLDER = Path("qos2-topics")
_PACE = Pace()
_PORT = click.IntRange(0, PORT_MAX)
_SECONDS = Seconds(is_open=True)
_WORDS_MAX = 60
"""Characters of a payload that a list shows."""

_name_option = click.option(
    "--name", default="qos2", show_default=True, metavar="NAME",
    help="Of the store and the logs; brokers of one mesh with one NAME are one broker.",
)  # fmt: skip


# The broker.


@click.command()
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
    "--folder",
    default=FOLDER,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep topics there; with --follow, copies of them.",
)
@click.option("--memory", is_flag=True, help="Keep nothing on disk.")
@click.option("--follow", is_flag=True, help="Serve the topics of another broker: see --peer.")
@_name_option
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
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines.")
@tls_option
@mesh_options(listens=True)
def qos2(  # noqa: PLR0913 - an option each
    mesh: Mesh,
    *,
    host: str,
    publisher_port: int,
    consumer_port: int,
    folder: Path,
    memory: bool,
    follow: bool,
    name: str,
    tls: bool,
    acknowledge_seconds: float,
    silence_seconds: float,
    every: float | None,
    as_json: bool,
    **retention: float | None,
) -> None:
    """Keep topics, and deliver each message exactly once.

    Publishers and consumers speak a protocol of lines, by hand if need be:

    \b
      $ telnet 127.0.0.1 4040        $ telnet 127.0.0.1 4041
      BEGIN orders                   LOGIN billing
      tea                            SUBSCRIBE orders
      END

    With --listen, brokers with --follow serve the same topics on other machines, and
    "peermesh dlq" reaches the dead letters.
    """
    allow_plain = mesh.trust.settings().allow_plain
    credentials = mesh.trust.credentials_at(host, tls=tls)
    ports = Ports(host, publisher_port, consumer_port, allow_plain, credentials)
    keep = {key: value for key, value in retention.items() if value is not None}
    place = Place(name, None if memory else folder, follow, keep)
    if follow and not mesh.peers:
        raise click.UsageError("say whose topics: --peer HOST:PORT")
    if "\0" in name or not name:
        raise click.UsageError("--name needs a text")
    pace = Pace(acknowledge_seconds=acknowledge_seconds, silence_seconds=silence_seconds)
    run(_serve, mesh, place, ports, pace, _Teller(every, as_json=as_json))


class _Teller:
    """Says what a broker counts."""

    def __init__(self, every: float | None, *, as_json: bool) -> None:
        """Say it so often, in JSON or as text."""
        self._every = math.inf if every is None else every
        self._as_json = as_json

    def say_ports(self, broker: QoS2Broker) -> None:
        """Say where clients connect."""
        ports = {"publishers": broker.publisher_port, "consumers": broker.consumer_port}
        text = f"publishers at port {broker.publisher_port}, consumers at {broker.consumer_port}"
        click.echo(json.dumps(ports) if self._as_json else text)

    async def run(self, broker: QoS2Broker) -> None:
        """Say what was counted, again and again."""
        while True:
            await trio.sleep(self._every)
            found = broker.statistics()
            text = ", ".join(f"{name} {count}" for name, count in found.items() if count)
            click.echo(json.dumps(found) if self._as_json else text)


async def _serve(mesh: Mesh, place: Place, ports: Ports, pace: Pace, teller: _Teller) -> None:
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        async with open_broker(endpoint, place, ports, pace) as broker:
            teller.say_ports(broker)
            await teller.run(broker)


# Dead letters.


@click.group()
def dlq() -> None:
    """Look at dead letters of a QoS-2 broker; replay or purge them.

    The broker has to run with --listen HOST:PORT: say it here with --peer.
    """


@asynccontextmanager
async def _open_letters(mesh: Mesh, name: str) -> AsyncIterator[DeadLetters]:
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        async with open_shelf(endpoint, Place(name, is_follower=True)) as shelf:
            idle = await shelf.table.await_idle(timeout=mesh.wait)
            if not idle:
                raise CommandFailed(
                    f'{idle}: is there a broker "{name}" in this mesh?', ExitCode.TIMEOUT
                )
            yield DeadLetters(shelf)


def _as_json(letter: Letter) -> str:
    found = asdict(letter)
    payload = found.pop("payload")
    try:
        found["text"] = payload.decode()
    except UnicodeDecodeError:
        found["hex"] = payload.hex()
    return json.dumps(found)


def _as_text(letter: Letter) -> str:
    when = datetime.fromtimestamp(letter.buried_ns / 1e9, UTC).isoformat(timespec="seconds")
    origin = f"{letter.topic}/{letter.message} for {letter.consumer}" if letter.topic else "nobody"
    payload = letter.payload.decode("utf-8", "replace").strip()
    if len(payload) > _WORDS_MAX:
        payload = payload[: _WORDS_MAX - 1] + "…"
    tried = f"{letter.attempts} failures, {letter.reason}"
    return f"{letter.number}  {when}  {origin}: {tried}: {payload!r}"


@dlq.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object for each, on a line.")
@_name_option
@mesh_options(listens=False)
def list_letters(mesh: Mesh, name: str, *, as_json: bool) -> None:
    """List the dead letters, the oldest first."""

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            for letter in await letters.list():
                click.echo(_as_json(letter) if as_json else _as_text(letter))

    _run(mesh, work)


@dlq.command()
@click.argument("number", type=Whole(1))
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object, not the payload.")
@_name_option
@mesh_options(listens=False)
def show(number: int, mesh: Mesh, name: str, *, as_json: bool) -> None:
    """Write the payload of dead letter NUMBER, byte for byte."""

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            letter = await _found(letters.get(number))
            if as_json:
                click.echo(_as_json(letter))
            else:
                click.echo(letter.payload, nl=False)

    _run(mesh, work)


@dlq.command()
@click.argument("numbers", type=Whole(1), nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that there are.")
@click.option(
    "--to-all", is_flag=True, help="For all consumers of the topic, not only where it failed."
)
@_name_option
@mesh_options(listens=False)
def replay(numbers: tuple[int, ...], mesh: Mesh, name: str, *, is_all: bool, to_all: bool) -> None:
    """Deliver dead letters NUMBERS once more, each once however often this is repeated."""
    _check_choice(numbers, is_all=is_all)

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            for number in await _chosen(letters, numbers, is_all=is_all):
                letter = await _found(letters.replay(number, to_all=to_all))
                click.echo(f"replayed {number} to {letter.topic}")

    _run(mesh, work)


@dlq.command()
@click.argument("numbers", type=Whole(1), nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that there are.")
@_name_option
@mesh_options(listens=False)
def purge(numbers: tuple[int, ...], mesh: Mesh, name: str, *, is_all: bool) -> None:
    """Remove dead letters NUMBERS."""
    _check_choice(numbers, is_all=is_all)

    async def work() -> None:
        async with _open_letters(mesh, name) as letters:
            for number in await _chosen(letters, numbers, is_all=is_all):
                await _found(letters.purge(number))
                click.echo(f"purged {number}")

    _run(mesh, work)


def _run(mesh: Mesh, work: Callable[[], Awaitable[None]]) -> None:
    if not mesh.peers:
        raise click.UsageError("say where the broker is: --peer HOST:PORT")
    run(work)


def _check_choice(numbers: tuple[int, ...], *, is_all: bool) -> None:
    if bool(numbers) == is_all:
        raise click.UsageError("give the numbers of dead letters, or --all")


async def _chosen(letters: DeadLetters, numbers: tuple[int, ...], *, is_all: bool) -> Iterable[int]:
    return [letter.number for letter in await letters.list()] if is_all else numbers


async def _found(wanted: Awaitable[Letter]) -> Letter:
    try:
        return await wanted
    except Refused as error:
        raise CommandFailed(str(error), ExitCode.FAILED) from error
