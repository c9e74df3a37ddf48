"""Broker's Python bindings on the mesh: ``import peermesh.compat.broker as broker``.

Names, arguments and results are Broker's, and so is what no docstring here says. What is another
thing than with Broker stands in docs/coming-from-broker.md.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from enum import Enum as Choices, IntEnum
from functools import partial
from typing import ClassVar, Final, NamedTuple, Self

import peermesh as mesh
from peermesh import Backend, Count, Enum, blocking, errors
from peermesh.compat.broker import zeek
from peermesh.compat.broker.data import (
    Data,
    Given,
    ImmutableData,
    Port,
    Set,
    Timespan,
    Timestamp,
    now,
    to_mesh,
    to_py,
)

__all__ = [
    "EC", "SC", "Backend", "BrokerOptions", "Configuration", "Count", "Data", "Endpoint",
    "EndpointInfo", "Enum", "Error", "ImmutableData", "NetworkInfo", "Port", "Publisher",
    "SafeSubscriber", "Set", "Status", "StatusSubscriber", "Store", "Subscriber", "Timespan",
    "Timestamp", "Topic", "now", "utc", "zeek",
]  # fmt: skip

utc = UTC

TICK_SECONDS: Final = 0.1
"""What ``await_idle`` takes at least while keys expire: programs rely on Broker's tick."""

CAPACITY: Final = 128
"""That of a publisher, which holds nothing back here: ``publish`` waits for room instead."""

_ERRORS: Final = (mesh.StatusCode.PEER_UNAVAILABLE, mesh.StatusCode.CANNOT_REMOVE_PEER)

_QUESTIONS: Final = frozenset({"get", "get_index_from_value", "exists", "keys", "put_unique"})
"""What is asked of a store: the answer is ``None`` where the mesh raises an error."""


class SC(Choices):
    """What statuses tell."""

    Unspecified = None
    EndpointDiscovered = mesh.StatusCode.ENDPOINT_DISCOVERED
    PeerAdded = mesh.StatusCode.PEER_ADDED
    PeerRemoved = mesh.StatusCode.PEER_REMOVED
    PeerLost = mesh.StatusCode.PEER_LOST
    EndpointUnreachable = mesh.StatusCode.ENDPOINT_UNREACHABLE


_CODES: Final = {code.name.title().replace("_", ""): code.value for code in mesh.ErrorCode}
EC: Given = IntEnum("EC", {"RequestTimeOut": 10} | _CODES)  # type: ignore[misc]  # names as Broker's
"""What errors tell: all codes of the mesh, such as ``EC.PeerUnavailable``; they equal numbers."""


class Topic(str):
    """A topic, to which others are appended with a slash."""

    __slots__ = ()

    def string(self) -> str:
        return str(self)

    def __truediv__(self, other: str) -> Topic:
        slash = "" if not self or other.startswith("/") else "/"
        return Topic(f"{self}{slash}{other}".removesuffix("/"))


@dataclass
class BrokerOptions:
    """What an endpoint does. ``disable_ssl`` allows plain TCP beyond loopback."""

    disable_ssl: bool = False
    disable_forwarding: bool = False
    ignore_broker_conf: bool = False
    use_real_time: bool = True


@dataclass
class Configuration:
    """Options, and files in PEM."""

    options: BrokerOptions = field(default_factory=BrokerOptions)
    openssl_cafile: str = ""
    openssl_capath: str = ""
    openssl_certificate: str = ""
    openssl_key: str = field(default="", repr=False)
    openssl_passphrase: str = field(default="", repr=False)
    max_threads: int = 0

    def settings(self) -> dict[str, Given]:
        """Give the settings of the mesh; raises ``ValueError`` for what it has not."""
        if self.openssl_capath or not self.options.use_real_time:
            raise ValueError("openssl_capath and use_real_time=False are not there: see the page")
        return {
            "authority": self.openssl_cafile or None,
            "certificate": self.openssl_certificate or None,
            "key": self.openssl_key or None,
            "passphrase": self.openssl_passphrase or None,
            "forwarding": not self.options.disable_forwarding,
            "allow_plain": self.options.disable_ssl,
        }


class NetworkInfo(NamedTuple):
    """An address, and the longest pause in seconds until it is dialled again."""

    address: str
    port: int
    retry: float

    def is_set(self) -> bool:
        return bool(self.address)

    def get(self) -> Self:
        return self


class EndpointInfo:
    """An endpoint and its address, as far as an event of the mesh tells them."""

    def __init__(self, event: mesh.StatusEvent) -> None:
        self._event = event
        host, port = event.address or ("", 0)
        self.network = NetworkInfo(host, port, event.retry or 0.0)

    def __repr__(self) -> str:
        return str(self._event)

    def node_id(self) -> str:
        return str(self._event.endpoint or "")

    def context(self) -> EndpointInfo:
        return self


class Status(EndpointInfo):
    """What has become of an endpoint."""

    def code(self) -> Given:
        return SC(self._event.status)


class Error(EndpointInfo):
    """What an endpoint could not do."""

    def code(self) -> Given:
        return EC(self._event.code)


class _Handle:
    """Passes calls on to a handle of the mesh, with Broker's values on this side."""

    def __init__(self, inner: Given) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Given]:
        if name.startswith("_"):  # Copies and pickles ask for those.
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return partial(self._call, getattr(self._inner, name))

    def _call(self, method: Callable[..., Given], *values: Given, **named: Given) -> Given:
        return to_py(method(*map(to_mesh, values), **named))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()

    def reset(self) -> None:
        self._inner.close()


class _Sender(_Handle):
    def publish_batch(self, *batch: Given) -> None:
        self._inner.publish_batch(to_mesh(batch))


class _Reader(_Handle):
    _show: Callable[[list[Given]], list[Given]]

    def get(self, first: float | None = None, seconds: float | None = None) -> Given:
        """Wait for the next one; for as many as an ``int`` says; for seconds, as a ``float``."""
        if isinstance(first, int):
            return self._take(first, seconds)
        found = self._take(1, first)
        return found[0] if found else None

    def _take(self, count: int, seconds: float | None) -> list[Given]:
        """Wait for so many, and give those that came in time, or before the end."""
        end = None if seconds is None else time.monotonic() + seconds
        found: list[Given] = []
        try:
            while len(found) < count:
                left = None if end is None else max(0.0, end - time.monotonic())
                found += self._show([self._inner.get(left)])
        except TimeoutError:
            pass
        except errors.EndpointClosed:
            if not found:
                raise
        return found

    def poll(self) -> list[Given]:
        return self._show(self._inner.poll())

    def available(self) -> bool:
        return bool(self._inner.available())

    def fd(self) -> Given:
        return self._inner.fileno()


class Subscriber(_Reader):
    """Messages, as pairs of topic and data."""

    _form: ClassVar[type[Data]] = Data

    def _show(self, items: list[Given]) -> list[Given]:
        pairs = ((topic, each) for topic, each in items if not isinstance(each, mesh.Missed))
        return [(topic, self._form.to_py(each)) for topic, each in pairs]

    def add_topic(self, topic: str, block: object = None) -> None:
        self._inner.add_topic(topic)

    def remove_topic(self, topic: str, block: object = None) -> None:
        self._inner.remove_topic(topic)


class SafeSubscriber(Subscriber):
    """The same, with data that can be hashed."""

    _form: ClassVar[type[Data]] = ImmutableData


class StatusSubscriber(_Reader):
    """Errors, and statuses if they are wanted."""

    def _show(self, items: list[Given]) -> list[Given]:
        return [Error(each) if each.is_error else Status(each) for each in items]


class Publisher(_Sender):
    """Publishes on one topic."""

    def buffered(self) -> int:
        return 0

    def capacity(self) -> int:
        return CAPACITY


class Store(_Handle):
    """A master or a clone. A question that fails has the answer ``None``."""

    def _call(self, method: Callable[..., Given], *values: Given, **named: Given) -> Given:
        try:
            return super()._call(method, *values, **named)
        except errors.StoreError:
            if method.__name__ in _QUESTIONS:
                return None
            raise

    def insert_into(
        self, key: Given, index: Given, value: Given = None, expiry: float | None = None
    ) -> Given:
        entry = (index,) if value is None else (index, value)
        return self._call(self._inner.insert_into, key, *entry, expiry=expiry)

    def keys(self) -> Given:
        found = self._call(self._inner.keys)
        return None if found is None else set(map(to_py, found))

    def await_idle(self, timeout: float | None = None) -> bool:
        began = time.monotonic()
        is_idle = bool(self._inner.await_idle(*[timeout] if timeout else ()))
        if is_idle and self._inner.statistics().expiring:
            time.sleep(max(0.0, began + TICK_SECONDS - time.monotonic()))
        return is_idle


class Endpoint(_Sender):
    """One participant of the mesh, which the end of a block shuts down."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(blocking.Endpoint(**(configuration or Configuration()).settings()))

    def reset(self) -> None:
        self._inner.shutdown()

    def peer(self, addr: str, port: int, retry: float = 10.0) -> bool:
        return bool(self._inner.peer(addr, port, retry, None))

    def peer_nosync(self, addr: str, port: int, retry: float = 10.0) -> None:
        self._inner.peer(addr, port, retry, 0)

    def unpeer_nosync(self, addr: str, port: int) -> None:
        self._inner.unpeer(addr, port)

    def make_subscriber(
        self, topics: Given, qsize: int = 20, subscriber_class: Given = Subscriber
    ) -> Given:
        """Subscribe; ``qsize`` is not looked at, as with Broker."""
        return subscriber_class(self._inner.subscribe(to_mesh(topics)))

    def make_safe_subscriber(self, topics: Given, qsize: int = 20) -> Given:
        return self.make_subscriber(topics, qsize, SafeSubscriber)

    def make_status_subscriber(self, receive_statuses: object = None) -> StatusSubscriber:
        statuses = [code.value for code in SC if code.value] if receive_statuses else ()
        return StatusSubscriber(self._inner.subscribe_status(*_ERRORS, *statuses))

    def make_publisher(self, topic: str) -> Publisher:
        return Publisher(self._inner.publisher(topic))

    def attach_master(
        self,
        name: str,
        type: Given = Backend.Memory,  # noqa: A002 - Broker's name
        opts: Given = None,
    ) -> Store | None:
        """Attach the master; options of memory are not looked at, as with Broker."""
        options = opts if opts and type is Backend.SQLite else {}
        return self._attach(partial(self._inner.attach_master, name, type, **options))

    def attach_clone(self, name: str) -> Store | None:
        return self._attach(partial(self._inner.attach_clone, name))

    def _attach(self, attach: Callable[[], Given]) -> Store | None:
        try:
            return Store(attach())
        except errors.StoreError as error:
            warnings.warn(f"no store is attached: {error}", RuntimeWarning, stacklevel=3)
            return None
