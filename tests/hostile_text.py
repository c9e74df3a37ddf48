"""All code points, and those that a terminal obeys or that show nothing.

Which ones those are is taken from Unicode's own tables here, and not from ``wire.escaping``.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator

HIDING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Unicode's ``Default_Ignorable_Code_Point``, of those that are letters or marks."""

SPACES = " \u00a0\u202f\u3000"
"""Those of ordinary text."""

CHUNK = 0x4000


EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))
_HIDDEN = frozenset(HIDING.findall(EVERYTHING))


def is_hostile(letter: str) -> bool:
    """Tell whether a character may not come out as it is."""
    kind = unicodedata.category(letter)
    return (
        kind in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        or letter in _HIDDEN
        or (kind == "Zs" and letter not in SPACES)
    )


HOSTILE = "".join(filter(is_hostile, EVERYTHING))
ENCODABLE = "".join(each for each in HOSTILE if unicodedata.category(each) != "Cs")
"""What a value can hold: UTF-8 has no lone surrogates."""


def chunks() -> Iterator[str]:
    """Give every code point once, in texts of ``CHUNK``, each between two letters."""
    for start in range(0, len(EVERYTHING), CHUNK):
        yield f"a{EVERYTHING[start : start + CHUNK]}z"


def found_in(shown: str, *, kept: str = "\n") -> set[str]:
    """Give the hostile characters that came out as they are: none, but for those in ``kept``."""
    return {each for each in set(shown) if is_hostile(each)} - set(kept)
