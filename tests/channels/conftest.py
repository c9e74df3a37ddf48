"""Backends that write down what happens, and a small world with a link that misbehaves."""

from __future__ import annotations

import pytest

from channels import (
    ChannelConfig,
    ConsumeEach,
    Consumer,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Nack,
    Producer,
)

EVERYBODY = None


class RecordingProducerBackend:
    def __init__(self):
        self.sent = []
        self.dropped = []
        self.completed = []

    def send(self, producer, handle, message):
        self.sent.append((handle, message))

    def broadcast(self, producer, message):
        self.sent.append((EVERYBODY, message))

    def drop(self, producer, handle, reason):
        self.dropped.append((handle, reason))

    def handshake_completed(self, producer, handle):
        self.completed.append(handle)

    def take(self):
        """Everything sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


class RecordingConsumerBackend(ConsumeEach):
    def __init__(self):
        self.consumed = []
        self.sent = []
        self.closed = []
        self.nil_error = None
        self.stop_at = object()

    def consume(self, consumer, payload):
        self.consumed.append(payload)
        if payload == self.stop_at:
            consumer.stop()

    def send(self, consumer, message):
        self.sent.append(message)

    def consume_nil(self, consumer):
        self.consumed.append("?")
        if self.stop_at == "?":
            consumer.stop()
        return self.nil_error

    def close(self, consumer, reason):
        self.closed.append(reason)

    def take(self):
        """Everything sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


class Member:
    """One consumer of the world, with all that it was given."""

    def __init__(self, world, handle, epoch_min):
        self.world = world
        self.handle = handle
        self.consumer = Consumer(self, config=world.config, epoch_min=epoch_min)
        self.consumed = []
        self.closed = None

    def consume_run(self, consumer, payloads):
        for sequence, payload in enumerate(payloads, consumer.next_sequence):
            self.consumed.append((sequence, payload))

    def send(self, consumer, message):
        self.world.in_flight.append(("to producer", self.handle, message))

    def consume_nil(self, consumer):
        return self.world.LOST

    def close(self, consumer, reason):
        self.closed = reason


class Journal:
    """A backlog of the owner's own, which forgets what it likes."""

    def __init__(self, first_sequence=2):
        self.first_sequence = first_sequence
        self.events = []

    def payloads(self, first, last):
        assert self.first_sequence <= first <= last < self.first_sequence + len(self.events)
        return self.events[first - self.first_sequence : last + 1 - self.first_sequence]

    def compact(self, count):
        del self.events[:count]
        self.first_sequence += count


class World:
    """One producer at a time, some consumers, and what is on its way between them.

    It keeps a model of its own of what the producer has to remember: see ``check``.
    """

    LOST = "lost an event"

    def __init__(self, config=None, *, has_journal=False):
        self.config = config or ChannelConfig()
        self.has_journal = has_journal
        self.in_flight = []
        self.members = {}
        self.ended = []
        self.joined_count = 0
        self.produced = {}
        self.restart(epoch=1)

    def restart(self, epoch):
        """Replace the producer; the model of the old one goes with it."""
        self.journal = Journal() if self.has_journal else None
        self.producer = Producer(self, epoch=epoch, config=self.config, backlog=self.journal)
        self.produced[epoch] = {}
        self.floors = {}
        self.offsets = {}

    # The producer's backend.

    def send(self, producer, handle, message):
        if isinstance(message, Handshake):
            if handle not in self.floors or self.config.carries_snapshot:
                self.offsets.setdefault(handle, set()).add(message.offset)
            self.floors.setdefault(handle, message.offset)
        self.in_flight.append(("to consumer", handle, message))

    def broadcast(self, producer, message):
        for handle in self.members:
            self.in_flight.append(("to consumer", handle, message))

    def drop(self, producer, handle, reason):
        del self.floors[handle]

    def handshake_completed(self, producer, handle):
        assert handle in self.floors

    # What a test does.

    def join(self, *, producer_first=False, epoch_min=None, after=None):
        self.joined_count += 1
        handle = f"consumer {self.joined_count}"
        member = self.members[handle] = Member(self, handle, epoch_min)
        if producer_first:
            self.producer.add(handle, after)
        else:
            member.consumer.start()
        return handle

    def compact(self, count):
        """Forget the journal's beginning, whether or not a consumer lacks it."""
        self.journal.compact(min(count, len(self.journal.events)))

    def leave(self, handle, *, producer_knows):
        self.members.pop(handle).consumer.stop()
        if producer_knows:
            self.forget(handle)

    def forget(self, handle):
        self.producer.discard(handle)
        self.floors.pop(handle, None)

    def produce(self, count):
        """Produce ``count`` payloads, each unlike all others: one event, or one run."""
        epoch, first = self.producer.epoch, self.producer.sequence + 1
        payloads = [(epoch, sequence) for sequence in range(first, first + count)]
        if self.journal is not None:
            self.journal.events += payloads
        if count == 1:
            self.producer.produce(payloads[0])
        else:
            self.producer.produce_run(payloads)
        if self.floors or self.has_journal:
            self.produced[epoch].update(enumerate(payloads, first))

    def tick(self):
        self.producer.tick()
        for member in list(self.members.values()):
            member.consumer.tick()

    def deliver(self, index=0):
        direction, handle, message = self.in_flight.pop(index)
        if direction == "to producer":
            self._model(handle, message)
            self.producer.receive(handle, message)
        elif handle in self.members:
            self.members[handle].consumer.receive(message)

    def split(self, index, at):
        """Send a run in two messages, as a backend may whose frames are small."""
        direction, handle, message = self.in_flight[index]
        if isinstance(message, Event) and 0 < at < len(message.payloads):
            first, payloads = message.first_sequence, message.payloads
            self.in_flight[index : index + 1] = [
                (direction, handle, Event(message.epoch, first, payloads[:at])),
                (direction, handle, Event(message.epoch, first + at, payloads[at:])),
            ]

    def deliver_all(self):
        while self.in_flight:
            self.deliver()

    def _model(self, handle, message):
        if handle not in self.floors or message.epoch != self.producer.epoch:
            return
        match message:
            case CumulativeAck(sequence=sequence) | Nack(sequences=(sequence, *_)):
                # A nack says that everything before its first number was processed.
                acknowledged = sequence - isinstance(message, Nack)
                if acknowledged <= self.producer.sequence:
                    self.floors[handle] = max(self.floors[handle], acknowledged)
            case HandshakeRequest():
                pass

    def replace_closed(self):
        """Do what an owner does whose consumer was closed: begin anew, under another handle."""
        for handle, member in list(self.members.items()):
            if member.closed is not None:
                del self.members[handle]
                self.ended.append(member)
                self.join(epoch_min=member.consumer.epoch)

    def forget_ghosts(self):
        """Do what an owner does who hears that a member left: no timeout needs to end its path."""
        for handle in self.producer.handles:
            if handle not in self.members:
                self.forget(handle)

    # What has to be true.

    def check(self):
        for member in [*self.members.values(), *self.ended]:
            self._check_delivered_is_a_prefix(member)
        for handle, member in self.members.items():
            acknowledged = self.producer.acknowledged(handle)
            if acknowledged is not None and member.consumer.epoch == self.producer.epoch:
                assert acknowledged < member.consumer.next_sequence
        self._check_buffer_is_what_somebody_lacks()

    def _check_delivered_is_a_prefix(self, member):
        if not member.consumed:
            return
        first_sequence, (epoch, _) = member.consumed[0]
        if epoch == self.producer.epoch:
            assert first_sequence - 1 in self.offsets[member.handle]
        sequences = range(first_sequence, first_sequence + len(member.consumed))
        assert member.consumed == [(number, self.produced[epoch][number]) for number in sequences]

    def _check_buffer_is_what_somebody_lacks(self):
        producer = self.producer
        assert set(producer.handles) == set(self.floors)
        lowest = min(self.floors.values(), default=producer.sequence)
        wanted = range(lowest + 1, producer.sequence + 1)
        assert producer.unacknowledged == len(wanted)
        if self.has_journal:
            assert producer._buffer is None
            assert self.journal.first_sequence + len(self.journal.events) == producer.sequence + 1
            return
        assert producer._buffer.events == [
            self.produced[producer.epoch][number] for number in wanted
        ]

    def check_all_equal(self):
        """Nothing is under way any more: everybody has everything since its own start."""
        assert self.producer.is_idle, self.producer
        assert self.producer.unacknowledged == 0
        assert set(self.producer.handles) == set(self.members)
        for member in self.members.values():
            assert member.consumer.is_idle, member.consumer
            assert member.consumer.statistics().buffered == 0, member.consumer
            assert member.consumer.epoch == self.producer.epoch
            assert member.consumer.next_sequence == self.producer.sequence + 1
            if member.consumed:
                assert member.consumed[-1][0] == self.producer.sequence


@pytest.fixture
def producer_backend():
    return RecordingProducerBackend()


@pytest.fixture
def consumer_backend():
    return RecordingConsumerBackend()


@pytest.fixture
def journal_type():
    return Journal


@pytest.fixture
def world_type():
    return World
