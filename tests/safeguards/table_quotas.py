"""Safeguards of quotas: what is counted, refused, let through, and told."""

from __future__ import annotations

from typing import Final

from tests.safeguards.safeguard import Safeguard

_STORES: Final = "tests/stores/test_quota.py"
_LOGS: Final = "tests/stores/log/test_log_machine.py"
_UPLOADS: Final = "tests/peermesh/gateways/webhdfs/test_quotas.py"
_MEMORY: Final = "tests/endpoint/replicas/test_freed_memory.py"
_BROKER: Final = "tests/peermesh/brokers/qos2/test_broker.py"
_LOADED: Final = (
    "tests/stores/disk/test_sqlite.py::test_a_store_that_was_loaded_knows_how_many_bytes_it_has"
)

QUOTAS = [
    Safeguard(
        "quota: a store's bytes are counted",
        "a store that is written over and over seems full, or never does",
        "stores/table/table.py",
        "            self.size += _growth(keys, values, replaced)\n",
        "            self.size += sum(map(len, values))\n",
        (_STORES,),
    ),
    Safeguard(
        "quota: erasing makes room",
        "a full store stays full, whatever is erased",
        "stores/table/table.py",
        "            self.size -= len(key) + len(before)\n",
        "",
        (_STORES,),
    ),
    Safeguard(
        "quota: runs of puts are looked at",
        "a writer fills the memory of a master",
        "stores/judgement.py",
        "    if isinstance(request, PutCommand) and _fits(request.pairs, table, meter):\n",
        "    if isinstance(request, PutCommand):\n",
        (_STORES,),
    ),
    Safeguard(
        "quota: single puts and additions are looked at",
        "a writer that adds one after the other fills the memory of a master",
        "stores/judgement.py",
        "            if not meter.holds(len(table) + 1, size):  # If it is new: what replaces adds less.\n",
        "            if False:\n",
        (_STORES,),
    ),
    Safeguard(
        "quota: batches are looked at",
        "a writer of batches fills the memory of a master",
        "stores/judgement.py",
        "            _take_room(changes, table, _room(table, meter))  # Not all of it is new, perhaps.\n",
        "            pass\n",
        (_STORES,),
    ),
    Safeguard(
        "quota: put_unique is looked at",
        "a writer of new keys fills the memory of a master",
        "stores/judgement.py",
        "        room.replace(key, None, request.value)\n",
        "        pass\n",
        (_STORES,),
    ),
    Safeguard(
        "quota: what gets no larger is done",
        "a store beyond its quota cannot be cleaned up",
        "stores/quota.py",
        "size > max(quota.max_bytes, self._size)",
        "size > quota.max_bytes",
        (_STORES,),
    ),
    Safeguard(
        "quota: events do not flap",
        "a store at its limit tells of it with every write",
        "stores/quota.py",
        "                self._relieved_share = min(RELIEVED_SHARE, share * _SHRUNK_SHARE)\n",
        "                self._relieved_share = RELIEVED_SHARE\n",
        (_STORES,),
    ),
    Safeguard(
        "quota: there is one without other word",
        "a store that was made without thought of it has no limit",
        "stores/quota.py",
        "STORE_QUOTA: Final = Quota(ENTRIES_DEFAULT, BYTES_DEFAULT)\n",
        "STORE_QUOTA: Final = Quota()\n",
        ("tests/endpoint/replicas/test_quotas.py::test_a_store_that_says_nothing_has_a_quota",),
    ),
    Safeguard(
        "quota: a file's content counts",
        "a master that was started again takes as much once more",
        "stores/disk/table_state.py",
        "        columns.measure()\n",
        "",
        (_LOADED,),
    ),
    Safeguard(
        "quota: appends are looked at",
        "a writer fills the memory or the disk of a log's keeper",
        "stores/log/judge.py",
        "        room.take(count, added)\n",
        "",
        (_LOGS,),
    ),
    Safeguard(
        "quota: what is on its way to a log's disk counts",
        "a slow disk lets a log grow beyond its quota",
        "stores/log/machine.py",
        "        staged.count_used(*self._used)\n",
        "",
        (_LOGS,),
    ),
    Safeguard(
        "quota: trimming makes room in a log",
        "a full log stays full",
        "stores/log/machine.py",
        "            self._runs.trim(number, partition.start)\n"
        "        self._count(before, self.partitions.used(touched))\n",
        "            self._runs.trim(number, partition.start)\n",
        (_LOGS,),
    ),
    Safeguard(
        "WebHDFS: unfinished uploads have a budget",
        "clients that never end fill the store, and others cannot end",
        "peermesh/gateways/webhdfs/uploads.py",
        "        if missing > sum(self._taken[each] for each in ended):\n",
        "        if False:\n",
        (_UPLOADS,),
    ),
    Safeguard(
        "WebHDFS: uploads that stall make room for others",
        "two clients that stop in the middle shut out all others for as long as they like",
        "peermesh/gateways/webhdfs/uploads.py",
        "            if missing <= 0 or now - each.waits_since < STALLED_SECONDS:\n",
        "            if True:\n",
        (_UPLOADS,),
    ),
    Safeguard(
        "WebHDFS: uploads whose room is given to others end",
        "what stalled goes on beside those that have its room, and together they fill the store",
        "peermesh/gateways/webhdfs/uploads.py",
        "            each.stop()\n",
        "            pass\n",
        ("tests/peermesh/gateways/webhdfs/test_service.py",),
    ),
    Safeguard(
        "WebHDFS: small files need no room among uploads",
        "large uploads shut out the small files of a checkpoint",
        "peermesh/gateways/webhdfs/uploads.py",
        "        if length <= CHUNK_SIZE:\n",
        "        if False:\n",
        (_UPLOADS,),
    ),
    Safeguard(
        "WebHDFS: uploads that end give their budget back",
        "after some uploads none is taken any more",
        "peermesh/gateways/webhdfs/service.py",
        "            self.uploads.give_back(upload)\n",
        "            pass\n",
        (_UPLOADS,),
    ),
    Safeguard(
        "freed memory is given back",
        "a process keeps the memory of large values for as long as it lives",
        "endpoint/replicas/runner.py",
        "                self.start_task(give_back)\n",
        "                pass\n",
        (_MEMORY,),
    ),
    Safeguard(
        "memory is given back once it is not used again",
        "a store that is emptied and filled again and again stops the process each time",
        "endpoint/replicas/freed_memory.py",
        "        if self._ticks < TRIM_TICKS:\n",
        "        if False:\n",
        (_MEMORY,),
    ),
    Safeguard(
        "quota: topics of a broker are counted together",
        "a publisher of many topics fills the disk of a broker",
        "peermesh/brokers/qos2/shelf.py",
        "                log.part.share_quota(self._pool)\n",
        "                pass\n",
        (_BROKER + "::test_beyond_its_quota_a_broker_takes_nothing_and_delivers_on",),
    ),
    Safeguard(
        "quota: publishers try again when a broker is full",
        "a message that a broker has no room for now is lost",
        "peermesh/brokers/qos2/client.py",
        "UNFINISHED, QUOTA_EXCEEDED, TOPIC",
        "UNFINISHED, TOPIC",
        (_BROKER + "::test_a_publisher_tries_again_until_there_is_room",),
    ),
]
