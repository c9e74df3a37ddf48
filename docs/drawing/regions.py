"""Every region that a document may ask for, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from configparser import ConfigParser
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, get_args, get_origin

import channels
import handshake
from drawing import reading
from drawing.channel_trials import (
    CONSUMER_STATES,
    PRODUCER_STATES,
    Trial,
    consumer_trials,
    in_rows,
    producer_trials,
)
from drawing.handshake_trials import LARGE, NAMES, NEWER_VERSIONS, SMALL, talk
from drawing.markdown import code, fence, sequence_diagram, state_diagram, table
from drawing.reading import attributes, constants, figure, methods, summary
from drawing.store_trials import StoreTalk
from endpoint import OverflowPolicy, Settings, StatusCode
from endpoint.settings import PREFIX
from handshake.states import State
from stores import actions, commands, effects, persistence
from stores.batch import Batch
from stores.broadcasting import STORE_CHANNEL
from stores.encoding import _KINDS as STORE_KINDS
from stores.following import Phase
from stores.judgement import REQUESTS
from wire import codec, errors, framing, messages
from wire.identifiers import EndpointId

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = ("wire", "handshake", "channels", "stores", "endpoint", "peermesh")


# What many regions need.


def classes_in(union: object) -> list[type]:
    """Give the classes of a closed union, in its order."""
    return [get_origin(each) or each for each in get_args(union)]


def fields_of(thing: type) -> str:
    """Name the fields of a message."""
    return ", ".join(code(field.name) for field in attributes(thing))


def messages_table(*unions: object) -> str:
    """Draw messages: the name, what it carries, what it says."""
    found = dict.fromkeys(each for union in unions for each in classes_in(union))
    rows = [(code(each.__name__), fields_of(each), summary(each)) for each in found]
    return table(("message", "carries", "says"), rows)


def effects_table(union: object) -> str:
    """Draw effects: the name and what the driver has to do."""
    rows = [(code(each.__name__), summary(each)) for each in classes_in(union)]
    return table(("effect", "asks the driver to"), rows)


def members_table(kind: type[Enum], *, is_numbered: bool = False) -> str:
    """Draw enumerators, with their numbers if those travel."""
    rows = [
        (*((str(each.value.value),) if is_numbered else ()), code(each.name), each.text)
        for each in attributes(kind)
    ]
    return table((*(("number",) if is_numbered else ()), "name", "means"), rows)


def limits_table(*modules: str) -> str:
    """Draw the constants of modules that are numbers, with their reasons."""
    rows = []
    for module in modules:
        part = "" if len(modules) == 1 else module.rpartition(".")[2] + "."
        rows += [
            (code(part + each.name), figure(each), each.text)
            for each in constants(module)
            if isinstance(each.value, (int, float))
        ]
    return table(("limit", "is", "of what, and why"), rows)


def methods_table(thing: type, title: str) -> str:
    """Draw the methods of a class or a protocol."""
    return table((title, "means"), [(code(each.name), each.text) for each in methods(thing)])


# README and architecture.


def settings() -> str:
    """Draw what can be set for an endpoint, and how."""
    defaults = Settings()
    rows = [
        (
            code(field.name),
            code(PREFIX + field.name.upper()),
            code(str(getattr(defaults, field.name)).lower()),
            field.text,
        )
        for field in attributes(Settings)
    ]
    return table(("argument and TOML key", "variable", "default", "meaning"), rows)


def make_targets() -> str:
    """Draw what the Makefile offers, in its own words."""
    text = (ROOT / "Makefile").read_text("utf-8")
    found = re.findall(r"^\t@echo 'make (\w+) +(.*)'$", text, re.M)
    return table(("command", "does"), [(code(f"make {name}"), what) for name, what in found])


def cli_commands() -> str:
    """Draw the commands of the command line, in their own words."""
    main = import_module("peermesh.cli").main
    rows = [
        (code(f"peermesh {name}"), reading.words(command.get_short_help_str(limit=200)))
        for name, command in sorted(main.commands.items())
    ]
    return table(("command", "does"), rows)


def cores() -> tuple[str, ...]:
    """Name the pure modules and packages, as the lint contract does."""
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return tuple(contracts["importlinter:contract:pure"]["source_modules"].split())


def house(package: str) -> str:
    """Draw the modules of a package: what each is for, and whether it is pure."""
    pure = cores()

    def kind(module: str) -> str:
        is_core = any(module == core or module.startswith(f"{core}.") for core in pure)
        return "core" if is_core else ""

    rows = []
    for module in reading.modules(package):
        text = reading.words(docstring_line(module))
        is_core = kind(module) == "core"
        rows.append((code(module), kind(module), text.removesuffix(" Pure.") if is_core else text))
    return table(("module", "kind", "is for"), rows)


SOURCES: Final = {
    "monotonic time": ("trio.current_time", "time.monotonic"),
    "time of day": ("time.time", "time.time_ns", "datetime.now"),
    "waiting for time to pass": ("trio.sleep", "time.sleep"),
    "ids": ("uuid.uuid4",),
    "chance": ("random.random", "random.Random", "secrets.token_bytes", "secrets.token_hex"),
    "threads": ("threading.Thread", "trio.to_thread.run_sync"),
}
"""What cores may not have, and the names by which drivers get it."""


def sources() -> str:
    """Draw where time, chance and threads come in, for all that is not the demo."""
    users: dict[tuple[str, str], dict[str, None]] = {}
    for package in PACKAGES:
        for module in reading.modules(package):
            names = set(reading.dotted_names(module))
            for what, sources in SOURCES.items():
                for source in sources:
                    if source in names and not module.startswith("peermesh.demo"):
                        users.setdefault((what, source), {})[module] = None
    rows = [
        (what, code(source), ", ".join(map(code, users[what, source])))
        for what, sources in SOURCES.items()
        for source in sources
        if (what, source) in users
    ]
    return table(("what", "by the name", "in"), rows)


def docstring_line(module: str) -> str:
    """Give the first paragraph of a module's docstring."""
    tree = reading.tree(module)
    first = tree.body[0] if tree.body else None
    text = getattr(getattr(first, "value", None), "value", "")
    assert isinstance(text, str), f"{module} has no docstring"
    return text.partition("\n\n")[0]


# Handshake.

DROP: Final = messages.DropConn.__name__


def handshake_moves() -> Iterable[tuple[str, str, str]]:
    """Give the moves of the handshake's table, one for each next state."""
    for state, trigger, next_states in handshake.transitions():
        for next_state in next_states:
            yield state.name, trigger, next_state.name


def handshake_states() -> str:
    """Draw the state diagram, without the drops that may come anywhere."""
    moves = [move for move in handshake_moves() if move[1] != DROP]
    last = (State.ESTABLISHED.name, State.CLOSED.name)
    return state_diagram(moves, first=State.NEW.name, last=last)


def handshake_transitions() -> str:
    """Draw the table of legal moves."""
    rows = [
        (code(state.name), code(trigger), ", ".join(code(each.name) for each in next_states))
        for state, trigger, next_states in handshake.transitions()
    ]
    return table(("in state", "comes", "leads to"), rows)


def handshake_sequence(*diallers: EndpointId, is_mixed: bool = False) -> str:
    """Draw a conversation that two real handshakes had."""
    versions = {SMALL: NEWER_VERSIONS} if is_mixed else None
    return sequence_diagram(tuple(NAMES.values()), talk(*diallers, versions=versions))


def handshake_messages() -> str:
    """Draw the messages, with the numbers that they have on the wire."""
    return numbered(messages.HandshakeMessage)


def numbered(union: object) -> str:
    """Draw control messages with their frame kinds; the preamble is no frame."""
    kinds = {kind.name.replace("_", "").lower(): kind.value for kind in codec.ControlKind}
    rows = []
    for each in classes_in(union):
        number = kinds.get(each.__name__.lower())
        assert number is not None or each is messages.Preamble, f"{each} has no ControlKind"
        cells = (code(each.__name__), fields_of(each), summary(each))
        rows.append(("" if number is None else str(number), *cells))
    return table(("kind", "message", "carries", "says"), rows)


def error_codes() -> str:
    """Draw the codes that travel, and the classes that are raised for them."""
    raised: dict[errors.ErrorCode, list[str]] = {}
    for error in vars(errors).values():
        if (
            isinstance(error, type)
            and issubclass(error, errors.MeshError)
            and "code" in vars(error)
        ):
            raised.setdefault(error.code, []).append(code(error.__name__))
    rows = [
        (str(each.value), code(each.name), ", ".join(raised.get(each, ())))
        for each in errors.ErrorCode
    ]
    return table(("number", "code", "error that always has it"), rows)


# Routing.

WIDTHS: Final = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def frames() -> str:
    """Give the picture of a frame that stands in the code."""
    text = framing.__doc__ or ""
    block = re.search(r"::\n\n((?: {4}.*\n)+)", text)
    assert block is not None, "wire.framing shows no picture of a frame"
    return fence("text", *(line[4:] for line in block[1].rstrip().splitlines()))


def frame_front() -> str:
    """Draw the fields of a frame's front, at the offsets that the struct gives them."""
    text = framing.__doc__ or ""
    found = re.search(r"^ +front +(u32 .*\n(?: +\|.*\n)*)", text, re.M)
    assert found is not None, "wire.framing does not say what a front is"
    offset, rows = 0, []
    for field in found[1].split("|"):
        width, _, name = reading.words(field).partition(" ")
        rows.append((str(offset), str(WIDTHS[width]), name))
        offset += WIDTHS[width]
    assert offset == framing.FRONT_SIZE, f"the front has {framing.FRONT_SIZE} bytes, not {offset}"
    return table(("offset", "bytes", "field"), rows)


def announcement() -> str:
    """Draw what an endpoint tells about itself."""
    rows = [(code(field.name), field.text) for field in attributes(messages.Announcement)]
    return table(("field", "is"), rows)


def node_header() -> str:
    """Draw the header of a node message."""
    rows = [(code(field.name), field.text) for field in attributes(messages.NodeHeader)]
    return table(("field", "is"), rows)


def policies() -> str:
    """Draw the overflow policies."""
    return ", ".join(code(policy.value) for policy in OverflowPolicy)


# Channel.


def drawn(trials: Sequence[Trial], first: str, last: Sequence[str] = ()) -> str:
    """Draw the moves that trials found."""
    moves = [(each.before, each.trigger, each.after) for each in trials]
    return state_diagram((move for move in moves if move[0] != move[2]), first=first, last=last)


def channel_config() -> str:
    """Draw the parameters of a channel, with Broker's values and those of the stores."""
    rows = [
        (
            code(field.name),
            str(getattr(channels.ChannelConfig(), field.name)),
            str(getattr(STORE_CHANNEL, field.name)),
            field.text,
        )
        for field in attributes(channels.ChannelConfig)
    ]
    return table(("parameter", "default", "stores", "meaning"), rows)


# Store.


def store_talk(*, has_put: bool) -> str:
    """Draw a conversation of a master and two clones: how they attach, or a put after that."""
    talk_of_three = StoreTalk()
    names = tuple(talk_of_three.names.values())
    steps = talk_of_three.attach()
    return sequence_diagram(names, talk_of_three.put() if has_put else steps)


def store_commands() -> str:
    """Draw the commands between masters and clones, by kind."""
    rows = [
        (
            str(STORE_KINDS[each]),
            code(each.__name__),
            code(commands.tag_of(object.__new__(each)).value),
            fields_of(each),
            summary(each),
        )
        for each in sorted(classes_in(commands.Content), key=STORE_KINDS.__getitem__)
    ]
    return table(("kind", "command", "tag", "carries", "says"), rows)


def store_mapping() -> str:
    """Draw how commands map to messages of the channel."""
    rows = [
        (code(command.__name__), code(f"channels.{message.__name__}"))
        for command, message in commands.CHANNEL_MESSAGES.items()
    ]
    return table(("command", "channel message"), rows)


def store_actions() -> str:
    """Draw the payloads, by kind, and who says them."""
    rows = [
        (
            str(STORE_KINDS[each]),
            code(each.__name__),
            "writer" if each in REQUESTS else "master",
            fields_of(each),
            summary(each),
        )
        for each in sorted(classes_in(actions.Action), key=STORE_KINDS.__getitem__)
    ]
    return table(("kind", "action", "begins with", "carries", "says"), rows)


def store_phases() -> str:
    """Draw how far a clone may be."""
    rows = [(code(phase.name), phase.value) for phase in Phase]
    return table(("phase", "the clone is"), rows)


REGIONS: Final[dict[str, Callable[[], str]]] = {
    "settings": settings,
    "make-targets": make_targets,
    **{f"house-{package}": partial(house, package) for package in PACKAGES},
    "sources": sources,
    "handshake-states": handshake_states,
    "handshake-transitions": handshake_transitions,
    "handshake-state-meanings": lambda: members_table(State),
    "handshake-messages": handshake_messages,
    "handshake-effects": lambda: effects_table(handshake.Effect),
    "handshake-claims": lambda: members_table(handshake.Claim),
    "handshake-standings": lambda: members_table(handshake.Standing),
    "handshake-larger-dials": lambda: handshake_sequence(LARGE),
    "handshake-smaller-dials": lambda: handshake_sequence(SMALL),
    "handshake-both-dial": lambda: handshake_sequence(LARGE, SMALL),
    "handshake-versions": lambda: handshake_sequence(LARGE, is_mixed=True),
    "handshake-limits": lambda: limits_table(
        "handshake.machine", "handshake.keepalive", "endpoint.dialer", "endpoint.network"
    ),
    "error-codes": error_codes,
    "frames": frames,
    "frame-front": frame_front,
    "packed-types": lambda: members_table(messages.PackedType, is_numbered=True),
    "node-header": node_header,
    "peer-messages": lambda: numbered(messages.PeerMessage),
    "announcement": announcement,
    "status-codes": lambda: members_table(StatusCode),
    "overflow-policies": policies,
    "wire-limits": lambda: limits_table("wire.limits"),
    "endpoint-limits": lambda: limits_table(
        "endpoint.core",
        "endpoint.duplicates",
        "endpoint.outbox",
        "endpoint.mailbox",
        "endpoint.vigil",
        "endpoint.stream",
    ),
    "channel-producer-messages": lambda: messages_table(channels.ProducerMessage),
    "channel-consumer-messages": lambda: messages_table(channels.ConsumerMessage),
    "channel-producer-backend": lambda: methods_table(channels.ProducerBackend, "callback"),
    "channel-consumer-backend": lambda: methods_table(channels.ConsumerBackend, "callback"),
    "channel-consumer-states": lambda: drawn(consumer_trials(), "Waiting", ("Closed",)),
    "channel-consumer-trials": lambda: table(
        ("what comes", *CONSUMER_STATES), in_rows(consumer_trials(), CONSUMER_STATES)
    ),
    "channel-producer-states": lambda: drawn(producer_trials(), "Unknown"),
    "channel-producer-trials": lambda: table(
        ("what comes", *PRODUCER_STATES), in_rows(producer_trials(), PRODUCER_STATES)
    ),
    "channel-config": channel_config,
    "channel-limits": lambda: limits_table("channels.config"),
    "store-attach": lambda: store_talk(has_put=False),
    "store-put": lambda: store_talk(has_put=True),
    "store-commands": store_commands,
    "store-mapping": store_mapping,
    "store-actions": store_actions,
    "store-batch": lambda: methods_table(Batch, "guard or step"),
    "store-phases": store_phases,
    "store-effects": lambda: effects_table(effects.Effect),
    "store-backend": lambda: methods_table(persistence.StoreBackend, "call"),
    "store-limits": lambda: limits_table(
        "stores.limits", "stores.following", "stores.broadcasting", "stores.clone"
    ),
}
