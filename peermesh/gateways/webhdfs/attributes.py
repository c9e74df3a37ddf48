"""What clients note of files and directories: permissions, owners, times, wishes for copies."""

from __future__ import annotations

from dataclasses import replace

from peermesh.gateways.refusals import NotFound
from peermesh.gateways.webhdfs.errors import Impossible
from peermesh.gateways.webhdfs.nodes import Node, encode_node, entry_key
from peermesh.gateways.webhdfs.paths import path_text
from peermesh.gateways.webhdfs.requests import SetAttributes
from peermesh.gateways.webhdfs.tree import Tree
from stores.batch import Batch


def set_attributes(tree: Tree, request: SetAttributes) -> Batch | None:
    """Note what a client says; ``None`` if it is so. Raises ``NotFound``, ``Impossible``."""
    *above, node = tree.walk(request.path)
    if node is None:
        raise NotFound(f"File does not exist: {path_text(request.path)}")
    if not above:
        raise Impossible("the root has no owner, permission or time of its own")
    changed = _changed(node, request)
    if changed == node:
        return None
    directory = above[-1]
    assert directory is not None, "what is there is in a directory"
    key = entry_key(directory.number, request.path[-1])
    return Batch().if_value(key, encode_node(node)).put(key, encode_node(changed))


def _changed(node: Node, request: SetAttributes) -> Node:
    if request.replication is not None and not node.is_directory:
        node = replace(node, replication=request.replication)
    if request.permission is not None:
        node = replace(node, permission=request.permission)
    if request.owner is not None:
        node = replace(node, owner=request.owner)
    if request.group is not None:
        node = replace(node, group=request.group)
    if request.modified_ms is not None:
        node = replace(node, modified_ms=request.modified_ms)
    if request.accessed_ms is not None:
        node = replace(node, accessed_ms=request.accessed_ms)
    return node
