"""The simulated network: hosts with addresses and ports, and the paths between them. Pure.

Each host has an address of the loopback network, so that code which trusts loopback alone runs as
it is; ``127.0.0.1`` and ``localhost`` are, on each host, that host.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from peermesh.testing.faults import Direction, LinkFault, Reset, Unsupported
from peermesh.testing.simulation.agenda import Agenda
from peermesh.testing.simulation.conditions import Conditions, on_grid
from peermesh.testing.simulation.tcp import Address, End, Mark, connect, os_error

if TYPE_CHECKING:
    from random import Random

LATENCY_SECONDS: Final = 0.0005
JITTER_SECONDS: Final = 0.0003
"""What a packet takes between two hosts of one room, give or take."""

OWN_LATENCY_SECONDS: Final = 0.0001
"""What a packet takes from a host to itself."""

FIRST_PORT: Final = 32_768
LAST_PORT: Final = 60_999
"""The ports that Linux gives to those who ask for any."""

SYN_SECONDS: Final = 1.0
"""After which the first packet of a connection is repeated; the pauses double."""

SYN_REPETITIONS_MAX: Final = 6
"""Linux gives up then, after 127 seconds."""

NO_ROUTE_SECONDS: Final = 3.0
"""How long a kernel asks for a host that is not there."""

HOSTS_MAX: Final = 60_000
"""As many as two bytes of an address tell apart, less some."""

_OWN: Final = ("127.0.0.1", "0.0.0.0", "")


class Stack:
    """The kernel of one host, as far as TCP goes."""

    def __init__(self, name: str, address: str) -> None:
        """Begin without connections."""
        self.name = name
        self.address = address
        self.has_power = True
        self.listeners: dict[int, Listener] = {}
        self._next_port = FIRST_PORT

    def free_port(self) -> int:
        """Choose a port that nobody listens at."""
        for _ in range(LAST_PORT - FIRST_PORT + 1):
            port = self._next_port
            self._next_port = port + 1 if port < LAST_PORT else FIRST_PORT
            if port not in self.listeners:
                return port
        raise os_error(errno.EADDRINUSE)

    def check(self, address: Address) -> None:
        """Raise what binding this address would."""
        host, port = address
        if host not in _OWN and host != self.address:
            raise os_error(errno.EADDRNOTAVAIL)
        if port in self.listeners:
            raise os_error(errno.EADDRINUSE)


class Listener:
    """A port that accepts connections, and those that wait to be accepted."""

    def __init__(self, stack: Stack, address: Address, backlog: int) -> None:
        """Accept ``backlog`` connections, and one as Linux does, ahead of the user."""
        self.stack = stack
        self.address = address
        self.backlog = backlog
        self.arrived: deque[End] = deque()
        self.expected = 0
        """Connections whose handshake is under way."""
        self.is_closed = False

    @property
    def has_room(self) -> bool:
        """Whether one more may wait."""
        return len(self.arrived) + self.expected <= self.backlog


class Dial:
    """An attempt to connect."""

    def __init__(self, stack: Stack, local: Address, remote: Address) -> None:
        """Begin undecided."""
        self.stack = stack
        self.local = local
        self.remote = remote
        self.end: End | None = None
        self.error: int | None = None
        self.is_abandoned = False
        self.repetitions = 0

    @property
    def is_over(self) -> bool:
        """Whether it is decided."""
        return self.end is not None or self.error is not None


class Way:
    """One direction between two hosts."""

    def __init__(self, source: Stack, target: Stack, conditions: Conditions) -> None:
        """Lead from one to the other."""
        self.source = source
        self.target = target
        self.conditions = conditions

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through."""
        return self.conditions.is_cut or not (self.source.has_power and self.target.has_power)


class Connection(NamedTuple):
    """Both ends of a connection, and whose they are."""

    client: End
    server: End
    here: Stack
    there: Stack


Teller = Callable[..., None]


class Network:
    """All hosts, and what is on its way between them."""

    def __init__(
        self,
        chance: Random,
        tell: Teller,
        *,
        latency: float = LATENCY_SECONDS,
        jitter: float = JITTER_SECONDS,
    ) -> None:
        """Draw from ``chance``, and ``tell(now, kind, *details)`` a trace of what happens."""
        self.agenda = Agenda()
        self.chance = chance
        self.tell = tell
        self.checksum = 0
        self.woken: dict[object, None] = {}
        """Whose waiting tasks have to look again; for the driver, who clears it."""
        self._latency = latency
        self._jitter = jitter
        self._stacks: dict[str, Stack] = {}
        self._by_address: dict[str, Stack] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._connections: list[Connection] = []
        self._prune_at = 64
        self._worsened: dict[tuple[str, str], None] = {}

    def wake(self, end: object) -> None:
        """Something changed for those who wait for this."""
        self.woken[end] = None

    # Hosts.

    def add_host(self, name: str, address: str | None = None) -> Stack:
        """Add a host."""
        number = len(self._stacks) + 1
        if number > HOSTS_MAX:
            raise ValueError(f"a simulation has at most {HOSTS_MAX} hosts")
        if name in self._stacks:
            raise ValueError(f"there is a host {name!r} already: choose another name")
        address = address or f"127.1.{number // 250}.{number % 250 + 1}"
        if address in self._by_address:
            raise ValueError(f"{address} belongs to another host already: choose another address")
        stack = self._stacks[name] = self._by_address[address] = Stack(name, address)
        return stack

    def find(self, caller: Stack, host: str) -> Stack | None:
        """Give the host that a host means by a name or an address."""
        if host in _OWN or host == "localhost":
            return caller
        return self._by_address.get(host) or self._stacks.get(host)

    def way(self, source: Stack, target: Stack) -> Way:
        """Give the way from one host to another."""
        key = (source.name, target.name)
        found = self._ways.get(key)
        if found is None:
            found = self._ways[key] = Way(source, target, self._usual(source is target))
        return found

    def _usual(self, is_own: bool) -> Conditions:  # noqa: FBT001 - one caller, one meaning
        if is_own:
            return Conditions(OWN_LATENCY_SECONDS, 0.0)
        return Conditions(self._latency, min(self._jitter, self._latency))

    # Links.

    def apply(
        self, now: float, ends: tuple[Stack, Stack], fault: LinkFault, direction: Direction
    ) -> None:
        """Have a link get worse."""
        self.tell(now, "apply", ends[0].name, ends[1].name, direction.value, repr(fault))
        self._worsened[ends[0].name, ends[1].name] = None
        for way in self._directions(ends, direction):
            way.conditions.apply(fault)
        if isinstance(fault, Reset) and fault.after_seconds is not None:
            raise Unsupported("sim", fault, "a reset strikes at once; have the test wait for it")
        if isinstance(fault, Reset):
            for connection in self._between(ends):
                connection.client.fail(now, errno.ECONNRESET)
                connection.server.fail(now, errno.ECONNRESET)

    def heal(self, now: float, ends: tuple[Stack, Stack]) -> None:
        """Have a link as it was in the beginning."""
        self.tell(now, "heal", ends[0].name, ends[1].name)
        for near, far in (ends, ends[::-1]):
            self._worsened.pop((near.name, far.name), None)
        for way in self._directions(ends, Direction.BOTH):
            way.conditions = self._usual(way.source is way.target)
        between = list(self._between(ends))
        self._resume(now, between)
        for connection in between:
            connection.client.outgoing.hurry(now)
            connection.server.outgoing.hurry(now)

    def worsened(self) -> list[tuple[str, str]]:
        """Name the links that somebody applied a fault to, and nobody healed since."""
        return list(self._worsened)

    def _resume(self, now: float, connections: Iterable[Connection]) -> None:
        for connection in connections:
            connection.client.outgoing.heal(now)
            connection.server.outgoing.heal(now)

    def _directions(self, ends: tuple[Stack, Stack], direction: Direction) -> Iterator[Way]:
        a, b = ends
        if direction is not Direction.BACK:
            yield self.way(a, b)
        if direction is not Direction.FORTH and a is not b:
            yield self.way(b, a)

    def _between(self, ends: tuple[Stack, Stack]) -> Iterator[Connection]:
        either = (ends, ends[::-1])
        return (each for each in self._connections if (each.here, each.there) in either)

    # Power.

    def cut_power(self, now: float, stack: Stack) -> None:
        """Have a host forget all its connections, and answer nobody."""
        self.tell(now, "power off", stack.name)
        stack.has_power = False
        for listener in stack.listeners.values():
            listener.is_closed = True
        stack.listeners.clear()
        for connection in self._connections:
            if connection.here is stack:
                connection.client.vanish()
            if connection.there is stack:
                connection.server.vanish()

    def restore_power(self, now: float, stack: Stack) -> None:
        """Have a host answer again: that it knows of nothing."""
        if not stack.has_power:
            self.tell(now, "power on", stack.name)
            stack.has_power = True
            self._resume(now, self._connections)

    # Listening and dialling.

    def listen(self, now: float, stack: Stack, address: Address, backlog: int) -> Listener:
        """Accept connections; raises ``EADDRINUSE`` and ``EADDRNOTAVAIL``."""
        stack.check(address)
        listener = stack.listeners[address[1]] = Listener(stack, address, backlog)
        self.tell(now, "listen", stack.name, address[1])
        return listener

    def close_listener(self, now: float, listener: Listener) -> None:
        """Accept no more; those that nobody accepted are reset."""
        if not listener.is_closed:
            listener.is_closed = True
            if listener.stack.listeners.get(listener.address[1]) is listener:
                del listener.stack.listeners[listener.address[1]]
            for end in listener.arrived:
                end.abort(now)
            self.wake(listener)

    def dial(self, now: float, stack: Stack, port: int | None, remote: Address) -> Dial:
        """Begin to connect."""
        target = self.find(stack, remote[0])
        local = (stack.address, port or stack.free_port())
        if target is stack and remote[0] != stack.address:
            local = ("127.0.0.1", local[1])
        dial = Dial(stack, local, remote)
        if target is None:
            self._decide_later(now + NO_ROUTE_SECONDS, dial, errno.EHOSTUNREACH)
        else:
            self._send_syn(now, dial, target)
        return dial

    def abandon(self, now: float, dial: Dial) -> None:
        """Nobody waits for a connection any more."""
        dial.is_abandoned = True
        dial.error = errno.EBADF
        if dial.end is not None:
            dial.end.close(now)

    def _send_syn(self, now: float, dial: Dial, target: Stack) -> None:
        forth = self.way(dial.stack, target)
        pause = SYN_SECONDS * 2**dial.repetitions
        dial.repetitions += 1
        if forth.is_cut:
            self._repeat_syn(now + pause, dial, target)
            return

        def arrive(now: float) -> None:
            if not dial.is_abandoned:
                self._take_syn(now, pause, dial, target)

        self.agenda.add(on_grid(now + forth.conditions.delay(self.chance)), arrive)

    def _repeat_syn(self, at: float, dial: Dial, target: Stack) -> None:
        if dial.repetitions > SYN_REPETITIONS_MAX:
            self._decide_later(at, dial, errno.ETIMEDOUT)
            return

        def again(now: float) -> None:
            if not dial.is_abandoned and dial.stack.has_power:
                self._send_syn(now, dial, target)

        self.agenda.add(at, again)

    def _take_syn(self, now: float, pause: float, dial: Dial, target: Stack) -> None:
        back = self.way(target, dial.stack)
        listener = target.listeners.get(dial.remote[1])
        if back.is_cut or (listener is not None and not listener.has_room):
            self._repeat_syn(now + pause, dial, target)
            return
        at = on_grid(now + back.conditions.delay(self.chance))
        if listener is None or not _hears(listener, dial.remote[0]):
            self._decide_later(at, dial, errno.ECONNREFUSED)
            return
        listener.expected += 1

        def establish(now: float) -> None:
            if dial.is_abandoned or not dial.stack.has_power:
                listener.expected -= 1
            else:
                self._establish(now, dial, listener)

        self.agenda.add(at, establish)

    def _establish(self, now: float, dial: Dial, listener: Listener) -> None:
        target = listener.stack
        remote = ("127.0.0.1", dial.remote[1]) if dial.remote[0] in _OWN else dial.remote
        client = End(self, dial.local, remote)
        server = End(self, remote, dial.local)
        connect(self, client, server, self.way(dial.stack, target), self.way(target, dial.stack))
        self._remember(Connection(client, server, dial.stack, target))

        def accept(now: float, end: End) -> None:
            listener.expected -= 1
            if listener.is_closed:
                end.abort(now)
            else:
                listener.arrived.append(end)
                self.wake(listener)

        server.on_open = accept
        client.outgoing.send(now, Mark.OPEN)
        dial.end = client
        self.tell(now, "connect", dial.stack.name, target.name, dial.local[1], dial.remote[1])
        self.wake(dial)

    def _decide_later(self, at: float, dial: Dial, error: int) -> None:
        def decide(now: float) -> None:
            if not dial.is_over:
                dial.error = error
                self.tell(now, "no connection", dial.stack.name, dial.remote, error)
                self.wake(dial)

        self.agenda.add(at, decide)

    def _remember(self, connection: Connection) -> None:
        if len(self._connections) >= self._prune_at:
            self._connections = [each for each in self._connections if not _is_over(each)]
            self._prune_at = max(64, 2 * len(self._connections))
        self._connections.append(connection)


def _hears(listener: Listener, host: str) -> bool:
    """Whether a listener that was bound to one address is meant by a caller's address."""
    bound = listener.address[0]
    return bound in ("0.0.0.0", "") or bound == host or host == listener.stack.name


def _is_over(connection: Connection) -> bool:
    return connection.client.outgoing.is_done and connection.server.outgoing.is_done
