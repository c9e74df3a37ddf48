"""Barriers' two overloads: wait for an outcome, or have a callback told of it (seed 7.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

from endpoint import arguments
from endpoint.outcome import Outcome

Seconds = float | timedelta | None
"""A time limit as the caller gives it; ``None`` is for ever."""

Callback = Callable[[Outcome], object]
"""Told of the outcome. In trio it may be asynchronous."""


class Barrier(NamedTuple):
    """How one call of a barrier waits."""

    seconds: float
    callback: Callback | None
    """Told later, instead of the caller; ``None`` makes the caller wait."""


def barrier(
    name: str,
    positional: tuple[object, ...],
    timeout: object,
    callback: object | None,
    default: float,
) -> Barrier:
    """Sort out the arguments of a barrier: time limit and callback, in either order.

    ``await_peer(id, 5)`` and ``await_peer(id, callback, 5)`` are the seed's two overloads. ``name``
    is the barrier's, for errors, and ``default`` its time limit if none is given. Raises
    ``TypeError`` and ``ValueError``.
    """
    if len(positional) > 2:
        raise TypeError(f"{name} takes a timeout and a callback, not {len(positional)} values")
    if len(positional) == 2 and None in positional and not any(map(callable, positional)):
        # No callback, said in its place: of two, the one that is not None is the limit.
        positional = (positional[0] if positional[1] is None else positional[1],)
    seconds = [each for each in positional if not callable(each)]
    callbacks: list[Callback] = [each for each in positional if callable(each)]
    if len(seconds) > 1:
        raise TypeError(f"{name} takes one timeout, not {seconds[0]!r} and {seconds[1]!r}")
    if callback is not None:
        callbacks.append(arguments.function("callback", callback))
    if len(callbacks) > 1:
        raise TypeError(f"{name} takes one callback, not two")
    if seconds and timeout != default:
        raise TypeError(f"{name} takes one timeout, not {seconds[0]!r} and {timeout!r}")
    limit = arguments.seconds("timeout", seconds[0] if seconds else timeout)
    return Barrier(limit, callbacks[0] if callbacks else None)


async def wait_or_tell(
    how: Barrier,
    wait: Callable[[float], Awaitable[Outcome]],
    start: Callable[[Callable[[], Awaitable[None]]], object],
    call: Callable[[Callback, Outcome], object],
) -> Outcome | None:
    """Wait for ``how.seconds`` at most; or ``start`` a task that does and ``call`` back."""
    callback = how.callback
    if callback is None:
        return await wait(how.seconds)

    async def tell() -> None:
        call(callback, await wait(how.seconds))

    start(tell)
    return None
