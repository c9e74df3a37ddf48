"""Answers what is asked about files and space, and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from peermesh.gateways.refusals import NotFound
from peermesh.gateways.webhdfs import replies
from peermesh.gateways.webhdfs.checksums import FileDigest
from peermesh.gateways.webhdfs.contents import pieces
from peermesh.gateways.webhdfs.limits import FILE_SIZE_MAX, PAGE_COUNT
from peermesh.gateways.webhdfs.nodes import Node, chunk_key
from peermesh.gateways.webhdfs.paths import Path, parse_path, path_text
from peermesh.gateways.webhdfs.requests import (
    CheckAccess,
    GetAclStatus,
    GetContentSummary,
    GetFileBlockLocations,
    GetFileChecksum,
    GetFileStatus,
    GetHomeDirectory,
    GetQuotaUsage,
    GetServerDefaults,
    GetStatus,
    GetTrashRoot,
    GetTrashRoots,
    GetXAttrs,
    Inquiry,
    ListStatus,
    ListStatusBatch,
)
from peermesh.gateways.webhdfs.tree import Tree
from peermesh.gateways.webhdfs.walking import Summary, summarize
from stores.statistics import StoreStatistics

Entries = Callable[[Node], Awaitable[list[tuple[str, Node]]]]
"""Gives the entries of a directory by name; raises ``Refusal``."""


async def answer(  # noqa: C901 - a case each
    tree: Tree, request: Inquiry, space: StoreStatistics, entries: Entries
) -> bytes:
    """Answer a question about the tree, or the ``space`` that it takes; raises ``Refusal``.

    ``entries`` gives all that a directory has, as of one moment.
    """
    match request:
        case GetFileStatus(path):
            node = tree.node(path)
            return replies.file_status(node, child_count(tree, node))
        case ListStatus(path):
            return await _list(tree, tree.node(path), entries)
        case ListStatusBatch(path, start_after):
            return _list_page(tree, tree.node(path), start_after)
        case GetContentSummary(path):
            return replies.content_summary(await _summary(tree, path))
        case GetQuotaUsage(path):
            return replies.quota_usage(await _summary(tree, path))
        case GetStatus():
            most = space.max_bytes
            return replies.space(space.bytes, space.bytes + FILE_SIZE_MAX if most is None else most)
        case GetFileChecksum(path):
            return await _checksum(tree, path)
        case GetAclStatus(path):
            return replies.acl_status(tree.node(path))
        case CheckAccess(path):
            tree.node(path)
            return b""
        case GetXAttrs(path):
            tree.node(path)
            return replies.no_attributes()
        case GetFileBlockLocations(path):
            tree.node(path)
            return replies.no_block_locations()
        case GetServerDefaults():
            return replies.server_defaults()
        case GetHomeDirectory(user):
            return replies.path(f"/user/{user}")
        case GetTrashRoot(user):
            return replies.path(_trash(user))
        case GetTrashRoots(user):
            return _trash_roots(tree, _trash(user))


def child_count(tree: Tree, node: Node) -> int:
    """Count the entries of a directory; a file has none."""
    return tree.count(node) if node.is_directory else 0


async def _list(tree: Tree, node: Node, entries: Entries) -> bytes:
    found = await entries(node) if node.is_directory else [("", node)]
    pages = list[bytes]()
    for begin in range(0, len(found), PAGE_COUNT):
        page = found[begin : begin + PAGE_COUNT]
        counted = ((name, child, child_count(tree, child)) for name, child in page)
        pages.append(replies.statuses_page(counted))
        await trio.lowlevel.checkpoint()  # All at once hold up a leader's heartbeats.
    return replies.file_statuses(pages)


def _list_page(tree: Tree, node: Node, start_after: str) -> bytes:
    if not node.is_directory:
        return replies.partial_listing([("", node, 0)], has_more=False)
    entries, has_more = tree.page(node, start_after, PAGE_COUNT)
    statuses = [(name, child, child_count(tree, child)) for name, child in entries]
    return replies.partial_listing(statuses, has_more=has_more)


def _trash(user: str) -> str:
    return f"/user/{user}/.Trash"


def _trash_roots(tree: Tree, place: str) -> bytes:
    found = tree.find(parse_path(place))
    return replies.paths([] if found is None else [(place, found)])


async def _summary(tree: Tree, path: Path) -> Summary:
    found = Summary()
    for _ in summarize(tree, tree.node(path), found):
        await trio.lowlevel.checkpoint()
    return found


async def _checksum(tree: Tree, path: Path) -> bytes:
    node = tree.node(path)
    if node.is_directory:
        raise NotFound(f"Path is not a file: {path_text(path)}")
    digest = FileDigest(node.block_size)
    for number, index, start, stop in pieces(node, 0, node.length):
        chunk = tree.view.get(chunk_key(number, index))
        if not isinstance(chunk, bytes) or len(chunk) < stop:
            raise NotFound("the file was changed while it was read")
        digest.feed(chunk[start:stop])
        await trio.lowlevel.checkpoint()
    return replies.file_checksum(*digest.end())
