"""Removes the files of a store that was not begun: its database, and its ballot."""

from __future__ import annotations

import os
from pathlib import Path

from handshake.private_files import DATABASE_SUFFIXES
from stores.disk.ballot import SUFFIX
from stores.disk.sqlite import sync_path
from wire.errors import BackendFailure


def remove_files(path: str) -> None:
    """Remove a database that is open and locked, so that no other owner begins it, and its ballot.

    The log goes first, since one without its database is refused. What is left if the process ends
    in between is as it was when the log was last moved into it: of no group, or with all of it.
    Raises ``BackendFailure``.
    """
    place, ballot = os.path.realpath(path), os.path.abspath(f"{path}{SUFFIX}")
    names = [f"{place}{suffix}" for suffix in reversed(DATABASE_SUFFIXES)]
    try:
        for name in (*names, ballot):
            Path(name).unlink(missing_ok=True)
        for folder in {os.path.dirname(place), os.path.dirname(ballot)}:
            sync_path(folder)
    except OSError as error:
        raise BackendFailure(
            f"{path} cannot be removed ({error.strerror}): remove it, and {path}{SUFFIX}, before"
            " it is used again"
        ) from error
