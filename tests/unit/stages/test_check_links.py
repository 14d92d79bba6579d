"""The check of links: it names pairs that could not talk, and too many of them end the run."""

from __future__ import annotations

import re

import pytest

from rackrate.errors import LinksDown
from rackrate.measure import manifests
from rackrate.results.build import RunFailure
from rackrate.stages.run import check_links as checking
from rackrate.stages.run.check_links import Links, check_links
from rackrate.stages.run.collect import give_up
from tests.unit.stages.runs import PLAN, RUN


def warm_up(store):
    return store.runs.items(RUN, "warm_up.json")


def test_links_that_are_up_warn_of_nothing(deploy, measure, store, resources):
    deploy()
    measure(*warm_up(store))
    assert check_links(RUN, resources) == Links(links=2, down=0)
    assert store.runs.find(RUN).warnings == ()


def break_one(cluster, error="no route to host"):
    """Let the baseline's clients fail, as if they found no server."""

    def client(pod):
        if pod["metadata"]["labels"][manifests.ARM] == "baseline":
            cluster.logs[pod["metadata"]["name"], "tcp-1"] = f'{{"error": "{error}"}}'
        cluster.succeed(pod)

    cluster.on_client = client


def test_a_pair_that_cannot_talk_is_named_with_its_arm_the_reason_and_a_remedy(
    deploy, measure, cluster, store, resources
):
    deploy()
    break_one(cluster)
    measure(*warm_up(store))
    with pytest.raises(LinksDown) as caught:
        check_links(RUN, resources)
    message = str(caught.value)
    assert message.startswith("1 of 2 pairs could not be measured")
    assert re.search(r"arm baseline, node-[cd] to node-[cd]: .*no route to host", message)
    assert "arm treatment" not in message
    assert all(word in message for word in ("security groups", "network policies", "ToolImage"))


@pytest.mark.parametrize(
    "error",
    [
        "parameter error - bad congestion control",
        "did not keep the rate: it sent 7 requests instead of 9; raise connections",
    ],
)
def test_a_tool_that_fails_of_itself_does_not_blame_the_security_groups(
    deploy, measure, cluster, store, resources, error
):
    deploy()
    break_one(cluster, error)
    measure(*warm_up(store))
    with pytest.raises(LinksDown) as caught:
        check_links(RUN, resources)
    message = str(caught.value)
    assert error in message and "the tools' own errors" in message
    assert "security groups" not in message


def test_links_that_the_plan_tolerates_to_be_down_are_noted(
    deploy, measure, cluster, store, resources
):
    deploy({**PLAN, "tolerated_loss": 0.5})
    break_one(cluster)
    measure(*warm_up(store))
    assert check_links(RUN, resources) == Links(links=2, down=1)
    (warning,) = store.runs.find(RUN).warnings
    assert "arm baseline" in warning and "no route to host" in warning
    check_links(RUN, resources)
    assert len(store.runs.find(RUN).warnings) == 1, "once, though the function was called again"


def test_a_link_that_nobody_tried_is_down(deploy, resources):
    deploy()
    with pytest.raises(LinksDown, match=r"2 of 2 pairs.*\n.*was never tried"):
        check_links(RUN, resources)


def test_a_warm_up_that_was_given_up_reports_why_and_counts_for_nothing(deploy, store, resources):
    deploy()
    failure = RunFailure("ServersNotReady", "gone")
    collected = give_up(RUN, warm_up(store)[0], failure, resources)
    assert collected.warm_up is True
    assert store.runs.find(RUN).trials_failed == 0
    with pytest.raises(LinksDown, match="ServersNotReady: gone"):
        check_links(RUN, resources)


def test_of_very_many_links_that_are_down_only_some_are_named():
    message = checking._message([f"arm a, {n} to {n + 1}: gone" for n in range(1000)], 1000)
    assert "1000 of 1000" in message and "and 960 more" in message
    assert len(message) < 32_768  # the longest cause that Step Functions takes
