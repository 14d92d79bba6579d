# `make` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

python := .venv/bin/python
# unit: pure code, the templates and the documentation. integration: the command over real sockets, and
# pages in a real browser. emulation: the emulated AWS. Each in processes of its own, because moto's
# settings and the lab's changes of it are those of a process.
# In both, the files that take longest come first, so that both processes end at about the same time.
unit := tests/acceptance tests/statemachine tests/templates tests/unit tests/docs tests/lint tests/taskcat lab/tests/unit
integration := tests/browser tests/cli
# The unit tests that a new tool can break.
tool := tests/unit/tools tests/unit/plan tests/unit/results tests/unit/measure tests/unit/test_image.py \
	tests/docs/test_pages.py
emulation := lab/tests/aws tests/lab_aws
both_cores := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# scripts/test sets SUITE: core for the tests of `make test`, rest for the others. Without it, all run.
select := $(if $(SUITE),-m "$(if $(filter rest,$(SUITE)),rest,not rest)")
# Measures what the quick tests cover of the domain (pyproject.toml).
coverage := --cov --cov-report=
# All property tests, with more examples of each than `make test` has. Other folders have none.
fuzz_round = $(python) -m pytest --exitfirst --quiet --numprocesses 2 --dist worksteal -m hypothesis \
	--hypothesis-profile=fuzz tests/unit lab/tests/unit tests/cli
seed := $(if $(SEED),--seed $(SEED))
plan := $(if $(PLAN),--plan $(PLAN))
set := $(SET:%=--set %)
compile_for_any = scripts/uv pip compile --quiet --generate-hashes --no-header --no-annotate
compile = $(compile_for_any) --python-version $$(cat .python-version)
shell_scripts = $$(git grep -lE '^\#!.*[/ ](ba|da)?sh$$' -- .)

.PHONY: help
help: ## Say what there is
	@awk -F ':[^#]*## ' '/^[a-z][a-z-]*:[^#]*## / { printf "%-17s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## Make the environments what their locks say
	@scripts/setup

# What checks the templates has environments of its own, which others need not wait for.
.PHONY: venv
venv:
	@scripts/setup .venv

.PHONY: setup-aws
setup-aws: ## Make .venv-aws, with what deploys to AWS and measures there: sam, aws, rackrate
	@scripts/setup .venv-aws

.PHONY: wheel
wheel: ## Build the command's wheel in dist/ and install it from the index with each Python found
	@scripts/wheel

.PHONY: cli-image
cli-image: wheel ## Build the command's container image, rackrate-cli (Docker)
	@docker info >/dev/null 2>&1 || { echo "cli-image: no Docker engine answers here; dist/ has the wheel" >&2; exit 1; }
	docker build --file cli/Dockerfile --tag rackrate-cli dist

.PHONY: release
BUCKET ?= rackrate-releases
REGION ?= us-east-1
release: setup ## Write what a public bucket needs into build/release (BUCKET=name REGION=us-east-1)
	@$(python) -m scripts.release $(BUCKET) $(REGION)

.PHONY: demo
demo: venv ## Run the whole benchmark in a lab that is removed afterwards; SEED=7 repeats places (root)
	@$(python) -m lab demo $(seed)

.PHONY: lab-up
lab-up: venv ## Start a lab with the stack deployed and keep it; SEED=7 repeats places, PLAN=file says what will run, SET='NodeCount=3' parameters, ARGS=--even other options (root)
	@$(python) -m lab up $(seed) $(plan) $(set) $(ARGS)

.PHONY: lab-env
lab-env: venv ## Print the exports that point aws, kubectl and rackrate at the lab
	@$(python) -m lab env

.PHONY: lab-down
lab-down: venv ## Remove the lab (root)
	@$(python) -m lab down

# Other commands for the lab that is up.
lab_commands := lab-calls lab-caps lab-fault lab-karpenter lab-truth
.PHONY: $(lab_commands)
lab-calls: ## Compare the calls of each role with what its policies allow
lab-caps: ## Multiply the caps of some nodes: ARGS='placementGroup=true 0.9' (root)
lab-fault: ## List the faults; ARGS='kubelet-killed' injects one, to Ctrl-C (root)
lab-karpenter: ## Let the cluster have Karpenter's NodePool and EC2NodeClass
lab-truth: ## Print what is true over draws of places; ARGS='--nodes 4' in each arm
$(lab_commands): venv
	@$(python) -m lab $(@:lab-%=%) $(ARGS)

.PHONY: acceptance
acceptance: setup ## Deploy the stack, try all it does, delete it, record AWS's answers (AWS; BUDGET=10 dollars, SHORT=1, PARTS='run draws', SET=…, DRY_RUN=1)
	@$(if $(DRY_RUN),,.venv/bin/sam build >/dev/null)
	@PYTHONPATH=functions:. $(python) -m acceptance $(BUDGET:%=--budget %) $(if $(SHORT),--short) \
		$(PARTS:%=--part %) $(set) $(if $(DRY_RUN),--dry-run)

.PHONY: lab-replay
lab-replay: venv ## Hold the archive of an acceptance against what the lab answers to the same calls; ARCHIVE=file (root)
	@$(python) -m lab replay $(ARCHIVE)

.PHONY: bench
bench: venv ## Compare the benchmark with bare iperf3 in the same lab (root)
	@$(python) -m benchmarks.fidelity docs/plans/demo.json docs/plans/default.json

.PHONY: bench-verdict
bench-verdict: venv ## Prove the verdicts: simulated, their cost, on real traffic (root; 45 minutes)
	@failed=0; \
	for part in verdict draws ranking hunt deciding lab_verdicts lab_gate; do \
		printf '\n== %s\n' "$$part"; \
		$(python) -m "benchmarks.$$part" || failed=1; \
	done; \
	exit "$$failed"

.PHONY: bench-campaign
bench-campaign: venv ## Judge a campaign of six draws in the lab against the truth (root; 12 minutes)
	@$(python) -m benchmarks.lab_campaign

.PHONY: bench-hunt
bench-hunt: venv ## Judge hunts in the lab, with refused launches, against the truth (root; 30 minutes)
	@$(python) -m benchmarks.lab_hunt

.PHONY: bench-start
bench-start: venv ## Measure how long each function takes to start, and what those of a run cost
	@$(python) -m benchmarks.start

.PHONY: bench-page
bench-page: venv ## Write the page of 1000 nodes and time how it opens in Chromium
	@$(python) -m benchmarks.opening

.PHONY: bench-scale
bench-scale: venv ## Count what a run costs from 14 to 1002 simulated nodes; NODES=60 one size (root; 40 minutes)
	@$(python) -m benchmarks.scale $(NODES:%=--nodes %)

.PHONY: test
test: setup ## What protects that which users rely on (root; 12 minutes)
	@scripts/test core

.PHONY: test-rest
test-rest: setup ## All other tests: the lab itself, each option, experiments, pages as scripts (root; 20 minutes)
	@scripts/test rest

# The command's tests wait more than they compute, so they come first, while the lab computes too.
.PHONY: test-quick
test-quick: setup
	@failed=0; \
	$(python) -m pytest $(both_cores) $(select) $(integration) || failed=1; \
	$(python) -m pytest $(both_cores) $(select) $(unit) || failed=1; \
	exit "$$failed"

.PHONY: test-emulation
test-emulation: setup
	@$(python) -m pytest $(both_cores) $(select) $(emulation)

.PHONY: test-side-by-side
test-side-by-side: setup
	@$(python) -m pytest --numprocesses 2 --no-loadscope-reorder $(select) \
		--ignore tests/lab/measured --ignore tests/lab/test_workloads.py tests/lab

.PHONY: test-measured
test-measured: setup
	@$(python) -m pytest $(select) tests/lab/measured

.PHONY: test-unit
test-unit: setup ## The quick tests, on both cores; they need no root
	@$(python) -m pytest $(both_cores) $(unit) $(coverage)
	@.venv/bin/coverage report --sort=cover | awk 'NR < 3 || /^TOTAL/ || $$NF + 0 < 90'

.PHONY: test-integration
test-integration: setup ## The command, the emulated AWS, pages in a browser; they need no root
	@$(python) -m pytest $(both_cores) $(integration)
	@$(MAKE) --no-print-directory test-emulation

.PHONY: test-changed
test-changed: setup ## The quick tests that depend, by imports, on what differs from origin/main; BASE=HEAD~3 is another commit
	@PYTHONPATH=functions:. $(python) -m scripts.changed_tests $(BASE)

.PHONY: test-tool
test-tool: setup ## All that can fail because of a new tool (docs/adding-a-tool.md)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/yamllint --strict templates tests
	.venv/bin/rumdl check docs CHANGELOG.md
	@$(python) -m pytest $(both_cores) $(tool)
	@$(MAKE) --no-print-directory site

.PHONY: test-lab
test-lab: test-side-by-side test-measured ## The tests of the true system in the lab; those that measure run alone (root)

.PHONY: test-workloads
test-workloads: setup ## Run each workload once in the lab, and let it fail (root; 25 minutes, alone; WORKLOAD=etcd runs one)
	@$(python) -m pytest tests/lab/test_workloads.py $(if $(WORKLOAD),-k $(WORKLOAD))

.PHONY: test-updates
test-updates: setup ## Change each parameter of a stack alone, in the emulated AWS (4 minutes)
	@$(python) -m pytest tests/updates

.PHONY: test-faults
test-faults: setup ## Inject each fault of the catalogue into a run or a campaign (root; FAULTS='kubelet etcd' tries those)
	@$(python) -m tests.faults $(FAULTS)

.PHONY: test-frozen
test-frozen: setup ## The quick tests while their processes are frozen most of the time: which wait too short? (root; 30 minutes)
	@$(python) -m scripts.freeze $(python) -m pytest $(both_cores) $(unit)
	@$(python) -m scripts.freeze $(python) -m pytest $(both_cores) $(integration)

.PHONY: fuzz
SECONDS ?= 600
fuzz: setup ## Run the property tests with fresh seeds; SECONDS=600 is for how long
	@timeout $(SECONDS) sh -c 'while :; do \
		round="$(fuzz_round) --hypothesis-seed=$$(shuf -i 0-999999999 -n 1)"; \
		$$round || { echo "It failed. Run it again: $$round"; exit 1; }; \
	done'; test $$? -eq 124

.PHONY: lint
lint: setup ## Formatter, linters and type checker
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/cfn-lint
	@scripts/lint_rules
	@.venv-taskcat/bin/python -W ignore -m scripts.judges
	.venv/bin/yamllint --strict .
	.venv/bin/rumdl check README.md CONTRIBUTING.md CHANGELOG.md docs lint
	.venv/bin/shellcheck $(shell_scripts)
	@$(python) -m scripts.packages
	@$(MAKE) --no-print-directory taskcat-lint site

.PHONY: taskcat-lint
taskcat-lint: setup ## Let taskcat read its tests and lint the templates; needs no AWS
	@.venv-taskcat/bin/python -W ignore tests/taskcat/lint_templates.py

.PHONY: taskcat-package
taskcat-package: setup ## Build and upload what the taskcat tests deploy (AWS; S3_BUCKET=name)
	@$(python) -m scripts.taskcat_tests package

.PHONY: taskcat
taskcat: setup ## Deploy the taskcat tests in AWS and delete them (AWS; S3_BUCKET=name)
	@$(python) -m scripts.taskcat_tests test

.PHONY: format
format: setup ## Let ruff format and mend what it can
	.venv/bin/ruff check --fix --exit-zero .
	.venv/bin/ruff format .

.PHONY: docs
docs: setup ## Write what follows from templates, models and tools anew: docs/, Glue's columns, image/programs.txt
	@PYTHONPATH=functions $(python) -m scripts.references

.PHONY: site
site: setup ## Build the documentation as a site in build/site; a broken link is an error
	PYTHONPATH=functions:. NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

.PHONY: pictures
pictures: setup ## Take the README's pictures of the page that make demo left (RESULTS=out/latest)
	@$(python) -m scripts.pictures $(RESULTS)

.PHONY: lock
lock: ## Recompile the locks from pyproject.toml; LOCK=--upgrade takes newer versions
	$(compile) --group dev $(LOCK) -o requirements/dev.txt
	$(compile) --universal --group aws -c requirements/dev.txt -o requirements/aws.txt
	$(compile_for_any) --universal --python-version 3.12 --group action -c requirements/dev.txt -o requirements/action.txt
	$(compile) --group functions -c requirements/dev.txt -o packages/dependencies.txt
	$(compile) --group report -c requirements/dev.txt -o packages/report.txt \
		$$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' packages/dependencies.txt)
	$(compile) --group go $(LOCK) -o requirements/go.txt
	$(compile) --group taskcat $(LOCK) -o requirements/taskcat.txt
	$(compile) --group checkov $(LOCK) -o requirements/checkov.txt
	$(compile_for_any) --universal --python-version 3.11 --group cfn-lint $(LOCK) -o requirements/cfn-lint.txt

.PHONY: clean
clean: ## Remove what builds and tests left here; the cache and the lab stay
	rm -rf .aws-sam build dist out .taskcat taskcat_outputs .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -path './.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

.PHONY: clean-cache
clean-cache: ## Remove the downloads and builds that clones of this repository share
	cache="$${XDG_CACHE_HOME:-$$HOME/.cache}/rackrate"; \
	if [ -d "$$cache" ]; then chmod -R u+w "$$cache" && rm -rf "$$cache"; fi
