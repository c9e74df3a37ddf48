"""``peermesh broker edge``: an edge broker, and messages to and from one."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import trio

from handshake.ticket import JoinTicket
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
from peermesh.cli.addresses import Address, AddressType
from peermesh.cli.arguments import WRITING_TEXT_OPTION, read_lines, read_value
from peermesh.cli.arriving import NEWS_LOOK_SECONDS, is_hopeless, join, stay_joined, telling
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.messages import Reading, reading, reading_options, write_messages
from peermesh.cli.numbers import Seconds, counted
from peermesh.cli.output import Output, say
from peermesh.cli.rights import port_roles_option
from peermesh.cli.running import run
from peermesh.cli.trust import STDIN
from peermesh.cli.values import on_a_line
from peermesh.cli.voters import broker_voters
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
        typed = click.get_current_context().params["peers"]
        if any(not isinstance(peer, JoinTicket) for peer in typed):
            raise click.UsageError("the registry leads to the broker: give --registry, not --peer")
        return command(place=Place(addresses, zookeeper, mesh), **rest)

    option = click.option(
        "--registry", "-r", "addresses", multiple=True, type=AddressType(REGISTRY_PORT),
        help="The registry port of a broker. May be repeated: they are tried in turn.",
    )  # fmt: skip
    result: Any = option(zookeeper_option(mesh_options(listens=False, is_optional=True)(wrapped)))
    return result  # type: ignore[no-any-return]  # the options keep the command's own type


_BROKER_OPTIONS: Final = [
    click.option(
        "--registry",
        "registry",
        type=AddressType(REGISTRY_PORT),
        default=f"127.0.0.1:{REGISTRY_PORT}",
        show_default=True,
        help="Serve the embedded registry there.",
    ),
    click.option(
        "--host",
        help="Serve the channels at this address, which clients find in the registry. Default: the"
        " host of --registry.",
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
    def wrapped(  # noqa: PLR0913 - options of the command line
        registry: Address,
        host: str | None,
        ports: range | None,
        default_ports: tuple[int, int],
        idle: float,
        to_mesh: tuple[str, ...],
        from_mesh: tuple[str, ...],
        **rest: object,
    ) -> object:
        options = Options(
            address=registry[0] if host is None else host,
            ports=ports,
            default_ports=default_ports,
            registry_host=registry[0],
            registry_port=registry[1],
            idle_seconds=idle,
            bridged=Bridged(to_mesh, from_mesh),
        )
        return command(options=options, **rest)

    result: Any = wrapped
    for choice in reversed(_BROKER_OPTIONS):
        result = choice(result)
    return result  # type: ignore[no-any-return]  # the options keep the command's own type


@command()
@broker_options
@zookeeper_option
@click.option(
    "--voters", metavar="NAME,NAME,...",
    help="Keep the embedded registry together with the brokers at these nodes, which elect who"
    " leads it. The same line at each of them, with --name.",
)  # fmt: skip
@port_roles_option
@click.option(
    "--every", type=Seconds(0.1), metavar="SECONDS",
    help="Write what each channel has carried, so often.",
)  # fmt: skip
@mesh_options(listens=True, is_optional=True)
def edge(  # noqa: PLR0913 - an option each
    options: Options,
    zookeeper: str | None,
    voters: str | None,
    port_roles: Path | None,
    every: float | None,
    mesh: Mesh,
    output: Output,
) -> None:
    """Run an edge broker: each topic gets a channel with two ports of its own.

    Clients find it in the registry, and need not be in the mesh. A second broker stands by: give it
    the first one's --listen address as --peer, or the same --zookeeper.

    \b
      peermesh broker edge --listen 127.0.0.1:9990
      peermesh broker edge-sub --registry 127.0.0.1:4050 weather
      peermesh broker edge-pub --registry 127.0.0.1:4050 weather rain
    """
    if voters is not None and zookeeper is not None:
        raise click.UsageError("--voters keep the embedded registry, and --zookeeper is another")
    names = broker_voters(voters)
    run(_serve, mesh, options, zookeeper or names, port_roles, _Teller(every, output))


class _Teller:
    """Writes what happens to a broker."""

    def __init__(self, every: float | None, output: Output) -> None:
        """Write to ``output``; statistics every so many seconds."""
        self._every = every
        self._tell = self.tell_event = output.tell

    async def tell(self, host: Host) -> None:
        """Write until cancelled."""
        address = host.registry_address
        where = join_address(*address) if address is not None else None
        if where is not None:
            self._tell(f"registry at {where}", event="registry", address=where)
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
            self._tell(text, event="standby")
            await host.broker.active()
        self._tell("serving", event="active")

    def _tell_statistics(self, host: Host) -> None:
        for channel in host.broker.statistics().channels:
            self._tell(
                f"  {on_a_line(channel.topic)}: {channel.state},"
                f" {counted(channel.publishers, 'publisher')},"
                f" {counted(channel.subscribers, 'subscriber')},"
                f" {counted(channel.accepted, 'message')}, {channel.dropped} dropped",
                event="channel",
                **asdict(channel),
            )


async def _serve(
    mesh: Mesh,
    options: Options,
    keepers: str | tuple[str, ...],
    roles: Path | None,
    teller: _Teller,
) -> None:
    """Run a broker whose registry is at a ZooKeeper, at voters, or at the first broker."""
    async with AsyncExitStack() as stack:
        voters = () if isinstance(keepers, str) else keepers
        registry = await _open_zookeeper(stack, keepers) if isinstance(keepers, str) else None
        endpoint = await stack.enter_async_context(mesh.endpoint())
        if voters:
            nursery = await stack.enter_async_context(trio.open_nursery())
            await stay_joined(endpoint, mesh, nursery, teller.tell_event)
        else:
            await join(endpoint, mesh)
        options = replace(options, allow_plain=endpoint.settings.allow_plain)
        host = await stack.enter_async_context(
            open_edge_broker(
                endpoint, options=options, registry=registry, roles=roles, voters=voters
            )
        )
        await teller.tell(host)


async def _open_zookeeper(stack: AsyncExitStack, hosts: str) -> Registry:
    try:
        from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry
    except ImportError as error:
        raise CommandFailed(str(error), ExitCode.MISSING) from error
    return await stack.enter_async_context(ZooKeeperRegistry(hosts))


async def _reach(registry: Registry, limit: float | None, *, is_patient: bool) -> None:
    """Wait for a registry port, for ``limit`` seconds; raises ``CommandFailed``.

    It raises at once if all refuse, as ``join`` does, unless it ``is_patient``.
    """
    if not isinstance(registry, RemoteRegistry):
        return
    with trio.move_on_after(math.inf if limit is None else limit):
        async with telling(lambda: [f"registry {each}" for each in registry.failures.values()]):
            while not registry.is_connected():
                if not is_patient and _is_hopeless(registry):
                    why = "; ".join(registry.failures.values())
                    raise CommandFailed(
                        f"no registry: {why}",
                        ExitCode.TIMEOUT,
                        hint="--wait SECONDS waits for it",
                        kind="peer_unavailable",
                    )
                await trio.sleep(NEWS_LOOK_SECONDS)
        return
    why = "; ".join(registry.failures.values()) or "no answer yet"
    raise CommandFailed(f"no registry within {limit:g} s: {why}", ExitCode.TIMEOUT)


def _is_hopeless(registry: RemoteRegistry) -> bool:
    reasons = registry.failures.values()
    return registry.has_failed_everywhere() and all(is_hopeless(None, each) for each in reasons)


def _why_not(client: Publisher | Subscriber, registry: Registry) -> str:
    if registry.last_error is not None:
        return f"the registry: {registry.last_error}"
    return f"the broker: {client.last_error or 'none is in the registry'}"


@command("edge-pub")
@click.argument("topic")
@click.argument("value")
@WRITING_TEXT_OPTION
@registry_options
def edge_pub(topic: str, value: str, place: Place, output: Output, *, as_text: bool) -> None:
    """Send VALUE on TOPIC; with "-" for VALUE, each line of stdin.

    VALUE is JSON if it can be read as JSON, and text if not. It ends when the broker has accepted
    what was sent, and waits for a broker for --wait seconds.
    """
    values = read_lines(as_text=as_text) if value == STDIN else _one(value, as_text=as_text)
    output.tell(None, published=run(_publish, place, topic, values))


async def _one(text: str, *, as_text: bool) -> AsyncIterator[Value]:
    yield read_value(text, as_text=as_text)


async def _publish(place: Place, topic: str, values: AsyncIterator[Value]) -> int:
    mesh, count = place.mesh, 0
    async with (
        place.open() as registry,
        Publisher(registry, **place.trust()) as publisher,
    ):
        await _reach(registry, mesh.wait, is_patient=mesh.waits is not None)
        async for each in values:
            await publisher.send(topic, each)
            count += 1
        async with telling(lambda: [_why_not(publisher, registry)]):
            is_taken = await publisher.flush(mesh.wait)
        if not is_taken:
            text = f"no broker took it within {mesh.wait:g} s: {_why_not(publisher, registry)}"
            raise CommandFailed(text, ExitCode.TIMEOUT)
    return count


@command("edge-sub")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@reading_options
@registry_options
def edge_sub(
    topics: tuple[str, ...],
    place: Place,
    output: Output,
    **given: Any,  # noqa: ANN401 - values of options
) -> None:
    """Write every message on these TOPICs, which need not exist yet, until Ctrl-C.

    It waits for a broker for as long as it takes, unless --wait says how long.
    """
    run(_subscribe, place, topics, reading(place.mesh, output, **given))


async def _subscribe(place: Place, topics: tuple[str, ...], how: Reading) -> None:
    mesh = place.mesh
    async with (
        place.open() as registry,
        Subscriber(registry, **place.trust()) as subscriber,
    ):
        await _reach(registry, mesh.waits, is_patient=True)
        for topic in topics:
            async with telling(lambda: [_why_not(subscriber, registry)]):
                is_there = await subscriber.subscribe(topic, timeout=mesh.waits)
            if not is_there:
                text = f"no broker within {mesh.wait:g} s: {_why_not(subscriber, registry)}"
                raise CommandFailed(text, ExitCode.TIMEOUT)
        say(f"subscribed to {', '.join(map(on_a_line, topics))}", err=True)
        await write_messages(subscriber, how)
