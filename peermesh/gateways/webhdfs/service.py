"""Carries out requests on a store: reads at once, changes as batches until their guards hold."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from endpoint.replicas.groups.replica import ReplicaStore
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.store import Store
from peermesh.gateways.http import Reply
from peermesh.gateways.refusals import NotFound, Refusal
from peermesh.gateways.webhdfs import changes, collection, replies, uploads
from peermesh.gateways.webhdfs.errors import Full, Impossible, Standby, StoreFailed
from peermesh.gateways.webhdfs.limits import (
    ATTEMPTS_MAX,
    CHUNK_SIZE,
    LEADER_SECONDS,
    UPLOAD_WINDOW_CHUNKS,
)
from peermesh.gateways.webhdfs.nodes import (
    Node,
    children_key,
    chunk_key,
    decoded_node,
    encoded_entry_key,
)
from peermesh.gateways.webhdfs.paths import path_text
from peermesh.gateways.webhdfs.requests import (
    Create,
    Delete,
    GetFileBlockLocations,
    GetFileStatus,
    GetHomeDirectory,
    GetServerDefaults,
    ListStatus,
    MakeDirectories,
    Open,
    Rename,
    RenameStyle,
    Request,
)
from peermesh.gateways.webhdfs.tree import Tree
from stores.batch import Batch
from stores.scanning import PAGE_COUNT_MAX, make_span
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import (
    Fenced,
    GuardFailed,
    MasterExists,
    NoQuorum,
    NoSuchMaster,
    QuotaExceeded,
    RequestTimeout,
    StaleData,
    StoreClosed,
    StoreError,
)
from wire.values import Value

FileStore = Store | ReplicaStore
"""What is served: the store of a master or a clone, or a replica of a group."""

_LEADERLESS: Final = (
    Fenced, MasterExists, NoQuorum, NoSuchMaster, RequestTimeout, StaleData, StoreClosed,
)  # fmt: skip
"""Errors of a store whose leader does not answer this gateway: the client asks elsewhere, or again.
What was asked may be done all the same; asked again, it finds that it is."""


class StoreView:
    """What the store holds here, without waiting; see ``Service.prepare``."""

    def __init__(self, store: FileStore) -> None:
        """Look into the core that the store has at the time; promotions change it."""
        self._part = store.part

    def get(self, key: Value) -> Value:
        """Give the value of a key; ``None`` if it is missing."""
        found = self._part.table.get(encode(key))
        return None if found is None else decode(found)

    def node(self, directory: int, name: str) -> Node | None:
        """Give a directory's entry of that name; ``None`` if there is none."""
        found = self._part.table.get(encoded_entry_key(directory, name))
        return None if found is None else decoded_node(found)

    def scan(self, prefix: Value, limit: int) -> list[tuple[Value, Value]]:
        """Give the first keys that begin with a prefix, in order, with their values."""
        span, found = make_span(prefix=encode(prefix)), list[tuple[Value, Value]]()
        while True:
            page = self._part.table.scan(span, min(limit - len(found), PAGE_COUNT_MAX))
            found += [(decode(key), decode(entry.value)) for key, entry in page.entries]
            if page.continuation is None or len(found) >= limit:
                return found
            span = span.after(page.continuation)


class Service:
    """The file system that a store holds."""

    def __init__(self, store: FileStore, name: str) -> None:
        """Serve a store; uploads bear the name of what serves."""
        self._store = store
        self._name = name
        self.tree = Tree(StoreView(store))
        self.uploads = uploads.UploadBudget()
        self.has_garbage: Callable[[], None] = lambda: None
        """Called when there is something to collect."""

    def is_active(self) -> bool:
        """Tell whether the store has a leader, here or where this gateway hears it."""
        runner = self._store.runner
        return runner.error is None and (runner.is_master or runner.is_in_touch)

    async def prepare(self) -> None:
        """Wait for all that was acknowledged before, anywhere; raises ``Standby`` if none leads."""
        await self._await_leader()
        if not self.is_active():
            raise Standby(
                f"Operation category READ is not supported in state standby: no leader of store"
                f" {self._store.name()} answers"
            )
        if await self._level() is None:
            await self._try(collection.plant_root())
            await self._level()

    async def _await_leader(self) -> None:
        """Wait as long as an election takes: the client would only ask again at once."""
        runner = self._store.runner
        with trio.move_on_after(LEADER_SECONDS):
            while not self.is_active() and runner.error is None:
                await runner.changed.park()

    async def _level(self) -> Value:
        """Wait until all is here that any gateway has answered so far; give the root's count.

        A read of the root does, as one that is as fresh as the leader brings all else along.
        """
        with self._errors_told():
            return await self._store.at_master().get(children_key(0))

    # Operations.

    async def answer(self, request: Request) -> Reply:
        """Do everything that is not a transfer; raises ``Refusal``."""
        match request:
            case MakeDirectories() | Rename() | Delete():
                return await self._change(request)
            case GetFileStatus(path):
                node = self.tree.node(path)
                return Reply(200, replies.file_status(node, self._child_count(node)))
            case ListStatus(path):
                return Reply(200, self._list(self.tree.node(path)))
            case GetServerDefaults():
                return Reply(200, replies.server_defaults())
            case GetHomeDirectory(user):
                return Reply(200, replies.home_directory(user))
            case GetFileBlockLocations(path):
                self.tree.node(path)
                return Reply(200, replies.no_block_locations())
            case Open() | Create():
                raise AssertionError("transfers are not answered here")

    def _child_count(self, node: Node) -> int:
        return self.tree.count(node) if node.is_directory else 0

    def _list(self, node: Node) -> bytes:
        entries = self.tree.entries(node) if node.is_directory else [("", node)]
        return replies.file_statuses(
            (name, child, self._child_count(child)) for name, child in entries
        )

    async def _change(self, request: MakeDirectories | Rename | Delete) -> Reply:
        match request:
            case MakeDirectories():
                await self._commit(
                    lambda: changes.make_directories(self.tree, request, _numbers(), _now_ms())
                )
                return Reply(200, replies.boolean(True))  # noqa: FBT003 - the answer itself
            case Delete():
                done = await self._commit(lambda: changes.delete(self.tree, request))
                self.has_garbage()
                return Reply(200, replies.boolean(done))
            case Rename(style=RenameStyle.CLASSIC):
                return Reply(200, replies.boolean(await self._rename_classic(request)))
            case Rename():
                await self._commit(lambda: changes.rename(self.tree, request))
                return Reply(200)

    async def _rename_classic(self, request: Rename) -> bool:
        """Move something; false, as Hadoop has it, where the other style raises."""
        try:
            await self._commit(lambda: changes.rename(self.tree, request))
        except (Full, Standby, StoreFailed):
            raise
        except Refusal:
            return False
        return True

    async def _commit(self, decide: Callable[[], Batch | None]) -> bool:
        """Decide, and decide anew as long as somebody else was faster; false for nothing to do."""
        for _ in range(ATTEMPTS_MAX):
            batch = decide()
            if batch is None:
                return False
            if await self._try(batch):
                return True
            await self._level()  # What was faster may have been done by way of another gateway.
        raise Impossible("others change the same files all the time: try again")

    async def _try(self, batch: Batch) -> bool:
        """Do a batch; false if a guard did not hold."""
        with self._errors_told():
            try:
                await (await self._store.batch(batch)).applied()
            except GuardFailed:
                return False
            return True

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        """Turn what went wrong in the store into a refusal."""
        try:
            yield
        except _LEADERLESS as error:
            raise Standby(f"store {self._store.name()}: {error}") from error
        except QuotaExceeded as error:
            raise Full(str(error)) from error
        except StoreError as error:
            raise StoreFailed(f"store {self._store.name()}: {error}") from error

    # Transfers.

    def find_file(self, request: Open) -> tuple[Node, int, int]:
        """Give a file and the stretch of it that is wanted; raises ``NotFound``."""
        node = self.tree.node(request.path)
        if node.is_directory:
            raise NotFound(f"Path is not a file: {path_text(request.path)}")
        if request.offset > node.length:
            raise Impossible(f"offset {request.offset} is beyond the end, {node.length}")
        return node, request.offset, min(node.length, request.offset + request.length)

    async def read(self, node: Node, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Give a stretch of a file, chunk by chunk; raises ``NotFound`` if it is deleted."""
        for index in range(start // CHUNK_SIZE, -(-stop // CHUNK_SIZE)):
            chunk = self.tree.view.get(chunk_key(node.number, index))
            if not isinstance(chunk, bytes):
                raise NotFound("the file was deleted while it was read")
            at = index * CHUNK_SIZE
            yield chunk[max(start - at, 0) : stop - at]

    def check(self, request: Create | Open) -> None:
        """Raise what can be known before anything is transferred."""
        if isinstance(request, Create):
            changes.check_create(self.tree, request)
        else:
            self.find_file(request)

    async def create(self, request: Create, pieces: AsyncIterator[bytes]) -> None:
        """Write a file, which is there as a whole or not at all; raises ``Refusal``."""
        replaced = changes.check_create(self.tree, request)
        upload = uploads.Upload(next(_numbers()))
        try:
            with self._errors_told():
                await self._write(request, upload, pieces)
        except BaseException:
            self._abandon(upload)
            raise
        finally:
            self.uploads.give_back(upload.length)
        if replaced is not None:
            self.has_garbage()

    async def _write(
        self, request: Create, upload: uploads.Upload, pieces: AsyncIterator[bytes]
    ) -> None:
        transfer = _Transfer(self._store, upload.number, self._name)
        async for piece in pieces:
            self.uploads.take(len(piece), self._store.statistics().max_bytes)
            await transfer.store(upload.feed(piece))
        rest, content = upload.end()
        await transfer.store(rest)
        await transfer.settle()
        await self._commit(
            lambda: changes.create(self.tree, request, content, _numbers(), _now_ms())
        )

    def _abandon(self, upload: uploads.Upload) -> None:
        """Have its chunks collected: asked without waiting, since a cancelled task may not wait."""
        if upload.is_begun and self.is_active():
            batch = uploads.abandon_upload(upload.number)
            runner = self._store.runner
            request = self._store.part.core.requests.batch(batch.guards, batch.steps, batch.others)
            runner.ask(request).wake_when_resolved(self.has_garbage)

    async def collect(self) -> bool:
        """Do one step of the collection; false if nothing is left, or none leads."""
        if not self.is_active():
            return False
        await self._level()
        lost = collection.lost_upload(self.tree.view)
        batch = collection.next_step(self.tree.view) if lost is None else lost
        if batch is None:
            return False
        await self._try(batch)  # Where a guard did not hold, another gateway was faster.
        return True

    async def stay_present(self) -> None:
        """Have other gateways know that this one still has uploads under way, if it has."""
        if self.uploads.used and self.is_active():
            with self._errors_told():
                await (await self._store.batch(uploads.presence(self._name))).applied()


class _Transfer:
    """Chunks on their way into the store, so many at a time."""

    def __init__(self, store: FileStore, number: int, uploader: str) -> None:
        self._store = store
        self._number = number
        self._uploader = uploader
        self._receipts: deque[Receipt] = deque()

    async def store(self, chunks: list[tuple[int, bytes]]) -> None:
        """Send chunks to the store; waits while too many are under way."""
        for index, chunk in chunks:
            if index == 0:
                note = uploads.begin_upload(self._number, self._uploader)
                # A chunk that is kept without it would never be collected.
                await (await self._store.batch(note)).applied()
            self._receipts.append(await self._store.put(chunk_key(self._number, index), chunk))
            while len(self._receipts) > UPLOAD_WINDOW_CHUNKS:
                await self._receipts.popleft().applied()

    async def settle(self) -> None:
        """Wait until all of them are kept."""
        while self._receipts:
            await self._receipts.popleft().applied()


def _numbers() -> Iterator[int]:
    """Give numbers that nothing else has: of 62 bits, so that chance will do."""
    while True:
        yield secrets.randbits(62) or 1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
