"""What a file's content consists of: chunks under one number, or under several, one after another.

An upload writes chunks under a number that nothing else has. So what is appended comes as a
further part of the file, in the one batch that changes its entry; until then no reader sees it,
and two that append at once cannot write over each other. A few bytes are no upload: they go into
the last chunk, and behind it, in the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from peermesh.gateways.webhdfs.errors import Impossible
from peermesh.gateways.webhdfs.limits import (
    CHUNK_SIZE,
    COLLECTED_COUNT,
    ERASED_CHUNKS_MAX,
    FILE_SIZE_MAX,
    PARTS_MAX,
)
from peermesh.gateways.webhdfs.nodes import Node, chunk_key, garbage_key
from stores.batch import Batch
from wire.values import Value

ALL_OF: Final = "all of"
"""Begins garbage that is all chunks under some numbers."""

STRETCH: Final = "stretch"
"""Begins garbage that is the chunks from one index on, up to another one."""


class Piece(NamedTuple):
    """Some bytes of one chunk."""

    number: int
    chunk: int
    start: int
    stop: int


def count_chunks(length: int) -> int:
    """Say how many chunks so many bytes are."""
    return -(-length // CHUNK_SIZE)


def parts_of(node: Node) -> tuple[tuple[int, int], ...]:
    """Give the parts of a file's content: a number and its bytes, each."""
    if node.parts or not node.length:
        return node.parts
    return ((node.number, node.length),)


def with_parts(node: Node, parts: Iterable[tuple[int, int]]) -> Node:
    """Give a file other content; raises ``Impossible`` if it were too much."""
    kept = tuple(part for part in parts if part[1])
    length = sum(size for _, size in kept)
    if length > FILE_SIZE_MAX:
        raise Impossible(f"a file has at most {FILE_SIZE_MAX} bytes: write several")
    if len(kept) > PARTS_MAX:
        raise Impossible(
            f"a file is put together of at most {PARTS_MAX} uploads: append more at once, or copy"
            " it"
        )
    count = sum(count_chunks(size) for _, size in kept)
    is_plain = not kept or kept == ((node.number, length),)
    return replace(node, length=length, chunk_count=count, parts=() if is_plain else kept)


def pieces(node: Node, start: int, stop: int) -> Iterator[Piece]:
    """Say where some bytes of a file are, in order."""
    begin = 0
    for number, size in parts_of(node):
        first, last = max(start - begin, 0), min(stop - begin, size)
        at = first
        while at < last:
            index, offset = divmod(at, CHUNK_SIZE)
            end = min(CHUNK_SIZE, last - index * CHUNK_SIZE)
            yield Piece(number, index, offset, end)
            at = index * CHUNK_SIZE + end
        begin += size


def discard_content(batch: Batch, node: Node) -> None:
    """Give up a file's content: now if that is little, and else by the collection."""
    parts = parts_of(node)
    if node.chunk_count > ERASED_CHUNKS_MAX:
        others = [number for number, _ in node.parts if number != node.number]
        everything: Value = (ALL_OF, node.number, *others) if others else False
        batch.put(garbage_key(node.number), everything)
        return
    for number, size in parts:
        for index in range(count_chunks(size)):
            batch.erase(chunk_key(number, index))


def collect_stretch(batch: Batch, number: int, first: int, stop: int) -> None:
    """Collect the last chunks of a stretch."""
    begin = max(first, stop - COLLECTED_COUNT)
    for index in range(begin, stop):
        batch.erase(chunk_key(number, index))
    if begin == first:
        batch.erase(garbage_key(number))
    else:
        batch.put(garbage_key(number), (STRETCH, first, begin))
