"""The options that say where the mesh is and how to get in, and the endpoint made of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from handshake.ticket import JoinTicket
from peermesh import Endpoint
from peermesh.cli.addresses import Address, AddressType, PeerType
from peermesh.cli.command import ConnectionOption
from peermesh.cli.numbers import Seconds
from peermesh.cli.place import find_place
from peermesh.cli.rights import RIGHTS_OPTIONS
from peermesh.cli.trust import TRUST_NAMES, TRUST_OPTIONS, Trust

if TYPE_CHECKING:
    from peermesh import blocking

WAIT_SECONDS: Final = 10.0
"""How long commands wait for answers where no other time is given."""

Command = TypeVar("Command", bound=Callable[..., object])

_PEER: Final = click.option(
    "--peer", "-p", "peers", cls=ConnectionOption, multiple=True, type=PeerType(),
    help="Peer with the endpoint that listens there, or with that of a join ticket (- reads it from"
    " stdin). HOST, :PORT and PORT are enough: the port is 9999, the host 127.0.0.1, if not given."
    " May be repeated. Otherwise PEERMESH_PEER, or a context.",
)  # fmt: skip
_CONTEXT: Final = click.option(
    "--context", cls=ConnectionOption, metavar="NAME",
    help="The mesh that was named so (peermesh context add). Otherwise PEERMESH_CONTEXT, or the"
    " current one (peermesh context use).",
)  # fmt: skip
_SETTINGS: Final = click.option(
    "--settings", "settings", cls=ConnectionOption, old=["--config"], metavar="FILE",
    type=click.Path(path_type=Path), help="Settings of the endpoint, in TOML.",
)  # fmt: skip
_WAIT: Final = click.option(
    "--wait", cls=ConnectionOption, type=Seconds(), metavar="SECONDS",
    help="Wait so long for what is not there yet: peers, stores, logs, messages. Without it a"
    " command ends at once when all addresses refuse, or when the mesh has no such store; whoever"
    " is there has 10 seconds to answer.",
)  # fmt: skip
_LISTEN: Final = click.option(
    "--listen", "-l", multiple=True, type=AddressType(),
    help="Accept peers there; port 0 lets the system choose. May be repeated.",
)  # fmt: skip
_NAME: Final = click.option(
    "--name", "own_name", metavar="NAME",
    help="What the endpoint calls itself, for people to read. Otherwise PEERMESH_NAME, or the name"
    " of the program.",
)  # fmt: skip

CONNECTION_OPTIONS: Final = (
    _PEER, _CONTEXT, *TRUST_OPTIONS, *RIGHTS_OPTIONS, _SETTINGS, _WAIT,
)  # fmt: skip
KEPT_OPTIONS: Final = (_PEER, *TRUST_OPTIONS, *RIGHTS_OPTIONS, _SETTINGS)
"""Those that a context keeps."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Where the mesh is, and how to get in."""

    peers: tuple[Address, ...]
    listen: tuple[Address, ...]
    trust: Trust
    waits: float | None = None
    """What ``--wait`` says, in seconds; ``None`` if it was not given."""
    rights: Mapping[str, Any] = field(default_factory=dict)
    """Of the options ``--roles``, ``--sign`` and ``--name``, those that were given."""

    @property
    def wait(self) -> float:
        """Give how long to wait for an answer, in seconds."""
        return WAIT_SECONDS if self.waits is None else self.waits

    def endpoint(self) -> Endpoint:
        """Make the endpoint; raises ``CredentialsError`` and ``SettingsError``."""
        return Endpoint(**self._arguments())

    def blocking_endpoint(self) -> blocking.Endpoint:
        """Make the endpoint for threads; raises as ``endpoint`` does."""
        from peermesh import blocking  # which commands without threads need not wait for

        return blocking.Endpoint(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        ways = {"credentials": self.trust.credentials(), "settings_file": self.trust.settings_file}
        return {**ways, **self.trust.given, **self.rights}

    def require_way_in(self, *, listens: bool) -> None:
        """Refuse to talk to nothing: raises ``UsageError``."""
        if not self.peers and not self.listen:
            more = ", --listen HOST:PORT" if listens else ""
            raise click.UsageError(
                f"say where the mesh is: --peer HOST:PORT{more}, PEERMESH_PEER, or a context"
                " (peermesh context add)"
            )


def mesh_options(
    *, listens: bool, is_optional: bool = False, takes_name: bool = True
) -> Callable[[Command], Command]:
    """Give a command the options about the mesh, as its argument ``mesh``.

    One that ``listens`` keeps an endpoint, which can be given a name, unless ``--name`` means
    something else there: then ``takes_name`` is false.

    One that ``is_optional`` does something without a mesh, too. Others raise ``UsageError`` if
    nothing says where the mesh is.
    """
    options = [*[_LISTEN] * listens, *[_NAME] * (listens and takes_name), *CONNECTION_OPTIONS]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**given: Any) -> object:  # noqa: ANN401 - options, each of its own type
            mesh = take_mesh(given, is_optional=is_optional)
            if not is_optional:
                mesh.require_way_in(listens=listens)
            return command(mesh=mesh, **given)

        result: Any = wrapped
        for option in reversed(options):
            result = option(result)
        return result  # type: ignore[no-any-return]  # the options keep the command's own type

    return decorate


def take_mesh(given: dict[str, Any], *, is_optional: bool = False) -> Mesh:
    """Take the options about the mesh out of all that were given; raises ``UsageError``."""
    listen: tuple[Address, ...] = given.pop("listen", ())
    place = find_place(
        given.pop("peers"),
        given.pop("context"),
        os.environ,
        uses_current=not listen and not is_optional,
    )
    taken = {name: given.pop(name) for name in (*TRUST_NAMES, "settings", "roles", "sign")}
    typed = {name: value for name, value in taken.items() if value}
    kept = dict(place.options)
    if typed.keys() & (TRUST_NAMES.keys() - {"allow_plain"}):
        # One way in replaces another as a whole: half of each would be neither.
        kept = {name: value for name, value in kept.items() if name not in TRUST_NAMES}
    options: dict[str, Any] = {**kept, **typed}
    tickets = [peer for peer in place.peers if isinstance(peer, JoinTicket)]
    addresses = tuple(
        (peer.host, peer.port) if isinstance(peer, JoinTicket) else peer for peer in place.peers
    )
    file = options.get("settings")
    trust = Trust.of(options, None if file is None else Path(file), tickets)
    rights: dict[str, Any] = {name: options[name] for name in ("roles", "sign") if name in options}
    own_name = given.pop("own_name", None)
    if own_name is not None:
        rights["name"] = own_name
    return Mesh(addresses, listen, trust, given.pop("wait"), rights)
