"""Spark: the only package that imports pyspark, and each module of it only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peermesh.names import importer

if TYPE_CHECKING:
    from peermesh.spark.configuration import InvalidGateways
    from peermesh.spark.dead_letters import deadletters
    from peermesh.spark.fingerprints import fingerprint
    from peermesh.spark.ledger import Ledger, Work, upsert_batch
    from peermesh.spark.listener import MeshListener
    from peermesh.spark.parsing import parsed
    from peermesh.spark.reading import DataLoss
    from peermesh.spark.records import JobFenced, ReplayConflict
    from peermesh.spark.source import MeshSource, register

__all__ = [
    "DataLoss",
    "InvalidGateways",
    "JobFenced",
    "Ledger",
    "MeshListener",
    "MeshSource",
    "ReplayConflict",
    "Work",
    "deadletters",
    "fingerprint",
    "parsed",
    "register",
    "upsert_batch",
]

_HOMES = {
    "DataLoss": "peermesh.spark.reading",
    "InvalidGateways": "peermesh.spark.configuration",
    "JobFenced": "peermesh.spark.records",
    "Ledger": "peermesh.spark.ledger",
    "MeshListener": "peermesh.spark.listener",
    "MeshSource": "peermesh.spark.source",
    "ReplayConflict": "peermesh.spark.records",
    "Work": "peermesh.spark.ledger",
    "deadletters": "peermesh.spark.dead_letters",
    "fingerprint": "peermesh.spark.fingerprints",
    "parsed": "peermesh.spark.parsing",
    "register": "peermesh.spark.source",
    "upsert_batch": "peermesh.spark.ledger",
}

__getattr__ = importer(__name__, _HOMES)
