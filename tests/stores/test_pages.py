"""What a page for a proxy takes of what was found, however large that is."""

from __future__ import annotations

from stores.limits import VALUE_SIZE_MAX
from stores.order import order_of
from stores.questions import ScanCommand, find
from stores.scanning import Page
from stores.table.rows import Rows

COUNT = 2**31 // VALUE_SIZE_MAX + 2
"""So many of the largest values are more than an array of Arrow holds."""


class Large:
    """A replica with many large values, which are one in memory."""

    def entry(self, key):
        raise AssertionError(key)

    def scan(self, span, limit, revision=None, step=1):
        keys = [b"\x1a" + number.to_bytes(4) for number in range(COUNT)]
        value = bytes(VALUE_SIZE_MAX)
        return Page(Rows(keys, [value] * COUNT, [1] * COUNT), 1, None)


def test_a_page_of_more_than_two_gibibytes_is_cut_and_not_laid_out_first():
    answer = find(Large(), ScanCommand(1, 0, b"", None, COUNT, has_values=True))
    assert len(answer.rows) == 1
    assert answer.continuation == order_of(b"\x1a" + (1).to_bytes(4))
    keys_alone = find(Large(), ScanCommand(1, 0, b"", None, COUNT, has_values=False))
    assert (len(keys_alone.rows), keys_alone.continuation) == (COUNT, None)
