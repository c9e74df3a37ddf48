"""The endpoint: a pure core that decides, a trio loop that carries out, and what users hold."""

import logging

from endpoint.endpoint import Endpoint
from endpoint.link.data_queue import OverflowPolicy
from endpoint.link.link import OutboxStatistics
from endpoint.mesh.status import StatusCode, StatusEvent
from endpoint.outcome import Outcome
from endpoint.pubsub.messages import Message, Missed
from endpoint.pubsub.publisher import Publisher
from endpoint.pubsub.stream import StatusSubscriber
from endpoint.pubsub.subscriber import Subscriber
from endpoint.settings import Settings
from endpoint.statistics import EndpointStatistics, PeerInfo
from wire.errors import SettingsError
from wire.logs import logger_of

__all__ = [
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

# A library is silent unless its user asks for the log (design section 17).
logger_of("peermesh").addHandler(logging.NullHandler())
