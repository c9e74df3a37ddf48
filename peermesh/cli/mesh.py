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
from handshake.ticket import JoinTicket
from peermesh import Endpoint, Store
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.numbers import Seconds
from peermesh.cli.rights import RIGHTS_OPTIONS, take_rights
from peermesh.cli.trust import (
    TRUST_NAMES,
    TRUST_OPTIONS,
    Address,
    AddressType,
    PeerType,
    Trust,
)
from wire.addresses import join_address

if TYPE_CHECKING:
    from endpoint.store_handle import StoreHandle
    from endpoint.store_proxy import StoreProxy
    from peermesh import blocking

WAIT_SECONDS: Final = 10.0
"""How long commands wait for peers and masters where no other time is given."""

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Mesh:
    """Where the mesh is, and how to get in."""

    peers: tuple[Address, ...]
    listen: tuple[Address, ...]
    trust: Trust
    wait: float
    rights: Mapping[str, Any] = field(default_factory=dict)
    """Of the options ``--roles`` and ``--sign``, those that were given."""

    def endpoint(self) -> Endpoint:
        """Make the endpoint; raises ``CredentialsError`` and ``SettingsError``."""
        trust = self.trust
        credentials, given = trust.credentials(), {**trust.given, **self.rights}
        return Endpoint(credentials=credentials, settings_file=trust.config, **given)

    def blocking_endpoint(self) -> blocking.Endpoint:
        """Make the endpoint for threads; raises as ``endpoint`` does."""
        from peermesh import blocking  # which commands without threads need not wait for

        trust = self.trust
        credentials, given = trust.credentials(), {**trust.given, **self.rights}
        return blocking.Endpoint(credentials=credentials, settings_file=trust.config, **given)

    def require_way_in(self) -> None:
        """Refuse to talk to nobody."""
        if not self.peers and not self.listen:
            raise click.UsageError("say where the mesh is: --peer HOST:PORT, or --listen")

    def require_peer(self) -> None:
        """Refuse to ask nobody: raises ``UsageError``."""
        if not self.peers:
            raise click.UsageError("say where the mesh is: --peer HOST:PORT")


def mesh_options(*, listens: bool) -> Callable[[Command], Command]:
    """Give a command the options about the mesh, as its argument ``mesh``."""
    options = [
        click.option(
            "--peer", "-p", "peers", multiple=True, type=PeerType(),
            help="Peer with the endpoint that listens there, or with that of a join ticket. May be"
            " repeated.",
        ),
        *RIGHTS_OPTIONS,
        *TRUST_OPTIONS,
        click.option(
            "--config", type=click.Path(path_type=Path), metavar="FILE",
            help="Settings of the endpoint, in TOML.",
        ),
        click.option(
            "--wait", default=WAIT_SECONDS, show_default=True, type=Seconds(),
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
            peers: tuple[Address | JoinTicket, ...],
            config: Path | None,
            wait: float,
            listen: tuple[Address, ...] = (),
            **rest: Any,  # noqa: ANN401 - the command's own, and those of rights
        ) -> object:
            tickets = [peer for peer in peers if isinstance(peer, JoinTicket)]
            addresses = tuple(
                (peer.host, peer.port) if isinstance(peer, JoinTicket) else peer for peer in peers
            )
            rights = take_rights(rest)
            trust = Trust.of({name: rest.pop(name) for name in TRUST_NAMES}, config, tickets)
            return command(mesh=Mesh(addresses, listen, trust, wait, rights), **rest)

        result: Any = wrapped
        for option in reversed(options):
            result = option(result)
        return result  # type: ignore[no-any-return]  # the options keep the command's own type

    return decorate


async def join(endpoint: Endpoint, mesh: Mesh) -> None:
    """Listen, and peer with everybody; raises ``CommandFailed`` for who does not answer in time."""
    for host, port in mesh.listen:
        bound = await endpoint.listen(host, port)
        click.echo(f"listening on {join_address(host, bound)}", err=True)
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
                f"no peering with {join_address(host, port)} within {mesh.wait:g} s:"
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
