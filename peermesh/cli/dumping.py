"""``peermesh store dump`` and ``load``: a store into a file, and back."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO, Final

import click
import trio

from handshake.private_files import open_private
from peermesh.cli.arriving import open_clone
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output, refuse_terminal
from peermesh.cli.running import run
from stores.dumps import DumpReader, Header, dumped
from stores.lives import session_of
from wire.decoding import decode

if TYPE_CHECKING:
    from peermesh import Store
    from stores.table import Entry

PIECE_SIZE: Final = 1 << 20
"""Bytes read at once."""

WRITE_COUNT: Final = 1_000
"""Entries written before others have their turn: the endpoint lives in the same thread."""

STDOUT: Final = "-"

_NANOSECONDS: Final = 1_000_000_000


@command()
@STORE_NAME
@click.argument("file", type=click.Path(allow_dash=True))
@mesh_options(listens=False)
def dump(name: str, file: str, mesh: Mesh, output: Output) -> None:
    """Write all entries of a store to a FILE ("-" is stdout), as of one moment.

    The end of the file is a checksum. Without it the file cannot be loaded. It has mode 600.
    """
    if file == STDOUT:
        refuse_terminal("bytes of a dump")
        if output.as_json:
            raise click.UsageError("both the dump and --json go to stdout: name a FILE")
    count = run(_dump, mesh, name, file)
    output.announce(counted(count, "entry", "entries"), entries=count)


async def _dump(mesh: Mesh, name: str, path: str) -> int:
    async with open_clone(mesh, name) as clone:
        await clone.at_master().exists(None)  # from now on it has all that the master had
        part = clone.part
        revision, columns = part.core.revision, part.table.snapshot()
        found = ((key, columns.entry(key)) for key in columns)
        # Another group counts from elsewhere, so that expiries are times of Unix in a file.
        entries = ((key, entry.dated(part.core.epoch_ns)) for key, entry in found if entry)
        with _opened(path) as file:
            for number, record in enumerate(dumped(Header(name, revision), entries)):
                file.write(record)
                if number % WRITE_COUNT == 0:
                    await trio.lowlevel.checkpoint()
            file.flush()  # A full disk is to be known before we say that all is there.
        return len(columns)


def _opened(path: str) -> AbstractContextManager[IO[bytes]]:
    if path == STDOUT:
        return nullcontext(sys.stdout.buffer)
    return open_private(path, "wb")


@command()
@STORE_NAME
@click.argument("file", type=click.File("rb"))
@click.option("--over", is_flag=True, help="Put the entries over what is there already.")
@mesh_options(listens=False)
def load(name: str, file: BinaryIO, mesh: Mesh, output: Output, *, over: bool) -> None:
    """Put all entries of a FILE ("-" is stdin), which "dump" wrote, into a store that is empty.

    The whole file is looked at before anything is put: one that breaks off, or was altered,
    changes nothing. If the command ends with code 0, the master has applied all of it; if it is
    interrupted, a part may be there, and loading again with --over completes it. What has expired
    in the meantime is left out. Revisions are new ones.
    """
    with TemporaryFile() as copied:
        if not file.seekable():  # It is looked at twice.
            shutil.copyfileobj(file, copied, PIECE_SIZE)
            copied.seek(0)
            file = copied
        for _ in _entries(file):
            pass
        file.seek(0)
        count = run(_load, mesh, name, file, over)
    output.announce(counted(count, "entry", "entries"), entries=count)


def _entries(file: BinaryIO) -> Iterator[tuple[bytes, Entry]]:
    """Give all entries; raises ``InvalidData``, at the end if some are missing."""
    reader = DumpReader()
    while piece := file.read(PIECE_SIZE):
        yield from reader.feed(piece)
    reader.finish()


async def _load(mesh: Mesh, name: str, file: BinaryIO, over: bool) -> int:  # noqa: FBT001 - trio.run takes no keywords
    async with open_clone(mesh, name) as clone:
        if not over and (await clone.at_master().scan(limit=1)).entries:
            raise CommandFailed(f"store {name} is not empty: --over puts the entries over it")
        return await _put_all(clone, file, mesh.wait)


async def _put_all(clone: Store, file: BinaryIO, wait: float) -> int:
    count, receipt = 0, None
    for key, entry in _entries(file):
        expiry: float | None = None
        if session_of(entry.expires_at_ns) is not None:
            continue  # Its session is none of this store's.
        if entry.expires_at_ns is not None:
            expiry = (entry.expires_at_ns - time.time_ns()) / _NANOSECONDS
            if expiry <= 0:
                continue
        receipt = await clone.put(decode(key), decode(entry.value), expiry)
        count += 1
    if receipt is not None:
        with trio.move_on_after(wait) as scope:
            await receipt.applied()
        if scope.cancelled_caught:
            text = f"the master did not answer within {wait:g} s: load again with --over"
            raise CommandFailed(text, ExitCode.TIMEOUT)
    return count
