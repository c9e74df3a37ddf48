"""What APPEND, TRUNCATE and CONCAT change: each one batch, guarded by the file as it was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from peermesh.gateways.refusals import InvalidRequest, NotFound
from peermesh.gateways.webhdfs.changes import Content, Place, unlink
from peermesh.gateways.webhdfs.contents import (
    ALL_OF,
    STRETCH,
    count_chunks,
    parts_of,
    with_parts,
)
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE, ERASED_CHUNKS_MAX
from peermesh.gateways.webhdfs.nodes import (
    Node,
    children_key,
    chunk_key,
    encode_node,
    entry_key,
    garbage_key,
    upload_key,
)
from peermesh.gateways.webhdfs.paths import Path, path_text
from peermesh.gateways.webhdfs.requests import Append, Concat, Truncate
from peermesh.gateways.webhdfs.tree import Tree
from stores.batch import Batch
from wire.scalars import INTEGER_MAX


def find_place(tree: Tree, path: Path) -> tuple[Place, Node]:
    """Give where a file is, and the file; raises ``NotFound``, also for a directory."""
    *above, node = tree.walk(path)
    if node is None:
        raise NotFound(f"File does not exist: {path_text(path)}")
    if node.is_directory:
        raise NotFound(f"Path is not a file: {path_text(path)}")
    directory = above[-1]
    assert directory is not None, "what is there is in a directory"
    return Place(directory, path[-1], node), node


def append(
    tree: Tree, request: Append, content: Content, numbers: Iterable[int], now_ms: int
) -> Batch | None:
    """Add content to a file; ``None`` if there is none. Raises ``NotFound``, ``Impossible``."""
    place, node = find_place(tree, request.path)
    if not content.length:
        return None
    batch = Batch()
    if content.only_chunk is None:
        batch.if_exists(upload_key(content.number)).erase(upload_key(content.number))
        parts = [*parts_of(node), (content.number, content.length)]
    else:
        parts = _append_few(tree, batch, node, content.only_chunk, iter(numbers))
    return _change(batch, place, with_parts(node, parts), now_ms)


def _append_few(
    tree: Tree, batch: Batch, node: Node, data: bytes, numbers: Iterator[int]
) -> list[tuple[int, int]]:
    """Put less than a chunk behind the last one; give the parts that there then are."""
    *others, (number, length) = parts_of(node) or ((next(numbers), 0),)
    index, used = divmod(length, CHUNK_SIZE)
    begun = tree.view.get(chunk_key(number, index)) if used else b""
    if not isinstance(begun, bytes):
        raise NotFound("the file was deleted meanwhile")
    head, rest = data[: CHUNK_SIZE - used], data[CHUNK_SIZE - used :]
    if used:
        batch.put(chunk_key(number, index), begun[:used] + head)
    else:
        head, rest = b"", data
        index -= 1
    parts = [*others, (number, length + len(head))]
    if not rest:
        return parts
    if tree.view.get(garbage_key(number)) is None:
        # What is collected there may be the very chunk that comes next.
        batch.if_absent(garbage_key(number)).put(chunk_key(number, index + 1), rest)
        return [*others, (number, length + len(data))]
    fresh = next(numbers)
    batch.put(chunk_key(fresh, 0), rest)
    return [*parts, (fresh, len(rest))]


def truncate(tree: Tree, request: Truncate, numbers: Iterable[int], now_ms: int) -> Batch | None:
    """Cut a file; ``None`` if it is as long already. Raises ``InvalidRequest``, ``NotFound``."""
    place, node = find_place(tree, request.path)
    if request.length > node.length:
        raise InvalidRequest(
            f"Cannot truncate to a larger file size. Current size: {node.length}, truncate size:"
            f" {request.length}"
        )
    if request.length == node.length:
        return None
    batch, kept, gone = Batch(), list[tuple[int, int]](), list[tuple[int, int]]()
    left = request.length
    for number, size in parts_of(node):
        stays = min(size, left)
        left -= stays
        if stays:
            kept.append((number, stays))
        else:
            gone.append((number, size))
        if 0 < stays < size:
            _cut(tree, batch, number, stays, size)
    _let_go(batch, gone, numbers)
    return _change(batch, place, with_parts(node, kept), now_ms)


def _cut(tree: Tree, batch: Batch, number: int, stays: int, size: int) -> None:
    """Let go of the end of a part: now if that is little, and else by the collection."""
    index, used = divmod(stays, CHUNK_SIZE)
    if used:
        begun = tree.view.get(chunk_key(number, index))
        if not isinstance(begun, bytes):
            raise NotFound("the file was deleted meanwhile")
        batch.put(chunk_key(number, index), begun[:used])
    first, stop = count_chunks(stays), count_chunks(size)
    match tree.view.get(garbage_key(number)):
        case (str(), int(), int(pending)):  # An earlier cut, further behind.
            stop = max(stop, pending)
        case _:
            pass
    if stop - first > ERASED_CHUNKS_MAX:
        batch.put(garbage_key(number), (STRETCH, first, stop))
        return
    for each in range(first, stop):
        batch.erase(chunk_key(number, each))


def _let_go(batch: Batch, parts: list[tuple[int, int]], numbers: Iterable[int]) -> None:
    """Let go of whole parts of a file that stays."""
    if sum(count_chunks(size) for _, size in parts) > ERASED_CHUNKS_MAX:
        batch.put(garbage_key(next(iter(numbers))), (ALL_OF, *(number for number, _ in parts)))
        return
    for number, size in parts:
        for index in range(count_chunks(size)):
            batch.erase(chunk_key(number, index))


def concat(tree: Tree, request: Concat, now_ms: int) -> Batch:
    """Put files behind another one, which they become a part of. Raises ``InvalidRequest`` too."""
    if request.path in request.sources or len(set(request.sources)) < len(request.sources):
        raise InvalidRequest("concat: a file is named twice")
    target, node = find_place(tree, request.path)
    batch, parts = Batch(), [*parts_of(node)]
    for path in request.sources:
        place, source = find_place(tree, path)
        unlink(batch, place)
        batch.decrement(children_key(place.directory.number))
        parts += parts_of(source)
    return _change(batch, target, with_parts(node, parts), now_ms)


def _change(batch: Batch, place: Place, node: Node, now_ms: int) -> Batch:
    """Give a file its new entry, which is equal to no earlier one.

    Unless a client sets its time back: then a change that was decided before a cut and an append
    of as many bytes holds too, if all three of them come before it.
    """
    assert place.node is not None, "it was found there"
    before_ms = place.node.modified_ms
    # Earlier releases let clients note the largest number there is, behind which there is none.
    later_ms = now_ms if before_ms == INTEGER_MAX else max(now_ms, before_ms + 1)
    node = replace(node, modified_ms=later_ms)
    key = entry_key(place.directory.number, place.name)
    return batch.if_value(key, encode_node(place.node)).put(key, encode_node(node))
