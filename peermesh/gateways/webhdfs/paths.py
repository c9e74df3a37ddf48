"""Paths: what stands in a request, and the names that it consists of."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from peermesh.gateways.refusals import InvalidRequest
from peermesh.gateways.webhdfs.limits import NAME_SIZE_MAX, PATH_DEPTH_MAX, PATH_SIZE_MAX

Path = tuple[str, ...]
"""The names from the root on; the root itself is empty."""

ROOT: Final[Path] = ()


def parse_path(text: str) -> Path:
    """Take a path apart; raises ``InvalidRequest`` for one that cannot be stored."""
    if not text.startswith("/"):
        raise InvalidRequest(f"{text!r:.100} is no absolute path: it has to begin with /")
    if len(text) > PATH_SIZE_MAX:
        raise InvalidRequest(f"a path has at most {PATH_SIZE_MAX} characters, not {len(text)}")
    names = tuple(name for name in text.split("/") if name not in ("", "."))
    if len(names) > PATH_DEPTH_MAX:
        raise InvalidRequest(f"a path has at most {PATH_DEPTH_MAX} names, not {len(names)}")
    for name in names:
        _check_name(name)
    return names


def _check_name(name: str) -> None:
    if name == "..":
        raise InvalidRequest("a path goes down only: leave out the ..")
    if "\0" in name:
        raise InvalidRequest("a name has no NUL in it")
    if len(name.encode()) > NAME_SIZE_MAX:
        raise InvalidRequest(f"a name has at most {NAME_SIZE_MAX} bytes: {name!r:.100} is longer")


def unquote_path(quoted: str) -> str:
    """Undo the percent escapes of a URL's path; raises ``InvalidRequest`` for what is no text."""
    try:
        return unquote_to_bytes(quoted).decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{quoted!r:.100} is not UTF-8 in percent escapes") from None


def path_text(path: Path) -> str:
    """Write a path as users know it."""
    return "/" + "/".join(path)
