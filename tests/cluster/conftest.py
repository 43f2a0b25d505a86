"""The seed of a run, and the number of its faults."""

import os
import random

SEED = int(os.environ.get("SPARK_AUC_FAULTS_SEED") or random.SystemRandom().randrange(2**32))
TRIPLES = int(os.environ.get("SPARK_AUC_FAULTS_TRIPLES") or 20)


def pytest_report_header():
    return f"faults of a cluster: seed {SEED}, {TRIPLES} triples"
