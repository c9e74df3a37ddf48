"""What a call of the module broker may raise: one class for each result code of the seed."""

from __future__ import annotations

from enum import StrEnum

from wire.errors import MeshError


class BrokerResult(StrEnum):
    """The seed's result codes."""

    OK = "BROKER_OK"
    ERROR = "BROKER_ERROR"
    INVALIDARG = "BROKER_INVALIDARG"
    ADD_LINK_ERROR = "BROKER_ADD_LINK_ERROR"
    REMOVE_LINK_ERROR = "BROKER_REMOVE_LINK_ERROR"


class BrokerError(MeshError):
    """The broker cannot do what it was asked to: the module is gone, or the broker is."""

    result = BrokerResult.ERROR


class InvalidArgument(BrokerError, ValueError):
    """What was passed is no module, no message, or no link."""

    result = BrokerResult.INVALIDARG


class NoValue(InvalidArgument, TypeError):
    """The content of a message is no value of the mesh: make it of numbers, texts, bytes, lists."""


class AddLinkError(BrokerError):
    """The link cannot be: it exists, or one of its ends does not."""

    result = BrokerResult.ADD_LINK_ERROR


class RemoveLinkError(BrokerError):
    """There is no such link."""

    result = BrokerResult.REMOVE_LINK_ERROR


class InboxFull(BrokerError):
    """A link with the policy ``refuse`` has no room; nobody got the message."""
