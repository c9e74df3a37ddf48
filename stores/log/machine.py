"""The machine of a log: what a replica group agrees on is runs of entries, and who appended them.

The leader judges: it gives each append its offset and its time, so that members that apply it need
no clock and decide nothing. All that decides about later requests is in the applied state, the same
at every member: where partitions end, what writers and named producers asked for, consumers,
quota, and what is to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from stores.group.clock import Times
from stores.group.machine import Answer, Append, Judgement, Machine, Staged as StagedAt
from stores.group.positions import Position
from stores.log.applied_reads import AppliedReads
from stores.log.bodies import (
    Answered,
    Begun,
    ChangeRetention,
    Performed,
    RetentionChanged,
    Write,
)
from stores.log.judge import vet
from stores.log.kept_runs import KeptRun, KeptRuns
from stores.log.limits import PARTITIONS_MAX, RETENTION_TICKS
from stores.log.messages import Trimmed
from stores.log.partitions import Partitions, RunInfo
from stores.log.parts import Frozen, HeadPart, Part, PlacedPart, RunsPart, beside, thaw
from stores.log.producers import ProducerChange, Producers
from stores.log.staged import Staged
from stores.log.staging import LogStage, apply_cursors
from stores.outcomes import Outcome, add_result
from stores.quota import UNLIMITED, Meter, Quota, QuotaLevel
from stores.table.bodies import ChangeQuota, QuotaChanged, Register, Registered
from stores.table.lineage import Lineage
from stores.table.writers import Writers
from wire.errors import DecodeError, InvalidData


class LogMachine(AppliedReads, Machine):
    """A log as a replica group's machine: see ``stores.group.machine``."""

    def __init__(
        self, name: str = "the log", partition_count: int = 1, quota: Quota = UNLIMITED
    ) -> None:
        """Start empty. All members start with one ``quota``; the ``name`` stands in errors.

        A log that has not begun gets ``partition_count`` partitions from the member that leads
        first. Raises ``InvalidData`` for a number that no log has.
        """
        if not 0 < partition_count <= PARTITIONS_MAX:
            raise InvalidData(f"a log has 1 to {PARTITIONS_MAX} partitions, not {partition_count}")
        self.meter = Meter(name, quota)
        """The quota that requests are judged by, with changes of it that are staged."""
        self.traffic = 0
        """Bytes of all runs that were appended."""
        self._first_quota = quota
        self._partition_count = partition_count
        self._producers = Producers()
        self._quota = quota
        self._staged: Staged | None = None
        self._ticks = 0
        self._has_file = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Drop all: the log has not begun."""
        head = HeadPart(quota=self._first_quota)
        self._begin(head, Partitions(()), KeptRuns(), {}, Producers(), Writers())

    def share(self, meter: Meter) -> None:
        """Judge by a quota that is not the log's own from now on: several logs go by it."""
        self.meter = meter
        if self._staged is not None:
            self._staged.judge.meter = meter

    def restart_history(self) -> None:
        """Do nothing: a log keeps no history of its changes beside its runs."""

    def _begin(
        self,
        head: HeadPart,
        partitions: Partitions,
        runs: KeptRuns,
        cursors: dict[str, dict[int, int]],
        producers: Producers,
        writers: Writers,
    ) -> None:
        """Take a state in which all is applied, and nothing is staged."""
        self.partitions = partitions
        self.cursors = cursors
        self.retention = head.retention
        self._runs = runs
        self._used = partitions.used()
        self._lineage = Lineage(head.position, head.reigns)
        self._producers = producers
        if self._has_file:
            producers.follow()
        self._writers = writers
        self._times = head.times
        self._quota = head.quota
        self._staged = None
        self.meter.replace(head.quota)

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<LogMachine at {self.position} ends={self.partitions.ends()}"
            f" consumers={len(self.cursors)} producers={len(self._producers)}"
            f" writers={len(self._writers)}>"
        )

    # -- judgement, at the leader ----------------------------------------------------------------

    def judge(self, request: object, now: Times) -> Judgement:
        """Decide what a request comes to, with all that is staged; what it becomes is staged next.

        Raises ``DecodeError`` for one that no honest writer sends; then nothing has changed.
        """
        match request:
            case Write():
                return self._judge_write(request, now)
            case Register():
                return self._judge_registration(request)
            case ChangeQuota(quota):
                return Append(QuotaChanged(quota))
            case ChangeRetention(retention):
                return Append(RetentionChanged(retention))
            case _:
                raise DecodeError(
                    f"a {type(request).__name__} is nothing that a log can be asked for"
                )

    def due(self, now: Times) -> Begun | Trimmed | None:
        """Give the log its partitions; twice a second, let go some of what it need not keep."""
        staged = self._latest()
        if not len(self.partitions):
            return None if staged.has(Begun) else Begun(self._partition_count, None)
        self._ticks -= 1
        if self._ticks > 0:
            return None
        found, has_more = self.partitions.due(self.retention, now.elapsed_ns)
        self._ticks = 1 if has_more else RETENTION_TICKS
        starts = tuple((number, start) for number, start in found if start > staged.starts[number])
        return Trimmed(starts) if starts else None

    def has_deadlines(self) -> bool:
        """Tell whether anything grows too old to be kept."""
        return self.retention.age_ns is not None

    def lead(self, now: Times, term: int) -> None:
        """Have nothing to do: entries are as old as they were under the last leader."""

    def stage(self, position: Position, body: object) -> None:
        """Have later requests judged as if this were applied."""
        staged = self._latest()
        match body:
            case Performed():
                self._writers.stage_request(position.index, body.writer, body.last_request)
            case Registered():
                self._writers.stage_registration(position.index, body)
            case Begun(_, registered):
                if registered is not None:
                    self._writers.stage_registration(position.index, registered)
            case QuotaChanged(quota):
                self.meter.replace(quota)
            case Trimmed() | RetentionChanged():
                pass
            case _:
                raise _no_body(body)
        staged.stage(body)

    def size_of(self, body: object) -> int:
        """Give the bytes of the runs in an action."""
        return sum(len(run.body) for run in body.runs) if isinstance(body, Performed) else 0

    def changes_of(self, body: object) -> int:
        """Count what an action has of runs, or of appends by producers, if they are more.

        What is in a run is not looked at when it is applied; each number of a producer is.
        """
        return max(len(body.runs), len(body.produced)) if isinstance(body, Performed) else 0

    def undo(self) -> None:
        """Forget all that is staged."""
        self._staged = None
        self._writers.undo()
        if self.meter.quota != self._quota:
            self.meter.replace(self._quota)

    def look_at_quota(self) -> QuotaLevel | None:
        """Give how close the log is to its quota, if that has changed; for a leader's events."""
        return self.meter.look(*self._used)

    # -- what is committed -----------------------------------------------------------------------

    def apply(self, position: Position, body: object) -> Answered:
        """Apply a committed action, and give the answer to the request that it came from."""
        self._lineage.advance(position)
        match body:
            case Performed():
                answer: Answered = self._perform(position, body)
            case Registered():
                answer = self._writers.register(position.index, body)
            case Begun(count, registered):
                answer = self._start(position, count, registered)
            case Trimmed(starts):
                answer = None
                self._trim(starts)
            case QuotaChanged(quota):
                answer, self._quota = None, quota
                if self._staged is None:
                    self.meter.replace(quota)
            case RetentionChanged(retention):
                answer, self.retention = None, retention
            case _:
                raise _no_body(body)
        if self._staged is not None:
            self._staged.settle(body)
        return answer

    def tick(self) -> None:
        """Let one tick (100 ms) pass: there is nothing to do."""

    # -- the whole state -------------------------------------------------------------------------

    def freeze(self, after: int = 0) -> Frozen:
        """Give the applied state in parts, without the runs of entries up to an index."""
        runs, producers = self._runs.above(after), self._producers.rows()
        head = self._head(after)
        return Frozen(head, runs, self.all_cursors(), producers, self._writers.rows())

    def beside_rows(self) -> list[Part]:
        """Give the applied state but for its runs and producers, which a file has as rows."""
        head = self._head(self.position.index)
        return beside(head, self.all_cursors(), (), self._writers.rows())

    def take_producers(self) -> list[ProducerChange]:
        """Give the named producers that changed since the last call: see ``Producers``."""
        return self._producers.take_changes()

    def prepare(self, number: int, part: object) -> object:
        """Give what ``install`` takes: where runs are, if a file has what is in them."""
        if self._has_file and isinstance(part, RunsPart):
            return PlacedPart(tuple(run.place for run in part.runs))
        return part

    def install(self, parts: Sequence[object]) -> None:
        """Replace the whole state; runs that the parts leave out stay.

        Raises ``DecodeError`` if something is missing; then nothing has changed.
        """
        thawed = thaw(parts, self._runs)
        self._begin(
            *(thawed.head, thawed.partitions, thawed.runs, thawed.cursors),
            *(Producers(thawed.rows.producers), Writers(thawed.rows.writers)),
        )

    def use_file(self) -> None:
        """Learn that a file has all of it: entries of runs are kept until ``release``, no longer.

        Of producers, the file is told what changes from now on.
        """
        self._has_file = True
        self._producers.follow()

    @property
    def memory_size(self) -> int:
        """Bytes of the log in memory, as stored: those of a file's runs are there as a cache."""
        return 0 if self._has_file else self._used[1]

    def release(self, index: int) -> None:
        """Keep no entries of runs up to a journal's entry: they are read in the file."""
        self._runs.release(index)

    def digest(self) -> bytes:
        """Give a hash of the applied state, in which runs stand for what is in them.

        It looks at every run: for tests, not for a loop.
        """
        cursors = sorted(self.all_cursors())
        state = [self._head(0), [run.place for run in self._runs.above(0)], cursors]
        return sha256(
            repr([*state, *self._producers.rows(), *self._writers.rows()]).encode()
        ).digest()

    def _head(self, after: int) -> HeadPart:
        return HeadPart(
            *(self.position, after, self.partitions.spans(), self._times),
            *(self._quota, self.retention, tuple(self._lineage.reigns)),
        )

    # -- steps: judgement ------------------------------------------------------------------------

    def _latest(self) -> Staged:
        if self._staged is None:
            self._staged = Staged(
                *(self.partitions, self.cursors, self._producers, self.meter, self._times)
            )
        return self._staged

    def _judge_registration(self, request: Register) -> Judgement:
        """Register a writer; the first one begins the log, if no tick has done so."""
        judgement = self._writers.judge_registration(request)
        is_new = not len(self.partitions) and not self._latest().has(Begun)
        if not is_new or not isinstance(judgement, Append):
            return judgement
        assert isinstance(judgement.body, Registered), judgement
        return Append(Begun(self._partition_count, judgement.body))

    def _judge_write(self, write: Write, now: Times) -> Judgement:
        known = self._look(write)
        if known is not None:
            return known
        staged, asked = self._latest(), write.asked
        staged.count_used(*self._used)
        times = Times(*map(max, now, staged.times))
        stage, outcomes = LogStage(), list[Outcome]()
        for number, request in enumerate(asked.requests, asked.first_request):
            result = staged.judge.perform(request, stage, times.stamp_ns)
            add_result(outcomes, number, result)
        stage.seal()
        body = Performed(
            *(asked.writer, asked.resolved_request, tuple(outcomes)),
            *(tuple(stage.runs), times.elapsed_ns, staged.producers.take_judged()),
            *(tuple(sorted(stage.starts.items())), stage.forgotten(), stage.moved()),
        )
        return Append(body)

    def _look(self, write: Write) -> Answer | StagedAt | None:
        """Answer what is not the writer's next request; ``None`` if it is to be judged.

        Raises ``DecodeError``; then nothing has changed, as judging raises none.
        """
        asked = write.asked
        first, count = asked.first_request, len(asked.requests)
        if first < 1 or not count:
            raise DecodeError("a writer asks for nothing")
        numbers = first, first + count - 1
        known = self._writers.judge_request(
            asked.writer, write.number, numbers, asked.resolved_request
        )
        if known is None and not write.is_vetted:
            vet(asked)
        return known

    # -- steps: what is committed ----------------------------------------------------------------

    def _start(self, position: Position, count: int, registered: Registered | None) -> Answered:
        """Have so many partitions from now on."""
        self.partitions.begin(count)
        self._runs = KeptRuns(count)
        if registered is None:
            return None
        return self._writers.register(position.index, registered)

    def _perform(self, position: Position, body: Performed) -> tuple[Outcome, ...]:
        touched = {run.partition for run in body.runs}
        before = self.partitions.used(touched)
        for run in body.runs:
            kept = KeptRun.of(run, position, body.elapsed_ns)
            info = RunInfo(run.first_offset, run.count, body.elapsed_ns, len(run.body))
            self.partitions[run.partition].extend(info)
            self._runs.append(kept)
            self.traffic += len(run.body)
            self._times = Times(body.elapsed_ns, run.timestamp_ns)
        self._count(before, self.partitions.used(touched))
        for one in body.produced:
            self._producers.add(one.producer, one.sequence, one.partition, one.offset)
        if body.starts:
            self._trim(body.starts)
        apply_cursors(self.cursors, body.forgotten, body.moved)
        self._writers.perform(body.writer, body.last_request, body.resolved, body.outcomes)
        return body.outcomes

    def _trim(self, starts: Sequence[tuple[int, int]]) -> None:
        touched = {number for number, _ in starts}
        before = self.partitions.used(touched)
        for number, start in starts:
            partition = self.partitions[number]
            partition.trim(start)
            self._runs.trim(number, partition.start)
        self._count(before, self.partitions.used(touched))

    def _count(self, before: tuple[int, int], after: tuple[int, int]) -> None:
        entries, size = self._used
        self._used = entries + after[0] - before[0], size + after[1] - before[1]


def _no_body(body: object) -> AssertionError:
    return AssertionError(f"a log has no {type(body).__name__} in its journal")
