"""``peermesh broker edge``: an edge broker, and messages to and from one."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import click
import trio

from peermesh import Value
from peermesh.brokers.edge import (
    Bridged,
    Host,
    Options,
    Publisher,
    Registry,
    RemoteRegistry,
    Subscriber,
    open_edge_broker,
)
from peermesh.brokers.edge.lifecycle import IDLE_SECONDS
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, join, mesh_options
from peermesh.cli.messages import read_argument, read_values, reading_options, write_next
from peermesh.cli.numbers import Seconds
from peermesh.cli.running import run
from peermesh.cli.trust import Address, AddressType
from wire.addresses import PORT_MAX, join_address, read_port

REGISTRY_PORT: Final = 4050
"""Where the embedded registry listens, unless something else is said."""

Command = TypeVar("Command", bound=Callable[..., object])


class PortRange(click.ParamType[range]):
    """``FIRST-LAST``."""

    name = "FIRST-LAST"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        """Read a range of ports."""
        if isinstance(value, range):
            return value
        begin, _, end = str(value).partition("-")
        first, last = read_port(begin), read_port(end)
        if first and last and first < last:
            return range(first, last + 1)
        self.fail(f"{value!r} is no range of ports: write FIRST-LAST, as in 7000-7399", param, ctx)
        return None


zookeeper_option = click.option(
    "--zookeeper", metavar="HOSTS", help="Use ZooKeeper there as registry: HOST:PORT[,HOST:PORT]."
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client's registry is."""

    addresses: tuple[Address, ...]
    zookeeper: str | None
    mesh: Mesh

    def trust(self) -> dict[str, Any]:
        """Give the arguments with which clients and registries get in."""
        trust = self.mesh.trust
        allow_plain = trust.settings().allow_plain
        return {"credentials": trust.credentials(), "allow_plain": allow_plain}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Registry]:
        """Open the registry."""
        async with AsyncExitStack() as stack:
            if self.zookeeper is not None:
                yield await _open_zookeeper(stack, self.zookeeper)
                return
            chosen = self.addresses or (("127.0.0.1", REGISTRY_PORT),)
            remote = RemoteRegistry(chosen, **self.trust())
            yield await stack.enter_async_context(remote)


def registry_options(command: Command) -> Command:
    """Give a client's command the options that say where the registry is, as ``place``."""

    @functools.wraps(command)
    def wrapped(
        addresses: tuple[Address, ...], zookeeper: str | None, mesh: Mesh, **rest: object
    ) -> object:
        return command(place=Place(addresses, zookeeper, mesh), **rest)

    option = click.option(
        "--registry", "-r", "addresses", multiple=True, type=AddressType(),
        help="The registry port of a broker. May be repeated: they are tried in turn.",
    )  # fmt: skip
    result: Any = option(zookeeper_option(mesh_options(listens=False)(wrapped)))
    return result  # type: ignore[no-any-return]  # the options keep the command's own type


_BROKER_OPTIONS: Final = [
    click.option(
        "--registry",
        "registry",
        type=AddressType(),
        default=f"127.0.0.1:{REGISTRY_PORT}",
        show_default=True,
        help="Serve the embedded registry there, and the channels at this host.",
    ),
    click.option(
        "--ports", type=PortRange(), help="The ports of channels. Default: any that is free."
    ),
    click.option(
        "--default-ports",
        nargs=2,
        type=click.IntRange(0, PORT_MAX),
        default=(0, 0),
        metavar="RECEIVER SENDER",
        help="The ports of the default channel.",
    ),
    click.option(
        "--idle",
        default=IDLE_SECONDS,
        show_default=True,
        type=Seconds(),
        metavar="SECONDS",
        help="Close a channel that nobody has used for so long.",
    ),
    click.option(
        "--to-mesh",
        multiple=True,
        metavar="PREFIX",
        help="Publish these topics in the mesh, too.",
    ),
    click.option(
        "--from-mesh",
        multiple=True,
        metavar="PREFIX",
        help="Take these topics from the mesh, too.",
    ),
]


def broker_options(command: Command) -> Command:
    """Give a command the options of a broker, as ``options``."""

    @functools.wraps(command)
    def wrapped(
        registry: Address,
        ports: range | None,
        default_ports: tuple[int, int],
        idle: float,
        to_mesh: tuple[str, ...],
        from_mesh: tuple[str, ...],
        **rest: object,
    ) -> object:
        host, port = registry
        bridged = Bridged(to_mesh, from_mesh)
        options = Options(host, ports, default_ports, port, idle, bridged)
        return command(options=options, **rest)

    result: Any = wrapped
    for choice in reversed(_BROKER_OPTIONS):
        result = choice(result)
    return result  # type: ignore[no-any-return]  # the options keep the command's own type


@click.command()
@broker_options
@zookeeper_option
@click.option("--json", "as_json", is_flag=True, help="Write what happens as JSON lines.")
@click.option(
    "--every", type=Seconds(0.1), metavar="SECONDS",
    help="Write what each channel has carried, so often.",
)  # fmt: skip
@mesh_options(listens=True)
def edge(
    options: Options, zookeeper: str | None, every: float | None, mesh: Mesh, *, as_json: bool
) -> None:
    """Run an edge broker: each topic gets a channel with two ports of its own.

    Clients find it in the registry, and need not be in the mesh. A second broker stands by: give it
    the first one's --listen address as --peer, or the same --zookeeper.

    \b
      peermesh broker edge --listen 127.0.0.1:9990
      peermesh broker edge-sub --registry 127.0.0.1:4050 weather
      peermesh broker edge-pub --registry 127.0.0.1:4050 weather '"rain"'
    """
    run(_serve, mesh, options, zookeeper, _Teller(every, as_json=as_json))


class _Teller:
    """Writes what happens to a broker."""

    def __init__(self, every: float | None, *, as_json: bool) -> None:
        """Write as JSON, or as text; statistics every so many seconds."""
        self._every = every
        self._as_json = as_json

    async def tell(self, host: Host) -> None:
        """Write until cancelled."""
        address = host.registry_address
        where = join_address(*address) if address is not None else None
        if where is not None:
            self._say({"event": "registry", "address": where}, f"registry at {where}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_active, host)
            if self._every is None:
                await trio.sleep_forever()
            while True:
                await trio.sleep(self._every)
                self._tell_statistics(host)

    async def _tell_active(self, host: Host) -> None:
        if not host.broker.is_active:
            with trio.move_on_after(1):
                await host.broker.active()
        if not host.broker.is_active:
            text = "standing by: another broker serves, or the registry does not answer"
            self._say({"event": "standby"}, text)
            await host.broker.active()
        self._say({"event": "active"}, "serving")

    def _tell_statistics(self, host: Host) -> None:
        for channel in host.broker.statistics().channels:
            self._say(
                {"event": "channel", **asdict(channel)},
                f"  {channel.topic}: {channel.state}, {channel.publishers} publishers,"
                f" {channel.subscribers} subscribers, {channel.accepted} messages,"
                f" {channel.dropped} dropped",
            )

    def _say(self, event: dict[str, object], text: str) -> None:
        click.echo(json.dumps(event) if self._as_json else text)


async def _serve(mesh: Mesh, options: Options, zookeeper: str | None, teller: _Teller) -> None:
    async with AsyncExitStack() as stack:
        registry = None if zookeeper is None else await _open_zookeeper(stack, zookeeper)
        endpoint = await stack.enter_async_context(mesh.endpoint())
        await join(endpoint, mesh)
        options = replace(options, allow_plain=endpoint.settings.allow_plain)
        host = await stack.enter_async_context(
            open_edge_broker(endpoint, options=options, registry=registry)
        )
        await teller.tell(host)


async def _open_zookeeper(stack: AsyncExitStack, hosts: str) -> Registry:
    try:
        from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry
    except ImportError as error:
        raise CommandFailed(str(error), ExitCode.MISSING) from error
    return await stack.enter_async_context(ZooKeeperRegistry(hosts))


@click.command("edge-pub")
@click.argument("topic")
@click.argument("value")
@click.option("--raw", is_flag=True, help="VALUE, or each line, is plain text rather than JSON.")
@registry_options
def edge_pub(topic: str, value: str, place: Place, *, raw: bool) -> None:
    """Send VALUE, which is JSON, on TOPIC; with "-" for VALUE, each line of stdin.

    It ends when the broker has accepted what was sent, and waits for a broker for --wait seconds.
    """
    first = None if value == "-" else read_argument(value, raw=raw)
    run(_publish, place, topic, value == "-", first, partial(read_values, raw=raw))


async def _publish(
    place: Place,
    topic: str,
    reads: bool,  # noqa: FBT001 - trio.run takes no keywords
    value: Value,
    values: Callable[[], AsyncIterator[Value]],
) -> None:
    mesh = place.mesh
    async with (
        place.open() as registry,
        Publisher(registry, **place.trust()) as publisher,
    ):
        if not reads:
            await publisher.send(topic, value)
        else:
            async for each in values():
                await publisher.send(topic, each)
        if not await publisher.flush(mesh.wait):
            why = publisher.last_error or "no broker is in the registry"
            raise CommandFailed(f"nobody took it in {mesh.wait:g} s: {why}", ExitCode.TIMEOUT)


@click.command("edge-sub")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@reading_options
@registry_options
def edge_sub(
    topics: tuple[str, ...],
    count: int | None,
    timeout: float | None,
    place: Place,
    *,
    as_json: bool,
) -> None:
    """Write every message on these TOPICs, which need not exist yet, until Ctrl-C."""
    run(_subscribe, place, topics, count, partial(write_next, as_json=as_json), timeout)


async def _subscribe(
    place: Place,
    topics: tuple[str, ...],
    count: int | None,
    write: Callable[[Subscriber, float | None], Awaitable[int]],
    timeout: float | None,
) -> None:
    mesh = place.mesh
    async with (
        place.open() as registry,
        Subscriber(registry, **place.trust()) as subscriber,
    ):
        for topic in topics:
            if not await subscriber.subscribe(topic, timeout=mesh.wait):
                why = subscriber.last_error or "no broker is in the registry"
                raise CommandFailed(f"no broker within {mesh.wait:g} s: {why}", ExitCode.TIMEOUT)
        click.echo(f"subscribed to {', '.join(topics)}", err=True)
        received = 0
        while count is None or received < count:
            received += await write(subscriber, timeout)
