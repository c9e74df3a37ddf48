"""The one way to write text that others chose into a terminal, a log or a report. Pure."""

from __future__ import annotations

import json
from typing import Final

_SPACES: Final = frozenset("\u00a0\u202f\u3000")
"""Spaces that French and Japanese are written with: they have a width, and change nothing else."""

_HIDING_RANGES: Final = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # fillers of Hangul
    (0x17B4, 0x17B5),  # vowels of Khmer without a shape
    (0x180B, 0x180F),  # variation selectors of Mongolian
    (0x3164, 0x3164),  # a filler of Hangul
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # a filler of Hangul
    (0x1D159, 0x1D159),  # a note without a head
    (0xE0000, 0xE0FFF),  # tags, and more variation selectors
)
_HIDING: Final = frozenset(
    chr(number) for first, last in _HIDING_RANGES for number in range(first, last + 1)
)
"""Characters that ``str.isprintable`` takes for letters and signs, and that show nothing."""


def escape(text: str, *, kept: str = "") -> str:
    r"""Write an escape for each character that a terminal obeys, or that does not show.

    These are control characters (C0, DEL, C1), line separators, those that change the direction of
    writing, those without width (U+200D among them, so that an emoji of several shows its parts),
    variation selectors, tags, lone surrogates, and what Unicode has not assigned. Text of all
    languages stays as it is, and so do the characters in ``kept``, such as a newline.

    The escapes are those of JSON, ``\n`` or ``\u202e``: escaped JSON is JSON of the same value. A
    backslash is no such character, so that escaping twice changes nothing.
    """
    if is_plain(text):
        return text
    letters = set(text).difference(kept)
    return text.translate(
        {ord(each): json.dumps(each)[1:-1] for each in letters if not _shows(each)}
    )


def is_plain(text: str) -> bool:
    """Tell whether ``escape`` leaves a text as it is."""
    if text.isascii():
        return text.isprintable()
    return all(map(_shows, set(text)))


def is_whole(text: str) -> bool:
    """Tell whether UTF-8 can write a text: it holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shows(letter: str) -> bool:
    return letter in _SPACES or (letter.isprintable() and letter not in _HIDING)
