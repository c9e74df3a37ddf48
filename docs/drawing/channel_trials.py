"""Tries the two ends of a channel out: every state, everything that may come, and what it leads to.

The channels have no table of transitions that one could read: their states follow from counters.
So each cell of a table here is a real producer or consumer, brought into a state and given one
message; what it did is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from channels import (
    ConsumeEach,
    Consumer,
    ConsumerMessage,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Heartbeat,
    Nack,
    Producer,
    ProducerMessage,
    RetransmitFailed,
    UnknownConsumer,
)
from channels.config import DEFAULT_CONFIG
from wire.errors import ErrorCode, MeshError

EPOCH: Final = 7
OFFSET: Final = 10
"""The first event that the consumer of a trial is to see is the next one."""

INTERVAL_TICKS: Final = DEFAULT_CONFIG.heartbeat_interval_ticks
SILENCE_TICKS: Final = INTERVAL_TICKS * DEFAULT_CONFIG.connection_timeout_factor
CLONE: Final = "clone"


class Trial(NamedTuple):
    """What came of one trial."""

    before: str
    trigger: str
    after: str
    done: tuple[str, ...]
    """What was sent, and which callbacks were called; each once."""


class _Notes:
    """The backend of both ends: it writes down what happens to it."""

    def __init__(self) -> None:
        self.done: dict[str, None] = {}

    def note(self, what: str) -> None:
        self.done[what] = None


class _ConsumerNotes(_Notes, ConsumeEach[str]):
    def consume(self, consumer: Consumer[str], payload: str) -> None:
        self.note("`consume`")

    def send(self, consumer: Consumer[str], message: ConsumerMessage) -> None:
        self.note(f"sends {type(message).__name__}")

    def consume_nil(self, consumer: Consumer[str]) -> ErrorCode | None:
        self.note("`consume_nil`")
        return None

    def close(self, consumer: Consumer[str], reason: ErrorCode) -> None:
        self.note(f"`close({reason.name})`")


class _ProducerNotes(_Notes):
    def send(
        self, producer: Producer[str, str], handle: str, message: ProducerMessage[str]
    ) -> None:
        self.note(f"sends {type(message).__name__}")

    def broadcast(self, producer: Producer[str, str], message: ProducerMessage[str]) -> None:
        self.note(f"broadcasts {type(message).__name__}")

    def drop(self, producer: Producer[str, str], handle: str, reason: ErrorCode) -> None:
        self.note(f"`drop({reason.name})`")

    def handshake_completed(self, producer: Producer[str, str], handle: str) -> None:
        self.note("`handshake_completed`")


def _ticks(end: Producer[str, str] | Consumer[str], count: int) -> None:
    for _ in range(count):
        end.tick()


# The consumer.

CONSUMER_STATES: Final = ("Waiting", "Current", "Behind", "Closed")


def _consumer_state(consumer: Consumer[str]) -> str:
    if consumer.is_closed:
        return "Closed"
    if not consumer.is_connected:
        return "Waiting"
    return "Current" if consumer.is_idle else "Behind"


def _consumer_in(state: str) -> tuple[Consumer[str], _ConsumerNotes]:
    notes = _ConsumerNotes()
    consumer: Consumer[str] = Consumer(notes)
    if state != "Waiting":
        consumer.receive(Handshake(EPOCH, OFFSET, INTERVAL_TICKS))
    if state == "Behind":
        consumer.receive(Event(EPOCH, OFFSET + 2, ("later",)))
    consumer.tick()  # what was consumed to get here is no progress of the trial
    if state == "Closed":
        consumer.stop()
    assert _consumer_state(consumer) == state, (state, consumer)
    notes.done.clear()
    return consumer, notes


def _takes(message: ProducerMessage[str]) -> Callable[[Consumer[str]], None]:
    return lambda consumer: consumer.receive(message)


CONSUMER_TRIGGERS: Final[dict[str, Callable[[Consumer[str]], None]]] = {
    "Handshake": _takes(Handshake(EPOCH, OFFSET, INTERVAL_TICKS)),
    "next Event": _takes(Event(EPOCH, OFFSET + 1, ("next",))),
    "later Event": _takes(Event(EPOCH, OFFSET + 3, ("later",))),
    "Heartbeat of an unseen event": _takes(Heartbeat(EPOCH, OFFSET + 3)),
    "RetransmitFailed of the next": _takes(RetransmitFailed(EPOCH, OFFSET + 1)),
    "UnknownConsumer": _takes(UnknownConsumer(EPOCH)),
    "anything of a newer epoch": _takes(Heartbeat(EPOCH + 1, OFFSET)),
    f"{DEFAULT_CONFIG.nack_timeout_ticks} ticks without progress": (
        lambda consumer: _ticks(consumer, DEFAULT_CONFIG.nack_timeout_ticks)
    ),
    f"{SILENCE_TICKS} ticks of silence": lambda consumer: _ticks(consumer, SILENCE_TICKS),
    "stop()": Consumer.stop,
}


def consumer_trials() -> list[Trial]:
    """Try everything in every state."""
    trials = []
    for trigger, act in CONSUMER_TRIGGERS.items():
        for state in CONSUMER_STATES:
            consumer, notes = _consumer_in(state)
            buffered = consumer.statistics().buffered
            act(consumer)
            if consumer.statistics().buffered > buffered:
                notes.note("keeps it")
            trials.append(Trial(state, trigger, _consumer_state(consumer), tuple(notes.done)))
    return trials


# The producer, and what it knows of one consumer.

PRODUCER_STATES: Final = ("Unknown", "Pending", "Current", "Behind")


def _path_state(producer: Producer[str, str]) -> str:
    if CLONE not in producer.handles:
        return "Unknown"
    acknowledged = producer.acknowledged(CLONE)
    if acknowledged is None:
        return "Pending"
    return "Current" if acknowledged == producer.sequence else "Behind"


def _producer_in(state: str) -> tuple[Producer[str, str], _ProducerNotes]:
    notes = _ProducerNotes()
    producer: Producer[str, str] = Producer(notes, epoch=EPOCH, sequence=OFFSET)
    if state != "Unknown":
        producer.add(CLONE)
    if state in ("Current", "Behind"):
        producer.receive(CLONE, CumulativeAck(EPOCH, OFFSET))
    if state == "Behind":
        producer.produce("one")
        producer.produce("two")
    assert _path_state(producer) == state, (state, producer)
    notes.done.clear()
    return producer, notes


def _hears(
    message: Callable[[Producer[str, str]], ConsumerMessage],
) -> Callable[[Producer[str, str]], None]:
    return lambda producer: producer.receive(CLONE, message(producer))


PRODUCER_TRIGGERS: Final[dict[str, Callable[[Producer[str, str]], None]]] = {
    "add()": lambda producer: producer.add(CLONE),
    "add(after) of an event that is gone": lambda producer: producer.add(CLONE, OFFSET - 1),
    "produce()": lambda producer: producer.produce("event"),
    "HandshakeRequest": _hears(lambda producer: HandshakeRequest(EPOCH)),
    "CumulativeAck of the latest event": _hears(
        lambda producer: CumulativeAck(EPOCH, producer.sequence)
    ),
    "Nack of the latest event": _hears(lambda producer: Nack(EPOCH, (producer.sequence,))),
    "anything of another epoch": _hears(lambda producer: CumulativeAck(EPOCH - 1, OFFSET)),
    f"{INTERVAL_TICKS} ticks": lambda producer: _ticks(producer, INTERVAL_TICKS),
    f"{SILENCE_TICKS} ticks of silence": lambda producer: _ticks(producer, SILENCE_TICKS),
    "discard()": lambda producer: producer.discard(CLONE),
}


def producer_trials() -> list[Trial]:
    """Try everything with a consumer in every state."""
    trials = []
    for trigger, act in PRODUCER_TRIGGERS.items():
        for state in PRODUCER_STATES:
            producer, notes = _producer_in(state)
            try:
                act(producer)
            except MeshError as error:
                notes.note(f"raises {type(error).__name__}")
            trials.append(Trial(state, trigger, _path_state(producer), tuple(notes.done)))
    return trials


def in_rows(trials: Sequence[Trial], states: Sequence[str]) -> list[list[str]]:
    """Arrange trials in a table: a row for each trigger, a column for each state."""
    rows: dict[str, list[str]] = {}
    for trial in trials:
        rows.setdefault(trial.trigger, [trial.trigger]).append(_cell(trial))
    assert all(len(row) == 1 + len(states) for row in rows.values()), rows
    return list(rows.values())


def _cell(trial: Trial) -> str:
    words = "; ".join(trial.done)
    if trial.after == trial.before:
        return words or "ignored"
    return f"→ {trial.after}" + (f"; {words}" if words else "")
