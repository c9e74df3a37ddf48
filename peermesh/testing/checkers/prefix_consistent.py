"""``prefix_consistent``: what a replica shows is always some past state of its master.

Needs ``Commit`` observations of the master, in its order, and operations ``get``, ``exists`` and
``items`` with the replicas as their nodes. Changes with one revision become visible together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from peermesh.testing.checkers.verdict import Verdict, broken, held
from peermesh.testing.history import Ending, History, HistoryError, Operation
from peermesh.testing.observations import Commit, Found
from wire.encoding import encode
from wire.scalars import Value
from wire.values import Table

PROMISE: Final = "prefix_consistent"
READS: Final = ("get", "exists", "items")


def prefix_consistent(history: History, nodes: Iterable[str]) -> Verdict:
    """Tell whether all reads at each node fit to ever longer prefixes of the commits.

    A read is matched with the shortest prefix that explains it, and that is no shorter than what
    earlier reads at its node have seen; reads at one time may see different ones. ``items`` has a
    table of everything as its result. Raises ``HistoryError`` if revisions do not grow.
    """
    commits = _Commits(history)
    count = 0
    for node in nodes:
        reads = [each for each in history.operations() if _is_read(each, node)]
        count += len(reads)
        verdict = _check_node(node, reads, commits)
        if verdict is not None:
            return verdict
    return held(PROMISE, f"{count} reads fit to growing prefixes of {commits.end} mutations")


def _is_read(operation: Operation, node: str) -> bool:
    return operation.node == node and operation.name in READS and operation.ending is Ending.OK


def _check_node(node: str, reads: list[Operation], commits: _Commits) -> Verdict | None:
    # Reads in the order of their ends; each sees at least what those before its beginning saw.
    ends: list[int] = []
    floors: list[tuple[int, Operation | None]] = []
    for read in sorted(reads, key=lambda each: each.last):
        before = bisect_left(ends, read.first)
        floor, witness = floors[before - 1] if before else (0, None)
        place = commits.find(read, floor)
        if place is None:
            return _explain(node, read, floor, witness, commits)
        ends.append(read.last)
        highest = floors[-1] if floors else (0, None)
        floors.append(max(highest, (place, read), key=lambda pair: pair[0]))
    return None


def _explain(
    node: str, read: Operation, floor: int, witness: Operation | None, commits: _Commits
) -> Verdict:
    if commits.find(read, 0) is None:
        text = f"{node} shows what never was the state of its master"
        return broken(PROMISE, text, [read, *commits.of_key(read)])
    text = f"{node} went back: it had seen {floor} mutations or more, and shows an earlier state"
    return broken(PROMISE, text, [*([witness] if witness else []), read, *commits.of_key(read)])


class _Commits:
    """The states that the master went through."""

    def __init__(self, history: History) -> None:
        self.end = 0
        self._keys: dict[bytes, list[tuple[int, bytes | None]]] = {}
        """For each key: after how many mutations it got which value."""
        self._changes: list[dict[bytes, bytes | None]] = [{}]
        revision: int | None = None
        for _, _, commit in history.seen(Commit):
            if revision is None or commit.revision > revision:
                self.end += 1
                self._changes.append({})
            elif commit.revision < revision:
                raise HistoryError(f"{commit} comes after revision {revision}: commits are ordered")
            revision = commit.revision
            self._take(encode(commit.key), _encoded(commit.after))

    def _take(self, key: bytes, value: bytes | None) -> None:
        self._changes[self.end][key] = value
        states = self._keys.setdefault(key, [(0, None)])
        if states[-1][0] == self.end:
            states[-1] = (self.end, value)
        else:
            states.append((self.end, value))

    def find(self, read: Operation, floor: int) -> int | None:
        """Give the first place from the floor on where a read fits; ``None`` if there is none."""
        if read.name == "items":
            return self._find_items(_table(read.result), floor)
        wanted = _encoded(read.result)
        states = self._keys.get(encode(read.arguments[0]), [(0, None)])
        first = max(0, bisect_left(states, floor + 1, key=lambda state: state[0]) - 1)
        for place, value in states[first:]:
            found = value if read.name == "get" else encode(value is not None)
            if found == wanted:
                return max(place, floor)
        return None

    def _find_items(self, wanted: dict[bytes, bytes], floor: int) -> int | None:
        state: dict[bytes, bytes] = {}
        for place, changes in enumerate(self._changes):
            for key, value in changes.items():
                if value is None:
                    state.pop(key, None)
                else:
                    state[key] = value
            if place >= floor and state == wanted:
                return place
        return None

    def of_key(self, read: Operation) -> list[str]:
        """Tell what the key of a read went through."""
        if not read.arguments:
            return []
        states = self._keys.get(encode(read.arguments[0]), [])
        places = ", ".join(str(place) for place, _ in states[-10:])
        return [f"this key was changed by the mutations {places} of the master"] if states else []


def _encoded(found: Found) -> bytes | None:
    return encode(found[0]) if found else None


def _table(result: Found) -> dict[bytes, bytes]:
    items: Value = result[0] if result else None
    if not isinstance(items, Table):
        raise HistoryError(f"the result of items is a table, not {items!r}")
    return {encode(key): encode(value) for key, value in items.items()}
