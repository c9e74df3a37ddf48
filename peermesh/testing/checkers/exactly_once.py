"""``exactly_once``: what was accepted reaches every consumer, and reaches it once.

Needs operations ``send(message)`` and ``Delivered`` observations of the consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from peermesh.testing.checkers.verdict import Verdict, broken, held
from peermesh.testing.history import Ending, History, Operation, Seen
from peermesh.testing.observations import Delivered
from wire.encoding import encode

PROMISE: Final = "exactly_once"
SEND: Final = "send"


def exactly_once(history: History, consumers: Iterable[str]) -> Verdict:
    """Tell whether each consumer got each message as often as it was sent, at the end.

    A send of unknown outcome may arrive, once. One that failed must not. Equal messages that were
    sent several times are counted.
    """
    sends = _Sends(history)
    arrivals: dict[str, dict[bytes, list[str]]] = {}
    for place, event, delivered in history.seen(Delivered):
        message = encode(delivered.message)
        if sends.begun_before(message, place) < 1:
            text = f"{event.process} got a message that nobody had sent by then"
            return broken(PROMISE, text, [_told(event, delivered)])
        of_process = arrivals.setdefault(event.process, {})
        of_process.setdefault(message, []).append(_told(event, delivered))
    names = sorted(set(consumers))
    for name in names:
        verdict = _check_consumer(name, sends, arrivals.get(name, {}))
        if verdict is not None:
            return verdict
    return held(PROMISE, f"{sends.count} messages reached {len(names)} consumers once each")


class _Sends:
    """How often each message was sent, for certain and at most."""

    def __init__(self, history: History) -> None:
        self.operations: dict[bytes, list[Operation]] = {}
        self.certain: Counter[bytes] = Counter()
        self.most: Counter[bytes] = Counter()
        for operation in history.operations():
            if operation.name == SEND:
                message = encode(operation.arguments[0])
                self.operations.setdefault(message, []).append(operation)
                self.certain[message] += operation.ending is Ending.OK
                self.most[message] += operation.ending is not Ending.FAILED
        self.count = sum(self.certain.values())

    def begun_before(self, message: bytes, place: int) -> int:
        sends = self.operations.get(message, ())
        return sum(operation.first < place for operation in sends)


def _check_consumer(name: str, sends: _Sends, arrived: dict[bytes, list[str]]) -> Verdict | None:
    for message, operations in sends.operations.items():
        came = arrived.get(message, [])
        if len(came) < sends.certain[message]:
            text = f"{name} got {len(came)} of {sends.certain[message]}: lost"
            return broken(PROMISE, text, [*operations, *came])
        if len(came) > sends.most[message]:
            what = "was refused, and came" if not sends.most[message] else "came too often"
            return broken(PROMISE, f"a message {what}, to {name}", [*operations, *came])
    return None


def _told(event: Seen, delivered: Delivered) -> str:
    return f"{event.at:g} s {event.process}: delivered {delivered.message!r}"
