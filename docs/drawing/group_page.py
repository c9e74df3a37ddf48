"""What the page of replica groups shows."""

from __future__ import annotations

from drawing.markdown import code, state_diagram, table
from drawing.reading import summary
from stores.group.election import TABLE, Move
from stores.group.quorum import ChangeRefusal
from stores.group.rights import RIGHTS
from stores.group.roles import Role, Trigger
from stores.table.rights import REQUESTS


def _name(event: object) -> str:
    return event.name if isinstance(event, Trigger) else getattr(event, "__name__", str(event))


def _targets(move: Move) -> tuple[Role, ...]:
    if move.role is None:
        return ()
    return (move.role, Role.LEARNER) if move.goes_on else (move.role,)


def group_roles() -> str:
    """Draw the roles."""
    return table(("role", "the member"), [(code(each.name), each.value) for each in Role])


def group_triggers() -> str:
    """Draw what moves a role, and is no message."""
    return table(("trigger", "when"), [(code(each.name), each.value) for each in Trigger])


def group_rights() -> str:
    """Draw the right that each letter takes, and each request of a table."""
    rows: list[tuple[str, str]] = []
    rights = (*RIGHTS.values(), *REQUESTS.values())
    for right in dict.fromkeys(each for each in rights if each is not None):
        letters = [code(kind.__name__) for kind, wanted in RIGHTS.items() if wanted is right]
        asked = [kind.__name__ for kind, wanted in REQUESTS.items() if wanted is right]
        usual = [] if "`Ask`" in letters else [code(f"Ask({kind})") for kind in asked]
        rows.append((code(right), ", ".join([*letters, *usual])))
    return table(("right", "letters"), rows)


def group_moves() -> str:
    """Draw the table of moves: a row for each role, event and condition."""
    rows = []
    for role, moves in TABLE.items():
        for event, choices in moves.items():
            for move in choices:
                target = " or ".join(code(each.name) for each in _targets(move))
                condition, action = summary(move.condition), summary(move.action)
                rows.append((code(role.name), code(_name(event)), condition, action, target))
    return table(("in role", "comes", "if", "then it", "role after it"), rows)


def group_diagram() -> str:
    """Draw the diagram of the roles."""
    moves = [
        (role.name, _name(event), target.name)
        for role, events in TABLE.items()
        for event, choices in events.items()
        for move in choices
        for target in _targets(move)
        if target is not role
    ]
    later = [(role.name, "a later term", Role.FOLLOWER.name) for role in TABLE if _leaves(role)]
    return state_diagram([*moves, *later], first=Role.FOLLOWER.name, last=())


def _leaves(role: Role) -> bool:
    """Tell whether a later term takes a member out of a role."""
    return role not in (Role.LEARNER, Role.FOLLOWER)


def change_refusals() -> str:
    """Draw why voters are not changed."""
    return table(("refusal", "says"), [(code(each.name), each.value) for each in ChangeRefusal])
