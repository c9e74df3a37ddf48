"""The keys of an encrypted file: from the options of who attaches it, or from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from wire.errors import BackendFailure

if TYPE_CHECKING:
    from stores.sealing import StorageKeys

VARIABLES: Final = ("PEERMESH_STORE_KEYS", "PEERMESH_STORE_KEY_FILE")
"""What ``stores.disk.store_keys`` reads, if one of them is set."""


def take_keys(options: dict[str, object]) -> StorageKeys | None:
    """Take ``keys`` or ``key_file`` out; ``None`` if the file is to be plain.

    Without both, the environment says; ``keys=None`` is a plain file whatever it says. Raises
    ``CredentialsError`` for keys that cannot be used, and ``BackendFailure`` for other values.
    """
    is_given = "keys" in options or "key_file" in options
    if not is_given and not any(map(os.environ.get, VARIABLES)):
        return None  # Most have none: they do without the code, and without ``cryptography``.
    from stores.disk.store_keys import keys_from_environment, keys_from_file
    from stores.sealing import StorageKeys

    if not is_given:
        return keys_from_environment(os.environ)
    keys, file = options.pop("keys", None), options.pop("key_file", None)
    if isinstance(file, (str, os.PathLike)) and keys is None:
        return keys_from_file(file)
    if isinstance(keys, str) and file is None:
        return StorageKeys.parse(keys)
    if (keys is None or isinstance(keys, StorageKeys)) and file is None:
        return keys
    raise BackendFailure("give either keys, as text or StorageKeys, or key_file, which is a path")
