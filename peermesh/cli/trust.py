"""The options that say how to get into the mesh, alike for every command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from handshake.exposure import is_loopback
from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from peermesh import Credentials, Settings
from peermesh.cli.command import ConnectionOption
from peermesh.cli.wording import WAYS_IN

STDIN: Final = "-"

CERTIFICATE_NAME: Final = "peermesh command"

_FILE: Final = click.Path(path_type=Path)

TRUST_OPTIONS: Final = (
    click.option(
        "--secret-file", cls=ConnectionOption, type=_FILE, metavar="FILE",
        help="The cluster secret, for TLS. Otherwise PEERMESH_SECRET_FILE names it, or"
        " PEERMESH_SECRET holds it.",
    ),
    click.option(
        "--certificate", cls=ConnectionOption, type=_FILE, metavar="FILE",
        help="The certificate of this command, from an authority of your own, instead of a secret;"
        " needs the next two. They are read again when they change.",
    ),
    click.option(
        "--certificate-key", cls=ConnectionOption, type=_FILE, metavar="FILE",
        help="Its private key. If that is locked, PEERMESH_PASSPHRASE opens it.",
    ),
    click.option(
        "--authority", cls=ConnectionOption, type=_FILE, metavar="FILE",
        help="The certificates of the authority that issues them.",
    ),
    click.option(
        "--allow-plain", cls=ConnectionOption, is_flag=True,
        help="Plain TCP beyond this machine, on networks of which you trust everything.",
    ),
)  # fmt: skip


TRUST_NAMES: Final = {
    "secret_file": "secret_file",
    "certificate": "certificate",
    "certificate_key": "key",
    "authority": "authority",
    "allow_plain": "allow_plain",
}
"""The parameters of these options, and the settings they are; other commands have keys, too."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How to get into the mesh, as the command line, the environment and the file say."""

    given: dict[str, Any] = field(repr=False)
    """Settings from the command line."""
    settings_file: Path | None

    @classmethod
    def of(
        cls, options: dict[str, Any], settings_file: Path | None, tickets: Sequence[JoinTicket]
    ) -> Trust:
        """Gather what was given; raises ``UsageError`` for tickets of several meshes."""
        given = {TRUST_NAMES[name]: options[name] for name in TRUST_NAMES if options.get(name)}
        secrets = {ticket.secret for ticket in tickets}
        if len(secrets) > 1 or (secrets and given.keys() - {"allow_plain"}):
            raise click.UsageError("give one way into the mesh: one secret, or certificate files")
        for secret in secrets:
            given["secret"] = secret
        if str(given.get("secret_file")) == STDIN:
            del given["secret_file"]  # It can be read once, and is wanted more often.
            given["secret"] = ClusterSecret.parse(sys.stdin.readline() if sys.stdin else "")
        return cls(given, settings_file)

    def settings(self) -> Settings:
        """Put them together; raises ``SettingsError``."""
        return Settings.load(self.given, os.environ, self.settings_file)

    def credentials(self) -> Credentials | None:
        """Make credentials, if there is anything to make them of; raises ``CredentialsError``."""
        return self.settings().credentials(CERTIFICATE_NAME)

    def credentials_at(self, host: str, *, tls: bool) -> Credentials | None:
        """Make those for a port that other programs use: on loopback only if ``tls`` is asked for.

        Raises ``UsageError`` if there is nothing to make them of, though it is.
        """
        settings = self.settings()
        is_plain = settings.allow_plain or is_loopback(host)
        found = None if is_plain and not tls else settings.credentials(CERTIFICATE_NAME)
        if tls and found is None:
            raise click.UsageError(f"--tls needs {WAYS_IN}")
        return found

    def secret(self) -> ClusterSecret:
        """Give the cluster secret itself; raises ``UsageError`` if there is none."""
        settings = self.settings()
        if settings.secret_file is not None:
            return ClusterSecret.from_file(settings.secret_file)
        if settings.secret is None:
            raise click.UsageError(
                "say which secret: --secret-file FILE, PEERMESH_SECRET_FILE or PEERMESH_SECRET"
            )
        if isinstance(settings.secret, str):
            return ClusterSecret.parse(settings.secret)
        return settings.secret


def tls_option(command: Any) -> Any:  # noqa: ANN401 - click's decorators have the command's own type
    """Give a command the option that turns TLS on where loopback would be plain."""
    return click.option(
        "--tls", is_flag=True,
        help="TLS on the loopback interface, too. Elsewhere it is there whenever there are"
        " credentials, unless --allow-plain.",
    )(command)  # fmt: skip
