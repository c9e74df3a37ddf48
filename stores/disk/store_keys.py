"""Where keys of stores come from: an argument, a file that its owner alone can read, a variable."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Final

from handshake.private_files import read_secret, sync_path, write_private
from stores.sealing import KEY_SIZE, StorageKey, StorageKeys, keys_text
from wire.errors import CredentialsError
from wire.public import public

PathLike = str | os.PathLike[str]

KEYS_VARIABLE: Final = "PEERMESH_STORE_KEYS"
"""Keys as text, with commas between them."""

FILE_VARIABLE: Final = "PEERMESH_STORE_KEY_FILE"
"""The path of a file with keys."""


def generate_key() -> StorageKey:
    """Make a new key from the system's random source."""
    return StorageKey(secrets.token_bytes(KEY_SIZE))


def keys_from_file(path: PathLike) -> StorageKeys:
    """Read a file of keys, the current one first; refuse one that others can read."""
    where = os.fspath(path)
    try:
        text = read_secret(path, "key").decode()
    except UnicodeDecodeError:
        raise CredentialsError(f"the file {where} holds no keys of stores") from None
    try:
        return StorageKeys.parse(text)
    except CredentialsError as error:
        raise CredentialsError(f"{where}: {error}") from None


def keys_from_environment(environment: Mapping[str, str]) -> StorageKeys | None:
    """Read ``PEERMESH_STORE_KEYS``, or else the file that ``PEERMESH_STORE_KEY_FILE`` names."""
    if text := environment.get(KEYS_VARIABLE, "").strip():
        return StorageKeys.parse(text)
    if path := environment.get(FILE_VARIABLE, "").strip():
        return keys_from_file(path)
    return None


@public
def write_new_key(path: PathLike) -> StorageKeys:
    """Put a new key into a file: before the keys that are there, which become old ones.

    The file is replaced in one step, so that a crash leaves the one or the other.
    """
    where = os.fspath(path)
    older = keys_from_file(path).keys if os.path.exists(path) else ()
    ring = StorageKeys((generate_key(), *older))
    try:
        write_private(f"{where}.new", keys_text(ring.keys).encode())  # refused if it is there
        # A store may be under the new key at once: it has to be on the disk before that.
        sync_path(f"{where}.new")
        os.replace(f"{where}.new", where)
        sync_path(os.path.dirname(os.path.abspath(where)))
    except OSError as error:
        raise CredentialsError(
            f"cannot write the key file {where}: {error.strerror}; name a file in a directory of"
            f" yours, and remove {where}.new if another one is not writing it just now"
        ) from error
    return ring
