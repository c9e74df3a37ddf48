"""What a handle asks of its store: numbered requests, in as few actions as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stores.actions import (
    AddCommand,
    BatchCommand,
    ClearCommand,
    EraseCommand,
    Guard,
    Initial,
    PutCommand,
    PutUniqueCommand,
    Step,
    SubtractCommand,
    WriterId,
)
from stores.judgement import Request
from stores.limits import (
    BATCH_COUNT_MAX,
    BATCH_SIZE_MAX,
    KEY_SIZE_MAX,
    LIFE_END,
    RUN_COUNT_MAX,
    RUN_SIZE_MAX,
    VALUE_SIZE_MAX,
)
from wire.encoding import encode
from wire.errors import InvalidData
from wire.values import Value

_Kind = type[PutCommand | AddCommand | SubtractCommand | EraseCommand]
_Form = tuple[_Kind, Initial | None, int | None]
"""What the requests of a run have in common: command, initial type, and expiry in ns."""

_PUT: Final[_Form] = (PutCommand, None, None)
_ERASE: Final[_Form] = (EraseCommand, None, None)

_ITEMS_MAX: Final = 2 * RUN_COUNT_MAX
"""Keys and operands of a run."""


class Requests:
    """Turns calls into actions: consecutive ones of the same form become one.

    Each call gives the request number under which a ``Resolve`` effect tells its outcome. All
    raise ``InvalidData`` for what is too large, before anything is numbered. ``expiry_ns`` is a
    span from now, or a session: see ``stores.lives``.
    """

    def __init__(self, writer: WriterId, perform: Callable[[Request], None]) -> None:
        """Hand every complete action to ``perform``."""
        self.writer = writer
        self.last_request = 0
        """The number given last; zero before the first."""
        self.is_sealed = True
        """True if nothing is being gathered."""
        self.size = 0
        """Bytes of the keys and values in the action that was handed over last."""
        self._perform = perform
        self._form = _PUT
        self._items: list[bytes] = []
        """What is being gathered: keys and operands in turn, or only keys to erase."""
        self._size = 0

    def serve(self, perform: Callable[[Request], None]) -> None:
        """Hand every action to another owner from now on: the handle's store changed its role."""
        self.seal()
        self._perform = perform

    def put(self, key: bytes, value: bytes, expiry_ns: int | None = None) -> int:
        """Set a key."""
        form = _PUT if expiry_ns is None else (PutCommand, None, expiry_ns)
        return self._gather(form, key, value)

    def add(
        self, key: bytes, operand: bytes, initial: Initial, expiry_ns: int | None = None
    ) -> int:
        """Add to what is stored, or to ``initial`` if there is nothing."""
        return self._gather((AddCommand, initial, expiry_ns), key, operand)

    def subtract(self, key: bytes, operand: bytes, expiry_ns: int | None = None) -> int:
        """Take away from what is stored."""
        return self._gather((SubtractCommand, None, expiry_ns), key, operand)

    def erase(self, key: bytes) -> int:
        """Remove a key, present or not."""
        size = self._size + len(key)
        if self._form is not _ERASE or size > RUN_SIZE_MAX or len(self._items) >= RUN_COUNT_MAX:
            size = self._begin(_ERASE, key, b"")
        self._items.append(key)
        self.is_sealed = False
        self._size = size
        self.last_request += 1
        return self.last_request

    def put_unique(self, key: bytes, value: bytes, expiry_ns: int | None = None) -> int:
        """Set a key if it is absent; the outcome says whether it was."""
        size = _check_sizes(key, value)
        _check_expiry(expiry_ns)
        return self._ask(PutUniqueCommand(self.writer, self._next(), expiry_ns, key, value), size)

    def clear(self) -> int:
        """Remove everything."""
        return self._ask(ClearCommand(self.writer, self._next()))

    def batch(
        self,
        guards: Sequence[Guard],
        steps: Sequence[Step],
        otherwise: Sequence[Step] | None = None,
    ) -> int:
        """Do all steps as one mutation if all guards hold, and the others if not.

        Without others nothing is done then, and the outcome is ``GuardFailed``.
        """
        others = () if otherwise is None else tuple(otherwise)
        if max(len(guards), len(steps), len(others)) > BATCH_COUNT_MAX or not (steps or others):
            raise InvalidData(f"a batch has 1 to {BATCH_COUNT_MAX} steps, and no more guards")
        size = 0
        for guard in guards:
            size += _check_sizes(guard.key, guard.value or b"")
        for step in (*steps, *others):
            size += _check_sizes(step.key, step.operand or b"")
            _check_expiry(step.expiry_ns)
        if size > BATCH_SIZE_MAX:
            raise InvalidData(f"a batch of {size} bytes: at most {BATCH_SIZE_MAX} travel at once")
        kept = None if otherwise is None else others
        number = self._next()
        return self._ask(BatchCommand(self.writer, number, tuple(guards), tuple(steps), kept), size)

    def seal(self) -> None:
        """Hand over what was gathered."""
        if not self._items:
            return
        items, self._items = self._items, []
        self.is_sealed = True
        self.size, self._size = self._size, 0
        kind, initial, expiry_ns = self._form
        count = len(items) if kind is EraseCommand else len(items) // 2
        first = self.last_request + 1 - count
        if kind is PutCommand:
            self._perform(PutCommand(self.writer, first, expiry_ns, items))
        elif kind is EraseCommand:
            self._perform(EraseCommand(self.writer, first, items))
        elif initial is None:
            self._perform(SubtractCommand(self.writer, first, expiry_ns, items))
        else:
            self._perform(AddCommand(self.writer, first, expiry_ns, initial, items))

    # -- steps -----------------------------------------------------------------------------------

    def _gather(self, form: _Form, key: bytes, operand: bytes) -> int:
        size = self._size + len(key) + len(operand)
        is_full = size > RUN_SIZE_MAX or len(self._items) >= _ITEMS_MAX
        if is_full or (self._form is not form and self._form != form):
            size = self._begin(form, key, operand)
        self._items += (key, operand)
        self.is_sealed = False
        self._size = size
        self.last_request = request = self.last_request + 1
        return request

    def _begin(self, form: _Form, key: bytes, operand: bytes) -> int:
        """Start a run, and give the size of its first request."""
        size = _check_sizes(key, operand)
        if form[2] is not None:
            _check_expiry(form[2])
        self.seal()
        self._form = form
        return size

    def _next(self) -> int:
        """Number an action of its own; what was gathered goes before it."""
        self.seal()
        self.last_request += 1
        return self.last_request

    def _ask(self, action: Request, size: int = 0) -> int:
        self.size = size
        self._perform(action)
        return self.last_request


def encode_key(key: Value) -> bytes:
    """Encode a key that is looked for; raises ``InvalidData`` for one that no store takes."""
    encoded = encode(key)
    _check_key(encoded)
    return encoded


def _check_key(key: bytes) -> None:
    if len(key) > KEY_SIZE_MAX:
        raise InvalidData(f"a key of {len(key)} bytes: at most {KEY_SIZE_MAX} are possible")


def _check_sizes(key: bytes, value: bytes) -> int:
    """Give the size of both together."""
    _check_key(key)
    if len(value) > VALUE_SIZE_MAX:
        raise InvalidData(
            f"a value of {len(value)} bytes: at most {VALUE_SIZE_MAX} travel at once; put larger"
            " ones under several keys"
        )
    return len(key) + len(value)


def _check_expiry(expiry_ns: int | None) -> None:
    if expiry_ns is not None and not 0 <= expiry_ns < LIFE_END:
        raise InvalidData(f"an expiry of {expiry_ns} ns: it is a span from now, up to 290 years")
