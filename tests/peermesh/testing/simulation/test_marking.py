"""The pytest mark: seeds, options, and the line that replays a failure."""

from __future__ import annotations

import os
import re

import pytest

PLUGIN = ("-p", "peermesh.testing.simulation.marking", "-p", "no:cacheprovider")

FAILING = """
    import pytest, trio
    from peermesh.testing.simulation import draw, elapse

    def faults(chance):
        return draw(chance, ["a", "b"], count=10)

    @pytest.mark.sim(seeds=50, faults=faults)
    async def test_never_without_power(simulation):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(simulation.carry_out)
            await elapse(40)
            nursery.cancel_scope.cancel()
        assert not [record for record in simulation.trace if record[1] == "power cut"]
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    for name in ("PEERMESH_SIM_SEED", "PEERMESH_SIM_SCHEDULE", "PYTHONHASHSEED"):
        monkeypatch.delenv(name, raising=False)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*PLUGIN, "-o", "trio_mode=true", *arguments)


def test_a_marked_test_runs_once_for_each_seed(pytester: pytest.Pytester):
    pytester.makepyfile("""
        import pytest
        from peermesh.testing.simulation import elapse
        seeds = []

        @pytest.fixture
        def number(): return 7

        @pytest.mark.sim(seeds=3)
        @pytest.mark.parametrize("letter", ["a"])
        async def test_seeds(simulation, number, letter):
            await elapse(1000 / 2)
            seeds.append((simulation.seed, number, letter))

        def test_after():
            assert seeds == [(seed, 7, "a") for seed in range(3)]
    """)
    run(pytester).assert_outcomes(passed=2)


def test_the_command_line_changes_the_seeds(pytester: pytest.Pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.sim(seeds=3)
        async def test_seeds(simulation):
            print("seed", simulation.seed)
    """)
    many = run(pytester, "-s", "--sim-seeds", "5")
    assert re.findall(r"seed (\d)", many.stdout.str()) == list("01234")
    one = run(pytester, "-s", "--sim-seed", "9")
    assert re.findall(r"seed (\d)", one.stdout.str()) == ["9"]


def test_the_line_of_a_failure_replays_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    pytester.makepyfile(FAILING)
    output = run(pytester).stdout.str()
    found = re.search(
        r"replay: PEERMESH_SIM_SEED=(\d+) PEERMESH_SIM_SCHEDULE='([^']*)' python -m pytest (\S+)",
        output,
    )
    assert found is not None, output
    assert ";" not in found[2], "one fault is enough, and the others are left out"
    assert "cut_power" in found[2]
    digest = re.search(r"digest (\w+)", output)
    monkeypatch.setenv("PEERMESH_SIM_SEED", found[1])
    monkeypatch.setenv("PEERMESH_SIM_SCHEDULE", found[2])
    again = run(pytester, found[3])
    again.assert_outcomes(failed=1)
    assert digest is not None
    assert digest[0] in again.stdout.str()
    monkeypatch.setenv("PEERMESH_SIM_SCHEDULE", "")
    run(pytester, found[3]).assert_outcomes(passed=1)
    assert os.environ["PEERMESH_SIM_SEED"] == found[1]


def test_a_skip_is_a_skip(pytester: pytest.Pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.sim
        async def test_skip(simulation):
            pytest.skip("not here")
    """)
    run(pytester).assert_outcomes(skipped=1)


@pytest.mark.parametrize(
    ("test", "advice"),
    [
        ("@pytest.mark.sim(colour=1)\nasync def test_x(simulation): pass", "no option 'colour'"),
        ("@pytest.mark.sim\ndef test_x(simulation): pass", "async def"),
        ("def test_x(simulation): pass", "pytest.mark.sim"),
    ],
)
def test_a_wrong_mark_is_explained(pytester: pytest.Pytester, test: str, advice: str):
    pytester.makepyfile("import pytest\n" + test)
    result = run(pytester)
    assert result.ret != 0
    assert advice in result.stdout.str() + result.stderr.str()
