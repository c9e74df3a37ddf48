"""Refusals of HTTP gateways: the status of each, and the Java exception of Hadoop's client."""

from __future__ import annotations

from wire.errors import MeshError


class Refusal(MeshError):
    """A request that is not done. Never raised itself: the kinds below name the reason."""

    java_class = "java.io.IOException"
    status = 403
    """The HTTP status, as a NameNode sends it."""


class NotFound(Refusal):
    """There is no such file or directory, or nothing is served there."""

    java_class = "java.io.FileNotFoundException"
    status = 404


class InvalidRequest(Refusal):
    """A parameter or a path that makes no sense."""

    java_class = "java.lang.IllegalArgumentException"
    status = 400


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
