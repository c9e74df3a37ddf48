"""Reading the tree of files and directories in a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from peermesh.gateways.refusals import NotFound
from peermesh.gateways.webhdfs.errors import Impossible
from peermesh.gateways.webhdfs.limits import LISTED_COUNT_MAX
from peermesh.gateways.webhdfs.nodes import (
    Node,
    children_key,
    decode_node,
    entries_prefix,
    entry_key,
    root_node,
)
from peermesh.gateways.webhdfs.paths import Path, path_text
from wire.values import Value


class View(Protocol):
    """What a store holds at one moment."""

    def get(self, key: Value) -> Value:
        """Give the value of a key; ``None`` if it is missing."""

    def node(self, directory: int, name: str) -> Node | None:
        """Give a directory's entry of that name; ``None`` if there is none."""

    def scan(
        self, prefix: Value, limit: int, after: Value | None = None
    ) -> list[tuple[Value, Value]]:
        """Give the first keys that begin with a prefix, in order, with their values.

        With ``after``, only those behind that key, which need not be there.
        """


class Tree:
    """The files and directories of a store, at one moment."""

    def __init__(self, view: View) -> None:
        """Read from a view."""
        self.view = view

    def find(self, path: Path) -> Node | None:
        """Give what is there; ``None`` if there is nothing."""
        *_, last = self.walk(path)
        return last

    def walk(self, path: Path) -> Iterator[Node | None]:
        """Give the root, and what each name on the way stands for: ``None`` if for nothing."""
        node: Node | None = root_node()
        yield node
        for name in path:
            node = self.child(node, name)
            yield node

    def child(self, directory: Node | None, name: str) -> Node | None:
        """Give a directory's entry of that name, if it is a directory and has one."""
        if directory is None or not directory.is_directory:
            return None
        return self.view.node(directory.number, name)

    def node(self, path: Path) -> Node:
        """Give what is there; raises ``NotFound``."""
        found = self.find(path)
        if found is None:
            raise NotFound(f"File does not exist: {path_text(path)}")
        return found

    def count(self, directory: Node) -> int:
        """Count a directory's entries."""
        found = self.view.get(children_key(directory.number))
        return found if isinstance(found, int) else 0

    def page(
        self, directory: Node, start_after: str, limit: int
    ) -> tuple[list[tuple[str, Node]], bool]:
        """Give the entries behind a name, so many at most, and tell whether there are more.

        They come in the order of keys: that of the names' bytes.
        """
        after = entry_key(directory.number, start_after) if start_after else None
        found = self.view.scan(entries_prefix(directory.number), limit + 1, after)
        entries = [(name_of(key), decode_node(value)) for key, value in found[:limit]]
        return entries, len(found) > limit

    def check_listed(self, directory: Node) -> None:
        """Raise ``Impossible`` for a directory with too many entries for one listing."""
        count = self.count(directory)
        if count > LISTED_COUNT_MAX:
            raise Impossible(
                f"a directory with {count} entries cannot be listed, only up to {LISTED_COUNT_MAX}:"
                " spread them over several"
            )


def name_of(key: Value) -> str:
    """Give the name in the key of a directory's entry."""
    assert isinstance(key, tuple), "the prefix is a vector"
    return str(key[-1])
