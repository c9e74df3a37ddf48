"""A mistake ends its own call, and nothing else: each wrong argument, beside an innocent pair."""

from __future__ import annotations

from inspect import isawaitable
from types import SimpleNamespace

import pytest

from tests.handles import trio_handles
from tests.mistakes import MISTAKES, Mistake
from wire.errors import MeshError


async def make(mistake: Mistake, kit: SimpleNamespace) -> None:
    result = mistake.call(kit)
    if isawaitable(result):
        await result


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
async def test_a_mistake_ends_its_own_call_and_nothing_else(mistake):
    async with trio_handles() as kit:
        with pytest.raises((TypeError, ValueError, MeshError), match=mistake.says):
            await make(mistake, kit)
        assert await kit.a.await_subscribed("/here", timeout=None)
        await kit.a.publish("/here", "still there")
        assert (await kit.subscriber.get()).data == "still there"
        assert await kit.clone.await_idle(None)
        assert await kit.clone.get("k") == 1
