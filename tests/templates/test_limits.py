"""The templates fit into CloudFormation. `pytest -s` prints the table."""

from __future__ import annotations

import pytest

from scripts import template_sizes
from scripts.template_sizes import BYTES_INLINE, LIMITS, Size, measure

SIZES = {path.stem: list(measure(path)) for path in template_sizes.TEMPLATES}


def test_print_the_table_of_sizes():
    table = template_sizes.table([size for sizes in SIZES.values() for size in sizes])
    print(f"\n{table}")
    for sizes in SIZES.values():
        for size in sizes:
            assert size.name in table


@pytest.mark.parametrize("name", SIZES)
def test_a_template_is_within_the_limits_as_written_and_as_transformed(name):
    assert [excess for size in SIZES[name] for excess in size.excesses()] == []


def test_the_root_can_be_passed_inline_for_tools_that_do_not_use_s3():
    written = SIZES["template"][0]
    assert written.counts["bytes"] <= BYTES_INLINE


def test_a_serverless_template_is_measured_with_what_sam_adds():
    written, transformed = SIZES["benchmark"]
    assert transformed.counts["resources"] > written.counts["resources"], "permissions and rules"


def test_the_definitions_fit_into_step_functions():
    assert template_sizes.definition_excesses() == []


@pytest.mark.parametrize("kind", LIMITS)
def test_what_is_beyond_a_limit_is_named(kind):
    counts = dict.fromkeys(LIMITS, 0)
    assert Size("x", {**counts, kind: LIMITS[kind]}).excesses() == []
    (excess,) = Size("x", {**counts, kind: LIMITS[kind] + 1}).excesses()
    assert kind in excess and str(LIMITS[kind]) in excess


def test_a_parameters_longest_value_counts_in_bytes(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        "Parameters:\n  A: {Type: String, Default: é, AllowedValues: [é, ééé]}\n"
        "  B: {Type: String, MaxLength: 5}\nResources: {}\n"
    )
    (size,) = measure(path)
    assert size.counts["longest value"] == 6
