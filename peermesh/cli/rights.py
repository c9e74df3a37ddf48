"""The options that say who may do what in the mesh, and whether messages are signed."""

from __future__ import annotations

from typing import Any, Final

import click

RIGHTS_OPTIONS: Final = (
    click.option(
        "--roles", metavar="FILE",
        help="Who may do what, by the names in certificates, in TOML. Otherwise PEERMESH_ROLES.",
    ),
    click.option(
        "--sign", is_flag=True, default=None,
        help="Sign everything that is sent: no relay can forge it. Otherwise PEERMESH_SIGN.",
    ),
)  # fmt: skip


def take_rights(options: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of all, and give those that were used as arguments of ``Endpoint``."""
    found = {name: options.pop(name) for name in ("roles", "sign")}
    return {name: value for name, value in found.items() if value is not None}
