"""``peermesh broker``, ``log`` and ``store``: groups whose commands are in many modules."""

from __future__ import annotations

from peermesh.cli.command import lazy_group
from peermesh.cli.index import BROKERS, LOGS, STORES


@lazy_group(BROKERS)
def broker() -> None:
    """Run a broker: a bus of modules, channels for topics, or durable topics over lines."""


@lazy_group(LOGS)
def log() -> None:
    """Keep a replicated log, append to it, and read it.

    NAME is the log's. Its keeper has to be somewhere in the mesh, "peermesh log keep NAME", or a
    group that keeps it, "peermesh log replica NAME". Keys and values are JSON if they can be read
    as JSON, else text; --text makes them text in any case.
    """


@lazy_group(STORES)
def store() -> None:
    """Look into a replicated store, and change it.

    NAME is the store's. Its master has to be somewhere in the mesh: "peermesh node --master NAME",
    or a majority of its replicas: "peermesh node --replica NAME --voters a,b,c".
    Keys and values are JSON if they can be read as JSON, else text; --text makes them text in any
    case, and "-" reads stdin.
    """
