"""Sockets of the simulated network, as trio and the mesh's own transport use them: the driver.

``trio.open_tcp_stream``, ``trio.serve_tcp`` and ``trio.SSLStream`` run on them unmodified.
"""

from __future__ import annotations

import errno
import socket as kernel
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

import trio

from net.transport import Readiness, SocketTransport, Transport
from net.wakeup import Wakeup
from peermesh.testing.simulation.network import Dial, Listener, Network, Stack
from peermesh.testing.simulation.tcp import Address, End, os_error

FIRST_DESCRIPTOR: Final = 1_000_000
"""Numbers of simulated sockets begin where no kernel's do, so that nobody mixes them up."""


class Process(Protocol):
    """What holds sockets: a host from its start until it is killed."""

    stack: Stack
    is_alive: bool
    is_paused: bool
    sockets: dict[BareSocket, None]
    cancelled: set[trio.CancelScope]


PROCESS: ContextVar[Process] = ContextVar("simulated process")
"""Whose task it is that runs. Tasks inherit it from the one that starts them."""


class Wires:
    """Joins the pure network to trio: says what time it is, and wakes whoever waits."""

    def __init__(self, network: Network, now: Callable[[], float]) -> None:
        """Ask ``now`` for the time."""
        self.network = network
        self.now = now
        self._wakeups: dict[object, Wakeup] = {}
        self._descriptors = FIRST_DESCRIPTOR

    def next_descriptor(self) -> int:
        """Give a number to a socket."""
        self._descriptors += 1
        return self._descriptors

    def awaken(self) -> None:
        """Let those look again for whom something changed."""
        woken = self.network.woken
        if woken:
            self.network.woken = {}
            for thing in woken:
                wakeup = self._wakeups.pop(thing, None)
                if wakeup is not None:
                    wakeup.wake()

    async def wait(self, thing: object) -> None:
        """Wait until something changes for this."""
        wakeup = self._wakeups.get(thing)
        if wakeup is None:
            wakeup = self._wakeups[thing] = Wakeup()
        try:
            await wakeup.wait()
        except trio.Cancelled:
            if wakeup.is_idle and self._wakeups.get(thing) is wakeup:
                del self._wakeups[thing]
            raise

    # What the mesh's transport waits with, instead of ``trio.lowlevel``.

    async def wait_readable(self, sock: BareSocket) -> None:
        """Wait until reading gives something."""
        if sock.is_readable:
            await trio.lowlevel.checkpoint()
        while not sock.is_readable:
            await self.wait(sock.thing)
        sock.check_open()

    async def wait_writable(self, sock: BareSocket) -> None:
        """Wait until writing takes something."""
        if sock.is_writable:
            await trio.lowlevel.checkpoint()
        while not sock.is_writable:
            sock.await_room()
            await self.wait(sock.thing)
        sock.check_open()

    def notify_closing(self, sock: BareSocket) -> None:
        """Closing wakes whoever waits, by itself."""


class BareSocket:
    """A socket that never blocks: what ``socket.socket`` is, as far as the mesh uses it."""

    def __init__(self, wires: Wires, process: Process) -> None:
        """Belong to a process, which closes it when it ends."""
        self.wires = wires
        self.process = process
        self.thing: object = self
        """What the network knows the socket as: an end, a listener, or itself."""
        self.is_resetting = False
        """Whether closing is a reset: ``SO_LINGER`` with no time."""
        self._number = wires.next_descriptor()
        self.address: Address | None = None
        process.sockets[self] = None

    @property
    def end(self) -> End:
        """Give the connection; raises ``ENOTCONN``."""
        if isinstance(self.thing, End):
            return self.thing
        self.check_open()
        raise os_error(errno.ENOTCONN)

    def check_open(self) -> None:
        """Raise ``trio.ClosedResourceError`` if it is closed here."""
        if self._number < 0:
            raise trio.ClosedResourceError("this socket was already closed")

    def check_alive(self) -> None:
        """Raise what a socket raises that was closed: also if its process was killed."""
        if self._number < 0 or not self.process.is_alive:
            raise os_error(errno.EBADF)

    @property
    def is_readable(self) -> bool:
        """Whether reading, or accepting, gives something; an error is something."""
        thing = self.thing
        if isinstance(thing, End):
            return thing.is_readable or self._number < 0
        return self._number < 0 or (isinstance(thing, Listener) and bool(thing.arrived))

    @property
    def is_writable(self) -> bool:
        """Whether writing takes something; an error is something."""
        if self._number < 0:
            return True
        return isinstance(self.thing, End) and self.thing.is_writable(self.wires.now())

    def await_room(self) -> None:
        """Have the network wake those who wait to write."""
        self.end.outgoing.await_room()

    # What ``socket.socket`` has.

    def fileno(self) -> int:
        """Give its number, which is no kernel's; -1 once it is closed."""
        return self._number

    def settimeout(self, seconds: float | None) -> None:
        """Never block, whatever is asked."""

    def setsockopt(self, level: int, option: int, value: object) -> None:
        """Take ``SO_LINGER``; other options change nothing here."""
        if (level, option) == (kernel.SOL_SOCKET, kernel.SO_LINGER) and isinstance(value, bytes):
            is_on, seconds = struct.unpack("ii", value[:8])
            self.is_resetting = bool(is_on) and not seconds

    def getsockopt(self, level: int, option: int, size: int | None = None) -> int | bytes:
        """Say whether it listens; zeros for other options."""
        self.check_alive()
        if size is not None:
            return bytes(size)
        is_asked = (level, option) == (kernel.SOL_SOCKET, kernel.SO_ACCEPTCONN)
        return int(is_asked and isinstance(self.thing, Listener))

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Read; raises ``BlockingIOError`` when nothing is there."""
        self.check_alive()
        return self.end.read(self.wires.now(), size)

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        """Write; raises ``BlockingIOError`` when there is no room."""
        self.check_alive()
        if self.process.is_paused:
            raise os_error(errno.EAGAIN)  # Somebody else's task writes for it.
        return self.end.write(self.wires.now(), bytes(data))

    def sendmsg(self, pieces: Iterable[bytes | bytearray | memoryview], *_: object) -> int:
        """Write all pieces as one."""
        return self.send(b"".join(pieces))

    def shutdown(self, how: int) -> None:
        """End one direction, or both."""
        self.check_alive()
        if how in (kernel.SHUT_WR, kernel.SHUT_RDWR):
            self.end.shut_writing(self.wires.now())
        if how in (kernel.SHUT_RD, kernel.SHUT_RDWR):
            self.end.shut_reading()
        self.wires.awaken()

    def close(self) -> None:
        """Close, once."""
        if self._number < 0:
            return
        self._number = -1
        self.process.sockets.pop(self, None)
        if self.process.is_alive:
            self.release()
        self.wires.network.wake(self.thing)
        self.wires.awaken()

    def drop(self) -> None:
        """Close it as a kernel does for a process that was killed."""
        self._number = -1
        self.process.sockets.pop(self, None)
        self.release()

    def release(self) -> None:
        """Let the network know that nobody uses it any more."""
        network, now = self.wires.network, self.wires.now()
        match self.thing:
            case Listener() as listener:
                network.close_listener(now, listener)
            case Dial() as dial:
                network.abandon(now, dial)
            case End() as end if self.is_resetting:
                end.abort(now)
            case End() as end:
                end.close(now)
            case _:
                pass  # Nothing was done with it yet.


class VirtualSocket(trio.socket.SocketType):
    """A socket of trio's kind."""

    def __init__(self, bare: BareSocket) -> None:
        """Wait for what the bare socket cannot do at once."""
        super().__init__()
        self._bare = bare
        self._did_shutdown_writing = False

    @property
    def readiness(self) -> Wires:
        """What to wait with for the bare socket."""
        return self._bare.wires

    def release(self) -> BareSocket:
        """Give the bare socket away, to be used directly."""
        return self._bare

    @property
    def family(self) -> kernel.AddressFamily:
        """IPv4 only."""
        return kernel.AF_INET

    @property
    def type(self) -> kernel.SocketKind:
        """TCP only."""
        return kernel.SOCK_STREAM

    @property
    def proto(self) -> int:
        """TCP only."""
        return kernel.IPPROTO_TCP

    @property
    def did_shutdown_SHUT_WR(self) -> bool:  # noqa: N802 - trio's name
        """Whether the end of the stream was sent."""
        return self._did_shutdown_writing

    def __enter__(self) -> Self:
        """Close it after the block."""
        return self

    def __exit__(
        self,
        kind: object,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def fileno(self) -> int:
        """Give its number, which is no kernel's; -1 once it is closed."""
        return self._bare.fileno()

    def detach(self) -> int:
        """Refuse: no kernel knows it, so that a child process inherits nothing."""
        raise os_error(errno.EBADF)

    def close(self) -> None:
        """Close it, and wake whoever waits."""
        self._bare.close()

    def setsockopt(
        self, level: int, optname: int, value: object, optlen: int | None = None
    ) -> None:
        """Take ``SO_LINGER``; other options change nothing here."""
        self._bare.check_alive()
        self._bare.setsockopt(level, optname, value)

    def getsockopt(self, level: int, optname: int, buflen: int | None = None) -> Any:  # noqa: ANN401 - trio's overloads
        """Say whether it listens; zeros for other options."""
        return self._bare.getsockopt(level, optname, buflen)

    def getsockname(self) -> Address:
        """Give the own address."""
        bare = self._bare
        bare.check_alive()
        if isinstance(bare.thing, End):
            return bare.thing.local
        return bare.address or ("0.0.0.0", 0)

    def getpeername(self) -> Address:
        """Give the other side's address; raises ``ENOTCONN``."""
        self._bare.check_alive()
        return self._bare.end.remote

    def shutdown(self, how: int) -> None:
        """End one direction, or both."""
        self._bare.shutdown(how)
        self._did_shutdown_writing |= how in (kernel.SHUT_WR, kernel.SHUT_RDWR)

    def is_readable(self) -> bool:
        """Whether reading gives something at once."""
        return self._bare.is_readable

    async def wait_writable(self) -> None:
        """Wait until writing takes something."""
        await self._bare.wires.wait_writable(self._bare)

    async def bind(self, address: Address) -> None:
        """Choose an address; port 0 lets the host choose."""
        await trio.lowlevel.checkpoint()
        bare = self._bare
        bare.check_alive()
        host, port = address[:2]
        stack = bare.process.stack
        stack.check((host, port))
        bare.address = (host, port or stack.free_port())

    def listen(self, backlog: int = 128) -> None:
        """Accept connections at the address that was bound."""
        bare = self._bare
        bare.check_alive()
        stack = bare.process.stack
        address = bare.address or ("0.0.0.0", stack.free_port())
        bare.address = address
        bare.thing = bare.wires.network.listen(bare.wires.now(), stack, address, backlog)

    async def accept(self) -> tuple[VirtualSocket, Address]:
        """Wait for a connection."""
        bare = self._bare
        listener = bare.thing
        if not isinstance(listener, Listener):
            raise os_error(errno.EINVAL)
        await bare.wires.wait_readable(bare)
        while not listener.arrived:  # Another task was faster.
            await bare.wires.wait_readable(bare)
        end = listener.arrived.popleft()
        accepted = BareSocket(bare.wires, bare.process)
        accepted.thing = end
        return VirtualSocket(accepted), end.remote

    async def connect(self, address: Address) -> None:
        """Wait until the other side answers; raises what a kernel would."""
        bare = self._bare
        bare.check_alive()
        wires, port = bare.wires, bare.address[1] if bare.address else None
        dial = wires.network.dial(wires.now(), bare.process.stack, port, (address[0], address[1]))
        bare.thing = dial
        try:
            while not dial.is_over:
                await wires.wait(dial)
        except BaseException:
            bare.close()  # As trio does with an attempt that is cancelled.
            raise
        bare.check_open()
        bare.thing = bare if dial.end is None else dial.end
        if dial.error is not None:
            raise os_error(dial.error)

    async def recv(self, size: int, flags: int = 0) -> bytes:
        """Wait for bytes; ``b""`` at the end."""
        bare = self._bare
        bare.check_alive()
        _ = bare.end
        while True:
            await bare.wires.wait_readable(bare)
            with suppress(BlockingIOError):
                return bare.recv(size)

    async def recv_into(
        self,
        buffer: Any,  # noqa: ANN401 - whatever has a buffer
        nbytes: int = 0,
        flags: int = 0,
    ) -> int:
        """Wait for bytes, into a buffer."""
        view = memoryview(buffer).cast("B")
        data = await self.recv(nbytes or len(view))
        view[: len(data)] = data
        return len(data)

    async def send(self, data: Any, flags: int = 0) -> int:  # noqa: ANN401 - any buffer
        """Wait until something is taken; give its size."""
        bare = self._bare
        bare.check_alive()
        with suppress(BlockingIOError):
            await trio.lowlevel.checkpoint_if_cancelled()
            sent = bare.send(data)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return sent
        while True:
            await bare.wires.wait_writable(bare)
            with suppress(BlockingIOError):
                return bare.send(data)


def transport_of(stream: trio.abc.Stream) -> Transport:
    """Use the bare socket of a simulated stream, as ``net.transport`` does with the kernel's."""
    assert isinstance(stream, trio.SocketStream)
    assert isinstance(stream.socket, VirtualSocket)
    bare, readiness = stream.socket.release(), stream.socket.readiness
    # It behaves like the kernel's, which has a class and no protocol.
    return SocketTransport(cast("kernel.socket", bare), cast("Readiness", readiness))


class SocketFactory(trio.abc.SocketFactory):
    """Makes the sockets of one simulation."""

    def __init__(self, wires: Wires) -> None:
        """Use this network."""
        self._wires = wires

    def socket(
        self,
        family: int = kernel.AF_INET,
        type: int = kernel.SOCK_STREAM,  # noqa: A002 - trio's name
        proto: int = 0,
    ) -> VirtualSocket:
        """Make a socket for the process that asks; TCP over IPv4 only."""
        if family != kernel.AF_INET:
            raise os_error(errno.EAFNOSUPPORT)
        if type != kernel.SOCK_STREAM:
            raise OSError(errno.EPROTONOSUPPORT, "the simulated network carries TCP only")
        return VirtualSocket(BareSocket(self._wires, PROCESS.get()))


class HostnameResolver(trio.abc.HostnameResolver):
    """Knows the hosts of one simulation by their names."""

    def __init__(self, network: Network) -> None:
        """Look names up here."""
        self._network = network

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - trio's name
        proto: int = 0,
        flags: int = 0,
    ) -> Any:  # noqa: ANN401 - what trio's own resolver is declared to give is longer than this
        """Give a host's address; raises ``socket.gaierror`` for a name that nobody has."""
        await trio.lowlevel.checkpoint()
        name = (host or b"").decode("ascii")
        caller = PROCESS.get().stack
        found = self._network.find(caller, name)
        if found is None:
            raise kernel.gaierror(
                kernel.EAI_NONAME, f"no host of the simulation is called {name!r}"
            )
        address = "127.0.0.1" if name == "localhost" else found.address
        where = (address, int(port or 0))
        return [(kernel.AF_INET, kernel.SOCK_STREAM, kernel.IPPROTO_TCP, "", where)]

    async def getnameinfo(self, sockaddr: tuple[Any, ...], flags: int) -> tuple[str, str]:
        """Give an address back as it is."""
        await trio.lowlevel.checkpoint()
        return str(sockaddr[0]), str(sockaddr[1])
