"""Let taskcat read .taskcat.yml and lint each template. Runs in .venv-taskcat, offline.

Usage: lint_templates.py [CONFIGURATION]

`taskcat lint` lints the template of each test once per test, so its time grows with the square of
their number. It follows only nested templates with URLs of S3. This script lints each template of
the checkout once. Exits with 1 on any error.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from taskcat._cfn_lint import Lint
from taskcat._config import Config
from taskcat._dataclasses import BaseConfig

ROOT = Path(__file__).resolve().parents[2]
ROOTS = [ROOT / "template.yaml", ROOT / "existing-cluster.yaml"]
TEMPLATES = [*ROOTS, *sorted((ROOT / "templates").glob("*.yaml"))]


def of_one_template(read: Config, template: Path) -> Config:
    """The configuration with one test, for one template."""
    project = read.config.project.to_dict() | {"template": str(template.relative_to(ROOT))}
    config = Config(sources=[], uid=read.uid, project_root=ROOT)
    config.config = BaseConfig.from_dict({"project": project, "tests": {"lint": {}}})
    return config


def main() -> int:
    logging.getLogger("taskcat").setLevel(logging.WARNING)
    configuration = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".taskcat.yml"
    nowhere = ROOT / "none"
    read = Config.create(
        project_config_path=configuration,
        project_root=ROOT,
        global_config_path=nowhere,
        overrides_path=nowhere,
        env_vars={},
    )
    passed = True
    for template in TEMPLATES:
        config = of_one_template(read, template)
        lint = Lint(config, config.get_templates(), strict=True)
        lint.output_results()
        passed &= lint.passed and not lint.lints[1]
    if passed:
        print(f"taskcat: {len(read.config.tests)} tests and {len(TEMPLATES)} templates pass")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
