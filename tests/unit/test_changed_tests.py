"""`make test-changed` runs what depends on the changed files."""

from __future__ import annotations

import pytest

from scripts.changed_tests import dependent_tests


@pytest.mark.parametrize(
    ("path", "dependent", "independent"),
    [
        ("functions/rackrate/plan/costs.py", "unit/plan/test_costs", "unit/verdict/test_marks"),
        ("functions/rackrate/verdict/marks.py", "unit/verdict/test_marks", "unit/plan/test_prices"),
        ("functions/rackrate/stages/run/plan.py", "unit/stages/test_plan", "unit/plan/test_costs"),
        ("cli/printing/junit.py", "cli/test_junit", "unit/plan/test_costs"),
        ("tests/cli/conftest.py", "cli/test_junit", "unit/plan/test_costs"),
        ("docs/cli.md", "docs/test_pages", "unit/plan/test_costs"),
        ("templates/network.yaml", "templates/test_templates", "cli/test_junit"),
        ("functions/rackrate/report/page.css", "unit/report/test_page", "unit/plan/test_costs"),
    ],
)
def test_tests_that_import_a_changed_file_are_listed_and_no_others(path, dependent, independent):
    tests = dependent_tests([path])
    assert f"tests/{dependent}.py" in tests
    assert f"tests/{independent}.py" not in tests


def test_tests_that_need_root_are_not_listed():
    tests = dependent_tests(["lab/daemon.py", "tests/lab/conftest.py"])
    assert not [test for test in tests if test.startswith("tests/lab/")]


def test_a_file_that_nothing_reads_has_no_tests():
    assert dependent_tests(["LICENSE"]) == []
