"""A registry client's requests: which are carried out together, and which wait for others."""

from __future__ import annotations

import pytest
import trio

from peermesh.brokers.edge import request_queue
from peermesh.brokers.edge.messages import Ask
from peermesh.brokers.edge.request_queue import AT_ONCE_MAX, REQUESTS_MAX, RequestQueue
from wire.errors import RemoteProtocolError


def queue_of(*asked: tuple[str, str]) -> RequestQueue:
    queue = RequestQueue()
    for operation, path in asked:
        queue.add(Ask(0, operation, path, ""))
    return queue


def begin(queue: RequestQueue) -> list[Ask]:
    """Give all that may begin."""
    return list(iter(queue.next, None))


def test_different_nodes_are_served_at_once_and_one_node_is_read_by_many() -> None:
    asked = [("register", "/a/1"), ("read", "/b"), ("read", "/b"), ("watch", "/c")]
    assert len(begin(queue_of(*asked))) == 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("register", "unregister"),
        ("register", "read"),
        ("read", "register"),
        ("watch", "unwatch"),
        ("read", "write"),
        ("remove", "read"),
        ("claim", "claim"),
        ("children", "register"),
        ("what is this", "read"),
    ],
)
def test_requests_for_one_node_are_in_order(first: str, second: str) -> None:
    queue = queue_of((first, "/a"), (second, "/a"), ("read", "/b"))
    [begun] = begin(queue)
    assert begun.operation == first
    queue.end(begun)
    assert begin(queue)[0].operation == second


@pytest.mark.parametrize("operation", ["write", "remove", "claim", "children"])
def test_what_may_concern_every_node_is_done_alone(operation: str) -> None:
    queue = queue_of(("read", "/b"), (operation, "/a"), ("read", "/c"))
    for expected in ["read", operation, "read"]:
        [begun] = begin(queue)
        assert begun.operation == expected
        queue.end(begun)


def test_so_many_are_carried_out_at_once_and_no_more() -> None:
    queue = queue_of(*[("read", f"/{number}") for number in range(AT_ONCE_MAX + 2)])
    begun = begin(queue)
    assert len(begun) == AT_ONCE_MAX
    queue.end(begun[0])
    assert len(begin(queue)) == 1


def test_too_many_requests_without_an_answer_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(*[("read", "/a")] * REQUESTS_MAX)
    begin(queue)  # What is carried out counts until its end.
    with pytest.raises(RemoteProtocolError, match="wait for answers"):
        queue.add(Ask(0, "read", "/a", ""))
    monkeypatch.setattr(request_queue, "REQUESTS_SIZE_MAX", 100)
    small = queue_of(("read", "/" + "a" * 90))
    assert len(begin(small)) == 1
    with pytest.raises(RemoteProtocolError, match="wait for answers"):
        small.add(Ask(0, "read", "/a", ""))


class Passes(trio.abc.Instrument):
    """Counts how often all tasks had their turn."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_a_thousand_answers_take_few_turns_of_all_tasks(kit) -> None:
    """On a busy machine a turn takes tenths of a second where there are many connections."""
    passes = Passes()
    async with kit.world() as world:
        await world.registry.write("/topics/a", "null")
        trio.lowlevel.add_instrument(passes)
        async with trio.open_nursery() as nursery:
            for number in range(1_000):
                nursery.start_soon(world.registry.read, f"/topics/{number % 5}")
        trio.lowlevel.remove_instrument(passes)
    assert passes.count < 200
