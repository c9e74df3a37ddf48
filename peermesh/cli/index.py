"""Where each command is, and its line in a help: to list commands, none is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that is imported when it is asked for."""

    module: str
    """Below ``peermesh.cli``; the command has its own name there, or ``NAME_command``."""
    help: str
    """The first sentence of its help."""
    is_hidden: bool = False


COMMANDS: Final = {
    "access": Entry(
        "access",
        "Make tokens and users for gateways; what they may do is in the roles, by their names.",
    ),
    "broker": Entry(
        "groups",
        "Run a broker: a bus of modules, channels for topics, or durable topics over lines.",
    ),
    "certs": Entry(
        "certs",
        "Be the authority of a mesh: issue certificates whose names its endpoints can believe.",
    ),
    "check": Entry(
        "check",
        "Tell whether a recorded HISTORY kept its promises; the code is 1 if one did not.",
    ),
    "completion": Entry(
        "completion",
        "Write the script that lets a SHELL complete commands, options, and names of stores and "
        "logs.",
    ),
    "context": Entry("contexts", "Name meshes, and choose the one that commands are about."),
    "demo": Entry(
        "demo",
        "Count a file of events exactly, while the processes that count them are killed.",
    ),
    "describe": Entry(
        "describing",
        "Write what a NODE says of its process, links, subscribers, stores and logs.",
    ),
    "dlq": Entry("qos2", "Look at dead letters of a QoS-2 broker; replay or purge them."),
    "help": Entry("helping", "Write the help of a COMMAND, or of the options of the connection."),
    "link": Entry("link", "Lead TCP connections through faults, or join the mesh to a Zeek."),
    "log": Entry("groups", "Keep a replicated log, append to it, and read it."),
    "node": Entry("node", "Be an endpoint of the mesh until Ctrl-C, and write what happens."),
    "pub": Entry("messages", 'Publish VALUE on TOPIC; with "-" for VALUE, each line of stdin.'),
    "secret": Entry(
        "joining",
        "Make the secret that lets endpoints into one mesh, or tell which one it is.",
    ),
    "serve": Entry("serve", "Serve a store, or topics, to programs that do not know of the mesh."),
    "spark": Entry("spark", "See what jobs of Spark have done, and what they do."),
    "store": Entry("groups", "Look into a replicated store, and change it."),
    "sub": Entry(
        "messages",
        "Write every message whose topic begins with one of the TOPICs, until Ctrl-C.",
    ),
    "ticket": Entry(
        "joining",
        "Make join tickets: where a mesh is and its secret, in one string for --peer.",
    ),
    "topic": Entry(
        "topics", "Look at the topics and consumers of a QoS-2 broker; delete or forget one."
    ),
}

BROKERS: Final = {
    "edge": Entry(
        "edge",
        "Run an edge broker: each topic gets a channel with two ports of its own.",
    ),
    "edge-pub": Entry("edge", 'Send VALUE on TOPIC; with "-" for VALUE, each line of stdin.'),
    "edge-sub": Entry(
        "edge",
        "Write every message on these TOPICs, which need not exist yet, until Ctrl-C.",
    ),
    "modules": Entry(
        "broker",
        "Run the modules of the TOML file LAYOUT, and carry messages along its links.",
    ),
    "qos2": Entry("qos2", "Keep topics, and deliver each message exactly once."),
}

LOGS: Final = {
    "add": Entry(
        "log_members",
        "Give the replica of a log at the endpoint called MEMBER a vote, once it is level.",
    ),
    "append": Entry(
        "logs",
        'Append a VALUE, and write its partition and offset; with "-", each line of stdin.',
    ),
    "consumers": Entry(
        "logs",
        "Write the named consumers, with how many entries each has not committed.",
    ),
    "follow": Entry(
        "log_keeping",
        "Have a copy of a log until Ctrl-C, and be promoted if it comes to that.",
    ),
    "keep": Entry(
        "log_keeping",
        "Run the keeper of a log until Ctrl-C; peers that do not answer are tried again, for ever.",
    ),
    "members": Entry("log_members", "Write who is in the group of a log, as its leader knows it."),
    "offsets": Entry("logs", "Write where each partition begins and ends."),
    "promote": Entry(
        "log_keeping",
        "Make a node that follows a log its keeper, or a replica the leader of its group.",
    ),
    "quota": Entry(
        "log_members",
        "Write what the group of a log holds, and may hold; change that if it is given.",
    ),
    "read": Entry("logs", "Write entries of a partition, one a line: offset and value."),
    "remove": Entry(
        "log_members",
        "Take the vote of the replica of a log at the endpoint called MEMBER.",
    ),
    "replay": Entry(
        "log_replay",
        "Put the dead letters of a job of Spark back into the log that they came from.",
    ),
    "replica": Entry(
        "log_keeping",
        "Have a replica of a log whose group elects its leader, until Ctrl-C.",
    ),
    "transfer": Entry("log_members", "Have the voter of a log at the endpoint called MEMBER lead."),
    "watch": Entry("logs", "Write the entries of all partitions as they come, until Ctrl-C."),
}

STORES: Final = {
    "add": Entry(
        "members",
        "Give the replica of a store at the endpoint called MEMBER a vote, once it is level.",
    ),
    "cas": Entry(
        "mutating",
        "Compare and set: set a KEY to a VALUE if nothing else has changed it, and write the "
        "revision.",
    ),
    "delete": Entry(
        "mutating",
        "Remove a KEY, and write the revision that this made; the code is 1 if it is missing.",
    ),
    "dump": Entry(
        "dumping",
        'Write all entries of a store to a FILE ("-" is stdout), as of one moment.',
    ),
    "erase": Entry(
        "mutating",
        "Remove a KEY, and write the revision that this made; the code is 1 if it is missing.",
        is_hidden=True,
    ),
    "events": Entry("following", "Write what happens to each key from now on, until Ctrl-C."),
    "get": Entry("stores", "Write the value of a KEY; the code is 1 if the key is missing."),
    "increment": Entry(
        "mutating",
        "Add AMOUNT, which is 1 if not given, to the number at a KEY, and write the revision.",
    ),
    "keys": Entry("stores", "Write all keys, one a line, in no order."),
    "load": Entry(
        "dumping",
        'Put all entries of a FILE ("-" is stdin), which "dump" wrote, into a store that is empty.',
    ),
    "lock": Entry(
        "locking",
        "Hold a LOCK of a store while a COMMAND runs, and end with the code of the command.",
    ),
    "members": Entry("members", "Write who is in the group of a store, as its leader knows it."),
    "new-key": Entry(
        "keys",
        "Put a new key into a key FILE, before those that are there, and write its fingerprint.",
    ),
    "promote": Entry(
        "stores",
        "Make the clone of a node the master of its store, or a replica the leader of its group.",
    ),
    "put": Entry("mutating", "Set a KEY to a VALUE, and write the revision that this made."),
    "quota": Entry(
        "members",
        "Write what the group of a store holds, and may hold; change that if it is given.",
    ),
    "rekey": Entry("keys", "Put the FILES of stores and logs under the first key of the key file."),
    "remove": Entry(
        "members",
        "Take the vote of the replica of a store at the endpoint called MEMBER.",
    ),
    "scan": Entry("following", "Write keys and values in the order of keys."),
    "transfer": Entry("members", "Have the voter of a store at the endpoint called MEMBER lead."),
    "verify": Entry(
        "stores",
        "Compare what all replicas of a store hold; the code is 1 if one differs or is silent.",
    ),
    "watch": Entry(
        "following",
        "Write what there is, and then every change, until Ctrl-C; nothing is left out unsaid.",
    ),
}
