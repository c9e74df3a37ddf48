"""Backends of encrypted files, made as tests make plain ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stores.disk.log import SQLiteLogBackend
from stores.disk.seals import Vault
from stores.disk.table import SQLiteBackend
from stores.sealing import StorageKeys


def sealed_store(path: str | Path, keys: StorageKeys, **options: Any) -> SQLiteBackend:
    """Make the backend of an encrypted store."""
    return SQLiteBackend(path, Vault(path, keys), **options)


def sealed_log(path: str | Path, keys: StorageKeys, **options: Any) -> SQLiteLogBackend:
    """Make the backend of an encrypted log."""
    return SQLiteLogBackend(path, Vault(path, keys), **options)
