"""A gateway in front of a store in memory, and a client of it in plain HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peermesh import blocking
from peermesh.gateways import WebHDFSGateway
from peermesh.testing.webhdfs import WebHDFSClient


@pytest.fixture
def store() -> Iterator[blocking.Store]:
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("files", blocking.Backend.Memory) as store,
    ):
        yield store


@pytest.fixture
def gateway(store: blocking.Store) -> Iterator[WebHDFSGateway]:
    with blocking.serve_webhdfs(store) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: WebHDFSGateway) -> Iterator[WebHDFSClient]:
    with WebHDFSClient(gateway.host, gateway.port) as client:
        yield client
