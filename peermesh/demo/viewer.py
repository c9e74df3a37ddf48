"""The role of the viewer: holds replicas of table and log, and shows the table as it grows.

At last it hands over what its copies have, to be compared with the recount.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

import trio

from handshake.private_files import write_private
from peermesh import Endpoint, ReplicaLog, ReplicaStore
from peermesh.demo.display import Display, choose_display
from peermesh.demo.events import LOG_NAME
from peermesh.demo.link import Assignment, Message, Orders, Reports
from peermesh.demo.mesh import COUNTS, IDLE_SECONDS, TABLE_FILE, dial
from peermesh.demo.tally import Cell
from peermesh.demo.view import Rate, make_view
from wire.errors import StoreError
from wire.values import Value

LOOK_SECONDS: Final = 0.3
"""How often the viewer looks at its table, unless that takes long."""

LOOK_SHARE_MAX: Final = 0.1
"""Of its time, the viewer looks at its table for no more than this: large ones less often."""

PATIENCE_SECONDS: Final = 120.0
"""How long the viewer tries to be level with its leaders at last, before it gives up."""


def read_table(items: Iterable[tuple[Value, Value]]) -> dict[Cell, int]:
    """Give the counts by window and key; what the job keeps beside them is left out."""
    table: dict[Cell, int] = {}
    for found, count in items:
        match found:
            case (datetime() as window, str(key)) if isinstance(count, int):
                table[int(window.timestamp()), key] = count
            case _:
                pass
    return table


class Viewer:
    """Looks at the copies, again and again."""

    def __init__(
        self,
        store: ReplicaStore,
        log: ReplicaLog,
        display: Display,
        reports: Reports,
        assignment: Assignment,
    ) -> None:
        """Show ``store`` on ``display``."""
        self._store = store
        self._log = log
        self._display = display
        self._reports = reports
        self._total = assignment.total()
        self._rate = Rate()
        self._path = assignment.path(TABLE_FILE)
        self._seen: tuple[int, int] | None = None
        self.finishing = trio.Event()

    def receive(self, order: Message) -> None:
        """Carry out an order."""
        if order["order"] == "mark":
            self._display.mark(order["text"])
        elif order["order"] == "finish":
            self.finishing.set()

    async def run(self) -> None:
        """Show the table until it is finished, hand it over, and keep it."""
        while not self.finishing.is_set():
            began = trio.current_time()
            await self._look()
            pause = (trio.current_time() - began) / LOOK_SHARE_MAX
            with trio.move_on_after(max(pause, LOOK_SECONDS)):
                await self.finishing.wait()
        # Level with the leaders once more: the job is done, so that nothing comes after that.
        with trio.fail_after(PATIENCE_SECONDS):
            while not (
                await self._store.await_idle(timeout=IDLE_SECONDS)
                and await self._log.await_idle(timeout=IDLE_SECONDS)
            ):
                pass
        await self._look()
        await self._hand_over()
        await trio.sleep_forever()

    async def _look(self) -> None:
        try:
            table = read_table(await self._store.items())
            appended = (await self._log.offsets())[0].end
        except StoreError:
            return  # There is no copy yet, or no leader for long.
        now = trio.current_time()
        rate = self._rate.update(sum(table.values()), now)
        view = make_view(table, self._total, appended, rate)
        if (view.lines, view.lag) != self._seen:
            self._seen = view.lines, view.lag
            self._display.show(view, now)
            self._reports.send("progress", lines=view.lines, keys=view.keys, lag=view.lag)

    async def _hand_over(self) -> None:
        table = read_table(await self._store.items())
        appended = (await self._log.offsets())[0].end
        found = {
            "appended": appended,
            "counts": [[*cell, count] for cell, count in sorted(table.items())],
        }
        text = json.dumps(found).encode()
        await trio.to_thread.run_sync(partial(write_private, self._path, text, replaces=True))
        self._reports.send("table", lines=sum(table.values()), appended=appended)


async def run(assignment: Assignment) -> None:
    """Be the viewer until the supervisor ends it."""
    reports = Reports(assignment.reports)
    token = trio.lowlevel.current_trio_token()
    async with Endpoint(forwarding=False) as endpoint, trio.open_nursery() as nursery:
        store = await endpoint.attach_replica(COUNTS)
        log = await endpoint.attach_log_replica(LOG_NAME)
        dial(endpoint, nursery, assignment.ports)
        with choose_display(draws=assignment.draws) as display:
            viewer = Viewer(store, log, display, reports, assignment)
            Orders(
                lambda order: token.run_sync_soon(viewer.receive, order),
                lambda: token.run_sync_soon(nursery.cancel_scope.cancel),
            ).start()
            reports.send("showing")
            await viewer.run()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
