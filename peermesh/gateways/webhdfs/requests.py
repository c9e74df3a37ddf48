"""What can be asked of the gateway: a class for each operation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from peermesh.gateways.webhdfs.paths import Path

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
class ListStatusBatch:
    """What is in it? A page of it."""

    path: Path
    start_after: str
    """The last name of the page before; empty for the first page."""


@dataclass(frozen=True, slots=True)
class GetContentSummary:
    """How much is in it, all the way down?"""

    path: Path


@dataclass(frozen=True, slots=True)
class GetQuotaUsage:
    """How much is in it, in other words?"""

    path: Path


@dataclass(frozen=True, slots=True)
class GetStatus:
    """How much is there, and how much room is left?"""

    path: Path


@dataclass(frozen=True, slots=True)
class GetFileChecksum:
    """What is the digest of its content?"""

    path: Path


@dataclass(frozen=True, slots=True)
class CheckAccess:
    """May it be read, written, entered? Roles say so for each operation."""

    path: Path


@dataclass(frozen=True, slots=True)
class GetAclStatus:
    """Who may do what? The permission says it, and there is no list besides."""

    path: Path


@dataclass(frozen=True, slots=True)
class GetXAttrs:
    """What else was noted of it? Nothing."""

    path: Path


@dataclass(frozen=True, slots=True)
class GetTrashRoot:
    """Where does a client move what it deletes, if it does?"""

    user: str


@dataclass(frozen=True, slots=True)
class GetTrashRoots:
    """Is there such a directory?"""

    user: str


@dataclass(frozen=True, slots=True)
class Open:
    """Read a file, from ``offset`` on, ``length`` bytes of it or as many as there are."""

    path: Path
    offset: int
    length: int
    has_data: bool
    """False for the first of the two steps, which is answered by a redirection."""
    is_told: bool = False
    """Whether the first step is answered with the address in a text instead (``noredirect``)."""


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
    is_told: bool = False
    """As in ``Open``."""


@dataclass(frozen=True, slots=True)
class Append:
    """Write more behind the end of a file."""

    path: Path
    has_data: bool
    """False for the first of the two steps."""
    is_told: bool = False
    """As in ``Open``."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut a file."""

    path: Path
    length: int


@dataclass(frozen=True, slots=True)
class Concat:
    """Move the content of files behind that of another one; then they are gone."""

    path: Path
    sources: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class SetAttributes:
    """Note what clients say of a file or directory: kept, and told, and not enforced.

    What is ``None`` stays as it is.
    """

    path: Path
    operation: str
    """SETPERMISSION, SETOWNER, SETTIMES or SETREPLICATION."""
    permission: str | None = None
    owner: str | None = None
    group: str | None = None
    modified_ms: int | None = None
    accessed_ms: int | None = None
    replication: int | None = None


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


Change = MakeDirectories | Rename | Delete | Truncate | Concat | SetAttributes
"""What is one batch, without a transfer."""


def changed_paths(request: Change | Create | Append) -> tuple[Path, ...]:
    """Give the paths whose entries it may change, and goes by."""
    match request:
        case Rename(path, destination):
            return path, destination
        case Concat(path, sources):
            return path, *sources
        case _:
            return (request.path,)


Transfer = Open | Create | Append
"""What has two steps, of which the second one has a body, of the question or the answer."""

Inquiry = (
    GetFileStatus
    | ListStatus
    | ListStatusBatch
    | GetContentSummary
    | GetQuotaUsage
    | GetStatus
    | GetFileChecksum
    | CheckAccess
    | GetAclStatus
    | GetXAttrs
    | GetTrashRoot
    | GetTrashRoots
    | GetServerDefaults
    | GetHomeDirectory
    | GetFileBlockLocations
)
"""What changes nothing."""

Request = Inquiry | Change | Transfer
