"""`make fuzz`: fresh seeds until the time is up or a property test fails."""

from __future__ import annotations

import re

import pytest

from scripts import fuzz


@pytest.fixture
def rounds(monkeypatch):
    """Scripts pytest's exit codes, at a second each; gives the seeds it was called with."""
    seen, clock = [], [0.0]

    def scripted(codes):
        def run_round(seed, seconds, tests):
            seen.append(seed)
            clock[0] += 1
            return codes.pop(0)

        monkeypatch.setattr(fuzz, "run_round", run_round)
        monkeypatch.setattr(fuzz.time, "monotonic", lambda: clock[0])
        return seen

    return scripted


def test_every_round_has_a_seed_of_its_own_until_the_time_is_up(rounds, capsys):
    seeds = rounds([0, 0, None])
    assert fuzz.fuzz(3, ["tests"]) == 0
    assert len(set(seeds)) == 3
    printed = capsys.readouterr().out
    assert [int(seed) for seed in re.findall(r": seed (\d+)", printed)] == seeds
    # Of a round that was stopped nobody knows what it would have found.
    assert "rounds passed: 2;" in printed


# 1: a test failed; 2 to 5: pytest was interrupted, broke, was called wrongly, or found no tests.
@pytest.mark.parametrize("code", [1, 2, 3, 4, 5])
def test_whatever_is_no_success_ends_it_with_how_to_run_it_again(rounds, capsys, code):
    seeds = rounds([0, code, 0])
    assert fuzz.fuzz(3, ["tests/unit"]) == 1
    assert len(seeds) == 2
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"seed {seeds[-1]} failed.")
    assert last.endswith(
        "python -m pytest tests/unit -m hypothesis --hypothesis-profile=fuzz"
        f" --hypothesis-seed={seeds[-1]}"
    )
