"""Followers and proxies: catching up, going on, and never showing what was not committed."""

from __future__ import annotations

import pytest

from stores.log.effects import PersistLog
from stores.log.encoding import decode_message, is_log_message
from stores.log.follower import FETCH_TICKS
from stores.log.messages import Answers, Fetch, Fetched, Join
from stores.log.runs import OpenRun
from stores.outcomes import Applied
from wire.encoding import encode
from wire.errors import BackendFailure, DecodeError, ErrorCode


def fill(world, keeper, count: int, partition: int = 0) -> None:
    for number in range(count):
        keeper.append(number, partition)
        world.settle()


def posted(world, kind: type) -> list:
    """Give the messages of a kind that are under way."""
    found = [decode_message(data)[1] for *_, data in world.mail if is_log_message(data)]
    return [message for message in found if isinstance(message, kind)]


def same(follower, keeper) -> bool:
    numbers = range(len(keeper.core.partitions))
    return all(follower.read(number) == keeper.read(number) for number in numbers)


def test_a_follower_gets_what_was_there_and_what_comes(world, synced):
    keeper = world.keeper(partitions=2)
    fill(world, keeper, 5)
    fill(world, keeper, 5, partition=1)
    follower = world.follower()
    world.run(5)
    assert synced(follower)
    assert same(follower, keeper)
    fill(world, keeper, 3)
    assert same(follower, keeper)


def test_a_restarted_follower_fetches_only_what_it_lacks(world, synced):
    keeper = world.keeper()
    follower = world.follower()
    world.run(5)
    fill(world, keeper, 5)
    world.kill(follower)
    fill(world, keeper, 3)
    asked_from = []
    again = world.follower(follower.backend)
    assert again.read() == dict(enumerate(range(5))), "what it has can be read at once"
    for _ in range(10):
        asked_from += [fetch.positions for fetch in posted(world, Fetch)]
        while world.mail:
            world.deliver()
            asked_from += [fetch.positions for fetch in posted(world, Fetch)]
        again.commit()
        world.tick()
    world.settle()
    assert synced(again)
    assert set(asked_from) == {((0, 5),)}
    assert same(again, keeper)


def test_a_follower_joins_in_the_middle_of_a_run(world, synced):
    keeper = world.keeper()
    for number in range(4):
        keeper.append(number)
    world.settle()  # one run of four
    keeper.core.requests.trim(0, 2)
    world.settle()
    follower = world.follower()
    world.run(5)
    assert synced(follower)
    assert follower.read() == keeper.read() == {2: 2, 3: 3}
    assert follower.core.partitions[0].span == keeper.core.partitions[0].span


def test_retention_that_overtakes_a_follower_leaves_it_level(world, synced):
    keeper = world.keeper()
    follower = world.follower()
    world.run(5)
    fill(world, keeper, 3)
    world.kill(follower)
    fill(world, keeper, 5)
    keeper.core.requests.trim(0, 6)
    world.settle()
    again = world.follower(follower.backend)
    world.run(5)
    assert synced(again)
    assert again.read() == keeper.read() == {6: 3, 7: 4}


def test_retention_that_overtakes_a_fetch_leaves_it_level(world, synced):
    keeper = world.keeper()
    fill(world, keeper, 5)
    follower = world.follower()
    while not posted(world, Fetch):
        world.deliver()
    keeper.core.requests.trim(0, 3)
    keeper.flush()
    keeper.commit()
    world.run(5)
    assert synced(follower)
    assert follower.read() == keeper.read() == {3: 3, 4: 4}


def test_entries_that_a_keeper_lost_are_not_served_on(world, make_disk, synced):
    """A disk that lied: what it had acknowledged is gone, and something else is there."""
    disk = make_disk()
    keeper = world.keeper(disk)
    fill(world, keeper, 3)
    follower = world.follower()
    world.run(5)
    lost_disk = make_disk()
    lost_disk.load_keeper(keeper.core.epoch, 1)
    lost_disk.log_id = keeper.core.log_id
    lost_disk.commit(PersistLogOf(disk, 1))
    world.kill(keeper)
    world.now_ns += 1
    keeper = world.keeper(lost_disk)
    keeper.append("other")
    keeper.append("still other")
    world.run(40)
    assert synced(follower)
    assert follower.read() == keeper.read() == {0: 0, 1: "other", 2: "still other"}


def PersistLogOf(disk, count: int):  # noqa: N802 - it stands for one
    """Give the changes that bring the first runs of a disk to another."""
    from stores.log.changes import LogChanges

    return LogChanges(runs=disk._list(0)._runs[:count])


def test_a_follower_follows_a_keeper_that_forgot_everything(world, make_disk, synced):
    keeper = world.keeper()
    follower = world.follower()
    fill(world, keeper, 3)
    world.run(5)
    world.kill(keeper)
    world.now_ns += 1
    keeper = world.keeper(make_disk(), partitions=2)
    keeper.append("new", 1)
    world.run(40)
    assert synced(follower)
    assert len(follower.core.partitions) == 2
    assert same(follower, keeper)


def test_a_follower_that_was_let_go_and_missed_a_cursor_finds_out(world, synced):
    keeper = world.keeper()
    follower = world.follower()
    world.run(5)
    keeper.core.peer_unreachable(follower.endpoint)  # and the follower does not know
    world.readers.remove(follower)
    keeper.core.requests.move_cursor("consumer", ((0, 0),))
    world.settle()
    other = world.follower()
    world.run(5)
    assert synced(other)
    world.readers.append(follower)
    keeper.append("after the cursor")
    keeper.flush()
    keeper.commit()
    for _ in list(world.mail):
        world.deliver()
        follower.commit()
    assert follower.read() == {}, "it would show an entry without the cursor before it"
    world.run(30)
    assert synced(follower)
    assert follower.read() == {0: "after the cursor"}
    assert follower.core.cursors == {"consumer": {0: 0}}


def test_a_follower_asks_again_for_what_the_keeper_s_disk_did_not_give(world, make_disk, synced):
    class Damaged(type(make_disk())):
        is_damaged = False

        def read(self, partition, offset, size_max):
            if self.is_damaged:
                raise BackendFailure("a run is not what was written")
            return super().read(partition, offset, size_max)

    disk = Damaged()
    keeper = world.keeper(disk)
    fill(world, keeper, 5)
    disk.is_damaged = True
    follower = world.follower()
    world.run(3 * FETCH_TICKS)
    assert not synced(follower)
    assert not follower.errors
    disk.is_damaged = False
    world.run(2 * FETCH_TICKS)
    assert same(follower, keeper)


def test_a_run_out_of_order_is_refused(world):
    keeper = world.keeper()
    follower = world.follower()
    fill(world, keeper, 2)
    world.run(5)
    with pytest.raises(DecodeError, match="goes on at 5"):
        follower.core.copy.add(OpenRun(0, 5, 0, [None, encode(1)]).seal())
    with pytest.raises(DecodeError, match="does not have"):
        follower.core.copy.add(OpenRun(7, 0, 0, [None, encode(1)]).seal())


def test_lost_answers_are_asked_for(world):
    world.keeper()
    proxy = world.proxy()
    world.run(5)
    first = proxy.append("first")
    lose = [(proxy, Answers)]
    settle_without(world, lose)
    second = proxy.append("second")
    world.settle()
    assert proxy.outcomes == {first: Applied(0), second: Applied(1)}


def settle_without(world, lost: list) -> None:
    """Let everything arrive but the next message of a kind to a node."""
    while True:
        for node in world.nodes:
            node.flush()
            node.commit()
        if not world.mail:
            return
        _, to, payload = world.mail[0]
        kind = type(decode_message(payload)[1]) if is_log_message(payload) else None
        match = [pair for pair in lost if (pair[0].endpoint, pair[1]) == (to, kind)]
        if match:
            lost.remove(match[0])
            del world.mail[0]
        else:
            world.deliver()


def test_an_append_without_an_answer_is_done_once_by_the_next_keeper(world):
    keeper = world.keeper()
    proxy = world.proxy()
    world.run(5)
    request = proxy.append("once")
    settle_without(world, [(proxy, Answers)])
    assert keeper.read() == {0: "once"}
    assert proxy.outcomes == {}
    world.kill(keeper)
    world.now_ns += 1
    keeper = world.keeper(keeper.backend)
    world.run(40)
    assert keeper.read() == {0: "once"}
    assert proxy.outcomes == {request: Applied(0)}


def test_a_request_that_comes_again_by_another_channel_is_done_once(world):
    keeper = world.keeper()
    proxy = world.proxy()
    world.run(5)
    request = proxy.append("once")
    proxy.flush()
    while keeper.committing is None:
        world.deliver()
    world.mail.clear()  # with it the acknowledgement
    keeper.core.peer_unreachable(proxy.endpoint)
    proxy.append("next")
    world.run(30)
    assert keeper.read() == {0: "once", 1: "next"}
    assert proxy.outcomes[request] == Applied(0)


def test_an_append_whose_commit_was_cut_off_is_done_by_the_next_keeper(world):
    keeper = world.keeper()
    proxy = world.proxy()
    world.run(5)
    request = proxy.append("once")
    proxy.flush()
    while keeper.committing is None:
        world.deliver()
    world.kill(keeper)
    world.now_ns += 1
    keeper = world.keeper(keeper.backend)
    world.run(40)
    assert keeper.read() == {0: "once"}
    assert proxy.outcomes == {request: Applied(0)}


def test_without_a_keeper_appends_and_questions_fail_when_the_patience_is_over(world):
    keeper = world.keeper()
    proxy = world.proxy(patience_ticks=30)
    world.run(5)
    world.kill(keeper)
    request = proxy.append("lost")
    proxy.ask(Fetch(1, ((0, 0),), 1_000, 10))
    world.run(20)
    assert proxy.outcomes == {}, "it may come back"
    world.run(35)
    assert proxy.outcomes[request].code is ErrorCode.KEEPER_UNREACHABLE
    assert proxy.answers[1].code is ErrorCode.KEEPER_UNREACHABLE


def test_what_failed_is_not_appended_behind_the_users_back(world):
    keeper = world.keeper()
    proxy = world.proxy(patience_ticks=5)
    world.run(5)
    world.kill(keeper)
    world.mail.clear()
    world.run(25)  # it is known to be lost
    proxy.append("given up")
    world.run(10)
    keeper = world.keeper(keeper.backend)
    world.run(10)
    later = proxy.append("later")
    world.run(10)
    assert keeper.read() == {0: "later"}
    assert proxy.outcomes[later] == Applied(0)


def test_a_question_is_asked_again_when_its_answer_is_lost(world):
    keeper = world.keeper()
    proxy = world.proxy()
    world.run(5)
    fill(world, keeper, 1)
    proxy.ask(Fetch(1, ((0, 0),), 1_000, 0))
    settle_without(world, [(proxy, Fetched)])
    assert proxy.answers == {}
    world.run(15)
    assert isinstance(proxy.answers[1], Fetched)


def test_a_join_is_repeated_until_it_is_answered(world, synced):
    world.keeper()
    follower = world.follower()
    while not posted(world, Join):
        world.deliver()
    world.mail.clear()
    world.run(5)
    assert synced(follower)


def test_a_commit_that_fails_closes_the_follower(world):
    world.keeper()
    follower = world.follower()
    while follower.committing is None:
        world.deliver()
    assert isinstance(follower.committing, PersistLog)
    follower.carry_out(follower.core.commit_failed(follower.committing.token, "no disk"))
    assert follower.told[-1].code is ErrorCode.BACKEND_FAILURE
