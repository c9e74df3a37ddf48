"""``peermesh certs``: an authority of one's own, and certificates with names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from handshake.issuing import AUTHORITY, Description, KeyKind, OwnAuthority, Validity, describe
from handshake.private_files import make_directory
from peermesh.cli.arguments import INPUT_FILE
from peermesh.cli.command import Option, command, group
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.output import Output

AUTHORITY_DAYS: Final = 3_650
"""Ten years: every endpoint has to be given a new one when it ends."""

MEMBER_DAYS: Final = 365

DAYS_MAX: Final = 36_500
"""A hundred years: no key is good for longer, and the dates of certificates end in 9999."""

CLOCKS_DIFFER: Final = timedelta(minutes=5)
"""Certificates begin so much earlier, for machines whose clocks are behind."""

PASSPHRASE_VARIABLE: Final = "PEERMESH_PASSPHRASE"
AUTHORITY_PASSPHRASE_VARIABLE: Final = "PEERMESH_AUTHORITY_PASSPHRASE"

_DIRECTORY: Final = click.option(
    "--path", "-d", "directory", cls=Option, old=["--directory"], default=".",
    show_default=True, metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False), help="Where the authority's files are.",
)  # fmt: skip
_KIND: Final = click.option(
    "--kind", type=click.Choice([kind.value for kind in KeyKind]), default=KeyKind.ED25519.value,
    show_default=True, help="The kind of key; p256 for programs without Ed25519, such as Java's.",
)  # fmt: skip


def _days(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--days", default=default, show_default=True, type=click.IntRange(1, DAYS_MAX),
        metavar="DAYS", help="How long it is valid.",
    )  # fmt: skip


def _from_now(days: int) -> Validity:
    now = datetime.now(UTC)
    return now - CLOCKS_DIFFER, now + timedelta(days=days)


@group()
def certs() -> None:
    """Be the authority of a mesh: issue certificates whose names its endpoints can believe.

    \b
      peermesh certs init -d mesh-authority
      peermesh certs issue sensor-1 -d mesh-authority
      cd mesh-authority
      peermesh node --listen 0.0.0.0:9999 --certificate sensor-1.pem \\
        --certificate-key sensor-1.key --authority authority.pem

    authority.key stays where it is; an endpoint needs its own two files and authority.pem.
    """


@command()
@_DIRECTORY
@click.option("--name", default="peermesh authority", show_default=True, help="What it is called.")
@_days(AUTHORITY_DAYS)
@_KIND
def init(directory: Path, name: str, days: int, kind: str, output: Output) -> None:
    """Make an authority: authority.pem for every endpoint, and authority.key for yourself.

    If PEERMESH_AUTHORITY_PASSPHRASE is set, it locks the key.
    """
    authority = OwnAuthority.create(name, _from_now(days), KeyKind(kind))
    try:
        make_directory(directory)
    except OSError as error:
        text = f"cannot make {directory}: {error.strerror}; name another directory"
        raise CommandFailed(text) from error
    passphrase = os.environ.get(AUTHORITY_PASSPHRASE_VARIABLE) or None
    _tell_files(authority.own.save(directory, AUTHORITY, passphrase), output)


def _tell_files(paths: Iterable[Path], output: Output) -> None:
    files = list(map(str, paths))
    output.tell(files, files=files)


@command()
@click.argument("name")
@_DIRECTORY
@_days(MEMBER_DAYS)
@click.option(
    "--host", "hosts", multiple=True, metavar="HOST",
    help="A host name or address, for clients that compare them, as those of HTTPS do. Repeatable.",
)  # fmt: skip
@click.option("--renew", is_flag=True, help="Replace the files of NAME; endpoints take them up.")
@_KIND
def issue(  # noqa: PLR0913 - an option each
    name: str,
    directory: Path,
    days: int,
    hosts: tuple[str, ...],
    kind: str,
    output: Output,
    *,
    renew: bool,
) -> None:
    """Issue a certificate to the endpoint NAME: NAME.pem, and NAME.key with mode 600.

    Roles are given to names. If PEERMESH_PASSPHRASE is set, it locks the key.
    """
    if name != Path(name).name or name.startswith(".") or name == AUTHORITY:
        raise click.UsageError(f"{name!r} cannot be the name of a file: choose another name")
    passphrase = os.environ.get(AUTHORITY_PASSPHRASE_VARIABLE) or None
    authority = OwnAuthority.load(directory, passphrase)
    issued = authority.issue(name, _from_now(days), hosts, KeyKind(kind))
    lock = os.environ.get(PASSPHRASE_VARIABLE) or None
    _tell_files(issued.save(directory, name, lock, replaces=renew), output)


@command()
@click.argument("files", nargs=-1, required=True, type=INPUT_FILE, metavar="FILE...")
@click.pass_context
def show(ctx: click.Context, files: tuple[Path, ...], output: Output) -> None:
    """Write what certificates say of themselves; ends with code 1 if one is not valid now."""
    now = datetime.now(UTC)
    found = [(file, each) for file in files for each in describe(file)]
    for file, each in found:
        output.tell(_as_text(file, each, now), **_members(file, each, now))
    if not all(each.is_valid(now) for _, each in found):
        ctx.exit(ExitCode.FAILED)


def _members(file: Path, found: Description, now: datetime) -> dict[str, object]:
    return {
        "file": str(file),
        "name": found.name,
        "issuer": found.issuer,
        "valid_from": found.valid_from.isoformat(),
        "valid_until": found.valid_until.isoformat(),
        "is_valid": found.is_valid(now),
        "is_authority": found.is_authority,
        "fingerprint": found.fingerprint,
        "hosts": list(found.hosts),
    }


def _as_text(file: Path, found: Description, now: datetime) -> list[str]:
    kind = "authority" if found.is_authority else "endpoint"
    verdict = "" if found.is_valid(now) else "  NOT VALID NOW"
    lines = [
        f"{file}: {kind} {found.name}, issued by {found.issuer}",
        f"  valid from {found.valid_from:%Y-%m-%d %H:%M} to {found.valid_until:%Y-%m-%d %H:%M} UTC"
        + verdict,
        f"  fingerprint {found.fingerprint}",
    ]
    if found.hosts:
        lines.append(f"  hosts {', '.join(found.hosts)}")
    return lines


for each in (init, issue, show):
    certs.add_command(each)
