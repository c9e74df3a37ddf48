"""What the methods of the blocking door do: each crosses to the thread of trio, and waits."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar, Final

from tools.door_bodies import Description, Door, Method, attached, wrapped

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
    """Takes the colour out of a function."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        plain = ast.FunctionDef(NAMES.get(node.name, node.name), node.args, node.body, [])
        plain.returns = node.returns
        return ast.copy_location(plain, node)

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


class Blocking(Door):
    """Threads: what waits in trio waits here, and what does not crosses as well."""

    name: ClassVar[str] = "blocking"
    package: ClassVar[str] = "peermesh.blocking"
    purpose: ClassVar[str] = "The blocking API."
    passage: ClassVar[str] = "peermesh.blocking.living"
    bases: ClassVar[dict[str, str]] = {"EitherClosing": "Closing", "AsyncClosing": "Closing"}
    whole: ClassVar[frozenset[str]] = frozenset({"Endpoint"})
    manager: ClassVar[tuple[str, str]] = ("contextmanager", "def")

    def way(self, core: str) -> str:
        """Write how a handle reaches the passage that front ends use."""
        return "self._passage.inner" if core == "_endpoint" else "self._passage"

    def translated(self, method: Method) -> Method:
        """Give it without its colour: what is attached is returned."""
        nodes = []
        for each in (method.node, *method.overloads):
            plain = _Plain().visit(ast.parse(ast.unparse(each)).body[0])
            assert isinstance(plain, ast.FunctionDef)
            nodes.append(plain)
        made = attached(method)
        if made is not None:
            nodes[0].returns = ast.Name(made)
        return replace(method, node=nodes[0], overloads=tuple(nodes[1:]), attaches=made)

    def method(
        self, face: Description, method: Method, core: str, faces: Collection[str]
    ) -> list[str]:
        """Write a method."""
        return method.head("def") + [
            f"        {line}" for line in self._body(face, method, core, faces)
        ]

    def _body(
        self, face: Description, method: Method, core: str, faces: Collection[str]
    ) -> list[str]:
        own = f"self.{core}"
        if method.was in face.copied:
            return method.copied()
        if method.name == "__repr__":
            return [f"return self._passage.show(type(self).__name__, {own})"]
        if method.is_property:
            look = f"self._passage.call_sync(lambda: {own}.{method.name})"
            found = look if method.name in face.over else f"{own}.{method.name}"
            made = wrapped(method, faces)
            return [f"return {found if made is None else f'{made}(self._passage, {found})'}"]
        if method.name in face.asks:
            return [f"return self._ask({self._mutation(method)})"]
        if method.is_barrier:
            return [*method.barrier(own), "return self._passage.wait(how, wait)"]
        if method.name == "close":
            return [f"self._passage.{'end' if method.is_async else 'close'}({own}.close)"]
        if method.name in face.local:
            return ["self._passage.check_process()", f"return {method.called(own)}"]
        if tried := method.tried(face, own):
            tried.insert(0, "self._passage.check_process()")
        return [*tried, *self._cross(method, own, faces)]

    @staticmethod
    def _mutation(method: Method) -> str:
        passed = ", ".join(method.passed())
        if method.name in BATCHES:
            return f"{BATCHES[method.name]}({passed})"
        return f"mutations.{method.name}({passed})"

    @staticmethod
    def _cross(method: Method, own: str, faces: Collection[str]) -> list[str]:
        if method.attaches is not None:
            return [f"return self._passage.attach({method.attaches}, {method.handed(own)})"]
        way = "call" if method.is_async else "call_sync"
        call = f"self._passage.{way}({method.handed_lists(own)})"
        made = wrapped(method, faces)
        passage = "self._passage.inner" if own == "self._endpoint" else "self._passage"
        return [f"return {call if made is None else f'{made}({passage}, {call})'}"]

    def needs(self, face: Description, method: Method, faces: Collection[str]) -> Iterator[str]:
        """Give the imports that its body needs."""
        if method.tried(face, ""):
            yield "from endpoint import arguments"
        if method.name in face.asks and method.name in BATCHES:
            yield f"from stores.batch import {BATCHES[method.name]}"
        elif method.name in face.asks:
            yield "from stores import mutations"
        if method.is_barrier:
            yield "from endpoint.barriers import barrier"
            yield "from functools import partial"
