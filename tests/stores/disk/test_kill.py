"""A real process with a durable master is killed for good: what it acknowledged is there."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from stores.disk.table import SQLiteBackend
from wire.decoding import decode
from wire.encoding import encode

PROGRAM = """
import sys

from stores.disk.table import SQLiteBackend
from stores.effects import Persist, Resolve
from stores.master import Master
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

backend = SQLiteBackend(sys.argv[1])
entity = EntityId(EndpointId(bytes(16)), 1)
master = Master(entity, backend.load(epoch_min=1), is_durable=True)
effects = []
for number in range(1_000_000):
    # Each put has a twin: they are asked for together, and may only be found together.
    for name in ("one", "two"):
        master.requests.put(encode((name, number)), encode(number))
    effects += master.flush(0)
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Persist):
            backend.commit(effect.changes)
            effects += master.persisted(effect.token)
        elif isinstance(effect, Resolve):
            print(effect.outcome.last_request, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 2, 50, 333])
def test_what_was_acknowledged_survives_the_kill(tmp_path, lines):
    path = tmp_path / "store.db"
    arguments = [sys.executable, "-c", PROGRAM, str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    backend = SQLiteBackend(path, is_integrity_checked=True)
    loaded = backend.load(epoch_min=1)
    backend.close()
    assert acknowledged == [2 * number for number in range(1, lines + 1)]
    assert loaded.revision >= acknowledged[-1]
    assert loaded.revision == len(loaded.columns)
    for number in range(loaded.revision // 2):
        for name in ("one", "two"):
            value = loaded.columns.values[encode((name, number))]
            assert decode(value) == number
    assert loaded.epoch == 2
