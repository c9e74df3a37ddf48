"""The eleven operations that Spark uses, as its requests ask for them; all others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl

from peermesh.gateways.refusals import InvalidRequest, NotFound
from peermesh.gateways.webhdfs.errors import Unsupported
from peermesh.gateways.webhdfs.limits import FILE_SIZE_MAX, USER_SIZE_MAX
from peermesh.gateways.webhdfs.paths import Path, parse_path, unquote_path
from wire.scalars import INTEGER_MAX

URL_PREFIX: Final = "/webhdfs/v1"

DATA_PARAMETER: Final = "data"
"""What the gateway adds to the address to which it redirects: HttpFS names it so too."""

BLOCK_SIZE: Final = 128 * 1024 * 1024
"""HDFS's own default."""


class RenameStyle(Enum):
    """What happens if something is there already."""

    CLASSIC = "classic"
    """The answer is false; and a directory is moved into (``FileSystem.rename``)."""
    REFUSE = "refuse"
    """An error (``FileContext.rename``)."""
    OVERWRITE = "overwrite"
    """It is replaced."""


@dataclass(frozen=True, slots=True)
class GetFileStatus:
    """What is it? Links do not exist, so that GETFILELINKSTATUS asks the same."""

    path: Path


@dataclass(frozen=True, slots=True)
class ListStatus:
    """What is in it?"""

    path: Path


@dataclass(frozen=True, slots=True)
class Open:
    """Read a file, from ``offset`` on, ``length`` bytes of it or as many as there are."""

    path: Path
    offset: int
    length: int
    has_data: bool
    """False for the first of the two steps, which is answered by a redirection."""


@dataclass(frozen=True, slots=True)
class GetServerDefaults:
    """How are files stored?"""


@dataclass(frozen=True, slots=True)
class GetHomeDirectory:
    """Where do relative paths begin?"""

    user: str


@dataclass(frozen=True, slots=True)
class GetFileBlockLocations:
    """Which machines have it? All the same, here."""

    path: Path


@dataclass(frozen=True, slots=True)
class MakeDirectories:
    """Make a directory, and those above it."""

    path: Path
    user: str
    permission: str


@dataclass(frozen=True, slots=True)
class Create:
    """Write a file."""

    path: Path
    user: str
    permission: str
    overwrite: bool
    create_parent: bool
    block_size: int
    has_data: bool
    """False for the first of the two steps."""


@dataclass(frozen=True, slots=True)
class Rename:
    """Move a file or a directory."""

    path: Path
    destination: Path
    style: RenameStyle


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a file or a directory."""

    path: Path
    recursive: bool


Request = (
    GetFileStatus
    | ListStatus
    | Open
    | GetServerDefaults
    | GetHomeDirectory
    | GetFileBlockLocations
    | MakeDirectories
    | Create
    | Rename
    | Delete
)


class Parameters:
    """The query of a request; names are known in any case."""

    def __init__(self, query: str) -> None:
        """Take it apart; raises ``InvalidRequest``."""
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=64, errors="strict")
        except ValueError as error:
            raise InvalidRequest(f"a query that cannot be read: {error}") from None
        self._values = {name.lower(): value for name, value in pairs}

    def text(self, name: str, default: str) -> str:
        """Give a parameter; one that is empty counts as missing."""
        return self._values.get(name) or default

    def flag(self, name: str, *, default: bool) -> bool:
        """Give a parameter that is true or false."""
        word = self.text(name, str(default)).lower()
        if word not in ("true", "false"):
            raise InvalidRequest(f"{name}={word!r:.40}: it is true or false")
        return word == "true"

    def number(self, name: str, default: int) -> int:
        """Give a parameter that is a number from zero on, of 63 bits, as Java's are."""
        word = self.text(name, str(default))
        is_number = word.isascii() and word.isdigit() and len(word) <= len(str(INTEGER_MAX))
        if not is_number or int(word) > INTEGER_MAX:
            raise InvalidRequest(f"{name}={word!r:.40}: it is a number from 0 to {INTEGER_MAX}")
        return int(word)

    def user(self) -> str:
        """Say who asks, as far as it says so itself."""
        name = self.text("doas", self.text("user.name", "nobody"))
        if len(name) > USER_SIZE_MAX:
            raise InvalidRequest(f"user names have at most {USER_SIZE_MAX} characters")
        return name

    def permission(self, default: str) -> str:
        """Give the permission that a new file or directory is to have."""
        word = self.text("permission", default)
        if not (word.isascii() and word.isdigit() and len(word) <= 4 and max(word) <= "7"):
            raise InvalidRequest(f"permission={word!r:.40}: it is octal, as in 644")
        return word


def parse(method: str, target: str) -> Request:
    """Read a request; raises ``InvalidRequest``, ``Unsupported`` or ``NotFound``."""
    quoted, _, query = target.partition("?")
    if quoted != URL_PREFIX and not quoted.startswith(f"{URL_PREFIX}/"):
        raise NotFound(f"{quoted!r:.100}: what is here begins with {URL_PREFIX}/")
    parameters = Parameters(query)
    operation = parameters.text("op", "").upper()
    parser = _PARSERS.get((method, operation))
    if parser is None:
        raise Unsupported(
            f"{method} {operation or 'without op'!r:.60} is not offered here: this gateway has what"
            f" Spark uses, which is {', '.join(OPERATIONS)}"
        )
    path = parse_path(unquote_path(quoted.removeprefix(URL_PREFIX)) or "/")
    return parser(path, parameters)


def _open(path: Path, parameters: Parameters) -> Request:
    return Open(
        path,
        parameters.number("offset", 0),
        parameters.number("length", FILE_SIZE_MAX),
        parameters.flag(DATA_PARAMETER, default=False),
    )


def _create(path: Path, parameters: Parameters) -> Request:
    return Create(
        path,
        parameters.user(),
        parameters.permission("644"),
        parameters.flag("overwrite", default=False),
        parameters.flag("createparent", default=True),
        parameters.number("blocksize", BLOCK_SIZE),
        parameters.flag(DATA_PARAMETER, default=False),
    )


def _rename(path: Path, parameters: Parameters) -> Request:
    destination = parse_path(parameters.text("destination", ""))
    options = parameters.text("renameoptions", "").upper()
    if not options:
        return Rename(path, destination, RenameStyle.CLASSIC)
    words = set(options.split(","))
    if not words <= {"NONE", "OVERWRITE"}:
        raise InvalidRequest(f"renameoptions={options!r:.40}: NONE and OVERWRITE are known")
    is_forced = "OVERWRITE" in words
    return Rename(path, destination, RenameStyle.OVERWRITE if is_forced else RenameStyle.REFUSE)


_Parser = Callable[[Path, Parameters], Request]

_PARSERS: Final[Mapping[tuple[str, str], _Parser]] = {
    ("GET", "GETFILESTATUS"): lambda path, _: GetFileStatus(path),
    ("GET", "GETFILELINKSTATUS"): lambda path, _: GetFileStatus(path),
    ("GET", "LISTSTATUS"): lambda path, _: ListStatus(path),
    ("GET", "OPEN"): _open,
    ("GET", "GETSERVERDEFAULTS"): lambda _path, _: GetServerDefaults(),
    ("GET", "GETHOMEDIRECTORY"): lambda _, parameters: GetHomeDirectory(parameters.user()),
    ("GET", "GETFILEBLOCKLOCATIONS"): lambda path, _: GetFileBlockLocations(path),
    ("PUT", "MKDIRS"): lambda path, parameters: MakeDirectories(
        path, parameters.user(), parameters.permission("755")
    ),
    ("PUT", "CREATE"): _create,
    ("PUT", "RENAME"): _rename,
    ("DELETE", "DELETE"): lambda path, parameters: Delete(
        path, parameters.flag("recursive", default=False)
    ),
}

OPERATIONS: Final = tuple(name for _, name in _PARSERS)
