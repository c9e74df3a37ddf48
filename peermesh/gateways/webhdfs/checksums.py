"""The digest that HDFS has of a file: an MD5 of its blocks' MD5s, of CRCs of 512 bytes.

An HDFS whose ``dfs.checksum.type`` is ``CRC32`` gives the same for the same bytes in blocks of the
same size, so that ``distcp`` can compare the two.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Final

CRC_BYTES: Final = 512
"""Bytes of each CRC, as GETSERVERDEFAULTS says."""


class FileDigest:
    """Takes in a file, whatever pieces it comes in."""

    def __init__(self, block_size: int) -> None:
        """Know how large its blocks are."""
        self._block_size = max(block_size, 1)
        self._blocks = bytearray()
        self._block = _md5()
        self._left = self._block_size
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take in what comes next."""
        data = self._rest + data
        at = 0
        while True:
            size = min(CRC_BYTES, self._left)
            if len(data) - at < size:
                break
            self._take(data[at : at + size])
            at += size
        self._rest = data[at:]

    def _take(self, data: bytes) -> None:
        self._block.update(zlib.crc32(data).to_bytes(4, "big"))
        self._left -= len(data)
        if not self._left:
            self._blocks += self._block.digest()
            self._block, self._left = _md5(), self._block_size

    def end(self) -> tuple[str, bytes]:
        """Give the algorithm's name, and the digest as Hadoop's client reads it."""
        if self._rest:
            self._take(self._rest)
        count = len(self._blocks) // self._block.digest_size
        if self._left < self._block_size or not count:
            self._blocks += self._block.digest()
            count += 1
        # Of a file of one block HDFS does not say how many CRCs a block has.
        crcs_per_block = self._block_size // CRC_BYTES if count > 1 else 0
        whole = _md5(bytes(self._blocks)).digest()
        name = f"MD5-of-{crcs_per_block}MD5-of-{CRC_BYTES}CRC32"
        return name, struct.pack(">iq", CRC_BYTES, crcs_per_block) + whole


def _md5(data: bytes = b"") -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)
