"""``peermesh store put``, ``delete``, ``increment`` and ``cas``: one change, and its revision."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Final

import click
import trio

from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.store_handle import StoreHandle
from peermesh import Batch, Value
from peermesh.cli.arguments import TEXT_OPTION, WRITING_TEXT_OPTION, read_value, read_values
from peermesh.cli.arriving import open_proxy
from peermesh.cli.command import Command, command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Seconds, Whole
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import format_value, on_a_line
from wire.errors import GuardFailed, InvalidData, TypeClash

Change = Callable[[StoreHandle], Awaitable[Receipt]]

EXPIRY_OPTION: Final = click.option(
    "--expiry", type=Seconds(is_open=True), metavar="SECONDS",
    help="Let the key expire so long from now.",
)  # fmt: skip


def _apply(mesh: Mesh, name: str, change: Change, output: Output) -> None:
    """Do a change, and write its revision."""
    revision = run(_applied, mesh, name, change)
    output.tell(str(revision), revision=revision)


async def _applied(mesh: Mesh, name: str, change: Change) -> int:
    async with open_proxy(mesh, name) as proxy:
        receipt = await change(proxy)
        with trio.move_on_after(mesh.wait):
            return await receipt.applied()
        raise CommandFailed(
            f"the master of {on_a_line(name)} did not answer within {mesh.wait:g} s: whether the"
            " change was made is unknown",
            ExitCode.TIMEOUT,
        )


@command()
@STORE_NAME
@click.argument("key")
@click.argument("value")
@EXPIRY_OPTION
@WRITING_TEXT_OPTION
@mesh_options(listens=False)
def put(  # noqa: PLR0913 - an option each
    name: str,
    key: str,
    value: str,
    expiry: float | None,
    mesh: Mesh,
    output: Output,
    *,
    as_text: bool,
) -> None:
    """Set a KEY to a VALUE, and write the revision that this made.

    When it ends with code 0, the master has applied it: durably, if its store is on disk.
    """
    found, wanted = read_values(key, value, as_text=as_text)
    _apply(mesh, name, lambda proxy: proxy.put(found, wanted, expiry), output)


@command()
@STORE_NAME
@click.argument("key")
@TEXT_OPTION
@mesh_options(listens=False)
def delete(name: str, key: str, mesh: Mesh, output: Output, *, as_text: bool) -> None:
    """Remove a KEY, and write the revision that this made; the code is 1 if it is missing."""
    found = read_value(key, as_text=as_text)
    try:
        _apply(mesh, name, lambda proxy: proxy.batch(_removal(found)), output)
    except GuardFailed:
        text = f"store {on_a_line(name)} has no key {format_value(found)}"
        hint = f"peermesh store keys {on_a_line(name)} lists them"
        raise CommandFailed(text, hint=hint, kind="no_such_key") from None


def _removal(key: Value) -> Batch:
    return Batch().if_exists(key).erase(key)


@command()
@STORE_NAME
@click.argument("key")
@click.argument("amount", default="1")
@EXPIRY_OPTION
@TEXT_OPTION
@mesh_options(listens=False)
def increment(  # noqa: PLR0913 - an option each
    name: str,
    key: str,
    amount: str,
    expiry: float | None,
    mesh: Mesh,
    output: Output,
    *,
    as_text: bool,
) -> None:
    """Add AMOUNT, which is 1 if not given, to the number at a KEY, and write the revision.

    A key that is missing begins at zero.
    """
    found = read_value(key, as_text=as_text)
    by = read_value(amount)
    if by is None or isinstance(by, (str, bool)):
        raise click.UsageError(f"AMOUNT is a number or a timespan, not {amount!r}")
    try:
        _apply(mesh, name, lambda proxy: proxy.increment(found, by, expiry), output)
    except (TypeClash, InvalidData) as error:
        why = str(error).removeprefix(f"store {name}: ")
        raise CommandFailed(
            f"store {on_a_line(name)}, key {format_value(found)}: {amount} is not added: {why}",
            hint=f"peermesh store get {on_a_line(name)} KEY shows what is there",
            kind="type_clash" if isinstance(error, TypeClash) else "invalid_data",
        ) from None


@command()
@STORE_NAME
@click.argument("key")
@click.argument("value")
@click.option("--if-revision", type=Whole(1), metavar="N", help="Only if its revision is still N.")
@click.option("--if-missing", is_flag=True, help="Only if there is no such key.")
@EXPIRY_OPTION
@TEXT_OPTION
@mesh_options(listens=False)
def cas(  # noqa: PLR0913 - an option each
    name: str,
    key: str,
    value: str,
    mesh: Mesh,
    output: Output,
    *,
    if_revision: int | None,
    if_missing: bool,
    expiry: float | None,
    as_text: bool,
) -> None:
    """Compare and set: set a KEY to a VALUE if nothing else has changed it, and write the revision.

    "peermesh store get --json" writes the revision of a key. The code is 1 if the key has another
    revision by now, or is there with --if-missing; then nothing was changed.
    """
    if (if_revision is None) != if_missing:
        both = " (not both)" if if_missing else ""
        raise click.UsageError(f"say when to set it: --if-revision N, or --if-missing{both}")
    found, wanted = read_values(key, value, as_text=as_text)
    try:
        _apply(
            mesh,
            name,
            lambda proxy: proxy.compare_and_set(found, wanted, if_revision, expiry),
            output,
        )
    except GuardFailed:
        state = "is there already" if if_missing else f"does not have revision {if_revision} now"
        raise CommandFailed(
            f"store {on_a_line(name)}, key {format_value(found)}: it {state}; nothing was changed",
            hint=f"peermesh store get {on_a_line(name)} KEY --json shows its revision",
            kind="guard_failed",
        ) from None


erase: Final[Command] = copy.copy(delete)
"""What "delete" is called in the API."""
erase.name, erase.hidden = "erase", True
