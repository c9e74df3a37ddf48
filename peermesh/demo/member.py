"""The role of each process with the stores: replicas of both, and a gateway in front of one.

``counts`` is the table of results, ``checkpoints`` holds Spark's files behind the gateways. What is
acknowledged is on the disks of two of the three: so each may be killed, and comes back with its
files.
"""

from __future__ import annotations

import sys

import trio

from peermesh import Backend, Endpoint, ReplicaStore, StatusCode, StatusSubscriber
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.mesh import CHECKPOINTS, COUNTS, LOCAL, VOTERS, dial


async def report_lead(counts: ReplicaStore, status: StatusSubscriber, reports: Reports) -> None:
    """Say when the replica of the counts begins to lead."""
    async for event in status:
        is_new = event.status is StatusCode.STORE_MASTER_FOUND and event.store == COUNTS
        if is_new and counts.is_leader():
            reports.send("leading")


async def run(assignment: Assignment) -> None:
    """Be a process with the stores until the supervisor ends it."""
    from peermesh.gateways import serve_webhdfs  # it needs the extra http

    member, ports = assignment.member, assignment.ports
    own, http, name = ports.stores[member], ports.gateways[member], VOTERS[member]
    reports, token = Reports(assignment.reports), trio.lowlevel.current_trio_token()
    async with Endpoint(name=name) as endpoint, trio.open_nursery() as nursery:
        Orders(lambda _: None, lambda: token.run_sync_soon(nursery.cancel_scope.cancel)).start()
        status = endpoint.subscribe_status()
        counts, checkpoints = [
            await endpoint.attach_replica(
                store,
                voters=VOTERS,
                backend=Backend.SQLite,
                path=assignment.path(f"{store}-{name}.sqlite"),
            )
            for store in (COUNTS, CHECKPOINTS)
        ]
        nursery.start_soon(report_lead, counts, status, reports)
        await endpoint.listen(port=own)
        dial(endpoint, nursery, ports, own)
        async with serve_webhdfs(checkpoints, host=LOCAL, port=http):
            await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
