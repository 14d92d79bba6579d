"""The options of `rackrate campaign run` become fields of its input, or one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rackrate_cli.errors import Refusal
from rackrate_cli.reading.campaign_input import MOST_DRAWS, SWEEPS, parse_draws, parse_sweep

WORDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30)


@given(st.integers(1, MOST_DRAWS), st.integers(1, MOST_DRAWS))
def test_draws_are_a_number_or_a_range(first: int, second: int) -> None:
    least, most = sorted((first, second))
    assert parse_draws(f"{least}-{most}") == {"least": least, "most": most}
    assert parse_draws(f" {most} ") == most


@given(WORDS)
def test_any_other_text_is_refused_with_the_option_s_name(text: str) -> None:
    for parse, option in ((parse_draws, "--draws"), (parse_sweep, "--sweep")):
        try:
            parse(text)
        except Refusal as refusal:
            assert str(refusal).startswith(option)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20, unique=True))
def test_numbers_of_nodes_are_numbers(nodes: list[int]) -> None:
    assert parse_sweep("nodes=" + ",".join(map(str, nodes))) == {"nodes": nodes}


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_needs_values(name: str) -> None:
    with pytest.raises(Refusal, match="at least two different values"):
        parse_sweep(f"{name}=")


def test_a_misspelt_sweep_names_the_nearest_right_one():
    with pytest.raises(Refusal, match=r"did you mean kube_proxy\?"):
        parse_sweep("kube-proxy=iptables,nftables")
