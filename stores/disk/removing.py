"""Removes the files of a store that was not begun: its database, and its ballot."""

from __future__ import annotations

from pathlib import Path

from handshake.private_files import DATABASE_SUFFIXES
from stores.disk.ballot import SUFFIX
from stores.disk.sqlite import sync_path
from wire.errors import BackendFailure


def remove_files(path: str) -> None:
    """Remove a database that is open and locked, so that no other owner begins it, and its ballot.

    The database goes first: what is left if the process ends in between is of no group. Raises
    ``BackendFailure``.
    """
    try:
        for suffix in (*DATABASE_SUFFIXES, SUFFIX):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        sync_path(str(Path(path).absolute().parent))
    except OSError as error:
        raise BackendFailure(
            f"{path} cannot be removed ({error.strerror}): remove it, and {path}{SUFFIX}, before"
            " it is used again"
        ) from error
