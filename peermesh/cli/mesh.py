"""What commands have in common: the options that say where the mesh is, and joining it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import trio

from endpoint.status import StatusCode, StatusEvent
from endpoint.stream import StatusSubscriber
from peermesh import ClusterSecret, Credentials, Endpoint, Store, blocking
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.rights import RIGHTS_OPTIONS, take_rights

if TYPE_CHECKING:
    from endpoint.store_handle import StoreHandle
    from endpoint.store_proxy import StoreProxy

WAIT_SECONDS: Final = 10.0
"""How long commands wait for peers and masters where no other time is given."""

CERTIFICATE_NAME: Final = "peermesh command"

PORT_END: Final = 1 << 16
"""Ports are below."""

Address = tuple[str, int]
Command = TypeVar("Command", bound=Callable[..., object])


class AddressType(click.ParamType[Address]):
    """``HOST:PORT``, where an IPv6 host is in brackets."""

    name = "HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        """Read an address."""
        host, _, port = str(value).rpartition(":")
        if not (host and port.isascii() and port.isdigit() and int(port) < PORT_END):
            self.fail(f"{value!r} is no address: write HOST:PORT, as in 127.0.0.1:9999", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True, slots=True)
class Mesh:
    """Where the mesh is, and how to get in."""

    peers: tuple[Address, ...]
    listen: tuple[Address, ...]
    secret_file: Path | None
    config: Path | None
    wait: float
    rights: Mapping[str, Any] = field(default_factory=dict)
    """Of the options ``--roles`` and ``--sign``, those that were given."""

    def endpoint(self) -> Endpoint:
        """Make the endpoint; raises ``CredentialsError`` and ``SettingsError``."""
        credentials = self.credentials()
        return Endpoint(credentials=credentials, settings_file=self.config, **self.rights)

    def blocking_endpoint(self) -> blocking.Endpoint:
        """Make the endpoint for threads; raises as ``endpoint`` does."""
        credentials = self.credentials()
        return blocking.Endpoint(credentials=credentials, settings_file=self.config, **self.rights)

    def credentials(self) -> Credentials | None:
        """Give the credentials of the cluster secret, if there is one."""
        if self.secret_file is not None:
            secret: ClusterSecret | None = ClusterSecret.from_file(self.secret_file)
        else:
            secret = ClusterSecret.from_environment()
        return None if secret is None else Credentials.from_secret(secret, CERTIFICATE_NAME)

    def require_way_in(self) -> None:
        """Refuse to talk to nobody."""
        if not self.peers and not self.listen:
            raise click.UsageError("say where the mesh is: --peer HOST:PORT, or --listen")


def mesh_options(*, listens: bool) -> Callable[[Command], Command]:
    """Give a command the options about the mesh, as its argument ``mesh``."""
    options = [
        click.option(
            "--peer", "-p", "peers", multiple=True, type=AddressType(),
            help="Peer with the endpoint that listens there. May be repeated.",
        ),
        click.option(
            "--secret-file", type=click.Path(path_type=Path), metavar="FILE",
            help="The cluster secret, for TLS. Otherwise it is taken from PEERMESH_SECRET.",
        ),
        *RIGHTS_OPTIONS,
        click.option(
            "--config", type=click.Path(path_type=Path), metavar="FILE",
            help="Settings of the endpoint, in TOML.",
        ),
        click.option(
            "--wait", default=WAIT_SECONDS, show_default=True, type=click.FloatRange(min=0),
            metavar="SECONDS", help="How long to wait for peers, masters and answers.",
        ),
    ]  # fmt: skip
    if listens:
        listen = click.option(
            "--listen", "-l", multiple=True, type=AddressType(),
            help="Accept peers there; port 0 lets the system choose. May be repeated.",
        )  # fmt: skip
        options.insert(0, listen)

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(
            peers: tuple[Address, ...],
            secret_file: Path | None,
            config: Path | None,
            wait: float,
            listen: tuple[Address, ...] = (),
            **rest: Any,  # noqa: ANN401 - the command's own, and those of rights
        ) -> object:
            rights = take_rights(rest)
            return command(mesh=Mesh(peers, listen, secret_file, config, wait, rights), **rest)

        result: Any = wrapped
        for option in reversed(options):
            result = option(result)
        return result  # type: ignore[no-any-return]  # the options keep the command's own type

    return decorate


async def join(endpoint: Endpoint, mesh: Mesh) -> None:
    """Listen, and peer with everybody; raises ``CommandFailed`` for who does not answer in time."""
    for host, port in mesh.listen:
        bound = await endpoint.listen(host, port)
        click.echo(f"listening on {host}:{bound}", err=True)
    with endpoint.subscribe_status() as status:
        waiting = dict.fromkeys(mesh.peers)

        async def peer(address: Address) -> None:
            await endpoint.peer(*address)
            del waiting[address]

        with trio.move_on_after(mesh.wait):
            async with trio.open_nursery() as nursery:
                for address in waiting:
                    nursery.start_soon(peer, address)
        for host, port in waiting:
            raise CommandFailed(
                f"no peering with {host}:{port} within {mesh.wait:g} s:"
                f" {_last_reason(status, (host, port))}",
                ExitCode.TIMEOUT,
            )


def _last_reason(status: StatusSubscriber, address: Address) -> str:
    def is_about(event: StatusEvent) -> bool:
        return event.status is StatusCode.PEER_UNAVAILABLE and event.address == address

    reasons = [event.reason for event in status.poll() if is_about(event)]
    return reasons[-1] if reasons else "no answer; does an endpoint listen there?"


@asynccontextmanager
async def open_clone(mesh: Mesh, name: str) -> AsyncIterator[Store]:
    """Join the mesh with a clone of a store that is level with its master."""
    async with mesh.endpoint() as endpoint:
        store = await endpoint.attach_clone(name)
        await join(endpoint, mesh)
        await _meet_master(store, mesh)
        yield store


@asynccontextmanager
async def open_proxy(mesh: Mesh, name: str) -> AsyncIterator[StoreProxy]:
    """Join the mesh with a proxy of a store whose master answers: no copy of all is fetched."""
    async with mesh.endpoint() as endpoint:
        store = await endpoint.attach_proxy(name)
        await join(endpoint, mesh)
        await _meet_master(store, mesh)
        yield store


async def _meet_master(store: StoreHandle, mesh: Mesh) -> None:
    idle = await store.await_idle(timeout=mesh.wait)
    if not idle:
        raise CommandFailed(
            f"{idle}: does an endpoint of this mesh have its master?", ExitCode.TIMEOUT
        )
