"""What the store's verbs do in the harness: each asks the node that has attached the store."""

from __future__ import annotations

import ast
from copy import copy
from dataclasses import replace
from typing import ClassVar

from tools.door_bodies import Door
from tools.door_faces import Face
from tools.door_source import Method

RECEIPT = "RemoteReceipt"
"""What the node gives for a receipt of its own."""


class Harness(Door):
    """A node in another process, maybe: the same verbs, asked over there."""

    name: ClassVar[str] = "testing"
    package: ClassVar[str] = "peermesh.testing"
    purpose: ClassVar[str] = "What nodes hold for a test."
    helpers: ClassVar[tuple[str, ...]] = (f"from peermesh.testing.handles import {RECEIPT}",)

    def translated(self, method: Method) -> Method:
        """Give it with the receipt of the harness."""
        node = copy(method.node)
        node.returns = ast.Name(RECEIPT) if method.returned == "Receipt" else node.returns
        return replace(method, node=node)

    def asked(self, method: Method, own: str) -> list[str]:
        """Write how a mutation is asked for."""
        return [f"return await self._ask({self._given(method)})"]

    def crossed(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        """Write a call that has no receipt."""
        return [f"return {method.returned}(await self._do({self._given(method)}))"]

    @staticmethod
    def _given(method: Method) -> str:
        return ", ".join([f'"{method.name}"', *method.passed()])
