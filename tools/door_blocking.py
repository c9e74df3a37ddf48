"""What the methods of the blocking door do: each crosses to the thread of trio, and waits."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import ClassVar, Final

from tools.door_bodies import Door, tried
from tools.door_faces import Face
from tools.door_source import Method

BATCHES: Final = {
    "batch": "together",
    "compare_and_set": "compare_and_set",
    "compare_and_erase": "compare_and_erase",
}
"""Verbs that are batches, and what of ``stores.batch`` makes them."""

NAMES: Final = {
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
"""What is called otherwise where nothing is asynchronous."""


class _Plain(ast.NodeTransformer):
    """Takes the colour out of a function; what it attaches is what it returns."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        plain = ast.FunctionDef(node.name, node.args, node.body, [], node.returns)
        return self.visit_FunctionDef(ast.copy_location(plain, node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name = NAMES.get(node.name, node.name)
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        found: ast.AST = self.visit(node.value)
        return found

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = NAMES.get(node.id, node.id)
        return node


def _plain(node: ast.AST) -> ast.FunctionDef:
    plain = _Plain().visit(ast.parse(ast.unparse(node)).body[0])
    assert isinstance(plain, ast.FunctionDef)
    return plain


class Blocking(Door):
    """Threads: what waits in trio waits here, and what does not crosses as well."""

    name: ClassVar[str] = "blocking"
    package: ClassVar[str] = "peermesh.blocking"
    purpose: ClassVar[str] = "The blocking API."
    passage: ClassVar[str] = "peermesh.blocking.living"
    bases: ClassVar[dict[str, str]] = {"EitherClosing": "Closing", "AsyncClosing": "Closing"}
    helpers: ClassVar[tuple[str, ...]] = (
        "from endpoint import arguments",
        "from endpoint.barriers import barrier",
        "from functools import partial",
        "from stores import mutations",
        *(f"from stores.batch import {maker}" for maker in BATCHES.values()),
    )
    is_async: ClassVar[bool] = False

    def way(self, own: str) -> str:
        """Write how a handle reaches the passage that front ends use."""
        return "self._passage.inner" if own == "self._endpoint" else "self._passage"

    def translated(self, method: Method) -> Method:
        """Give it without its colour: what is attached is returned."""
        node, *overloads = map(_plain, (method.node, *method.overloads))
        if method.attaches is not None:
            node.returns = ast.Name(method.attaches)
        return replace(method, node=node, overloads=tuple(overloads))

    def shown(self, own: str) -> str:
        """Write the repr of a handle."""
        return f"self._passage.show(type(self).__name__, {own})"

    def looked(self, look: str) -> str:
        """Write how a property is looked at that belongs to the thread of trio."""
        return f"self._passage.call_sync(lambda: {look})"

    def asked(self, method: Method, own: str) -> list[str]:
        """Write how a mutation is asked for: it crosses with others."""
        maker = BATCHES.get(method.name, f"mutations.{method.name}")
        return [f"return self._ask({maker}({', '.join(method.passed())}))"]

    def crossed(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        """Write a call."""
        if method.name in face.local:
            return ["self._passage.check_process()", f"return {method.called(own)}"]
        lines = tried(face, method, own)
        if lines:
            lines.insert(0, "self._passage.check_process()")
        if method.attaches is not None:
            return [f"return self._passage.attach({method.attaches}, {method.handed(own)})"]
        way = "call" if method.is_async else "call_sync"
        given = [f"{own}.{method.name}", *_listed(method)]
        if method.name in face.taking:
            way = "take" if method.is_async else "take_sync"
            given.insert(0, f"{own}.give_back")
        call = f"self._passage.{way}({', '.join(given)})"
        return [*lines, f"return {self.given(call, own, made)}"]


def _listed(method: Method) -> list[str]:
    """Give its arguments, with lists for what is iterated: in the thread of the caller."""
    given = method.node.args
    kinds = {
        each.arg: ast.unparse(each.annotation)
        for each in (*given.args, *given.kwonlyargs)
        if each.annotation
    }
    parts = []
    for part in method.passed():
        name = part.rpartition("=")[2]
        kind, listed = kinds.get(name, ""), f'list(arguments.several("{name}", {name}))'
        if kind.startswith("Iterable[") and kind.endswith("] | None"):
            listed = f"None if {name} is None else {listed}"
        elif not (kind.startswith("Iterable[") and kind.endswith("]")):
            listed = name
        parts.append(part.removesuffix(name) + listed)
    return parts
