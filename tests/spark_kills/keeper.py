"""A process with a replica of each log and store: ``python -m tests.spark_kills.keeper``.

It is killed and started again on its files, by which it finds its way back into its groups.
"""

from __future__ import annotations

import sys
import threading

from peermesh.blocking import Backend, Endpoint

NAMES = ("a", "b", "c")
PARTITIONS = 3
EVENTS, CLEAN, RESULTS = "events", "clean", "results"


def main(name: str, folder: str, port: str, *peers: str) -> None:
    with Endpoint(name=name) as endpoint:
        endpoint.listen(port=int(port))
        for log in (EVENTS, CLEAN):
            endpoint.attach_log_replica(
                log, voters=NAMES, partitions=PARTITIONS, backend=Backend.SQLite,
                path=f"{folder}/{name}-{log}.db",
            )  # fmt: skip
        endpoint.attach_replica(
            RESULTS, voters=NAMES, backend=Backend.SQLite, path=f"{folder}/{name}-{RESULTS}.db"
        )
        for peer in peers:
            endpoint.peer("127.0.0.1", int(peer), 0.2, timeout=1)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
