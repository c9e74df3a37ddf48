"""What an operation changes: one batch, whose guards hold only if the tree is as it was read.

So every operation happens as a whole or not at all, whoever else is at work, at this gateway or at
another one. If a guard fails, the operation is decided anew, on the tree as it is then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from peermesh.gateways.refusals import NotFound
from peermesh.gateways.webhdfs.contents import discard_content
from peermesh.gateways.webhdfs.errors import AlreadyExists, Impossible, NotADirectory, NotEmpty
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
from peermesh.gateways.webhdfs.requests import Create, Delete, MakeDirectories, Rename, RenameStyle
from peermesh.gateways.webhdfs.tree import Tree
from stores.batch import Batch


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file that was uploaded."""

    number: int
    """Of the file that is to have it."""
    length: int
    chunk_count: int
    only_chunk: bytes | None
    """All of it, if it is short and not in the store yet."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is, or could be: a name in a directory."""

    directory: Node
    name: str
    node: Node | None


DIRECTORY_PERMISSION: Final = "755"
"""Of directories that are made because a file needs them."""


def make_directories(
    tree: Tree, request: MakeDirectories, numbers: Iterable[int], now_ms: int
) -> Batch | None:
    """Make what is missing of a path; ``None`` if nothing is. Raises ``NotADirectory``."""
    batch = Batch()
    owner, permission = request.user, request.permission
    _make(tree, batch, request.path, iter(numbers), (owner, permission, now_ms))
    return batch if batch.steps else None


def _make(
    tree: Tree, batch: Batch, path: Path, numbers: Iterable[int], stamp: tuple[str, str, int]
) -> Node:
    """Add to a batch what makes a directory; give it."""
    owner, permission, now_ms = stamp
    above, *below = tree.walk(path)
    assert above is not None, "the root is always there"
    fresh = iter(numbers)
    for depth, found in enumerate(below):
        if found is not None and not found.is_directory:
            raise NotADirectory(f"{path_text(path[: depth + 1])} is not a directory")
        if found is None:
            is_first = not batch.steps
            found = Node(next(fresh), True, 0, 0, now_ms, owner, permission, 0)  # noqa: FBT003 - a directory in one line
            _link(batch, Place(above, path[depth], None), found, checks_directory=is_first)
            batch.increment(children_key(above.number)).put(children_key(found.number), 0)
        above = found
    return above


def create(
    tree: Tree, request: Create, content: Content, numbers: Iterable[int], now_ms: int
) -> Batch:
    """Give a file its place. Raises what ``check_create`` does."""
    replaced = check_create(tree, request)
    *above, name = request.path
    batch = Batch()
    stamp = request.user, DIRECTORY_PERMISSION, now_ms
    directory = _make(tree, batch, tuple(above), numbers, stamp)
    node = Node(
        content.number,
        False,  # noqa: FBT003 - not a directory
        content.length,
        content.chunk_count,
        now_ms,
        request.user,
        request.permission,
        request.block_size,
    )
    _link(batch, Place(directory, name, replaced), node, checks_directory=not batch.steps)
    if replaced is None:
        batch.increment(children_key(directory.number))
    if content.only_chunk is not None:
        batch.put(chunk_key(node.number, 0), content.only_chunk)
    elif content.chunk_count:
        batch.if_exists(upload_key(node.number)).erase(upload_key(node.number))
    return batch


def check_create(tree: Tree, request: Create) -> Node | None:
    """Give the file that would be replaced.

    Raises ``AlreadyExists``, ``NotFound`` for a directory that has to be there, ``NotADirectory``.
    """
    *above, found = tree.walk(request.path)
    text = path_text(request.path)
    if found is not None and found.is_directory:
        raise AlreadyExists(f"{text} already exists as a directory")
    if found is not None and not request.overwrite:
        raise AlreadyExists(f"{text} already exists, and overwriting was not asked for")
    if any(node is not None and not node.is_directory for node in above):
        raise NotADirectory(f"{text} lies below a file")
    if above[-1] is None and not request.create_parent:
        raise NotFound(f"Parent directory doesn't exist: {path_text(request.path[:-1])}")
    return found


def rename(tree: Tree, request: Rename) -> Batch | None:
    """Move something; ``None`` if that has happened already, and only the answer was lost.

    ``None`` also for a file that is moved to itself in HDFS's older style, where that succeeds.
    Raises ``NotFound``, ``AlreadyExists``, ``NotADirectory``, ``NotEmpty`` or ``Impossible``.
    """
    path, destination = request.path, request.destination
    if not path or not destination:
        raise Impossible("the root stays where it is")
    if destination[: len(path)] == path and destination != path:
        raise Impossible(f"{path_text(path)} cannot be moved into itself")
    *above_source, moved = tree.walk(path)
    is_classic = request.style is RenameStyle.CLASSIC
    if is_classic and destination != path:
        destination = _moved_into(tree, request, moved)
    *above, target = tree.walk(destination)
    if moved is None:
        if target is not None and target.came_from == path_text(path):
            return None
        raise NotFound(f"rename source {path_text(path)} is not found.")
    if is_classic and destination == path and not moved.is_directory:
        return None
    _check_target(tree, request, moved, target)
    source = above_source[-1]
    assert source is not None, "what is there is in a directory"
    batch = Batch()
    if moved.is_directory:
        _guard_way(batch, destination, above)
    to = Place(_parent(destination, above), destination[-1], target)
    _move(batch, Place(source, path[-1], moved), to, came_from=path_text(path))
    return batch


def _parent(path: Path, above: list[Node | None]) -> Node:
    """Give the directory of a path; raises ``NotFound`` or ``NotADirectory``."""
    parent, text = above[-1], path_text(path[:-1])
    if parent is None:
        raise NotFound(f"rename destination parent {text} not found.")
    if not parent.is_directory:
        raise NotADirectory(f"{text} is not a directory")
    return parent


def _move(batch: Batch, source: Place, to: Place, *, came_from: str) -> None:
    assert source.node is not None, "it was found there"
    unlink(batch, source)
    _link(batch, to, replace(source.node, came_from=came_from), checks_directory=True)
    old, new = (children_key(place.directory.number) for place in (source, to))
    if to.node is not None:
        batch.decrement(old)
    elif old != new:
        batch.decrement(old).increment(new)


def _moved_into(tree: Tree, request: Rename, moved: Node | None) -> Path:
    """Say where something comes to be: a directory is moved into, unless it is what came."""
    path, destination = request.path, request.destination
    found = tree.find(destination)
    if found is None or not found.is_directory:
        return destination
    is_repeated = moved is None and found.came_from == path_text(path)
    return destination if is_repeated else (*destination, path[-1])


def _check_target(tree: Tree, request: Rename, moved: Node, target: Node | None) -> None:
    if target is None:
        return
    text = path_text(request.destination)
    if request.style is not RenameStyle.OVERWRITE or target.number == moved.number:
        raise AlreadyExists(f"rename destination {text} already exists")
    if target.is_directory != moved.is_directory:
        raise Impossible(f"{text} is not of the same kind as {path_text(request.path)}")
    if target.is_directory and tree.count(target):
        raise NotEmpty(f"rename destination {text} is not empty")


def _guard_way(batch: Batch, path: Path, above: Iterable[Node | None]) -> None:
    """Insist that no directory on the way moves: two that move into each other would be lost."""
    directories = [node for node in above if node is not None]
    for directory, name, node in zip(directories, path, directories[1:], strict=False):
        batch.if_value(entry_key(directory.number, name), encode_node(node))


def delete(tree: Tree, request: Delete) -> Batch | None:
    """Delete something; ``None`` if it is not there, or is the root. Raises ``NotEmpty``."""
    found = tree.find(request.path)
    if found is None or not request.path:
        return None
    *_, directory, _ = tree.walk(request.path)
    assert directory is not None, "what is there is in a directory"
    batch = Batch()
    if found.is_directory and not request.recursive:
        if tree.count(found):
            raise NotEmpty(f"{path_text(request.path)} is non empty")
        batch.if_value(children_key(found.number), 0)
    unlink(batch, Place(directory, request.path[-1], found))
    batch.decrement(children_key(directory.number))
    discard(batch, found)
    return batch


def discard(batch: Batch, node: Node) -> None:
    """Give up what a node has, now if that is little, and else by the collection."""
    if node.is_directory:
        batch.erase(children_key(node.number))
        batch.put(garbage_key(node.number), True)  # noqa: FBT003 - a directory
        return
    discard_content(batch, node)


def _link(batch: Batch, place: Place, node: Node, *, checks_directory: bool) -> None:
    """Put a node in its place, in the place of what was there when it was read."""
    key = entry_key(place.directory.number, place.name)
    if checks_directory:
        batch.if_exists(children_key(place.directory.number))
    if place.node is None:
        batch.if_absent(key)
    else:
        batch.if_value(key, encode_node(place.node))
        if place.node.is_directory:
            batch.if_value(children_key(place.node.number), 0)
        discard(batch, place.node)
    batch.put(key, encode_node(node))


def unlink(batch: Batch, place: Place) -> None:
    """Take what is there out of its directory; its count of entries is the caller's."""
    assert place.node is not None, "it was found there"
    key = entry_key(place.directory.number, place.name)
    batch.if_exists(children_key(place.directory.number))
    batch.if_value(key, encode_node(place.node)).erase(key)
