"""Letters to a store's replicas that no honest one writes: nonsense, and lies about numbers."""

from __future__ import annotations

import channels
from stores.actions import PutCommand, WriterId
from stores.group.clock import Times
from stores.group.effects import Setback
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    HigherTerm,
    Join,
    Keepalive,
    Message,
    PreVote,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
    SnapshotHead,
    SnapshotPart,
    TimeoutNow,
    ToFollower,
    Vote,
)
from stores.group.positions import MemberId, Position
from stores.group.words import (
    Answered,
    Ask,
    Cede,
    Declined,
    Differs,
    Farewell,
    Greeting,
    JournalEnd,
    Leads,
    Looked,
    Order,
    Seek,
    Steer,
    Verdict,
    Verify,
    Word,
)
from stores.questions import LookUpCommand, ReadAnswerCommand, ScanCommand
from stores.table.bodies import Found, Read, Register, Registration, Stamp, Write
from stores.table.parts import EntriesPart
from stores.table.rows import Rows
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

FAR = 2**62
FAR_AWAY = Position(FAR, FAR)


def questions(sender: EntityId, term: int, *far: int) -> list[Message | Word]:
    """Give what a clone or a proxy asks, made nonsense of, in sessions that are ``far``, too."""
    writer = WriterId.of(sender, 1)
    look_up = LookUpCommand(FAR, FAR, encode("k"), has_value=True)
    scan = ScanCommand(FAR, 0, encode("k"), None, FAR, has_values=True)
    return [
        *(Join(term, session, ends) for session in (0, 1, *far) for ends in ((), (FAR_AWAY,))),
        Echo(term, FAR),
        *(
            FromFollower(term, session, is_whole=True, message=message)
            for session in (0, 1, *far)
            for message in (
                channels.CumulativeAck(term, FAR),
                channels.Nack(term, (1, 2, 3)),
                channels.Nack(term, (FAR, FAR + 1)),
            )
        ),
        *(SnapshotAck(term, session, FAR) for session in (0, 1, *far)),
        ReadIndex(term, FAR),
        PreVote(term, FAR_AWAY),
        Vote(term, FAR_AWAY, is_handed=True),
        Greeting((), is_question=True),
        Greeting(("x",), is_question=False),
        JournalEnd(FAR_AWAY, is_led=False),
        Ask(FAR, Register(writer)),
        Ask(FAR, Write(FAR, (PutCommand(writer, FAR, None, [encode("k"), encode("forged")]),), 0)),
        *(
            Ask(FAR, Read(Stamp(FAR, FAR), is_linear, question))
            for is_linear in (False, True)
            for question in (look_up, scan)
        ),
        Verify(FAR),
        Looked(FAR, (FAR, FAR, FAR)),
        *(Steer(FAR, order, "nobody") for order in Order),
        Seek(FAR),
        Farewell(),
    ]


def answers(own: MemberId, term: int, *far: int) -> list[Message | Word]:
    """Give what a master says, of a term that another one leads in."""
    head = SnapshotHead(FAR_AWAY, (own,), Times(1, 1), 1, 0)
    found = ReadAnswerCommand(FAR, Rows([encode("k")], [encode("forged")], [FAR]), None)
    return [
        Keepalive(term, FAR, FAR, FAR, Times(FAR, FAR)),
        *(Admitted(term, session, FAR, FAR, head) for session in (0, 1, *far)),
        ToFollower(term, None, channels.Heartbeat(term, FAR), FAR),
        ToFollower(term, 1, channels.RetransmitFailed(term, 1)),
        ToFollower(term, 1, channels.UnknownConsumer(term)),
        SnapshotPart(term, 1, 0, EntriesPart((encode("k"), encode("forged")), (FAR,), ())),
        ReadFrom(term, 1, FAR),
        HigherTerm(term),
        TimeoutNow(term),
        Answered(1, Registration(1, FAR)),
        Answered(1, Found(Stamp(FAR, FAR), found)),
        Declined(1, Setback.UNKNOWN),
        Verdict(1, ((EndpointId(bytes(16)), (FAR, FAR, FAR)),)),
        Differs(1),
        Leads(FAR, term),
        Cede(),
    ]
