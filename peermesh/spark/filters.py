"""Which keys of a store a query wants: looked up, where it names them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from peermesh.cli.values import NoValue, format_value, parse_value
from wire.errors import EncodeError
from wire.values import Value


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """What the column ``key`` has to be; every part has to hold."""

    keys: frozenset[str] | None = None
    prefix: str = ""
    is_empty: bool = False
    """Whether two prefixes exclude each other."""

    def with_keys(self, keys: Iterable[str | None]) -> KeyFilter:
        """Insist on one of these; null equals nothing."""
        wanted = frozenset(key for key in keys if key is not None)
        return replace(self, keys=wanted if self.keys is None else self.keys & wanted)

    def with_prefix(self, prefix: str) -> KeyFilter:
        """Insist on a beginning."""
        longer, shorter = sorted((prefix, self.prefix), key=len, reverse=True)
        is_empty = self.is_empty or not longer.startswith(shorter)
        return replace(self, prefix=longer, is_empty=is_empty)

    @property
    def is_everything(self) -> bool:
        """Whether every key is wanted."""
        return self == KeyFilter()

    def accepts(self, key: Value) -> bool:
        """Tell whether the entry of a key is wanted."""
        if self.is_everything:
            return True
        text = text_of_key(key)
        is_named = self.keys is None or text in self.keys
        return text is not None and not self.is_empty and is_named and text.startswith(self.prefix)


def text_of_key(key: Value) -> str | None:
    """Give text as it is, no key as null, and other keys as JSON: ``candidates`` finds them."""
    return key if key is None or isinstance(key, str) else format_value(key)


def candidates(text: str) -> list[Value]:
    """Give the keys that this may be the column of: the text, and what it says as JSON."""
    try:
        parsed = parse_value(text)
        is_other = not isinstance(parsed, str) and text_of_key(parsed) == text
    except (NoValue, EncodeError):
        return [text]
    return [text, parsed] if is_other else [text]
