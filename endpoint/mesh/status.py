"""What happens in the mesh, as events that a user can follow (seed 7.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wire.addresses import join_address
from wire.errors import CredentialsError, ErrorCode, MeshError
from wire.escaping import escape
from wire.identifiers import EndpointId
from wire.public import public
from wire.scalars import shorten

TOPICS_NAMED: Final = 4
"""Topics that an event names; a subscriber may have ten thousand."""


@public
class StatusCode(StrEnum):
    """The kinds of events. For one endpoint the first five come in the order of this list."""

    ENDPOINT_DISCOVERED = "endpoint_discovered"
    """A first path to the endpoint is known."""
    PEER_ADDED = "peer_added"
    """The handshake is complete: the endpoint is a peer (``peer_connected`` in the seed)."""
    PEER_REMOVED = "peer_removed"
    """We ended the peering: unpeered, shut down, or by the overflow policy."""
    PEER_LOST = "peer_lost"
    """The other side or the network ended the peering (``peer_disconnected`` in the seed)."""
    ENDPOINT_UNREACHABLE = "endpoint_unreachable"
    """The last path to the endpoint is gone."""
    PEER_UNAVAILABLE = "peer_unavailable"
    """An attempt to peer failed: nobody answers, or the handshake did not succeed."""
    CANNOT_REMOVE_PEER = "cannot_remove_peer"
    """``unpeer`` named a peer that is not there."""
    CREDENTIALS_RELOADED = "credentials_reloaded"
    """The certificate files have changed, and new connections use them."""
    CREDENTIALS_REFUSED = "credentials_refused"
    """The certificate files have changed and cannot be used: the old ones stay in force."""
    RULES_RELOADED = "rules_reloaded"
    """Files of roles or accounts have changed, and are in force: what lost its right has ended."""
    RULES_REFUSED = "rules_refused"
    """Files of roles or accounts have changed and cannot be used: the old ones stay in force."""
    STORE_MASTER_FOUND = "store_master_found"
    """A clone, replica or proxy of this endpoint is in touch with a master, or with a leader of its
    group, which may be another one than before. A replica that leads itself tells nothing."""
    STORE_MASTER_LOST = "store_master_lost"
    """A clone, replica or proxy of this endpoint is out of touch: its group elects, or its master
    is not heard. A clone or replica serves what it has, a clone until that is stale."""
    STORE_SECOND_MASTER = "store_second_master"
    """A proxy of this endpoint has heard a second leader of its store or log. It follows one."""
    STORE_DEPOSED = "store_deposed"
    """A master of this endpoint is a clone now, since another one was promoted."""
    REPLICA_REGRESSED = "replica_regressed"
    """A replica of a group lacks what it had acknowledged: it counts for nothing until it has all
    of it again, which is told, too: the reason says which of both."""
    REPLICA_UNLED = "replica_unled"
    """A voter's replica, or one that is to be one, has had no leader for 5 seconds: the reason
    names the voters that are silent, or says what a new group waits for."""
    REPLICA_LED = "replica_led"
    """Its group has a leader, after ``REPLICA_UNLED``."""
    REPLICA_DISMISSED = "replica_dismissed"
    """A replica of this endpoint that is declared a voter has no vote: a person removed it. It
    follows, and the reason says how it is given a vote again."""
    STORE_CONFLICT = "store_conflict"
    """Replicas of one name are of different groups, or histories: nothing is dropped. Or a learner
    has set a file of an earlier release aside: the reason has its new name."""
    REPLICA_DISK_FAILED = "replica_disk_failed"
    """A disk did not take what a replica of a group had to write, as a full one: the replica ends,
    and if it led, another voter is asked to lead at once."""
    STORE_FAILED = "store_failed"
    """A store or log of this endpoint has ended without being closed: its disk failed, or it met
    an error that nothing expects, or its role is taken or not allowed. All others go on."""
    QUOTA_NEAR = "quota_near"
    """A store or log that is led here uses 80 % of its quota: at the limit, it refuses to grow."""
    QUOTA_EXCEEDED = "quota_exceeded"
    """It uses all of its quota, or has refused to grow: deletes and expiry go on."""
    QUOTA_RELIEVED = "quota_relieved"
    """It uses less than 75 % of its quota again, or has a larger one."""
    FILE_EXPOSED = "file_exposed"
    """Others could read or write a file of a store or log: now its mode keeps them from it, or the
    reason says why that cannot be."""
    NOT_ALLOWED = "not_allowed"
    """An endpoint, or a client of a port beside this one, did what its role does not permit, and
    nothing came of it: told once a second."""
    FORGERY_DROPPED = "forgery_dropped"
    """Something came in the name of an endpoint that signs, and was not its own: once a second."""
    SUBSCRIBER_SLOW = "subscriber_slow"
    """A subscriber has made publishers wait for some seconds: told where it is read, and where the
    publishers are."""
    SUBSCRIBER_LOSSY = "subscriber_lossy"
    """A subscriber of this endpoint was not read for too long: it loses its oldest messages."""
    PEER_SLOW = "peer_slow"
    """What waits for a peer has become more than it takes in some seconds."""
    MESSAGE_TOO_LARGE = "message_too_large"
    """Messages for a peer were dropped: it takes no frames so large. Told once a second."""
    CALLBACK_FAILED = "callback_failed"
    """A callback of the user raised; the log has its traceback. The endpoint goes on."""


@public
@dataclass(frozen=True, slots=True)
class StatusEvent:
    """One event, with all that is known about it."""

    status: StatusCode
    endpoint: EndpointId | None
    """Whom it is about; ``None`` when an address never told its id."""
    address: tuple[str, int] | None
    """The network address of the other side, where there is one."""
    code: ErrorCode
    reason: str
    """A sentence for people."""
    store: str | None = None
    """The name of the store that it is about, if it is about one."""
    certificate_name: str | None = None
    """What the certificate of a peer that was added calls it; ``None`` without TLS."""
    name: str | None = None
    """How the endpoint is called, for people to read: see ``Endpoint.name_of``."""
    retry: float | None = None
    """The longest pause in seconds until this endpoint dials the address again, where it was told
    to: 0 if it does not. ``None`` if it has not dialled."""

    @property
    def is_error(self) -> bool:
        """Tell failures of a call from events of the mesh."""
        return self.status in _ERRORS

    def __str__(self) -> str:
        """Write one line for a log."""
        who = str(self.endpoint) if self.endpoint is not None else "unknown endpoint"
        if self.name is not None:
            who = f"{self.name} ({who})"
        where = f" at {join_address(*self.address)}" if self.address is not None else ""
        return escape(f"{self.status}: {who}{where}: {self.reason}")


_ERRORS: Final = frozenset(
    {
        StatusCode.PEER_UNAVAILABLE,
        StatusCode.CANNOT_REMOVE_PEER,
        StatusCode.CREDENTIALS_REFUSED,
        StatusCode.RULES_REFUSED,
        StatusCode.STORE_FAILED,
        StatusCode.CALLBACK_FAILED,
    }
)


def peer_added_event(
    peer: EndpointId, address: tuple[str, int] | None, certificate_name: str | None
) -> StatusEvent:
    """Tell that the handshake with a peer is complete."""
    return StatusEvent(
        StatusCode.PEER_ADDED,
        peer,
        address,
        ErrorCode.NONE,
        "handshake successful",
        certificate_name=certificate_name,
    )


def reach_event(endpoint: EndpointId, *, is_found: bool) -> StatusEvent:
    """Tell that a first path to an endpoint is known, or that the last one is gone."""
    if is_found:
        code, reason = StatusCode.ENDPOINT_DISCOVERED, "found a new endpoint in the mesh"
    else:
        code, reason = StatusCode.ENDPOINT_UNREACHABLE, "lost the last path"
    return StatusEvent(code, endpoint, None, ErrorCode.NONE, reason)


def slow_reader_event(
    here: EndpointId, label: str, topics: Sequence[str], *, is_lossy: bool
) -> StatusEvent:
    """Tell that a subscriber here makes publishers wait, or loses messages from now on."""
    names = _some(topics)
    if is_lossy:
        code, text = StatusCode.SUBSCRIBER_LOSSY, "is not read, and loses its oldest messages"
    else:
        code, text = StatusCode.SUBSCRIBER_SLOW, "makes its publishers wait: read it faster"
    reason = f"the subscriber {shorten(label)} of {names} {text}"
    return StatusEvent(code, here, None, ErrorCode.NONE, reason)


def slow_holder_event(holder: EndpointId, label: str, topics: Sequence[str]) -> StatusEvent:
    """Tell that what is published here waits for a full queue elsewhere."""
    reason = f"messages on {_some(topics)} wait for its subscriber {shorten(label)}"
    return StatusEvent(StatusCode.SUBSCRIBER_SLOW, holder, None, ErrorCode.NONE, reason)


def peer_slow_event(peer: EndpointId, *, is_withheld: bool) -> StatusEvent:
    """Tell that more waits for a peer than it takes."""
    why = "it waits for a full queue itself" if is_withheld else "the network or the peer is slow"
    reason = f"what waits for it would take more than some seconds: {why}"
    return StatusEvent(StatusCode.PEER_SLOW, peer, None, ErrorCode.NONE, reason)


def _some(topics: Sequence[str]) -> str:
    """Name the first of some topics; none at all stands for all of them."""
    named = ", ".join(shorten(topic) for topic in topics[:TOPICS_NAMED])
    more = f" and {len(topics) - TOPICS_NAMED} more" if len(topics) > TOPICS_NAMED else ""
    return named + more or "all topics"


def exposed_event(name: str, text: str) -> StatusEvent:
    """Tell that others could read a file of a store or log."""
    return StatusEvent(StatusCode.FILE_EXPOSED, None, None, ErrorCode.NONE, text, name)


def credentials_event(error: CredentialsError | None) -> StatusEvent:
    """Tell that changed certificate files are in force, or why they cannot be."""
    if error is None:
        reason = "new connections use the changed certificate files"
        return StatusEvent(StatusCode.CREDENTIALS_RELOADED, None, None, ErrorCode.NONE, reason)
    return StatusEvent(StatusCode.CREDENTIALS_REFUSED, None, None, error.code, str(error))


def rules_event(error: MeshError | None, where: str) -> StatusEvent:
    """Tell that changed roles or accounts are in force ``where``, or why they cannot be."""
    if error is None:
        reason = f"{where} goes by the changed roles and accounts"
        return StatusEvent(StatusCode.RULES_RELOADED, None, None, ErrorCode.NONE, reason)
    reason = f"{where}: {error}"
    return StatusEvent(StatusCode.RULES_REFUSED, None, None, error.code, reason)
