"""The safeguards of files: what is damaged is noticed, and an upgrade loses nothing."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

DAMAGE = "tests/stores/disk/test_damage.py"
LOG_DAMAGE = "tests/endpoint/replicas/logs/test_log_damage.py"
UPGRADE = "tests/stores/disk/test_log_upgrade.py"
FORMATS = "tests/fixtures/test_formats.py"
REKEYING = "tests/stores/disk/test_rekeying.py"
PROMOTED = "tests/endpoint/replicas/stores/test_promoted_files.py"

DISK = [
    Safeguard(
        "checksums of a log's rows",
        "a flipped bit on the disk is served to consumers, and copied by followers",
        "stores/disk/rows.py",
        '        if crc32(content, crc32(place)).to_bytes(_CHECKSUM_SIZE, "big") != record',
        '        if False and crc32(content, crc32(place)).to_bytes(_CHECKSUM_SIZE, "big") != record',
        (DAMAGE,),
    ),
    Safeguard(
        "checksums of the heads of runs",
        "a time that a flipped bit made is that of all later entries, and retention goes by it",
        "stores/disk/placed_runs.py",
        "        if crc32(place) != head:\n",
        "        if False:\n",
        ("tests/stores/disk/test_log_replica.py",),
    ),
    Safeguard(
        "a run that is missing at the beginning",
        "entries that were not trimmed are gone, and their readers go on behind them",
        "stores/log/parts.py",
        "            if not run.first_offset <= self._span.start < run.end:\n",
        "            if False:\n",
        (LOG_DAMAGE,),
    ),
    Safeguard(
        "the witness of a write-ahead log",
        "damage in its middle takes back what was acknowledged, and offsets come again",
        "stores/disk/sqlite.py",
        "        if witness.lost_commits(frame_count) > 1:\n",
        "        if False:\n",
        (DAMAGE, LOG_DAMAGE),
    ),
    Safeguard(
        "a write-ahead log that its owner moved meanwhile",
        "a file that is handed over from one process to the next is told to be damaged",
        "stores/disk/sqlite.py",
        "            witness = LogWitness() if is_moved(log) else read_witness(log, page_size)\n",
        "            witness = read_witness(log, page_size)\n",
        ("tests/stores/disk/test_ownership.py",),
    ),
    Safeguard(
        "a damaged write-ahead log stays",
        "a start that is refused removes what was written behind the damage, and with it the proof",
        "stores/disk/sqlite.py",
        "            self._keeps_log = True\n",
        "            pass\n",
        (DAMAGE,),
    ),
    Safeguard(
        "a write-ahead log without its database stays",
        "a start with the file elsewhere removes the log, and all that was acknowledged last",
        "stores/disk/sqlite.py",
        "            self._check_begun(log)\n",
        "",
        (DAMAGE,),
    ),
    Safeguard(
        "a write-ahead log that begins anew",
        "who is killed as the log begins anew is told to be damaged, and not to be used",
        "stores/disk/wal.py",
        "    salts = header[16:24] if _is_whole(header) else first_salts\n",
        "    salts = header[16:24] if header[16:24] in commits else first_salts\n",
        (DAMAGE,),
    ),
    Safeguard(
        "a file that was replaced in use",
        "what is acknowledged goes into a file that has no name, and its log into another one",
        "stores/disk/sqlite.py",
        "            if (found := identity(self.place)) != self._identity:\n",
        "            if (found := identity(self.place)) is None:\n",
        ("tests/stores/disk/test_removed_files.py",),
    ),
    Safeguard(
        "a log that was read is written into its file",
        "what only the system's memory has is taken for durable, and what follows rests on it",
        "stores/disk/sqlite.py",
        '                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()\n',
        "",
        (LOG_DAMAGE,),
    ),
    Safeguard(
        "a file that was refused is locked no longer",
        "what is caught with the error keeps the file from being mended, and opened again",
        "stores/disk/sqlite.py",
        "            traceback.clear_frames(failure.__traceback__)\n",
        "            pass\n",
        ("tests/stores/disk/test_ownership.py",),
    ),
    Safeguard(
        "room is asked for before an upgrade",
        "the upgrade of a log fills the disk, and whatever else writes to it fails",
        "stores/disk/sqlite.py",
        "        if free < needed:\n",
        "        if False:\n",
        (UPGRADE,),
    ),
    Safeguard(
        "an upgrade keeps the file as it was",
        "there is no way back to the release before",
        "stores/disk/sqlite.py",
        "                    self._keep_copy(connection)\n",
        "                    pass\n",
        (UPGRADE, FORMATS),
    ),
    Safeguard(
        "runs are checked before they get a checksum",
        "an upgrade vouches for what was damaged before it",
        "stores/disk/log_upgrade.py",
        "                    Run(number, offset, count, timestamp, body).entries()\n",
        "",
        (UPGRADE,),
    ),
    Safeguard(
        "a plain file is locked until its copy has its place",
        "a master that starts while its file is encrypted acknowledges what is gone a moment later",
        "stores/disk/rekeying.py",
        "    _let_go_of_log(plain)\n",
        "    _let_go_of_log(plain)\n    plain.close()\n",
        (REKEYING,),
    ),
    Safeguard(
        "a plain file gives its log up before its copy has its place",
        "an owner that opened the plain file a moment before writes its log beside the sealed one",
        "stores/disk/rekeying.py",
        "    _let_go_of_log(plain)\n",
        "    pass\n",
        (REKEYING,),
    ),
    Safeguard(
        "only the file that was copied is replaced",
        "what a person puts in its place while it is encrypted is overwritten",
        "stores/disk/rekeying.py",
        "    if place is None or now is None or not os.path.samestat(place, now):\n",
        "    if False:\n",
        (REKEYING,),
    ),
    Safeguard(
        "a promoted file is of a group once it has all",
        "a master of a file whose promotion was killed leads an empty store",
        "endpoint/replicas/stores/files.py",
        "        slices, beside = installed(snapshot)\n        write =",
        "        self._rows.join(group)\n        slices, beside = installed(snapshot)\n        write =",
        (PROMOTED,),
    ),
    Safeguard(
        "a promotion that fails leaves no file",
        "a promotion that is tried again is refused, as there is a store in its file",
        "endpoint/replicas/stores/files.py",
        "        except BackendFailure as error:\n            self.remove()\n",
        "        except BackendFailure as error:\n",
        (PROMOTED,),
    ),
    Safeguard(
        "a file that was to be filled leads nothing",
        "a master of a file whose promotion was killed leads an empty store, in a late term",
        "endpoint/replicas/files.py",
        "            if not is_filled:\n",
        "            if False:\n",
        (PROMOTED,),
    ),
]
