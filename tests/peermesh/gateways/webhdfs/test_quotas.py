"""A gateway whose store has a quota: what is refused, what goes on, what is given back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peermesh import blocking
from peermesh.gateways import WebHDFSGateway
from peermesh.gateways.webhdfs.errors import Full
from peermesh.gateways.webhdfs.limits import CHUNK_SIZE, FILE_SIZE_MAX
from peermesh.gateways.webhdfs.uploads import UploadBudget
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


def test_the_budget_of_uploads_is_shared_and_given_back() -> None:
    budget = UploadBudget()
    budget.take(40, 100)
    budget.take(10, 100)
    with pytest.raises(Full, match="have 50 bytes, and may have 50"):
        budget.take(1, 100)
    budget.take(1, 102)
    budget.give_back(40)
    budget.take(39, 100)
    assert budget.used == 50
    with pytest.raises(Full):
        budget.take(FILE_SIZE_MAX, None)
