"""The stores that hold files: which handles are served, and how long directories are read there."""

from __future__ import annotations

from endpoint.replicas.stores.store import ReplicaStore, Store
from peermesh.gateways.webhdfs.limits import ATTEMPTS_MAX
from peermesh.gateways.webhdfs.nodes import Node, decode_node, entries_prefix
from peermesh.gateways.webhdfs.tree import Tree, name_of
from stores.scanning import PAGE_COUNT_MAX
from wire.errors import RevisionGone

FileStore = Store | ReplicaStore
"""What is served: the store of a master or a clone, or a replica of a group."""


async def listed(store: FileStore, tree: Tree, directory: Node) -> list[tuple[str, Node]]:
    """Give a directory's entries by name, as of one revision, while others are served in between.

    Raises ``Impossible`` for too many.
    """
    tree.check_listed(directory)
    for attempt in range(ATTEMPTS_MAX):
        try:
            return await _pages(store, directory)
        except RevisionGone:
            if attempt == ATTEMPTS_MAX - 1:
                raise
    raise AssertionError("the last attempt gave a listing or an error")


async def _pages(store: FileStore, directory: Node) -> list[tuple[str, Node]]:
    found: list[tuple[str, Node]] = []
    async for page in store.pages(prefix=entries_prefix(directory.number), limit=PAGE_COUNT_MAX):
        found += [(name_of(each.key), decode_node(each.value)) for each in page]
    return found
