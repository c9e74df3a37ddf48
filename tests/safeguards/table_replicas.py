"""The safeguards of a replica's files: its ballot, its journal, and rows that follow lazily."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

BALLOT = ("tests/stores/disk/test_ballot_file.py",)

REPLICAS = [
    Safeguard(
        "ballot: a promise is synced before it counts",
        "after a power cut a member votes again in a term in which it has voted",
        "stores/disk/ballot.py",
        "                self._write(number % PROMISE_SLOTS, _promise_record(number, group, promises))\n                self._medium.sync()\n",
        "                self._write(number % PROMISE_SLOTS, _promise_record(number, group, promises))\n",
        BALLOT,
    ),
    Safeguard(
        "ballot: promises are written in turn",
        "a power cut tears the only promise that there is",
        "stores/disk/ballot.py",
        "self._write(number % PROMISE_SLOTS, ",
        "self._write(0, ",
        BALLOT,
    ),
    Safeguard(
        "ballot: every record stands twice",
        "a damaged block takes back a vote, and the vote before it counts",
        "stores/disk/ballot.py",
        "        for copy in range(COPIES):\n",
        "        for copy in range(1):\n",
        BALLOT,
    ),
    Safeguard(
        "ballot: a record is of its slot",
        "blocks that changed places are read as what they are not",
        "stores/disk/ballot.py",
        "        if (magic, where) != (_MAGIC, slot):\n",
        "        if magic != _MAGIC:\n",
        BALLOT,
    ),
    Safeguard(
        "ballot: checksums",
        "a flipped bit makes another vote",
        "stores/disk/ballot.py",
        "            return _checksum(block[:-_CHECKSUM_SIZE]) == block[-_CHECKSUM_SIZE:]\n",
        "            return True\n",
        BALLOT,
    ),
    Safeguard(
        "ballot: MACs of sealed stores",
        "without the key a vote is altered so that its member votes twice",
        "stores/disk/ballot.py",
        "        return any(hmac.compare_digest(_mac(key, body), mac) for key in self._keys)\n",
        "        return True\n",
        BALLOT,
    ),
    Safeguard(
        "ballot: what is read is written anew",
        "a promise that only the system's memory has counts, and is gone with the power",
        "stores/disk/ballot.py",
        "        self._replace(slots)\n        return LoadedBallot(self._group",
        "        return LoadedBallot(self._group",
        BALLOT,
    ),
    Safeguard(
        "ballot: nothing is promised after a sync that failed",
        "the next sync succeeds, as the system tells of lost pages once, and the promise is gone",
        "stores/disk/ballot.py",
        "        if self._failure is not None:\n            raise self._failure\n",
        "        pass\n",
        BALLOT,
    ),
    Safeguard(
        "ballot: a mark that cannot be read stays so",
        "a regressed member passes for whole after it was opened twice",
        "stores/disk/ballot.py",
        "                blocks.append(bytes(SLOT_SIZE))\n",
        "                blocks.append(self._block(at, [0, 0, 0]) * COPIES)\n",
        BALLOT,
    ),
]
