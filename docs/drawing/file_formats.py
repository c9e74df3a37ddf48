"""Which formats of files this release reads and writes, as their owners have it."""

from __future__ import annotations

from drawing.markdown import table
from stores import dumps
from stores.disk import ballot
from stores.disk.log_replica import SQLiteLogReplica
from stores.disk.replica import SQLiteReplica
from stores.disk.seals import Vault
from stores.disk.sqlite import Format
from stores.sealing import StorageKey, StorageKeys
from stores.table.codec import TableCodec


def file_formats() -> str:
    """Draw the formats of each kind of file; none is opened for it."""
    sealed = Vault("drawn", StorageKeys((StorageKey(bytes(32)),)))
    kinds = {
        "store": SQLiteReplica("drawn", TableCodec()).file.layout,
        "store, encrypted": SQLiteReplica("drawn", TableCodec(), sealed).file.layout,
        "log": SQLiteLogReplica("drawn").file.layout,
        "log, encrypted": SQLiteLogReplica("drawn", sealed).file.layout,
    }
    rows = [
        *((kind, _read(layout), str(layout.version)) for kind, layout in kinds.items()),
        *((kind, str(one), str(one)) for kind, one in _KINDS_OF_ONE_FORMAT.items()),
    ]
    return table(("file", "formats that are read", "written"), rows)


_KINDS_OF_ONE_FORMAT = {
    "ballot, beside each of these": ballot.VERSION,
    "dump of a store": dumps.VERSION,
}


def _read(layout: Format) -> str:
    return ", ".join(map(str, [*sorted(layout.upgraded), layout.version]))
