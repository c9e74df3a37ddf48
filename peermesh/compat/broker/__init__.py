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
        tls = {"authority": self.openssl_cafile, "passphrase": self.openssl_passphrase}
        tls |= {"certificate": self.openssl_certificate, "key": self.openssl_key}
        given: dict[str, Given] = {name: value for name, value in tls.items() if value}
        given["forwarding"] = not self.options.disable_forwarding
        return given | {"allow_plain": self.options.disable_ssl}


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
    """An endpoint and its address, as far as they are known."""

    def __init__(self, event: mesh.StatusEvent) -> None:
        self.node_id = lambda: str(event.endpoint or "")
        host, port = event.address or ("", 0)
        self.network = NetworkInfo(host, port, event.retry or 0.0)


class _Told:
    def __init__(self, event: mesh.StatusEvent) -> None:
        self._event = event

    def __repr__(self) -> str:
        return str(self._event)


class Status(_Told):
    """What has become of an endpoint."""

    def code(self) -> Given:
        return SC(self._event.status)

    def context(self) -> EndpointInfo:
        return EndpointInfo(self._event)


class Error(_Told):
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
        method = getattr(self._inner, name)
        return lambda *values, **named: to_py(method(*map(to_mesh, values), **named))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()

    def reset(self) -> None:
        self._inner.close()


class _Reader(_Handle):
    _show: Callable[[list[Given]], list[Given]]

    def get(self, first: float | None = None, seconds: float | None = None) -> Given:
        """Wait for the next one; for as many as an ``int`` says; for seconds, as a ``float``."""
        count = first if isinstance(first, int) else None
        limit = first if count is None else seconds
        end = None if limit is None else time.monotonic() + limit
        found: list[Given] = []
        while len(found) < (1 if count is None else count):
            try:
                left = None if end is None else max(0.0, end - time.monotonic())
                found += self._show([self._inner.get(left)])
            except (TimeoutError, errors.EndpointClosed) as error:
                if not found and not isinstance(error, TimeoutError):
                    raise
                break
        return found if count is not None else found[0] if found else None

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


class Publisher(_Handle):
    """Publishes on one topic."""

    def publish_batch(self, *batch: Given) -> None:
        self._inner.publish_batch(to_mesh(batch))

    def buffered(self) -> int:
        return 0

    def capacity(self) -> int:
        return CAPACITY


def _verb(name: str, count: int) -> Callable[..., None]:
    def change(self: Store, *values: Given, expiry: Given = None) -> None:
        self.change(name, values[:count], *(values[count:] or (expiry,)))

    return change


class Store(_Handle):
    """A master or a clone. A question that fails has the answer ``None``."""

    _expired = 0.0
    """When all has expired that this handle lets expire, by the monotonic clock."""

    put, increment, decrement = _verb("put", 2), _verb("increment", 2), _verb("decrement", 2)
    append, push, pop = _verb("append", 2), _verb("push", 2), _verb("pop", 1)
    remove_from = _verb("remove_from", 2)

    def change(self, name: str, values: tuple[Given, ...], expiry: float | None) -> Given:
        """Have the mesh make a change, whose key or value expires after so many seconds."""
        if expiry is not None:
            expiry = float(expiry)
            self._expired = max(self._expired, time.monotonic() + expiry + TICK_SECONDS)
        return getattr(self._inner, name)(*map(to_mesh, values), expiry=expiry)

    def insert_into(
        self, key: Given, index: Given, value: Given = None, expiry: Given = None
    ) -> None:
        self.change("insert_into", (key, index, *(() if value is None else (value,))), expiry)

    def put_unique(self, key: Given, value: Given, expiry: float | None = None) -> Given:
        return self._ask(lambda: self.change("put_unique", (key, value), expiry))

    def get(self, key: Given) -> Given:
        return self._ask(lambda: self._inner.get(to_mesh(key)))

    def get_index_from_value(self, key: Given, index: Given) -> Given:
        return self._ask(lambda: self._inner.get_index_from_value(to_mesh(key), to_mesh(index)))

    def exists(self, key: Given) -> Given:
        return self._ask(lambda: self._inner.exists(to_mesh(key)))

    def keys(self) -> Given:
        return self._ask(lambda: mesh.Set(self._inner.keys()))

    def _ask(self, question: Callable[[], Given]) -> Given:
        try:
            return to_py(question())
        except errors.StoreError:
            return None

    def await_idle(self, timeout: float | None = None) -> bool:
        began = time.monotonic()
        is_idle = bool(self._inner.await_idle(*[timeout] if timeout else ()))
        if began < self._expired:
            time.sleep(max(0.0, began + TICK_SECONDS - time.monotonic()))
        return is_idle


class Endpoint(_Handle):
    """One participant of the mesh, which the end of a block shuts down."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(blocking.Endpoint(**(configuration or Configuration()).settings()))

    def reset(self) -> None:
        self._inner.shutdown()

    def node_id(self) -> str:
        return str(self._inner.node_id())

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> Given:
        """Give the port, or 0 if the address cannot be had."""
        try:
            return self._inner.listen(address, port)
        except (errors.AddressInUse, errors.AddressInvalid):
            return 0

    def peer(self, addr: str, port: int, retry: float = 10.0) -> bool:
        return bool(self._inner.peer(addr, port, retry, None))

    def peer_nosync(self, addr: str, port: int, retry: float = 10.0) -> None:
        self._inner.peer(addr, port, retry, 0)

    def unpeer(self, addr: str, port: int) -> bool:
        self._inner.unpeer(addr, port)
        return True

    unpeer_nosync = unpeer

    def await_peer(self, node: str, timeout: float | None = None) -> bool:
        return bool(self._inner.await_peer(node, *[timeout] if timeout else ()))

    def publish_batch(self, *batch: Given) -> None:
        self._inner.publish_batch(to_mesh(batch))

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
        options = _options(opts or {}) if type is Backend.SQLite else {}
        return self._attach(lambda: self._inner.attach_master(name, type, **options))

    def attach_clone(self, name: str) -> Store | None:
        return self._attach(lambda: self._inner.attach_clone(name))

    def _attach(self, attach: Callable[[], Given]) -> Store | None:
        try:
            return Store(attach())
        except errors.StoreError as error:
            warnings.warn(f"no store is attached: {error}", RuntimeWarning, stacklevel=3)
            return None


def _options(given: dict[str, Given]) -> dict[str, Given]:
    """Give the options of a file for Broker's; of those, only what is done anyway is left out."""
    words = {name: str(value).rpartition("_")[2] for name, value in given.items()}
    left_out = {("journal_mode", "WAL"), ("failure_mode", "FAIL")} & words.items()
    options = {name: given[name] for name in given.keys() - dict(left_out).keys()}
    if "integrity_check" in options:
        options["is_integrity_checked"] = options.pop("integrity_check")
    if "synchronous" in options:
        options["synchronous"] = words["synchronous"]
    return options
