"""Files and directories, and the keys and values under which a store holds them.

| key | value |
|---|---|
| ``("webhdfs", "entry", directory, name)`` | the file or directory of that name: a ``Node`` |
| ``("webhdfs", "children", directory)`` | how many entries the directory has |
| ``("webhdfs", "chunk", file, index)`` | a piece of the file's content |
| ``("webhdfs", "upload", file)`` | the gateway that takes it in: it has chunks, and no entry yet |
| ``("webhdfs", "gateway", name)`` | that gateway lives; expires |
| ``("webhdfs", "garbage", node)`` | it has no entry any more, but chunks (``False``) or entries \
(``True``) of its own; other values are in ``contents.py`` |

Directories and files have numbers, so that moving one is a matter of two entries, whatever is in
it. Nobody writes under a directory that has no count of children: this is how a batch that adds
something notices that the directory was deleted meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wire.decoding import decode
from wire.encoding import encode
from wire.values import Value

ROOT_NUMBER: Final = 0

CACHED_COUNT: Final = 4_096
"""Keys and nodes that are kept ready: the directories of some hundred jobs, in a few megabytes."""

SPACE: Final = "webhdfs"
"""The first element of all keys: the store may hold other things too."""

GROUP: Final = "supergroup"
"""Of what no client has given another group, as in HDFS."""


@dataclass(frozen=True, slots=True)
class Node:
    """A file or a directory, without its name and its content."""

    number: int
    is_directory: bool
    length: int
    """Bytes of a file."""
    chunk_count: int
    modified_ms: int
    """When it was written, since 1970. Directories keep the time at which they were made."""
    owner: str
    permission: str
    """Octal, as the client gave it: kept, and told, and not enforced."""
    block_size: int
    """What the client wished for, since it computes its read-ahead with it."""
    came_from: str | None = None
    """The path from which it was renamed: whoever asks again has lost the answer."""
    parts: tuple[tuple[int, int], ...] = ()
    """Whose chunks the content is, each number with its bytes, in order; empty if it is all under
    the file's own number."""
    group: str = GROUP
    accessed_ms: int | None = None
    """When it was read, as a client said; ``None`` if none did."""
    replication: int = 1
    """What a client wished for: kept, and told."""


def root_node() -> Node:
    """Give the root, which has no entry."""
    return Node(ROOT_NUMBER, True, 0, 0, 0, "root", "755", 0)  # noqa: FBT003 - the root in one line


def encode_node(node: Node) -> Value:
    """Give what is stored for a node.

    What few nodes have is left out of all others: they stay as earlier releases write them, so that
    a guard holds for those, and such a release can read them.
    """
    rest = (node.parts, node.group, node.accessed_ms, node.replication)
    return (*_common(node), *(() if rest == _NOTHING_MORE else rest))


_NOTHING_MORE: Final = ((), GROUP, None, 1)


def _common(node: Node) -> tuple[Value, ...]:
    return (
        node.number,
        node.is_directory,
        node.length,
        node.chunk_count,
        node.modified_ms,
        node.owner,
        node.permission,
        node.block_size,
        node.came_from,
    )


def decode_node(value: Value) -> Node:
    """Read what is stored for a node."""
    assert isinstance(value, tuple), "nobody else writes under our keys"
    return Node(*value)


def entry_key(directory: int, name: str) -> Value:
    """Give the key of a directory's entry."""
    return (SPACE, "entry", directory, name)


@lru_cache(CACHED_COUNT)
def encoded_entry_key(directory: int, name: str) -> bytes:
    """Give the key of a directory's entry as stores have it: the same few are asked for."""
    return encode(entry_key(directory, name))


@lru_cache(CACHED_COUNT)
def decoded_node(value: bytes) -> Node:
    """Read what is stored for a node, as stores have it."""
    return decode_node(decode(value))


def entries_prefix(directory: int) -> Value:
    """Give what all keys of a directory's entries begin with."""
    return (SPACE, "entry", directory)


def children_key(directory: int) -> Value:
    """Give the key of the number of a directory's entries."""
    return (SPACE, "children", directory)


def chunk_key(file: int, index: int) -> Value:
    """Give the key of a piece of a file."""
    return (SPACE, "chunk", file, index)


def chunks_prefix(file: int) -> Value:
    """Give what all keys of a file's pieces begin with."""
    return (SPACE, "chunk", file)


def upload_key(file: int) -> Value:
    """Give the key that says that a file is being uploaded."""
    return (SPACE, "upload", file)


def gateway_key(name: str) -> Value:
    """Give the key that is there while a gateway with uploads lives."""
    return (SPACE, "gateway", name)


UPLOADS_PREFIX: Final[Value] = (SPACE, "upload")


def garbage_key(node: int) -> Value:
    """Give the key that says that a node has to be collected."""
    return (SPACE, "garbage", node)


GARBAGE_PREFIX: Final[Value] = (SPACE, "garbage")
