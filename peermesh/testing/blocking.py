"""The same clusters for plain tests and the REPL: what waits in trio blocks here.

A cluster lives in the background thread of ``peermesh.blocking``. ``Blocking`` stands for a
cluster, a node, a link, a subscription or a store there, with the same names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from peermesh.blocking.standing import Standing
from peermesh.blocking.way import Way
from peermesh.testing.cluster import Cluster, Link, open_cluster
from peermesh.testing.handles import Handle, Subscription
from peermesh.testing.node import Node
from wire.errors import EndpointClosed

_STOOD_FOR = (Cluster, Link, Node, Handle)


class Blocking:
    """Stands for something of a cluster: its async methods block, all else is as it is."""

    def __init__(self, way: Way, target: Any) -> None:  # noqa: ANN401 - one of many
        """Made by ``BlockingCluster``, for what it gives."""
        self._way = way
        self._target = target

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as many types as attributes
        """Give the attribute of what this stands for."""
        found = getattr(self._target, name)
        return partial(self._call, found) if callable(found) else self._wrap(found)

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - of any method
        named = {name: self._unwrap(option) for name, option in options.items()}
        call = partial(function, *map(self._unwrap, arguments), **named)
        is_async = inspect.iscoroutinefunction(function)
        return self._wrap(self._way.call(call) if is_async else self._way.call_sync(call))

    @staticmethod
    def _unwrap(argument: Any) -> Any:  # noqa: ANN401 - of any method
        return argument._target if isinstance(argument, Blocking) else argument  # noqa: SLF001 - our own class

    def _wrap(self, result: Any) -> Any:  # noqa: ANN401 - of any method
        if isinstance(result, _STOOD_FOR):
            return Blocking(self._way, result)
        if isinstance(result, list):
            return [self._wrap(each) for each in result]
        return result

    def __getitem__(self, name: str) -> Blocking:
        """Give a node by its name."""
        return Blocking(self._way, self._target[name])

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self._target)

    def __iter__(self) -> Iterator[Any]:
        """Iterate nodes; or messages, until their subscription is closed."""
        if isinstance(self._target, Subscription):
            return self._messages()
        return iter([self._wrap(each) for each in self._target])

    def _messages(self) -> Iterator[Any]:
        while True:
            try:
                yield self.get()
            except EndpointClosed:
                return

    def __enter__(self) -> Self:
        """Use it within the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self._way.call(self._target.close)

    def __repr__(self) -> str:
        """Show what it stands for."""
        return f"<blocking {self._target!r}>"


class BlockingCluster(Standing, Blocking):
    """A cluster for threads: ``with BlockingCluster(3, "ring") as cluster``.

    The arguments are those of ``open_cluster``. Closing it raises what went wrong with it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - those of open_cluster
        """Open it."""
        Blocking.__init__(self, *self._stand(open_cluster(*arguments, **options)))
