"""Refusals, each as the Java exception that Hadoop's client makes of it again."""

from __future__ import annotations

from wire.errors import MeshError


class Refusal(MeshError):
    """A request that is not done. Never raised itself: the kinds below name the reason."""

    java_class = "java.io.IOException"
    status = 403
    """The HTTP status, as a NameNode sends it."""


class NotFound(Refusal):
    """There is no such file or directory."""

    java_class = "java.io.FileNotFoundException"
    status = 404


class AlreadyExists(Refusal):
    """Something is there already, and may not be replaced."""

    java_class = "org.apache.hadoop.fs.FileAlreadyExistsException"


class NotADirectory(Refusal):
    """A file stands where a directory was expected."""

    java_class = "org.apache.hadoop.fs.ParentNotDirectoryException"


class NotEmpty(Refusal):
    """A directory that has something in it is only deleted recursively."""

    java_class = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"


class Impossible(Refusal):
    """It makes sense, but not here: a directory moved into itself, a file that is too large."""


class Full(Refusal):
    """The store, or what uploads may take of it, is at its quota, as a directory of HDFS would be.

    A NameNode sends this with 403, as all of its I/O errors: a client does not try it again.
    """

    java_class = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"


class InvalidRequest(Refusal):
    """A parameter or a path that makes no sense."""

    java_class = "java.lang.IllegalArgumentException"
    status = 400


class Unsupported(Refusal):
    """An operation that this gateway does not have."""

    java_class = "java.lang.UnsupportedOperationException"
    status = 400


class Standby(Refusal):
    """No leader of the store answers this gateway: Hadoop's client asks the next address."""

    java_class = "org.apache.hadoop.ipc.StandbyException"


class NotAuthorized(Refusal):
    """The token is missing, or is not ours."""

    java_class = "org.apache.hadoop.security.AccessControlException"
    status = 401


class Forbidden(Refusal):
    """The principal's role does not permit it, or the request is not for this gateway."""

    java_class = "org.apache.hadoop.security.AccessControlException"


class Busy(Refusal):
    """Too much is asked at once: the client may try again."""

    java_class = "org.apache.hadoop.ipc.RetriableException"
    status = 503


class StoreFailed(Refusal):
    """The store could not do it: its disk is full, or broken."""

    status = 500
