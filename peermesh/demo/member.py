"""The role of each process with log and stores: replicas of all three, and a gateway.

``events`` is the log, ``counts`` the table of results, ``checkpoints`` holds Spark's files behind
the gateways. What is acknowledged is on the disks of two of the three: so each may be killed, and
comes back with its files.
"""

from __future__ import annotations

import sys

import trio

from peermesh import Backend, Endpoint, ReplicaLog, ReplicaStore, StatusCode, StatusSubscriber
from peermesh.demo.events import LOG_NAME
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.mesh import CHECKPOINTS, COUNTS, LOCAL, dial
from peermesh.demo.plan import VOTERS


async def report_leads(
    replicas: dict[str, ReplicaLog | ReplicaStore], status: StatusSubscriber, reports: Reports
) -> None:
    """Say when one of the replicas here begins to lead."""
    async for event in status:
        what = event.store or ""
        is_new = event.status is StatusCode.STORE_MASTER_FOUND and what in replicas
        if is_new and replicas[what].is_leader():
            reports.send("leading", what=what)


async def run(assignment: Assignment) -> None:
    """Keep replicas of log and stores, and a gateway, until the supervisor ends it."""
    from peermesh.gateways import serve_webhdfs  # it needs the extra http

    member, ports = assignment.member, assignment.ports
    own, http, name = ports.members[member], ports.gateways[member], VOTERS[member]
    reports, token = Reports(assignment.reports), trio.lowlevel.current_trio_token()
    async with Endpoint(name=name) as endpoint, trio.open_nursery() as nursery:
        Orders(lambda _: None, lambda: token.run_sync_soon(nursery.cancel_scope.cancel)).start()
        status = endpoint.subscribe_status()
        log = await endpoint.attach_log_replica(
            LOG_NAME,
            voters=VOTERS,
            backend=Backend.SQLite,
            path=assignment.path(f"{LOG_NAME}-{name}.sqlite"),
        )
        counts, checkpoints = [
            await endpoint.attach_replica(
                store,
                voters=VOTERS,
                backend=Backend.SQLite,
                path=assignment.path(f"{store}-{name}.sqlite"),
            )
            for store in (COUNTS, CHECKPOINTS)
        ]
        led: dict[str, ReplicaLog | ReplicaStore] = {LOG_NAME: log, COUNTS: counts}
        nursery.start_soon(report_leads, led, status, reports)
        await endpoint.listen(port=own)
        dial(endpoint, nursery, ports, own)
        async with serve_webhdfs(checkpoints, host=LOCAL, port=http):
            await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
