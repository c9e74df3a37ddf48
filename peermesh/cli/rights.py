"""The options that say who may do what in the mesh, and whether messages are signed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import click

from peermesh.cli.arguments import INPUT_FILE
from peermesh.cli.command import ConnectionOption

CommandT = TypeVar("CommandT", bound=Callable[..., object])

RIGHTS_OPTIONS: Final = (
    click.option(
        "--roles", cls=ConnectionOption, metavar="FILE",
        help="Who may do what, by the names in certificates, in TOML. Otherwise PEERMESH_ROLES.",
    ),
    click.option(
        "--sign", cls=ConnectionOption, is_flag=True, default=None,
        help="Sign everything that is sent: no relay can forge it. Otherwise PEERMESH_SIGN.",
    ),
)  # fmt: skip

port_roles_option = click.option(
    "--port-roles", type=INPUT_FILE, metavar="FILE",
    help="Roles for this port alone, which needs no certificates for them as --roles does.",
)  # fmt: skip


def gateway_options(function: CommandT) -> CommandT:
    """Give a gateway the options that say who its clients may be, and what they may do there."""
    token_file = click.option(
        "--token-file", type=INPUT_FILE, metavar="FILE",
        help="The token that clients have to give. Needed beyond the loopback interface without"
        " TLS.",
    )  # fmt: skip
    accounts = click.option(
        "--accounts", type=INPUT_FILE, metavar="FILE",
        help="Tokens and users that clients may be, of peermesh access. What they may do, the roles"
        " of --port-roles say, else those of --roles.",
    )  # fmt: skip
    return token_file(accounts(port_roles_option(function)))
