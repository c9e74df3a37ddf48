"""The safeguards of secrets: files that are encrypted, and what never appears anywhere."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

SEALED = "tests/stores/backends/test_sealed.py"

SECRETS = [
    Safeguard(
        "no nonce twice",
        "two records under one nonce: both are read, and others are forged",
        "stores/sealing.py",
        "        self._count += 1\n",
        "",
        ("tests/stores/test_sealing.py",),
    ),
    Safeguard(
        "a session's key is of its file",
        "a row is carried from one file to another, with the session that it was sealed in",
        "stores/sealing.py",
        'b"session" + file_id',
        'b"session"',
        ("tests/stores/test_sealing.py",),
    ),
    Safeguard(
        "sessions have salts",
        "every opening of a file begins with the same nonces under the same key",
        "stores/sealing.py",
        'AESGCM(_derive(key.key, salt, b"session"',
        'AESGCM(_derive(key.key, b"", b"session"',
        ("tests/stores/test_sealing.py",),
    ),
    Safeguard(
        "a spent session is followed by another",
        "more is sealed under one key than is safe",
        "stores/backends/sealed.py",
        "        if self._current is None or self._current.is_spent:\n",
        "        if self._current is None:\n",
        (SEALED,),
    ),
    Safeguard(
        "records are sealed for their place",
        "two rows change places: one city has the balance of the other",
        "stores/backends/sealed.py",
        '        return self._head + number.to_bytes(8, "big")\n\n\nclass SealedHead',
        "        return self._head\n\n\nclass SealedHead",
        (SEALED,),
    ),
    Safeguard(
        "marks add up",
        "a row is put back to an earlier version, or left out, and nobody notices",
        "stores/backends/sealed.py",
        "        if list(census) != wanted:\n",
        "        if False:\n",
        (SEALED,),
    ),
    Safeguard(
        "a file belongs to one name",
        "the file of one store is put in the place of another one's",
        "stores/backends/sealed.py",
        'name is not None and self.facts.setdefault("name", name) != name',
        "False",
        (SEALED,),
    ),
    Safeguard(
        "runs without a hole",
        "entries are cut out of a log, and its readers go on behind them",
        "stores/backends/log_sealed.py",
        "        self._check_runs(connection, bounds)\n",
        "",
        (SEALED,),
    ),
    Safeguard(
        "a cleared partition begins another life",
        "runs of before a partition was cleared are put back among those of now",
        "stores/backends/log_sealed.py",
        '_PLACE.pack(b"runs", number, run.count, run.timestamp_ns, life)',
        '_PLACE.pack(b"runs", number, run.count, run.timestamp_ns, b"")',
        (SEALED,),
    ),
    Safeguard(
        "old keys stay until the last record is under the new one",
        "a kill in the middle of changing the key loses the rest of the store",
        "stores/backends/sqlite_sealed.py",
        "                last: int | None = 0\n",
        "                last: int | None = 0\n"
        "                with transaction(connection):\n"
        "                    self._vault.forget_old_keys(connection)\n",
        ("tests/stores/backends/test_rekeying.py",),
    ),
    Safeguard(
        "a plain file is replaced when its copy is complete",
        "a kill in the middle of encrypting a store loses it",
        "stores/backends/rekeying.py",
        "    yield from copying\n",
        "    os.unlink(path)\n    yield from copying\n",
        ("tests/stores/backends/test_rekeying.py",),
    ),
    Safeguard(
        "key files are their owner's alone",
        "everybody on the machine reads the key",
        "stores/backends/store_keys.py",
        "stat.S_IMODE(mode) & 0o077",
        "False",
        ("tests/peermesh/test_cli_keys.py",),
    ),
    Safeguard(
        "keys are not printed",
        "a key of stores is in a log, as part of what was printed there",
        "stores/sealing.py",
        "    key: bytes = field(repr=False)\n",
        "    key: bytes\n",
        ("tests/secrecy/test_complete.py",),
    ),
    Safeguard(
        "Spark's settings are printed without the token",
        "a notebook that shows its settings shows the token",
        "peermesh/spark/configuration.py",
        '"*********(redacted)" if re.search(_REDACTION, key) else value',
        "value",
        ("tests/secrecy/test_places.py::test_no_secret_is_to_be_seen[settings_of_spark]",),
    ),
    Safeguard(
        "an audit that saw nothing is no good news where one is required",
        "a release is built on a package with a known fault, as nobody was there to tell",
        "tests/audit/verdict.py",
        "        return not is_required\n",
        "        return True\n",
        ("tests/audit/test_audit.py",),
    ),
]
