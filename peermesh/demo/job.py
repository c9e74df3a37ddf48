"""The second process: takes events in batches, has Spark count them, and writes to the store."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from peermesh.blocking import Endpoint, Receipt, Store, Subscriber
from peermesh.demo.errors import StuckError
from peermesh.demo.intake import EventBatch, Intake
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.protocol import (
    CHECKPOINT,
    EVENTS_TOPIC,
    REPLAY_TOPIC,
    STORE_NAME,
    Checkpoint,
    commit,
    read_event,
)
from peermesh.demo.tally import Event, Tally, merge, tally_events
from wire.errors import StoreError

POLL_SECONDS: Final = 0.1
"""How long the job waits for one thing before it looks after the others, such as its end."""

IDLE_SECONDS: Final = 1.0
"""How long one attempt to be level with the master may take: a round trip, and some ticks."""

REDIAL_SECONDS_MAX: Final = 0.5
"""The longest pause between attempts to reach a sensor that is being started again."""

PATIENCE_SECONDS: Final = 120.0
"""How long nothing may come of all attempts: longer than any batch, and any start of a sensor."""

Count = Callable[[tuple[Event, ...]], Tally]


class Job:
    """Counts until the input ends. All that lasts is in the store, so it may die at any time."""

    def __init__(
        self,
        endpoint: Endpoint,
        store: Store,
        count: Count,
        reports: Reports,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Count with ``count`` and write to ``store``, as long as ``is_wanted``."""
        self._endpoint = endpoint
        self._store = store
        self._count = count
        self._reports = reports
        self._is_wanted = is_wanted
        self._checkpoint = Checkpoint()
        self._progressed = time.monotonic()
        self._trouble = "no event came"

    def run(self, events: Subscriber) -> None:
        """Go on where the store says that the last job stopped, to the end of the input."""
        intake = self._synchronize()
        while self._goes_on():
            self._gather(intake, events)
            if not intake.is_ready(time.monotonic()):
                continue
            batch = intake.take(time.monotonic())
            if batch.events and not self._process(batch):
                intake = self._synchronize()
            elif batch.is_last:
                self._reports.send("done", lines=self._checkpoint.lines)
                return

    def _synchronize(self) -> Intake:
        """Learn from the store how far the input is processed, and ask for what comes after."""
        while self._goes_on() and not self._read_checkpoint():
            pass
        self._reports.send("ready", lines=self._checkpoint.lines)
        intake = Intake(self._checkpoint.lines, time.monotonic())
        self._ask(intake.due)
        return intake

    def _read_checkpoint(self) -> bool:
        idle = self._store.await_idle(timeout=IDLE_SECONDS)
        if not idle:
            self._trouble = str(idle)
            return False
        try:
            self._checkpoint = Checkpoint.of(self._store.get(CHECKPOINT))
        except StoreError as error:
            self._trouble = str(error)
            return False
        return True

    def _ask(self, first: int | None) -> None:
        if first is not None:
            self._endpoint.publish(REPLAY_TOPIC, first)

    def _gather(self, intake: Intake, events: Subscriber) -> None:
        """Take in events until there is a batch, or until nothing came for a moment."""
        while not intake.is_ready(time.monotonic()):
            try:
                _, data = events.get(timeout=POLL_SECONDS)
            except TimeoutError:
                self._ask(intake.tick(time.monotonic()))
                return
            event = read_event(data)
            if event is not None:
                self._ask(intake.receive(*event, time.monotonic()))

    def _process(self, batch: EventBatch) -> bool:
        """Count a batch and commit it; false if the store is not where we believed it to be."""
        first, last = batch.events[0][0], batch.events[-1][0]
        self._reports.send("counting", first=first, last=last)
        tally = self._count(batch.events)
        changes, checkpoint = commit(self._checkpoint, tally, last)
        try:
            receipt = self._store.batch(changes)
            self._reports.send("writing", first=first, last=last)
            if not self._await(receipt):
                return False
        except StoreError as error:
            self._trouble = str(error)
            self._reports.send("refused", first=first, last=last, reason=self._trouble)
            return False
        self._checkpoint = checkpoint
        self._progressed = time.monotonic()
        self._reports.send("committed", lines=last, bad=checkpoint.bad, bad_lines=tally.bad_lines)
        return True

    def _await(self, receipt: Receipt) -> bool:
        while self._goes_on():
            if receipt.wait(POLL_SECONDS):
                receipt.result()
                return True
        return False

    def _goes_on(self) -> bool:
        """Tell whether the job is wanted; raises ``StuckError`` when it gets nowhere."""
        if time.monotonic() - self._progressed > PATIENCE_SECONDS:
            raise StuckError(f"nothing was counted for {PATIENCE_SECONDS:g} s: {self._trouble}")
        return self._is_wanted()


def run(assignment: Assignment) -> None:
    """Be the job until the input ends, or the supervisor ends it."""
    from peermesh.spark.local import LocalSpark

    reports = Reports(assignment.reports)
    started = threading.Event()
    # Spark takes seconds to start, and hears nothing meanwhile. Nothing is lost by leaving then.
    orders = Orders(lambda _: None, lambda: None if started.is_set() else os._exit(0)).start()
    tally = partial(tally_events, assignment.key)
    with LocalSpark("peermesh demo", assignment.path("spark")) as spark, Endpoint() as endpoint:
        started.set()
        events = endpoint.subscribe(EVENTS_TOPIC)
        endpoint.peer("127.0.0.1", assignment.port, REDIAL_SECONDS_MAX, timeout=POLL_SECONDS)
        with endpoint.attach_clone(STORE_NAME) as store:
            job = Job(
                endpoint,
                store,
                count=lambda batch: spark.fold(batch, tally, merge),
                reports=reports,
                is_wanted=lambda: not orders.is_ended,
            )
            try:
                job.run(events)
            except StuckError as error:
                reports.send("failed", reason=str(error))


if __name__ == "__main__":
    run(Assignment.parse(sys.argv[1]))
