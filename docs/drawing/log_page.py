"""What the page of the logs shows."""

from __future__ import annotations

from drawing.markdown import code, table
from drawing.reading import summary
from drawing.tables import classes_in, fields_of
from stores import commands
from stores.encoding import _KINDS as COMMAND_KINDS
from stores.log import messages
from stores.log.encoding import kinds
from stores.log.follower import Phase

_FROM_KEEPER = (
    *(messages.Welcome, messages.Answers, messages.Admitted),
    *(messages.MemoryPage, messages.Answer, messages.Proclaim),
)


def log_messages() -> str:
    """Draw the messages of logs, by kind, and who says them."""
    spoken_by_keeper = {each for said in _FROM_KEEPER for each in classes_in(said)}
    rows = [
        (
            str(kind),
            code(each.__name__),
            "keeper" if each in spoken_by_keeper else "reader",
            fields_of(each),
            summary(each),
        )
        for kind, each in sorted(kinds().items())
    ]
    return table(("kind", "message", "from", "carries", "says"), rows)


def channel_commands() -> str:
    """Draw the commands that the ends of channels say to each other, by kind."""
    rows = [
        (str(COMMAND_KINDS[each]), code(each.__name__), fields_of(each), summary(each))
        for each in sorted(classes_in(commands.Content), key=COMMAND_KINDS.__getitem__)
    ]
    return table(("kind", "command", "carries", "says"), rows)


def log_payloads(union: object) -> str:
    """Draw the payloads of one of the two channels."""
    rows = [(code(each.__name__), fields_of(each), summary(each)) for each in classes_in(union)]
    return table(("payload", "carries", "says"), rows)


def log_phases() -> str:
    """Draw how far a follower may be."""
    rows = [(code(phase.name), phase.value) for phase in Phase]
    return table(("phase", "the follower is"), rows)
