"""Holders of sessions in the model over the machine of stores, with clocks and pauses of their own.

Each opens a session, puts a key in it, renews it and now and then ends it. It counts its time from
the sending of its last acknowledged renewal. Until then no member may have ended the session; and
none may be renewed that was ended. All that is left behind is gone in the end, everywhere.
"""

from __future__ import annotations

from contextlib import contextmanager
from random import Random

import pytest

from stores.actions import PutCommand
from stores.group.effects import Failed, Replied
from stores.lives import life_of
from stores.table import bodies, sessions
from tests.stores.group import disk, world
from tests.stores.group.checks import Violation
from tests.stores.group.client import PATIENCE_MS
from tests.stores.table.model import Missed, TableClient, TableLists, over_tables, writer_of
from wire.decoding import decode
from wire.encoding import encode

HOLDERS = 3
MS = 1_000_000
TTL_MS_MIN = 600


class SessionLists(TableLists):
    """The machine; it tells when it ends a session."""

    ended = None
    """Called with each session that a member has ended."""

    def apply(self, position, body):
        answer = super().apply(position, body)
        if isinstance(body, bodies.SessionsEnded):
            for session in body.sessions:
                type(self).ended(session)
        return answer


class Holder:
    """One program that holds a session after another."""

    def __init__(self, world, number):
        self.world = world
        self.number = number
        self.random = Random(world.random.random())
        self.rate = self.random.uniform(0.95, 1.05)
        self.life = self.request = self.attempt = 0
        self.begun = self.what = self.goal = None
        self.is_stopping = False
        world.after(self.random.uniform(200, 900), self.begin)

    def begin(self):
        """Start anew: with a nonce, and as a writer of its own."""
        if self.is_stopping:
            return
        self.life += 1
        self.session = self.writer = None
        self.until = 0.0
        self.is_ending = False
        self.ttl_ms = self.random.uniform(TTL_MS_MIN, 2 * TTL_MS_MIN)
        self.nonce = f"{self.number}/{self.life}"
        ttl_ns = round(self.ttl_ms * MS)
        self.start("open", bodies.OpenSession(writer_of(self.nonce)[:16], ttl_ns))

    def start(self, kind, request):
        self.request += 1
        self.begun, self.what = self.world.now, (kind, request)
        self.ask()

    def ask(self):
        if self.begun is None:
            return
        self.attempt += 1
        self.world.after(PATIENCE_MS, self.ask_again, self.attempt)
        names = sorted(self.world.members)
        if names:
            is_known = self.goal in names and self.random.random() < 0.8
            name = self.goal if is_known else self.random.choice(names)
            caller = (self.number, self.request, None)
            self.world.send(self.number, name, self.world.propose, name, caller, self.what[1])

    def ask_again(self, attempt):
        if attempt == self.attempt and self.begun is not None:
            self.goal = None
            self.ask()

    def hear(self, name, effect, values):
        if effect.caller[1] != self.request or self.begun is None:
            return
        if isinstance(effect, Failed):
            self.goal = effect.leader.name if effect.leader is not None else None
            self.attempt += 1
            self.world.after(20, self.ask)
        elif isinstance(effect, Replied):
            begun, self.begun, self.goal = self.begun, None, name
            getattr(self, f"on_{self.what[0]}")(begun, effect.answer)

    # -- one after the other ---------------------------------------------------------------------

    def renewed(self, begun):
        """Count from the sending, with a clock of its own; once it is over it stays so."""
        if self.world.now < self.until or not self.until:
            self.until = begun + self.ttl_ms / self.rate

    def on_open(self, begun, answer):
        self.session = answer.session
        self.world.sessions[self.session] = self
        self.renewed(begun)
        self.start("register", bodies.Register(writer_of(self.nonce)))

    def on_register(self, begun, answer):
        pairs = [encode(("held", self.nonce)), encode("held")]
        put = PutCommand(writer_of(self.nonce), 1, life_of(self.session), pairs)
        self.start("put", bodies.Write(answer, (put,)))

    def on_put(self, begun, answer):
        if isinstance(answer, Missed) and self.world.now < self.until:
            raise Violation(f"a put in session {self.session} was refused before its time")
        self.renew()

    def renew(self):
        if not self.is_stopping:
            self.start("renew", bodies.RenewSession(self.session))

    def on_renew(self, begun, answer):
        world, ended = self.world, self.world.ended.get(self.session)
        if not answer.is_alive:
            if world.now < self.until and not self.is_ending:
                raise Violation(f"session {self.session} was refused before its time")
            world.after(self.random.uniform(1, 60), self.begin)
            return
        if ended is not None and ended <= begun:
            raise Violation(f"session {self.session} was renewed, and had ended at {ended:.0f} ms")
        world.figures["renewed"] += 1
        self.renewed(begun)
        drawn = self.random.random()
        if drawn < 0.1:
            self.is_ending = True
            self.start("end", bodies.EndSession(self.session))
        elif drawn < 0.2:
            world.after(self.random.uniform(0, 3000), self.renew)
        elif drawn < 0.25:
            world.after(self.random.uniform(1, 60), self.begin)  # It was killed, and starts anew.
        else:
            world.after(self.ttl_ms / 3 / self.rate, self.renew)

    def on_end(self, begun, answer):
        self.world.figures["ended"] += 1
        self.world.after(self.random.uniform(1, 60), self.begin)


class SessionWorld(world.World):
    """A world with holders beside the clients."""

    def __init__(self, seed):
        self.sessions, self.ended = {}, {}
        SessionLists.ended = self.on_ended
        super().__init__(seed)

    def on_ended(self, session):
        self.ended.setdefault(session, self.now)
        holder = self.sessions.get(session)
        if holder is None or holder.is_ending or holder.session != session:
            return
        if self.now < holder.until:
            raise Violation(
                f"session {session} ended at {self.now:.0f} ms: its holder counts on it until"
                f" {holder.until:.0f} ms"
            )
        self.figures["expired"] += 1

    def check(self):
        for client in self.clients:
            if isinstance(client, Holder):
                client.begun = None  # It renews no more.
        super().check()
        for member in self.members.values():
            machine = member.state.machine
            held = [key for key in map(decode, machine) if type(key) is tuple and key[0] == "held"]
            if held or list(machine._lifetimes.sessions.rows()):
                raise Violation(f"sessions are left at {member.id}: {held}")


def client(world, number):
    return Holder(world, number) if number >= 2 else TableClient(world, number)


@contextmanager
def over_sessions():
    """Have the model run with holders."""
    with over_tables(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "Lists", SessionLists)
        patch.setattr(disk, "Lists", SessionLists)
        patch.setattr(world, "Client", client)
        patch.setattr(world, "CLIENTS", 2 + HOLDERS)
        patch.setattr(sessions, "TTL_NS_MIN", TTL_MS_MIN * MS)
        patch.setattr(sessions, "SESSIONS_MAX", 1_000)
        yield


def run_seed(seed):
    """Run one world; gives what was violated, or ``None``, and figures."""
    with over_sessions():
        return world.run_seed(seed, SessionWorld)
