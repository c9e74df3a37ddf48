"""What the store's verbs do in the harness: each asks the node that has attached the store."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar

from tools.door_bodies import Description, Door, Method

RECEIPT = "RemoteReceipt"
"""What the node gives for a receipt of its own."""


class Harness(Door):
    """A node in another process, maybe: the same verbs, asked over there."""

    name: ClassVar[str] = "testing"
    package: ClassVar[str] = "peermesh.testing"
    purpose: ClassVar[str] = "What nodes hold for a test."
    passage: ClassVar[str] = ""
    bases: ClassVar[dict[str, str]] = {}
    whole: ClassVar[frozenset[str]] = frozenset({"StoreHandle"})
    manager: ClassVar[tuple[str, str]] = ("asynccontextmanager", "async def")

    def way(self, core: str) -> str:
        """Nothing here is served by front ends."""
        raise NotImplementedError(core)

    def translated(self, method: Method) -> Method:
        """Give it with the receipt of the harness."""
        node = method.node
        assert isinstance(node, ast.AsyncFunctionDef)
        returns = ast.Name(RECEIPT) if method.returned == "Receipt" else node.returns
        copy = ast.AsyncFunctionDef(node.name, node.args, node.body, [], returns)
        return replace(method, node=ast.copy_location(copy, node))

    def method(
        self, face: Description, method: Method, core: str, faces: Collection[str]
    ) -> list[str]:
        """Write a method."""
        ask = f"self._{'ask' if method.returned == RECEIPT else 'do'}"
        given = ", ".join([f'"{method.name}"', *method.passed()])
        found = f"await {ask}({given})"
        if method.returned != RECEIPT:
            found = f"{method.returned}({found})"
        return [*method.head("async def"), f"        return {found}"]

    def needs(self, face: Description, method: Method, faces: Collection[str]) -> Iterator[str]:
        """Give the imports that its body needs."""
        yield f"from peermesh.testing.handles import {RECEIPT}"
