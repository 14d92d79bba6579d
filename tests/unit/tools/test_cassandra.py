"""What only Cassandra's load has: two outputs in one log, and a ring by its configuration."""

from __future__ import annotations

import itertools
import json

import pytest

from rackrate import registry
from tests.unit.tools.captures import captures

(MIXED,) = [each for each in captures() if each.id == "cassandra-0.29.0-mixed"]


def test_a_line_of_the_error_output_may_stand_anywhere_in_the_report():
    saved = "info: Saved report to /dev/stdout\n"
    lines = MIXED.text.replace(saved, "\n").splitlines(keepends=True)
    whole = registry.parse(MIXED.test, MIXED.text)
    begins = lines.index("{\n")
    for place in range(begins, len(lines), 17):
        text = "".join([*lines[:place], saved, *lines[place:]])
        assert registry.parse(MIXED.test, text) == whole


@pytest.mark.parametrize("members", [1, 3, 1000])
def test_the_members_share_the_ring_equally_and_all_find_a_seed(members):
    test = registry.load_test({"name": "c", "tool": "cassandra", "members": members, "replicas": 1})
    names = [f"c-treatment-{index}.run" for index in range(members)]
    read = [json.loads(test.files(i, names)["cassandra.yaml"]) for i in range(members)]
    tokens = [int(each["initial_token"]) for each in read]
    assert tokens[0] == -(2**63)
    widths = [after - before for before, after in itertools.pairwise(tokens)]
    assert all(abs(width - 2**64 / members) <= 1 for width in widths)
    for index, each in enumerate(read):
        seeds = each["seed_provider"][0]["parameters"][0]["seeds"].split(",")
        own = names[index].partition(".")[0]
        assert seeds and set(seeds) <= {own, *names[:3]}
        assert (own in seeds) == (index < 3), "the others may not start a ring of their own"
