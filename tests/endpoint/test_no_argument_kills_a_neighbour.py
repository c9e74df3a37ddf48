"""Any method with any values: an innocent pair in the same process talks after each call."""

from __future__ import annotations

from inspect import isawaitable

import trio
from hypothesis import given, strategies as st

import peermesh
from endpoint import Endpoint
from peermesh.testing.time_limits import limit
from tests.handles import kinds, trio_handles
from tests.odd import OddCall, methods_of, odd_calls

CALL_SECONDS = 0.05
"""How long a call may wait for what never comes: it is cancelled then, which is one more thing that
must harm no neighbour."""

UNEXPECTED = (AssertionError, trio.TrioInternalError)
"""Errors that say that the code is wrong, not the caller."""

METHODS = {name: methods_of(kind) for name, kind in kinds(peermesh).items()}


async def make(call: OddCall, kit: object) -> None:
    """Make an odd call, and let it raise what errors may be."""
    try:
        with trio.move_on_after(CALL_SECONDS):
            result = call.on(kit)
            if isawaitable(result):
                await result
    except UNEXPECTED:
        raise
    except Exception:
        return


@given(calls=st.lists(odd_calls(METHODS), min_size=1, max_size=10))
async def test_no_argument_kills_a_neighbour(calls: list[OddCall]) -> None:
    async with Endpoint() as left, Endpoint() as right:
        heard = right.subscribe("/innocent")
        assert await left.peer("127.0.0.1", await right.listen(), timeout=limit())
        async with trio_handles() as kit:
            for number, call in enumerate(calls):
                await make(call, kit)
                await left.publish("/innocent", number)
                assert (await heard.get()).data == number, call
