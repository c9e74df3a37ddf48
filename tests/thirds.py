"""A test of very many steps: every third of them in each run, and the others in the long one."""

from __future__ import annotations

from typing import Final

import pytest

THIRDS: Final = [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2))]
"""For ``range(third, count, 3)``. The twenty minutes of CI have no room for all of them."""
