"""What keeps the promises of a replica group's log: each line can be switched off."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_UNIT = "tests/stores/log/test_log_machine.py"
_PROGRAMS = "tests/stores/log/test_log_machine_property.py"
_CODEC = "tests/stores/log/test_log_codec.py"
_MODEL = "tests/stores/log/test_group_of_logs.py"
_MEMBER = "tests/stores/group/test_member.py"
_FILE = "tests/stores/disk/test_log_replica.py"


def _part(name: str, why: str, file: str, text: str, replacement: str, *tests: str) -> Safeguard:
    file = file if "/" in file else f"stores/log/{file}"
    return Safeguard(f"log machine: {name}", why, file, text, replacement, tests or (_UNIT,))


LOG_MACHINE = [
    _part(
        "a lost lead takes back what it staged",
        "a deposed leader that leads again gives offsets after entries that are nowhere",
        "machine.py",
        "        self._staged = None\n        self._writers.undo()\n",
        "        self._writers.undo()\n",
    ),
    _part(
        "a quota that is lost holds no more",
        "a member judges by a quota that no other member knows",
        "machine.py",
        "        if self.meter.quota != self._quota:\n",
        "        if False:\n",
    ),
    _part(
        "appends are placed after what is staged",
        "two appends under way at a time get one offset",
        "staged.py",
        "            self.judge.staged_ends[run.partition] = run.end\n",
        "            pass\n",
    ),
    _part(
        "a new leader stages the beginning, too",
        "a leader that has applied nothing yet cannot take over",
        "staged.py",
        "            self.judge.staged_ends += [0] * body.partition_count\n",
        "            pass\n",
    ),
    _part(
        "a log begins once",
        "a leader that begins a log again empties it",
        "machine.py",
        "            return None if staged.has(Begun) else Begun(self._partition_count, None)\n",
        "            return Begun(self._partition_count, None)\n",
    ),
    _part(
        "a number of partitions is that of the journal",
        "members with other settings put entries elsewhere",
        "machine.py",
        "        self.partitions.begin(count)\n",
        "        self.partitions.begin(self._partition_count)\n",
    ),
    _part(
        "times go on from what is staged",
        "a later leader's entries are older than those before them, and are not found by time",
        "machine.py",
        "        times = Times(*map(max, now, staged.times))\n",
        "        times = now\n",
    ),
    _part(
        "age goes by the time that the group was led",
        "one wrong look at the clock lets all entries go",
        "machine.py",
        "        found, has_more = self.partitions.due(self.retention, now.elapsed_ns)\n",
        "        found, has_more = self.partitions.due(self.retention, now.stamp_ns)\n",
    ),
    _part(
        "retention counts what is staged as done",
        "a leader that waits for a majority fills the journal with one and the same entry",
        "machine.py",
        " if start > staged.starts[number])\n",
        ")\n",
    ),
    _part(
        "what a named producer repeats while it is staged is recognised",
        "an append that is repeated before its commit is there twice",
        "staged.py",
        "        found = fresh.get(sequence) or self._applied.place(name, sequence)\n",
        "        return self._applied.find(name, sequence)\n        found = None\n",
    ),
    _part(
        "a number that a named producer left out is refused while it is staged",
        "an append that may have been given up comes late, out of order",
        "staged.py",
        "            raise unknown(name, sequence, first, last)\n",
        "            return None\n",
    ),
    _part(
        "all members remember named producers",
        "what a producer repeats after a change of leader is there twice",
        "machine.py",
        "            self._producers.add(one.producer, one.sequence, one.partition, one.offset)\n",
        "            pass\n",
    ),
    _part(
        "a producer that makes room for others is retired",
        "what a producer repeats is there twice, once ten thousand others were at work",
        "producers.py",
        "        self._retired[name] = self._records.pop(name).appended[-1][0]\n",
        "        self._records.pop(name)\n",
    ),
    _part(
        "consumers that are staged are counted",
        "consumers that come at a time pass their limit",
        "staged.py",
        "        self._consumers.update((consumer, None) for consumer, _ in body.moved)\n",
        "",
    ),
    _part(
        "bytes that are staged count for the quota",
        "appends under way at a time pass a full quota",
        "staged.py",
        "        self.judge.used = entries + self._count, size + self._size\n",
        "        self.judge.used = entries, size\n",
    ),
    _part(
        "values from outside are encodings",
        "an entry that no reader can read stops each consumer",
        "machine.py",
        "            vet(asked)\n",
        "            pass\n",
    ),
    _part(
        "a writer asks for something",
        "a write of nothing is an entry that answers nothing, and that no member can apply",
        "machine.py",
        "        if first < 1 or not count:\n",
        "        if False:\n",
    ),
    _part(
        "readers stay within the spans",
        "a reader is given entries that were let go, and misses that they were",
        "applied_reads.py",
        "        if not span.start <= offset < span.end:\n",
        "        if False:\n",
    ),
    _part(
        "a snapshot has all runs",
        "a member that takes a snapshot lacks entries, and does not know it",
        "parts.py",
        "    if not is_right or end != span.end:\n",
        "    if False:\n",
        _CODEC,
    ),
    _part(
        "runs are in the order of their entries",
        "a snapshot after this one leaves out runs that the other member lacks",
        "parts.py",
        "        is_right = is_right and run.first_offset == end and is_later\n",
        "        is_right = is_right and run.first_offset == end\n",
        _CODEC,
    ),
    _part(
        "cursors are within the log",
        "a consumer waits for ever at an offset that was never there",
        "parts.py",
        "            if partition >= len(ends) or offset > ends[partition]:\n",
        "            if False:\n",
        _CODEC,
    ),
    _part(
        "rows of a snapshot are counted",
        "a snapshot fills the memory of who takes it",
        "parts.py",
        "            if len(set(names)) != len(names) or len(names) > count_max:\n",
        "            if False:\n",
        _CODEC,
    ),
    _part(
        "a snapshot leaves out what both have, and no more",
        "a member is given entries that it has, or not those that it lacks",
        "kept_runs.py",
        "            for run in runs.after(lambda run: run.position.index <= index)\n",
        "            for run in runs.after(lambda run: run.position.index <= index + 1)\n",
        _UNIT,
        _PROGRAMS,
    ),
    _part(
        "outcomes of an entry have no gap",
        "a request is noted as done that the entry says nothing about",
        "log_fields.py",
        "        if not 0 < each.first_request == next_request <= each.last_request:\n",
        "        if False:\n",
        _CODEC,
    ),
    _part(
        "a member applies what it has before a snapshot that leaves it out",
        "entries that it had and had not applied are missing for ever",
        "stores/group/following.py",
        "        effects = self._commit(snapshot.after)\n",
        "        effects = list[Effect]()\n",
        _MEMBER,
        _MODEL,
    ),
    _part(
        "a snapshot leaves out nothing that a member lacks",
        "a member believes that it has what another one has",
        "stores/group/following.py",
        "        if snapshot.after > self._state.journal.end.index:\n",
        "        if False:\n",
        _MEMBER,
    ),
    _part(
        "a shared snapshot is whole for each that takes it",
        "a follower that has less is sent a snapshot that leaves out what it lacks",
        "stores/group/feeding.py",
        "            if is_late and snapshot.after <= common:\n",
        "            if is_late:\n",
        _MEMBER,
    ),
    _part(
        "runs of entries that are cut off go with them",
        "a file cannot take what the new leader appended in their place",
        "stores/disk/log_replica.py",
        "                self._runs.cut(connection, write.keep)\n",
        "",
        _FILE,
    ),
    _part(
        "a run stays while the journal refers to it",
        "a file is refused after a restart, as its journal cannot be read",
        "stores/disk/placed_runs.py",
        "id + count <= ?2 AND entry <= ?3",
        "id + count <= ?2 AND entry <= ?3 + 999",
        _FILE,
    ),
    _part(
        "a run in a file is of its entry",
        "an entry that was cut off is served in the place of one that was acknowledged",
        "stores/disk/placed_runs.py",
        '        if found.position != position or replace(plain, body=b"") != run:\n',
        "        if False:\n",
        _FILE,
    ),
    _part(
        "a file has no run without an entry",
        "what was never committed is served, once the next snapshot leaves it out",
        "stores/disk/log_replica.py",
        "        if _count_runs(later) != self._runs.count_above(connection, applied.index):\n",
        "        if False:\n",
        _FILE,
    ),
    _part(
        "a file has all runs",
        "a log that lacks entries in the middle is served",
        "stores/disk/log_replica.py",
        "            thaw(parts, KeptRuns())\n",
        "            pass\n",
        "tests/stores/disk/test_damage.py",
    ),
]
