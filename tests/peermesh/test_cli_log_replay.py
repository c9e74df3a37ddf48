"""``peermesh log replay``: dead letters go back once, whatever is killed or is no dead letter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from peermesh.blocking import Endpoint
from peermesh.cli import log_replay
from peermesh.spark.letters import Letter, read_letter, sequence_of
from peermesh.testing.time_limits import limit
from tests.peermesh.commands import run
from wire.errors import InvalidData

DYING = """
import os, signal
from endpoint.replicas.logs.log_handle import LogHandle

async def dying(log, consumer, positions):
    os.kill(os.getpid(), signal.SIGKILL)  # all of a piece is put back, and not noted

LogHandle.commit = dying
from peermesh.cli import __main__  # it runs the command
"""


@pytest.fixture
def mesh():
    """Give logs in the mesh, and what runs a command there."""
    with Endpoint() as endpoint:
        orders = endpoint.attach_log("orders", partitions=3)
        dead = endpoint.attach_log("dead", partitions=2)
        address = f"127.0.0.1:{endpoint.listen()}"

        def replay(*arguments, code=()):
            words = ("log", "replay", "dead", *arguments, "--peer", address)
            if not code:
                return run(*words)
            alone = [sys.executable, *code, *words]
            return subprocess.run(alone, capture_output=True, text=True, check=False)

        yield endpoint, orders, dead, replay


def letter(number, log="orders"):
    return {"log": log, "partition": number % 3, "offset": number, "value": f"{{bad {number}"}


def bury(dead, numbers, **more):
    for number in numbers:
        receipt = dead.append(letter(number, **more), f"k{number}", partition=number % 2)
        receipt.result(limit())


def put_back(log):
    found = [entry for at in log.offsets() for entry in log.read(at, 0)]
    return sorted((entry.key, entry.value, entry.partition) for entry in found)


def expected(numbers):
    return sorted((f"k{number}", f"{{bad {number}", number % 3) for number in numbers)


def test_letters_go_back_to_their_partitions_once_however_often_it_is_repeated(mesh):
    _, orders, dead, replay = mesh
    bury(dead, range(20))
    first = replay()
    assert (first.stdout, first.returncode) == ("20 orders\n", 0), first.stderr
    assert "replayed 20 dead letters" in first.stderr
    again = replay()
    assert (again.stdout, again.returncode) == ("", 0)
    assert "there is no dead letter to replay" in again.stderr
    assert put_back(orders) == expected(range(20))
    bury(dead, range(20, 23))
    line = json.loads(replay("--json").stdout)
    assert line == {"v": 1, "event": "replayed", "log": "orders", "count": 3, "repeated": 0}
    assert put_back(orders) == expected(range(23))


def test_a_replay_that_is_killed_before_it_notes_what_it_did_repeats_nothing(mesh):
    _, orders, dead, replay = mesh
    bury(dead, range(20))
    assert replay(code=("-c", DYING)).returncode == -9
    assert put_back(orders), "some letters were put back"
    assert dead.committed("replay") == {}
    again = replay("--limit", "12")
    assert (again.stdout, again.returncode) == ("2 orders, 10 more were there already\n", 0)
    assert replay("--limit", "9").stdout == "8 orders\n"
    assert put_back(orders) == expected(range(20))


def test_letters_of_a_log_that_was_made_anew_are_put_back_too(mesh):
    endpoint, orders, dead, replay = mesh
    bury(dead, range(20))
    assert replay().stdout == "20 orders\n"
    dead.close()
    anew = endpoint.attach_log("dead", partitions=2)
    assert anew.offsets()[0].end == 0
    bury(anew, range(20, 30))
    assert replay().stdout == "10 orders\n"
    assert put_back(orders) == expected(range(30))


def test_letters_that_are_there_are_told_and_not_counted(mesh):
    _, orders, dead, replay = mesh
    bury(dead, range(6))
    assert replay().stdout == "6 orders\n"
    dead.commit("replay", {0: 0, 1: 0}).result(limit())
    line = json.loads(replay("--json").stdout)
    assert line == {"v": 1, "event": "replayed", "log": "orders", "count": 0, "repeated": 6}
    assert put_back(orders) == expected(range(6))


def test_the_numbers_of_letters_grow_and_are_those_of_one_log():
    once = 1_700_000_000 * 10**9
    of_a_log = [sequence_of(*each) for each in ((once, 0), (once, 1), (once, 2), (once + 5, 3))]
    assert of_a_log == sorted(set(of_a_log))
    assert sequence_of(once + 10**9, 0) > of_a_log[-1], "made anew, it begins at 0 again"


def test_it_can_go_in_steps_and_into_another_log(mesh):
    endpoint, orders, dead, replay = mesh
    bury(dead, range(5))
    trial = endpoint.attach_log("trial")
    assert replay("--into", "trial").stdout == "5 trial\n"
    assert [entry[:2] for entry in put_back(trial)] == [each[:2] for each in expected(range(5))]
    assert replay("--limit", "2").stdout == "2 orders\n"
    assert len(put_back(orders)) == 2
    assert replay("--limit", "9").stdout == "3 orders\n"
    assert put_back(orders) == expected(range(5))


def test_what_is_no_letter_stops_it_by_its_place_unless_it_is_passed_over(mesh):
    _, orders, dead, replay = mesh
    bury(dead, [0, 2])
    dead.append("a word", partition=0).result(limit())
    bury(dead, [4])
    refused = replay()
    assert refused.returncode == 1
    assert "partition 0, offset 2 of log dead cannot be replayed: a dead letter is" in (
        refused.stderr
    )
    assert "--skip-others" in refused.stderr
    passed = replay("--skip-others")
    assert "passed over 1 entry: no dead letters" in passed.stderr
    assert put_back(orders) == expected([0, 2, 4])


def test_a_letter_that_names_no_log_or_one_that_is_not_there_is_refused(mesh):
    _, _, dead, replay = mesh
    bury(dead, [0], log=None)
    refused = replay()
    assert refused.returncode == 1
    assert "does not say from which log it is" in refused.stderr
    assert "--into LOG" in refused.stderr
    assert "no log nowhere here" in replay("--into", "nowhere").stderr


def test_a_cursor_that_was_moved_back_too_far_is_told(mesh, monkeypatch):
    _, orders, dead, replay = mesh
    many = [letter(0) for _ in range(1_100)]
    dead.append_batch(many, partition=0).result(limit())
    assert replay().stdout == "1100 orders\n"
    assert log_replay.PIECE_COUNT < 1_024, "a piece that is repeated has to be remembered"
    dead.commit("replay", {0: 0}).result(limit())
    refused = replay()
    assert "offset 0 of log dead was replayed long ago" in refused.stderr
    assert orders.offsets()[0].end == 1_100


@pytest.mark.parametrize(
    "value",
    [
        None, 7, "text", (), {}, {"log": 1, "partition": 0, "value": "x"},
        {"log": "a", "partition": -1, "value": "x"}, {"log": "a", "partition": 0, "value": 3},
        {"log": "a", "partition": "0", "value": "x"},
    ],
)  # fmt: skip
def test_what_others_append_is_no_letter(value):
    with pytest.raises(InvalidData, match="a dead letter is a table"):
        read_letter("k", value)


def test_a_letter_goes_to_a_partition_that_is_there():
    found = read_letter("k", {"partition": 5, "value": b"x"})
    assert found == Letter(None, 5, "k", b"x")
    assert (found.home(8), found.home(3)) == (5, 2)
