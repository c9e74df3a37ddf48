"""Refusals, each as the Java exception that Hadoop's client makes of it again."""

from __future__ import annotations

from peermesh.gateways.refusals import Refusal


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


class Unsupported(Refusal):
    """An operation that this gateway does not have."""

    java_class = "java.lang.UnsupportedOperationException"
    status = 400


class Standby(Refusal):
    """No leader of the store answers this gateway: Hadoop's client asks the next address."""

    java_class = "org.apache.hadoop.ipc.StandbyException"


class StoreFailed(Refusal):
    """The store could not do it: its disk is full, or broken."""

    status = 500
