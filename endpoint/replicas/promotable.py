"""What a change of its role needs of a store or log at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from endpoint.replicas.guarding import Guarding
from stores.effects import Effect
from wire.errors import ForkedEndpoint, StoreError

Result = TypeVar("Result")


class Promotable(Protocol):
    """A store or log at work, as far as both kinds need the same."""

    name: str
    error: StoreError | ForkedEndpoint | None
    guarding: Guarding | None
    is_changing_role: bool
    now_ns: Callable[[], int]

    def carry_out(self, effects: list[Effect]) -> None:
        """Do what its core asks, in order, without waiting."""

    def settle(self) -> None:
        """Everything that had come was taken in: answer."""

    def tell_exposed(self, exposed: Iterable[str]) -> None:
        """Tell of files that others could read until they were opened."""

    def finish_task(
        self, what: str, function: Callable[..., Awaitable[Result]], *arguments: object
    ) -> Awaitable[Result]:
        """Run something to its end in a task of the endpoint, and give what it gives."""
