"""Answers in the words of WebHDFS, as Hadoop's client reads them.

No answer has a ``Content-Type``: the client that comes with Hadoop 3.5.0 cannot read one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from peermesh.gateways.refusals import Refusal
from peermesh.gateways.webhdfs.nodes import Node
from peermesh.gateways.webhdfs.requests import BLOCK_SIZE


def _body(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def file_status(node: Node, child_count: int) -> bytes:
    """Answer GETFILESTATUS."""
    return _body({"FileStatus": _status(node, "", child_count)})


def file_statuses(entries: Iterable[tuple[str, Node, int]]) -> bytes:
    """Answer LISTSTATUS, with name, node and number of children of each."""
    statuses = [_status(node, name, count) for name, node, count in entries]
    return _body({"FileStatuses": {"FileStatus": statuses}})


def _status(node: Node, name: str, child_count: int) -> dict[str, Any]:
    return {
        "accessTime": 0 if node.is_directory else node.modified_ms,
        "blockSize": node.block_size,
        "childrenNum": child_count,
        "fileId": node.number,
        "group": "supergroup",
        "length": node.length,
        "modificationTime": node.modified_ms,
        "owner": node.owner,
        "pathSuffix": name,
        "permission": node.permission,
        "replication": 0 if node.is_directory else 1,
        "storagePolicy": 0,
        "type": "DIRECTORY" if node.is_directory else "FILE",
    }


def boolean(value: bool) -> bytes:  # noqa: FBT001 - the answer is nothing else
    """Answer MKDIRS, RENAME and DELETE."""
    return _body({"boolean": value})


def home_directory(user: str) -> bytes:
    """Answer GETHOMEDIRECTORY."""
    return _body({"Path": f"/user/{user}"})


def server_defaults() -> bytes:
    """Answer GETSERVERDEFAULTS; without a key provider, nothing is encrypted."""
    defaults = {
        "blockSize": BLOCK_SIZE,
        "bytesPerChecksum": 512,
        "checksumType": 2,
        "defaultStoragePolicyId": 7,
        "encryptDataTransfer": False,
        "fileBufferSize": 4096,
        "keyProviderUri": "",
        "replication": 1,
        "trashInterval": 0,
        "writePacketSize": 65536,
    }
    return _body({"FsServerDefaults": defaults})


def no_block_locations() -> bytes:
    """Answer GETFILEBLOCKLOCATIONS: no machine is nearer than another."""
    return _body({"BlockLocations": {"BlockLocation": []}})


def access_token(token: str, lifetime_seconds: int) -> bytes:
    """Answer a request for a token (RFC 6749, client credentials)."""
    fields = {"access_token": token, "expires_in": lifetime_seconds, "token_type": "bearer"}
    return _body(fields)


def remote_exception(refusal: Refusal) -> bytes:
    """Answer with an error, which the client raises at its caller's."""
    name = refusal.java_class.rpartition(".")[2]
    fields = {"exception": name, "javaClassName": refusal.java_class, "message": str(refusal)}
    return _body({"RemoteException": fields})
