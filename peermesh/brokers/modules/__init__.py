"""An in-process bus of modules, from the seeds' module broker and message bus.

::

    with ModuleBroker() as broker:
        sensor = broker.add_module(Sensor(), "sensor")
        logger = broker.add_module(Logger(), "logger")
        broker.add_link(sensor, logger)
        broker.publish(sensor, Message(b"21.5", {"unit": "celsius"}))

Everything may be called from any thread at any time. A module's ``receive`` is never called
concurrently with itself.
"""

from peermesh.brokers.modules.broker import ModuleBroker
from peermesh.brokers.modules.errors import (
    AddLinkError,
    BrokerError,
    BrokerResult,
    InboxFull,
    InvalidArgument,
    NoValue,
    RemoveLinkError,
)
from peermesh.brokers.modules.layout import Layout, LayoutError
from peermesh.brokers.modules.mesh import MeshModule
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncModule, AsyncPort, Failure, Module, Port
from peermesh.brokers.modules.process import ProcessModule
from peermesh.brokers.modules.seat import LinkPolicy, ModuleId

__all__ = [
    "AddLinkError",
    "AsyncModule",
    "AsyncPort",
    "BrokerError",
    "BrokerResult",
    "Failure",
    "InboxFull",
    "InvalidArgument",
    "Layout",
    "LayoutError",
    "LinkPolicy",
    "MeshModule",
    "Message",
    "Module",
    "ModuleBroker",
    "ModuleId",
    "NoValue",
    "Port",
    "ProcessModule",
    "RemoveLinkError",
]
