"""What goes wrong with the QoS-2 broker, for its clients and for those who embed it."""

from __future__ import annotations

from wire.errors import ErrorCode, MeshError, NotAllowed


class BrokerError(MeshError):
    """The root of the errors here."""


class DialogueError(BrokerError):
    """The other side said what it must not say now; the text is what it is told after ``ERROR``."""


class Refused(BrokerError):
    """The broker refused what was asked; nothing was done. The text is its own."""


class Denied(Refused, NotAllowed):
    """The broker refused because its roles do not permit it, or the name is another principal's."""

    code = ErrorCode.NOT_AUTHORIZED


class BrokerUnavailable(BrokerError):
    """The broker, or the keeper of its topics, did not answer in time: ask again."""


class TakenOver(BrokerError):
    """Another connection logged in under this consumer's name; this one gets nothing more."""
