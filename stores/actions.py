"""What one can ask of a store, and what the master tells that was done: the channels' payloads.

Keys and values stay encoded here: they are bytes from the writer's handle to the reader's, and
equal bytes are equal typed values (``wire.encoding``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from wire.errors import ErrorCode
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId, EntityId

WRITER_ID_SIZE: Final = ENDPOINT_ID_SIZE + 8 + 8


class WriterId(bytes):
    """Who writes: an entity, and which of its lives; 32 bytes, so that it hashes like bytes.

    Request numbers count within one life. A process that starts again under its old endpoint id
    therefore is another writer, and its first request is not taken for a repeated one.
    """

    __slots__ = ()

    @classmethod
    def of(cls, entity: EntityId, incarnation: int) -> WriterId:
        """Join the parts; object and incarnation are below 2**64."""
        numbers = entity.object.to_bytes(8, "big") + incarnation.to_bytes(8, "big")
        return cls(entity.endpoint + numbers)

    @property
    def entity(self) -> EntityId:
        """The master or clone whose handle was used."""
        number = int.from_bytes(self[ENDPOINT_ID_SIZE : ENDPOINT_ID_SIZE + 8], "big")
        return EntityId(EndpointId(self[:ENDPOINT_ID_SIZE]), number)

    @property
    def incarnation(self) -> int:
        """Which life of the entity."""
        return int.from_bytes(self[-8:], "big")

    def __repr__(self) -> str:
        """Show the entity and the life."""
        return f"<WriterId {self.entity} life {self.incarnation}>"


# -- actions: the payloads of the channels ---------------------------------------------------------
#
# ``expiry_ns`` means a span from now in what a writer sends, and an instant of the master's clock
# in what the master broadcasts. ``request`` numbers what one writer asked for.


# None is frozen, though none is changed: like all that is built for every message, it would take
# three times as long.
@dataclass(slots=True)
class PutCommand:
    """Sets one or more keys; each pair has the next request number and the next revision."""

    writer: WriterId
    request: int | None
    """The first pair's number. ``None`` if a ``PutUniqueResultCommand`` answers the request."""
    expiry_ns: int | None
    """The same for all pairs."""
    pairs: Sequence[bytes]
    """Key, value, key, value, and so on: one flat list is decoded three times as fast as pairs.

    Kept as a tuple: the collector of cycles forgets a tuple of bytes when it first sees it, and
    goes through a list each time. Journals and histories keep a million pairs.
    """
    encoded: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """The bytes that it came in, until they are written into a journal's entry."""

    def __post_init__(self) -> None:
        """Take a list as the tuple that is kept."""
        if type(self.pairs) is list:
            self.pairs = tuple(self.pairs)


@dataclass(slots=True)
class PutUniqueCommand:
    """Sets a key if it is absent."""

    writer: WriterId
    request: int
    expiry_ns: int | None
    key: bytes
    value: bytes


@dataclass(slots=True)
class PutUniqueResultCommand:
    """Tells the writer whether its put_unique came first. Raises no revision."""

    writer: WriterId
    request: int
    is_inserted: bool


@dataclass(slots=True)
class EraseCommand:
    """Removes one or more keys, missing or not; each has its own request number and revision."""

    writer: WriterId
    request: int
    keys: Sequence[bytes]


@dataclass(slots=True)
class ExpireCommand:
    """Tells that the master's clock removed these keys; each has its own revision."""

    keys: Sequence[bytes]


class Initial(IntEnum):
    """What an addition to a missing key starts from (Broker's init type)."""

    NUMBER = 0
    """Zero of the operand's type; the epoch of time for a timespan."""
    TEXT = 1
    """The empty string, or empty bytes if the operand is bytes."""
    SET = 2
    TABLE = 3
    VECTOR = 4


@dataclass(slots=True)
class AddCommand:
    """Adds to whatever is stored, under one or more keys: see ``stores.operations``.

    Each has the next request number; one may fail and the next succeed.
    """

    writer: WriterId
    request: int
    expiry_ns: int | None
    initial: Initial
    pairs: Sequence[bytes]
    """Key, operand, key, operand, and so on."""


@dataclass(slots=True)
class SubtractCommand:
    """Takes away from whatever is stored, under one or more keys: see ``stores.operations``.

    Each has the next request number; one may fail and the next succeed.
    """

    writer: WriterId
    request: int
    expiry_ns: int | None
    pairs: Sequence[bytes]
    """Key, operand, key, operand, and so on."""


@dataclass(slots=True)
class ClearCommand:
    """Removes everything, as one mutation."""

    writer: WriterId
    request: int


class GuardKind(IntEnum):
    """What a batch may insist on."""

    ABSENT = 0
    EXISTS = 1
    VALUE = 2
    REVISION = 3


@dataclass(slots=True)
class Guard:
    """One condition of a batch, on one key."""

    kind: GuardKind
    key: bytes
    value: bytes | None = None
    """What has to be stored, encoded, if the kind is ``VALUE``."""
    revision: int | None = None
    """Which mutation has to be the key's latest, if the kind is ``REVISION``."""


class StepKind(IntEnum):
    """What a batch may do; the numbers are those of the commands that do it alone."""

    PUT = 1
    ERASE = 4
    ADD = 6
    SUBTRACT = 7


@dataclass(slots=True)
class Step:
    """One operation of a batch; it sees what the steps before it did."""

    kind: StepKind
    key: bytes
    operand: bytes | None = None
    """The value to put, add or subtract; ``None`` to erase."""
    initial: Initial | None = None
    """Where an addition starts; ``None`` for all others."""
    expiry_ns: int | None = None


@dataclass(slots=True)
class BatchCommand:
    """One mutation: all of the steps if the guards hold, all of the others if one does not."""

    writer: WriterId
    request: int
    guards: tuple[Guard, ...]
    steps: tuple[Step, ...]
    otherwise: tuple[Step, ...] | None
    """What happens if a guard does not hold; ``None`` makes that an error."""


@dataclass(slots=True)
class Change:
    """What became of one key in a batch."""

    key: bytes
    value: bytes | None
    """``None`` if it was erased."""
    expiry_ns: int | None


@dataclass(slots=True)
class BatchResultCommand:
    """What a batch did, for clones to do in one step; all keys get one revision."""

    writer: WriterId
    request: int
    has_held: bool
    """Whether all guards held, and these are the changes of the steps for that."""
    changes: tuple[Change, ...]


@dataclass(slots=True)
class RefusalCommand:
    """Tells the writer that its request failed and changed nothing. Raises no revision."""

    writer: WriterId
    request: int
    code: ErrorCode
    text: str


Action = (
    PutCommand
    | PutUniqueCommand
    | PutUniqueResultCommand
    | EraseCommand
    | ExpireCommand
    | AddCommand
    | SubtractCommand
    | ClearCommand
    | BatchCommand
    | BatchResultCommand
    | RefusalCommand
)
"""What travels as a payload."""


def request_range(action: Action) -> tuple[int, int] | None:
    """Give the first and the last request that an action is, or answers; ``None`` if there is none.

    The numbers are those of the action's writer.
    """
    if isinstance(action, (PutCommand, AddCommand, SubtractCommand)):
        first = action.request
        return None if first is None else (first, first + len(action.pairs) // 2 - 1)
    if isinstance(action, EraseCommand):
        return action.request, action.request + len(action.keys) - 1
    if isinstance(action, ExpireCommand):
        return None
    return action.request, action.request


ACTION_SIZE: Final = 100
"""Bytes that an action takes besides its keys and values, roughly."""


def size_of(action: Action) -> int:
    """Give the bytes of an action that has not been encoded, roughly."""
    size = ACTION_SIZE
    if isinstance(action, PutCommand):
        size += sum(map(len, action.pairs))
    elif isinstance(action, BatchResultCommand):
        for change in action.changes:
            size += len(change.key) + len(change.value or b"")
    return size
