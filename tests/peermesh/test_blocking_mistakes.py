"""Mistakes in the blocking API: each ends its own call, and nothing else of the process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from peermesh import blocking
from peermesh.errors import MeshError
from peermesh.testing.time_limits import limit
from tests.handles import blocking_handles, kinds
from tests.mistakes import MISTAKES, Mistake
from tests.odd import OddCall, methods_of, odd_calls

CALL_SECONDS = 0.05
"""How long a call may wait for what never comes, before the next one is made beside it."""

METHODS = {
    # What only trio runs is not called in a thread, and gives what nothing awaits.
    name: [method for method in methods_of(kind) if method not in {"applied", "inside"}]
    for name, kind in kinds(blocking).items()
}


@pytest.fixture(scope="module")
def kit() -> Iterator[SimpleNamespace]:
    """Handles that outlive the mistakes made with them."""
    with blocking_handles() as kit:
        yield kit


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_ends_its_own_call_and_nothing_else(mistake: Mistake, kit) -> None:
    with pytest.raises((TypeError, ValueError, MeshError), match=mistake.says):
        mistake.call(kit)
    assert kit.a.await_subscribed("/here", timeout=limit())
    kit.a.publish("/here", mistake.name)
    assert kit.subscriber.get(limit()).data == mistake.name
    assert kit.clone.await_idle(limit())
    assert kit.clone.get("k") == 1


def test_a_put_that_is_refused_puts_nothing(kit) -> None:
    for wrong in (-1, "x"):
        with pytest.raises((TypeError, ValueError), match="timeout="):
            kit.store.put_unique(f"unique {wrong}", 1, timeout=wrong)
        assert not kit.store.exists(f"unique {wrong}")


def test_each_reader_of_a_subscriber_keeps_to_its_own_time_limit() -> None:
    with blocking.Endpoint() as endpoint, endpoint.subscribe("/t", local=True) as subscriber:
        got: queue.SimpleQueue[object] = queue.SimpleQueue()
        reader = threading.Thread(target=lambda: got.put(subscriber.get()))
        reader.start()
        while not subscriber._is_waiting:
            threading.Event().wait(0.001)
        with pytest.raises(TimeoutError):
            subscriber.get(0.01)
        assert subscriber.poll() == []
        endpoint.publish("/t", 1)
        assert got.get(timeout=limit()) == ("/t", 1)
        reader.join(limit())


def make(call: OddCall, kit: SimpleNamespace) -> threading.Thread:
    """Make an odd call in a thread, and wait for it only for a moment."""

    def run() -> None:
        try:
            call.on(kit)
        except AssertionError:
            raise
        except Exception:
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(CALL_SECONDS)
    return thread


@settings(max_examples=settings.default.max_examples // 2)
@given(calls=st.lists(odd_calls(METHODS), min_size=1, max_size=10))
def test_no_argument_kills_a_neighbour(calls: list[OddCall]) -> None:
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        heard = right.subscribe("/innocent")
        assert left.peer("127.0.0.1", right.listen(), timeout=limit())
        with blocking_handles() as kit:
            threads = []
            for number, call in enumerate(calls):
                threads.append(make(call, kit))
                left.publish("/innocent", number)
                assert heard.get(limit()).data == number, call
        for call, thread in zip(calls, threads, strict=True):
            thread.join(limit())
            assert not thread.is_alive(), f"the end of its endpoint did not end {call}"
