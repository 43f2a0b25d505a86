# Every target does its own set-up in .venv.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLASSES := $(VENV)/spark_classes.jsa
SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
SHARE ?= 1
KILLS ?= 100
TRIPLES ?= 20
FAULTS ?= tests/cluster
CORES ?= Haswell Nehalem
PYTHON311 ?= python3.11
PYTHON313 ?= python3.13
SPARK_CELLS := 3.11-4.1.4 3.11-latest
CELLS := 3.11-4.1.4 3.11-latest 3.13-4.1.4 3.13-latest 3.11-lowest
FAST := not slow and not fuzz and not cluster
WITHOUT_SPARK := tests/core tests/solvers tests/learners tests/features tests/training \
  tests/retraining tests/store tests/trees tests/local tests/serving tests/tables tests/pipeline
# Where versions of Spark, Arrow and pandas meet: rows in and out, storage, pipelines, failed tasks.
WITH_SPARK := \
  $(addprefix tests/spark/test_mba.py::test_,weights_are_ridge_over_all_pairs \
    every_form_of_features_scores_the_same save_and_load pipelines only_one_class) \
  $(addprefix tests/spark/test_evaluate.py::test_,measures_are_those_of_one_process evaluator \
    string_labels_and_vectors_of_two rows_that_cannot_be_measured) \
  $(addprefix tests/spark/test_embeddings.py::test_,the_column_is_what_one_machine_makes \
    saving_and_loading values_that_cannot_be_learnt_from)
ROOMS ?= $(WITHOUT_SPARK)
PROCESSES ?= 2
PYTEST = $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder \
  --durations=12 --durations-min=5

export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.PHONY: help setup java demo test test-arrays test-spark test-slow test-cluster test-connect test-cores coverage matrix matrix-spark image fuzz kill lint docs reproduce bench retrain clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

java:
	@command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" >/dev/null || echo "No Java found: Spark needs 17 or 21, and its tests are skipped. Install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME." >&2

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed, found $$($(PYTHON) --version): set PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: java $(READY) ## make .venv with everything

demo: $(READY) ## train a ranker on made-up raw clicks; ends with its AUC and report
	$(BIN)/python -m spark_auc.app.raw_clicks output/demo
	$(BIN)/spark-auc train train.output.replace=true --data output/demo/clicks.csv --label clicked \
	  --time time --output output/demo/model

test: test-arrays test-spark ## run the tests, but for the slow ones

test-arrays: $(READY) ## the part of make test that needs no Spark; COV=--cov measures its lines
	$(PYTEST) $(COV) -m "$(FAST)" $(WITHOUT_SPARK)

# More than two cores take: a process often waits for its JVM, its workers or the disk.
test-spark test-slow: PROCESSES = 3

test-spark: setup $(CLASSES) ## the other part of make test: estimators, jobs, exports
	$(PYTEST) -m "$(FAST)" $(WITHOUT_SPARK:%=--ignore=%) tests

test-slow: setup $(CLASSES) ## run the slow tests: real data, killed jobs, experiments, examples, S3, MLflow, images; SHARE=0.3 takes fewer cases of each
	@echo "seed $(SEED), share $(SHARE)"
	SPARK_AUC_SLOW_SHARE=$(SHARE) SPARK_AUC_SLOW_SEED=$(SEED) $(PYTEST) -m slow

test-cluster: setup $(CLASSES) ## faults of a real cluster; TRIPLES=5 kills fewer, SEED=1 draws the same, FAULTS=FILE
	@echo "seed $(SEED), $(TRIPLES) triples"
	SPARK_AUC_FAULTS_SEED=$(SEED) SPARK_AUC_FAULTS_TRIPLES=$(TRIPLES) \
	  $(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m cluster -rAs $(FAULTS)

# Where Java cannot write it, JVMs start more slowly.
$(CLASSES): $(READY) tests/cluster/classes.py
	-$(BIN)/python -m tests.cluster.classes

# Servers of one machine would share a port, so that there is one process.
test-connect: setup ## run the tests of Spark on Spark Connect
	$(BIN)/python -m pytest --connect -m "not slow and not fuzz" tests/spark

test-cores: $(READY) ## run the tests without Spark under the BLAS kernels of more processors; ROOMS=DIRS takes fewer
	for core in $(CORES); do echo "$$core"; OPENBLAS_CORETYPE=$$core \
	  $(PYTEST) -m "$(FAST)" $(ROOMS) || exit; done

coverage: ## the lines that the tests without Spark run, and their floor
	$(MAKE) test-arrays COV=--cov

matrix: $(CELLS:%=matrix-%) matrix-spark ## test on Python 3.11 and 3.13, Spark 4.1.4 and latest, and the lowest versions

# An environment for each cell; the first of the two words of its name is the Python version.
python_of = $(if $(filter 3.11-%,$*),$(PYTHON311),$(PYTHON313))
.venv-%/.ready: pyproject.toml constraints.txt tests/versions.py
	@$(python_of) -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(firstword $(subst -, ,$*))")' \
	  || { echo "Python $(firstword $(subst -, ,$*)) is needed, not found as $(python_of): set PYTHON311=... and PYTHON313=..." >&2; exit 2; }
	rm -rf .venv-$*
	$(python_of) -m venv .venv-$*
	.venv-$*/bin/python tests/versions.py $* > .venv-$*/constraints.txt
	.venv-$*/bin/pip install --quiet --disable-pip-version-check --constraint .venv-$*/constraints.txt --editable '.[dev]'
	.venv-$*/bin/python tests/versions.py $* --check
	@touch $@

in_cell = PYSPARK_PYTHON=$(CURDIR)/.venv-$*/bin/python PYSPARK_DRIVER_PYTHON=$(CURDIR)/.venv-$*/bin/python \
  NUMBA_CACHE_DIR=$(CURDIR)/.venv-$*/numba .venv-$*/bin/python -m pytest -p no:cacheprovider \
  -m "not slow and not fuzz"
.PRECIOUS: .venv-%/.ready
matrix-%: java .venv-%/.ready
	$(in_cell) --numprocesses 2 --dist loadfile --no-loadscope-reorder $(WITHOUT_SPARK) $(WITH_SPARK)

matrix-spark: $(SPARK_CELLS:%=matrix-spark-%) ## run all tests of Spark on 4.1.4 and latest, classic and Connect; an hour and more

matrix-spark-%: java .venv-%/.ready
	$(in_cell) --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/spark
	$(in_cell) --connect tests/spark

image: setup ## run the Dockerfiles' steps and Kubernetes' jobs in a Debian root; needs root
	$(BIN)/python -m tests.image.steps --file docker/embedded.Dockerfile
	$(BIN)/python -m tests.image.steps

fuzz: setup ## random inputs against oracles; SHARE=0.1 takes a tenth of them, SEED=1 repeats a run
	@echo "seed $(SEED), share $(SHARE)"
	SPARK_AUC_FUZZ_SHARE=$(SHARE) $(PYTEST) -m fuzz --hypothesis-seed=$(SEED) tests/fuzz

kill: setup ## kill a retraining at random moments, on both engines; KILLS=5 takes fewer, SEED=1 draws the same
	$(BIN)/python -m benchmarks.retraining_kill --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m benchmarks.retraining_kill --kills $(KILLS) --seed $(SEED) --engine local

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY) ## build the documentation in output/site; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reproduce: setup ## run the papers' experiments, at most 4 hours; QUICK=1: 20 minutes; ARGS="mba_table2 --full" chooses
	$(BIN)/python -m experiments.reproduce $(if $(QUICK),--quick) $(ARGS)

bench: setup ## measure against the scan and Spark ML logistic regression
	$(BIN)/python -m benchmarks.main_job

retrain: setup ## retrain on 60 days by spark-submit, beside an oracle and logistic regression
	$(BIN)/python -m benchmarks.retraining

clean: ## remove the environments and outputs
	rm -rf $(VENV) $(CELLS:%=.venv-%) output
