"""The data model: what can be published and stored, and the two containers that are received.

Received values are immutable and hashable. Lists come back as ``tuple``, sets as ``Set``, dicts as
``Table``. The latter two compare by typed identity: ``1``, ``True``, ``1.0`` and ``Count(1)`` are
four different keys. Identity is the deterministic encoding, so that all NaNs are one key. They go
through their elements and keys in Broker's order, type first and then by value; they are sorted
when that is first wanted.
"""

from __future__ import annotations

from collections.abc import (
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Set as AbstractSet,
    ValuesView,
)
from typing import Any, Final, cast

from wire.encoding import encode
from wire.errors import EncodeError
from wire.order import in_order, place_inside
from wire.public import public
from wire.scalars import Count, Enum, Port, PortProtocol, Timespan, Timestamp, Value

__all__ = [
    "Count",
    "Enum",
    "Port",
    "PortProtocol",
    "Set",
    "Table",
    "Timespan",
    "Timestamp",
    "Value",
    "freeze",
]

_TEXT: Final = frozenset({str, bytes})
"""Types whose own equality is the typed identity, and whose hashes are keyed. Those of others, such
as integers and tuples, a peer can choose so that a dict of them takes quadratic time to fill."""

_MIXED: Final[frozenset[type]] = frozenset()


def _plain_kinds(keys: Iterable[Any]) -> frozenset[type]:
    """Give the types of the keys if a dict may take them as they are, which saves encoding them."""
    return _TEXT if _TEXT.issuperset(map(type, keys)) else _MIXED


def _identity(key: object) -> bytes | None:
    """Give the encoding of a key; what has none is in no container."""
    try:
        return encode(cast("Value", key))
    except EncodeError:
        return None


_NAN: Final = float("nan")


def _with_one_nan(value: Any) -> Any:  # noqa: ANN401 - any value goes in, and comes out
    """Put one object for every NaN. They are one key, but Python hashes each by its address."""
    if type(value) is float and value != value:
        return _NAN
    return tuple(map(_with_one_nan, value)) if type(value) is tuple else value


@public
class Set(AbstractSet[Any]):
    """An immutable set of values with typed identity: it can hold 1, True and 1.0 at once.

    Equals every set of the same typed elements, and hashes like a frozenset of them.
    """

    __slots__ = ("_elements", "_identities", "_is_sorted", "_kinds", "_plain")

    _elements: tuple[Any, ...]
    _is_sorted: bool
    """Whether the elements are in their order already."""
    _kinds: frozenset[type]
    """The types of elements that ``_plain`` tells apart; empty if it cannot."""
    _plain: frozenset[Any]
    _identities: frozenset[bytes] | None

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        """Take the elements in, frozen. Raises ``EncodeError``."""
        self._fill(tuple({encode(element): freeze(element) for element in elements}.values()))

    @classmethod
    def received(cls, elements: tuple[Any, ...]) -> Set:
        """Wrap elements that were decoded; raises ``ValueError`` on a duplicate."""
        if not elements:
            return _EMPTY_SET
        self = cls.__new__(cls)
        self._fill(elements)
        if len(self._plain if self._kinds else self._index()) != len(elements):
            raise ValueError("a set holds an element twice")
        return self

    def _fill(self, elements: tuple[Any, ...]) -> None:
        self._kinds = _plain_kinds(elements)
        self._elements = elements if self._kinds else tuple(map(_with_one_nan, elements))
        self._plain = frozenset(elements) if self._kinds else frozenset()
        self._identities = None
        self._is_sorted = len(elements) < 2

    def _index(self) -> frozenset[bytes]:
        if self._identities is None:
            self._identities = frozenset(map(encode, self._elements))
        return self._identities

    @classmethod
    def _from_iterable(cls, elements: Iterable[Any]) -> Set:
        # The operators of the base class make their results with this.
        return cls(elements)

    def __contains__(self, element: object) -> bool:
        """Tell whether exactly this element is in the set, type included."""
        if type(element) in self._kinds:
            return element in self._plain
        return _identity(element) in self._index()

    def __iter__(self) -> Iterator[Any]:
        """Iterate the elements in their order."""
        if not self._is_sorted:
            self._elements = tuple(in_order(self._elements))
            self._is_sorted = True
        return iter(self._elements)

    def __len__(self) -> int:
        """Count the elements."""
        return len(self._elements)

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is a set of the same typed elements."""
        if not isinstance(other, AbstractSet):
            return NotImplemented
        return len(self) == len(other) and self._index() == {_identity(item) for item in other}

    def __hash__(self) -> int:
        """Hash like the frozenset of the elements, which may be equal."""
        return self._hash()  # the base class has frozenset's algorithm, without its hash table

    def __repr__(self) -> str:
        """Show what to paste to get this set back."""
        return f"Set({list(self)!r})"

    def __reduce__(self) -> tuple[type[Set], tuple[tuple[Any, ...]]]:
        """Pickle and copy by the elements."""
        return Set, (self._elements,)


class _Items(ItemsView[Any, Any]):
    """The items of a table, found without looking each key up: that would encode it."""

    __slots__ = ("_table",)

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._table.sorted_pairs())


class _Values(ValuesView[Any]):
    """The values of a table, found without looking each key up."""

    __slots__ = ("_table",)

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._table.sorted_pairs())


@public
class Table(Mapping[Any, Any]):
    """An immutable table with typed keys: it can hold the keys 1, True and 1.0 at once.

    Equals every mapping of the same typed keys to the same typed values.
    """

    __slots__ = ("_is_sorted", "_items", "_kinds", "_typed")

    _items: Mapping[Any, Any]
    """The whole table, unless its keys have no kinds."""
    _is_sorted: bool
    """Whether the items are in the order of their keys already."""
    _kinds: frozenset[type]
    """The types of keys that ``_items`` tells apart; empty if it cannot."""
    _typed: dict[bytes | None, tuple[Any, Any]] | None
    """Keys and values by the encoding of the key; made when it is needed."""

    def __init__(self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        """Take the items in, frozen; of equal keys the last one counts. Raises ``EncodeError``."""
        pairs = items.items() if isinstance(items, Mapping) else items
        distinct = {}
        for key, value in pairs:
            encode(value)  # refuses what has no place in a table, such as the table itself
            distinct[encode(key)] = (freeze(key), freeze(value))
        self._fill(list(distinct.values()))

    @classmethod
    def received(cls, pairs: list[tuple[Any, Any]]) -> Table:
        """Wrap items that were decoded; raises ``ValueError`` on a duplicate."""
        self = cls.__new__(cls)
        self._fill(pairs)
        if len(self) != len(pairs):
            raise ValueError("a table holds a key twice")
        return self

    @classmethod
    def received_map(cls, items: Mapping[Any, Any], _is_immutable: object) -> Table:
        """Wrap a map that was decoded, whose keys are known to be text or bytes, and distinct.

        Called by cbor2 for each map, so that it does no more than it has to.
        """
        if not items:
            return _EMPTY_TABLE
        self = cls.__new__(cls)
        self._items = items
        self._kinds = _TEXT
        self._typed = None
        self._is_sorted = False
        return self

    def _fill(self, pairs: list[tuple[Any, Any]]) -> None:
        self._kinds = _plain_kinds(key for key, _ in pairs)
        self._items = dict(pairs) if self._kinds else {}
        self._typed = None if self._kinds else {encode(pair[0]): pair for pair in pairs}
        self._is_sorted = len(self) < 2

    def _index(self) -> dict[bytes | None, tuple[Any, Any]]:
        if self._typed is None:
            self._typed = {encode(key): (key, value) for key, value in self._items.items()}
        return self._typed

    # What a table holds is for its user to know, as with any mapping that is read from somewhere.
    def __getitem__(self, key: object) -> Any:  # noqa: ANN401
        """Give the value of exactly this key, type included; raises ``KeyError``."""
        if type(key) in self._kinds:
            return self._items[key]
        pair = self._index().get(_identity(key))
        if pair is None:
            raise KeyError(key)
        return pair[1]

    def __iter__(self) -> Iterator[Any]:
        """Iterate the keys in their order."""
        return (key for key, _ in self.sorted_pairs())

    def __len__(self) -> int:
        """Count the items."""
        return len(self._items) if self._kinds else len(self._index())

    def pairs(self) -> Collection[tuple[Any, Any]]:
        """Give the keys with their values, in no order, for those that look at all of them."""
        return self._items.items() if self._kinds else self._index().values()

    def sorted_pairs(self) -> Collection[tuple[Any, Any]]:
        """Give the keys with their values, in the order of the keys."""
        if not self._is_sorted:
            if self._kinds:
                items = self._items
                self._items = {key: items[key] for key in in_order(items)}
            else:
                typed = self._index().items()
                self._typed = dict(
                    sorted(typed, key=lambda item: place_inside(item[1][0], item[0]))
                )
            self._is_sorted = True
        return self.pairs()

    def items(self) -> ItemsView[Any, Any]:
        """View the keys with their values, in the order of the keys."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """View the values, in the order of the keys."""
        return _Values(self)

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is a mapping of the same typed keys to the same typed values."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return len(self) == len(other) and encode(self) == _identity(other)

    def __hash__(self) -> int:
        """Hash the encoding, which is what equality compares."""
        return hash(encode(self))

    def __repr__(self) -> str:
        """Show what to paste to get this table back."""
        pairs = self.sorted_pairs()
        return f"Table({dict(pairs) if self._kinds else list(pairs)!r})"

    def __reduce__(self) -> tuple[type[Table], tuple[list[tuple[Any, Any]]]]:
        """Pickle and copy by the items."""
        return Table, (list(self.pairs()),)


def freeze(value: Value) -> Value:
    """Give a value with its containers made immutable, as a receiver would get it."""
    if isinstance(value, (str, bytes, int, float, Set, Table)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(freeze, value))
    if isinstance(value, Mapping):
        return Table(value)
    if isinstance(value, AbstractSet):
        return Set(value)
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


_EMPTY_SET: Final = Set()
"""The one that is received: a peer can pack sixteen million into a payload."""

_EMPTY_TABLE: Final = Table()
