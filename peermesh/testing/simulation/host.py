"""One simulated host: a name, an address, a disk and a clock, and the tasks that run there."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import trio

from endpoint.surroundings import Surroundings, surroundings
from peermesh.testing.simulation import sockets
from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.log_replica_file import DiskLogReplica
from peermesh.testing.simulation.medium import DiskMedium
from peermesh.testing.simulation.network import Dial, Stack
from peermesh.testing.simulation.replica_file import DiskReplica
from peermesh.testing.simulation.scheduling import all_tasks, scopes_around
from peermesh.testing.simulation.sockets import PROCESS, BareSocket, transport_of
from stores.disk.ballot import SUFFIX
from stores.table.codec import TableCodec
from wire.identifiers import EndpointId

if TYPE_CHECKING:
    from peermesh.testing.simulation.world import Simulation

T = TypeVar("T")

EPOCH_NS: Final = 1_767_225_600 * 10**9
"""The time of day when simulations begin: the first second of 2026, UTC."""

NANOSECONDS: Final = 10**9


_BEFORE: ContextVar[tuple[tuple[sockets.Process, Surroundings], ...]] = ContextVar(
    "hosts before", default=()
)
"""Where this task was before each ``with host`` that it is in."""


class HostDown(Exception):  # a fact about a test's own host
    """The host was killed while somebody waited for what it runs."""


class Process:
    """A host's life from its start until it is killed. Everything it holds ends with it."""

    def __init__(self, host: Host) -> None:
        """Begin alive."""
        self.host = host
        self.stack: Stack = host.stack
        self.is_alive = True
        self.is_paused = False
        self.sockets: dict[BareSocket, None] = {}
        self.scopes: dict[trio.CancelScope, None] = {}
        self.cancelled: set[trio.CancelScope] = set()
        """The scopes that were cancelled before it was killed: nobody waits for those any more."""
        self.deaths: dict[Callable[[], object], None] = {}
        """Called when it is killed."""
        self.surroundings = Surroundings(
            now_ns=host.now_ns,
            chance=host.chance.random,
            new_id=host.new_id,
            program=lambda: "simulated",
            open_tcp_stream=self._here(trio.open_tcp_stream),
            open_tcp_listeners=self._here(trio.open_tcp_listeners),
            make_transport=transport_of,
            open_replica=self._open_replica,
            open_log_replica=self._open_log_replica,
        )

    def _open_log_replica(
        self, path: str, options: dict[str, Any]
    ) -> tuple[DiskLogReplica, DiskMedium]:
        disk = self.host.disk
        rows = DiskLogReplica(disk, self, path, options)
        return rows, DiskMedium(disk, path + SUFFIX)

    def _open_replica(self, path: str, options: dict[str, Any]) -> tuple[DiskReplica, DiskMedium]:
        disk = self.host.disk
        rows = DiskReplica(disk, self, path, TableCodec(), options)
        return rows, DiskMedium(disk, path + SUFFIX)

    def _here(self, function: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """Have a function of trio's use this host's network, whoever calls."""

        async def call(*arguments: object, **options: object) -> T:
            token = PROCESS.set(self)
            try:
                return await function(*arguments, **options)
            finally:
                PROCESS.reset(token)

        return call

    @property
    def is_frozen(self) -> bool:
        """Whether its tasks may not run."""
        return self.is_paused or not self.is_alive

    def context(self) -> Context:
        """Give a context for tasks of this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        context.run(surroundings.set, self.surroundings)
        return context


class Host:
    """A machine of the simulation. ``with host:`` makes what is made in the block belong to it."""

    def __init__(self, simulation: Simulation, stack: Stack, chance: Random) -> None:
        """Use ``Simulation.host``."""
        self.name = stack.name
        self.address = stack.address
        self.stack = stack
        self.chance = chance
        self.disk = Disk()
        """Its files outlive its processes: those of stores and logs with ``Backend.SQLite``."""
        self.skew_ns = 0
        self._simulation = simulation
        self._main: tuple[Callable[..., Awaitable[object]], tuple[object, ...]] | None = None
        self.process = Process(self)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<host {self.name}>"

    @property
    def simulation(self) -> Simulation:
        """Give the simulation that it is a part of."""
        return self._simulation

    # What runs there.

    def __enter__(self) -> Self:
        """Have sockets and endpoints that are made in the block be this host's."""
        process = self.process
        _BEFORE.set((*_BEFORE.get(), (PROCESS.get(), surroundings.get())))
        PROCESS.set(process)
        surroundings.set(process.surroundings)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Be where one was before."""
        *before, (process, around) = _BEFORE.get()
        _BEFORE.set(tuple(before))
        PROCESS.set(process)
        surroundings.set(around)

    def start(self, main: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run ``main(*arguments)`` on the host, now and whenever it is restarted."""
        self._main = (main, arguments)
        self._spawn(main, arguments)

    def _spawn(self, main: Callable[..., Awaitable[T]], arguments: tuple[object, ...]) -> None:
        process = self.process
        nursery = self._simulation.nursery
        process.context().run(nursery.start_soon, self._live, process, main, arguments)

    @staticmethod
    async def _live(
        process: Process, main: Callable[..., Awaitable[object]], arguments: tuple[object, ...]
    ) -> None:
        with trio.CancelScope() as scope:
            process.scopes[scope] = None
            try:
                await main(*arguments)
            except BaseException as error:
                if process.is_alive:
                    raise
                # What fails in a killed process as the simulation ends is nobody's affair.
                if isinstance(error, BaseExceptionGroup):
                    rest = error.split(Exception)[1]
                    if rest is not None:
                        raise rest from None
                elif not isinstance(error, Exception):
                    raise
            finally:
                process.scopes.pop(scope, None)

    async def run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Run a function on the host, and give its result; raises ``HostDown`` if it is killed."""
        process, done = self.process, trio.Event()
        results: list[T] = []
        errors: list[Exception] = []

        async def call() -> None:
            try:
                results.append(await function(*arguments))
            except Exception as error:
                errors.append(error)
            finally:
                done.set()

        process.deaths[done.set] = None
        try:
            self._spawn(call, ())
            await done.wait()
        finally:
            process.deaths.pop(done.set, None)
        if errors:
            raise errors[0]
        if not results:
            raise HostDown(f"{self.name} was killed before {function!r} was done")
        return results[0]

    # What may happen to it.

    @property
    def is_up(self) -> bool:
        """Whether it was not killed, or was restarted since."""
        return self.process.is_alive

    async def stop(self) -> None:
        """End what runs there as SIGTERM does: tasks are cancelled and say goodbye."""
        self._tell("stop")
        for scope in list(self.process.scopes):
            scope.cancel()
        await trio.lowlevel.checkpoint()

    async def kill(self) -> None:
        """End what runs there as SIGKILL does: no task takes another step, the kernel closes all.

        What was written to the disk is there when it starts again, synced or not.
        """
        self._end("kill")
        for sock in list(self.process.sockets):
            sock.drop()
        self._simulation.wires.awaken()
        await trio.lowlevel.checkpoint()

    async def cut_power(self) -> None:
        """End everything there: nobody is told, and what was not synced to the disk is lost."""
        self._end("power cut")
        self.disk.cut_power(self.chance)
        for sock in self.process.sockets:
            if isinstance(sock.thing, Dial):
                sock.thing.is_abandoned = True
        self._simulation.network.cut_power(self._simulation.now, self.stack)
        self._simulation.wires.awaken()
        await trio.lowlevel.checkpoint()

    def _end(self, how: str) -> None:
        self._tell(how)
        process = self.process
        process.is_alive = False
        process.cancelled = {
            scope
            for task in all_tasks()
            if task.context.get(PROCESS) is process
            for scope in scopes_around(task)
            if scope.cancel_called
        }
        self.disk.release(process)
        self._simulation.scheduler.has_frozen = True
        for tell in list(process.deaths):
            tell()

    async def restart(self) -> None:
        """Start again what ``start`` started, after a kill or a power cut."""
        if self.process.is_alive:
            await self.kill()
        self._tell("restart")
        self.process = Process(self)
        self._simulation.network.restore_power(self._simulation.now, self.stack)
        if self._main is not None:
            self._spawn(*self._main)
        await trio.lowlevel.checkpoint()

    async def pause(self) -> None:
        """Let no task there take another step, as SIGSTOP does; its kernel goes on."""
        self._tell("pause")
        self.process.is_paused = True
        self._simulation.scheduler.has_frozen = True
        await trio.lowlevel.checkpoint()

    async def resume(self) -> None:
        """Go on, as SIGCONT does: all that became due in between is late."""
        self._tell("resume")
        self.process.is_paused = False
        self._simulation.scheduler.release()
        self._simulation.network.woken.update(dict.fromkeys(map(_thing, self.process.sockets)))
        self._simulation.wires.awaken()
        await trio.lowlevel.checkpoint()

    async def skew_clock(self, seconds: float) -> None:
        """Set the time of day off by so many seconds of the truth; timeouts do not change."""
        self._tell("skew", seconds)
        self.skew_ns = round(seconds * NANOSECONDS)
        await trio.lowlevel.checkpoint()

    def _tell(self, kind: str, *details: object) -> None:
        self._simulation.trace.tell(self._simulation.now, kind, self.name, *details)

    # What endpoints there take.

    def now_ns(self) -> int:
        """Give the time of day there."""
        return EPOCH_NS + round(self._simulation.now * NANOSECONDS) + self.skew_ns

    def new_id(self) -> EndpointId:
        """Draw an endpoint's id."""
        return EndpointId(uuid.UUID(int=self.chance.getrandbits(128), version=4).bytes)


def _thing(sock: BareSocket) -> object:
    return sock.thing
