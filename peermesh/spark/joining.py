"""Joins the mesh from any process of Spark: one endpoint each, made on first use and kept.

Nothing of the driver's reaches its planners, sink runners and workers but what can be pickled. So
each joins by itself, as a leaf that nobody routes through, and later tasks of a worker find what
the first one opened. None has a copy of a store.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias, TypeVar

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.blocking import Endpoint, Log, ReplicaStore, Store, StoreProxy
from peermesh.spark.options import MeshAddress
from wire.errors import NoQuorum, RequestTimeout, StaleData

DIAL_SECONDS: Final = 0.2
"""How long to wait for each peer: whatever is asked then waits by itself, and dialling goes on."""

RETRY_SECONDS: Final = 0.5
"""The longest pause between two attempts to reach a peer."""

CERTIFICATE_NAME: Final = "peermesh spark"

AnyStore: TypeAlias = Store | ReplicaStore | StoreProxy
"""What a job may keep its things in: a master, a clone, a replica of a group, or a proxy."""


PAUSE_SECONDS: Final = 0.1
"""Between two reads, of which the first may have failed at once."""

Found = TypeVar("Found")


def patiently(
    read: Callable[[], Found],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Found:
    """Read at a store's leader, again and again while it is away, for so many seconds.

    By itself a read waits for five. Raises ``RequestTimeout``.
    """
    deadline = clock() + seconds
    while True:
        try:
            return read()
        except (StaleData, NoQuorum) as error:
            if clock() >= deadline:
                raise RequestTimeout(
                    f"{error}: its leader has not answered in {seconds:g} s: is it there?"
                ) from error
        pause(PAUSE_SECONDS)


class Membership:
    """What one process has open in one mesh."""

    def __init__(self, address: MeshAddress) -> None:
        """Join; who cannot be reached now is dialled on."""
        self._address = address
        self._logs: dict[str, Log] = {}
        self._proxies: dict[str, StoreProxy] = {}
        self.endpoint = self._new_endpoint()

    def log(self, name: str) -> Log:
        """Give the handle of a log, without a copy."""
        if name not in self._logs:
            patience = self._address.patience_seconds
            self._logs[name] = self.endpoint.attach_log_proxy(name, patience=patience)
        return self._logs[name]

    def store(self, name: str) -> StoreProxy:
        """Give the handle of a store, without a copy, whose leader has answered a moment ago.

        Raises ``RequestTimeout`` if none did in time.
        """
        self.revision(name)
        return self._proxy(name)

    def revision(self, name: str) -> int:
        """Ask a store's leader for its revision; raises ``RequestTimeout``."""
        reader = self._proxy(name).at_master()
        return patiently(lambda: reader.scan(limit=1).revision, self._address.patience_seconds)

    def _proxy(self, name: str) -> StoreProxy:
        if name not in self._proxies:
            self._proxies[name] = self.endpoint.attach_proxy(name)
        return self._proxies[name]

    def _new_endpoint(self) -> Endpoint:
        endpoint = Endpoint(credentials=_credentials(self._address), forwarding=False)
        for host, port in self._address.peers:
            endpoint.peer(host, port, RETRY_SECONDS, timeout=DIAL_SECONDS)
        return endpoint


_memberships: dict[tuple[int, MeshAddress], Membership] = {}
_lock = threading.Lock()


def join(address: MeshAddress) -> Membership:
    """Give this process's membership. A process that was forked has its own."""
    key = (os.getpid(), address)
    with _lock:
        if key not in _memberships:
            _memberships[key] = Membership(address)
        return _memberships[key]


@cache
def settle() -> None:
    """Have the garbage collector pass over what there is in this process at the first call.

    For tasks and plans: Spark's processes collect in full after each. What an endpoint and all
    modules have is a hundred thousand objects, which stay: as much work as reading 50,000 rows.
    """
    gc.freeze()


def leave() -> None:
    """End all memberships of this process; workers of Spark just end."""
    with _lock:
        for (process, _), membership in _memberships.items():
            if process == os.getpid():
                membership.endpoint.shutdown()
        _memberships.clear()


def _credentials(address: MeshAddress) -> Credentials | None:
    if address.secret_file is not None:
        secret: ClusterSecret | None = ClusterSecret.from_file(address.secret_file)
    else:
        secret = ClusterSecret.from_environment()
    return None if secret is None else Credentials.from_secret(secret, CERTIFICATE_NAME)
