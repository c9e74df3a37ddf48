"""The role of the log's keeper: events are on its disk before they are acknowledged."""

from __future__ import annotations

import sys

import trio

from peermesh import Backend, Endpoint
from peermesh.demo.events import LOG_NAME
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.mesh import dial


async def run(assignment: Assignment) -> None:
    """Be the keeper until the supervisor ends it."""
    reports, own = Reports(assignment.reports), assignment.ports.keeper
    token = trio.lowlevel.current_trio_token()
    async with Endpoint() as endpoint, trio.open_nursery() as nursery:
        log = await endpoint.attach_log(
            LOG_NAME, backend=Backend.SQLite, path=assignment.path("events.sqlite")
        )
        await endpoint.listen(port=own)
        dial(endpoint, nursery, assignment.ports, own)
        reports.send("keeping", lines=(await log.offsets())[0].end)
        Orders(lambda _: None, lambda: token.run_sync_soon(nursery.cancel_scope.cancel)).start()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
