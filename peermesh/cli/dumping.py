"""``peermesh store dump`` and ``load``: a store into a file, and back."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final

import click
import trio

from handshake.private_files import replacing_private
from peermesh.cli.arriving import open_copy, reporting
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import counted
from peermesh.cli.output import Output, note, refuse_terminal
from peermesh.cli.running import open_input, run
from peermesh.cli.trust import STDIN
from stores.dumps import DumpReader, Header, dumped
from stores.lives import session_of
from wire.decoding import decode
from wire.errors import MeshError

if TYPE_CHECKING:
    from endpoint.replicas.receipts import Receipt
    from peermesh import ReplicaStore, Store
    from stores.table import Entry

PIECE_SIZE: Final = 1 << 20
"""Bytes read at once."""

WRITE_COUNT: Final = 1_000
"""Entries written before others have their turn: the endpoint lives in the same thread."""

PENDING_COUNT: Final = 1_000
"""Puts whose outcome is unknown at most: as many as go on while one answer travels."""

STDOUT: Final = "-"

_NANOSECONDS: Final = 1_000_000_000


@command()
@STORE_NAME
@click.argument("file", type=click.Path(allow_dash=True))
@mesh_options(listens=False)
def dump(name: str, file: str, mesh: Mesh, output: Output) -> None:
    """Write all entries of a store to a FILE ("-" is stdout), as of one moment.

    The end of the file is a checksum. Without it the file cannot be loaded. It has mode 600, and
    takes the place of an earlier FILE once all of it is on the disk.
    """
    if file == STDOUT:
        refuse_terminal("bytes of a dump")
        if output.as_json:
            raise click.UsageError("both the dump and --json go to stdout: name a FILE")
    count = run(_dump, mesh, name, file)
    output.announce(counted(count, "entry", "entries"), entries=count)


async def _dump(mesh: Mesh, name: str, path: str) -> int:
    async with open_copy(mesh, name) as copy:
        await copy.at_master().exists(None)  # from now on it has all that the leader had
        part = copy.part
        revision, columns = part.core.revision, part.table.snapshot()
        found = ((key, columns.entry(key)) for key in columns)
        # Another group counts from elsewhere, so that expiries are times of Unix in a file.
        entries = ((key, entry.dated(part.core.epoch_ns)) for key, entry in found if entry)
        number, total = 0, len(columns)
        async with reporting(lambda: [f"{number:,} of {counted(total, 'entry', 'entries')}"]):
            with _opened(path) as file:
                for number, record in enumerate(dumped(Header(name, revision), entries)):
                    file.write(record)
                    if number % WRITE_COUNT == 0:
                        await trio.lowlevel.checkpoint()
                file.flush()  # A full disk is to be known before we say that all is there.
        return total


def _opened(path: str) -> AbstractContextManager[IO[bytes]]:
    if path == STDOUT:
        return nullcontext(sys.stdout.buffer)
    return replacing_private(path)


class _DumpFile(click.File):
    """A dump that is read."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or an open file
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> IO[Any]:
        """Open it; raises ``CommandFailed`` for a stdin that is closed."""
        return open_input().buffer if value == STDIN else super().convert(value, param, ctx)


@command()
@STORE_NAME
@click.argument("file", type=_DumpFile("rb"))
@click.option("--over", is_flag=True, help="Put the entries over what is there already.")
@mesh_options(listens=False)
def load(name: str, file: BinaryIO, mesh: Mesh, output: Output, *, over: bool) -> None:
    """Put all entries of a FILE ("-" is stdin), which "dump" wrote, into a store that is empty.

    The whole file is looked at before anything is put: one that breaks off, or was altered,
    changes nothing. If the command ends with code 0, every entry was applied; if it is interrupted,
    or one is refused, a part may be there, and loading again with --over completes it. What has
    expired in the meantime is left out. Revisions are new ones.
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
    async with open_copy(mesh, name) as copy:
        if not over and (await copy.at_master().scan(limit=1)).entries:
            raise CommandFailed(f"store {name} is not empty: --over puts the entries over it")
        loading = _Loading(mesh.wait)
        async with reporting(lambda: [f"{counted(loading.count, 'entry', 'entries')} so far"]):
            try:
                await loading.put_all(copy, file)
            except MeshError:
                there = counted(loading.count, "entry is", "entries are")
                note(f"{there} there, and others may be missing: load again with --over")
                raise
        return loading.count


class _Loading:
    """Puts the entries of a dump, each of which has to be applied."""

    def __init__(self, wait: float) -> None:
        """Wait for so many seconds for the outcome of a put, once those before it are known."""
        self.count = 0
        """Entries that were applied."""
        self._wait = wait
        self._receipts: deque[Receipt] = deque()

    async def put_all(self, store: Store | ReplicaStore, file: BinaryIO) -> None:
        """Put all entries that have a life left; raises what one of them was refused with."""
        for key, entry in _entries(file):
            expiry: float | None = None
            if session_of(entry.expires_at_ns) is not None:
                continue  # Its session is none of this store's.
            if entry.expires_at_ns is not None:
                expiry = (entry.expires_at_ns - time.time_ns()) / _NANOSECONDS
                if expiry <= 0:
                    continue
            self._receipts.append(await store.put(decode(key), decode(entry.value), expiry))
            await self._settle(PENDING_COUNT)
        await self._settle(0)

    async def _settle(self, pending_count: int) -> None:
        """Learn outcomes until so few are unknown."""
        while len(self._receipts) > pending_count:
            with trio.move_on_after(self._wait) as scope:
                await self._receipts[0].applied()
            if scope.cancelled_caught:
                text = f"the master did not answer within {self._wait:g} s"
                raise CommandFailed(text, ExitCode.TIMEOUT, hint="--wait SECONDS waits longer")
            self._receipts.popleft()
            self.count += 1
