"""What a call of the edge broker, its clients or its registry may raise."""

from __future__ import annotations

from wire.errors import ErrorCode, MeshError, NotAllowed


class EdgeError(MeshError):
    """The root of what goes wrong at the edge: a client was closed, or asked for nonsense."""


class EdgeClosed(EdgeError):
    """The publisher, subscriber or broker was closed."""

    code = ErrorCode.SHUTTING_DOWN


class RegistryError(EdgeError):
    """The registry refused, or what stands in it is not in the documented format."""

    code = ErrorCode.INVALID_DATA


class RegistryDenied(RegistryError, NotAllowed):
    """The registry refused because the roles there do not permit it."""

    code = ErrorCode.NOT_AUTHORIZED
