"""A run as JUnit XML, the format in which CI systems (Jenkins, GitLab and others) read tests. Pure.

A run is a test suite. Its cases are the run itself, each verdict, and each requirement:

- The run has an error when it failed.
- A verdict fails when it is `worse`, unless a requirement about it is met.
- An inconclusive verdict is skipped, with the reason.
- A requirement fails when it is not met. It is skipped when it could not have failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rackrate_text.units import change_with_interval, shift

from ..reading.requirements import Checked
from .failures import RunFailure

if TYPE_CHECKING:
    from rackrate_contract.results import Results
    from rackrate_contract.verdicts import Verdict

# Characters that XML 1.0 does not allow, not even escaped (W3C, XML 1.0, section 2.2).
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(
    run_id: str,
    results: Results | None,
    checks: Sequence[Checked] = (),
    failure: RunFailure | None = None,
) -> bytes:
    """Build the document in UTF-8.

    Args:
        run_id: names the suite.
        results: the run's results, or None if it has none.
        checks: its requirements.
        failure: why it failed, or None if it did not.
    """
    suite = ET.Element("testsuite", name=_clean(f"rackrate {run_id}"))
    if results is not None:
        # The format's timestamp has no time zone. Ours is UTC.
        suite.set("timestamp", _clean(results.run.started_at[:19]))
    if results is not None:
        _add_properties(suite, results)
    _add_run(suite, results, failure)
    if results is not None:
        for verdict in (*results.verdicts, *results.regressions):
            _add_verdict(suite, verdict, checks)
    for check in checks:
        _add_check(suite, check)
    if results is not None:
        ET.SubElement(suite, "system-out").text = _clean(_words(results))
    suites = ET.Element("testsuites", name="rackrate")
    seconds = 0.0 if results is None else results.run.seconds
    for element in (suites, suite):
        element.set("tests", str(len(suite.findall("testcase"))))
        for attribute, child in (("failures", "failure"), ("errors", "error")):
            element.set(attribute, str(len(suite.findall(f"testcase/{child}"))))
        element.set("skipped", str(len(suite.findall("testcase/skipped"))))
        element.set("time", f"{seconds:.3f}")
    suites.append(suite)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_properties(suite: ET.Element, results: Results) -> None:
    properties = ET.SubElement(suite, "properties")
    run = results.run
    values = {"run": run.id, "status": run.status, "lab_scale": run.lab_scale}
    for name, value in values.items():
        if value is not None:
            ET.SubElement(properties, "property", name=name, value=_clean(str(value)))


def _add_run(suite: ET.Element, results: Results | None, failure: RunFailure | None) -> None:
    case = _case(suite, "run", "run completed")
    if failure is not None:
        lines = failure.cause.splitlines() or ["no cause given"]
        _problem(case, "error", failure.error or "Unknown error", lines[0], failure.cause)
    elif results is not None and results.trials.failed:
        failed = f"{results.trials.failed} of {results.trials.planned} trials failed"
        ET.SubElement(case, "system-out").text = f"{failed}; the plan tolerates it."


def _add_verdict(suite: ET.Element, verdict: Verdict, checks: Sequence[Checked]) -> None:
    case = _case(suite, f"{verdict.arm} against {verdict.baseline.text}", verdict.name)
    finding = _finding(verdict)
    if verdict.verdict == "worse":
        if not any(check.is_met and verdict in check.verdicts for check in checks):
            _problem(case, "failure", "worse", f"{verdict.name} is worse", finding)
    elif verdict.verdict == "inconclusive":
        why = "; ".join(filter(None, (verdict.reason, verdict.lacks))) or "no reason given"
        ET.SubElement(case, "skipped", message=_clean(f"inconclusive: {why}"))
    ET.SubElement(case, "system-out").text = _clean(finding)


def _add_check(suite: ET.Element, check: Checked) -> None:
    case = _case(suite, "requirements", check.requirement.text)
    if not check.is_met:
        _problem(case, "failure", "RequirementNotMet", check.why, check.why)
    elif check.could_not_fail:
        ET.SubElement(case, "skipped", message=_clean(f"{check.word} ({check.why})"))
    ET.SubElement(case, "system-out").text = _clean(check.why)


def _case(suite: ET.Element, class_name: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_clean(class_name), name=_clean(name))


def _problem(case: ET.Element, tag: str, kind: str, message: str, text: str) -> None:
    problem = ET.SubElement(case, tag, type=_clean(kind), message=_clean(message))
    problem.text = _clean(text)


def _finding(verdict: Verdict) -> str:
    """The verdict and its figures on one line."""
    arm, baseline = verdict.levels
    parts = [
        f"{verdict.verdict}: {shift(baseline, arm, verdict.unit)}",
        change_with_interval(verdict.ratio, verdict.ci_simultaneous),
        verdict.drift and f"drift: {verdict.drift}",
    ]
    return ", ".join(filter(None, parts))


def _words(results: Results) -> str:
    lines = [results.conclusion]
    scale, trials = results.run.lab_scale, results.trials
    if scale is not None:
        lines.append(f"Network scaled by {scale:g}: figures are not EC2's.")
    lines.append(f"{trials.measured} of {trials.planned} trials measured.")
    lines += [f"Failed: {cause.loss.of_trials}" for cause in trials.causes]
    lines += [f"Warning: {warning}" for warning in results.warnings]
    lines += [f"Marked: {note}" for note in results.mark_notes]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
