"""What keeps the promises of a log's replica beside its machine: each line can be switched off."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_CORE = "tests/stores/replica/test_log_core.py"
_FOLDER = "tests/endpoint/replicas/group_logs"
_RIGHTS = f"{_FOLDER}/test_replica_log_rights.py"
_LOGS = f"{_FOLDER}/test_replica_logs.py"
_PROMOTION = "tests/endpoint/replicas/logs/test_log_promotion.py"
_ANEW = "tests/endpoint/replicas/logs/test_log_anew.py"
_OUTSIDE = "tests/stores/replica/test_log_outside.py"


def _part(name: str, why: str, file: str, text: str, replacement: str, *tests: str) -> Safeguard:
    return Safeguard(f"log replica: {name}", why, file, text, replacement, tests or (_CORE,))


LOG_REPLICAS = [
    _part(
        "a consumer knows which log it has read",
        "after a restart of a keeper in memory a consumer passes over the first entries, silently",
        "endpoint/replicas/logs/log_reading.py",
        "    return any(each.group not in (None, group) for each in seen)\n",
        "    return False\n",
        _ANEW,
    ),
    _part(
        "nothing is committed of a log that is gone",
        "after a restart of a keeper in memory all consumers of a name pass over its first entries",
        "endpoint/replicas/logs/log_consumer.py",
        "        if is_of_another(self._seen_at(self._positions), self._source.group):\n",
        "        if False:\n",
        _ANEW,
    ),
    _part(
        "a cursor under way is none of the next log",
        "a commit that waits for a keeper has consumers pass over the first entries of another log",
        "stores/replica/logs/outbox.py",
        "            parcel.requests = [*map(_outdated, parcel.requests)]\n",
        "",
        "tests/stores/replica/test_outbox.py",
    ),
    _part(
        "runs after a bookmark are of its log",
        "a program that keeps offsets reads on in the middle of another log",
        "endpoint/replicas/logs/log_handle.py",
        "        if is_of_another(seen, batch.group):\n            raise await self._another_log(places)\n",
        "",
        _ANEW,
    ),
    _part(
        "no endpoint asks in another's name",
        "an endpoint uses up the request numbers of another endpoint",
        "stores/log/bodies.py",
        "    if writer is not None and writer.entity.endpoint != sender:\n",
        "    if False:\n",
    ),
    _part(
        "outside of the group no rule is set",
        "an endpoint that is no member has entries of all others let go",
        "stores/replica/logs/readers.py",
        '                raise DecodeError(f"a proxy asks for a {type(request).__name__}: only members do")\n',
        "                return []\n",
    ),
    _part(
        "a parcel that was sent stays as it is",
        "what is sent again is another request than the ledger knows",
        "stores/replica/asked/outbox.py",
        "        if latest.was_sent or is_full:\n",
        "        if is_full:\n",
    ),
    _part(
        "a reader of lost entries is told",
        "a consumer passes over entries, as others had their offsets before the lead was forced",
        "stores/log/applied_reads.py",
        "            if (cut := self._lineage.cut(position)) is not None:\n",
        "            if (cut := self._lineage.cut(position)) is not None and False:\n",
        *("tests/stores/log/test_log_machine.py", _PROMOTION),
    ),
    _part(
        "a reader behind the end is told",
        "a consumer waits without a word for entries that were lost",
        "stores/log/applied_reads.py",
        "            if is_current:\n",
        "            if False:\n",
        *("tests/stores/log/test_log_machine.py", _PROMOTION),
    ),
    _part(
        "a copy that is behind asks before it says so",
        "a consumer is told that entries are lost which a copy has not got yet",
        "endpoint/replicas/logs/part.py",
        "is_current = self._machine.is_ahead(positions) and await self._is_current(deadline)",
        "is_current = self._machine.is_ahead(positions)",
        _PROMOTION,
    ),
    _part(
        "a closed log takes nothing on",
        "what is asked of a closed log waits for ever",
        "stores/replica/logs/outbox.py",
        "        self.requests.serve(_refuse)\n",
        "        pass\n",
    ),
    _part(
        "receipts wait until readers see what they are about",
        "who appended reads at once, and does not find it",
        "stores/replica/logs/core.py",
        "        return self.machine.has_done(self.outbox.writer, outcome.last_request)\n",
        "        return True\n",
    ),
    _part(
        "roles stand before it",
        "what may read appends, and says what all keep",
        "endpoint/replicas/runner.py",
        "        guard = self.guarding.guard(sender)\n",
        "        guard = None\n",
        _RIGHTS,
    ),
    _part(
        "a log has a keeper or a group",
        "two logs of one name take appends, and each has some of them",
        "endpoint/mesh/reach.py",
        "        return self._has_group(name, log_group_topic(name), (keeper, follower))\n",
        "        return False\n",
        _LOGS,
    ),
    _part(
        "no group beside a keeper",
        "two logs of one name take appends, and each has some of them",
        "endpoint/replicas/attachments.py",
        "        if where is not None:\n"
        "            raise MasterExists(\n"
        '                f"{self._kind} {name} has its {leader} at endpoint {where}, and no group"\n',
        "        if False:\n"
        "            raise MasterExists(\n"
        '                f"{self._kind} {name} has its {leader} at endpoint {where}, and no group"\n',
        _LOGS,
    ),
    _part(
        "a proxy's fetches wait, and so many",
        "proxies make a leader keep as much as they like",
        "stores/replica/logs/readers.py",
        "                elif ticks and len(self._fetches) < FETCHES_MAX:\n",
        "                elif ticks >= 1:\n",
        _OUTSIDE,
    ),
    _part(
        "a limit to what is read for proxies at a time",
        "proxies fill the memory of a leader with what its disk gives",
        "stores/replica/logs/readers.py",
        "        if len(self._reading) >= READS_MAX:\n",
        "        if False:\n",
        _OUTSIDE,
    ),
    _part(
        "what a proxy asks again is not read again meanwhile",
        "a slow disk is asked for the same again and again",
        "stores/replica/logs/readers.py",
        "            if key in self._fetches or key in self._reading:\n",
        "            if key in self._fetches:\n",
        _OUTSIDE,
    ),
    _part(
        "what waits for a proxy goes with its endpoint",
        "answers are kept for endpoints that are gone",
        "stores/replica/logs/readers.py",
        "            del self._fetches[key]\n        self._reading",
        "            pass\n        self._reading",
        _OUTSIDE,
    ),
    _part(
        "proxies take answers of their leader alone",
        "a replica that is behind answers, and a reader misses what is there",
        "stores/replica/logs/outside.py",
        "        if sender == self.leader and isinstance(answer, Answer):\n",
        "        if isinstance(answer, Answer):\n",
        _OUTSIDE,
    ),
    _part(
        "proxies ask a new leader at once",
        "a reader waits for seconds after each fail-over",
        "stores/replica/logs/outside.py",
        "        self._questions.ask_again()\n",
        "        pass\n",
        _OUTSIDE,
    ),
    _part(
        "answers to proxies of logs are taken of voters alone",
        "a reader answers in the place of the log's leader",
        "handshake/roles.py",
        "        if topic.endswith((PROXY_SUFFIX, READER_SUFFIX)):\n",
        "        if topic.endswith(PROXY_SUFFIX):\n",
        "tests/handshake/test_roles.py",
    ),
    _part(
        "the file of a copy leads nothing unasked",
        "a script that knows nothing of a promotion makes a second log of one name",
        "endpoint/replicas/logs/attachments.py",
        "        if wanted.leads_alone and leads is False:\n",
        "        if False:\n",
        "tests/endpoint/replicas/logs/test_logs.py::test_the_file_of_a_copy_takes_over",
    ),
    _part(
        "the file of a keeper follows nothing",
        "the one copy of what was acknowledged leads on where a follower is asked for",
        "endpoint/replicas/logs/attachments.py",
        "        if not wanted.leads_alone and leads:\n",
        "        if False:\n",
        "tests/endpoint/replicas/logs/test_logs.py::test_a_file_is_a_keepers_or_a_followers",
    ),
    _part(
        "a log keeps its partitions",
        "entries of one key are in two partitions",
        "endpoint/replicas/logs/attachments.py",
        "        if partitions not in (None, count):\n",
        "        if False:\n",
        "tests/endpoint/replicas/logs/test_logs.py::test_partitions_stay_as_they_were",
    ),
    _part(
        "entries bear the time at which they were taken",
        "two entries a moment apart cannot be told apart by time",
        "stores/replica/logs/core.py",
        "            self.member.run_to(Moment(self._world.monotonic_ns(), self._world.now_ns()))\n",
        "            pass\n",
        "tests/endpoint/replicas/logs/test_logs.py::test_offsets_are_found_by_time",
    ),
    _part(
        "what is small follows the journal into the file",
        "a restart applies all entries since the first one, however many they are",
        "endpoint/replicas/logs/files.py",
        "        self._rows.checkpoint(rows)\n",
        "        pass\n",
        "tests/stores/replica/test_log_books.py",
    ),
    _part(
        "a checkpoint is of what the disk has",
        "after a crash a file has a state that its journal does not lead to, and is refused",
        "stores/replica/logs/books.py",
        "        if not is_due or self._books is not None or journal.durable < commit:\n",
        "        if not is_due or self._books is not None:\n",
        "tests/stores/replica/test_log_books.py",
    ),
    _part(
        "a disk that is stuck is one that does not end a write",
        "a leader that writes all the time hands over once a second",
        "stores/group/leading.py",
        "        self._write_ticks = self._write_ticks + 1 if is_same else 0\n",
        "        self._write_ticks = self._write_ticks + 1 if self._writing is not None else 0\n",
        "tests/stores/group/test_member.py",
    ),
]
