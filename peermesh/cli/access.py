"""``peermesh access``: the tokens and users of gateways, in a file of their own."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import click

from handshake.accounts import NO_ACCOUNTS, TOKEN, TOKEN_SIZE, Accounts
from peermesh.cli.command import command, group
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output
from peermesh.cli.running import open_input

_FILE: Final = click.option(
    "--file", "-f", "file", required=True, metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False), help="The file of accounts.",
)  # fmt: skip


def _load(file: Path) -> Accounts:
    return Accounts.load(file) if file.exists() else NO_ACCOUNTS


@group()
def access() -> None:
    """Make tokens and users for gateways; what they may do is in the roles, by their names.

    \b
      peermesh access token spark --file accounts.toml
      peermesh serve webhdfs --store files --accounts accounts.toml --roles roles.toml

    The file has hashes only, and mode 600. Gateways take up its changes while they run.
    """


@command()
@click.argument("name")
@_FILE
def token(name: str, file: Path, output: Output) -> None:
    """Make a token for NAME, add its hash to FILE, and write the token: once, as it is not kept.

    A NAME may have two, so that one can replace the other: a third ends the oldest.
    """
    text = TOKEN.write(secrets.token_bytes(TOKEN_SIZE))
    accounts = _load(file).with_token(name, text)
    accounts.save(file)
    output.tell(text, name=name, token=text, tokens=len(accounts.tokens[name]), file=str(file))


@command()
@click.argument("name")
@_FILE
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from stdin, a line.")
def user(name: str, file: Path, output: Output, *, from_stdin: bool) -> None:
    """Add the user NAME to FILE, or change its password, which is asked for."""
    if from_stdin:
        typed = open_input().readline().rstrip("\r\n")
    else:
        typed = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    _load(file).with_user(name, typed).save(file)
    output.tell(f"user {name} is in {file}", name=name, file=str(file))


@command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def show(file: Path, output: Output) -> None:
    """Write whose accounts are in FILE; of tokens and passwords nothing."""
    accounts = Accounts.load(file)
    for name in sorted({*accounts.tokens, *accounts.users}):
        count, has_password = len(accounts.tokens.get(name, ())), name in accounts.users
        words = [counted(count, "token")] * bool(count) + ["a password"] * has_password
        output.tell(f"{name}: {', '.join(words)}", name=name, tokens=count, password=has_password)


@command()
@click.argument("name")
@_FILE
@click.option("--oldest", is_flag=True, help="Only the older of its two tokens.")
def remove(name: str, file: Path, output: Output, *, oldest: bool) -> None:
    """Remove NAME from FILE, with its tokens and its password."""
    if not file.exists():
        raise CommandFailed(f"there is no file {file}", ExitCode.FAILED)
    Accounts.load(file).without(name, oldest=oldest).save(file)
    what = f"the older token of {name}" if oldest else name
    output.tell(f"removed {what}", name=name, file=str(file))


for each in (token, user, show, remove):
    access.add_command(each)
