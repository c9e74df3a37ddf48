"""Programs under test: what they say, and what is done to them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from peermesh.testing.processes import ProgramEnded, open_program
from peermesh.testing.time_limits import limit
from tests.waiting import until

ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"
COMMAND = [sys.executable, "-c", ECHO]


async def ask(program, text):
    await program.say(text)
    return await program.hear()


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_program_is_killed_and_started_again():
    async with open_program(COMMAND) as program:
        assert await ask(program, "abc") == "cba"
        first = program.pid
        assert await program.kill() == -9
        assert not program.is_running
        with pytest.raises(ProgramEnded, match="has ended with -9"):
            await program.say("x")
        with pytest.raises(ProgramEnded, match="has ended with -9"):
            await program.hear()
        await program.start()
        assert await ask(program, "xyz") == "zyx"
        assert (program.pid != first, program.lives) == (True, 2)
        await program.restart()
        assert await ask(program, "again") == "niaga"
        last = program.pid
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


async def test_a_program_that_is_stopped_says_nothing_until_it_goes_on():
    async with open_program(COMMAND) as program:
        await ask(program, "x")
        await program.pause()
        assert state(program.pid) == "T"
        await program.say("later")
        await program.resume()
        assert await program.hear() == "retal"


async def test_a_stopped_program_can_be_killed():
    async with open_program(COMMAND) as program:
        await program.pause()
        assert await program.kill() == -9
        with pytest.raises(ProgramEnded):
            await program.pause()


async def test_a_program_ends_with_the_block_whatever_happened():
    with pytest.raises(KeyError):  # noqa: PT012 - it is the block that is tested
        async with open_program(COMMAND) as program:
            pid = program.pid
            raise KeyError
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_who_waits_for_a_word_learns_that_the_program_was_started_again():
    async with open_program(COMMAND) as program, trio.open_nursery() as nursery:

        async def hear_nothing():
            with pytest.raises(ProgramEnded):
                await program.hear()

        nursery.start_soon(hear_nothing)
        await trio.testing.wait_all_tasks_blocked()
        await program.restart()
        assert await ask(program, "abc") == "cba"


async def test_a_program_that_ends_by_itself_is_told_with_its_code():
    async with open_program([sys.executable, "-c", "import sys; sys.exit(7)"]) as program:
        with pytest.raises(ProgramEnded):
            await program.hear()
        with trio.fail_after(limit()):
            await until(lambda: not program.is_running)
        assert await program.kill() == 7
