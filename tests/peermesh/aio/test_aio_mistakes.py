"""Mistakes in the asyncio API: each ends its own call, and nothing else of the loop."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from peermesh import aio
from peermesh.errors import MeshError
from peermesh.testing.time_limits import limit
from tests.doors import run_in_asyncio
from tests.handles import aio_handles, kinds
from tests.mistakes import MISTAKES, Mistake
from tests.odd import OddCall, methods_of, odd_calls
from tests.peermesh.aio.conftest import open_pair

CALL_SECONDS = 0.05
"""How long a call may wait for what never comes; then it is cancelled."""

METHODS = {
    name: [method for method in methods_of(kind) if method != "inside"]
    for name, kind in kinds(aio).items()
}


def test_a_mistake_ends_its_own_call_and_nothing_else() -> None:
    """All in one loop: one mistake that ended more would spoil those that follow."""

    async def main() -> None:
        async with aio_handles() as kit:
            for mistake in MISTAKES:
                with pytest.raises((TypeError, ValueError, MeshError), match=mistake.says):
                    await make(mistake, kit)
                assert await kit.a.await_subscribed("/here", timeout=limit())
                await kit.a.publish("/here", mistake.name)
                assert (await kit.subscriber.get(limit())).data == mistake.name
                assert await kit.clone.await_idle(limit())
                assert await kit.clone.get("k") == 1

    run_in_asyncio(main)


async def make(mistake: Mistake, kit: SimpleNamespace) -> None:
    result = mistake.call(kit)
    if isawaitable(result):
        await result


async def make_odd(call: OddCall, kit: SimpleNamespace) -> None:
    """Make an odd call, and let it raise what errors may be."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            result = call.on(kit)
            if isawaitable(result):
                await result
    except AssertionError:
        raise
    except Exception:
        return


@settings(max_examples=settings.default.max_examples // 2)
@given(calls=st.lists(odd_calls(METHODS), min_size=1, max_size=10))
def test_no_argument_kills_a_neighbour(calls: list[OddCall]) -> None:
    async def main() -> None:
        async with open_pair() as (left, right):
            heard = right.subscribe("/innocent")
            assert await left.await_subscribed("/innocent", timeout=limit())
            async with aio_handles() as kit:
                for number, call in enumerate(calls):
                    await make_odd(call, kit)
                    await left.publish("/innocent", number)
                    assert (await heard.get(limit())).data == number, call

    run_in_asyncio(main)
