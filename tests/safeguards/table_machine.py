"""What keeps the promises of a replica group's table: each line can be switched off."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_UNIT = "tests/stores/table/test_machine.py"
_ONCE = "tests/stores/test_exactly_once.py"
_PROGRAMS = "tests/stores/table/test_machine_property.py"
_WATCHES = "tests/stores/table/test_table_watches.py"
_PINS = "tests/stores/table/test_pins.py"
_CODEC = "tests/stores/table/test_table_codec.py"
_RECOGNITION = "tests/stores/table/test_recognition.py"
_MODEL = "tests/stores/table/test_group_of_tables.py"


def _part(name: str, why: str, file: str, text: str, replacement: str, *tests: str) -> Safeguard:
    return Safeguard(
        f"table: {name}", why, f"stores/table/{file}", text, replacement, tests or (_UNIT,)
    )


MACHINE = [
    _part(
        "readers look past what is staged",
        "a reader acts on a value that no majority has",
        "overlay.py",
        "            return None if entry is None else entry.value\n        return layer.table.columns.values.get(key)\n",
        "            pass\n        return layer.table.columns.values.get(key)\n",
    ),
    _part(
        "a lost lead takes back what it did",
        "a deposed leader shows, and later leads with, what was never committed",
        "overlay.py",
        "            layer.table.restore(layer.past, self.revision)\n",
        "            pass\n",
    ),
    _part(
        "an entry under a later staged one is what it was",
        "readers skip a committed value, and an undo brings back an older one",
        "overlay.py",
        "            past.update((key, entry) for key, entry in made if key in later)\n",
        "            pass\n",
        _UNIT,
        _PROGRAMS,
    ),
    _part(
        "a staged clear leaves readers their table",
        "a clear that is never committed empties the store for its readers",
        "overlay.py",
        "            self._layers.append(Layer(Table(revision=table.revision + 1)))\n            return\n",
        "            layer.table = Table(revision=table.revision + 1)\n            return\n",
    ),
    _part(
        "increments are judged by what is staged",
        "two increments under way at a time count as one",
        "machine.py",
        "            table = overlay.unfinished if is_blind else overlay.latest()\n",
        "            table = overlay.unfinished\n",
    ),
    _part(
        "requests of one write are judged by those before them",
        "two increments that travel together count as one",
        "machine.py",
        "            if len(requests) > 1:  # Those after it are judged with it.\n",
        "            if False:\n",
    ),
    _part(
        "what is judged and staged in one is staged once",
        "an increment that travels with others is done twice",
        "machine.py",
        "                if body is not self._judged:\n",
        "                if True:\n",
    ),
    _part(
        "requests of one write have no gap",
        "what a writer asked in between is refused as done",
        "bodies.py",
        "            if last and (asked[0] != last + 1 or request.writer != requests[0].writer):\n",
        "            if False:\n",
    ),
    _part(
        "a quota counts what waits in the queue",
        "puts under way at a time pass a full quota",
        "machine.py",
        "            return self.meter.holds(entries + len(request.pairs) // 2, size + PAYLOAD_SIZE_MAX)\n",
        "            return True\n",
    ),
    _part(
        "a quota that is lost holds no more",
        "a member judges by a quota that no other member knows",
        "machine.py",
        "            self._staged_quotas = 0\n            self.meter.replace(self._quota)\n",
        "            self._staged_quotas = 0\n",
    ),
    _part(
        "appointments come back with an undo",
        "a key never expires, once a leader was deposed at the wrong moment",
        "lifetimes.py",
        "            if (expires_at_ns := expiries.get(key)) is not None:\n",
        "            if False:\n",
    ),
    _part(
        "nothing expires below a staged clear",
        "keys that come back when the clear is lost never expire",
        "lifetimes.py",
        "        if overlay.has_clear:\n",
        "        if False:\n",
    ),
    _part(
        "a request that is staged is not done again",
        "what is repeated before its commit is done twice",
        "writers.py",
        "        last_request = staged[-1][0] if staged else record.last_request\n",
        "        last_request = record.last_request\n",
        _ONCE,
    ),
    _part(
        "requests are done in order",
        "a request that was lost on the way is taken for one that was done",
        "writers.py",
        "            return None if is_next else Answer(OutOfOrder(last_request + 1))\n",
        "            return None\n",
        _ONCE,
    ),
    _part(
        "a number is of one registration",
        "late copies of an evicted writer's requests are done again",
        "writers.py",
        "        if record is None or record.number != number or is_leaving:\n",
        "        if record is None or is_leaving:\n",
        _ONCE,
    ),
    _part(
        "a staged eviction counts",
        "a request is appended after its writer's eviction, and has no record to be noted in",
        "writers.py",
        "        is_leaving = writer in self._evicting or writer in self._registering\n",
        "        is_leaving = False\n",
        _ONCE,
    ),
    _part(
        "the writer that was idle longest makes room",
        "a writer at work is evicted",
        "writers.py",
        "        record = self._records.pop(writer)\n        self._records[writer] = record\n",
        "        record = self._records[writer]\n",
        _ONCE,
    ),
    _part(
        "outcomes of all writers are limited",
        "writers that never listen fill the memory of every member",
        "writers.py",
        "        while self._outcome_count > LEDGER_OUTCOMES_MAX:\n",
        "        while False:\n",
    ),
    _part(
        "a snapshot has what is committed",
        "a member that takes a snapshot has what was never committed",
        "state.py",
        "        return Frozen(head, overlay.committed.columns, overlay.past, small)\n",
        "        return Frozen(head, overlay.committed.columns, {}, small)\n",
        _PROGRAMS,
        _MODEL,
    ),
    _part(
        "a snapshot is counted",
        "a part that is missing or comes twice passes for the whole",
        "parts.py",
        "    if len(columns) != head.entry_count or len(columns.revisions) != head.entry_count:\n",
        "    if False:\n",
        _CODEC,
    ),
    _part(
        "a comparison is of what is committed",
        "members that are equal are told to differ",
        "machine.py",
        "                table.walk = walk = DigestWalk(table.columns, overlay.revision, overlay.past)\n",
        "                table.walk = walk = DigestWalk(table.columns, overlay.revision)\n",
    ),
    _part(
        "a bookmark is of this history",
        "a watch goes on from commits that were lost, and believes what never was",
        "reads.py",
        "        lost = None if standing is Standing.KNOWN else standing.value\n",
        "        lost = None\n",
        _WATCHES,
    ),
    _part(
        "a watch waits for a member that is behind",
        "a watch that moves to a slower member is told what it knows, or of a gap",
        "reads.py",
        "        if standing is Standing.AHEAD:\n            return None\n",
        "",
        _WATCHES,
    ),
    _part(
        "a lead by force skips revisions",
        "compare and set is done over a value that was not read, as a lost one had its revision",
        "machine.py",
        "    return last > 0 and is_forced(term, last)\n",
        "    return False\n",
    ),
    _part(
        "a pinned revision remembers",
        "pages of one scan are of several moments",
        "machine.py",
        "        if self._pins:\n            self._remember(action)\n",
        "",
        _PINS,
    ),
    _part(
        "a first page keeps its revision for the next ones",
        "a reader of a store that is written to gets no second page",
        "reads.py",
        "        if revision == LATEST and (page.continuation is not None or step > 1):\n",
        "        if False:\n",
        _PINS,
    ),
    _part(
        "readers under way keep their revision",
        "a reader that is under way loses its revision to new readers",
        "pins.py",
        "        self._drop(max(self._pins, key=lambda revision: self._pins[revision].idle_ticks))\n",
        "        self._drop(next(iter(self._pins)))\n",
        _PINS,
    ),
    _part(
        "what pins remember is limited",
        "a reader that pauses has the memory of a busy store grow",
        "pins.py",
        "        while self._size > PINS_SIZE_MAX:\n",
        "        while False:\n",
        _PINS,
    ),
    _part(
        "entries hold results alone",
        "members decide for themselves what an entry means, and differ",
        "codec.py",
        "    if not isinstance(action, _Result):\n",
        "    if False:\n",
        _CODEC,
    ),
    _part(
        "an entry has one writer",
        "an outcome is noted for another writer than the one that asked",
        "codec.py",
        "    if len(actions) > 1 and len({action.writer for action in actions}) != 1:\n",
        "    if False:\n",
        _CODEC,
    ),
    _part(
        "what comes back is known by all of its bytes",
        "a replica applies what it asked for, and the others what the leader says",
        "recognition.py",
        "        if found is None or found.encoded != encoded:\n",
        "        if found is None:\n",
        _RECOGNITION,
    ),
    _part(
        "a proxy keeps nothing of what it asks",
        "each proxy holds 256 parcels in memory for an entry that never comes",
        "recognition.py",
        "        if self._expected is None or not write.requests:\n            return False\n",
        "        if self._expected is None:\n            self._expected = {}\n",
        _RECOGNITION,
    ),
]
