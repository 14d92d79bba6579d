"""JUnit XML: CI systems can read the document for any results."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from rackrate_cli.printing.failures import RunFailure
from rackrate_cli.printing.junit import junit_xml
from rackrate_cli.reading.documents import read_results
from rackrate_cli.reading.requirements import evaluate, parse_requirements

from rackrate_contract.results import Results
from rackrate_contract.trials import LossOfTrials
from rackrate_contract.verdicts import Baseline

from .conftest import DeployedStack, Rackrate, machine, results, verdict

RUN = "run-20261121-070512-ab12"
VERDICTS = [
    verdict(),
    verdict(test="tcp-8", verdict="worse", ratio=0.8),
    verdict(test="rtt", metric="rtt", verdict="inconclusive", reason="two blocks", more_blocks=4),
    verdict(test="udp-1", verdict="no meaningful difference"),
]
CAUSE = {"cause": "Connection \x1b[31mrefused\x00", "count": 1, "where": ["treatment, a → b"]}


def read(**fields: Any) -> Results:
    return read_results(results(RUN, **fields), RUN)


def suite_of(
    run: Results | None, *requirements: str, failure: RunFailure | None = None
) -> ET.Element:
    """The suite, after a check of what all readers rely on."""
    checks = [] if run is None else evaluate(parse_requirements(requirements), run)
    suites = ET.fromstring(junit_xml(RUN, run, checks, failure))
    assert suites.tag == "testsuites"
    (suite,) = suites
    cases = suite.findall("testcase")
    for element in (suites, suite):
        counted = {name: int(element.attrib[name]) for name in ("tests", "failures", "errors")}
        assert counted == {
            "tests": len(cases),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
        }
        assert int(element.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
        assert float(element.attrib["time"]) >= 0
    assert all(case.attrib.keys() == {"classname", "name"} for case in cases)
    names = [(case.attrib["classname"], case.attrib["name"]) for case in cases]
    assert len(set(names)) == len(names), "readers distinguish cases by their names"
    return suite


def outcomes(suite: ET.Element) -> dict[str, str]:
    """The outcome of each case, by its name."""
    ends = {"failure", "error", "skipped"}
    return {
        case.attrib["name"]: next((child.tag for child in case if child.tag in ends), "passed")
        for case in suite.findall("testcase")
    }


def test_each_verdict_is_a_case_that_fails_only_if_it_is_worse() -> None:
    suite = suite_of(read(verdicts=VERDICTS))
    assert outcomes(suite) == {
        "run completed": "passed",
        "tcp-1 throughput": "passed",
        "tcp-8 throughput": "failure",
        "rtt": "skipped",
        "udp-1 throughput": "passed",
    }
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "inconclusive: two blocks; about 4 more blocks"


def test_requirements_are_cases_and_a_met_one_excuses_what_it_is_about() -> None:
    suite = suite_of(read(verdicts=VERDICTS), "tcp-8 not better", "rtt better")
    ended = outcomes(suite)
    assert ended["tcp-8 not better"] == ended["tcp-8 throughput"] == "passed"
    assert ended["rtt better"] == "failure" and ended["rtt"] == "skipped"


def test_a_requirement_that_could_not_have_failed_is_skipped_and_says_so() -> None:
    fields = {"verdict": "inconclusive", "smallest_regression": 1.5}
    earlier = verdict(baseline="main: r1, r2, r3, r4", better="lower", **fields)
    suite = suite_of(read(regressions=[earlier]), "tcp-1 not worse than before")
    skipped = suite.find("testcase[@name='tcp-1 not worse than before']/skipped")
    assert skipped is not None
    assert "could not have failed" in skipped.attrib["message"]
    assert "would show from +50 % on" in skipped.attrib["message"]


def test_the_suite_says_when_how_long_and_what_failed() -> None:
    trials = {"planned": 36, "measured": 35, "failed": 1, "causes": [CAUSE]}
    suite = suite_of(read(trials=trials))
    assert suite.attrib["name"] == f"rackrate {RUN}"
    assert suite.attrib["timestamp"] == "2026-11-21T07:05:12"
    assert suite.attrib["time"] == "84.200"
    text = suite.findtext("system-out") or ""
    assert "Failed: 1 trial (treatment, a → b): Connection \ufffd[31mrefused\ufffd" in text
    assert "Network scaled by 0.1: figures are not EC2's." in text
    figures = suite.findtext("testcase[@name='tcp-1 throughput']/system-out") or ""
    assert "493 → 987 Mbit/s, +100 % (95 % CI +99.4 to +101 %)" in figures


def test_a_run_that_failed_is_an_error_with_or_without_results() -> None:
    failure = RunFailure("TrialsLost", "9 of 36 trials lost\nthe first: refused")
    for run in (None, read()):
        suite = suite_of(run, failure=failure)
        error = suite.find("testcase[@name='run completed']/error")
        assert error is not None and error.text == failure.cause
        assert error.attrib == {"type": "TrialsLost", "message": "9 of 36 trials lost"}


words = st.text(max_size=12)
ratios = st.none() | st.floats(min_value=0, allow_infinity=False, allow_nan=False)
ANY = read()
verdicts = st.builds(
    lambda **fields: ANY.verdicts[0].model_copy(update=fields),
    test=words,
    metric=words,
    unit=st.sampled_from(["bit/s", "s", ""]),
    arm=words,
    baseline=st.builds(Baseline, words),
    arm_mean=ratios,
    baseline_mean=ratios,
    ratio=ratios,
    ci_simultaneous=st.none() | st.tuples(ratios.filter(lambda r: r is not None), st.just(1e300)),
    verdict=st.sampled_from(["better", "worse", "no meaningful difference", "inconclusive"]),
    reason=st.none() | words,
    more_blocks=st.none() | st.integers(0, 9),
    drift=st.none() | words,
)
causes = st.builds(LossOfTrials, cause=words, count=st.integers(1, 99), where=st.tuples(words))
any_results = st.builds(
    lambda **fields: ANY.model_copy(update=fields),
    run=st.builds(
        lambda **fields: ANY.run.model_copy(update=fields),
        id=words,
        status=words,
        started_at=words,
        lab_scale=ratios,
    ),
    trials=st.builds(
        lambda **fields: ANY.trials.model_copy(update=fields),
        planned=st.integers(0, 9),
        measured=st.integers(0, 9),
        failed=st.integers(0, 9),
        causes=st.lists(causes, max_size=3).map(tuple),
    ),
    verdicts=st.lists(verdicts, max_size=3).map(tuple),
    mark_notes=st.lists(words, max_size=2).map(tuple),
    warnings=st.lists(words, max_size=2).map(tuple),
    conclusion=words,
)


@given(any_results, words, st.none() | st.builds(RunFailure, words, words))
def test_any_results_make_a_well_formed_document(
    run: Results, run_id: str, failure: RunFailure | None
) -> None:
    suites = ET.fromstring(junit_xml(run_id, run, (), failure))
    assert suites.attrib["tests"] == str(1 + len(run.verdicts))


def test_run_and_watch_write_it_whatever_the_exit_code(
    stack: DeployedStack, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    stack.put(RUN, "results.json", results(RUN))
    rackrate(
        *("run", "--name", RUN, "--junit", "verdicts.xml", "--require", "tcp-1 worse"),
        code=1,
    )
    assert outcomes(ET.parse("verdicts.xml").getroot()[0])["tcp-1 worse"] == "failure"
    stack.record("r2", status="failed", error="TrialsLost", cause="all lost")
    rackrate("watch", "r2", "--junit", "verdicts.xml", code=1)
    assert outcomes(ET.parse("verdicts.xml").getroot()[0]) == {"run completed": "error"}


def test_a_place_where_it_cannot_be_written_is_refused_before_the_run(
    stack: DeployedStack, rackrate: Rackrate, tmp_path: Path
) -> None:
    for place in (tmp_path, tmp_path / "none" / "x.xml"):
        assert "--junit" in rackrate.refused("run", "--junit", place)
    assert stack.executions() == []
