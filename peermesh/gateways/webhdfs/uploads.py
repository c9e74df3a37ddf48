"""The content of a file on its way in: pieces of any size become chunks."""

from __future__ import annotations

from peermesh.gateways.webhdfs.changes import Content
from peermesh.gateways.webhdfs.errors import Full, Impossible
from peermesh.gateways.webhdfs.limits import (
    CHUNK_SIZE,
    FILE_SIZE_MAX,
    PRESENCE_SECONDS,
    UPLOADS_SHARE,
)
from peermesh.gateways.webhdfs.nodes import garbage_key, gateway_key, upload_key
from stores.batch import Batch


class UploadBudget:
    """The bytes that all unfinished uploads of one gateway have taken in."""

    def __init__(self) -> None:
        """Start without uploads."""
        self.used = 0

    def take(self, size: int, max_bytes: int | None) -> None:
        """Take in more; raises ``Full``. ``max_bytes`` is the quota of the store."""
        most = FILE_SIZE_MAX if max_bytes is None else int(max_bytes * UPLOADS_SHARE)
        if self.used + size > most:
            raise Full(
                f"unfinished uploads have {self.used} bytes, and may have {most}, a share of the"
                " store's quota: try again when others have ended, or give the store a larger quota"
            )
        self.used += size

    def give_back(self, size: int) -> None:
        """Let go of what an upload had taken, that has ended in whatever way."""
        self.used -= size


class Upload:
    """Cuts what comes into chunks, and keeps less than one of them."""

    def __init__(self, number: int) -> None:
        """Begin a file of this number."""
        self.number = number
        self.length = 0
        """Bytes that came so far."""
        self._rest = bytearray()
        self._chunk_count = 0

    @property
    def is_begun(self) -> bool:
        """True once a chunk is in the store, so that there is something to collect."""
        return self._chunk_count > 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take in data; give the chunks that are full, with their places."""
        self.length += len(data)
        if self.length > FILE_SIZE_MAX:
            raise Impossible(f"a file has at most {FILE_SIZE_MAX} bytes: write several")
        self._rest += data
        full = []
        # One byte more than a chunk: a file of exactly one is a short one.
        while len(self._rest) > CHUNK_SIZE:
            full.append(self._cut(CHUNK_SIZE))
        return full

    def end(self) -> tuple[list[tuple[int, bytes]], Content]:
        """Give what is left to be stored first, and the content."""
        if not self.is_begun:
            rest = bytes(self._rest)
            count = 1 if rest else 0
            return [], Content(self.number, len(rest), count, rest or None)
        last = [self._cut(CHUNK_SIZE)]
        return last, Content(self.number, self.length, self._chunk_count, None)

    def _cut(self, size: int) -> tuple[int, bytes]:
        with memoryview(self._rest) as rest:
            chunk = bytes(rest[:size])  # A slice of the array itself would be one more copy.
        del self._rest[:size]
        index, self._chunk_count = self._chunk_count, self._chunk_count + 1
        return index, chunk


def begin_upload(number: int, uploader: str) -> Batch:
    """Note which gateway takes in a file, before its first chunk."""
    return presence(uploader).put(upload_key(number), uploader)


def go_on_with_upload(number: int) -> Batch:
    """Put more chunks only while the upload is noted: behind its collection they would stay."""
    return Batch().if_exists(upload_key(number))


def presence(uploader: str) -> Batch:
    """Say that a gateway lives."""
    return Batch().put(gateway_key(uploader), True, PRESENCE_SECONDS)  # noqa: FBT003 - the value


def was_collected() -> Impossible:
    """Give the refusal of an upload whose note is gone."""
    return Impossible(
        "the gateway was silent in the store for too long, so that another one collected what had"
        " come of this upload: send it again"
    )


def abandon_upload(number: int) -> Batch:
    """Have the chunks of an upload collected; its file can have no place any more."""
    key = upload_key(number)
    return Batch().if_exists(key).erase(key).put(garbage_key(number), False)  # noqa: FBT003 - not a directory
