"""Runs: consecutive entries of one partition, encoded once, then stored and sent as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import cbor2

from stores.encoding import load_array
from stores.log.limits import RUN_COUNT_MAX, RUN_SIZE_MAX
from wire.errors import DecodeError
from wire.public import public

ENTRY_SIZE = 16
"""Bytes that an entry takes besides its key and value, roughly."""

Flat = tuple[bytes | None, ...]
"""Keys and values in turn, each encoded. Entries without a key have ``None`` there."""

_KINDS: Final = frozenset({bytes, type(None)})


def partition_of(key: bytes, count: int) -> int:
    """Give the partition of an encoded key: the same on every machine, in every version."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") % count


@public
@dataclass(frozen=True, slots=True)
class Position:
    """The place of one entry in a log."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Run:
    """Entries that were committed together; they are not changed or split afterwards."""

    partition: int
    first_offset: int
    count: int
    timestamp_ns: int
    """When the keeper took them, by its clock; never earlier than the run before."""
    body: bytes

    @property
    def end(self) -> int:
        """The offset after the last entry."""
        return self.first_offset + self.count

    def entries(self) -> Flat:
        """Give keys and values in turn; raises ``DecodeError``.

        Nothing in them is looked at: who decodes what is in here as values would look at each byte.
        """
        try:
            flat = load_array(self.body, size_min=0)
        except DecodeError as error:
            raise DecodeError(
                f"a run of {self.count} entries holds something else: {error}"
            ) from None
        if len(flat) != 2 * self.count or not _KINDS.issuperset(map(type, flat)):
            raise DecodeError(f"a run of {self.count} entries holds something else")
        return tuple(flat)


@dataclass(slots=True)
class OpenRun:
    """A run that takes appends until it is committed, or full."""

    partition: int
    first_offset: int
    timestamp_ns: int
    flat: list[bytes | None] = field(default_factory=list)
    size: int = 0

    def takes(self, count: int, size: int) -> bool:
        """Tell whether an append of so many items and bytes belongs in this run, or another."""
        is_small = self.size + size <= RUN_SIZE_MAX
        return is_small and len(self.flat) + count <= 2 * RUN_COUNT_MAX

    def seal(self) -> Run:
        """Encode it."""
        body = cbor2.dumps(self.flat)
        return Run(self.partition, self.first_offset, len(self.flat) // 2, self.timestamp_ns, body)


def size_of(flat: Sequence[bytes | None]) -> int:
    """Give the bytes that entries take, roughly."""
    if len(flat) == 2:  # One that is appended alone, as most are.
        key, value = flat
        return (len(key) if key else 0) + (len(value) if value else 0) + ENTRY_SIZE
    return sum(map(len, filter(None, flat))) + len(flat) * ENTRY_SIZE // 2
