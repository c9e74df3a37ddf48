"""The content of a file on its way in: pieces of any size become chunks."""

from __future__ import annotations

from collections.abc import Callable

from peermesh.gateways.refusals import Busy
from peermesh.gateways.webhdfs.changes import Content
from peermesh.gateways.webhdfs.errors import Full, Impossible
from peermesh.gateways.webhdfs.limits import (
    CHUNK_SIZE,
    FILE_SIZE_MAX,
    PRESENCE_SECONDS,
    STALLED_SECONDS,
    UPLOADS_SHARE,
)
from peermesh.gateways.webhdfs.nodes import garbage_key, gateway_key, upload_key
from stores.batch import Batch


class UploadBudget:
    """The bytes that all unfinished uploads of one gateway have in the store, or are to have."""

    def __init__(self) -> None:
        """Start without uploads."""
        self.used = 0
        self._taken: dict[Upload, int] = {}

    @property
    def numbers(self) -> set[int]:
        """The files of which chunks are in the store, or are to be there."""
        return {each.number for each in self._taken}

    def take(self, upload: Upload, size: int, max_bytes: int | None, now: float) -> None:
        """Take in more of an upload, and stop others that stalled if it needs their room.

        ``max_bytes`` is the quota of the store. Raises ``Full``, and then stops none.
        """
        length = upload.length + size
        if length <= CHUNK_SIZE:
            return
        most = FILE_SIZE_MAX if max_bytes is None else int(max_bytes * UPLOADS_SHARE)
        wanted = length - self._taken.get(upload, 0)
        missing = self.used + wanted - most
        ended = self._stalled(upload, missing, now)
        if missing > sum(self._taken[each] for each in ended):
            raise Full(
                f"unfinished uploads have {self.used} bytes, and may have {most}, a share of the"
                " store's quota: try again when others have ended, or give the store a larger quota"
            )
        for each in ended:
            self.give_back(each)
            each.stop()
        self._taken[upload] = length
        self.used += wanted

    def _stalled(self, upload: Upload, missing: int, now: float) -> list[Upload]:
        """Give other uploads that stalled, the first ones first, until they free so much."""
        found: list[Upload] = []
        if missing <= 0:
            return found
        for each in sorted(self._taken, key=lambda each: each.waits_since):
            if missing <= 0 or now - each.waits_since < STALLED_SECONDS:
                break
            if each is not upload:
                found.append(each)
                missing -= self._taken[each]
        return found

    def give_back(self, upload: Upload) -> None:
        """Let go of what an upload had taken, that has ended in whatever way."""
        self.used -= self._taken.pop(upload, 0)


class Upload:
    """Cuts what comes into chunks, and keeps less than one of them."""

    def __init__(self, number: int, now: float, stop: Callable[[], None] = lambda: None) -> None:
        """Begin a file of this number."""
        self.number = number
        self.stop = stop
        """Ends it, when others need its room."""
        self.length = 0
        """Bytes that came so far."""
        self.waits_since = now
        """When it began to wait for its next chunk; infinite while it does not wait for that."""
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


def has_stalled() -> Busy:
    """Give the refusal of an upload that had to end for others."""
    return Busy(
        f"less than {CHUNK_SIZE} bytes of this upload came in {STALLED_SECONDS:g} s, and others"
        " needed its room: send it again"
    )


def abandon_upload(number: int) -> Batch:
    """Have the chunks of an upload collected; its file can have no place any more."""
    key = upload_key(number)
    return Batch().if_exists(key).erase(key).put(garbage_key(number), False)  # noqa: FBT003 - not a directory
