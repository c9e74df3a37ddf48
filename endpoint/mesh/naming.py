"""How endpoints are called where people read of them, and which one a text means. Pure.

A name is for people alone: what an endpoint calls itself proves nothing, and gives no right. What a
certificate of an own authority calls it goes first, with ``MARK`` after it, which nothing that an
endpoint calls itself can contain.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.status import StatusEvent
from endpoint.mesh.topology import Topology
from wire.escaping import escape, is_plain
from wire.identifiers import CERTIFIED_MARK as MARK, DIGITS_MARK, EndpointId, is_id, is_label
from wire.limits import LABEL_SIZE_MAX

DIGITS_MIN: Final = 4
"""Hexadecimal digits of an id that tell endpoints of one name apart: by chance, two of a thousand
share them once in a hundred meshes, and then more digits are written."""

PROGRAM: Final = "python"
"""The name of an endpoint of a program without one, such as an interpreter at a prompt."""

_MAIN: Final = "__main__"
_NO_PROGRAMS: Final = frozenset({"", "-", "-c", "-m"})
"""What ``sys.argv`` begins with where no file is run."""


def program_name(argument: str) -> str:
    """Make the name of an endpoint from the first of ``sys.argv``.

    It is the file's name without ``.py``, with hyphens for what no name may have, and cut.
    """
    path = PurePath(argument)
    name = path.stem if path.suffix == ".py" else path.name
    if name == _MAIN:  # python -m PACKAGE
        name = path.parent.name
    letters = (each if is_label(each) else "-" for each in name)
    cut = "".join(letters).encode()[:LABEL_SIZE_MAX].decode(errors="ignore")
    return cut if argument not in _NO_PROGRAMS and is_label(cut) else PROGRAM


def written(label: str | None, certificate_name: str | None) -> str | None:
    """Write the name of an endpoint as one word; ``None`` if it has none.

    ``certificate_name`` is what a certificate of an own authority calls it. As that may have any
    characters, it is quoted where it would not read as one word.
    """
    if certificate_name is None:
        return label
    is_word = bool(certificate_name) and not set(certificate_name) & _UNQUOTED_NEVER
    if not (is_word and certificate_name.isprintable() and is_plain(certificate_name)):
        certificate_name = json.dumps(certificate_name, ensure_ascii=False)
    return escape(certificate_name) + MARK


_UNQUOTED_NEVER: Final = frozenset(f' "{MARK}{DIGITS_MARK}')


class Names:
    """The names of the endpoints that one endpoint knows."""

    def __init__(self, topology: Topology, authorisation: Authorisation) -> None:
        """Name endpoints by what ``topology`` knows of them, and what is believed of that."""
        self._topology = topology
        self._authorisation = authorisation
        self._index: dict[str, list[EndpointId]] | None = None

    def explain_absence(self, endpoint: EndpointId, reach: Iterable[EndpointId]) -> str:
        """Say in a sentence why ``await_peer`` does not come true; ``reach`` are those in reach."""
        if endpoint in self._topology.announcements:
            return f"endpoint {self.full(endpoint)} has been heard of, but no path to it is known"
        if not self._topology.direct:
            return f"endpoint {endpoint} is unknown: this endpoint has no peers; call peer() first"
        known = ", ".join(map(self.full, reach))
        return f"endpoint {endpoint} is unknown; reachable are: {known}"

    def add_to(self, event: StatusEvent) -> StatusEvent:
        """Give an event with the name of the endpoint that it is about."""
        name = None if event.endpoint is None else self.name(event.endpoint)
        return event if name is None else replace(event, name=name)

    def forget(self) -> None:
        """Look anew who is there and what it is called: announcements, or links, have changed."""
        self._index = None

    def word(self, origin: EndpointId) -> str | None:
        """Give the name of an endpoint, which others may have too; ``None`` if it has none."""
        known = self._topology.announcements.get(origin)
        proven = None
        if self._authorisation.are_names_proven:
            proven = self._authorisation.believed_name(origin, known)
        return written(None if known is None else known.label, proven)

    def name(self, origin: EndpointId) -> str | None:
        """Give the name of an endpoint, with digits of its id if another one here has the same.

        Of two endpoints of one name, one that cannot be reached any more has digits alone.
        """
        word = self.word(origin)
        if word is None:
            return None
        same = self._here().get(word, [])
        at = bisect_left(same, origin)
        digits = origin.hex()
        beside = [each.hex() for each in same[max(at - 1, 0) : at + 2] if each != origin]
        if not beside:
            return word
        shared = max(_shared(digits, each) for each in beside)
        return f"{word}{DIGITS_MARK}{digits[: max(DIGITS_MIN, shared + 1)]}"

    def short(self, origin: EndpointId) -> str:
        """Give what to call an endpoint in a list: its name, or else its id."""
        return self.name(origin) or str(origin)

    def full(self, origin: EndpointId) -> str:
        """Give the name of an endpoint and its id."""
        word = self.word(origin)
        return str(origin) if word is None else f"{word} ({origin})"

    def find(self, text: str) -> list[EndpointId]:
        """Give the endpoints that a text may mean, sorted: none, one, or some to choose from.

        The text is an id, which need not be known; a name, with or without ``MARK`` and digits; or
        ``DIGITS_MIN`` or more first digits of an id. What an endpoint calls itself does not count
        where a certificate has the name.
        """
        if is_id(text):
            return [EndpointId.parse(text)]
        word, mark, digits = text.rpartition(DIGITS_MARK)
        found = {*self._called(text)}
        if mark:
            found.update(each for each in self._called(word) if _begins(each, digits))
        found.update(
            each for each in (self._topology.local, *self._topology.reachable())
            if _begins(each, text)
        )  # fmt: skip
        return sorted(found)

    def others(self) -> list[EndpointId]:
        """Give the other endpoints that can be reached, nearest first."""
        return list(self._topology.reachable())

    def _called(self, word: str) -> list[EndpointId]:
        index = self._here()
        return index.get(word + MARK) or index.get(word) or []

    def _here(self) -> dict[str, list[EndpointId]]:
        """Give the endpoints of each name that can be reached, sorted."""
        if self._index is None:
            self._index = {}
            for each in sorted((self._topology.local, *self._topology.reachable())):
                word = self.word(each)
                if word is not None:
                    self._index.setdefault(word, []).append(each)
        return self._index


def _begins(origin: EndpointId, digits: str) -> bool:
    """Tell whether an id begins with these digits, written with or without its hyphens."""
    digits = digits.lower()
    is_enough = len(digits.replace("-", "")) >= DIGITS_MIN
    return is_enough and (origin.hex().startswith(digits) or str(origin).startswith(digits))


def _shared(one: str, other: str) -> int:
    """Count the first digits that two ids share."""
    return next(
        at for at, (here, there) in enumerate(zip(one, other, strict=True)) if here != there
    )
