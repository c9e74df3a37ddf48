"""The broker's side of one consumer's connection (seed: Consumer, Client).

One message is in flight at a time. A valid ``PUBREC`` is made durable before ``PUBREL`` is said:
after it the consumer will never get that message again, whoever crashes.

Until a consumer has logged in, its first mistake ends the connection; afterwards a person may
mistype.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from peermesh.brokers.qos2.commands import (
    IDS,
    INVALID,
    LENGTHS,
    STUFFED,
    ConsumerCommand,
    Login,
    Nack,
    PubComp,
    PubRec,
    Subscribe,
    Unsubscribe,
    parse_consumer_line,
)
from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.foreign import is_http_request
from peermesh.brokers.qos2.limits import MISTAKES_MAX, TOPICS_OF_CONSUMER_MAX, Pace
from peermesh.brokers.qos2.lines import can_be_plain, digest, lines_of, plain_digests, stuff
from peermesh.brokers.qos2.steps import (
    HTTP_REFUSED,
    STRANGER_REFUSED,
    Bury,
    Close,
    Commit,
    Delivery,
    Enter,
    Fetch,
    Open,
    Send,
    Steps,
    Wait,
)

SILENT: Final = (Send(b"ERROR SILENT FOR TOO LONG\n"), Close("it was silent"))
"""How a consumer is cut that says nothing."""


class Phase(Enum):
    """What becomes of the message in flight."""

    IDLE = "there is none"
    SENT = "PUBREC is awaited"
    PAUSED = "it will be sent again"
    COMMITTING = "it is made durable that the consumer has it"
    RELEASED = "PUBCOMP is awaited"
    BURYING = "it is made a dead letter"


class ConsumerSession:
    """Lines, messages and what became durable in; steps out."""

    def __init__(self, pace: Pace) -> None:
        """Begin before the first line."""
        self._pace = pace
        self._login: Login | None = None
        self._entering: Login | None = None
        self._opening: str | None = None
        self._topics: dict[str, None] = {}
        self._fetch = 0
        self._phase = Phase.IDLE
        self._delivery: Delivery | None = None
        self._released: str | None = None
        self._failures = 0
        self._repetitions = 0
        self._is_silent = False
        self._mistakes = 0

    @property
    def is_busy(self) -> bool:
        """Whether lines have to wait until something is durable."""
        return (
            self._entering is not None
            or self._opening is not None
            or self._phase in (Phase.COMMITTING, Phase.BURYING)
        )

    @property
    def name(self) -> str | None:
        """Under which name it has logged in."""
        return None if self._login is None else self._login.name

    @property
    def topics(self) -> tuple[str, ...]:
        """What it is subscribed to."""
        return tuple(self._topics)

    @property
    def body_size(self) -> int | None:
        """Consumers send lines only."""
        return None

    @property
    def held_size(self) -> int:
        """Consumers send no bodies."""
        return 0

    def abandon(self) -> None:
        """Nothing of a consumer is unfinished but its line."""

    def start(self) -> Steps:
        """Begin to wait for a line."""
        return [Wait(self._pace.silence_seconds)]

    # What the client says.

    def receive(self, line: bytes) -> Steps:
        """Take in a line."""
        assert not self.is_busy
        if not line.strip():
            return []  # The transcript has empty lines between its parts.
        if is_http_request(line):
            return [*HTTP_REFUSED]
        try:
            command = parse_consumer_line(line, has_ids=self._has(IDS))
            steps = self._on_command(command)
        except DialogueError as error:
            steps = self._wrong(str(error))
            return steps if self._login is not None else [*steps, STRANGER_REFUSED]
        self._mistakes = 0
        return [*steps, *self._await_line()]

    def _await_line(self) -> Steps:
        """Who has subscriptions may be silent as long as nothing is sent to him."""
        if self._phase is not Phase.IDLE:
            return []
        return [Wait(None if self._topics or self.is_busy else self._pace.silence_seconds)]

    def _on_command(self, command: ConsumerCommand) -> Steps:
        match command:
            case PubRec():
                return self._on_pubrec(command)
            case PubComp():
                return self._on_pubcomp(command)
            case Nack():
                return self._on_nack(command)
            case Login():
                return self._on_login(command)
            case Subscribe():
                return self._on_subscribe(command)
            case Unsubscribe():
                return self._on_unsubscribe(command)

    def _on_login(self, login: Login) -> Steps:
        if self._login is not None:
            raise DialogueError("LOGGED IN ALREADY")
        self._entering = login
        return [Enter(login)]

    def entered(self) -> Steps:
        """Go on: nobody else is this consumer."""
        self._login, self._entering = self._entering, None
        return [*self._answer(self._login.options if self._login else ()), *self._await_line()]

    def _answer(self, words: tuple[str, ...]) -> Steps:
        """Say ``OK``; the old dialogue has no such answers."""
        return [Send(f"OK {' '.join(words)}\n".encode())] if self._has(IDS) else []

    def _on_subscribe(self, command: Subscribe) -> Steps:
        self._require_login()
        if len(self._topics) >= TOPICS_OF_CONSUMER_MAX and command.topic not in self._topics:
            raise DialogueError(f"{TOPICS_OF_CONSUMER_MAX} TOPICS AT MOST")
        self._opening = command.topic
        return [Open(command.topic)]

    def opened(self) -> Steps:
        """Go on: the topic can be read."""
        topic, self._opening = self._opening, None
        assert topic is not None
        self._topics[topic] = None
        return [*self._answer(("SUBSCRIBE", topic)), *self._await_line(), *self._look_again()]

    def _on_unsubscribe(self, command: Unsubscribe) -> Steps:
        """Stop reading a topic; a message of it that is in flight is still dealt with."""
        self._require_login()
        self._topics.pop(command.topic, None)
        return [*self._answer(("UNSUBSCRIBE", command.topic)), *self._look_again()]

    def _require_login(self) -> None:
        if self._login is None:
            raise DialogueError("LOGIN FIRST")

    def _on_pubrec(self, command: PubRec) -> Steps:
        if command.id is not None and command.id == self._released:
            return [Send(f"PUBREL id={command.id}\n".encode())]  # it was sent twice
        delivery = self._in_flight(command.id)
        if command.digest not in self._digests(delivery):
            if self._phase is Phase.RELEASED:
                raise DialogueError(INVALID)
            return self._fail("the MD5 of PUBREC was another")
        if self._phase is Phase.RELEASED:  # It was sent twice, and so acknowledged twice.
            return [Send(self._say("PUBREL", delivery))]
        self._phase = Phase.COMMITTING
        return [Wait(None), Commit(delivery)]

    def _digests(self, delivery: Delivery) -> frozenset[str]:
        if self._has(LENGTHS):
            return frozenset((digest(delivery.payload),))
        return plain_digests(delivery.payload)  # in lines, the last end may be ours

    def _on_pubcomp(self, command: PubComp) -> Steps:
        if command.id is not None and command.id != self._released:
            raise DialogueError("NO MESSAGE")
        if self._phase is Phase.RELEASED:
            return self._finish()
        if command.id is None:
            raise DialogueError(INVALID)
        return []  # PUBREL was said twice

    def _on_nack(self, command: Nack) -> Steps:
        self._in_flight(command.id)
        if self._phase is Phase.RELEASED:
            raise DialogueError("RELEASED ALREADY")
        return self._fail(command.reason, is_final=command.is_final)

    def _in_flight(self, message_id: str | None) -> Delivery:
        delivery = self._delivery
        if delivery is None or (message_id is not None and message_id != delivery.id):
            raise DialogueError("NO MESSAGE")
        return delivery

    # What the broker's parts say.

    def fetched(self, number: int, delivery: Delivery) -> Steps:
        """Send the next message, if this is what was asked for last."""
        if number != self._fetch or self._phase is not Phase.IDLE or self.is_busy:
            return []
        self._delivery = delivery
        if not self._has(LENGTHS) and not self._has(STUFFED) and not can_be_plain(delivery.payload):
            return self._bury("it has a line END, which the dialogue without options cannot carry")
        return self._send()

    def committed(self) -> Steps:
        """Go on: it is durable that the consumer has it."""
        assert self._delivery is not None
        self._phase = Phase.RELEASED
        self._released = self._delivery.id
        self._repetitions = 0
        pause = Wait(self._pace.acknowledge_seconds)
        return [Send(self._say("PUBREL", self._delivery)), pause]

    def buried(self) -> Steps:
        """Go on: it is a dead letter."""
        steps = self._finish()
        return [*steps, *(SILENT if self._is_silent else self._await_line())]

    def refused(self, reason: str) -> Steps:
        """Go on: the consumer may not enter, or the topic not be opened."""
        self._entering = self._opening = None
        return [*self._wrong(reason), *self._look_again()]

    def lost(self, reason: str) -> Steps:
        """End: what should be durable is not, or another session has taken over."""
        return [Send(f"ERROR {reason}\n".encode()), Close(reason)]

    def timer_elapsed(self) -> Steps:
        """Resend, or cut somebody who says nothing."""
        match self._phase:
            case Phase.PAUSED:
                return self._send()
            case Phase.SENT:
                self._is_silent = self._failures >= self._pace.resends_max
                return self._fail(f"no PUBREC in {self._pace.acknowledge_seconds:g} s")
            case Phase.RELEASED if self._repetitions < self._pace.resends_max:
                assert self._delivery is not None
                self._repetitions += 1
                pause = Wait(self._pace.acknowledge_seconds)
                return [Send(self._say("PUBREL", self._delivery)), pause]
        return [*SILENT]

    # Steps.

    def _send(self) -> Steps:
        delivery = self._delivery
        assert delivery is not None
        self._phase = Phase.SENT
        return [Send(self._write(delivery)), Wait(self._pace.acknowledge_seconds)]

    def _write(self, delivery: Delivery) -> bytes:
        payload, words = delivery.payload, ["BEGIN", delivery.topic]
        if self._has(IDS):
            words.append(f"id={delivery.id}")
        if self._has(LENGTHS):
            words.append(f"length={len(payload)}")
            body = payload + b"\n"
        else:
            body = stuff(payload) if self._has(STUFFED) else b"".join(lines_of(payload))
        return " ".join(words).encode() + b"\n" + body + b"END\n"

    def _fail(self, reason: str, *, is_final: bool = False) -> Steps:
        """Try again later, or give up."""
        self._failures += 1
        if is_final or self._failures > self._pace.resends_max:
            return self._bury(reason)
        self._phase = Phase.PAUSED
        return [Wait(self._pace.pause(self._failures))]

    def _bury(self, reason: str) -> Steps:
        assert self._delivery is not None
        self._phase = Phase.BURYING
        return [Wait(None), Bury(self._delivery, reason, self._failures)]

    def _finish(self) -> Steps:
        self._delivery = None
        self._failures = 0
        self._phase = Phase.IDLE
        return self._look_again()

    def _look_again(self) -> Steps:
        """Ask for the next message, of the topics that are subscribed to now."""
        if self._phase is not Phase.IDLE:
            return []
        self._fetch += 1
        return [Fetch(self._fetch, tuple(self._topics))]

    def _wrong(self, reason: str) -> Steps:
        self._mistakes += 1
        steps: Steps = [Send(f"ERROR {reason}\n".encode()), *self._await_line()]
        if self._mistakes >= MISTAKES_MAX:
            steps.append(Close("it made nothing but mistakes"))
        return steps

    def _say(self, word: str, delivery: Delivery) -> bytes:
        return f"{word} id={delivery.id}\n".encode() if self._has(IDS) else f"{word}\n".encode()

    def _has(self, option: str) -> bool:
        return self._login is not None and option in self._login.options
