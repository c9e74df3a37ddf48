"""The operations of the gateway by the names that requests have for them; others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from peermesh.gateways.refusals import InvalidRequest, NotFound
from peermesh.gateways.webhdfs import requests
from peermesh.gateways.webhdfs.errors import Unsupported
from peermesh.gateways.webhdfs.limits import FILE_SIZE_MAX, NAME_SIZE_MAX, SOURCES_MAX
from peermesh.gateways.webhdfs.parameters import Parameters
from peermesh.gateways.webhdfs.paths import Path, parse_path, unquote_path
from peermesh.gateways.webhdfs.requests import (
    BLOCK_SIZE,
    DATA_PARAMETER,
    URL_PREFIX,
    RenameStyle,
    Request,
)


def parse(method: str, target: str) -> Request:
    """Read a request; raises ``InvalidRequest``, ``Unsupported`` or ``NotFound``.

    HEAD asks what GET does, and is answered without a body.
    """
    quoted, _, query = target.partition("?")
    if quoted != URL_PREFIX and not quoted.startswith(f"{URL_PREFIX}/"):
        raise NotFound(f"{quoted!r:.100}: what is here begins with {URL_PREFIX}/")
    parameters = Parameters(query)
    operation = parameters.text("op", "").upper()
    parser = _PARSERS.get(("GET" if method == "HEAD" else method, operation))
    if parser is None:
        raise Unsupported(
            f"{method} {operation or 'without op'!r:.60} is not offered here: this gateway has"
            f" {', '.join(OPERATIONS)}"
        )
    path = parse_path(unquote_path(quoted.removeprefix(URL_PREFIX)) or "/")
    return parser(path, parameters)


def _open(path: Path, parameters: Parameters) -> Request:
    return requests.Open(
        path,
        parameters.number("offset", 0),
        parameters.number("length", FILE_SIZE_MAX),
        *_steps(parameters),
    )


def _create(path: Path, parameters: Parameters) -> Request:
    return requests.Create(
        path,
        parameters.user(),
        parameters.permission("644"),
        parameters.flag("overwrite", default=False),
        parameters.flag("createparent", default=True),
        parameters.number("blocksize", BLOCK_SIZE),
        *_steps(parameters),
    )


def _append(path: Path, parameters: Parameters) -> Request:
    return requests.Append(path, *_steps(parameters))


def _steps(parameters: Parameters) -> tuple[bool, bool]:
    """Say which of the two steps it is, and whether the first is answered in a text."""
    has_data = parameters.flag(DATA_PARAMETER, default=False)
    return has_data, parameters.flag("noredirect", default=False)


def _make_directories(path: Path, parameters: Parameters) -> Request:
    return requests.MakeDirectories(path, parameters.user(), parameters.permission("755"))


def _rename(path: Path, parameters: Parameters) -> Request:
    destination = parse_path(parameters.text("destination", ""))
    options = parameters.text("renameoptions", "").upper()
    if not options:
        return requests.Rename(path, destination, RenameStyle.CLASSIC)
    words = set(options.split(","))
    if not words <= {"NONE", "OVERWRITE", "TO_TRASH"}:  # What moves to the trash is moved.
        raise InvalidRequest(
            f"renameoptions={options!r:.40}: NONE, OVERWRITE and TO_TRASH are known"
        )
    is_forced = "OVERWRITE" in words
    style = RenameStyle.OVERWRITE if is_forced else RenameStyle.REFUSE
    return requests.Rename(path, destination, style)


def _delete(path: Path, parameters: Parameters) -> Request:
    return requests.Delete(path, parameters.flag("recursive", default=False))


def _list_batch(path: Path, parameters: Parameters) -> Request:
    start_after = parameters.text("startafter", "")
    if len(start_after.encode("utf-8", "surrogatepass")) > NAME_SIZE_MAX:
        raise InvalidRequest(f"a name has at most {NAME_SIZE_MAX} bytes: startAfter is longer")
    return requests.ListStatusBatch(path, start_after)


def _check_access(path: Path, parameters: Parameters) -> Request:
    parameters.action()
    return requests.CheckAccess(path)


def _truncate(path: Path, parameters: Parameters) -> Request:
    if not parameters.text("newlength", ""):
        raise InvalidRequest("newlength= is missing: how long the file is to be")
    return requests.Truncate(path, parameters.number("newlength", 0))


def _concat(path: Path, parameters: Parameters) -> Request:
    texts = [text for text in parameters.text("sources", "").split(",") if text]
    if not 1 <= len(texts) <= SOURCES_MAX:
        raise InvalidRequest(f"sources= names 1 to {SOURCES_MAX} files, not {len(texts)}")
    return requests.Concat(path, tuple(parse_path(text) for text in texts))


def _set_permission(path: Path, parameters: Parameters) -> Request:
    permission = parameters.permission("755")
    return requests.SetAttributes(path, "SETPERMISSION", permission=permission)


def _set_owner(path: Path, parameters: Parameters) -> Request:
    owner, group = parameters.person("owner"), parameters.person("group")
    if owner is None and group is None:
        raise InvalidRequest("give an owner, a group, or both")
    return requests.SetAttributes(path, "SETOWNER", owner=owner, group=group)


def _set_times(path: Path, parameters: Parameters) -> Request:
    modified, accessed = map(parameters.instant, ("modificationtime", "accesstime"))
    return requests.SetAttributes(path, "SETTIMES", modified_ms=modified, accessed_ms=accessed)


def _set_replication(path: Path, parameters: Parameters) -> Request:
    replication = parameters.replication()
    return requests.SetAttributes(path, "SETREPLICATION", replication=replication)


_Parser = Callable[[Path, Parameters], Request]

_PARSERS: Final[Mapping[tuple[str, str], _Parser]] = {
    ("GET", "GETFILESTATUS"): lambda path, _: requests.GetFileStatus(path),
    ("GET", "GETFILELINKSTATUS"): lambda path, _: requests.GetFileStatus(path),
    ("GET", "LISTSTATUS"): lambda path, _: requests.ListStatus(path),
    ("GET", "LISTSTATUS_BATCH"): _list_batch,
    ("GET", "OPEN"): _open,
    ("GET", "GETCONTENTSUMMARY"): lambda path, _: requests.GetContentSummary(path),
    ("GET", "GETQUOTAUSAGE"): lambda path, _: requests.GetQuotaUsage(path),
    ("GET", "GETSTATUS"): lambda path, _: requests.GetStatus(path),
    ("GET", "GETFILECHECKSUM"): lambda path, _: requests.GetFileChecksum(path),
    ("GET", "CHECKACCESS"): _check_access,
    ("GET", "GETACLSTATUS"): lambda path, _: requests.GetAclStatus(path),
    ("GET", "GETXATTRS"): lambda path, _: requests.GetXAttrs(path),
    ("GET", "GETTRASHROOT"): lambda _, parameters: requests.GetTrashRoot(parameters.user()),
    ("GET", "GETTRASHROOTS"): lambda _, parameters: requests.GetTrashRoots(parameters.user()),
    ("GET", "GETSERVERDEFAULTS"): lambda _path, _: requests.GetServerDefaults(),
    ("GET", "GETHOMEDIRECTORY"): lambda _, parameters: requests.GetHomeDirectory(parameters.user()),
    ("GET", "GETFILEBLOCKLOCATIONS"): lambda path, _: requests.GetFileBlockLocations(path),
    ("PUT", "MKDIRS"): _make_directories,
    ("PUT", "CREATE"): _create,
    ("PUT", "RENAME"): _rename,
    ("PUT", "SETPERMISSION"): _set_permission,
    ("PUT", "SETOWNER"): _set_owner,
    ("PUT", "SETTIMES"): _set_times,
    ("PUT", "SETREPLICATION"): _set_replication,
    ("POST", "APPEND"): _append,
    ("POST", "CONCAT"): _concat,
    ("POST", "TRUNCATE"): _truncate,
    ("DELETE", "DELETE"): _delete,
}

OPERATIONS: Final = tuple(name for _, name in _PARSERS)
