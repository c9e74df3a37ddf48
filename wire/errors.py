"""Every error of the mesh: one root, one class for each situation, and the codes that travel."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Final

from wire.public import public


@public
class ErrorCode(IntEnum):
    """Why something failed, as a number that may travel in ``drop_conn``.

    Up to 41 the codes are Broker's, all of them, so that each can be named wherever it comes from;
    the mesh itself gives those that it has a situation for.
    """

    NONE = 0
    UNSPECIFIED = 1
    PEER_INCOMPATIBLE = 2
    PEER_INVALID = 3
    PEER_UNAVAILABLE = 4
    PEER_DISCONNECT_DURING_HANDSHAKE = 5
    PEER_TIMEOUT = 6
    MASTER_EXISTS = 7
    NO_SUCH_MASTER = 8
    NO_SUCH_KEY = 9
    REQUEST_TIMEOUT = 10
    TYPE_CLASH = 11
    INVALID_DATA = 12
    BACKEND_FAILURE = 13
    STALE_DATA = 14
    CANNOT_OPEN_FILE = 15
    CANNOT_WRITE_FILE = 16
    INVALID_TOPIC_KEY = 17
    END_OF_FILE = 18
    INVALID_TAG = 19
    INVALID_MESSAGE = 20
    INVALID_STATUS = 21
    CONVERSION_FAILED = 22
    CONSUMER_EXISTS = 23
    CONNECTION_TIMEOUT = 24
    BAD_MEMBER_FUNCTION_CALL = 25
    REPEATED_REQUEST_ID = 26
    BROKEN_CLONE = 27
    SHUTTING_DOWN = 28
    INVALID_PEERING_REQUEST = 29
    REPEATED_PEERING_HANDSHAKE_REQUEST = 30
    UNEXPECTED_HANDSHAKE_MESSAGE = 31
    INVALID_HANDSHAKE_STATE = 32
    NO_PATH_TO_PEER = 33
    NO_CONNECTOR_AVAILABLE = 34
    CANNOT_OPEN_RESOURCE = 35
    SERIALIZATION_FAILED = 36
    DESERIALIZATION_FAILED = 37
    WRONG_MAGIC_NUMBER = 38
    REDUNDANT_CONNECTION = 39
    LOGIC_ERROR = 40
    INVALID_JSON = 41
    # Ours from here on: situations that Broker has no code for.
    OUTBOX_OVERFLOW = 64
    LIMIT_EXCEEDED = 65
    INVALID_TOPIC = 66
    GUARD_FAILED = 67
    NOT_AUTHORIZED = 68
    SELF_PEERING = 69
    FENCED = 80
    PROMOTION_REFUSED = 81
    QUOTA_EXCEEDED = 82
    REVISION_GONE = 83
    NO_QUORUM = 84
    SESSION_EXPIRED = 85
    STORE_CONFLICT = 86
    REPLICA_REGRESSED = 87
    NO_SUCH_PARTITION = 90
    OFFSET_OUT_OF_RANGE = 91
    SEQUENCE_UNKNOWN = 92
    KEEPER_UNREACHABLE = 93


@public
class MeshError(Exception):
    """The root of all errors that this library raises on purpose."""

    code: ErrorCode = ErrorCode.UNSPECIFIED


@public
class ProtocolError(MeshError):
    """Somebody broke the protocol. Never raised itself: see the two kinds below."""


@public
class LocalProtocolError(ProtocolError):
    """The caller asked for something that the protocol forbids now."""

    code = ErrorCode.LOGIC_ERROR


@public
class RemoteProtocolError(ProtocolError):
    """The peer did something that the protocol forbids; its connection has to end."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.UNSPECIFIED) -> None:
        """Remember the code that tells the peer, and the status event, what was wrong."""
        super().__init__(message)
        self.code = code


@public
class DecodeError(RemoteProtocolError):
    """Bytes that are not a message, or not a value."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.DESERIALIZATION_FAILED) -> None:
        """Most bad bytes have the same code; a limit that was passed has its own."""
        super().__init__(message, code)


@public
class EncodeError(MeshError, ValueError):
    """A value that has no place in the data model, such as an integer beyond 64 bits."""

    code = ErrorCode.SERIALIZATION_FAILED


@public
class InvalidTopic(MeshError, ValueError):
    """A topic that is too long, not text, or holds the reserved segment ``<$>``."""

    code = ErrorCode.INVALID_TOPIC


@public
class EndpointClosed(MeshError):
    """The endpoint was shut down, or was never started."""

    code = ErrorCode.SHUTTING_DOWN


@public
class EndpointFailed(EndpointClosed):
    """The endpoint was ended by an unexpected error, which is the ``__cause__`` of this one."""


@public
class ForkedEndpoint(EndpointClosed):
    """The handle was made before a fork, by the parent process: make another one in the child."""


FAILURES: Final = (EndpointFailed, ForkedEndpoint)
"""Ends of an endpoint that are no end of a loop over its messages: that raises them."""


@public
class PeerUnavailable(MeshError):
    """Nobody answers at that address."""

    code = ErrorCode.PEER_UNAVAILABLE


@public
class PeerIncompatible(MeshError):
    """The other side speaks another version of the protocol, or another protocol."""

    code = ErrorCode.PEER_INCOMPATIBLE


@public
class InsecureAddress(MeshError):
    """Plain TCP was asked for beyond the loopback interface."""

    code = ErrorCode.NOT_AUTHORIZED


@public
class SettingsError(MeshError, ValueError):
    """A setting that does not exist, or that does not make sense."""


@public
class CredentialsError(MeshError):
    """A secret, a certificate or a key that cannot be used."""

    code = ErrorCode.NOT_AUTHORIZED


@public
class PeerNotTrusted(MeshError):
    """The two sides of a connection do not accept each other's credentials."""

    code = ErrorCode.NOT_AUTHORIZED


@public
class RolesError(MeshError, ValueError):
    """A table of roles that cannot be used: the text says what is wrong with it, and where."""


@public
class AddressInUse(MeshError):
    """Somebody listens at that address already, or it is not ours to listen at."""

    code = ErrorCode.PEER_INVALID


@public
class AddressInvalid(MeshError, ValueError):
    """The address does not exist: its host cannot be resolved, or is not one of this machine."""

    code = ErrorCode.PEER_INVALID


@public
class OutboxFull(MeshError):
    """``publish_nowait`` found no room; nothing was sent to anybody."""

    code = ErrorCode.OUTBOX_OVERFLOW


@public
class SubscriberOverflow(MeshError):
    """A queue with ``overflow="error"`` was full; ``count`` messages were not read."""

    code = ErrorCode.LIMIT_EXCEEDED

    def __init__(self, count: int, queue_size: int) -> None:
        """Say how many messages were lost, of a queue of ``queue_size``."""
        super().__init__(
            f"{count} messages were not read: the queue of {queue_size} was full, and the "
            "subscription ended: subscribe again, and read faster or with another overflow"
        )
        self.count = count
        self.queue_size = queue_size

    def __reduce__(self) -> tuple[type[SubscriberOverflow], tuple[int, int]]:
        """Pickle the numbers, from which the text is made."""
        return type(self), (self.count, self.queue_size)


@public
class LimitExceeded(MeshError):
    """More was asked for than the protocol has room for; nothing of it was done."""

    code = ErrorCode.LIMIT_EXCEEDED


@public
class StoreError(MeshError):
    """The root of what can go wrong with a store."""


@public
class MasterExists(StoreError):
    """A master of that name is known in the mesh."""

    code = ErrorCode.MASTER_EXISTS


@public
class NotAllowed(StoreError):
    """The role of this endpoint does not permit it: reading, writing, leading or publishing."""

    code = ErrorCode.NOT_AUTHORIZED


@public
class NoSuchMaster(StoreError):
    """A clone was asked for where the master itself lives, or no master answered in time."""

    code = ErrorCode.NO_SUCH_MASTER


@public
class Fenced(StoreError):
    """The master was deposed before it knew what became of the mutation: it may be lost."""

    code = ErrorCode.FENCED


@public
class PromotionRefused(StoreError):
    """The clone is no good successor now: the text says why, and what ``force`` would cost."""

    code = ErrorCode.PROMOTION_REFUSED


@public
class NoSuchKey(StoreError, KeyError):
    """The key is not in the store."""

    code = ErrorCode.NO_SUCH_KEY

    def __str__(self) -> str:
        """Say it in words: ``KeyError`` would print the repr of the text."""
        return str(self.args[0]) if self.args else ""


@public
class TypeClash(StoreError, TypeError):
    """The operation does not fit the type of the stored value, which stays as it was."""

    code = ErrorCode.TYPE_CLASH


@public
class InvalidData(StoreError, ValueError):
    """The operation fits, its operand does not."""

    code = ErrorCode.INVALID_DATA


@public
class GuardFailed(StoreError):
    """A guard of an atomic batch did not hold, and nothing of the batch was applied."""

    code = ErrorCode.GUARD_FAILED


@public
class QuotaExceeded(StoreError):
    """It would make a store or log larger than its ``max_entries`` or ``max_bytes`` allow.

    Nothing of it was done. The text names the limit and what is used. Deletes, expiry and whatever
    makes a store no larger go on.
    """

    code = ErrorCode.QUOTA_EXCEEDED


@public
class NoQuorum(StoreError):
    """A replica group has no majority of its voters in reach: the text says which are silent.

    Start them again; with those that are gone for good, ``promote(force=True)`` leads without them.
    What was asked is not applied, or its outcome is unknown, as the text says.
    """

    code = ErrorCode.NO_QUORUM


@public
class SessionExpired(StoreError):
    """The session has ended, or may have: its keys are gone, and what it held may be another's.

    A holder counts its time to live from the sending of its last acknowledged renewal. So this is
    raised no later than the group ends the session.
    """

    code = ErrorCode.SESSION_EXPIRED


@public
class StoreConflict(StoreError):
    """Copies of the store in reach differ, and none of them is dropped without a person's word.

    To a master that starts again, ``fresh=True`` is that word, or a promotion of the other copy.
    """

    code = ErrorCode.STORE_CONFLICT


@public
class ReplicaRegressed(StoreError):
    """The file of a master lacks what it has acknowledged, and no clone in reach has it.

    The text says what is missing, and what to do: ``fresh=True`` leads with what the file has.
    """

    code = ErrorCode.REPLICA_REGRESSED


@public
class RevisionGone(StoreError):
    """The state of that revision is kept no more: read again from the start."""

    code = ErrorCode.REVISION_GONE


@public
class StaleData(StoreError):
    """The clone has not heard from its master for longer than the stale interval."""

    code = ErrorCode.STALE_DATA


@public
class RequestTimeout(StoreError, TimeoutError):
    """The master did not answer in time; whether it applied the command is unknown."""

    code = ErrorCode.REQUEST_TIMEOUT


@public
class BackendFailure(StoreError):
    """The disk or the database under a master failed."""

    code = ErrorCode.BACKEND_FAILURE


@public
class StoreClosed(StoreError):
    """The store's handle, or its endpoint, is closed."""

    code = ErrorCode.SHUTTING_DOWN


@public
class NoSuchPartition(StoreError, LookupError):
    """The log has fewer partitions."""

    code = ErrorCode.NO_SUCH_PARTITION


@public
class OffsetOutOfRange(StoreError, LookupError):
    """Entries are gone that were asked for, or read before.

    Retention, or ``trim``, went past the reader; or what it had read, or its offset, is of entries
    that were lost when the lead was taken by force; or what it had read is of a log that is gone,
    and another one began under its name.
    """

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self,
        partition: int,
        offset: int,
        start: int,
        *,
        is_another_log: bool = False,
        log: str = "",
    ) -> None:
        """Name what is lost: the entries between ``offset`` and ``start``, not that at the end."""
        text = (
            f"partition {partition} begins at offset {start}: the entries {offset} to {start - 1}"
            f" are gone for good; read on from {start}, and keep more, or read sooner"
        )
        if is_another_log:
            text = (
                f"another log began under this name: what was read of partition {partition} up to"
                f" offset {offset - 1} was of one that is gone; read on from {start}, where this"
                " one begins"
            )
        elif start < offset:
            text = (
                f"partition {partition} goes on at offset {start}: no entry has had {offset - 1},"
                f" or those from {start} on are lost since the lead was taken by force; read on"
                f" from {start}: other entries have these offsets, or will have"
            )
        super().__init__(f"log {log}: {text}" if log else text)
        self.log = log
        """The name of the log, if it is known."""
        self.partition = partition
        self.offset = offset
        """Where the read was to go on. It is the first that is lost, if it is below ``start``."""
        self.start = start
        """Where it can go on. If it is below ``offset``, all between was lost after it was read."""
        self.is_another_log = is_another_log
        """True if another log began under the name: all that was read is of one that is gone."""

    def __reduce__(self) -> tuple[partial[OffsetOutOfRange], tuple[int, int, int]]:
        """Pickle the numbers, from which the text is made."""
        make = partial(type(self), is_another_log=self.is_another_log, log=self.log)
        return make, (self.partition, self.offset, self.start)


@public
class SequenceUnknown(StoreError, ValueError):
    """A named producer's sequence number is neither its next nor one that is remembered."""

    code = ErrorCode.SEQUENCE_UNKNOWN


@public
class KeeperUnreachable(RequestTimeout):
    """The keeper of a log did not answer in time; whether it did what was asked is unknown."""

    code = ErrorCode.KEEPER_UNREACHABLE
