"""The third process: holds a clone of the table, shows it as it grows, hands it over at last."""

from __future__ import annotations

import json
import sys
from typing import Final

import trio

from peermesh import Endpoint, Store
from peermesh.demo.display import Display, choose_display
from peermesh.demo.link import Assignment, Message, Orders, Reports
from peermesh.demo.protocol import CHECKPOINT, STORE_NAME, Checkpoint, read_table
from peermesh.demo.view import Rate, make_view
from wire.errors import StoreError

REDIAL_SECONDS_MAX: Final = 0.5
"""The longest pause between attempts to reach a sensor that is being started again."""

LOOK_SECONDS: Final = 0.2
"""How often the viewer looks at its table, unless that takes long."""

LOOK_SHARE_MAX: Final = 0.2
"""Of its time, the viewer looks at its table for no more than this: large ones less often."""

PATIENCE_SECONDS: Final = 120.0
"""How long the viewer tries to be level with its master at last, before it gives up."""

IDLE_SECONDS: Final = 1.0
"""How long one attempt to be level with the master may take: a round trip, and some ticks."""

TABLE_FILE: Final = "table.json"


class Viewer:
    """Looks at the clone, again and again."""

    def __init__(
        self, store: Store, display: Display, reports: Reports, assignment: Assignment
    ) -> None:
        """Show ``store`` on ``display``."""
        self._store = store
        self._display = display
        self._reports = reports
        self._total = assignment.lines
        self._rate = Rate()
        self._path = assignment.path(TABLE_FILE)
        self._seen: Checkpoint | None = None
        self.finishing = trio.Event()

    def receive(self, order: Message) -> None:
        """Carry out an order."""
        if order["order"] == "mark":
            self._display.mark(order["text"])
        elif order["order"] == "finish":
            self.finishing.set()

    async def run(self) -> None:
        """Show the table until it is finished, and hand it over."""
        while not self.finishing.is_set():
            began = trio.current_time()
            await self._look()
            pause = (trio.current_time() - began) / LOOK_SHARE_MAX
            with trio.move_on_after(max(pause, LOOK_SECONDS)):
                await self.finishing.wait()
        # Level with the master once more: the job is done, so that nothing comes after that.
        with trio.fail_after(PATIENCE_SECONDS):
            while not await self._store.await_idle(timeout=IDLE_SECONDS):
                pass
        await self._look()
        await self._hand_over()

    async def _look(self) -> None:
        try:
            if self._seen == Checkpoint.of(await self._store.get(CHECKPOINT)):
                return
            counts, checkpoint = read_table(await self._store.items())
        except StoreError:
            return  # No master for long. The supervisor sees to that, and reports it.
        now = trio.current_time()
        view = make_view(counts, checkpoint, self._total, self._rate.update(checkpoint.lines, now))
        self._display.show(view, now)
        self._seen = checkpoint
        self._reports.send("progress", lines=view.lines, bad=view.bad, keys=view.keys, top=view.top)

    async def _hand_over(self) -> None:
        counts, checkpoint = read_table(await self._store.items())
        table = {
            "lines": checkpoint.lines,
            "bad": checkpoint.bad,
            "counts": [[key.hex(), count] for key, count in sorted(counts.items())],
        }
        await trio.Path(self._path).write_text(json.dumps(table))
        self._reports.send("table", lines=checkpoint.lines, bad=checkpoint.bad, keys=len(counts))


async def run(assignment: Assignment) -> None:
    """Be the viewer until the table is finished, or the supervisor ends it."""
    reports = Reports(assignment.reports)
    token = trio.lowlevel.current_trio_token()
    async with Endpoint() as endpoint, trio.open_nursery() as nursery:
        store = await endpoint.attach_clone(STORE_NAME)
        nursery.start_soon(endpoint.peer, "127.0.0.1", assignment.port, REDIAL_SECONDS_MAX)
        with choose_display(draws=assignment.draws) as display:
            viewer = Viewer(store, display, reports, assignment)
            Orders(
                lambda order: token.run_sync_soon(viewer.receive, order),
                lambda: token.run_sync_soon(nursery.cancel_scope.cancel),
            ).start()
            reports.send("showing")
            await viewer.run()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(run, Assignment.parse(sys.argv[1]))
