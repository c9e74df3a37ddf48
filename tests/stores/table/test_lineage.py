"""Where the history of a position parts from the one that was applied here."""

from __future__ import annotations

import pytest

from stores.group.positions import START, Position
from stores.table.lineage import Lineage, Reign, Standing


@pytest.mark.parametrize(
    ("position", "standing", "cut"),
    [
        (START, Standing.KNOWN, None),
        (Position(2, 1), Standing.KNOWN, None),
        (Position(2, 4), Standing.KNOWN, None),
        (Position(5, 5), Standing.KNOWN, None),
        (Position(5, 8), Standing.KNOWN, None),
        (Position(5, 9), Standing.AHEAD, None),
        (Position(6, 1), Standing.AHEAD, None),
        (Position(1, 1), Standing.FORGOTTEN, None),
        (Position(2, 5), Standing.FOREIGN, 5),
        (Position(3, 4), Standing.FOREIGN, 1),
        (Position(5, 4), Standing.FOREIGN, 9),
    ],
)
def test_a_position_is_known_or_of_another_history_from_some_entry_on(position, standing, cut):
    lineage = Lineage(Position(5, 8), [Reign(2, 1), Reign(5, 5)])
    assert lineage.standing(position) is standing
    assert lineage.cut(position) == cut
