"""What a store or log is attached with: a backend, a quota, and the checks of what was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from endpoint.replicas.attaching import Backend, first_use
from endpoint.replicas.storage_keys import take_codec
from endpoint.surroundings import BackendOpener
from stores.disk.memory import MemoryBackend
from stores.limits import CLONES_MAX
from stores.persistence import StoreBackend
from stores.quota import Quota
from wire.errors import BackendFailure, InvalidData


def make_backend(
    backend: Backend, name: str, options: dict[str, object], open_file: BackendOpener | None = None
) -> StoreBackend:
    """Make the backend of a store; raises ``BackendFailure`` for options that it does not have."""
    if backend is Backend.Memory:
        if options:
            raise BackendFailure(f"a store in memory has no option {next(iter(options))!r}")
        return MemoryBackend()
    with first_use():
        from stores.disk.table import SQLiteBackend

    path = take_path(options, "an SQLite store")
    if open_file is not None:
        return open_file(path, options)
    codec = take_codec(path, options)
    check_options(options, "an SQLite store")
    return SQLiteBackend(path, codec, name, **cast("Any", options))


def take_path(options: dict[str, object], what: str) -> str:
    """Take the path of the file out of the options; raises ``BackendFailure``."""
    path = options.pop("path", None)
    if not isinstance(path, (str, os.PathLike)):
        given = "" if path is None else f", not path={path!r}"
        raise BackendFailure(f"{what} needs the option path=FILE{given}")
    return os.fsdecode(path)


def check_options(options: Mapping[str, object], what: str) -> None:
    """Raise ``BackendFailure`` for an option that no file has, and name its options."""
    from stores.disk.sqlite import OPTIONS

    known = [*OPTIONS, "key_file", "keys"]
    for name in options:
        if name not in known:
            raise BackendFailure(f"{what} has no option {name!r}; there are {', '.join(known)}")


def take_quota(options: dict[str, object], default: Quota) -> Quota:
    """Take the options about the quota; raises ``InvalidData``."""
    entries = options.pop("max_entries", default.max_entries)
    size = options.pop("max_bytes", default.max_bytes)
    return Quota(cast("int | None", entries), cast("int | None", size))  # it looks at them


def check_replicas(replicas: int) -> None:
    """Raise ``InvalidData`` for a number of replicas that no store can have."""
    if not 0 <= replicas <= CLONES_MAX:
        raise InvalidData(f"replicas={replicas}: a receipt waits for 0 to {CLONES_MAX} clones")
