"""What the page of the stores shows."""

from __future__ import annotations

from drawing.markdown import code, sequence_diagram, state_diagram, table
from drawing.reading import summary
from drawing.store_trials import NAMES, StoreTalk
from drawing.tables import classes_in, fields_of
from stores import actions, operations
from stores.encoding import _KINDS as STORE_KINDS
from stores.judgement import REQUESTS
from stores.seeker import MOVES, Event, Move, State


def store_talk(*, has_put: bool) -> str:
    """Draw a conversation of a master and two clones: how they attach, or a put after that."""
    talk_of_three = StoreTalk()
    steps = talk_of_three.attach()
    return sequence_diagram(NAMES, talk_of_three.put() if has_put else steps)


def store_actions() -> str:
    """Draw the payloads, by kind, and who says them."""
    rows = [
        (
            str(STORE_KINDS[each]),
            code(each.__name__),
            "writer" if each in REQUESTS else "leader",
            fields_of(each),
            summary(each),
        )
        for each in sorted(classes_in(actions.Action), key=STORE_KINDS.__getitem__)
    ]
    return table(("kind", "action", "begins with", "carries", "says"), rows)


def store_operations() -> str:
    """Give the table of what adding and subtracting mean, as it stands in the code."""
    lines = [line for line in (operations.__doc__ or "").splitlines() if line.startswith("|")]
    assert lines, "stores.operations shows no table"
    return "\n".join(lines)


def seeker_meanings() -> str:
    """Draw how far a reader may be with its leader."""
    return table(("state", "the reader is"), [(code(state.name), state.value) for state in State])


def seeker_states() -> str:
    """Draw the state diagram, without the moves that stay."""
    moves = [
        (state.name, event.value, move.state.name)
        for state, cells in MOVES.items()
        for event, move in cells.items()
        if move.state is not state
    ]
    return state_diagram(moves, first=State.SEARCHING.name, last=())


def seeker_moves() -> str:
    """Draw the whole table: a row for each event, a column for each state."""
    rows = [
        (event.value, *(_cell(state, MOVES[state][event]) for state in State)) for event in Event
    ]
    return table(("what happens", *(code(state.name) for state in State)), rows)


def _cell(state: State, move: Move) -> str:
    target = [] if move.state is state else [f"→ {code(move.state.name)}"]
    return "; ".join([*target, *(action.value for action in move.actions)]) or "stays"
