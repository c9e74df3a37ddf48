"""Keys for encrypted files, and the backends that come plain and encrypted."""

from __future__ import annotations

from typing import Any

import pytest

from stores.sealing import StorageKey, StorageKeys
from tests.stores.disk.files import MakeStore, StoreFile
from tests.stores.disk.kinds import KINDS, Kind


@pytest.fixture
def keys() -> StorageKeys:
    return StorageKeys((StorageKey(bytes(range(32))),))


@pytest.fixture(params=["plain", "sealed"])
def make_store(request: pytest.FixtureRequest, keys: StorageKeys) -> MakeStore:
    """Make the file of a store, plain and encrypted."""

    def make(path: Any, **options: Any) -> StoreFile:
        return StoreFile(path, None if request.param == "plain" else keys, **options)

    return make


@pytest.fixture(params=[f"{name}-{how}" for name in KINDS for how in ("plain", "sealed")])
def kind(request: pytest.FixtureRequest, keys: StorageKeys) -> Kind:
    """Give a kind of file, plain and encrypted."""
    name, closing = request.param.split("-")
    return KINDS[name](keys if closing == "sealed" else None)
