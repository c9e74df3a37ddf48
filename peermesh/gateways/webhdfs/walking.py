"""Counts what is in a directory, all the way down, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from peermesh.gateways.webhdfs.errors import Impossible
from peermesh.gateways.webhdfs.limits import PAGE_COUNT, WALKED_COUNT_MAX
from peermesh.gateways.webhdfs.nodes import Node
from peermesh.gateways.webhdfs.tree import Tree


@dataclass(slots=True)
class Summary:
    """How much there is."""

    directories: int = 0
    files: int = 0
    length: int = 0
    """Bytes of all files."""


def summarize(tree: Tree, node: Node, found: Summary) -> Iterator[None]:
    """Add up what there is, a page at a time; raises ``Impossible`` for too much of it.

    What others change between two pages may be counted or not, as in HDFS.
    """
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if not each.is_directory:
            found.files += 1
            found.length += each.length
            continue
        found.directories += 1
        last, has_more = "", True
        while has_more:
            page, has_more = tree.page(each, last, PAGE_COUNT)
            for name, child in page:
                last = name
                if child.is_directory:
                    waiting.append(child)
                else:
                    found.files += 1
                    found.length += child.length
            count = found.files + found.directories + len(waiting)
            if count > WALKED_COUNT_MAX:
                raise Impossible(
                    f"more than {WALKED_COUNT_MAX} files and directories are not counted at once:"
                    " ask for those below, one by one"
                )
            yield
