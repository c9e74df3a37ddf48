"""What a store or log is attached with: a backend, a quota, and the checks of what was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, cast

from stores.quota import Quota
from wire.errors import BackendFailure


def take_path(options: dict[str, object], what: str) -> str:
    """Take the path of the file out of the options; raises ``BackendFailure``."""
    path = options.pop("path", None)
    if not isinstance(path, (str, os.PathLike)):
        given = "" if path is None else f", not path={path!r}"
        raise BackendFailure(f"{what} needs the option path=FILE{given}")
    return os.fsdecode(path)


_BROKERS: Final = {
    "journal_mode": "a file has a write-ahead log always, which is Broker's WAL: leave it out",
    "failure_mode": "a damaged file is refused and kept, which is Broker's FAIL: leave it out",
    "integrity_check": "it is is_integrity_checked=True here",
}
"""Options of Broker's SQLite backend, and what stands for each of them here."""


def check_options(options: Mapping[str, object], what: str) -> None:
    """Raise ``BackendFailure`` for an option that no file has, and name its options."""
    from stores.disk.sqlite import OPTIONS

    known = [*OPTIONS, "key_file", "keys"]
    for name in options:
        if name in _BROKERS:
            raise BackendFailure(f"{what} has no option {name!r}: {_BROKERS[name]}")
        if name not in known:
            raise BackendFailure(f"{what} has no option {name!r}; there are {', '.join(known)}")


def take_quota(options: dict[str, object], default: Quota) -> Quota:
    """Take the options about the quota; raises ``InvalidData``."""
    entries = options.pop("max_entries", default.max_entries)
    size = options.pop("max_bytes", default.max_bytes)
    return Quota(cast("int | None", entries), cast("int | None", size))  # it looks at them
