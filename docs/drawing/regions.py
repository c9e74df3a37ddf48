"""Every region that a document may ask for, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import channels
import handshake
from drawing import (
    doors,
    figures,
    file_formats,
    group_page,
    house,
    log_page,
    module_page,
    protocols,
    store_page,
)
from drawing.channel_trials import (
    CONSUMER_STATES,
    PRODUCER_STATES,
    consumer_trials,
    in_rows,
    producer_trials,
)
from drawing.handshake_trials import LARGE, SMALL
from drawing.markdown import table
from drawing.survivors import survivors
from drawing.tables import (
    counters_table,
    effects_table,
    limits_table,
    members_table,
    messages_table,
    methods_table,
    settings_table,
)
from endpoint import StatusCode
from handshake.states import State
from peermesh.brokers.qos2.counters import Counters
from peermesh.brokers.qos2.limits import Pace
from stores import effects
from stores.batch import Batch
from stores.group import (
    effects as group_effects,
    entries as group_entries,
    machine as group_machine,
    messages as group_messages,
)
from stores.log import (
    bodies as log_bodies,
    messages as log_messages,
)
from stores.table import bodies as table_bodies
from wire import messages

REGIONS: Final[dict[str, Callable[[], str]]] = {
    "ratios": figures.ratios,
    "settings": house.settings,
    "file-formats": file_formats.file_formats,
    "limits-to-set": partial(house.settings, are_limits=True),
    "arrival-limits": lambda: limits_table("net.acceptor", "net.arrivals", "net.network"),
    "stranger-limits": lambda: limits_table(
        "endpoint.settings",
        "endpoint.link.greeting",
        "endpoint.link.rates",
        "endpoint.mesh.news",
        "endpoint.mesh.topology",
        "wire.framing",
    ),
    "ports": doors.ports,
    "edge-limits": lambda: limits_table(
        "peermesh.brokers.edge.line",
        "peermesh.brokers.edge.subscription",
        "peermesh.brokers.edge.relay",
        "peermesh.brokers.edge.hall",
        "peermesh.brokers.edge.lifecycle",
        "peermesh.brokers.edge.broker",
        "peermesh.brokers.edge.desk",
        "peermesh.brokers.edge.request_queue",
    ),
    "module-limits": lambda: limits_table(
        "peermesh.brokers.modules.switchboard",
        "peermesh.brokers.modules.process_worker",
        "peermesh.brokers.modules.process",
        "peermesh.brokers.modules.child",
    ),
    "module-requirements": module_page.requirements,
    "gateway-limits": lambda: limits_table(
        "peermesh.gateways.limits", "peermesh.gateways.webhdfs.limits"
    ),
    "websocket-limits": lambda: limits_table("peermesh.gateways.websocket.limits"),
    "make-targets": house.make_targets,
    "mutation-survivors": survivors,
    "cli-commands": house.cli_commands,
    **{f"house-{package}": partial(house.house, package) for package in house.PACKAGES},
    "sources": house.sources,
    "example": house.example,
    "handshake-states": protocols.handshake_states,
    "handshake-transitions": protocols.handshake_transitions,
    "handshake-state-meanings": lambda: members_table(State),
    "handshake-messages": protocols.handshake_messages,
    "handshake-effects": lambda: effects_table(handshake.Effect),
    "handshake-claims": lambda: members_table(handshake.Claim),
    "handshake-standings": lambda: members_table(handshake.Standing),
    "handshake-larger-dials": lambda: protocols.handshake_sequence(LARGE),
    "handshake-smaller-dials": lambda: protocols.handshake_sequence(SMALL),
    "handshake-both-dial": lambda: protocols.handshake_sequence(LARGE, SMALL),
    "handshake-versions": lambda: protocols.handshake_sequence(LARGE, is_mixed=True),
    "handshake-limits": lambda: limits_table(
        "handshake.machine", "handshake.keepalive", "endpoint.dialer"
    ),
    "error-codes": protocols.error_codes,
    "frames": protocols.frames,
    "frame-front": protocols.frame_front,
    "packed-types": lambda: members_table(messages.PackedType, is_numbered=True),
    "frame-flags": protocols.frame_flags,
    "node-header": protocols.node_header,
    "peer-messages": lambda: protocols.numbered(messages.PeerMessage),
    "announcement": protocols.announcement,
    "status-codes": lambda: members_table(StatusCode),
    "overflow-policies": protocols.policies,
    "wire-limits": lambda: limits_table("wire.limits"),
    "admin-verbs": protocols.admin_verbs,
    "admin-limits": lambda: limits_table("endpoint.admin.desk", "endpoint.admin.protocol"),
    "endpoint-limits": lambda: limits_table(
        "endpoint.mesh.core",
        "endpoint.mesh.memory",
        "endpoint.mesh.routing",
        "endpoint.mesh.duplicates",
        "endpoint.pubsub.journal",
        "endpoint.link.limits",
        "endpoint.link.liveness",
        "endpoint.link.hold_words",
        "endpoint.pubsub.mailbox",
        "endpoint.pubsub.reader_monitor",
        "endpoint.pubsub.stream",
        "endpoint.link.busy_poll",
    ),
    "channel-producer-messages": lambda: messages_table(channels.ProducerMessage),
    "channel-consumer-messages": lambda: messages_table(channels.ConsumerMessage),
    "channel-producer-backend": lambda: methods_table(channels.ProducerBackend, "callback"),
    "channel-consumer-backend": lambda: methods_table(channels.ConsumerBackend, "callback"),
    "channel-consumer-states": lambda: protocols.drawn(consumer_trials(), "Waiting", ("Closed",)),
    "channel-consumer-trials": lambda: table(
        ("what comes", *CONSUMER_STATES), in_rows(consumer_trials(), CONSUMER_STATES)
    ),
    "channel-producer-states": lambda: protocols.drawn(producer_trials(), "Unknown"),
    "channel-producer-trials": lambda: table(
        ("what comes", *PRODUCER_STATES), in_rows(producer_trials(), PRODUCER_STATES)
    ),
    "channel-config": protocols.channel_config,
    "channel-limits": lambda: limits_table("channels.config"),
    "store-attach": lambda: store_page.store_talk(has_put=False),
    "store-put": lambda: store_page.store_talk(has_put=True),
    "store-actions": store_page.store_actions,
    "store-operations": store_page.store_operations,
    "store-batch": lambda: methods_table(Batch, "guard or step"),
    "seeker-meanings": store_page.seeker_meanings,
    "seeker-states": store_page.seeker_states,
    "seeker-moves": store_page.seeker_moves,
    "store-effects": lambda: effects_table(effects.Effect),
    "store-limits": lambda: limits_table(
        "stores.limits",
        "stores.seeker",
        "stores.scanning",
        "stores.replica.comparing",
        "stores.replica.kept",
        "stores.replica.lazy",
        "stores.replica.outsiders",
        "stores.replica.tables.proxies",
        "stores.asking",
        "stores.questions",
        "stores.history",
        "stores.watches",
    ),
    "quota-limits": lambda: limits_table("stores.quota", "endpoint.replicas.freed_memory"),
    "log-queries": lambda: log_page.log_payloads(log_messages.Query),
    "log-answers": lambda: log_page.log_payloads(log_messages.Answer),
    "log-requests": lambda: log_page.log_payloads(log_messages.Request),
    "log-limits": lambda: limits_table(
        "stores.log.limits",
        "stores.log.questions",
        "stores.replica.logs.readers",
        "stores.replica.logs.books",
    ),
    "group-roles": group_page.group_roles,
    "group-triggers": group_page.group_triggers,
    "group-rights": group_page.group_rights,
    "group-moves": group_page.group_moves,
    "group-diagram": group_page.group_diagram,
    "group-entries": lambda: messages_table(group_entries.Entry),
    "group-election-messages": lambda: messages_table(group_messages.ElectionMessage),
    "group-leader-messages": lambda: messages_table(group_messages.LeaderMessage),
    "group-follower-messages": lambda: messages_table(group_messages.FollowerMessage),
    "group-effects": lambda: effects_table(group_effects.Effect),
    "group-machine": lambda: methods_table(group_machine.Machine, "call"),
    "group-refusals": group_page.change_refusals,
    "group-limits": lambda: limits_table(
        "stores.group.limits",
        "stores.group.ballot",
        "stores.group.clock",
        "stores.group.election",
        "stores.group.electorate",
        "stores.group.followers",
        "stores.group.following",
        "stores.group.leading",
        "stores.group.membership",
        "stores.group.snapshots",
    ),
    "table-requests": lambda: messages_table(table_bodies.TableRequest),
    "table-bodies": lambda: messages_table(table_bodies.Body),
    "session-limits": lambda: limits_table(
        "stores.table.sessions",
        "endpoint.replicas.stores.session",
        "endpoint.replicas.stores.locks",
    ),
    "table-limits": lambda: limits_table(
        "stores.table.writers", "stores.table.pins", "stores.table.lineage"
    ),
    "log-machine-requests": lambda: messages_table(log_bodies.LogRequest),
    "log-machine-bodies": lambda: messages_table(log_bodies.Body),
    "qos2-limits": lambda: limits_table("peermesh.brokers.qos2.limits"),
    "qos2-pace": lambda: settings_table(Pace),
    "qos2-counters": lambda: counters_table(Counters),
}
