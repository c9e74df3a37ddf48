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
from peermesh.gateways.webhdfs.walking import Summary


def _body(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def file_status(node: Node, child_count: int) -> bytes:
    """Answer GETFILESTATUS."""
    return _body({"FileStatus": _status(node, "", child_count)})


def statuses_page(entries: Iterable[tuple[str, Node, int]]) -> bytes:
    """Write a part of an answer to LISTSTATUS: name, node and number of children of each."""
    return _body([_status(node, name, count) for name, node, count in entries])[1:-1]


def file_statuses(pages: Iterable[bytes]) -> bytes:
    """Answer LISTSTATUS, of which the pages are written."""
    return b'{"FileStatuses":{"FileStatus":[%b]}}' % b",".join(pages)


def _status(node: Node, name: str, child_count: int) -> dict[str, Any]:
    return {
        "accessTime": _accessed_ms(node),
        "blockSize": node.block_size,
        "childrenNum": child_count,
        "fileId": node.number,
        "group": node.group,
        "length": node.length,
        "modificationTime": node.modified_ms,
        "owner": node.owner,
        "pathSuffix": name,
        "permission": node.permission,
        "replication": 0 if node.is_directory else node.replication,
        "storagePolicy": 0,
        "type": "DIRECTORY" if node.is_directory else "FILE",
    }


def _accessed_ms(node: Node) -> int:
    if node.accessed_ms is not None:
        return node.accessed_ms
    return 0 if node.is_directory else node.modified_ms


def partial_listing(entries: Iterable[tuple[str, Node, int]], *, has_more: bool) -> bytes:
    """Answer LISTSTATUS_BATCH. How many remain is not counted: one stands for some."""
    statuses = [_status(node, name, count) for name, node, count in entries]
    listing = {
        "partialListing": {"FileStatuses": {"FileStatus": statuses}},
        "remainingEntries": int(has_more),
    }
    return _body({"DirectoryListing": listing})


def content_summary(found: Summary) -> bytes:
    """Answer GETCONTENTSUMMARY; there are no quotas but the store's."""
    summary = {
        "directoryCount": found.directories,
        "ecPolicy": "Replicated",
        "fileCount": found.files,
        "length": found.length,
        "quota": -1,
        "spaceConsumed": found.length,
        "spaceQuota": -1,
        "typeQuota": {},
    }
    return _body({"ContentSummary": summary})


def quota_usage(found: Summary) -> bytes:
    """Answer GETQUOTAUSAGE."""
    usage = {
        "fileAndDirectoryCount": found.files + found.directories,
        "quota": -1,
        "spaceConsumed": found.length,
        "spaceQuota": -1,
        "typeQuota": {},
    }
    return _body({"QuotaUsage": usage})


def space(used: int, capacity: int) -> bytes:
    """Answer GETSTATUS."""
    status = {"capacity": capacity, "remaining": max(capacity - used, 0), "used": used}
    return _body({"FsStatus": status})


def file_checksum(algorithm: str, digest: bytes) -> bytes:
    """Answer GETFILECHECKSUM."""
    told = {"algorithm": algorithm, "bytes": digest.hex(), "length": len(digest)}
    return _body({"FileChecksum": told})


def acl_status(node: Node) -> bytes:
    """Answer GETACLSTATUS: the permission is all there is."""
    status = {
        "entries": [],
        "group": node.group,
        "owner": node.owner,
        "permission": node.permission,
        "stickyBit": len(node.permission) == 4 and node.permission[0] in "1357",
    }
    return _body({"AclStatus": status})


def no_attributes() -> bytes:
    """Answer GETXATTRS."""
    return _body({"XAttrs": []})


def location(place: str) -> bytes:
    """Answer the first of two steps to a client that follows no redirections."""
    return _body({"Location": place})


def boolean(value: bool) -> bytes:  # noqa: FBT001 - the answer is nothing else
    """Answer MKDIRS, RENAME, DELETE, TRUNCATE and SETREPLICATION."""
    return _body({"boolean": value})


def path(text: str) -> bytes:
    """Answer GETHOMEDIRECTORY and GETTRASHROOT."""
    return _body({"Path": text})


def paths(entries: Iterable[tuple[str, Node]]) -> bytes:
    """Answer GETTRASHROOTS, whose members have names of their own."""
    statuses = [
        {
            "access_time": _accessed_ms(node),
            "block_replication": 0 if node.is_directory else node.replication,
            "blocksize": node.block_size,
            "group": node.group,
            "isdir": node.is_directory,
            "length": node.length,
            "modification_time": node.modified_ms,
            "owner": node.owner,
            "path": place,
            "permission": node.permission,
        }
        for place, node in entries
    ]
    return _body({"Paths": statuses})


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
