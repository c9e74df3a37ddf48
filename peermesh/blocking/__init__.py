"""The same API for threads and the REPL: one trio loop in a background thread serves them all.

``from peermesh import blocking`` gives ``blocking.Endpoint`` and ``blocking.Backend``, spelled as
in the seed's recipes.
"""

from endpoint.attaching import Backend
from endpoint.log import LogEntry, Start
from endpoint.log_receipts import AppendReceipt
from endpoint.receipts import Receipt
from peermesh.blocking.endpoint import Endpoint
from peermesh.blocking.gateways import serve_webhdfs
from peermesh.blocking.log import Log, LogConsumer
from peermesh.blocking.publisher import Publisher
from peermesh.blocking.reading import Reader
from peermesh.blocking.status import StatusSubscriber
from peermesh.blocking.store import Store, StoreProxy
from peermesh.blocking.subscriber import Subscriber
from peermesh.blocking.watching import Events, Watch
from stores.batch import Batch

__all__ = [
    "AppendReceipt",
    "Backend",
    "Batch",
    "Endpoint",
    "Events",
    "Log",
    "LogConsumer",
    "LogEntry",
    "Publisher",
    "Reader",
    "Receipt",
    "Start",
    "StatusSubscriber",
    "Store",
    "StoreProxy",
    "Subscriber",
    "Watch",
    "serve_webhdfs",
]
