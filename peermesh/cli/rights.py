"""The options that say who may do what in the mesh, and whether messages are signed."""

from __future__ import annotations

from typing import Final

import click

from peermesh.cli.arguments import INPUT_FILE
from peermesh.cli.command import ConnectionOption

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
