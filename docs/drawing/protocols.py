"""What the pages of the handshake, of routing and of channels show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import channels
import handshake
from drawing import reading
from drawing.channel_trials import Trial
from drawing.handshake_trials import NAMES, NEWER_VERSIONS, SMALL, talk
from drawing.markdown import code, fence, sequence_diagram, state_diagram, table
from drawing.reading import attributes, summary
from drawing.tables import classes_in, fields_of
from endpoint import OverflowPolicy
from endpoint.admin.desk import VERBS
from handshake.states import State
from stores.group.limits import JOURNAL_CHANNEL
from wire import codec, errors, framing, messages
from wire.identifiers import EndpointId

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


def frame_flags() -> str:
    """Draw the flags of a node frame."""
    rows = [
        (f"`0x{each.value.value:04x}`", code(each.name), each.text)
        for each in attributes(framing.Flag)
    ]
    return table(("bit", "flag", "means"), rows)


def announcement() -> str:
    """Draw what an endpoint tells about itself."""
    rows = [(code(field.name), field.text) for field in attributes(messages.Announcement)]
    return table(("field", "is"), rows)


def node_header() -> str:
    """Draw the header of a node message."""
    rows = [(code(field.name), field.text) for field in attributes(messages.NodeHeader)]
    return table(("field", "is"), rows)


def admin_verbs() -> str:
    """Draw what endpoints can be asked for, and the right that it takes."""
    rows = [
        (code(name), code(verb.right.value), ", ".join(each.__name__ for each in verb.arguments))
        for name, verb in VERBS.items()
    ]
    return table(("verb", "takes the right", "arguments"), rows)


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
            str(getattr(JOURNAL_CHANNEL, field.name)),
            field.text,
        )
        for field in attributes(channels.ChannelConfig)
    ]
    return table(("parameter", "default", "stores", "meaning"), rows)
