"""Readers are told of what came once for each read from the network, and of the last of it."""

from __future__ import annotations

from collections.abc import Callable

import trio

from endpoint.link.rates import PeerRates, Rates
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.readers import FULL_READS_MAX, Readers
from net.transport import RECEIVE_SIZE
from peermesh import Endpoint
from peermesh.testing.simulation import Simulation, elapse, simulate
from peermesh.testing.time_limits import limit
from wire.codec import encode_header
from wire.framing import encode_single
from wire.messages import NodeHeader, PackedType


class Listener:
    """A reader that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def wake(self, more_follows: bool) -> None:
        self.told.append(more_follows)

    def ready_count(self) -> int:
        return 0

    def end(self) -> None:
        pass


def put(readers: Readers, mailbox: Mailbox) -> None:
    readers.note(mailbox)
    mailbox.put(("t",), b"\1", b"", [b"x"], 1, False)


def test_a_reader_is_told_once_of_all_that_came_with_one_read():
    readers, mailbox, reader, other = Readers(), Mailbox(), Listener(), Listener()
    readers.add(mailbox, reader)
    readers.add(Mailbox(), other)
    put(readers, mailbox)
    put(readers, mailbox)
    readers.tell(more_follows=False)
    readers.tell(more_follows=False)
    assert reader.told == [False]
    assert not other.told


def test_a_reader_that_was_told_of_more_is_told_when_no_more_comes():
    readers, mailbox, reader = Readers(), Mailbox(), Listener()
    readers.add(mailbox, reader)
    put(readers, mailbox)
    readers.tell(more_follows=True)
    readers.tell(more_follows=True)
    readers.tell(more_follows=False)
    assert reader.told == [True, True, False]


def test_who_reads_something_rare_does_not_wait_for_a_busy_link():
    readers, mailbox, reader = Readers(), Mailbox(), Listener()
    readers.add(mailbox, reader)
    put(readers, mailbox)
    for _ in range(FULL_READS_MAX + 1):
        readers.tell(more_follows=True)
    assert reader.told == [True] * (FULL_READS_MAX - 1) + [False]


def test_who_left_is_not_told():
    readers, mailbox, reader = Readers(), Mailbox(), Listener()
    readers.add(mailbox, reader)
    put(readers, mailbox)
    readers.remove(mailbox)
    readers.tell(more_follows=False)
    assert not reader.told


class Closer(Listener):
    """A reader in whose hands the network breaks, while it waits for more."""

    def __init__(self, break_off: Callable[[], None]) -> None:
        super().__init__()
        self._break_off = break_off

    def wake(self, more_follows: bool) -> None:
        super().wake(more_follows=more_follows)
        if more_follows:
            self._break_off()


async def test_a_reader_waits_for_nothing_that_is_not_read_on():
    with trio.fail_after(limit()):
        async with Endpoint() as left, Endpoint() as right:
            assert await right.peer("127.0.0.1", await left.listen(), timeout=limit())
            assert await left.await_peer(right.node_id(), timeout=limit())
            (peering,) = left.loop.peerings.values()
            connection, readers = peering.connection, left.loop.readers
            connection.transport.has_more = True
            mailbox, reader = Mailbox(), Listener()
            left.loop.add_reader(mailbox, reader, ["t"])
            put(readers, mailbox)
            assert not left.loop.settle(connection)
            assert reader.told == [True]
            connection.rates = PeerRates(Rates(announcements_per_second=1))
            connection.rates.hear_news(trio.current_time(), 1_000)
            assert left.loop.settle(connection) > 0
            assert reader.told == [True, False]
            connection.rates, connection.is_open = None, False
            put(readers, mailbox)
            assert not left.loop.settle(connection)
            assert reader.told == [True, False, False]
            connection.is_open, connection.transport.has_more = True, False


def hear_a_full_read(make: Callable[[Endpoint], Listener]) -> list[list[bool]]:
    """Let readers hear of a message that takes just one read, and of its end; by many seeds."""

    async def main(simulation: Simulation) -> list[bool]:
        near, far = simulation.host("near"), simulation.host("far")
        with near:
            left = Endpoint()
        with far:
            right = Endpoint()
        async with left, right:
            mailbox, reader = Mailbox(), make(left)
            left.loop.add_reader(mailbox, reader, ["t"])
            assert await right.peer(near.address, await left.listen(near.address), retry=0)
            header = encode_header(NodeHeader(PackedType.BYTES, right.node_id(), None, "t"))
            rest = len(encode_single(right.node_id(), header, 1, 0, b""))
            await right.publish("t", bytes(RECEIVE_SIZE - rest))
            with trio.fail_after(1):  # The next ping would end the wait, too.
                while not reader.told or reader.told[-1]:
                    await elapse(0.01)
        return reader.told

    stories = [simulate(main, seed=seed) for seed in range(20)]
    assert [True, False] in stories
    return stories


def test_a_reader_hears_the_end_of_a_read_that_was_just_full():
    hear_a_full_read(lambda _: Listener())


def test_a_reader_hears_that_the_network_broke_while_it_waited_for_more():
    hear_a_full_read(lambda left: Closer(left.loop.abort))
