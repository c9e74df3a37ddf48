"""Carries out requests on a store: reads at once, changes as batches until their guards hold."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from typing import Final

import trio

from endpoint.replicas.receipts import Receipt
from peermesh.gateways.http import Reply
from peermesh.gateways.refusals import Busy, NotFound, Refusal
from peermesh.gateways.webhdfs import (
    attributes,
    changes,
    collection,
    inquiries,
    joining,
    replies,
    uploads,
)
from peermesh.gateways.webhdfs.contents import pieces as pieces_of
from peermesh.gateways.webhdfs.errors import Full, Impossible, Standby, StoreFailed
from peermesh.gateways.webhdfs.limits import (
    KEPT_SECONDS,
    LOOK_AGAIN_SECONDS,
    PAGE_COUNT,
    UPLOAD_BATCH_CHUNKS,
    WAIT_SECONDS,
)
from peermesh.gateways.webhdfs.listing import FileStore, listed
from peermesh.gateways.webhdfs.nodes import (
    Node,
    children_key,
    chunk_key,
    decoded_node,
    encoded_entry_key,
    upload_key,
)
from peermesh.gateways.webhdfs.paths import path_text
from peermesh.gateways.webhdfs.readiness import Outlook, State
from peermesh.gateways.webhdfs.requests import (
    Append,
    Change,
    Concat,
    Create,
    Delete,
    MakeDirectories,
    Open,
    Rename,
    RenameStyle,
    Request,
    SetAttributes,
    Transfer,
    Truncate,
    changed_paths,
)
from peermesh.gateways.webhdfs.tree import Tree
from peermesh.gateways.webhdfs.turns import PathTurns, pause_seconds, too_busy
from stores.batch import Batch
from stores.order import prefix_range
from stores.scanning import PAGE_COUNT_MAX, Span, make_span
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

    def scan(
        self, prefix: Value, limit: int, after: Value | None = None
    ) -> list[tuple[Value, Value]]:
        """Give the first keys that begin with a prefix, in order, with their values.

        With ``after``, only those behind that key, which need not be there.
        """
        span, found = make_span(prefix=encode(prefix)), list[tuple[Value, Value]]()
        if after is not None:
            span = Span(prefix_range(encode(after))[1], span.stop)
        while True:
            page = self._part.table.scan(span, min(limit - len(found), PAGE_COUNT_MAX))
            found += [(decode(key), decode(entry.value)) for key, entry in page.entries]
            if page.continuation is None or len(found) >= limit:
                return found
            span = span.after(page.continuation)


class Service:
    """The file system that a store holds."""

    def __init__(self, store: FileStore, name: str) -> None:
        """Serve a store; uploads bear the name of what serves, which no other has."""
        self._store = store
        self._name = name
        self.tree = Tree(StoreView(store))
        self.uploads = uploads.UploadBudget()
        self._turns = PathTurns()
        self._long_listing = trio.Lock()
        self.has_garbage: Callable[[], None] = lambda: None
        """Called when there is something to collect."""

    def outlook(self) -> Outlook:
        """Say what is seen of the store's leader here."""
        runner, core = self._store.runner, self._store.part.core
        silent_seconds = core.silent_ns() / 1e9 if core.was_served else math.inf
        return Outlook(silent_seconds, core.hears_majority, runner.error is not None)

    def is_active(self) -> bool:
        """Tell whether the store has a leader, here or where this gateway hears it."""
        return self.outlook().state is State.ACTIVE

    async def prepare(self) -> float:
        """Wait for all that was acknowledged before, anywhere; raises ``Standby`` if none leads.

        Gives the time until which the request may wait for its turn.
        """
        until = _waiting_time()
        if await self._level(until) is None:
            await self._try(collection.plant_root(), until)
            await self._level(until)
        return until

    async def _await_leader(self, begin: float, until: float) -> None:
        """Wait for a leader, for what began then: the client would ask again at once."""
        runner = self._store.runner
        while not (outlook := self.outlook()).is_led:
            if trio.current_time() >= min(until, begin + outlook.patience_seconds):
                raise self._leaderless()
            with trio.move_on_after(LOOK_AGAIN_SECONDS):
                await runner.changed.park()

    def _leaderless(self) -> Standby:
        return Standby(
            f"Operation category READ is not supported in state standby: no leader of store"
            f" {self._store.name()} answers"
        )

    async def _level(self, until: float) -> Value:
        """Wait until all is here that any gateway has answered so far; give the root's count.

        A read of the root does, as one that is as fresh as the leader brings all else along. A
        leader that is lost meanwhile is a longer wait, as long as another one may be elected.
        """
        begin = trio.current_time()
        while True:
            await self._await_leader(begin, until)
            with self._errors_told(), trio.move_on_at(until), suppress(*_LEADERLESS):
                return await self._store.at_master().get(children_key(0))
            if trio.current_time() >= until:
                raise self._leaderless()

    # Operations.

    async def answer(self, request: Request, until: float) -> Reply:
        """Do everything that is not a transfer; raises ``Refusal``.

        It may wait ``until`` the time that ``prepare`` gave.
        """
        match request:
            case MakeDirectories() | Rename() | Delete() | Truncate() | Concat() | SetAttributes():
                return await self._change(request, until)
            case Open() | Create() | Append():
                raise AssertionError("transfers are not answered here")
            case _:
                space = self._store.statistics()
                return Reply(200, await inquiries.answer(self.tree, request, space, self._entries))

    async def _entries(self, directory: Node) -> list[tuple[str, Node]]:
        """List a directory; of those of more than a page one at a time, as each takes megabytes."""
        is_long = self.tree.count(directory) > PAGE_COUNT
        async with self._long_listing if is_long else nullcontext():
            with self._errors_told():
                return await listed(self._store, self.tree, directory)

    async def _change(self, request: Change, until: float) -> Reply:
        match request:
            case MakeDirectories():
                await self._commit(
                    request,
                    until,
                    lambda: changes.make_directories(self.tree, request, _numbers(), _now_ms()),
                )
                return Reply(200, replies.boolean(True))  # noqa: FBT003 - the answer itself
            case Delete():
                done = await self._commit(
                    request, until, lambda: changes.delete(self.tree, request)
                )
                self.has_garbage()
                return Reply(200, replies.boolean(done))
            case Rename(style=RenameStyle.CLASSIC):
                return Reply(200, replies.boolean(await self._rename_classic(request, until)))
            case Rename():
                await self._commit(request, until, lambda: changes.rename(self.tree, request))
                if request.style is RenameStyle.OVERWRITE:
                    self.has_garbage()
                return Reply(200)
            case Truncate():
                await self._commit(
                    request,
                    until,
                    lambda: joining.truncate(self.tree, request, _numbers(), _now_ms()),
                )
                self.has_garbage()
                return Reply(200, replies.boolean(True))  # noqa: FBT003 - the answer itself
            case Concat():
                await self._commit(
                    request, until, lambda: joining.concat(self.tree, request, _now_ms())
                )
                return Reply(200)
            case SetAttributes():
                await self._commit(
                    request, until, lambda: attributes.set_attributes(self.tree, request)
                )
                is_asked = request.replication is not None
                return Reply(200, replies.boolean(True) if is_asked else b"")  # noqa: FBT003 - the answer itself

    async def _rename_classic(self, request: Rename, until: float) -> bool:
        """Move something; false, as Hadoop has it, where the other style raises."""
        try:
            await self._commit(request, until, lambda: changes.rename(self.tree, request))
        except (Busy, Full, Standby, StoreFailed):
            raise
        except Refusal:
            return False
        return True

    async def _commit(
        self,
        request: Change | Create | Append,
        until: float,
        decide: Callable[[], Batch | None],
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Decide, and decide anew as long as another change was faster; false for nothing to do.

        ``check`` raises what no new decision can help, once all is here that was faster. Raises
        ``Busy`` if others are faster for too long.
        """
        async with self._turns.of(changed_paths(request), until):
            for failures in count(1):
                batch = decide()
                if batch is None:
                    return False
                if await self._try(batch, until):
                    return True
                await self._level(until)  # What was faster may have come by way of another gateway.
                check()
                pause = pause_seconds(failures, random.random())
                if trio.current_time() + pause >= until:
                    raise too_busy(request.path)
                await trio.sleep(pause)
        raise AssertionError("it is decided, or refused")

    async def _try(self, batch: Batch, until: float) -> bool:
        """Do a batch; false if a guard did not hold.

        Raises ``Standby`` if it is not known in time whether it was kept.
        """
        with self._errors_told(), trio.move_on_at(until + KEPT_SECONDS):
            try:
                await (await self._store.batch(batch)).applied()
            except GuardFailed:
                return False
            return True
        raise Standby(f"store {self._store.name()}: it is unknown whether the change was kept")

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
        for number, index, begin, end in pieces_of(node, start, stop):
            chunk = self.tree.view.get(chunk_key(number, index))
            if not isinstance(chunk, bytes) or len(chunk) < end:
                raise NotFound("the file was deleted or cut while it was read")
            yield chunk[begin:end]

    def check(self, request: Transfer) -> Node | None:
        """Raise what can be known before anything is transferred; give what is there."""
        match request:
            case Create():
                return changes.check_create(self.tree, request)
            case Append():
                return joining.find_place(self.tree, request.path)[1]
            case Open():
                return self.find_file(request)[0]

    async def write(self, request: Create | Append, pieces: AsyncIterator[bytes]) -> None:
        """Write a file, or behind its end: all of it, or nothing. Raises ``Refusal``."""
        replaced = self.check(request)
        receiving = trio.CancelScope()
        upload = uploads.Upload(next(_numbers()), trio.current_time(), receiving.cancel)
        transfer = _Transfer(self._store, upload.number, self._name)
        try:
            with self._errors_told():
                await self._write(request, upload, pieces, transfer, receiving)
        except BaseException:
            if upload.is_begun:
                transfer.call_when_settled(self.has_garbage)
            raise
        finally:
            self.uploads.give_back(upload)
        if replaced is not None:
            self.has_garbage()

    async def _write(
        self,
        request: Create | Append,
        upload: uploads.Upload,
        pieces: AsyncIterator[bytes],
        transfer: _Transfer,
        receiving: trio.CancelScope,
    ) -> None:
        with receiving:
            await self._receive(upload, pieces, transfer)
        if receiving.cancel_called:  # Perhaps when all had just come: its room is taken.
            raise uploads.has_stalled()
        until = _waiting_time()
        rest, content = upload.end()
        await transfer.store(rest)
        await transfer.settle()
        await self._commit(
            request,
            until,
            lambda: self._place(request, content),
            lambda: self._check_noted(content),
        )

    async def _receive(
        self, upload: uploads.Upload, pieces: AsyncIterator[bytes], transfer: _Transfer
    ) -> None:
        """Have the store keep what comes of an upload, until all has come."""
        quota = self._store.statistics().max_bytes  # A later one is for uploads that begin later.
        async for piece in pieces:
            self.uploads.take(upload, len(piece), quota, trio.current_time())
            if chunks := upload.feed(piece):
                upload.waits_since = math.inf
                await transfer.store(chunks)
                upload.waits_since = trio.current_time()
        upload.waits_since = math.inf

    def _check_noted(self, content: changes.Content) -> None:
        """Raise ``Impossible`` if another gateway has collected what was to become a file."""
        is_stored = content.chunk_count and content.only_chunk is None
        if is_stored and self.tree.view.get(upload_key(content.number)) is None:
            raise uploads.was_collected()

    def _place(self, request: Create | Append, content: changes.Content) -> Batch | None:
        if isinstance(request, Create):
            return changes.create(self.tree, request, content, _numbers(), _now_ms())
        return joining.append(self.tree, request, content, _numbers(), _now_ms())

    async def collect(self) -> bool:
        """Do one step of the collection; false if nothing is left, or none leads."""
        if not self.is_active():
            return False
        until = _waiting_time()
        await self._level(until)
        batch = await self._give_up_lost() or collection.next_step(self.tree.view)
        if batch is None:
            return False
        await self._try(batch, until)  # Where a guard did not hold, another gateway was faster.
        return True

    async def _give_up_lost(self) -> Batch | None:
        """Give up an upload that is lost, if there is one; other requests have their turn."""
        notes = collection.lost_uploads(self.tree.view, self._name, lambda: self.uploads.numbers)
        for lost in notes:
            if lost is not None:
                return lost
            await trio.lowlevel.checkpoint()
        return None

    async def stay_present(self) -> None:
        """Have other gateways know that this one still has uploads under way, if it has."""
        if self.uploads.used and self.is_active():
            with self._errors_told():
                await (await self._store.batch(uploads.presence(self._name))).applied()


class _Transfer:
    """Chunks on their way into the store, so many in one batch, of which one is under way.

    A batch is one write to the disk, and one message to each replica, whose waits are most of what
    a chunk costs.
    """

    def __init__(self, store: FileStore, number: int, uploader: str) -> None:
        self._store = store
        self._number = number
        # Chunks that are kept without this note would never be collected.
        self._batch = uploads.begin_upload(number, uploader)
        self._count = 0
        self._receipt: Receipt | None = None

    async def store(self, chunks: list[tuple[int, bytes]]) -> None:
        """Send chunks to the store when there are enough; waits while others are under way."""
        for index, chunk in chunks:
            self._batch.put(chunk_key(self._number, index), chunk)
            self._count += 1
            if self._count == UPLOAD_BATCH_CHUNKS:
                await self._send()

    async def settle(self) -> None:
        """Send what is left, and wait until all of it is kept."""
        if self._count:
            await self._send()
        await self._await_last()

    def call_when_settled(self, then: Callable[[], None]) -> None:
        """Call once it is known what became of the batch that is under way, if one is."""
        if self._receipt is None:
            then()
        else:
            self._receipt.wake_when_resolved(then)

    async def _send(self) -> None:
        await self._await_last()
        batch, self._batch = self._batch, uploads.go_on_with_upload(self._number)
        self._count = 0
        self._receipt = await self._store.batch(batch)

    async def _await_last(self) -> None:
        """Wait for the batch that is under way; raises ``Impossible`` if it came too late."""
        if self._receipt is None:
            return
        try:
            await self._receipt.applied()
        except GuardFailed:
            raise uploads.was_collected() from None


def _numbers() -> Iterator[int]:
    """Give numbers that nothing else has: of 62 bits, so that chance will do."""
    while True:
        yield secrets.randbits(62) or 1


def _waiting_time() -> float:
    """Give the time until which waits may last that begin now."""
    return trio.current_time() + WAIT_SECONDS


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
