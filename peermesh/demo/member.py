"""The role of either process with the stores: masters or clones, and a gateway in front of them.

``counts`` is the table of results, ``checkpoints`` holds Spark's files behind the gateway. What is
acknowledged is on the disk of the master, and in all clones that may have to be promoted.
"""

from __future__ import annotations

import sys
from typing import Final

import trio

from peermesh import Backend, Endpoint, Store
from peermesh.demo.link import Assignment, Message, Orders, Reports
from peermesh.demo.mesh import CHECKPOINTS, COUNTS, IDLE_SECONDS, LOCAL, dial
from wire.errors import PromotionRefused

REPLICAS: Final = {COUNTS: 2, CHECKPOINTS: 1}
"""How many clones there are: the other process has both, and the viewer has one of the counts."""

ASK_SECONDS: Final = 0.02
"""Between two attempts to be promoted: the link to a master that was killed breaks at once."""

ASK_SECONDS_MAX: Final = 10.0
"""How long the last master may look alive, before it is deposed all the same."""


class Member:
    """One of the two."""

    def __init__(self, endpoint: Endpoint, reports: Reports, assignment: Assignment) -> None:
        """Hold the stores at ``endpoint``."""
        self._endpoint = endpoint
        self._reports = reports
        self._assignment = assignment
        self._stores: dict[str, Store] = {}
        self._is_wanted = trio.Event()

    def receive(self, order: Message) -> None:
        """Carry out an order."""
        if order["order"] == "promote":
            self._is_wanted.set()

    def _file(self, name: str) -> str:
        member, files = self._assignment.member, self._assignment.files
        return str(self._assignment.path(f"{name}-{member}-{files}.sqlite"))

    async def attach(self) -> Store:
        """Attach both; gives the one with the checkpoints."""
        for name, replicas in REPLICAS.items():
            if self._assignment.leads:
                self._stores[name] = await self._endpoint.attach_master(
                    name, Backend.SQLite, path=self._file(name), replicas=replicas
                )
            else:
                self._stores[name] = await self._endpoint.attach_clone(name)
        return self._stores[CHECKPOINTS]

    async def follow(self) -> None:
        """Get level with the masters, and say so; be promoted when that is asked for."""
        if self._assignment.leads:
            self._reports.send("leading")
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_level)
            await self._is_wanted.wait()
            nursery.cancel_scope.cancel()
        for name in REPLICAS:
            await self._promote(name)
        self._reports.send("promoted")

    async def _report_level(self) -> None:
        for store in self._stores.values():
            while not await store.await_idle(timeout=IDLE_SECONDS):
                pass
        self._reports.send("following")

    async def _promote(self, name: str) -> None:
        store, path, replicas = self._stores[name], self._file(name), REPLICAS[name]
        with trio.move_on_after(ASK_SECONDS_MAX):
            while True:
                try:
                    await store.promote(Backend.SQLite, path=path, replicas=replicas)
                except PromotionRefused:
                    await trio.sleep(ASK_SECONDS)
                else:
                    return
        # Nothing that was acknowledged is missing here, so that nothing of it can be lost.
        await store.promote(Backend.SQLite, path=path, replicas=replicas, force=True)


async def run(assignment: Assignment) -> None:
    """Be a process with the stores until the supervisor ends it."""
    from peermesh.gateways import serve_webhdfs  # it needs the extra http

    own = assignment.ports.stores[assignment.member]
    http = assignment.ports.gateways[assignment.member]
    token = trio.lowlevel.current_trio_token()
    async with Endpoint() as endpoint, trio.open_nursery() as nursery:
        member = Member(endpoint, Reports(assignment.reports), assignment)
        checkpoints = await member.attach()
        Orders(
            lambda order: token.run_sync_soon(member.receive, order),
            lambda: token.run_sync_soon(nursery.cancel_scope.cancel),
        ).start()
        await endpoint.listen(port=own)
        dial(endpoint, nursery, assignment.ports, own)
        async with serve_webhdfs(checkpoints, host=LOCAL, port=http):
            await member.follow()
            await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
