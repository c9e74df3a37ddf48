"""What may never happen, watched as it happens: messages, and what a store shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wire.encoding import encode
from wire.values import Value


class Broken(Exception):  # a fact about what is tested, which ends the run
    """A promise was broken. The text says which, by whom, and what was seen."""


class Stuck(Broken):  # liveness: what should have happened has not
    """Nothing is wrong any more, and still it does not become right."""


class Author(NamedTuple):
    """One life of one member."""

    node: int
    life: int


@dataclass(slots=True)
class Reading:
    """What one subscriber of one life has got from one author."""

    last: int = -1
    seen: set[int] = field(default_factory=set)


class Messages:
    """Who published what, and who got it."""

    def __init__(self, *, is_ordered: bool, is_near: Callable[[int, int], bool]) -> None:
        """``is_ordered`` if nothing can overtake; ``is_near`` tells who is within the TTL."""
        self.is_ordered = is_ordered
        self._is_near = is_near
        self._published: dict[Author, list[str]] = {}
        self._readings: dict[tuple[Author, Author], Reading] = {}
        self.delivered = 0

    def publish(self, author: Author, topic: str) -> int:
        """Note that somebody publishes; give the message's number."""
        topics = self._published.setdefault(author, [])
        topics.append(topic)
        return len(topics) - 1

    @property
    def published(self) -> int:
        """Count the messages."""
        return sum(map(len, self._published.values()))

    def deliver(self, reader: Author, topic: str, author: Author, number: int) -> None:
        """Note that a message came; raises ``Broken`` if it should not have, or not now."""
        what = f"message {number} of {author} came to {reader}"
        topics = self._published.get(author, [])
        if number >= len(topics) or topics[number] != topic:
            raise Broken(f"made up: {what} on topic {topic!r}")
        if author == reader:
            raise Broken(f"came back: {what}")
        if not self._is_near(author.node, reader.node):
            raise Broken(f"outlived its TTL: {what}")
        reading = self._readings.setdefault((reader, author), Reading())
        if number in reading.seen:
            raise Broken(f"came twice: {what}")
        if self.is_ordered and number < reading.last:
            raise Broken(f"out of order: {what} after {reading.last}")
        reading.seen.add(number)
        reading.last = max(number, reading.last)
        self.delivered += 1

    def has(self, reader: Author, author: Author, number: int) -> bool:
        """Tell whether a message came."""
        reading = self._readings.get((reader, author))
        return reading is not None and number in reading.seen


class Log:
    """The history of a master, as prefixes: what any replica may show."""

    def __init__(self) -> None:
        """Begin empty."""
        self.entries: list[tuple[int, bytes, bytes | None]] = []
        """Revision, key and value; of a removal, the revision before it, which is all one knows."""
        self.revision = 0

    def change(self, key: bytes, value: bytes | None, revision: int | None) -> None:
        """Note what the master made visible, in its order."""
        if revision is not None:
            if revision < self.revision:
                raise Broken(f"the master went back from revision {self.revision} to {revision}")
            self.revision = revision
        self.entries.append((self.revision, key, value))

    def begin(self, table: Mapping[bytes, tuple[bytes, int]], revision: int) -> None:
        """A master starts with what its disk had kept: what nobody was told may be in it."""
        if revision < self.revision:
            raise Broken(
                f"the master came back with revision {revision}; it had told {self.revision}"
            )
        known = self.state(revision)
        for key in known.keys() - table.keys():
            self.entries.append((self.revision, key, None))
        fresh = [(at, key, value) for key, (value, at) in table.items() if known.get(key) != value]
        for at, key, value in sorted(fresh):
            self.entries.append((max(at, self.revision), key, value))
        self.revision = revision

    def state(self, revision: int) -> dict[bytes, bytes]:
        """Give the table at the end of a revision."""
        table: dict[bytes, bytes] = {}
        for at, key, value in self.entries:
            if at <= revision:
                _set(table, key, value)
        return table

    def explains(self, revision: int, table: Mapping[bytes, bytes]) -> bool:
        """Tell whether a replica at this revision may look like this.

        Which revision a removal has is not known, but that it has one of its own: after it.
        """
        latest = max((at for at, _, _ in self.entries if at <= revision), default=0)
        state: dict[bytes, bytes] = {}
        for at, key, value in self.entries:
            if at == latest and value is None and state == table:
                return True
            if at <= latest:
                _set(state, key, value)
        return state == table


def _set(table: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


TOTAL: Final = "total"
"""The key that everybody increments by one."""

BRIEF: Final = "brief/"
"""How keys begin that expire."""

HALVES: Final = ("left", "right")
"""The keys that are always set together, by a batch."""

JOURNAL: Final = "journal"
"""The key of a vector to which everybody appends tokens of his own."""


@dataclass(slots=True)
class Asked:
    """One mutation that somebody asked for."""

    author: Author
    number: int
    kind: str
    is_applied: bool = False
    is_unknown: bool = False
    """Whether its store went away first."""


class Store:
    """What was asked of a store, what it answered, and what its replicas showed."""

    def __init__(self) -> None:
        """Begin empty."""
        self.log = Log()
        self.is_volatile = False
        """Whether a master in memory was killed, or a clone promoted: then what was acknowledged
        may be lost. That all agree, and that nothing is there twice, is promised still."""
        self._asked: list[Asked] = []
        self._revisions: dict[Hashable, int] = {}
        self._shown: dict[tuple[int, frozenset[tuple[bytes, bytes]]], Hashable] = {}

    def ask(self, author: Author, kind: str) -> Asked:
        """Note a mutation before it is asked for."""
        asked = Asked(author, len(self._asked), kind)
        self._asked.append(asked)
        return asked

    @property
    def applied(self) -> int:
        """Count the mutations that were acknowledged."""
        return sum(asked.is_applied for asked in self._asked)

    def open(self, author: Author) -> list[Asked]:
        """Give what a life asked for and has no answer to."""
        return [
            asked
            for asked in self._asked
            if asked.author == author and not asked.is_applied and not asked.is_unknown
        ]

    def show(self, replica: Hashable, revision: int, table: Mapping[bytes, bytes]) -> None:
        """Note what a replica shows; raises ``Broken`` if it went back."""
        left, right = (table.get(encode(half)) for half in HALVES)
        if left != right:
            raise Broken(f"half a batch: {replica} shows {left!r} and {right!r}")
        before = self._revisions.get(replica, 0)
        if revision < before and not self.is_volatile:
            raise Broken(f"went back: {replica} showed revision {before}, and shows {revision}")
        self._revisions[replica] = revision
        self._shown.setdefault((revision, frozenset(table.items())), replica)

    def check_prefixes(self) -> None:
        """Raise ``Broken`` if a replica showed what the master never was."""
        for (revision, items), replica in self._shown.items():
            if not self.is_volatile and not self.log.explains(revision, dict(items)):
                raise Broken(f"no prefix: {replica} at revision {revision} showed {sorted(items)}")

    def check_kept(self, table: Mapping[bytes, bytes], journal: tuple[Value, ...]) -> None:
        """Raise ``Broken`` if what was acknowledged is not in the master's last state."""
        for asked in [] if self.is_volatile else self._asked:
            if asked.kind == "put" and asked.is_applied and _own_key(asked) not in table:
                raise Broken(f"acknowledged and lost: {asked}")
        self._check_total(table)
        self._check_journal(journal)

    def _check_total(self, table: Mapping[bytes, bytes]) -> None:
        increments = [asked for asked in self._asked if asked.kind == "increment"]
        applied = 0 if self.is_volatile else sum(asked.is_applied for asked in increments)
        possible = len(increments)
        kept = table.get(encode(TOTAL), encode(0))
        if kept not in [encode(number) for number in range(applied, possible + 1)]:
            raise Broken(
                f"of {possible} increments {applied} are acknowledged, and the sum is "
                f"encoded as {kept.hex()}"
            )

    def _check_journal(self, journal: tuple[Value, ...]) -> None:
        pushed = [asked for asked in self._asked if asked.kind == "push"]
        lost = [asked for asked in pushed if asked.is_applied and asked.number not in journal]
        if lost and not self.is_volatile:
            raise Broken(f"acknowledged, and not in the journal: {lost[0]}")
        authors = {asked.number: asked.author for asked in pushed}
        last: dict[Author, int] = {}
        for number in journal:
            author = authors.get(number) if isinstance(number, int) else None
            if author is None or not isinstance(number, int):
                raise Broken(f"nobody pushed {number!r}, and it is in the journal")
            if number <= last.get(author, -1):
                raise Broken(f"{author} pushed {number} once, and the journal is {journal}")
            last[author] = number


class GroupStore(Store):
    """The same of a store that a group keeps: each replica may lead, and no master knows all."""

    def __init__(self) -> None:
        """Start with no revision known."""
        super().__init__()
        self._meanings: dict[tuple[int, bytes], bytes] = {}

    def change(self, key: bytes, value: bytes, revision: int) -> None:
        """Note what a replica says that a revision made of a key; raises ``Broken``."""
        known = self._meanings.setdefault((revision, key), value)
        if known != value:
            raise Broken(f"revision {revision} of {key!r} was {known!r}, and is {value!r}")

    def check_prefixes(self) -> None:
        """Raise ``Broken`` if two replicas, or two lives of one, differed at one revision."""
        known: dict[int, frozenset[tuple[bytes, bytes]]] = {}
        for (revision, items), replica in self._shown.items():
            if known.setdefault(revision, items) != items:
                differing = sorted(known[revision] ^ items)
                raise Broken(f"two states of revision {revision}: {replica} shows {differing}")


def own_key(asked: Asked) -> Value:
    """Give the key that only this mutation sets."""
    return f"{asked.author.node}/{asked.author.life}/{asked.number}"


def brief_key(asked: Asked) -> Value:
    """Give the key that this mutation sets for a moment."""
    return f"{BRIEF}{asked.number}"


def is_brief(name: Value) -> bool:
    """Tell whether a key was set to expire."""
    return isinstance(name, str) and name.startswith(BRIEF)


def _own_key(asked: Asked) -> bytes:
    return encode(own_key(asked))
