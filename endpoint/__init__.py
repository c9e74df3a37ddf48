"""The endpoint: a pure core that decides, a trio loop that carries out, and what users hold."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Final

from wire.logs import logger_of

if TYPE_CHECKING:
    from endpoint.endpoint import Endpoint as Endpoint
    from endpoint.link.data_queue import OverflowPolicy as OverflowPolicy
    from endpoint.link.link import OutboxStatistics as OutboxStatistics
    from endpoint.mesh.status import StatusCode as StatusCode, StatusEvent as StatusEvent
    from endpoint.outcome import Outcome as Outcome
    from endpoint.pubsub.messages import Message as Message, Missed as Missed
    from endpoint.pubsub.publisher import Publisher as Publisher
    from endpoint.pubsub.stream import StatusSubscriber as StatusSubscriber
    from endpoint.pubsub.subscriber import Subscriber as Subscriber
    from endpoint.settings import Settings as Settings
    from endpoint.statistics import (
        DialInfo as DialInfo,
        EndpointStatistics as EndpointStatistics,
        PeerInfo as PeerInfo,
    )
    from wire.errors import SettingsError as SettingsError

__all__ = [
    "DialInfo",
    "Endpoint",
    "EndpointStatistics",
    "Message",
    "Missed",
    "OutboxStatistics",
    "Outcome",
    "OverflowPolicy",
    "PeerInfo",
    "Publisher",
    "Settings",
    "SettingsError",
    "StatusCode",
    "StatusEvent",
    "StatusSubscriber",
    "Subscriber",
]

_HOMES: Final = {
    "DialInfo": "endpoint.statistics",
    "Endpoint": "endpoint.endpoint",
    "EndpointStatistics": "endpoint.statistics",
    "Message": "endpoint.pubsub.messages",
    "Missed": "endpoint.pubsub.messages",
    "OutboxStatistics": "endpoint.link.link",
    "Outcome": "endpoint.outcome",
    "OverflowPolicy": "endpoint.link.data_queue",
    "PeerInfo": "endpoint.statistics",
    "Publisher": "endpoint.pubsub.publisher",
    "Settings": "endpoint.settings",
    "SettingsError": "wire.errors",
    "StatusCode": "endpoint.mesh.status",
    "StatusEvent": "endpoint.mesh.status",
    "StatusSubscriber": "endpoint.pubsub.stream",
    "Subscriber": "endpoint.pubsub.subscriber",
}
"""Imported when they are asked for: who needs the settings alone waits for no loop."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


# A library is silent unless its user asks for the log (design section 17).
logger_of("peermesh").addHandler(logging.NullHandler())
