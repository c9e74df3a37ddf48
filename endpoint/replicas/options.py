"""Options of those who attach a store or log: path, quota, what is kept, and keys of its file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from endpoint.replicas.attaching import KEY_VARIABLES, Backend
from stores.log.partitions import Retention
from stores.quota import BYTES_DEFAULT, DISK_BYTES_DEFAULT, ENTRIES_DEFAULT, Quota
from wire.errors import BackendFailure, InvalidData

if TYPE_CHECKING:
    from stores.disk.sqlite import FileOptions, Synchronous
    from stores.sealing import StorageKeys

_BROKERS: Final = {
    "journal_mode": "a file has a write-ahead log always, which is Broker's WAL: leave it out",
    "failure_mode": "a damaged file is refused and kept, which is Broker's FAIL: leave it out",
    "integrity_check": "it is is_integrity_checked=True here",
}
"""Options of Broker's SQLite backend, and what stands for each of them here."""

_OF_FILES: Final = frozenset(
    {"path", "synchronous", "is_integrity_checked", "upgrade", "key_file", "keys"}
)
"""Options that take ``Backend.SQLite``, which is easily forgotten."""

_OF_QUOTAS: Final = {"max_entries": "set_quota", "max_bytes": "set_quota"}

_OF_GROUPS: Final = {
    **_OF_QUOTAS,
    "keep_seconds": "set_retention",
    "keep_count": "set_retention",
    "keep_bytes": "set_retention",
}
"""Options of masters and keepers, and what sets them in a group; all of them those of logs."""

_NANOSECONDS: Final = 1_000_000_000


def take_path(options: dict[str, object], what: str) -> str:
    """Take the path of the file out of the options; raises ``BackendFailure``."""
    path = options.pop("path", None)
    if not isinstance(path, (str, os.PathLike)):
        given = "" if path is None else f", not path={path!r}"
        raise BackendFailure(f"{what} needs the option path=FILE{given}")
    return os.fsdecode(path)


def no_option_in_memory(kind: str, name: str, option: str) -> BackendFailure:
    """Say that what is kept in memory has no such option, and what to do."""
    advice = "leave it out"
    if option in _OF_FILES:
        advice = "give backend=Backend.SQLite, too, with which it is kept in a file"
    return BackendFailure(f"{kind} {name} is in memory, and has no option {option!r}: {advice}")


def refuse_own_limits(kind: str, name: str, options: Mapping[str, object]) -> None:
    """Raise ``BackendFailure`` for limits that a group has for itself."""
    for option in options:
        if option in _OF_GROUPS and (kind == "log" or option in _OF_QUOTAS):
            raise BackendFailure(
                f"{kind} {name}: {option} is the group's, and no option of a replica: call"
                f" {_OF_GROUPS[option]}({option}=...) of any replica, once"
            )


def take_file_options(options: Mapping[str, object], what: str) -> FileOptions:
    """Give how the file is kept, when path and keys are taken out.

    Raises ``BackendFailure`` for an option that no file has, and for a value that one cannot have.
    """
    from stores.disk.sqlite import OPTIONS

    known = [*OPTIONS, "key_file", "keys"]
    for name in options:
        if name in _BROKERS:
            raise BackendFailure(f"{what} has no option {name!r}: {_BROKERS[name]}")
        if name not in known:
            raise BackendFailure(f"{what} has no option {name!r}; there are {', '.join(known)}")
    return {
        "synchronous": _level(options.get("synchronous", "FULL")),
        "is_integrity_checked": _flag(options, "is_integrity_checked"),
        "upgrade": _flag(options, "upgrade"),
    }


def _level(given: object) -> Synchronous:
    from stores.disk.sqlite import LEVELS

    for level in LEVELS:
        if level == given:
            return level
    raise BackendFailure(f"synchronous={given!r}: it is one of {', '.join(LEVELS)}")


def _flag(options: Mapping[str, object], name: str) -> bool:
    given = options.get(name, False)
    if isinstance(given, bool):
        return given
    raise BackendFailure(f"{name}={given!r}: it is True or False")


def take_keys(options: dict[str, object]) -> StorageKeys | None:
    """Take ``keys`` or ``key_file`` out; ``None`` if the file is to be plain.

    Without both, the environment says; ``keys=None`` is a plain file whatever it says. Raises
    ``CredentialsError`` for keys that cannot be used, and ``BackendFailure`` for other values.
    """
    is_given = "keys" in options or "key_file" in options
    if not is_given and not any(map(os.environ.get, KEY_VARIABLES)):
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


def take_quota(options: dict[str, object], default: Quota) -> Quota:
    """Take the options about the quota; raises ``InvalidData``."""
    entries = options.pop("max_entries", default.max_entries)
    size = options.pop("max_bytes", default.max_bytes)
    return Quota(_whole("max_entries", entries), _whole("max_bytes", size))


def _whole(name: str, limit: object) -> int | None:
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool)):
        return limit
    raise InvalidData(f"{name}={limit!r}: give a positive number, or None for no limit")


def log_quota(backend: Backend) -> Quota:
    """Give the quota of a log that has no other: of the memory, or of the disk that it fills."""
    if backend is Backend.Memory:
        return Quota(ENTRIES_DEFAULT, BYTES_DEFAULT)
    return Quota(max_bytes=DISK_BYTES_DEFAULT)


def take_retention(options: dict[str, object]) -> Retention:
    """Take the options about what a log keeps; raises ``InvalidData``."""
    seconds = options.pop("keep_seconds", None)
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    limits = (seconds, options.pop("keep_count", None), options.pop("keep_bytes", None))
    age, count, size = map(_positive, limits)
    return Retention(
        age_ns=None if age is None else round(age * _NANOSECONDS),
        count=None if count is None else round(count),
        size=None if size is None else round(size),
    )


def _positive(limit: object) -> float | None:
    if limit is None or (isinstance(limit, int | float) and 0 < limit < math.inf):
        return limit
    raise InvalidData(f"{limit!r} is no limit: give a positive number, or None for none")
