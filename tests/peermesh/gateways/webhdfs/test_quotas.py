"""A gateway whose store has a quota: what is refused, what goes on, what is given back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from peermesh import blocking
from peermesh.gateways import WebHDFSGateway
from peermesh.gateways.webhdfs.errors import Full
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE, FILE_SIZE_MAX, STALLED_SECONDS
from peermesh.gateways.webhdfs.uploads import Upload, UploadBudget
from peermesh.testing.webhdfs import RemoteException, WebHDFSClient

QUOTA = 16 * CHUNK_SIZE


@pytest.fixture
def store() -> Iterator[blocking.Store]:
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("files", max_bytes=QUOTA) as store,
    ):
        yield store


def upload(client: WebHDFSClient, path: str, chunks: int) -> None:
    client.create(path, iter([bytes(CHUNK_SIZE)] * chunks), overwrite=False)


def await_chunks(store: blocking.Store, count: int) -> None:
    """Wait until so many chunks are left, of the files that are there."""
    for _ in store.watch():
        keys = store.keys()
        if sum(isinstance(key, tuple) and key[1] == "chunk" for key in keys) == count:
            return


def test_a_full_store_is_told_as_hdfs_does_and_a_delete_makes_room(
    store: blocking.Store, client: WebHDFSClient
) -> None:
    for number in range(3):
        upload(client, f"/{number}", 5)
    with pytest.raises(RemoteException, match="store files is full") as refused:
        upload(client, "/3", 5)
    assert refused.value.name == "DSQuotaExceededException"
    assert client.names("/") == ["0", "1", "2"]
    await_chunks(store, 15)
    assert client.delete("/0")
    await_chunks(store, 10)
    upload(client, "/3", 5)
    assert client.names("/") == ["1", "2", "3"]


def test_small_files_and_renames_are_refused_and_deletes_are_not(
    store: blocking.Store, client: WebHDFSClient
) -> None:
    client.create("/small", b"s", overwrite=False)
    store.set_quota(max_bytes=store.statistics().bytes)
    with pytest.raises(RemoteException) as refused:
        client.create("/other", b"o", overwrite=False)
    assert refused.value.name == "DSQuotaExceededException"
    with pytest.raises(RemoteException) as refused:
        client.rename("/small", "/a much longer name than it has now")
    assert refused.value.name == "DSQuotaExceededException"
    with pytest.raises(RemoteException) as refused:
        client.make_directories("/directory")
    assert client.delete("/small")
    client.create("/other", b"o", overwrite=False)


def test_unfinished_uploads_leave_room_for_others(
    store: blocking.Store, gateway: WebHDFSGateway, client: WebHDFSClient
) -> None:
    with pytest.raises(RemoteException, match="unfinished uploads") as refused:
        upload(client, "/large", 9)
    assert refused.value.name == "DSQuotaExceededException"
    assert gateway.statistics().upload_bytes == 0
    await_chunks(store, 0)
    upload(client, "/half", 7)
    assert gateway.statistics().upload_bytes == 0


def begun(
    budget: UploadBudget, length: int, now: float = 0.0, then: Callable[[], None] = lambda: None
) -> Upload:
    """Give an upload of which so much came then; the store may have 100 chunks."""
    upload = Upload(1, now, then)
    budget.take(upload, length, 100 * CHUNK_SIZE, now)
    upload.feed(bytes(length))
    return upload


def test_the_budget_of_uploads_is_shared_and_given_back() -> None:
    budget, chunk = UploadBudget(), CHUNK_SIZE
    large, other = begun(budget, 40 * chunk), begun(budget, 10 * chunk)
    with pytest.raises(Full, match=f"have {50 * chunk} bytes, and may have {50 * chunk}"):
        budget.take(other, 1, 100 * chunk, 0)
    budget.take(other, 1, 102 * chunk, 0)
    budget.give_back(large)
    budget.give_back(large)
    assert budget.used == 10 * chunk + 1
    budget.give_back(other)
    assert budget.used == 0
    with pytest.raises(Full):
        budget.take(begun(budget, 2 * chunk), FILE_SIZE_MAX, None, 0)


def test_what_is_less_than_a_chunk_takes_nothing_of_the_budget() -> None:
    budget, chunk = UploadBudget(), CHUNK_SIZE
    begun(budget, 50 * chunk)
    small = begun(budget, chunk)
    assert budget.used == 50 * chunk
    with pytest.raises(Full):
        budget.take(small, 1, 100 * chunk, 0)


def test_uploads_that_stalled_first_end_when_others_need_their_room() -> None:
    budget, chunk = UploadBudget(), CHUNK_SIZE
    stopped: list[int] = []
    _, first, third = (
        begun(budget, 15 * chunk, now, partial(stopped.append, now)) for now in (2, 1, 3)
    )
    waits = begun(budget, 2 * chunk, 0)
    waits.waits_since = math.inf  # For the store: that is nothing that its client could mend.
    fresh = Upload(2, 50)
    late = STALLED_SECONDS + 2.5
    with pytest.raises(Full):
        budget.take(fresh, 4 * chunk, 100 * chunk, STALLED_SECONDS + 0.9)
    budget.take(fresh, 3 * chunk, 100 * chunk, late)
    assert budget.used == 50 * chunk
    fresh.feed(bytes(3 * chunk))
    with pytest.raises(Full):
        budget.take(fresh, 31 * chunk, 100 * chunk, late)
    assert (budget.used, stopped) == (50 * chunk, []), "what would not be enough ends none"
    budget.take(fresh, 16 * chunk, 100 * chunk, late)
    assert stopped == [1, 2]
    assert budget.used == (3 + 16 + 15 + 2) * chunk
    budget.give_back(first)
    assert budget.used == (3 + 16 + 15 + 2) * chunk
    budget.take(third, 14 * chunk, 100 * chunk, late + 10)
    assert stopped == [1, 2]
