"""``peermesh store new-key`` and ``rekey``: the keys of files that are encrypted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Final

import click

from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output, note

PROGRESS_SECONDS: Final = 2.0
"""How often a command about a large file says how far it has come."""


@command("new-key")
@click.argument("file", type=click.Path(dir_okay=False))
def new_key(file: str, output: Output) -> None:
    """Put a new key into a key FILE, before those that are there, and write its fingerprint.

    The first key of a file is for what is written, all of them are for what is read. The FILE is
    its owner's alone; keep a copy of it: without it nothing can read the stores.
    """
    from stores.disk.store_keys import write_new_key

    fingerprint = write_new_key(file).current.fingerprint.hex()
    output.tell(fingerprint, file=file, fingerprint=fingerprint)


@command()
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option(
    "--key-file", metavar="KEYS", type=click.Path(dir_okay=False),
    help="The key file; its first key is the one that all records come under. Otherwise the"
    " variables PEERMESH_STORE_KEY_FILE or PEERMESH_STORE_KEYS say.",
)  # fmt: skip
def rekey(files: tuple[str, ...], key_file: str | None, output: Output) -> None:
    """Put the FILES of stores and logs under the first key of the key file.

    Their master or keeper must not be running. A plain file is encrypted. If this is interrupted,
    even by a power cut, nothing is lost: do it again, with the old key and the new one. Once it
    has ended, the old key may go.
    """
    from stores.disk.rekeying import rekey as rekey_file
    from stores.disk.store_keys import keys_from_environment, keys_from_file

    keys = keys_from_environment(os.environ) if key_file is None else keys_from_file(key_file)
    if keys is None:
        raise CommandFailed("there is no key: give --key-file, or set PEERMESH_STORE_KEY_FILE")
    for file in files:
        commits = sum(1 for _ in _telling(file, rekey_file(file, keys)))
        key = keys.current.fingerprint.hex()
        output.tell(f"{file} is under key {key}", file=file, key=key, commits=commits)


def _telling(file: str, sizes: Iterable[int]) -> Iterator[int]:
    """Give the sizes of commits as they come, and say now and then how much is done."""
    done, told_at = 0, monotonic()
    for size in sizes:
        done += size
        if monotonic() - told_at >= PROGRESS_SECONDS:
            told_at = monotonic()
            note(f"{file}: {counted(done, 'row')} done")
        yield size
