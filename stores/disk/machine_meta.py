"""What a replica's file says of itself: of which group it is, and of which state its rows are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, Final

import cbor2

from stores.disk.rows import Codec, RowDamaged
from stores.group.clock import NO_TIMES, Times
from stores.group.positions import START, Dismissed, MemberId, Position, Voters

META_SCHEMA: Final = "CREATE TABLE machine_meta (number INTEGER PRIMARY KEY, body BLOB NOT NULL)"

_PLACE: Final = b"machine_meta"


@dataclass(frozen=True, slots=True)
class Meta:
    """One row, which is written with the machine's rows, and not with those of the journal."""

    group: bytes | None = None
    """The group's id; ``None`` until the file is of one."""
    floor: Position = START
    """The last entry that the journal does not hold."""
    voters: Voters = ()
    """Those in force at the floor."""
    applied: Position = START
    """The rows are of this state, and the journal goes at least so far."""
    times: Times = NO_TIMES
    """The group's clocks there."""
    reached: int = 0
    """Some rows may be of a later state, up to this index: the entries up to it are committed, and
    have to be applied before anything is read."""
    machine: bytes = b""
    """What the machine keeps beside its rows."""
    dismissed: Dismissed = ()
    """As the voters."""
    name: str | None = None
    """That of the store. Logs have it elsewhere, and files of earlier builds nowhere."""


def write_meta(connection: sqlite3.Connection, codec: Codec, meta: Meta) -> None:
    """Write the row, in a commit that has begun."""
    content = {
        "group": meta.group,
        "floor": [meta.floor.term, meta.floor.index],
        "voters": [list(voter) for voter in meta.voters],
        "applied": [meta.applied.term, meta.applied.index],
        "times": list(meta.times),
        "reached": meta.reached,
        "machine": meta.machine,
        "dismissed": list(meta.dismissed),
        "name": meta.name,
    }
    body = codec.seal(_PLACE, cbor2.dumps(content))
    connection.execute("REPLACE INTO machine_meta VALUES (0, ?)", (body,))


def read_meta(connection: sqlite3.Connection, codec: Codec) -> Meta:
    """Read the row; raises ``RowDamaged``."""
    row = connection.execute("SELECT body FROM machine_meta").fetchone()
    if row is None:
        raise RowDamaged("table machine_meta: it is empty")
    try:
        found: dict[str, Any] = cbor2.loads(codec.open(connection, _PLACE, row[0]))
    except (ValueError, TypeError) as error:
        raise RowDamaged(f"table machine_meta: {error}") from error
    return Meta(
        found["group"],
        Position(*found["floor"]),
        tuple(MemberId(*voter) for voter in found["voters"]),
        Position(*found["applied"]),
        Times(*found["times"]),
        found["reached"],
        found["machine"],
        tuple(found.get("dismissed", ())),  # Files of earlier builds have none.
        found.get("name"),
    )
