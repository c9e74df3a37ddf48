"""Members without time or chance: mail waits until it is passed on, writes until they are synced.

For schedules that random worlds hardly ever draw. A link is a string of names that reach each
other: ``"abc"``.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from stores.group.clock import Moment
from stores.group.effects import (
    Broadcast,
    Failed,
    Persist,
    Readable,
    Replied,
    SavePromises,
    Send,
    SyncMarks,
    WriteMark,
)
from stores.group.member import Member
from stores.group.membership import NO_VOTERS_WANTED
from stores.group.messages import Echo, HigherTerm, Keepalive, TimeoutNow, Vote, VoteGranted
from stores.group.positions import MemberId
from stores.group.quorum import ChangeRefusal
from stores.group.roles import Role
from tests.stores.group.checks import Violation, Witness
from tests.stores.group.disk import Disk, empty_file
from tests.stores.group.lists import Lists, Noop

TICK_NS = 100_000_000


class Setup(Exception):
    """The schedule itself did not come about: it shows nothing."""


def need(condition, what):
    """Say what must be so for a rule to hold."""
    if not condition:
        raise Violation(what)


def given(condition, what):
    """Say what must be so for the schedule to make sense."""
    if not condition:
        raise Setup(what)


class Stage:
    def __init__(
        self, names="abc", voters=None, wanted=NO_VOTERS_WANTED, *, is_volatile=False, ack_entries=1
    ):
        self.names, self.wanted = names, wanted
        self.is_volatile, self.ack_entries = is_volatile, ack_entries
        voters = names if voters is None else voters
        self.ids = {name: MemberId(name, 0) for name in names}
        config = tuple(self.ids[name] for name in voters)
        self.disks = {name: Disk(self.ids[name], empty_file(config)) for name in names}
        self.members, self.writes, self.told = {}, {name: [] for name in names}, []
        self.mail, self.starts = [], 0
        self.now = dict.fromkeys(names, 0)
        self.saves_ballots = True
        """False leaves promises unsaved until ``save``."""
        self.witness = Witness(config)
        for name in names:
            self.start(name)

    # -- members ---------------------------------------------------------------------------------

    def start(self, name):
        disk, machine = self.disks[name], Lists()
        machine.install(disk.file.parts)
        draw = Random(f"{name} {self.starts}").randint
        self.starts += 1
        stored = replace(disk.stored(), is_volatile=self.is_volatile)
        member = self.members[name] = Member(
            stored, machine, draw, wanted=self.wanted, ack_entries=self.ack_entries
        )
        self.carry(member, member.start(self.moment(name)))
        return member

    def crash(self, *names):
        """Lose all that was not synced, and all mail from and to these."""
        for name in names:
            self.members.pop(name, None)
            self.writes[name].clear()
            gone = self.ids[name]
            self.mail = [letter for letter in self.mail if gone not in letter[:2]]

    def moment(self, name):
        return Moment(self.now[name], self.now[name] + 10**18)

    def do(self, name, call, *arguments):
        member = self.members[name]
        result = getattr(member, call)(*arguments)
        value, effects = result if isinstance(result, tuple) else (None, result)
        self.carry(member, effects)
        self.carry(member, member.settle())
        return value

    def leader(self):
        roles = ((name, member.role) for name, member in self.members.items())
        return next((name for name, role in roles if role is Role.LEADER), None)

    # -- effects ---------------------------------------------------------------------------------

    def carry(self, member, effects):
        name = member.id.name
        for effect in effects:
            self.witness.see(member, effect)
            match effect:
                case Send(to=to, message=message):
                    self.mail.append((member.id, to, message))
                case Broadcast(message=message):
                    others = [each for each in self.names if each != name]
                    self.mail += [(member.id, self.ids[each], message) for each in others]
                case Replied() | Failed():
                    self.told.append(effect)
                case Readable():
                    self.told.append((effect, dict(member.state.machine.state.lists)))
                case WriteMark():
                    self.disks[name].write_mark(effect)
                    self.disks[name].truth = effect.mark
                case Persist() | SavePromises() | SyncMarks():
                    self.writes[name].append(effect)
        if self.saves_ballots:
            self.save(name)

    def save(self, name):
        """End the syncs of the ballot."""
        while found := [each for each in self.writes[name] if not isinstance(each, Persist)]:
            effect, disk = found[0], self.disks[name]
            self.writes[name].remove(effect)
            if isinstance(effect, SavePromises):
                disk.promises = effect.promises
                self.do(name, "promises_saved", effect.token)
            else:
                disk.synced_slots = list(disk.slots)
                self.do(name, "marks_synced", effect.number)

    def sync(self, *names):
        """End all writes of the journal, and those that follow from it."""
        for name in names:
            while writes := [each for each in self.writes[name] if isinstance(each, Persist)]:
                self.writes[name].remove(writes[0])
                self.disks[name].file = self.disks[name].file.persist(writes[0])
                self.do(name, "persisted", writes[0].token)

    # -- mail and time ---------------------------------------------------------------------------

    def clear(self):
        self.mail = []

    def pass_on(self, *links, kinds=(), sync="", rounds=40):
        """Deliver between these until nothing is left, ending the writes of some meanwhile."""
        for _ in range(rounds):
            self.sync(*[name for name in sync if name in self.members])
            ready = [letter for letter in self.mail if self._passes(letter, links, kinds)]
            if not ready:
                return
            self.mail = [letter for letter in self.mail if letter not in ready]
            for sender, to, message in ready:
                self.deliver(sender, to, message)

    def change(self, name, voters, *links):
        """Ask for other voters, and once more when those in reach echoed the change's round."""
        refusal = self.do(name, "change", voters)
        if refusal is ChangeRefusal.UNCONFIRMED:
            self.pass_on(*(links or ["".join(self.names)]), kinds=(Keepalive, Echo))
            refusal = self.do(name, "change", voters)
        return refusal

    def deliver(self, sender, to, message):
        if to.name in self.members and self.members[to.name].id == to:
            self.do(to.name, "receive", sender, message)

    def _passes(self, letter, links, kinds):
        sender, to, message = letter
        is_linked = any(sender.name in link and to.name in link for link in links)
        return is_linked and (not kinds or isinstance(message, kinds))

    def tick(self, names, times=1, links=(), sync=""):
        """Let time pass for these; mail that no link takes is lost."""
        for _ in range(times):
            for name in names:
                if name in self.members:
                    self.now[name] += TICK_NS
                    self.do(name, "tick", self.moment(name))
            self.pass_on(*links, sync=sync)
            self.mail = [letter for letter in self.mail if self._passes(letter, links, ())]

    # -- what schedules are made of --------------------------------------------------------------

    def elect(self, name, voters):
        """Have a member elected by these alone, whatever timers say."""
        links = [name + voter for voter in voters]
        member = self.members[name]
        for _ in range(3):  # a refusal brings the higher term
            if member.role is not Role.LEADER:
                order = TimeoutNow(member.ballot.term)
                self.do(name, "receive", self.ids[voters[0]], order)
            self.pass_on(*links, kinds=(Vote, VoteGranted, HigherTerm))
        return member.role is Role.LEADER

    def settle_in(self, leader="a"):
        """Have a leader that all follow, with its first entry committed and known to be."""
        others = [name for name in self.names if name != leader]
        given(self.elect(leader, "".join(others)), f"{leader} is not elected")
        self.tick(leader, times=8, links=[self.names], sync=self.names)
        given(self.is_ready(leader), f"{leader} has committed nothing")

    def is_ready(self, name):
        member = self.members.get(name)
        return member is not None and member.leading is not None and member.leading.is_ready

    def write(self, name, count=1):
        """Append entries at a leader, and pass nothing on."""
        for _ in range(count):
            self.do(name, "propose", None, Noop())

    def answer(self):
        """Give the last thing that a caller was told."""
        return self.told[-1].answer
