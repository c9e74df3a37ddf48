"""The ledger: what a job has done, in a store, so that it does nothing twice and goes on after it.

A job is a name. Its latest run may write, and fences all earlier ones.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from peermesh.spark.joining import AnyStore, join, patiently
from peermesh.spark.options import MeshAddress, read_address
from peermesh.spark.records import (
    JobFenced,
    ReplayConflict,
    batch_done,
    job_key,
    last_batch,
    named,
    note_batch,
    query_key,
    unit_key,
    units_prefix,
)
from peermesh.spark.turns import LastTurns, Place
from stores.batch import Batch
from wire.encoding import encode
from wire.errors import GuardFailed, InvalidData
from wire.values import Table, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ANSWER_SECONDS = 60.0
"""How long to wait for a master that restarts or moves."""

OnBatch: TypeAlias = "Callable[[DataFrame, int], Batch | None]"
ForeachBatch: TypeAlias = "Callable[[DataFrame, int], None]"

QUERY_ID = "sql.streaming.queryId"

RUN_ID = "spark.jobGroup.id"
"""Of the jobs of a query that is a stream, Spark names the group after the run of the query."""

_turns = LastTurns()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store, for a process that has to open it first."""

    address: MeshAddress
    name: str


class Ledger:
    """What a job has done: ``Ledger(store, "nightly scores")``, in the driver."""

    def __init__(self, store: AnyStore, job: str) -> None:
        """Begin a run of the job; earlier runs get ``JobFenced`` when they write."""
        self._store = store
        self._job = job
        self._run = Table({"token": uuid.uuid4().hex, "began": datetime.now(UTC)})
        store.put(job_key(job), self._run).result(ANSWER_SECONDS)

    def once(
        self, on_batch: OnBatch, query: str | None = None, *, name: str | None = None
    ) -> ForeachBatch:
        """Make a function for ``foreachBatch``, which runs ``on_batch`` for what is not done.

        What ``on_batch`` returns, a batch of changes of the store or ``None``, happens together
        with the note that it is done: once. What it does elsewhere happens at least once.
        ``query`` is the query's id, which its checkpoint keeps, unless another name is given.

        Call the function once for each batch. If one ``foreachBatch`` calls several, give each but
        the first a ``name``, for as long as the checkpoint lives: without, the second one raises
        ``InvalidData``, as the batch is done.
        """
        function = object()

        def foreach_batch(frame: DataFrame, batch: int) -> None:
            identity = named(query or _query_of(frame), name)
            place = ("query", _handle(self._store), self._job, identity)
            is_second = _take_turn(place, frame, batch, function)
            if not self._do(on_batch, frame, batch, identity) and is_second:
                raise _second(batch, identity, "once(function, name='second')")

        return foreach_batch

    def _do(self, on_batch: OnBatch, frame: DataFrame, batch: int, query: str) -> bool:
        key = query_key(self._job, query)
        last = _get(self._store, key)
        if batch <= last_batch(last):
            return False
        changes = batch_done(self._run, self._job, on_batch(frame, batch) or Batch())
        note_batch(changes, key, last, batch, datetime.now(UTC))
        _apply(self._store, changes, self._job, self._run)
        return True

    def last_batch(self, query: str, *, name: str | None = None) -> int | None:
        """Give the last batch that is done of a query, by what has this name; ``None`` if none."""
        key = query_key(self._job, named(query, name))
        found = last_batch(_get(self._store, key))
        return None if found < 0 else found

    def work(self, fingerprint: str, peers: str | None = None) -> Work:
        """Give the units of work under a fingerprint; see ``peermesh.spark.fingerprint``.

        With ``peers``, as in the option of that name, it can be sent to executors.
        """
        place: AnyStore | StoreAddress = self._store
        if peers is not None:
            place = StoreAddress(read_address({"peers": peers}), self._store.name())
        return Work(place, self._job, self._run, fingerprint)


class Work:
    """Units of a batch job, each of which is done once, and skipped from then on."""

    def __init__(
        self, place: AnyStore | StoreAddress, job: str, run: Table, fingerprint: str
    ) -> None:
        """Use ``Ledger.work``."""
        self._place = place
        self._job = job
        self._run = run
        self._fingerprint = fingerprint

    def _store(self) -> AnyStore:
        if isinstance(self._place, StoreAddress):
            return join(self._place.address).store(self._place.name)
        return self._place

    def __getstate__(self) -> dict[str, object]:
        """Refuse to be sent without an address: the driver's store stays in the driver."""
        if not isinstance(self._place, StoreAddress):
            raise InvalidData("for executors, make it with peers: ledger.work(fingerprint, peers)")
        return self.__dict__

    def results(self) -> Table:
        """Give the units that are done, with their results."""
        prefix = units_prefix(self._job, self._fingerprint)
        store = self._store()

        def read() -> Table:
            found = store.at_master().entries(prefix=prefix)
            return Table(
                (entry.key[-1], entry.value) for entry in found if isinstance(entry.key, tuple)
            )

        return patiently(read, ANSWER_SECONDS)

    def remaining(self, units: Iterable[Value]) -> list[Value]:
        """Give the units that are not done."""
        done = {encode(unit) for unit in self.results()}
        return [unit for unit in units if encode(unit) not in done]

    def done(self, unit: Value, result: Value = None, changes: Batch | None = None) -> bool:
        """Note that a unit is done, with changes of the store; tell whether it was not before.

        If it was, nothing happens. Raises ``JobFenced`` if another run has begun, and
        ``ReplayConflict`` if a guard of the changes does not hold.
        """
        key = unit_key(self._job, self._fingerprint, unit)
        store = self._store()
        noted = batch_done(self._run, self._job, changes or Batch())
        try:
            _apply(store, noted.if_absent(key).put(key, result), self._job, self._run)
        except ReplayConflict:
            if patiently(lambda: store.at_master().exists(key), ANSWER_SECONDS):
                return False
            raise  # a guard of the changes did not hold
        return True


def _get(store: AnyStore, key: Value) -> Value:
    return patiently(lambda: store.at_master().get(key), ANSWER_SECONDS)


def _apply(store: AnyStore, changes: Batch, job: str, run: Table) -> None:
    try:
        store.batch(changes).result(ANSWER_SECONDS)
    except GuardFailed as error:
        if _get(store, job_key(job)) != run:
            raise JobFenced(
                f"another run of job {job!r} has begun, and this one may not write any more: let"
                " one run at a time, or give them names of their own"
            ) from None
        raise ReplayConflict(f"job {job!r}: done already, or a guard of yours: {error}") from None


def _query_of(frame: DataFrame) -> str:
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query is None:
        raise InvalidData("this is no query of a stream: name it, as in once(function, 'name')")
    return query


def _handle(store: AnyStore) -> str:
    """Name a handle in this process: stores of one name may be of two meshes."""
    return f"{store.name()} {id(store):x}"


def _take_turn(place: Place, frame: DataFrame, batch: int, function: object) -> bool:
    """Tell whether another function had this batch before, in the same run of the query."""
    session = getattr(frame, "sparkSession", None)
    context = getattr(session, "sparkContext", None)  # A session over Spark Connect has none.
    run = None if context is None else context.getLocalProperty(RUN_ID)
    with _lock:
        return _turns.take(place, run, batch, function)


def _second(batch: int, identity: str, example: str) -> InvalidData:
    return InvalidData(
        f"batch {batch} of {identity} is done by another function of the same foreachBatch, and"
        f" this one did nothing: give this one a name, as in {example}, and leave the other one as"
        " it is; make each of them once, outside of foreachBatch"
    )


def upsert_batch(
    store: AnyStore, *key_columns: str, value_column: str | None = None, name: str | None = None
) -> ForeachBatch:
    """Make a function for ``foreachBatch`` that puts each row under its key, exactly once.

    It is the way for queries in update mode, which Spark does not let into a sink in Python. It
    publishes as the sink does, from the driver.

    Call the function once for each batch. If one ``foreachBatch`` calls several for the same store,
    give each but the first a ``name``, for as long as the checkpoint lives: without, the second one
    raises ``InvalidData``, as the batch is written.
    """
    from peermesh.spark.options import NullKeys, Writing
    from peermesh.spark.publication import publish_in_store
    from peermesh.spark.rows import RowReader, Shape

    shape = Shape(key_columns, value_column)
    if not key_columns:
        raise InvalidData("say which columns are the key: upsert_batch(store, 'a', 'b')")
    function = object()

    def foreach_batch(frame: DataFrame, batch: int) -> None:
        reader = RowReader(shape, frame.schema, NullKeys.FAIL)
        taken = reader.take(frame.toArrow().to_batches(), f"batch {batch}")
        identity = named(_query_of(frame), name)
        is_second = _take_turn(("sink", _handle(store), identity), frame, batch, function)
        is_new = publish_in_store(store, identity, batch, taken, Writing.UPSERT, ANSWER_SECONDS)
        if is_second and not is_new:
            raise _second(batch, identity, "upsert_batch(store, 'a', name='second')")

    return foreach_batch
