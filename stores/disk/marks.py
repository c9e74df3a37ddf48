"""What an SQLite file of ours is marked as, and what to do about one that is something else."""

from __future__ import annotations

from typing import Final

STORE: Final = 0x70656D73
"""A store: "pems" for everybody who looks (``file``, ``PRAGMA application_id``)."""

LOG: Final = 0x70656D6C
"""A log: "peml"."""

SEALED_STORE: Final = 0x70656D53
"""An encrypted store: "pemS"."""

SEALED_LOG: Final = 0x70656D4C
"""An encrypted log: "pemL"."""

SEALED: Final = {STORE: SEALED_STORE, LOG: SEALED_LOG}
"""The encrypted counterpart of each."""

_PLAIN: Final = {sealed: plain for plain, sealed in SEALED.items()}


def explain_mark(path: str, found: int, wanted: int) -> str:
    """Say why a file with the mark ``found`` is not opened as ``wanted``, and what to do."""
    if found == SEALED.get(wanted):
        return (
            f"{path} is encrypted, and there is no key: give the option key_file=FILE, or set"
            " PEERMESH_STORE_KEY_FILE"
        )
    if found == _PLAIN.get(wanted):
        return (
            f"{path} is not encrypted, and there is a key: encrypt it with"
            f" peermesh store rekey {path}, or open it without the key"
        )
    return f"{path} is a database of another program, or of another kind: give it a path of its own"
