"""What the tests of secrecy share: a secret of each kind."""

from __future__ import annotations

import pytest

from tests.secrecy.planted import Planted, plant


@pytest.fixture
def planted(tmp_path) -> Planted:
    return plant(tmp_path)
