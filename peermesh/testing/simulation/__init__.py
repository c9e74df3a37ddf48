"""Deterministic simulation: trio's scheduling, time, TCP, chance and disks from one seed.

Everything that ``main`` starts runs in virtual time over a simulated network, unmodified::

    from peermesh import Endpoint
    from peermesh.testing.faults import Partition
    from peermesh.testing.simulation import Simulation, run, simulate

    async def main(simulation: Simulation) -> int:
        alpha, beta = simulation.host("alpha"), simulation.host("beta")
        with alpha:                       # what is made in the block is alpha's, and stays so
            first = Endpoint()
        with beta:
            second = Endpoint()
        async with first, second:
            port = await first.listen(alpha.address)
            await second.peer(alpha.address, port)
            await simulation.link(alpha, beta).apply(Partition())
            await simulation.link(alpha, beta).heal()
            await beta.pause(); await beta.resume()
            return simulation.random.randrange(10)    # chance for the test itself

    simulate(main, seed=7)               # the value, or the error with a note on it
    result = run(7, main)                # a Run: value, error, digest, trace, virtual_seconds

``host.start(function, *arguments)`` runs a function as the host's own program, which ``restart()``
starts anew after ``kill()`` (SIGKILL: the kernel closes its sockets) or ``cut_power()`` (nobody is
told, unsynced writes are lost). ``await host.run(function, *arguments)`` gives a result.
``Endpoint``, ``trio.open_tcp_stream`` and ``trio.serve_tcp`` inside of such functions are the
host's. Hosts reach each other by address or name (``"alpha"``). ``trio.to_thread.run_sync`` runs
inline, a drawn moment later; other threads are refused. ``await elapse(seconds)`` lets virtual time
pass, and refuses to where time is real.
"""

from peermesh.testing.simulation.clock import elapse
from peermesh.testing.simulation.host import Host, HostDown
from peermesh.testing.simulation.running import (
    Options,
    Run,
    TimeLimit,
    explain,
    run,
    simulate,
    smallest,
)
from peermesh.testing.simulation.schedule import (
    Happen,
    Mend,
    Schedule,
    Skew,
    Step,
    Verb,
    Worsen,
    draw,
    read,
    write,
)
from peermesh.testing.simulation.scheduling import SchedulerUnavailable, Spinning
from peermesh.testing.simulation.threads import ThreadRefused
from peermesh.testing.simulation.trace import Trace
from peermesh.testing.simulation.world import Link, Simulation

__all__ = [
    "Happen",
    "Host",
    "HostDown",
    "Link",
    "Mend",
    "Options",
    "Run",
    "Schedule",
    "SchedulerUnavailable",
    "Simulation",
    "Skew",
    "Spinning",
    "Step",
    "ThreadRefused",
    "TimeLimit",
    "Trace",
    "Verb",
    "Worsen",
    "draw",
    "elapse",
    "explain",
    "read",
    "run",
    "simulate",
    "smallest",
    "write",
]
